# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `process`: check, start and stop a supervised process.

The home of a process is `STATE_DIR/process/ID` (see cobweb_supervisor.py for what it holds). It is
`up` if the supervisor runs what the spec says, the process lives, and it listens if it is meant to;
`outdated` if it lives and listens by another spec, or as the orphan of a killed supervisor;
`broken` if it was started and does neither: it has ended, is about to be restarted, or does not
listen, also if it had to be started again since this run brought it up; `down` if it was never
started, or stopped by us. Whether it was started again is its supervisor's word alone: of one that
this run brought up, that lives, and that is slow to accept, the check says just that, and fails.
Every action may be repeated and interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed, file_name, run, state_dir

DEFAULTS: Dict[str, Any] = {
    "env": {},
    "cwd": "/",
    "listen": None,
    "start_timeout": 30,
    "stop_signal": "SIGTERM",
    "stop_timeout": 10,
    "restart": True,
    "backoff": 1,
}
CONNECT_TIMEOUT_S = 2.0
# A server whose queue is full is busy, not broken: the kernel lets a client ask again after 1, 3
# and 7 s, and nobody judges before that. Who refuses is known at once.
BUSY_TIMEOUT_S = 10.0
SILENT = "silent"
"""It lives, and neither accepts nor refuses in that time: busy or hung, which nobody can tell."""
SETTLE_S = 0.5
PORT_CLOSE_S = 5.0
SUPERVISOR_GRACE_S = 10.0
SUPERVISOR_TRIES = 3


class Seen(NamedTuple):
    """What lives in a home."""

    status: Dict[str, Any]
    supervised: bool
    pids: List[int]

    @property
    def anything(self) -> bool:
        """Say whether any process is there."""
        return self.supervised or bool(self.pids)


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    state = _state(cob)
    if state != "down" and cob.get("reached"):
        home = _home(cob, cob["spec"])
        status = supervision.read_status(home)
        lives, end = supervision.alive(status.get("child")), status.get("last_end", "")
        if status.get("starts", 1) > supervision.read_json(home / "spec.json").get("starts", 1):
            # This run has started it; it has ended since, and may end again at any time.
            message = f"{end}, and was started again by its supervisor"
            return {"state": "broken", "message": message}
        if state == SILENT and lives:
            raise Failed(
                f"{cob['id']} lives and was not started again, but accepts no connection on "
                f"{cob['spec'].get('listen')} within {BUSY_TIMEOUT_S:g} s"
            )
        if end and not lives:
            return {"state": "broken", "message": end}
    return {"state": "broken" if state == SILENT else state}


def start(cob: Dict[str, Any]) -> Answer:
    """Bring the process up as the spec says, ending whatever runs otherwise."""
    home = _home(cob, cob["spec"])
    with supervision.one_at_a_time(home):
        starts = supervision.read_status(home).get("starts", 1)
        if _state(cob) == "up" and not cob.get("renew"):
            if starts > 1:
                # The run takes it over as it is: what had ended before is not held against it.
                known = supervision.read_json(home / "spec.json")
                supervision.write_json(home / "spec.json", {**known, "starts": starts})
            return {"changed": False}
        for old in _homes(cob):
            _stop(old, cob["id"])
        spec = _full(cob["spec"])
        if _answers(spec["listen"]):
            raise Failed(
                f"{spec['listen']} accepts connections before {cob['id']} was started: "
                "another process uses the port"
            )
        _prepare(home, spec)
        _launch(home, spec, cob["id"])
    return {"changed": True}


def stop(cob: Dict[str, Any]) -> Answer:
    """End the process, its supervisor and all that it started."""
    with supervision.one_at_a_time(_home(cob, cob["spec"])):
        stopped = [_stop(home, cob["id"]) for home in _homes(cob)]
    return {"changed": any(stopped)}


