# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's side of a `tree`: files below a folder, looked at and replaced.

Every file is reached folder by folder from the root, and no symbolic link below it is followed: a
link that somebody puts in the way leads nowhere. A file or link is replaced in one step, by a draft
that is complete before the first one is replaced; `Change` says which drafts those are, so that
what an interruption leaves can be found.

Python 3.8, standard library, Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import time
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tree_git import blob_of, raw
from ansible.module_utils.cobweb_tree_merge import (
    FILE,
    FOLDER,
    LINK,
    SPECIAL,
    Entry,
    Tree,
    Wanted,
    is_like,
    parent_of,
)

GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
IN_USE = {errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOENT}
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ONE_BY_ONE = 64
"""So many files are flushed by themselves; more than that by a flush of their file systems."""

TICK_NS = 50_000_000
"""What has changed no longer ago than this can change again without another time stamp."""

Signature = Tuple[int, int, int, int]
"""Size, times of change of content and of inode, inode."""


class Known(NamedTuple):
    """What was at a path, and by which signature it is known to be unchanged (None: by none)."""

    entry: Entry
    signature: Optional[Signature]


class Step(NamedTuple):
    """What is at a path and what shall be; never alike."""

    path: str
    have: Optional[Entry]
    want: Optional[Entry]


class Change(NamedTuple):
    """Steps, and where the draft of each new file or link is."""

    steps: List[Step]
    drafts: Dict[str, str]


class _GoneError(Exception):
    """There is nothing at a path."""


