# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the adapter `processes`: hosts that work off a queue of files.

It works in the folder of the service (see cobweb_pool_folder.py for what that holds). A member is
`up` while its owner's file is there, its prologue has ended well with the `with` of the spec, its
worker lives, and no mark says that it drains; `down` if no file and no process of it is left; else
`draining`, and the message says what is not as it should be. Join and resume make of each of these
what the spec says. The owner's file has the `stage` that was reached: `prologue` before that has
ended well, `work` after it, `epilogue` from the beginning of that. A worker is known by pid, start
time and boot; what its jobs have started, by the environment that they got from it.
Every step may be repeated and interrupted anywhere.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils import cobweb_pool_folder as pool_folder
from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_pool_folder import (
    RUNNING,
    Member,
    jobs_in,
    locked,
    read_owner,
    there,
)
from ansible.module_utils.cobweb_pool_member import (
    claim,
    drop_mark,
    is_left,
    members_of,
    observed,
    observed_members,
    record,
    refuse_work,
    release,
    require,
    service_folder,
    set_mark,
    stranger,
)
from ansible.module_utils.cobweb_tools import digest

DEFAULTS = {"prologue": "", "epilogue": ""}
FOLDERS = ("queue", "output", "done", "log")
END_S = 10.0
"""How long what is left of a worker may take to end after SIGTERM."""


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    now, *earlier = members_of(cob, RUNNING)
    for member in earlier:
        if _is_there(member):
            return {"state": "draining", "message": f"is still a member in {member.folder}"}
    if not _is_there(now):
        other = stranger(now)
        return {"state": "down", "message": f"is a member of the service {other}" if other else ""}
    problem = _problem(now)
    state = "draining" if problem or there(now.mark) else "up"
    return {"state": state, "message": problem}


def join(cob: Dict[str, Any]) -> Answer:
    """Let it take jobs, by the `with` of the spec."""
    now, *earlier = members_of(cob, RUNNING)
    for member in earlier:
        _leave(member, mark_first=True)
    now.folder.mkdir(parents=True, exist_ok=True)
    with locked(now):
        if check(cob)["state"] == "up":
            return {"changed": False}
        _set_up(now)
        drop_mark(now)
    return {"changed": True}


def drain(cob: Dict[str, Any]) -> Answer:
    """Let no new job begin."""
    members = members_of(cob, RUNNING)
    found = [member for member in members if is_left(member)] or members[:1]
    changed = [_drain(member) for member in found]
    return {"changed": any(changed)}


def leave(cob: Dict[str, Any]) -> Answer:
    """End the worker and remove the member, unless jobs are at work."""
    changed = [_leave(member) for member in members_of(cob, RUNNING)]
    return {"changed": any(changed)}


def observe(cob: Dict[str, Any]) -> Answer:
    """Say what the service has.

    A job that is taken meanwhile counts as waiting and as at work, rather than not at all.
    """
    pending = len(jobs_in(service_folder(cob["spec"]) / "queue"))
    members = observed_members(cob["spec"], RUNNING)
    return observed(cob["spec"], members, {"pending": pending})


def _is_there(member: Member) -> bool:
    return is_left(member) or (not stranger(member) and bool(_processes(member)))


def _problem(member: Member) -> str:
    """Return why the member is not as the spec says, nothing if it is."""
    owner = read_owner(member.owner)
    if owner is None:
        pids = ", ".join(map(str, _processes(member)))
        return f"{member.owner} is gone" + (f", and processes live: {pids}" if pids else "")
    stage = owner.get("stage")
    if stage != "work":
        return f"its {stage or 'prologue'} has not ended well"
    if not supervision.alive(_worker(member)):
        return f"its worker has died; its output is in {member.folder / 'log' / member.name}"
    if owner.get("with") != _digest(member):
        return "works by an earlier `with`"
    return ""


def _worker(member: Member) -> Optional[List[int]]:
    """Return pid and start time of the worker since the boot, if it was started since then."""
    owner = read_owner(member.owner) or {}
    pid = owner.get("pid", 0)
    if owner.get("boot") != supervision.boot_id() or not _is_worker(member, pid):
        return None
    return [pid, owner.get("started", 0)]


def _is_worker(member: Member, pid: int) -> bool:
    """Say whether a process works for this member: a copied owner's file names another's worker."""
    try:
        words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[-3:-1] == [os.fsencode(str(member.folder)), os.fsencode(member.name)]


