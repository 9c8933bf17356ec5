# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `container`: check, start and remove a container of podman.

A new container is created beside the old one and takes its name only then: what podman refuses
changes nothing. It is run by a unit of systemd where there is systemd, else by podman alone. Its
environment is handed over in a file that only root can read, never on a command line. Which spec a
container was made from is remembered here; the container itself bears a random mark, since a
digest of the spec would be one of its secrets, too.

The states: `up` if it runs as the spec says, from the image that has this name now, and is healthy;
`outdated` if one of ours runs and is healthy, but not so; `broken` if one was made and does not, or
is not; `down` if there is nothing of ours.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Answer, Failed, file_name, run, state_dir
from ansible.module_utils.cobweb_tools import (
    Record,
    attempt,
    call,
    digest,
    has_systemd,
    replace_file,
)

UNITS = Path("/etc/systemd/system")
UNIT = """\
# Object {cob} of Cobweb; what is changed here is replaced.
[Unit]
Description=Container {name}
Wants=network-online.target
After=network-online.target local-fs.target

[Service]
Type=forking
PIDFile={pid}
Restart={restart}
TimeoutStopSec={stop}
ExecStart={podman} start {name}
ExecStop={podman} stop {name}

[Install]
WantedBy=multi-user.target
"""
MARK = "cobweb.mark"
SETTLED_S = 1.0
POLL_S = 0.2
STOP_S = 10
STOP_GRACE_S = 30
INSIST_S = 30.0
IDLE = ("configured", "created", "exited", "initialized", "stopped")
PULL_S = 900.0
LINES = "8"
MASKED = "********"
SHORTEST_MASKED = 3
NEEDS_EXEC_S = 20.0
"""Limit of one health command."""


class Names(NamedTuple):
    """What belongs to a container of this name."""

    name: str

    @property
    def unit(self) -> str:
        """Return the unit that runs it."""
        return f"cobweb-container-{self.name}.service"

    @property
    def pid(self) -> str:
        """Return the file that tells systemd which process to watch."""
        return f"/run/cobweb-container-{self.name}.pid"

    @property
    def draft(self) -> str:
        """Return the name of its successor until that takes its place."""
        return f"{self.name}.cobweb"

    @property
    def folder(self) -> Path:
        """Return where its environment is."""
        return Path(state_dir({}), "container", file_name(self.name))

    @property
    def record(self) -> Record:
        """Return what is remembered of it."""
        return Record("container", self.name)


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    spec = cob["spec"]
    known = {names: names.record.read() for names in _names(cob)}
    if not any(known.values()):
        return {"state": "down"}
    names, *earlier = known
    if not any(_works(it, record, spec) for it, record in known.items() if record):
        return {"state": "broken"}
    found, record = _inspect(names.name), known[names]
    as_asked = (
        found is not None
        and not any(known[other] for other in earlier)
        and record.get("spec") == digest(spec)
        and found["State"]["Running"]
        and _image_id(spec["image"]) in (None, found["Image"])
        and _unit_is_right(names, spec)
    )
    if cob.get("reached") and _restarts(names, found):
        # This run has started it; it has ended since, and may end again at any time.
        return {"state": "broken", "message": "it has ended, and was started again"}
    return {"state": "up" if as_asked else "outdated"}


def _restarts(names: Names, found: Optional[Dict[str, Any]]) -> int:
    """Return how often it had to be started again since we started it."""
    if not has_systemd():
        return int((found or {}).get("RestartCount") or 0)
    return int(call("systemctl", "show", "--value", "--property=NRestarts", names.unit) or 0)


def _works(names: Names, record: Dict[str, Any], spec: Dict[str, Any]) -> bool:
    """Say whether the container that we made runs and is healthy, by the spec it was made from."""
    found = _inspect(names.name)
    if found is None or _mark(found) != record.get("mark") or not found["State"]["Running"]:
        return False
    health = record["health"] if "health" in record else spec.get("health")
    return _health(names, health) == ""


def start(cob: Dict[str, Any]) -> Answer:
    """Make the container as the spec says, start it, and wait until it is healthy."""
    spec = cob["spec"]
    names, *earlier = _names(cob)
    found = _inspect(names.name)
    if found is not None and not _mark(found):
        raise Failed(f"a container {names.name} is there that Cobweb did not make; remove it first")
    _provide_image(spec)
    mark = secrets.token_hex(8)
    _create(names, spec, mark)
    for other in earlier:
        _remove_all(other)
    _remove_container(names)
    names.record.write({"mark": mark, "spec": digest(spec), "health": spec.get("health")})
    call("podman", "rename", names.draft, names.name)
    _write_unit(names, cob)
    try:
        _run(names, spec)
        _await_health(names, spec)
    except Failed as failed:
        raise Failed(f"{failed}{_stop(names)}") from None
    return {"changed": True}


