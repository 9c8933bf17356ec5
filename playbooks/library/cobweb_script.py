# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `script`: check, do and undo something by scripts of the site.

The exit status of `check` says the state: 0 up, 1 down, 10 outdated; every other one means that the
check itself failed (shells and tools use 2, 126 and 127 for their own trouble). In its place
`creates` and `removes` name a path that is there, or is not, once the work is done.

Scripts get what they need by the environment, never on a command line, and are themselves handed to
the interpreter as an open file. `do` and `undo` are run only if the check asks for them, and the
check must agree afterwards.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from typing import Any, Dict, List, NamedTuple

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed, run

STATES = {0: "up", 1: "down", 10: "outdated"}
INTERPRETER = ["/bin/sh", "-e"]
OUTPUT_LIMIT = 2_000
MASK = "********"
SHORTEST_MASKED = 3


class Ended(NamedTuple):
    """How a script ended; `output` is the end of what it printed, without values of `env`."""

    status: int
    output: str


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state by the script `check`, or by the paths."""
    return {"state": _state(cob)}


def do(cob: Dict[str, Any]) -> Answer:
    """Run `do` unless the state is up already; it must be afterwards."""
    if _state(cob) == "up":
        return {"changed": False}
    if "do" not in cob["spec"]:
        said = _run(cob, "check").output if "check" in cob["spec"] else ""
        reason = said or "nothing here can change that: its spec has no `do`"
        raise Failed(f"{cob['id']} does not hold: {reason}")
    return _work(cob, "do", "up")


def undo(cob: Dict[str, Any]) -> Answer:
    """Run `undo` unless the state is down already; it must be afterwards.

    What has nothing to take back, as it only checks or as its `undo` is empty, stays as it is.
    """
    spec = cob["spec"]
    if "do" not in spec or spec.get("undo") == "" or _state(cob) == "down":
        return {"changed": False}
    if "undo" not in spec:
        way_out = "`undo: ''` says that it may stay as it is, as `cobweb forget` does"
        raise Failed(f"{cob['id']} is not revertible: its spec has no `undo` ({way_out})")
    return _work(cob, "undo", "down")


def _work(cob: Dict[str, Any], name: str, goal: str) -> Answer:
    ended = _run(cob, name)
    if ended.status != 0:
        raise Failed(f"`{name}` of {cob['id']} {_describe(ended)}")
    found = _state(cob)
    if found != goal:
        raise Failed(
            f"`{name}` of {cob['id']} ended well, but the check still says {found}, not {goal}"
        )
    return {"changed": True}


def _state(cob: Dict[str, Any]) -> str:
    spec = cob["spec"]
    if "check" not in spec:
        return _state_of_paths(spec)
    ended = _run(cob, "check")
    if ended.status not in STATES:
        raise Failed(f"`check` of {cob['id']} {_describe(ended)} (0 means up, 1 down, 10 outdated)")
    return STATES[ended.status]


def _state_of_paths(spec: Dict[str, Any]) -> str:
    created = "creates" not in spec or os.path.lexists(spec["creates"])
    removed = "removes" not in spec or not os.path.lexists(spec["removes"])
    return "up" if created and removed else "down"


def _describe(ended: Ended) -> str:
    how = f"ended with exit status {ended.status}"
    if ended.status < 0:
        how = f"was ended by {signal.Signals(-ended.status).name}"
    return f"{how}: {ended.output}" if ended.output else how


def _run(cob: Dict[str, Any], name: str) -> Ended:
    spec = cob["spec"]
    with tempfile.TemporaryFile() as script, tempfile.TemporaryFile() as output:
        script.write(spec[name].encode())
        script.flush()
        try:
            process = subprocess.Popen(
                [*_interpreter(spec), f"/dev/fd/{script.fileno()}"],
                cwd=spec.get("cwd", "/"),
                env=_environment(cob),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(script.fileno(),),
            )
        except OSError as error:
            key = "cwd" if error.filename == spec.get("cwd") else "interpreter"
            raise Failed(
                f"`{name}` of {cob['id']} does not start: {error.strerror}: {error.filename}, "
                f"the `{key}` of its spec"
            ) from None
        _wait(process, name, cob)
        start = max(0, output.seek(0, os.SEEK_END) - OUTPUT_LIMIT)
        output.seek(start)
        text = output.read().decode("utf-8", errors="replace")
    if start:
        text = _without_rest(text, spec)
    return Ended(status=process.returncode, output=_masked(text.strip(), spec))


def _interpreter(spec: Dict[str, Any]) -> List[str]:
    interpreter = spec.get("interpreter", INTERPRETER)
    return [interpreter] if isinstance(interpreter, str) else list(interpreter)


def _environment(cob: Dict[str, Any]) -> Dict[str, str]:
    about = {key: str(cob.get(key) or "") for key in ("id", "name", "host", "state", "target")}
    named = {f"COBWEB_{key.upper()}": value for key, value in about.items()}
    given = {key: str(value) for key, value in (cob["spec"].get("env") or {}).items()}
    return {**os.environ, **named, **given}


def _wait(process: subprocess.Popen[bytes], name: str, cob: Dict[str, Any]) -> None:
    timeout_s = cob["spec"].get("timeout")
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        # The script stays in the process group of the task, so that an interrupt of the run ends it
        # too; its own time limit therefore ends it by descent.
        supervision.kill_tree(process.pid)
        process.wait()
        raise Failed(f"`{name}` of {cob['id']} took longer than {timeout_s} s") from None


def _masked(text: str, spec: Dict[str, Any]) -> str:
    """Hide the values of `env` in what a script printed: they may be secrets."""
    for value in sorted(_values(spec), key=len, reverse=True):
        if len(value) >= SHORTEST_MASKED:
            text = text.replace(value, MASK)
    return text


def _without_rest(text: str, spec: Dict[str, Any]) -> str:
    """Drop from the beginning the rest of a value that was cut through."""
    text = text.lstrip("\N{REPLACEMENT CHARACTER}")
    rests = (value[at:] for value in _values(spec) for at in range(1, len(value)))
    return text[max((len(rest) for rest in rests if text.startswith(rest)), default=0) :]


def _values(spec: Dict[str, Any]) -> List[str]:
    return [str(value) for value in (spec.get("env") or {}).values()]


if __name__ == "__main__":
    run({"check": check, "do": do, "undo": undo})