class Disk:
    """The files below a folder; to be closed."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._chain: List[Tuple[str, int]] = []

    def close(self) -> None:
        """Let go of all folders."""
        self._leave(0)

    def stat(self, path: str) -> Optional[os.stat_result]:
        """Look at what is at a path, which may be a link; None if nothing is."""
        with contextlib.suppress(_GoneError), self._in(path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
        return None

    def read(self, path: str) -> bytes:
        """Return what a file holds or where a link leads."""
        with contextlib.suppress(_GoneError), self._in(path) as (folder, name):
            try:
                return os.readlink(name, dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as stream:
                return stream.read()
        raise Failed(f"{self.full(path)} has gone while it was read; try again")

    def names(self, path: str) -> List[str]:
        """Return the paths of what is in a folder."""
        try:
            listed = os.listdir(self._folder(path))  # noqa: PTH208 - Path knows no descriptors
        except OSError as error:
            raise self._failed(path, error) from None
        found = [os.fsencode(name).decode("utf-8", "surrogateescape") for name in listed]
        return sorted(f"{path}/{name}" if path else name for name in found)

    def draft(self, path: str, entry: Entry, content: bytes, *, flush: bool) -> None:
        """Make a file or link that is not there, complete with mode and owner."""
        with self._in(path, must=True) as (folder, name):
            if entry.kind == LINK:
                os.symlink(content, name, dir_fd=folder)
                os.chown(name, *_owner(entry), dir_fd=folder, follow_symlinks=False)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(name, flags, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                _dress(handle, entry)
                if flush:
                    os.fsync(handle)

    def move(self, source: str, path: str) -> None:
        """Put a draft in its place, in one step."""
        with self._in(source, must=True) as (from_folder, from_name):
            # The descriptor of one folder is not kept while the other is looked up.
            held = os.dup(from_folder)
        try:
            with self._in(path, must=True) as (folder, name):
                os.rename(from_name, name, src_dir_fd=held, dst_dir_fd=folder)
        finally:
            os.close(held)

    def remove(self, path: str) -> None:
        """Remove a file or link, if it is there."""
        with contextlib.suppress(_GoneError), self._in(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def make_folder(self, path: str, entry: Entry) -> None:
        """Make a folder if it is not there; mode and owner become right unless it is soft."""
        with self._in(path, must=True) as (folder, name):
            made = True
            try:
                os.mkdir(name, 0o700, dir_fd=folder)
            except FileExistsError:
                made = False
            if made or not entry.soft:
                handle = os.open(name, FOLDER_FLAGS, dir_fd=folder)
                try:
                    _dress(handle, entry)
                finally:
                    os.close(handle)

    def remove_folder(self, path: str, *, must: bool) -> None:
        """Remove a folder that is empty; one that is in use stays, or is an error."""
        with contextlib.suppress(ValueError):
            self._leave([name for name, _ in self._chain].index(path))
        with contextlib.suppress(_GoneError), self._in(path) as (folder, name):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if must or error.errno not in IN_USE:
                    raise

    def flush(self, folders: Iterable[str], *, whole: bool) -> None:
        """Let names last that were changed in folders; `whole`: all of their file systems."""
        devices = set()
        for path in sorted(folders):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                folder = self._folder(path)
                device = os.fstat(folder).st_dev
                if not whole:
                    os.fsync(folder)
                elif device not in devices:
                    devices.add(device)
                    _sync_file_system(folder)

    def free(self) -> int:
        """Return how many bytes can be written."""
        found = os.fstatvfs(self._folder(""))
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
        return free * found.f_frsize

    def full(self, path: str) -> str:
        """Return the whole path for people."""
        return f"{self.root.rstrip('/')}/{path}".encode("utf-8", "replace").decode()

    @contextlib.contextmanager
    def _in(self, path: str, *, must: bool = False) -> Iterator[Tuple[int, bytes]]:
        """Give folder and name of a path; it is an error for people if it `must` be and is gone."""
        above, _, name = path.rpartition("/")
        try:
            yield self._folder(above), raw(name)
        except OSError as error:
            if must or error.errno not in GONE:
                raise self._failed(path, error) from None
            raise _GoneError from None

    def _failed(self, path: str, error: OSError) -> Failed:
        return Failed(f"{self.full(path)}: {error.strerror}")

    def _folder(self, path: str) -> int:
        """Open a folder without following links; those on the way to it stay open."""
        if not self._chain:
            flags = FOLDER_FLAGS & ~os.O_NOFOLLOW
            self._chain.append(("", os.open(raw(self.root), flags)))
        steps = [path[:end] for end, letter in enumerate(path) if letter == "/"]
        wanted = ["", *steps, path] if path else [""]
        same = 0
        while same < min(len(self._chain), len(wanted)) and self._chain[same][0] == wanted[same]:
            same += 1
        self._leave(same)
        for want in wanted[same:]:
            name = raw(want.rpartition("/")[2])
            handle = os.open(name, FOLDER_FLAGS, dir_fd=self._chain[-1][1])
            self._chain.append((want, handle))
        return self._chain[-1][1]

    def _leave(self, depth: int) -> None:
        while len(self._chain) > depth:
            os.close(self._chain.pop()[1])


def scan(disk: Disk, paths: Iterable[str], known: Dict[str, Known]) -> Dict[str, Known]:
    """Return what is there; a file whose signature is known is not read."""
    found = {}
    for path in sorted(paths):
        one = _look(disk, path, known.get(path))
        if one is not None:
            found[path] = one
    return found


def plan(present: Tree, wanted: Wanted, name: str) -> Change:
    """Return the steps that lead from what is there to what shall be; `name` is for the drafts."""
    steps = []
    drafts = {}
    for path in sorted(wanted):
        have, want = present.get(path), wanted[path]
        if is_like(want, have):
            continue
        steps.append(Step(path, have, want))
        if want is not None and want.kind != FOLDER:
            above = parent_of(path)
            while above and not _is_folder(present.get(above)):
                above = parent_of(above)
            draft = f".cobweb-{name}-{len(drafts)}"
            drafts[path] = f"{above}/{draft}" if above else draft
    return Change(steps, drafts)


def remove_drafts(disk: Disk, drafts: Iterable[str]) -> None:
    """Remove what an interrupted change may have left."""
    for draft in sorted(drafts):
        disk.remove(draft)


def write_drafts(disk: Disk, change: Change, content: Callable[[str], bytes]) -> None:
    """Write all new files and links beside their places; `content` gives what a blob holds."""
    few = len(change.drafts) <= ONE_BY_ONE
    for step in change.steps:
        if step.path in change.drafts and step.want is not None:
            data = content(step.want.blob)
            disk.draft(change.drafts[step.path], step.want, data, flush=few)
    if not few:
        disk.flush(map(parent_of, change.drafts.values()), whole=True)


def carry_out(disk: Disk, change: Change) -> None:
    """Take away what goes, the deepest first, then put everything in its place."""
    for path, have, want in reversed(change.steps):
        if _is_folder(have) and not _is_folder(want):
            disk.remove_folder(path, must=want is not None)
        elif have is not None and have.kind != FOLDER and (want is None or want.kind == FOLDER):
            disk.remove(path)
    for path, _, want in change.steps:
        if want is None:
            continue
        if want.kind == FOLDER:
            disk.make_folder(path, want)
        else:
            disk.move(change.drafts[path], path)
    folders = {parent_of(step.path) for step in change.steps}
    disk.flush(folders, whole=len(folders) > ONE_BY_ONE)


def _is_folder(entry: Optional[Entry]) -> bool:
    return entry is not None and entry.kind == FOLDER


def _look(disk: Disk, path: str, known: Optional[Known]) -> Optional[Known]:
    found = disk.stat(path)
    if found is None:
        return None
    kind = _kind(found)
    # Looked at before it is read: what changes meanwhile has another signature.
    signature = _signature(found) if kind in (FILE, LINK) else None
    if signature is None:
        blob = ""
    elif known is not None and known.signature == signature and known.entry.kind == kind:
        blob = known.entry.blob
    else:
        blob = blob_of(disk.read(path))
        if found.st_ctime_ns + TICK_NS > time.time_ns():
            signature = None
    entry = Entry(kind, blob, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
    return Known(entry, signature)


def _kind(found: os.stat_result) -> str:
    if stat.S_ISREG(found.st_mode):
        return FILE
    if stat.S_ISLNK(found.st_mode):
        return LINK
    return FOLDER if stat.S_ISDIR(found.st_mode) else SPECIAL


def _signature(found: os.stat_result) -> Signature:
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def _dress(handle: int, entry: Entry) -> None:
    """Set owner and mode, in this order: a new owner takes setuid away."""
    os.fchown(handle, *_owner(entry))
    os.fchmod(handle, entry.mode)


def _sync_file_system(handle: int) -> None:
    """Flush one file system; Python has only the call that flushes all of them."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _owner(entry: Entry) -> Tuple[int, int]:
    return (-1 if entry.uid is None else entry.uid, -1 if entry.gid is None else entry.gid)
