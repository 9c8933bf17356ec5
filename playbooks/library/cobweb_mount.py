# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `mount`: check, make and remove a mount and its line in fstab.

A line of /etc/fstab belongs to the object that its mount point names. A foreign one, and a foreign
mount at that place, are remembered before the first change and come back on removal.

The states: `up` if the source is mounted there with the options asked for, and fstab says so as
asked; `down` if nothing is mounted there and fstab has no line, or both are as we put them back;
`outdated` if something else is mounted, and answers; `broken` if fstab has a line and nothing is
mounted, or what is does not answer. A device is formatted only if nothing at all is found on it.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils import cobweb_mounts as mounts
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_mounts import Mounted
from ansible.module_utils.cobweb_tools import (
    Done,
    Record,
    attempt,
    call,
    digest,
    has_systemd,
    one_at_a_time,
)

RETRY_S = 0.5
ENOUGH_USERS = 8
BLANK_BYTES = 1 << 20
MKFS_S = 900
MKFS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f", "-K"]}
MKFS_UUID = {"ext4": "-U{}", "xfs": "-muuid={}"}


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    spec = cob["spec"]
    for path in _earlier(cob):
        if _record(path).read().get("ours"):
            return {"state": _in_between(path)}
    line, mounted = mounts.fstab_line(spec["path"]), mounts.find(spec["path"])
    if line is None and mounted is None:
        return {"state": "down"}
    record = _record(spec["path"]).read()
    if "put_back" in record and record["put_back"] == _digest(line, mounted):
        return {"state": "down"}
    as_asked = line == mounts.wanted_line(spec) and _is_asked(mounted, spec, record)
    return {"state": "up" if as_asked else _in_between(spec["path"])}


def _in_between(path: str) -> str:
    """Return the state of what is neither as asked nor gone."""
    return "outdated" if mounts.find(path) is not None and _is_alive(path) else "broken"


def make(cob: Dict[str, Any]) -> Answer:
    """Mount the source as the spec says; what was there before is remembered."""
    spec = cob["spec"]
    for path in _earlier(cob):
        _remove(path, lazy=spec.get("lazy", False))
    record = _begin(spec)
    if "format" in spec:
        _format(spec, record)
    mounted = mounts.find(spec["path"])
    if not _is_asked(mounted, spec, record):
        if mounted is not None and not _remount(mounted, spec, record):
            _unmount(spec["path"], lazy=spec.get("lazy", False))
            mounted = None
        if mounted is None:
            _mount(spec, record)
    _write_line(spec["path"], mounts.wanted_line(spec))
    shown = mounts.find(spec["path"])
    record.update(asked=_asked(spec), shown=shown and shown.essence)
    _record(spec["path"]).write(record)
    return {"changed": True}


def remove(cob: Dict[str, Any]) -> Answer:
    """Unmount what is ours and take its line away; what was there before comes back."""
    for path in (*_earlier(cob), cob["spec"]["path"]):
        _remove(path, lazy=cob["spec"].get("lazy", False))
    return {"changed": True}


def _earlier(cob: Dict[str, Any]) -> List[str]:
    path = (cob.get("applied") or {}).get("path")
    return [] if path in (None, cob["spec"]["path"]) else [path]


def _record(path: str) -> Record:
    return Record("mount", path)


def _asked(spec: Dict[str, Any]) -> Dict[str, str]:
    return {key: spec.get(key, "defaults") for key in ("source", "fstype", "options")}


def _digest(line: Optional[str], mounted: Optional[Mounted]) -> str:
    return str(digest([line, mounted and mounted.essence]))


def _is_asked(mounted: Optional[Mounted], spec: Dict[str, Any], record: Dict[str, Any]) -> bool:
    """Say whether this mount is the one of the spec.

    Not every option can be seen in what the kernel says of a mount. So what it said when we had
    made it counts, where we had; else source, kind and the flags that everybody can see.
    """
    if mounted is None or not _is_alive(spec["path"]):
        return False
    if record.get("asked") == _asked(spec):
        return bool(record.get("shown") == mounted.essence)
    if record.get("asked"):
        return False
    return bool(mounts.is_source(mounted, spec) and mounts.has_flags(mounted, spec))


def _is_alive(path: str) -> bool:
    """Say whether the file system answers; one of FUSE whose daemon has died does not."""
    try:
        os.statvfs(path)
    except OSError:
        return False
    return True


