# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `phase`: check, start, restart, end and stop a phase on a node.

The home of a phase is `STATE_DIR/applications/APPLICATION/HOST/PHASE` (see
cobweb_phase_supervisor.py for what it holds and who holds its lock). Beside it lies `hosts.json`,
the members of an instance, which the controller writes before a start, with how often each of their
phases may be started. The command of an instance is started once by `start`, however often that is
repeated or cut off: the supervisor says in the status, durably, that it launches the command before
it does, and nothing but `restart` starts what was ever launched, no more often than that. A start
that was cut off before that (`starting`, without a supervisor) is begun again. A phase is `running`
while its supervisor lives and its health check ends well; `done` if it has ended with 0; `broken`
if it has ended otherwise, is not healthy, was lost, or is another instance's; `down` if nothing
lives and this instance was not started, or was stopped. Every action may be repeated and
interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import inspect
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional
from urllib.parse import quote

from ansible.module_utils import cobweb_phase_supervisor as phase_supervision
from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed, run, state_dir

DEFAULTS: Dict[str, Any] = {
    "cwd": "/",
    "env": {},
    "timeout": None,
    "health": None,
    "every": 5,
    "health_timeout": 10,
    "stop_signal": "SIGTERM",
    "stop_timeout": 10,
    "orphan": 0,
}
TIMES = ("every", "health_timeout", "stop_timeout", "orphan")
HOSTS_MARK = "@cobweb-hosts@"
SCRIPT = "cobweb_phase_supervisor.py"
START_WAIT_S = 60.0
"""So long a supervisor may take to start the command, on a node that has much else to do."""
END_WAIT_S = 5.0
FREE_WAIT_S = 5.0
"""So long others may have the lock who only wait for it."""
SUPERVISOR_GRACE_S = 10.0
ENVIRONMENT_LIMIT = 100_000
"""Linux takes no longer text than 128 KiB into an environment; the file has all names."""
MEMORY = 100
"""So many earlier instances are known, none of which is started again."""
LOOKS = 100
LOST = "its supervisor was lost"
BOOTED = "the host was booted since it was started"


class Seen(NamedTuple):
    """The status of a phase, and whether its supervisor lives."""

    status: Dict[str, Any]
    supervised: bool

    def is_of(self, instance: str) -> bool:
        """Say whether the status is that of an instance."""
        return bool(instance) and self.status.get("instance") == instance

    @property
    def was_cut_off(self) -> bool:
        """Say whether its start ended before the command was launched."""
        return not self.supervised and self.status.get("state") == "starting"

    @property
    def next_start(self) -> int:
        """Return which start of the instance the next one is; one that was cut off is none."""
        return int(self.status["starts"]) + (0 if self.was_cut_off else 1)

    @property
    def was_done(self) -> bool:
        """Say whether it had ended well when it was stopped."""
        return self.status.get("state") == "stopped" and self.status.get("was") == "done"

    @property
    def is_at_work(self) -> bool:
        """Say whether its end is still to be told by a supervisor."""
        return self.supervised and self.status.get("state") in ("starting", "launching", "running")

    @property
    def has_succeeded(self) -> bool:
        """Say whether the phase has ended well."""
        return self.status.get("state") == "ended" and self.status["code"] == 0


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    home, instance = _home(cob), cob["spec"]["instance"]
    seen = _look(home)
    if seen.is_of(instance):
        return _state(seen)
    if not _lives(home, seen):
        return {"state": "down"}
    if not instance:
        return {"state": "running"}
    return {"state": "broken", "message": _at_work(seen)}


def start(cob: Dict[str, Any]) -> Answer:
    """Start the phase, unless this instance's was started before."""
    home = _made_home(cob)
    with supervision.one_at_a_time(home):
        seen, starts, lost_bytes = _look(home), 1, 0
        if cob["spec"]["instance"] in seen.status.get("before", ()):
            raise Failed(f"instance {cob['spec']['instance']} was started here before another one")
        if seen.is_of(cob["spec"]["instance"]) and seen.was_cut_off:
            starts, lost_bytes = seen.next_start, seen.status["lost_bytes"]
        elif seen.is_of(cob["spec"]["instance"]):
            _refuse_second_start(cob["spec"]["instance"], seen)
            if seen.was_done:
                _write_status(home, {**seen.status, "state": "ended"})
            return {"changed": False}
        told = _told(cob, home, starts=starts)
        with _lock_of_nobody(home) as lock:
            if _pids(home, seen):
                raise Failed(_at_work(seen))
            _begin(home, told, lock, lost_bytes)
        _wait_started(cob, home)
    return {"changed": True}


