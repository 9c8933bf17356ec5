"""The supervisor of a `process` COB, and how its processes are found again.

Standard library only, Python 3.8 or newer, Linux. The file has two lives: the module
`cobweb_process` imports it, and copies it into the home folder of each process, where it runs as
`python3 -I supervisor.py HOME` in the background until it gets SIGTERM.

A home holds `spec.json` (what to run), `status.json` (who runs now), `lock` (held by the supervisor
as long as it lives, and telling who that is) and `log`. A process is known by pid, start time and
boot, so that a pid that was given out again is never taken for it. What belongs to a supervised
process is its session, and whatever carries its home in the environment: daemons leave the one, and
some wipe the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

MARKER = "COBWEB_PROCESS"
POLL_S = 0.02
KILL_WAIT_S = 5.0
BACKOFF_MAX_S = 60.0
STEADY_S = 60.0
LOG_LIMIT_BYTES = 10 * 1024 * 1024
ALREADY_SUPERVISED = 3
VERSION = 1


class Row(NamedTuple):
    """A line of the process table; `start` counts clock ticks since the boot."""

    pid: int
    parent: int
    session: int
    start: int


def read_row(pid: int) -> Optional[Row]:
    """Read a process from /proc; None if there is none or it has ended (a zombie)."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Row(pid=pid, parent=int(fields[1]), session=int(fields[3]), start=int(fields[19]))


def boot_id() -> str:
    """Name the running kernel: start times count from its boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()


def identity(pid: int) -> Optional[List[int]]:
    """Return `[pid, start]` of a living process."""
    row = read_row(pid)
    return [pid, row.start] if row else None


def alive(known: Optional[List[int]]) -> bool:
    """Say whether the very process of an `identity` still lives."""
    return known is not None and identity(known[0]) == known


def members(home: Path, leader: Optional[List[int]]) -> List[int]:
    """Return the pids that belong to the process of `home`, without the supervisor, sorted."""
    return sorted(row.pid for row in _rows() if _belongs(row, home, leader))


def terminate(
    home: Path,
    leader: Optional[List[int]],
    signal_name: str,
    timeout_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """End all that belongs to `home`: the signal, then SIGKILL after `timeout_s`; wait for the end.

    `pause` passes the seconds between two looks. TimeoutError if something outlives SIGKILL (it
    hangs in the kernel).
    """
    for number in (getattr(signal, signal_name), signal.SIGCONT):  # for those that are stopped
        signal_all(members(home, leader), number)
    if _wait_gone(home, leader, timeout_s, pause):
        return
    deadline = time.monotonic() + KILL_WAIT_S
    while time.monotonic() < deadline:
        signal_all(members(home, leader), signal.SIGKILL)
        if _wait_gone(home, leader, POLL_S, pause):
            return
    raise TimeoutError(f"processes {members(home, leader)} do not end, not even by SIGKILL")


def children(parents: List[int]) -> List[int]:
    """Return the pids of processes whose parent is one of these."""
    return [row.pid for row in _rows() if row.parent in parents]


def signal_all(pids: List[int], number: int) -> None:
    """Send a signal to each that still lives."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_tree(root: int) -> None:
    """Stop a process and all that descends from it, so that none forks, then kill them."""
    stopped: List[int] = []
    found = [root]
    deadline = time.monotonic() + KILL_WAIT_S
    while found and time.monotonic() < deadline:
        signal_all(found, signal.SIGSTOP)
        stopped += found
        found = [pid for pid in children(stopped) if pid not in stopped]
    signal_all(stopped, signal.SIGKILL)
    while any(map(read_row, stopped)) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def read_json(path: Path) -> Dict[str, Any]:
    """Read a JSON object; an absent or damaged file is an empty one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, data: Dict[str, Any], *, durable: bool = False) -> None:
    """Replace a file in one step; only its owner may read it.

    A durable one is on the disk before this returns, and so is its name.
    """
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(data, stream)
        if durable:
            stream.flush()
            os.fsync(handle)
    draft.replace(path)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_status(home: Path) -> Dict[str, Any]:
    """Read who runs in `home`; what was written before the last boot says nothing any more."""
    return _since_boot(home / "status.json")


def read_holder(home: Path) -> Optional[List[int]]:
    """Read who took the lock of `home` last, if that is told yet; who has it tells at once."""
    holder: Optional[List[int]] = _since_boot(home / "lock").get("supervisor")
    return holder


@contextlib.contextmanager
def one_at_a_time(home: Path) -> Iterator[None]:
    """Wait until no other transition works on `home`: one may go on after its run was killed."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "transition.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def login_environment() -> Dict[str, str]:
    """Return what a login would set: nothing of Ansible's own environment leaks into a service."""
    user = pwd.getpwuid(os.geteuid())
    base = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "LANG": "C.UTF-8"}
    base["PATH"] = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return base


def how_it_ended(code: int) -> str:
    """Say how a process ended whose return code is that of `Popen`."""
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:  # Most real-time signals have no name.
        return f"ended by signal {-code}"