def _begin(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Return the record of what is ours; nothing is touched before it is stored."""
    path = spec["path"]
    record: Dict[str, Any] = _record(path).read()
    if record.get("ours"):
        return record
    mounted = mounts.find(path)
    folders = [str(it) for it in (Path(path), *Path(path).parents) if not it.exists()]
    record = {"ours": True, "line": mounts.fstab_line(path), "mounted": None, "folders": folders}
    if mounted is not None:
        record["mounted"] = mounted._asdict()
    _record(path).write(record)
    return record


# --- formatting


def _format(spec: Dict[str, Any], record: Dict[str, Any]) -> None:
    """Make the file system unless it is there; whatever else is there is left alone."""
    device, kind = mounts.device_of(spec["source"]), spec["format"]
    begun = record.pop("formatting", None) or {}
    ours = begun.get("uuid", "") if begun.get("device") == device else ""
    if not _probe(device, kind, ours):
        ours = ours or str(uuid.uuid4())
        record["formatting"] = {"device": device, "uuid": ours}
        _record(spec["path"]).write(record)
        call(*MKFS[kind], MKFS_UUID[kind].format(ours), device, timeout_s=MKFS_S)
        del record["formatting"]
    _record(spec["path"]).write(record)


def _probe(device: str, kind: str, ours: str) -> bool:
    """Say whether the device has this file system (true) or is blank (false), else fail.

    `ours` is what a file system is called that we began to make. One with another name was made by
    somebody since then, or the device is another one now: it may hold data.
    """
    done = attempt("blkid", "-p", "-o", "export", device)
    shown = dict(line.partition("=")[::2] for line in done.out.splitlines())
    found = shown.get("TYPE") or (f"{shown['PTTYPE']} partitions" if "PTTYPE" in shown else "")
    if found == kind:
        return not ours or shown.get("UUID") != ours
    if done.status not in (0, 2):
        raise Failed(f"{device} is not formatted: blkid cannot tell what it holds: {done.message}")
    if found:
        raise Failed(f"{device} is not formatted: it holds {found} (wipe it if that may go)")
    with Path(device).open("rb") as stream:
        if not ours and stream.read(BLANK_BYTES).strip(b"\0"):
            raise Failed(f"{device} is not formatted: it is not blank (wipe it if that may go)")
    return False


# --- mounting


def _mount(spec: Dict[str, Any], record: Dict[str, Any]) -> None:
    """Mount the source; if that fails no folder stays that was made for it."""
    Path(spec["path"]).mkdir(parents=True, exist_ok=True)
    try:
        _try_to_mount(spec)
    except Failed:
        _remove_folders(record["folders"])
        raise


def _try_to_mount(spec: Dict[str, Any]) -> None:
    options = spec.get("options", "defaults")
    argv = ["mount", "-t", spec["fstype"], "-o", options, "--", spec["source"], spec["path"]]
    deadline = time.monotonic() + spec.get("wait", 0)
    while True:
        done = attempt(*argv)
        found = mounts.find(spec["path"])
        if found is not None and _is_alive(spec["path"]):
            return
        if time.monotonic() >= deadline:
            raise Failed(_reason(spec, done))
        if found is not None:
            attempt("umount", "--lazy", "--", spec["path"])
        time.sleep(RETRY_S)


def _reason(spec: Dict[str, Any], done: Done) -> str:
    if done.status == 0 and not done.err.strip():
        return f"mount ended well, but {spec['source']} is not mounted at {spec['path']}"
    waited = f" (tried for {spec['wait']:g} s)" if "wait" in spec else ""
    return f"{done.message}{waited}"


def _remount(mounted: Mounted, spec: Dict[str, Any], record: Dict[str, Any]) -> bool:
    """Change only the options of a mount of ours, without disturbing who uses it, if that works."""
    asked = record.get("asked") or {}
    same = {**_asked(spec), "options": asked.get("options")} == asked and _is_alive(spec["path"])
    if not same or mounted.essence != record.get("shown"):
        return False
    options = mounts.remount_options(asked["options"], spec.get("options", "defaults"))
    if options is None:
        return False
    done = attempt("mount", "-o", f"remount,{options}", "--", spec["path"])
    found = mounts.find(spec["path"])
    return done.status == 0 and found is not None and mounts.has_flags(found, spec)


def _unmount(path: str, *, lazy: bool) -> None:
    done = attempt("umount", "--", path)
    if done.status == 0:
        return
    if "busy" not in done.err:
        raise Failed(done.message)
    if not lazy:
        raise Failed(f"{done.message}{_describe_users(path)}")
    call("umount", "--lazy", "--", path)


def _describe_users(path: str) -> str:
    users = mounts.users_of(path)
    more = f" and {len(users) - ENOUGH_USERS} more" if len(users) > ENOUGH_USERS else ""
    inner = mounts.below(path)
    said = f" Used by {', '.join(users[:ENOUGH_USERS])}{more}." if users else ""
    return said + (f" Mounted below it: {', '.join(inner)}." if inner else "")


def _remove(path: str, *, lazy: bool) -> None:
    record: Dict[str, Any] = _record(path).read()
    if not record.get("ours"):
        # What was there before us, or what we put back, is its owner's business.
        found = _digest(mounts.fstab_line(path), mounts.find(path))
        _record(path).write({"put_back": found})
        return
    before = record.get("mounted")
    mounted = mounts.find(path)
    if mounted is not None and (before is None or mounted != Mounted(**before)):
        _unmount(path, lazy=lazy)
    _write_line(path, record["line"])
    if before is not None and mounts.find(path) is None:
        _mount_again(path, record)
    if record["line"] is None and before is None:
        _remove_folders(record["folders"])
        _record(path).forget()
        return
    _record(path).write({"put_back": _digest(mounts.fstab_line(path), mounts.find(path))})


def _mount_again(path: str, record: Dict[str, Any]) -> None:
    """Mount what was there before us: as fstab says, or as the kernel said."""
    before = Mounted(**record["mounted"])
    if record["line"] is not None:
        call("mount", "--", path)
    elif before.root != "/":
        raise Failed(
            f"{path} was a bind mount before, from {before.source}[{before.root}]; mount it again"
        )
    else:
        call("mount", "-t", before.fstype, "-o", before.flags, "--", before.source, path)


def _remove_folders(folders: List[str]) -> None:
    """Remove the folders that we made, as far as nobody else uses them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            Path(folder).rmdir()


def _write_line(path: str, line: Optional[str]) -> None:
    """Have /etc/fstab say this of a mount point, and tell systemd, which reads it too."""
    if mounts.fstab_line(path) == line:
        return
    with one_at_a_time("mount"):
        mounts.set_fstab_line(path, line)
    if has_systemd():
        call("systemctl", "daemon-reload")


if __name__ == "__main__":
    run({"check": check, "make": make, "remove": remove})