def restart(cob: Dict[str, Any]) -> Answer:
    """Start the phase of the same instance again if it is broken, ending what lives of it.

    One that runs was started again by whoever had the transition before: once is enough.
    """
    home, instance = _made_home(cob), cob["spec"]["instance"]
    with supervision.one_at_a_time(home):
        seen = _look(home)
        if not seen.is_of(instance):
            other = f"instance {instance} was not started here, and cannot be restarted"
            raise Failed(_at_work(seen) if _lives(home, seen) else other)
        if seen.status["state"] == "stopped":
            raise Failed(_was_stopped(instance))
        if _state(seen)["state"] in ("running", "done"):
            return {"changed": False}
        if seen.next_start > _most_starts(cob):
            raise Failed(_problem(seen))
        told = _told(cob, home, seen.next_start)
        with _nobody_supervises(home, phase_supervision.END) as lock:
            seen = _terminate(home)
            if seen.has_succeeded:  # It has ended by itself meanwhile.
                return {"changed": False}
            _begin(home, told, lock, seen.status["lost_bytes"])
        _wait_started(cob, home)
    return {"changed": True}


def end(cob: Dict[str, Any]) -> Answer:
    """Take down that the phase has ended well; Failed if it has not."""
    home, instance = _home(cob), cob["spec"]["instance"]
    deadline = time.monotonic() + END_WAIT_S
    seen = _look(home)
    while seen.is_of(instance) and seen.is_at_work and time.monotonic() < deadline:
        time.sleep(supervision.POLL_S)
        seen = _look(home)
    if not seen.is_of(instance):
        raise Failed(f"instance {instance} was not started here")
    if not seen.has_succeeded:
        found = _state(seen)
        raise Failed(f"{cob['id']} {found.get('message') or 'is still at work'}")
    return {"changed": False}


def stop(cob: Dict[str, Any]) -> Answer:
    """End the phase, its supervisor and all that it started, of whatever instance."""
    home = _home(cob)
    if not home.exists():
        return {"changed": False}
    with supervision.one_at_a_time(home):
        before = _look(home)
        lived = _lives(home, before)
        with _nobody_supervises(home, phase_supervision.STOP):
            status = _terminate(home).status
            if status and status["state"] != "stopped":
                ended = status["ended"] or time.time()
                was = {"was": "done"} if before.has_succeeded else {}
                _write_status(home, {**status, **was, "state": "stopped", "ended": ended})
    return {"changed": lived or before.status.get("state", "stopped") != "stopped"}


def _state(seen: Seen) -> Answer:
    """Return the state of a phase that was started."""
    if seen.status["state"] == "stopped" or seen.was_cut_off:
        return {"state": "down"}
    if seen.has_succeeded:
        return {"state": "done"}
    problem = _problem(seen)
    return {"state": "broken", "message": problem} if problem else {"state": "running"}


def _problem(seen: Seen) -> str:
    status = seen.status
    if status["state"] == "ended":
        return str(status["reason"])
    if not seen.supervised:
        return LOST if _since_boot(status) else BOOTED
    return "" if status["healthy"] else f"is not healthy: {status['health']}"


def _refuse_second_start(instance: str, seen: Seen) -> None:
    state = seen.status["state"]
    if state == "stopped" and not seen.was_done:
        raise Failed(_was_stopped(instance))
    if state not in ("ended", "stopped") and not seen.supervised:
        why = LOST if _since_boot(seen.status) else BOOTED
        raise Failed(f"instance {instance} was begun here, and {why}")


def _was_stopped(instance: str) -> str:
    return f"instance {instance} was stopped here"


def _at_work(seen: Seen) -> str:
    return f"instance {seen.status.get('instance', '(unknown)')} is still at work"


def _since_boot(status: Dict[str, Any]) -> bool:
    return bool(status["boot"] == supervision.boot_id())


def _home(cob: Dict[str, Any]) -> Path:
    return _node_folder(cob) / str(cob["spec"]["phase"])


def _node_folder(cob: Dict[str, Any]) -> Path:
    names = [quote(text, safe="") for text in (cob["spec"]["application"], cob["host"])]
    return state_dir(cob["spec"]) / "applications" / Path(*names)


def _made_home(cob: Dict[str, Any]) -> Path:
    """Make the home, in a folder that only its owner may read."""
    if not cob["spec"]["instance"]:
        raise Failed(f"no instance of {cob['spec']['application']} is decided: nothing can start")
    _node_folder(cob).mkdir(mode=0o700, parents=True, exist_ok=True)
    return _home(cob)