def _state(cob: Dict[str, Any]) -> str:
    homes = _homes(cob)
    seen = {home: _look(home) for home in homes}
    if not any(it.anything or (home / "spec.json").exists() for home, it in seen.items()):
        return "down"
    works = [_works(home, it) for home, it in seen.items()]
    if not any(works):
        return SILENT if None in works else "broken"
    now, *others = seen.values()
    as_asked = (
        now.supervised
        and now.status.get("digest") == _digest(_full(cob["spec"]))
        and not any(other.anything for other in others)
    )
    return "up" if as_asked else "outdated"


def _works(home: Path, seen: Seen) -> Optional[bool]:
    """Say whether the process lives and listens, by the spec that it was started by.

    None if it lives, and nobody says in time whether it listens.
    """
    listen = supervision.read_json(home / "spec.json").get("listen")
    if not supervision.alive(seen.status.get("child")):
        return False
    return listen is None or _answers(listen, BUSY_TIMEOUT_S)


def _homes(cob: Dict[str, Any]) -> List[Path]:
    """Return the home of the spec, then that of the applied spec if it is another."""
    homes = [_home(cob, cob["spec"])]
    if cob.get("applied"):
        homes.append(_home(cob, cob["applied"]))
    return list(dict.fromkeys(homes))


def _home(cob: Dict[str, Any], spec: Dict[str, Any]) -> Path:
    return state_dir(spec) / "process" / file_name(cob["id"])


def _full(spec: Dict[str, Any]) -> Dict[str, Any]:
    return {**DEFAULTS, **spec}


def _digest(spec: Dict[str, Any]) -> str:
    kept = {key: value for key, value in spec.items() if key != "settle"}  # how long we look on
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _look(home: Path) -> Seen:
    status = supervision.read_status(home)
    return Seen(
        status=status,
        supervised=supervision.alive(status.get("supervisor")),
        pids=supervision.members(home, status.get("child")),
    )


def _stop(home: Path, cob_id: str) -> bool:
    spec = _full(supervision.read_json(home / "spec.json"))
    stop_timeout_s = float(spec["stop_timeout"])
    with _nobody_supervises(home, stop_timeout_s, cob_id) as ended:
        seen = _look(home)
        child = seen.status.get("child")
        supervision.terminate(home, child, spec["stop_signal"], stop_timeout_s)
        if ended or seen.anything:
            _wait_closed(spec["listen"], cob_id)
        for name in ("status.json", "spec.json"):
            with contextlib.suppress(FileNotFoundError):
                (home / name).unlink()
    return ended or seen.anything