def _processes(member: Member) -> List[int]:
    """Return the worker, and what its jobs have started."""
    return supervision.members(member.jobs, _worker(member))


def _digest(member: Member) -> str:
    return digest({**DEFAULTS, **member.given})


def _set_up(member: Member) -> None:
    claim(member)
    for name in FOLDERS:
        (member.folder / name).mkdir(exist_ok=True)
    owner = read_owner(member.owner) or {}
    since_boot = owner.get("boot") == supervision.boot_id()
    if not since_boot or owner.get("stage") != "work" or owner.get("with") != _digest(member):
        record(member, stage="prologue")
        _run_script(member, "prologue")
        record(member, **{"stage": "work", "with": _digest(member)})
    if not supervision.alive(_worker(member)):
        # Its jobs begin anew: two of them must not be at work at once.
        _end_processes(member)
        _put_back(member)
        _start_worker(member)


def _drain(member: Member) -> bool:
    with locked(require(member)):
        if not _processes(member):
            _put_back(member)
        return set_mark(member)


def _leave(member: Member, *, mark_first: bool = False) -> bool:
    if not there(member.folder):
        pids = ", ".join(map(str, _processes(member)))
        if pids:
            raise Failed(f"{member.folder} is missing, and processes of its member live: {pids}")
        return False
    with locked(member):
        if not _is_there(member):
            return False
        if mark_first:
            set_mark(member)
        if _processes(member):
            refuse_work(member, "jobs")
        _put_back(member)
        claim(member)
        set_mark(member)
        record(member, stage="epilogue")
        _run_script(member, "epilogue")
        _end_processes(member)
        release(member)
    return True


def _put_back(member: Member) -> None:
    """Let the jobs of a worker that has died wait again, the oldest first as before."""
    for name in jobs_in(member.jobs):
        goal, number = member.folder / "queue" / name, 1
        while there(goal):
            number += 1
            goal = goal.with_name(f"{name}~{number}")
        (member.jobs / name).rename(goal)


def _end_processes(member: Member) -> None:
    supervision.terminate(member.jobs, _worker(member), "SIGTERM", END_S)


def _start_worker(member: Member) -> None:
    """Start a worker, which waits for the lock that is held here and then finds its own pid."""
    log = member.folder / "log" / member.name
    with log.open("ab") as output:
        done = subprocess.run(
            [sys.executable, "-I", "-", str(member.folder), member.name],
            cwd="/",
            env=_environment(member),
            input=inspect.getsource(pool_folder).encode(),
            stdout=subprocess.PIPE,
            stderr=output,
            check=False,
        )
    known = supervision.identity(int(done.stdout)) if done.returncode == 0 else None
    if known is None:
        raise Failed(f"the worker of {member.resource} does not start; its output is in {log}")
    pid, started = known
    record(member, pid=pid, started=started, boot=supervision.boot_id())


def _environment(member: Member) -> Dict[str, str]:
    mark = {supervision.MARKER: str(member.jobs)}
    return {**supervision.login_environment(), **_about(member), **mark}


def _about(member: Member) -> Dict[str, str]:
    return {"COBWEB_SERVICE": member.service, "COBWEB_RESOURCE": member.resource}


def _run_script(member: Member, name: str) -> None:
    """Run a script of `with`; it is handed to the shell as an open file, for it may have secrets.

    It stays in the process group of the task, so that an interrupt of the run ends it too.
    """
    text = member.given.get(name, "")
    if not text:
        return
    with tempfile.TemporaryFile() as script, tempfile.TemporaryFile() as errors:
        script.write(text.encode())
        script.flush()
        code = subprocess.run(
            ["/bin/sh", "-e", f"/dev/fd/{script.fileno()}"],
            cwd="/",
            env={**os.environ, **_about(member)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(script.fileno(),),
            check=False,
        ).returncode
        errors.seek(0)
        lines = errors.read().decode("utf-8", errors="replace").strip().splitlines()
    if code:
        how = lines[-1] if lines else f"exit status {code}"
        raise Failed(f"`{name}` of {member.service} on {member.resource} failed: {how}")


if __name__ == "__main__":
    steps = {"join": join, "drain": drain, "resume": join, "leave": leave}
    run({"check": check, "observe": observe, **steps})