def take(lock: int) -> bool:
    """Take the right to supervise; say whether it was free."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Supervisor:
    """Keeps one command running until SIGTERM; made and run by `main` alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.spec = read_json(home / "spec.json")
        self.child: Optional[subprocess.Popen[bytes]] = None
        self.leader: Optional[List[int]] = None
        self.last_end = ""
        self.starts = 0

    def run(self) -> None:
        """Start the command again and again, as the spec says; return once it must not run."""
        delay_s = float(self.spec["backoff"])
        while True:
            began = time.monotonic()
            self._start()
            stopped = self._watch()
            self._clean_up()
            if stopped or not self.spec["restart"]:
                return
            if time.monotonic() - began > STEADY_S:
                delay_s = float(self.spec["backoff"])
            if _sleep_until_stopped(delay_s):
                return
            delay_s = min(delay_s * 2, BACKOFF_MAX_S)

    def write_status(self) -> None:
        """Tell the module who runs here."""
        write_json(
            self.home / "status.json",
            {
                "version": VERSION,
                "boot": boot_id(),
                "digest": self.spec["digest"],
                "supervisor": identity(os.getpid()),
                "child": self.leader,
                "starts": self.starts,
                "last_end": self.last_end,
            },
        )

    def _start(self) -> None:
        self.starts += 1
        with _rotated_log(self.home).open("ab") as log:
            try:
                self.child = subprocess.Popen(
                    self.spec["command"],
                    cwd=self.spec["cwd"],
                    env=self.spec["env"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    # The supervisor takes its signals by sigtimedwait, the child must not inherit
                    # that they are blocked. There is one thread, so this is safe after the fork.
                    preexec_fn=_unblock_signals,  # noqa: PLW1509
                )
            except OSError as error:
                self.child, self.leader = None, None
                self.last_end = f"cannot be started: {error}"
            else:
                self.leader = identity(self.child.pid) or [self.child.pid, 0]
        self.write_status()

    def _watch(self) -> bool:
        while self.child is not None and self.child.poll() is None:
            if signal.sigwait(_WATCHED) in _STOPPING:
                return True
        if self.child is not None:
            self.last_end = how_it_ended(self.child.returncode)
        return False

    def _clean_up(self) -> None:
        stop_signal, timeout_s = str(self.spec["stop_signal"]), float(self.spec["stop_timeout"])
        terminate(self.home, self.leader, stop_signal, timeout_s)
        if self.child is not None:
            self.child.wait()
        self.child, self.leader = None, None
        self.write_status()


def main(home: Path) -> int:
    """Supervise the process of `home` in the background; return once that has begun.

    ALREADY_SUPERVISED if another supervisor does it; 1 if this one ended at once.
    """
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock):
        return ALREADY_SUPERVISED
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        return 0 if os.read(reader, 1) else 1
    os.close(reader)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    _tell_holder(lock)
    supervisor = Supervisor(home)
    supervisor.write_status()
    os.write(writer, b"+")
    os.close(writer)
    supervisor.run()
    return 0


_STOPPING = {signal.SIGTERM, signal.SIGINT}
_WATCHED = {signal.SIGCHLD, signal.SIGHUP, *_STOPPING}


def _tell_holder(lock: int) -> None:
    holder = {"version": VERSION, "boot": boot_id(), "supervisor": identity(os.getpid())}
    os.ftruncate(lock, 0)
    os.write(lock, json.dumps(holder).encode())


def _since_boot(path: Path) -> Dict[str, Any]:
    found = read_json(path)
    return found if found.get("boot") == boot_id() else {}


def _rows() -> Iterator[Row]:
    for entry in Path("/proc").iterdir():
        row = read_row(int(entry.name)) if entry.name.isdigit() else None
        if row is not None:
            yield row


def _belongs(row: Row, home: Path, leader: Optional[List[int]]) -> bool:
    if leader is not None and row.session == leader[0]:
        # While the leader's pid is in use by someone else, so is the number of the session.
        now = identity(leader[0])
        return now in (None, leader) and row.start >= leader[1]
    return _is_marked(row.pid, home)


def _is_marked(pid: int, home: Path) -> bool:
    try:
        environment = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{MARKER}={home}") in environment.split(b"\0")


def _wait_gone(
    home: Path, leader: Optional[List[int]], timeout_s: float, pause: Callable[[float], None]
) -> bool:
    deadline = time.monotonic() + timeout_s
    while members(home, leader):
        if time.monotonic() > deadline:
            return False
        pause(POLL_S)
    return True


def _sleep_until_stopped(delay_s: float) -> bool:
    deadline = time.monotonic() + delay_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return False
        found = signal.sigtimedwait(_WATCHED, left_s)
        if found is not None and found.si_signo in _STOPPING:
            return True


def _rotated_log(home: Path) -> Path:
    log = home / "log"
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(home / "log.1")
    return log


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
