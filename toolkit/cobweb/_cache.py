"""What was worked out before, kept in a folder of the user's own under the key of all that went in.

The folder is `$XDG_CACHE_HOME/cobweb` or `~/.cache/cobweb`, never a place in a site: what is read
from here is trusted. It must belong to the user, be closed to others (0700) and be no link, else
nothing is read or written; nor is it on platforms that look up no names below an opened folder,
where what was checked could be exchanged before it is read. An entry that is missing, cut short or
damaged reads as None; what cannot be written is left out. Nothing here raises for the state of the
disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_BYTES = 512 * 2**20
"""The entries take at most so much together; the one that was used longest ago goes first."""

MAX_ENTRIES = 2000
"""So many at most: each that is put looks at all of them."""

NO_CACHE = "COBWEB_NO_CACHE"
"""The environment variable that turns the cache off, with any text in it."""

_MAGIC = b"cobweb cache 1\n"
_DIGEST_SIZE = hashlib.sha256().digest_size
_SUFFIX = ".entry"
_WORD = re.compile(r"[a-z0-9-]+")
_OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Cache:
    """Bytes by kind (a word of small letters) and key (a digest in hexadecimal digits).

    `folder` None keeps nothing. Several processes may use one folder: entries are renamed into
    place whole.
    """

    def __init__(self, folder: Path | None, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder if _can_be_checked() else None
        self._max_bytes = max_bytes

    def __bool__(self) -> bool:
        """Say whether anything can be kept."""
        return self._folder is not None

    def get(self, kind: str, key: str) -> bytes | None:
        """Return what was put, None if it is not there or no longer whole."""
        if self._folder is None:
            return None
        try:
            with _opened(self._folder) as folder:
                data = _read(folder, _file_name(kind, key))
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_SIZE
        value = memoryview(data)[start:]
        whole = data[:start] == _MAGIC + hashlib.sha256(value).digest()
        return bytes(value) if whole else None

    def put(self, kind: str, key: str, value: bytes) -> None:
        """Keep `value`; what is too long for the whole cache, or cannot be written, is left out."""
        size = len(_MAGIC) + _DIGEST_SIZE + len(value)
        if self._folder is None or size > self._max_bytes:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened(self._folder) as folder:
                _make_room(folder, self._max_bytes - size)
                _write(folder, _file_name(kind, key), value)
        except OSError:
            return


def open_cache(environ: Mapping[str, str]) -> Cache:
    """Return the user's cache; an empty one without a home, or with `COBWEB_NO_CACHE` set."""
    if environ.get(NO_CACHE):
        return Cache(None)
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification of these folders says to ignore it then
        base = Path(environ.get("HOME", ""), ".cache")
    return Cache(base / "cobweb" if base.is_absolute() else None)


def _file_name(kind: str, key: str) -> str:
    assert _WORD.fullmatch(kind), kind
    assert _WORD.fullmatch(key), key
    return f"{kind}.{key}{_SUFFIX}"


def _can_be_checked() -> bool:
    """Say whether this platform looks up names below an opened folder, so that it stays the one."""
    return {os.open, os.rename, os.unlink} <= os.supports_dir_fd and (
        {os.scandir, os.utime} <= os.supports_fd
    )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Yield a descriptor of the folder; OSError for a link, or what others own or can enter."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & _OPEN_TO_OTHERS:
            raise PermissionError(errno.EPERM, "not the user's alone", str(path))
        yield folder
    finally:
        os.close(folder)


def _read(folder: int, name: str) -> bytes:
    """Return the bytes of an entry, which is used now; OSError for a link or another's file."""
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "another user's", name)
        os.utime(handle)  # others go first
        return file.read()


def _write(folder: int, name: str, value: bytes) -> None:
    part = f"{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(part, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(value).digest())
            file.write(value)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(part, dir_fd=folder)
        raise


def _make_room(folder: int, allowed: int) -> None:
    """Remove the entries that were used longest ago, and what writers left when they died."""
    entries = []
    with os.scandir(folder) as found:
        for each in found:
            status = each.stat(follow_symlinks=False)
            entries.append((status.st_mtime_ns, each.name, status.st_size))
    total, left = sum(size for _, _, size in entries), len(entries)
    for _, name, size in sorted(entries):
        if total <= allowed and left < MAX_ENTRIES:
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        total, left = total - size, left - 1