@contextlib.contextmanager
def _nobody_supervises(home: Path, stop_timeout_s: float, cob_id: str) -> Iterator[bool]:
    """Have the lock of the supervisor, who is ended if there is one; gives whether there was.

    The lock says so, and not the status: a start that was cut off leaves a supervisor behind that
    may come at any time, and removing the status of one that runs would hide it for ever.
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (home / "lock").open("ab") as lock:
        free = supervision.take(lock.fileno())
        if not free:
            _end_supervisor(home, lock.fileno(), stop_timeout_s, cob_id)
        yield not free


def _end_supervisor(home: Path, lock: int, stop_timeout_s: float, cob_id: str) -> None:
    """Ask the supervisor to end its process and itself; one that does not is killed."""
    kill_at = time.monotonic() + stop_timeout_s + SUPERVISOR_GRACE_S
    asked: Optional[List[int]] = None
    while not supervision.take(lock):
        now = time.monotonic()
        known = supervision.read_holder(home)
        if now > kill_at + supervision.KILL_WAIT_S:
            who = f"process {known[0]}" if known else "nobody knows who"
            raise Failed(f"the supervisor of {cob_id} does not end: {who} holds {home / 'lock'}")
        if supervision.alive(known) and (known != asked or now > kill_at):
            supervision.signal_all(known[:1], signal.SIGTERM if now < kill_at else signal.SIGKILL)
            asked = known
        time.sleep(supervision.POLL_S)


def _wait_closed(listen: Any, cob_id: str) -> None:
    deadline = time.monotonic() + PORT_CLOSE_S
    while _answers(listen):
        if time.monotonic() > deadline:
            raise Failed(
                f"{listen} still accepts connections although no process of {cob_id} is left: "
                "another process uses the port"
            )
        time.sleep(supervision.POLL_S)


def _prepare(home: Path, spec: Dict[str, Any]) -> None:
    """Write what the supervisor reads, and the supervisor itself."""
    if not Path(spec["cwd"]).is_dir():
        raise Failed(f"the working directory {spec['cwd']} does not exist")
    draft = home / "supervisor.py.new"
    draft.write_text(inspect.getsource(supervision), encoding="utf-8")
    draft.replace(home / "supervisor.py")
    told = {
        **{key: spec[key] for key in ("cwd", "listen", "stop_signal", "stop_timeout")},
        **{key: spec[key] for key in ("restart", "backoff")},
        "version": supervision.VERSION,
        "digest": _digest(spec),
        "command": _command(spec["command"]),
        "env": _environment(spec, home),
    }
    supervision.write_json(home / "spec.json", told)


def _command(command: Any) -> List[str]:
    """Return the arguments: a text is for the shell; numbers come from templates."""
    if isinstance(command, str):
        return ["/bin/sh", "-c", command]
    return [str(word) for word in command]


def _environment(spec: Dict[str, Any], home: Path) -> Dict[str, str]:
    given = {name: str(value) for name, value in spec["env"].items()}
    return {**supervision.login_environment(), **given, supervision.MARKER: str(home)}


def _launch(home: Path, spec: Dict[str, Any], cob_id: str) -> None:
    """Start the supervisor and wait until the process is up; leave nothing behind if it fails."""
    for _ in range(SUPERVISOR_TRIES):
        code = _start_supervisor(home)
        if code != supervision.ALREADY_SUPERVISED:
            break
        # A start that was cut off by the end of its run got there first.
        _stop(home, cob_id)
        _prepare(home, spec)
    problem = f"got no supervisor (exit status {code})" if code else _wait_ready(home, spec)
    if problem:
        _stop(home, cob_id)
        raise Failed(f"{cob_id} {problem}; its output is in {home / 'log'}")


def _start_supervisor(home: Path) -> int:
    with (home / "log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-I", str(home / "supervisor.py"), str(home)],
            cwd="/",
            env=supervision.login_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        ).returncode


def _wait_ready(home: Path, spec: Dict[str, Any]) -> str:
    """Wait until the process is up, and stays so; return what went wrong, or nothing."""
    settle = float(spec.get("settle", SETTLE_S if spec["listen"] is None else 0))
    deadline = time.monotonic() + float(spec["start_timeout"])
    ready_since: Optional[float] = None
    while ready_since is not None or time.monotonic() < deadline:
        status = supervision.read_status(home)
        if status.get("last_end"):
            return str(status["last_end"])
        if not supervision.alive(status.get("supervisor")):
            return "lost its supervisor"
        now = time.monotonic()
        if not (supervision.alive(status.get("child")) and _is_ready(spec)):
            ready_since = None
        elif ready_since is None:
            ready_since = now
        if ready_since is not None and now - ready_since >= settle:
            return ""
        time.sleep(supervision.POLL_S)
    missed = "start" if spec["listen"] is None else f"listen on {spec['listen']}"
    return f"did not {missed} within {spec['start_timeout']} s"


def _is_ready(spec: Dict[str, Any]) -> bool:
    return spec["listen"] is None or bool(_answers(spec["listen"]))


def _answers(listen: Any, timeout_s: float = CONNECT_TIMEOUT_S) -> Optional[bool]:
    """Say whether the address accepts a TCP connection; None if nobody says so in time.

    No address never does.
    """
    if listen is None:
        return False
    try:
        with socket.create_connection(_address(listen), timeout=timeout_s):
            return True
    except socket.timeout:  # noqa: UP041 - another class than TimeoutError before Python 3.10
        return None
    except OSError:
        return False


def _address(listen: Any) -> Tuple[str, int]:
    host, _, port = str(listen).rpartition(":")
    return host.strip("[]") or "127.0.0.1", int(port)


if __name__ == "__main__":
    run({"check": check, "start": start, "stop": stop})
