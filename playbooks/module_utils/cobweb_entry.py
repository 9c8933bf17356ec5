# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and symbolic links as values: read whole, replaced in one step.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Failed

DEFAULT_MODE = "0644"

Judge = Callable[[Path], None]
"""Looks at a file that is complete, but not in its place yet; Failed keeps it out of there."""


class Entry(NamedTuple):
    """A file or symbolic link as it is; `content` is the target's name for a link."""

    content: bytes
    link: bool
    mode: int
    uid: int
    gid: int

    @property
    def digest(self) -> str:
        """Name kind and content."""
        kind = b"link:" if self.link else b"file:"
        return hashlib.sha256(kind + self.content).hexdigest()


def read_entry(path: Path) -> Optional[Entry]:
    """Return what is at `path`, None for nothing; Failed if it is neither a file nor a link."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    link = stat.S_ISLNK(found.st_mode)
    if not link and not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "special file"
        raise Failed(f"{path} is a {kind}, not a file; move it away or change the path")
    # Path.readlink came with Python 3.9.
    content = os.fsencode(os.readlink(path)) if link else path.read_bytes()  # noqa: PTH115
    mode = stat.S_IMODE(found.st_mode)
    return Entry(content=content, link=link, mode=mode, uid=found.st_uid, gid=found.st_gid)


def user_id(owner: Any, default: int) -> int:
    """Return the number of a user by name or number."""
    if owner is None:
        return default
    if str(owner).isdigit():
        return int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise Failed(f"there is no user {owner} on this host") from None


def group_id(group: Any, default: int) -> int:
    """Return the number of a group by name or number."""
    if group is None:
        return default
    if str(group).isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise Failed(f"there is no group {group} on this host") from None


def put(
    path: Path, entry: Entry, *, owner_matters: bool = False, judge: Optional[Judge] = None
) -> None:
    """Replace `path` in one step; a reader sees the old file or the new one, whole.

    Only root can give files away: for others the owner is an error if it matters, or left out.
    Attributes of the file that is replaced, such as access lists, go over to the new one. Where
    anything fails, and where `judge` refuses it, nothing of the new file is left.
    """
    draft = path.with_name(f".{path.name}.cobweb")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    try:
        if entry.link:
            draft.symlink_to(os.fsdecode(entry.content))
        else:
            _write_draft(draft, entry, path, owner_matters=owner_matters)
        if judge is not None:
            judge(draft)
        draft.replace(path)
    except (Failed, OSError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        if isinstance(error, Failed):
            raise
        raise Failed(f"cannot write {path}: {error.strerror or error}") from None
    sync_folder(path.parent)


def store(path: Path, content: bytes) -> None:
    """Write a file of our own, for its owner's eyes only."""
    put(path, Entry(content=content, link=False, mode=0o600, uid=os.geteuid(), gid=os.getegid()))


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable, if it is there."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def missing_folders(path: Path) -> List[str]:
    """Return the folders above `path` that must be made, the deepest first."""
    return [str(folder) for folder in path.parents if not folder.exists()]


def remove_folders(folders: List[str]) -> None:
    """Remove the folders that we made, as far as nobody else uses them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            Path(folder).rmdir()


def _write_draft(draft: Path, entry: Entry, path: Path, *, owner_matters: bool) -> None:
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(entry.content)
        stream.flush()
        if owner_matters or os.geteuid() == 0:
            os.fchown(handle, entry.uid, entry.gid)
        _copy_attributes(path, handle)
        os.fchmod(handle, entry.mode)
        os.fsync(handle)


def _copy_attributes(path: Path, handle: int) -> None:
    """Copy the extended attributes of a file as far as there is one and the system lets us."""
    if path.is_symlink():
        return
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            with contextlib.suppress(OSError):
                os.setxattr(handle, name, os.getxattr(path, name))
