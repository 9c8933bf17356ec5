"""What was worked out before, kept in a folder of the user's own under the key of all that went in.

The folder is `$XDG_CACHE_HOME/cobweb` or `~/.cache/cobweb`, never a place in a site: what is read
from here is trusted. It must belong to the user and be closed to others (0700), else nothing is
read or written. An entry that is missing, cut short or damaged reads as None; what cannot be
written is left out. Nothing here raises for the state of the disk.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["MAX_BYTES", "NO_CACHE", "Cache", "open_cache"]

MAX_BYTES = 512 * 2**20
"""The entries take at most so much together; the one that was used longest ago goes first."""

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
        self._folder = folder
        self._max_bytes = max_bytes

    def __bool__(self) -> bool:
        """Say whether anything can be kept."""
        return self._folder is not None

    def get(self, kind: str, key: str) -> bytes | None:
        """Return what was put, None if it is not there or no longer whole."""
        if self._folder is None or not _is_ours(self._folder):
            return None
        path = self._folder / _file_name(kind, key)
        try:
            data = path.read_bytes()
            os.utime(path)  # used now: others go first
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST_SIZE
        value = memoryview(data)[start:]
        whole = data[:start] == _MAGIC + hashlib.sha256(value).digest()
        return bytes(value) if whole else None

    def put(self, kind: str, key: str, value: bytes) -> None:
        """Keep `value`; what is too long for the whole cache, or cannot be written, is left out."""
        folder = self._folder
        size = len(_MAGIC) + _DIGEST_SIZE + len(value)
        if folder is None or size > self._max_bytes:
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(folder):
                _make_room(folder, self._max_bytes - size)
                _write(folder, folder / _file_name(kind, key), value)
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


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & _OPEN_TO_OTHERS


def _write(folder: Path, path: Path, value: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=folder, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(value).digest())
            file.write(value)
        part.replace(path)
    except OSError:
        part.unlink()
        raise


def _make_room(folder: Path, allowed: int) -> None:
    """Remove the entries that were used longest ago, and what writers left when they died."""
    entries = []
    for path in folder.iterdir():
        status = path.stat()
        entries.append((status.st_mtime_ns, path, status.st_size))
    total = sum(size for _, _, size in entries)
    for _, path, size in sorted(entries):
        if total <= allowed:
            return
        path.unlink(missing_ok=True)
        total -= size