def remove(cob: Dict[str, Any]) -> Answer:
    """Remove the container and its unit; images and volumes stay."""
    for names in _names(cob):
        _remove_all(names)
    return {"changed": True}


def _names(cob: Dict[str, Any]) -> List[Names]:
    """Return the names of the spec, then those of the applied spec if they are others."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    return list(dict.fromkeys(Names(spec.get("name", cob["name"])) for spec in specs))


# --- looking


def _inspect(name: str) -> Optional[Dict[str, Any]]:
    done = attempt("podman", "container", "inspect", name)
    if done.status == 0:
        return dict(json.loads(done.out)[0])
    if "no such container" in done.err.lower():
        return None
    raise Failed(done.message)


def _mark(found: Dict[str, Any]) -> str:
    return str((found["Config"].get("Labels") or {}).get(MARK, ""))


def _image_id(image: str) -> Optional[str]:
    done = attempt("podman", "image", "inspect", "--format", "{{.Id}}", image)
    return done.out.strip() if done.status == 0 else None


def _unit_is_right(names: Names, spec: Dict[str, Any]) -> bool:
    """Say whether systemd, where it is there, runs the container, and will at boot as asked."""
    if not has_systemd():
        return True
    asked = ("systemctl", "show", "--property=ActiveState,UnitFileState", names.unit)
    shown = dict(line.partition("=")[::2] for line in call(*asked).splitlines())
    enabled = shown.get("UnitFileState") == "enabled"
    return shown.get("ActiveState") == "active" and enabled == spec.get("boot", True)


def _health(names: Names, health: Optional[str]) -> str:
    """Return why the container is not healthy; an empty text if it is, or nothing tells."""
    if health is None:
        return ""
    command = ["podman", "exec", names.name, "/bin/sh", "-c", health]
    done = attempt(*command, timeout_s=NEEDS_EXEC_S)
    return "" if done.status == 0 else done.message


# --- making


def _provide_image(spec: Dict[str, Any]) -> None:
    image = spec["image"]
    pull = spec.get("pull", "never" if "archive" in spec else "missing")
    if pull == "always":
        call("podman", "pull", "--quiet", image, timeout_s=PULL_S)
    if _image_id(image) is not None:
        return
    if "archive" in spec:
        call("podman", "load", "--quiet", "--input", spec["archive"], timeout_s=PULL_S)
    elif pull == "missing":
        call("podman", "pull", "--quiet", image, timeout_s=PULL_S)
    if _image_id(image) is None:
        where = f" in {spec['archive']}" if "archive" in spec else " on this host"
        raise Failed(f"there is no image {image}{where}")


def _create(names: Names, spec: Dict[str, Any], mark: str) -> None:
    """Create the container under its draft name; one that an interruption left there goes."""
    attempt("podman", "rm", "--force", "--ignore", names.draft)
    argv = ["podman", "create", "--name", names.draft, "--label", f"{MARK}={mark}"]
    argv += ["--conmon-pidfile", names.pid, "--pull", "never"]
    argv += ["--stop-timeout", str(spec.get("stop_timeout", STOP_S))]
    argv += ["--restart", "no" if has_systemd() else spec.get("restart", "always")]
    for key, option in (("ports", "--publish"), ("volumes", "--volume")):
        argv += [f"{option}={value}" for value in spec.get(key, [])]
    argv += [f"--{key}={spec[key]}" for key in ("network", "user") if key in spec]
    if spec.get("env"):
        argv += ["--env-file", str(_write_environment(names, spec["env"]))]
    argv += spec.get("options", [])
    call(*argv, spec["image"], *spec.get("command", []))


def _write_environment(names: Names, env: Dict[str, Any]) -> Path:
    lines = [f"{name}={value}" for name, value in env.items()]
    wrong = [name for name, value in env.items() if "\n" in str(value)]
    if wrong:
        raise Failed(f"`env` has a value of several lines, which podman cannot read: {wrong[0]}")
    names.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = names.folder / "env"
    replace_file(path, "".join(f"{line}\n" for line in lines), mode=0o600)
    return path


def _write_unit(names: Names, cob: Dict[str, Any]) -> None:
    if not has_systemd():
        return
    spec = cob["spec"]
    text = UNIT.format(
        cob=cob["id"],
        name=names.name,
        pid=names.pid,
        restart=spec.get("restart", "always"),
        stop=spec.get("stop_timeout", STOP_S) + STOP_GRACE_S,
        podman=shutil.which("podman") or "/usr/bin/podman",
    )
    replace_file(UNITS / names.unit, text, mode=0o644)
    call("systemctl", "daemon-reload")
    change = "enable" if spec.get("boot", True) else "disable"
    call("systemctl", "--quiet", change, names.unit)


# --- running


def _run(names: Names, spec: Dict[str, Any]) -> None:
    if not has_systemd():
        call("podman", "start", names.name)
        return
    attempt("systemctl", "reset-failed", names.unit)
    done = attempt("systemctl", "start", names.unit)
    if done.status != 0:
        said = _last_words(names, spec) or done.message
        raise Failed(f"container {names.name} did not start: {said}")


def _await_health(names: Names, spec: Dict[str, Any]) -> None:
    """Wait until the container has stayed up for a moment and is healthy."""
    begun = time.monotonic()
    limit_s = spec.get("health_timeout", 30)
    first = (_inspect(names.name) or {}).get("State", {}).get("Pid")
    while True:
        state = (_inspect(names.name) or {}).get("State", {})
        if not state.get("Running") or state.get("Pid") != first:
            code = state.get("ExitCode")
            raise Failed(f"container {names.name} ended ({code}): {_last_words(names, spec)}")
        waited = time.monotonic() - begun
        ill = _health(names, spec.get("health")) if waited >= SETTLED_S else "too early"
        if not ill:
            return
        if waited > limit_s:
            raise Failed(f"container {names.name} is not healthy after {limit_s:g} s: {ill}")
        time.sleep(POLL_S)


def _last_words(names: Names, spec: Dict[str, Any]) -> str:
    """Return what the container or podman said last, without values of `env`."""
    if has_systemd():
        attempt("journalctl", "--sync")
    logs = attempt("podman", "logs", "--tail", LINES, names.name)
    text = f"{logs.out}\n{logs.err}".strip()
    if has_systemd():
        # Not by _COMM: the journal does not know it of a process that has ended meanwhile.
        asked = ("journalctl", "--unit", names.unit, "--lines", LINES, "--output=cat", "--quiet")
        text = f"{text}\n{attempt(*asked, '_TRANSPORT=stdout').out}"
    values = sorted((str(it) for it in (spec.get("env") or {}).values()), key=len, reverse=True)
    for value in values:
        if len(value) >= SHORTEST_MASKED:
            text = text.replace(value, MASKED)
    return text.strip()


def _stop(names: Names) -> str:
    """See that it does not run, nor starts again; return what is to be added if that failed.

    Podman alone may be about to start again one that has ended, even if it is told to stop it: so
    that one is removed. Systemd does as it is told, and the container stays to be looked at.
    """
    try:
        if not has_systemd():
            _remove_container(names)
        else:
            attempt("systemctl", "--quiet", "disable", "--now", names.unit)
            _insist(lambda: _is_idle(names), "podman", "stop", "--ignore", names.name)
    except Failed as failed:
        return f"; it could not be stopped: {failed}"
    return ""


def _is_gone(names: Names) -> bool:
    return _inspect(names.name) is None


def _is_idle(names: Names) -> bool:
    found = _inspect(names.name)
    return found is None or found["State"]["Status"] in IDLE


def _remove_container(names: Names) -> None:
    """Stop and remove the container if it is ours; its unit stays."""
    if has_systemd() and (UNITS / names.unit).exists():
        call("systemctl", "stop", names.unit)
    found = _inspect(names.name)
    if found is not None and _mark(found):
        _insist(lambda: _is_gone(names), "podman", "rm", "--force", "--volumes", names.name)


def _insist(done: Callable[[], bool], *argv: str) -> None:
    """Call podman until it has done what it was told.

    It refuses while a container is just ending, or being started again.
    """
    ends = time.monotonic() + INSIST_S
    while True:
        told = attempt(*argv)
        if done():
            return
        if time.monotonic() > ends:
            raise Failed(told.message)
        time.sleep(POLL_S)


def _remove_all(names: Names) -> None:
    attempt("podman", "rm", "--force", "--ignore", names.draft)
    if has_systemd() and (UNITS / names.unit).exists():
        call("systemctl", "--quiet", "disable", "--now", names.unit)
    _remove_container(names)
    if has_systemd():
        with contextlib.suppress(FileNotFoundError):
            (UNITS / names.unit).unlink()
        call("systemctl", "daemon-reload")
    shutil.rmtree(names.folder, ignore_errors=True)
    names.record.forget()


if __name__ == "__main__":
    run({"check": check, "start": start, "remove": remove})
