"""Images of the boot server: files named by the SHA-256 of what they hold unpacked.

What comes in is kept only when its digest was found right, and is looked at once more by each
server before it is the first to prime a disk with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cobweb.errors import CobwebError

_CHUNK = 1 << 20
_MOST_AT_ONCE = 4 << 20
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """An image; `bytes` of it unpacked, `stored_bytes` of its file, `format` gzip or raw."""

    sha256: str
    bytes: int
    format: str
    stored_bytes: int


def image_in(folder: Path, sha256: str) -> StoredImage | None:
    """Return an image of a folder; None where there is none."""
    path = folder / sha256
    try:
        data = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return StoredImage(**data) if path.exists() else None
    except (FileNotFoundError, ValueError, TypeError):  # a crash may have torn it
        return None


class Images:
    """The images in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sound: dict[str, tuple[int, int]] = {}
        for left in folder.glob("*.part"):
            left.unlink()

    def path(self, sha256: str) -> Path:
        """Return the file of an image."""
        return self._folder / sha256

    def find(self, sha256: str) -> StoredImage | None:
        """Return an image; None where there is none."""
        return image_in(self._folder, sha256)

    async def store(self, sha256: str, chunks: AsyncIterator[bytes]) -> StoredImage:
        """Keep what comes as an image; CobwebError where it has another digest."""
        part = self._folder / f"{sha256}.{os.urandom(4).hex()}.part"
        try:
            with part.open("xb") as file:
                async for chunk in chunks:
                    file.write(chunk)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            image = await asyncio.to_thread(_measured, part)
            if image.sha256 != sha256:
                message = f"the image has the SHA-256 {image.sha256}, and not {sha256}"
                raise CobwebError(message, hint="sha256 is that of the unpacked image")
            about = self.path(sha256).with_suffix(".json")
            fresh = about.with_suffix(".part")
            with fresh.open("w", encoding="utf-8") as file:
                json.dump(asdict(image), file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path(sha256))
            fresh.replace(about)
        finally:
            part.unlink(missing_ok=True)
        self._sound[sha256] = self._mark(sha256)
        return image

    def remove(self, sha256: str) -> None:
        """Keep an image no longer."""
        self.path(sha256).with_suffix(".json").unlink(missing_ok=True)
        self.path(sha256).unlink(missing_ok=True)
        self._sound.pop(sha256, None)

    async def sound(self, sha256: str) -> StoredImage:
        """Return an image whose digest is right; CobwebError where it is not, or is gone."""
        image = self.find(sha256)
        if image is None:
            raise CobwebError(f"the boot server has no image {sha256[:12]}")
        if self._sound.get(sha256) != self._mark(sha256):
            found = await asyncio.to_thread(_measured, self.path(sha256))
            if found != image:
                self.remove(sha256)
                message = (
                    f"the image {sha256[:12]} was damaged on the boot server, and is gone there"
                )
                raise CobwebError(message, hint="the next `cobweb apply` sends it again")
            self._sound[sha256] = self._mark(sha256)
        return image

    def _mark(self, sha256: str) -> tuple[int, int]:
        found = self.path(sha256).stat()
        return found.st_size, found.st_mtime_ns


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what gzip has packed, in pieces; strictly, since not every trampoline is lenient."""
    member, is_whole = zlib.decompressobj(wbits=31), False
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                yield member.decompress(rest, _MOST_AT_ONCE)
                is_whole = member.eof
                rest = member.unconsumed_tail or member.unused_data
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise CobwebError(f"the image cannot be unpacked: {error}") from error
    if not is_whole:
        raise CobwebError("the image cannot be unpacked: its end is missing")


def _measured(path: Path) -> StoredImage:
    """Read a whole file, unpacked; CobwebError where it cannot be unpacked."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as raw:
        packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        chunks = iter(lambda: raw.read(_CHUNK), b"")
        for chunk in _unpacked(chunks) if packed else chunks:
            digest.update(chunk)
            size += len(chunk)
    kind = "gzip" if packed else "raw"
    stored = path.stat().st_size
    return StoredImage(sha256=digest.hexdigest(), bytes=size, format=kind, stored_bytes=stored)
