"""The watcher of a dead-man switch: takes a change back that nobody has confirmed in time.

Standard library only, Python 3.8 or newer, Linux. The file has two lives: the module
`cobweb_confirm` imports it, and copies it into the home folder of each change, where it runs as
`python3 -I watcher.py HOME` in the background, apart from the connection that started it.

A home holds `change.json` (whose change, until when), `revert` (the shell text), `kept` (what that
needs), `wake` (a pipe that ends the waiting early), `lock` (held by the watcher as long as it
lives), and in the end `result.json`. The file `armed` becomes `confirmed` or `reverting` by being
renamed: of all who try, one succeeds, so a change is confirmed or taken back, and never both.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Optional

VERSION = 1
ARMED = "armed"
CONFIRMED = "confirmed"
REVERTING = "reverting"

IN_TIME = "time"
ASKED = "asked"
AT_BOOT = "boot"

OUTPUT_LIMIT = 2_000
LOCK_WAIT_S = 2.0
POLL_S = 0.05
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNITS = Path("/etc/systemd/system")
TARGET = "default.target.wants"


def boot_id() -> str:
    """Name the life of this host: its kernel, and the start of its first process (containers)."""
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    fields = Path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return f"{kernel}/{fields[19]}"


def read_json(path: Path) -> Dict[str, Any]:
    """Read a JSON object; an absent or damaged file is an empty one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def store(path: Path, text: str) -> None:
    """Replace a file in one step and for good; only its owner may read it."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(handle)
    draft.replace(path)
    _sync(path.parent)


def claim(home: Path, name: str) -> bool:
    """Turn `armed` into another name, for good; say whether it was there."""
    try:
        (home / ARMED).rename(home / name)
    except FileNotFoundError:
        return False
    _sync(home)
    return True


def is_pending(home: Path) -> bool:
    """Say whether a change is neither confirmed nor has its taking back ended."""
    if (home / ARMED).exists():
        return True
    return (home / REVERTING).exists() and not (home / "result.json").exists()


def is_watched(home: Path) -> bool:
    """Say whether a watcher lives."""
    try:
        with (home / "lock").open("rb") as lock:
            return not _locked(lock)
    except FileNotFoundError:
        return False


def wake(home: Path) -> None:
    """Let the watcher look at once; harmless where there is none."""
    with contextlib.suppress(OSError):
        handle = os.open(home / "wake", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(handle, b"!")
        finally:
            os.close(handle)


def unit_name(home: Path) -> str:
    """Return the name of the unit under which systemd runs the watcher."""
    return f"cobweb-confirm-{home.name}"


def keep_for_boot(home: Path, python: str) -> None:
    """Let systemd run the watcher when the host starts again; no reload is needed for that."""
    unit = UNITS / f"{unit_name(home)}-boot.service"
    command = " ".join(f'"{word}"' for word in (python, "-I", home / "watcher.py", home))
    command = command.replace("%", "%%")
    unit.write_text(
        "[Unit]\nDescription=Take back a change that nobody has confirmed\n"
        "After=network.target\n\n"
        f"[Service]\nExecStart={command}\nKillMode=process\n",
        encoding="utf-8",
    )
    link = UNITS / TARGET / unit.name
    link.parent.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        link.symlink_to(unit)
    for folder in (link.parent, UNITS):
        _sync(folder)


def forget_boot(home: Path) -> None:
    """Undo `keep_for_boot`, if it was done."""
    for folder in (UNITS / TARGET, UNITS):
        with contextlib.suppress(OSError):
            (folder / f"{unit_name(home)}-boot.service").unlink()


def environment(home: Path, change: Dict[str, Any]) -> Dict[str, str]:
    """Return what the shell texts see: what a login would set, the object, the folder `kept`."""
    user = pwd.getpwuid(os.geteuid())
    return {
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "LANG": "C.UTF-8",
        "PATH": PATH,
        "COBWEB_ID": str(change["cob"]),
        "COBWEB_KEPT": str(home / "kept"),
    }


def run_text(home: Path, name: str, limit_s: float) -> Dict[str, Any]:
    """Run one of the shell texts; return `status` (None: it took too long) and `output`.

    The output is kept in memory: a full disk must not stop the way back.
    """
    with os.fdopen(os.memfd_create("output"), "w+b") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-e", str(home / name)],
            cwd="/",
            env=environment(home, read_json(home / "change.json")),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: Optional[int] = None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - OUTPUT_LIMIT))
        text = output.read().decode("utf-8", errors="replace").strip()
    return {"status": status, "output": text}


def watch(home: Path) -> None:
    """Wait for the end of the time, or for somebody, and take the change back if it is armed."""
    change = read_json(home / "change.json")
    waker = os.open(home / "wake", os.O_RDWR | os.O_NONBLOCK)  # before others can see the lock
    with (home / "lock").open("rb") as lock:
        if not _lock(lock):
            return
        by = _wait(home, change, waker)
        if claim(home, REVERTING) or is_pending(home):
            ended = run_text(home, "revert", float(change["revert_s"]))
            store(home / "result.json", json.dumps({"by": by, **ended}))
        forget_boot(home)


def main(arguments: Any) -> None:
    """Run as the watcher of a home; with `--detach`, as a child that init adopts."""
    if arguments[0] == "--detach":
        if os.fork():
            os._exit(0)
        arguments = arguments[1:]
    watch(Path(arguments[0]))


def _wait(home: Path, change: Dict[str, Any], waker: int) -> str:
    """Return what ended the waiting."""
    if change["boot"] != boot_id():
        return AT_BOOT
    if not (home / ARMED).exists():
        return ASKED
    left_s = max(0.0, float(change["until"]) - time.monotonic())
    return ASKED if select.select([waker], [], [], left_s)[0] else IN_TIME


def _lock(lock: Any) -> bool:
    """Take the lock; others look for a moment only whether it is held."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while not _locked(lock):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _locked(lock: Any) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1:])
