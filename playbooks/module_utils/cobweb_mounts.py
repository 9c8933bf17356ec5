# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel and /etc/fstab say about mounts, and who uses one.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tools import attempt, replace_file

FSTAB = Path("/etc/fstab")
MOUNTINFO = Path("/proc/self/mountinfo")
SHOWN_FLAGS = ("ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "sync")
REMOUNTABLE = {
    "ro": "rw",
    "noatime": "relatime",
    "nodiratime": "diratime",
    "strictatime": "relatime",
    "nosuid": "suid",
    "nodev": "dev",
    "noexec": "exec",
    "sync": "async",
    "size": "size=50%",
    **{flag: flag for flag in ("rw", "relatime", "suid", "dev", "exec", "async", "defaults")},
    **dict.fromkeys(("nofail", "_netdev", "noauto", "auto", "user", "users"), "defaults"),
}
"""Options that a remount can change, and what takes each back; the last ones only fstab knows."""


class Mounted(NamedTuple):
    """A mount as the kernel shows it; `root` is the folder of the file system that is seen."""

    source: str
    root: str
    fstype: str
    flags: str
    options: str

    @property
    def essence(self) -> List[str]:
        """Return what must be the same for the mount to be the same."""
        read_only = "ro" if "ro" in self.options.split(",") else "rw"
        sizes = [it for it in self.options.split(",") if it.startswith("size=")]
        return [self.source, self.root, self.fstype, self.flags, read_only, *sizes]


def find(path: str) -> Optional[Mounted]:
    """Return what is mounted at a path, the topmost if several are."""
    found = None
    for point, mounted in _all():
        if point == path:
            found = mounted
    return found


def below(path: str) -> List[str]:
    """Return the mount points below a path."""
    return sorted({point for point, _ in _all() if point.startswith(f"{path}/")})


def _all() -> Iterator[tuple[str, Mounted]]:
    text = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    for line in filter(None, text.split("\n")):
        place, _, system = line.partition(" - ")
        _, _, _, root, point, flags = (decode(it) for it in place.split()[:6])
        # A source can be an empty word: the kernel then writes two blanks.
        fstype, source, options = system.split(" ", 2)
        yield point, Mounted(decode(source), root, fstype, flags, options)


def is_source(mounted: Mounted, spec: Dict[str, Any]) -> bool:
    """Say whether a mount shows the source of a spec."""
    source, kind = spec["source"], spec["fstype"]
    if "bind" in options_of(spec) or "rbind" in options_of(spec):
        return _is_same_file(source, spec["path"])
    if kind != "auto" and mounted.fstype not in (kind, f"fuse.{kind}", f"{kind}4"):
        return False
    return mounted.source == source or _is_same_file(mounted.source, _device(source))


def _is_same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _device(source: str) -> str:
    """Return the device that a source names, or the source where there is none."""
    try:
        return device_of(source) if source.startswith("/") or "=" in source else source
    except Failed:
        return source


def has_flags(mounted: Mounted, spec: Dict[str, Any]) -> bool:
    """Say whether a mount shows the flags that a spec asks for, as far as they can be seen."""
    asked = options_of(spec)
    shown = [*mounted.flags.split(","), *mounted.options.split(",")]
    return all(flag in shown for flag in SHOWN_FLAGS if flag in asked)


def options_of(spec: Dict[str, Any]) -> List[str]:
    """Return the options of a spec, one by one."""
    return str(spec.get("options", "defaults")).split(",")


def remount_options(old: str, new: str) -> Optional[str]:
    """Return what a remount must be told to come from `old` to `new`; None where it cannot."""
    before, after = old.split(","), new.split(",")
    names = {_name(option) for option in after}
    changed = {_name(option) for option in set(before) ^ set(after)}
    if any(name not in REMOUNTABLE and not name.startswith("x-") for name in changed):
        return None
    gone = sorted(name for name in changed - names if name in REMOUNTABLE)
    return ",".join([*(REMOUNTABLE[name] for name in gone), *after])


def _name(option: str) -> str:
    return option.partition("=")[0]


def device_of(source: str) -> str:
    """Return the block device that a source names."""
    if not source.startswith("/"):
        done = attempt("findfs", source)
        if done.status != 0:
            raise Failed(done.message)
        source = done.out.strip()
    try:
        mode = Path(source).stat().st_mode
    except FileNotFoundError:
        raise Failed(f"there is no device {source} on this host") from None
    if not stat.S_ISBLK(mode):
        raise Failed(f"{source} is no block device")
    return source


# --- fstab


def encode(text: str) -> str:
    """Write a field as in /etc/fstab."""
    return re.sub(r"[ \t\n\\#]", lambda found: f"\\{ord(found[0]):03o}", text)


def decode(text: str) -> str:
    """Read a field of /etc/fstab or of the kernel."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def wanted_line(spec: Dict[str, Any]) -> Optional[str]:
    """Return the line of /etc/fstab for a spec; None if it wants none."""
    if not spec.get("boot", True):
        return None
    fields = [encode(spec["source"]), encode(spec["path"]), spec["fstype"]]
    return " ".join([*fields, spec.get("options", "defaults"), f"0 {spec.get('passno', 0)}"])


def fstab_line(path: str) -> Optional[str]:
    """Return what /etc/fstab says of a mount point."""
    found = [line for line in _lines() if _point(line) == path]
    return "\n".join(found) if found else None


def set_fstab_line(path: str, text: Optional[str]) -> None:
    """Have /etc/fstab say this of a mount point; all other lines stay as they are."""
    lines = _lines()
    places = [number for number, line in enumerate(lines) if _point(line) == path]
    place = places[0] if places else len(lines)
    kept = [line for line in lines if _point(line) != path]
    after = [*kept[:place], *([] if text is None else [text]), *kept[place:]]
    mode = stat.S_IMODE(FSTAB.stat().st_mode) if FSTAB.exists() else 0o644
    # A name for the same file elsewhere is kept: what is replaced is the file, not the link.
    replace_file(FSTAB.resolve(), "".join(f"{line}\n" for line in after), mode=mode)


def _lines() -> List[str]:
    """Return the lines; what is no UTF-8 stays as it is, and only a line feed ends a line."""
    try:
        lines = FSTAB.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return []
    return lines[:-1] if lines[-1] == "" else lines


def _point(line: str) -> str:
    fields = line.split()
    if len(fields) < 2 or fields[0].startswith("#"):  # noqa: PLR2004 - source and mount point
        return ""
    return decode(fields[1])


# --- who uses a mount


def users_of(path: str) -> List[str]:
    """Return the processes that have something open at or below a path, with their names."""
    pids = sorted(int(it.name) for it in Path("/proc").iterdir() if it.name.isdigit())
    return [f"{pid} ({_command(pid)})" for pid in pids if _uses(pid, path)]


def _uses(pid: int, path: str) -> bool:
    home = Path("/proc") / str(pid)
    links = [home / "cwd", home / "root", home / "exe"]
    with contextlib.suppress(OSError):
        links += list((home / "fd").iterdir())
    for link in links:
        with contextlib.suppress(OSError):
            target = os.readlink(link)  # noqa: PTH115 - Path.readlink came with Python 3.9
            if target == path or target.startswith(f"{path}/"):
                return True
    return False


def _command(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "gone"
