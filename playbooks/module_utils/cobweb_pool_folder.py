"""The folder of a service whose members are files, and the worker of a member that is a host.

Standard library only, Python 3.8 or newer, Linux. The file has two lives: the modules of the
adapters `processes` and `counter` import it, and `cobweb_pool_process` hands it to Python on a
member, `python3 -I - FOLDER NAME`, which leaves a worker in the background.

A folder holds `members/NAME` (whose member it is), `draining/NAME` (it takes no new work) and
`locks/NAME` (held for every step of the member); `queue/JOB` (what waits), `running/NAME/JOB` (what
is at work there), `done/JOB.EXITCODE`, `output/JOB` and `log/NAME` of the adapter `processes`;
`uses/NAME/USE` of the adapter `counter`. All names that begin with a dot are drafts.

The worker takes a job by renaming it, while it holds the lock of its member and has seen there that
the member is its own and not draining: so nothing begins after a step that has set the mark.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

RUNNING = "running"
USES = "uses"
POLL_S = 0.2
NAME_LIMIT_BYTES = 240
"""Longer names are no jobs: their exit status would make them longer than a name can be."""


class Member(NamedTuple):
    """A resource in a folder; `work` is the kind of folder that holds what is at work there.

    The worker knows the first three alone.
    """

    folder: Path
    name: str
    work: str
    service: str = ""
    resource: str = ""
    given: Dict[str, Any] = {}  # noqa: RUF012 - a default that nobody changes

    @property
    def owner(self) -> Path:
        """Return the file that says whose member it is."""
        return self.folder / "members" / self.name

    @property
    def mark(self) -> Path:
        """Return the file that is there while nothing new may begin."""
        return self.folder / "draining" / self.name

    @property
    def jobs(self) -> Path:
        """Return the folder of what is at work."""
        return self.folder / self.work / self.name


def there(path: Path) -> bool:
    """Say whether something is at `path`; OSError where nobody can know."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def jobs_in(folder: Path) -> List[str]:
    """Return the names of the jobs in a folder, sorted; one that is missing has none."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _is_job(entry))
    except FileNotFoundError:
        return []


def read_owner(path: Path) -> Optional[Dict[str, Any]]:
    """Read the file of a member; a damaged one is empty, None is no file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def locked(member: Member) -> Iterator[None]:
    """Wait until nobody else changes what the member has, and keep others waiting."""
    locks = member.folder / "locks"
    with contextlib.suppress(FileExistsError):
        locks.mkdir()
    with (locks / member.name).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def work(member: Member) -> None:
    """Carry out one job after the other, as long as the owner's file names this process."""
    while True:
        with locked(member):
            if (read_owner(member.owner) or {}).get("pid") != os.getpid():
                return
            job = None if there(member.mark) else _take(member)
        if job is None:
            time.sleep(POLL_S)
        else:
            _carry_out(member, job)


def main(member: Member) -> None:
    """Write the pid of a worker that begins in the background, in a session of its own.

    Its errors go where those of this process go, and so does all else that it says.
    """
    child = os.fork()
    if child:
        sys.stdout.write(f"{child}\n")
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    work(member)


def _is_job(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    short = len(os.fsencode(name)) <= NAME_LIMIT_BYTES
    return short and not name.startswith(".") and entry.is_file()


def _take(member: Member) -> Optional[str]:
    """Take the oldest job that waits."""
    member.jobs.mkdir(parents=True, exist_ok=True)
    queue = member.folder / "queue"
    for name in sorted(jobs_in(queue), key=lambda name: (_age_key(queue / name), name)):
        # Another member may have been faster.
        with contextlib.suppress(FileNotFoundError):
            (queue / name).rename(member.jobs / name)
            return name
    return None


def _age_key(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _carry_out(member: Member, name: str) -> None:
    job = member.jobs / name
    with (member.folder / "output" / name).open("wb") as output:
        code = subprocess.call(
            ["/bin/sh", str(job)],
            cwd=member.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    status = code if code >= 0 else 128 - code  # as a shell says it
    # A job may remove its own file.
    with contextlib.suppress(FileNotFoundError):
        job.replace(member.folder / "done" / f"{name}.{status}")


if __name__ == "__main__":
    main(Member(Path(sys.argv[1]), sys.argv[2], RUNNING))
