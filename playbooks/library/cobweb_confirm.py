# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the dead-man switch: arms it before a change, confirms or takes back after it.

`cob.confirm` holds `token` (which change is meant), `within_s`, `revert_s` (how long the taking
back may last) and, to arm, the shell texts `revert` and `prepare`. See cobweb_watcher.py for the
home of a change and for who does what is done.

`confirm` and `revert` answer with a state: `confirmed`; `gone-back` (by itself: the time was over,
or the host has started again); `taken-back` (it was asked to); `not-reverted` (that has failed, and
the message says how); `none` (there is no such change). They return only when nothing is under way
any more, so that a check sees the last of it. Both may be repeated, and interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict

from ansible.module_utils import cobweb_watcher as watcher
from ansible.module_utils.cobweb_host import Answer, Failed, run, state_dir

START_LIMIT_S = 10.0
GRACE_S = 10.0
SECRET = ("kept", "revert", "prepare")
"""What is not needed any more once it is known how a change has ended."""


def arm(cob: Dict[str, Any]) -> Answer:
    """Keep what the taking back needs, and start the watcher; if that fails nothing is armed."""
    wish = cob["confirm"]
    home = _home(cob)
    if watcher.is_pending(home):
        raise Failed(
            f"an earlier change of {cob['id']} is neither confirmed nor taken back; apply again "
            "once the host has gone back"
        )
    if not _text(wish, "revert").strip():
        raise Failed(f"nothing says how {cob['id']} is taken back; give its `confirm` a `revert`")
    _make(home, cob)
    try:
        _prepare(home, wish)
        watcher.store(home / watcher.ARMED, "")
        _start(home)
        _await_watcher(home)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            (home / watcher.ARMED).unlink()
        watcher.wake(home)
        watcher.forget_boot(home)
        raise
    return {"changed": True}


def confirm(cob: Dict[str, Any]) -> Answer:
    """Let the change stay, unless it is being taken back already."""
    home = _home(cob)
    if not _is_meant(home, cob):
        return {"state": "none"}
    watcher.claim(home, watcher.CONFIRMED)
    return _ended(home)


def revert(cob: Dict[str, Any]) -> Answer:
    """Take the change back now, unless it is confirmed."""
    home = _home(cob)
    return _ended(home) if _is_meant(home, cob) else {"state": "none"}


def _home(cob: Dict[str, Any]) -> Path:
    name = hashlib.sha256(cob["id"].encode()).hexdigest()[:24]
    return state_dir(cob["spec"]) / "confirm" / name


def _is_meant(home: Path, cob: Dict[str, Any]) -> bool:
    """Say whether there is a change, and the one that is asked for."""
    found = watcher.read_json(home / "change.json").get("token")
    return found is not None and cob["confirm"].get("token", found) == found


def _make(home: Path, cob: Dict[str, Any]) -> None:
    """Make a new home, with everything but what the preparation keeps."""
    wish = cob["confirm"]
    shutil.rmtree(home, ignore_errors=True)
    (home / "kept").mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    os.mkfifo(home / "wake", 0o600)
    (home / "lock").touch(0o600)
    watcher.store(home / "watcher.py", inspect.getsource(watcher))
    for name in ("revert", "prepare"):
        watcher.store(home / name, _text(wish, name))
    change = {
        "version": watcher.VERSION,
        "cob": cob["id"],
        "token": wish["token"],
        "revert_s": wish["revert_s"],
        "boot": watcher.boot_id(),
        "until": time.monotonic() + float(wish["within_s"]),
    }
    watcher.store(home / "change.json", json.dumps(change))


def _text(wish: Dict[str, Any], name: str) -> str:
    """Return a shell text; a template that comes to nothing is None to Ansible."""
    found = wish.get(name)
    return "" if found is None else str(found)


def _prepare(home: Path, wish: Dict[str, Any]) -> None:
    ended = watcher.run_text(home, "prepare", float(wish["within_s"]))
    if ended["status"] != 0:
        raise Failed(f"`prepare` {_describe(ended)}; nothing was changed")


def _start(home: Path) -> None:
    """Start the watcher so that it outlives this connection, and whatever serves it."""
    command = [sys.executable, "-I", str(home / "watcher.py")]
    if os.geteuid() == 0 and Path("/run/systemd/system").is_dir():
        watcher.keep_for_boot(home, sys.executable)
        unit = f"--unit={watcher.unit_name(home)}"
        how = ["systemd-run", "--quiet", "--collect", "--property=KillMode=process", unit, "--"]
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*how, *command, str(home)], check=False).returncode == 0:
                return
    subprocess.run(
        [*command, "--detach", str(home)],
        cwd="/",
        env={"PATH": watcher.PATH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def _await_watcher(home: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not watcher.is_watched(home):
        if time.monotonic() > deadline:
            raise Failed(f"no watcher has started within {START_LIMIT_S:g} s; see {home}")
        time.sleep(watcher.POLL_S)


def _ended(home: Path) -> Answer:
    """Return how a change has ended, once that is so; what is still armed is taken back."""
    change = watcher.read_json(home / "change.json")
    limit_s = float(change["revert_s"]) + GRACE_S
    deadline = time.monotonic() + limit_s
    while watcher.is_pending(home) or watcher.is_watched(home):
        if time.monotonic() > deadline:
            raise Failed(f"the host is not done with going back within {limit_s:g} s; see {home}")
        if not watcher.is_watched(home):
            _start(home)
            _await_start(home)
        watcher.wake(home)
        time.sleep(watcher.POLL_S)
    watcher.forget_boot(home)
    if (home / watcher.CONFIRMED).exists():
        _tidy(home)
        return {"state": "confirmed"}
    result = watcher.read_json(home / "result.json")
    if not result:
        return {"state": "none"}
    if result["status"] != 0:
        message = f"`revert` {_describe(result)}; what it was to use is in {home}"
        return {"state": "not-reverted", "msg": message}
    _tidy(home)
    return {"state": "taken-back" if result["by"] == watcher.ASKED else "gone-back"}


def _await_start(home: Path) -> None:
    """Wait until a new watcher lives, or has done its work already."""
    deadline = time.monotonic() + START_LIMIT_S
    while watcher.is_pending(home) and not watcher.is_watched(home):
        if time.monotonic() > deadline:
            return
        time.sleep(watcher.POLL_S)


def _tidy(home: Path) -> None:
    for name in SECRET:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _describe(ended: Dict[str, Any]) -> str:
    status = ended["status"]
    how = "took too long" if status is None else f"ended with exit status {status}"
    return f"{how}: {ended['output']}" if ended["output"] else how


if __name__ == "__main__":
    run({"arm": arm, "confirm": confirm, "revert": revert})