def _look(home: Path) -> Seen:
    """Read the status and ask for the lock; both as they were at one moment."""
    for _ in range(LOOKS):
        status = supervision.read_json(home / "status.json")
        supervised = _is_locked(home)
        if supervision.read_json(home / "status.json") == status:
            return Seen(status, supervised)
    raise Failed(f"the status in {home} changes faster than it can be read")


def _is_locked(home: Path) -> bool:
    """Say whether a supervisor has the lock; a shared one disturbs no other who looks."""
    try:
        with (home / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lives(home: Path, seen: Seen) -> bool:
    return seen.supervised or bool(_pids(home, seen))


def _pids(home: Path, seen: Seen) -> List[int]:
    return supervision.members(home, _child(seen.status))


def _child(status: Dict[str, Any]) -> Optional[List[int]]:
    return status["child"] if status and _since_boot(status) else None


def _terminate(home: Path) -> Seen:
    """End what lives of a phase without a supervisor; return what its status is then."""
    seen = _look(home)
    spec = {**DEFAULTS, **supervision.read_json(home / "spec.json")}
    how, patience_s = spec["stop_signal"], float(spec["stop_timeout"])
    supervision.terminate(home, _child(seen.status), how, patience_s)
    return seen


@contextlib.contextmanager
def _lock_of_nobody(home: Path) -> Iterator[int]:
    """Have the lock of the supervisor, of which there must be none."""
    deadline = time.monotonic() + FREE_WAIT_S
    with (home / "lock").open("ab") as lock:
        while not supervision.take(lock.fileno()):
            if time.monotonic() > deadline:
                raise Failed(_at_work(_look(home)))
            time.sleep(supervision.POLL_S)
        yield lock.fileno()


@contextlib.contextmanager
def _nobody_supervises(home: Path, how: signal.Signals) -> Iterator[int]:
    """Have the lock of the supervisor, who is asked to end if there is one, and killed if not."""
    spec = {**DEFAULTS, **supervision.read_json(home / "spec.json")}
    kill_at = time.monotonic() + float(spec["stop_timeout"]) + SUPERVISOR_GRACE_S
    asked: List[int] = []
    with (home / "lock").open("ab") as lock:
        while not supervision.take(lock.fileno()):
            now = time.monotonic()
            if now > kill_at + supervision.KILL_WAIT_S:
                raise Failed(f"the supervisor in {home} does not end: somebody holds its lock")
            supervisors = _supervisors(home)
            if now > kill_at:
                supervision.signal_all(supervisors, signal.SIGKILL)
            elif supervisors != asked:
                supervision.signal_all(supervisors, how)
                asked = supervisors
            time.sleep(supervision.POLL_S)
        yield lock.fileno()


def _supervisors(home: Path) -> List[int]:
    """Return who supervises `home`, also one that cannot write its status, or has not yet."""
    sought = [os.fsencode(str(home / SCRIPT)), os.fsencode(str(home)), b""]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().split(b"\0")[-3:] == sought:
                found.append(int(path.parent.name))
    return sorted(found)


def _told(cob: Dict[str, Any], home: Path, starts: int) -> Dict[str, Any]:
    """Return what the supervisor is to do."""
    spec = {**DEFAULTS, **cob["spec"]}
    if spec["stop_signal"] not in signal.Signals.__members__:
        raise Failed(f"`stop_signal`: there is no signal {spec['stop_signal']} here")
    hosts = _hosts(cob)
    about = {
        "COBWEB_APPLICATION": spec["application"],
        "COBWEB_PHASE": spec["phase"],
        "COBWEB_INSTANCE": spec["instance"],
        "COBWEB_HOST": cob["host"],
        "COBWEB_HOSTS_FILE": str(_node_folder(cob) / "hosts.json"),
        "COBWEB_INDEX": str(hosts.index(cob["host"])) if cob["host"] in hosts else "",
        "COBWEB_COUNT": str(len(hosts)),
        "COBWEB_START": str(starts),
        supervision.MARKER: str(home),
    }
    if len(",".join(hosts)) < ENVIRONMENT_LIMIT:
        about["COBWEB_HOSTS"] = ",".join(hosts)
    given = {name: str(value) for name, value in spec["env"].items()}
    return {
        "version": phase_supervision.VERSION,
        "instance": spec["instance"],
        "starts": starts,
        "command": _argv(spec["run"], hosts),
        "health": _argv(spec["health"], hosts) if spec["health"] else None,
        "env": {**supervision.login_environment(), **given, **about},
        **{key: spec[key] for key in ("cwd", "stop_signal")},
        **{key: float(spec[key]) for key in TIMES},
        "timeout": float(spec["timeout"]) if spec["timeout"] else None,
    }


def _hosts(cob: Dict[str, Any]) -> List[str]:
    return [str(name) for name in _members(cob)["hosts"]]


def _most_starts(cob: Dict[str, Any]) -> int:
    """Return how often the phase may be started in its instance, by what was decided last."""
    of_host = _members(cob).get("starts", {}).get(cob["host"], {})
    return int(of_host.get(cob["spec"]["phase"], 1))


def _members(cob: Dict[str, Any]) -> Dict[str, Any]:
    """Return what the controller has written of the members of the instance."""
    path, instance = _node_folder(cob) / "hosts.json", cob["spec"]["instance"]
    found: Dict[str, Any] = supervision.read_json(path)
    if found.get("instance") != instance:
        raise Failed(
            f"the member list of instance {instance} is not in {path}: it was sent by another "
            "user, to another `state_dir`, or not at all"
        )
    return found


def _argv(command: Any, hosts: List[str]) -> List[str]:
    """Return the arguments: a text is for the shell; numbers come from templates."""
    names = ",".join(hosts)
    if isinstance(command, str):
        return ["/bin/sh", "-c", command.replace(HOSTS_MARK, shlex.quote(names))]
    return [str(word).replace(HOSTS_MARK, names) for word in command]


def _begin(home: Path, told: Dict[str, Any], lock: int, lost_bytes: int) -> None:
    """Take down that the phase is started, and hand the lock to a supervisor that does it."""
    for module in (supervision, phase_supervision):
        _copy_source(module, home / f"{module.__name__.rpartition('.')[2]}.py")
    supervision.write_json(home / "spec.json", told)
    last = supervision.read_json(home / "status.json")
    before = [*last.get("before", ()), last.get("instance", "")][-MEMORY:]
    status = {
        "version": phase_supervision.VERSION,
        "before": [it for it in before if it not in ("", told["instance"])],
        "instance": told["instance"],
        "state": "starting",
        "code": None,
        "reason": "",
        "healthy": True,
        "health": "",
        "starts": told["starts"],
        "started": time.time(),
        "ended": None,
        "boot": supervision.boot_id(),
        "supervisor": None,
        "child": None,
        "lost_bytes": lost_bytes,
    }
    log = os.open(home / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_status(home, status)
        _hand_over(home, lock, log)
    finally:
        os.close(log)


def _copy_source(module: ModuleType, path: Path) -> None:
    """Have a source on the node; one that is there needs no room on a disk that is full."""
    source = inspect.getsource(module)
    with contextlib.suppress(OSError, ValueError):
        if path.read_text(encoding="utf-8") == source:
            return
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_text(source, encoding="utf-8")
    except OSError:
        draft.unlink(missing_ok=True)  # It may have all the room that there was.
        raise
    draft.replace(path)


def _hand_over(home: Path, lock: int, log: int) -> None:
    """Start the supervisor as a process of its own, which belongs to nobody from the first moment.

    Whoever ends this call with all that it has started, since its run was killed, must find either
    no supervisor or none that is below the call: so its parent does nothing but to start it.
    """
    argv = [sys.executable, "-I", "-B", str(home / SCRIPT), str(home)]
    parent = os.fork()
    if parent == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                os.set_inheritable(lock, True)  # noqa: FBT003 - it takes no name
                os.execve(argv[0], argv, supervision.login_environment())  # noqa: S606
        finally:
            os._exit(0)
    os.waitpid(parent, 0)


def _write_status(home: Path, status: Dict[str, Any]) -> None:
    supervision.write_json(home / "status.json", status, durable=True)


def _wait_started(cob: Dict[str, Any], home: Path) -> None:
    """Wait until the command has been started; Failed if it was not."""
    deadline = time.monotonic() + START_WAIT_S
    seen = _look(home)
    while seen.status["state"] in ("starting", "launching"):
        if not seen.supervised:
            raise Failed(f"{cob['id']} was begun, and {LOST}; see {home / 'log'}")
        if time.monotonic() > deadline:
            raise Failed(f"the supervisor of {cob['id']} does not tell that it has started it")
        time.sleep(supervision.POLL_S)
        seen = _look(home)
    if seen.status["child"] is None:
        raise Failed(str(seen.status["reason"]))


if __name__ == "__main__":
    run({"check": check, "start": start, "restart": restart, "end": end, "stop": stop})
