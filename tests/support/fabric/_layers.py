"""Images: what hosts have installed beside what this machine has; built once, kept in a cache.

They are in `$COBWEB_IMAGES` (default: ~/.cache/cobweb/images), and are built anew when this
machine's packages or the recipe change.

Image `deps` is a bare host: all that the packages need is installed, and the packages themselves
are in a local repository, the host's only source. Image `full` has them installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["IMAGES", "build_images", "image_files"]

IMAGES = ("deps", "full")
"""In the order of the layers: each lies above those before it."""

_CHECKOUT = Path(__file__).resolve().parents[3]
_STATUS = Path("/var/lib/dpkg/status")
_RECIPE = Path(__file__).with_name("_bake.py")


def image_files(image: str) -> tuple[Path, ...]:
    """Return the layers of an image, the highest first; those that are missing are built now."""
    layers = IMAGES[: IMAGES.index(image) + 1]
    files = tuple(_file(layer) for layer in reversed(layers))
    if not all(file.exists() for file in files):
        argv = [sys.executable, "-m", "tests.support.fabric.images", image]
        subprocess.run(argv, cwd=_CHECKOUT, stdin=subprocess.DEVNULL, check=True)
    return files


def build_images(images: Sequence[str]) -> None:
    """Build what is missing of the images; say so on stderr, and leave the process if it fails."""
    highest = max(IMAGES.index(image) for image in images)
    with _alone():
        for number, layer in enumerate(IMAGES[: highest + 1]):
            if not _file(layer).exists():
                _build(layer, [_file(below) for below in reversed(IMAGES[:number])])


def _build(layer: str, lowers: Sequence[Path]) -> None:
    file = _file(layer)
    draft = file.with_suffix(".draft")
    _say(f"building image {layer} ...")
    start = time.monotonic()
    own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private")
    program = (sys.executable, "-m", "tests.support.fabric._bake", layer, str(draft))
    done = subprocess.run([*own, *program, *map(str, lowers)], cwd=_CHECKOUT, check=False)
    if done.returncode:
        draft.unlink(missing_ok=True)
        sys.exit(f"fabric: image {layer} could not be built; the message is above")
    for old in file.parent.glob(f"{layer}-*.img"):
        old.unlink()
    draft.rename(file)
    size = file.stat().st_blocks * 512 >> 20
    _say(f"built image {layer}: {size} MB, {time.monotonic() - start:.0f} s")


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of the cache; two test processes may ask for an image at once."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _file(layer: str) -> Path:
    key = hashlib.sha256(_STATUS.read_bytes() + _RECIPE.read_bytes()).hexdigest()[:16]
    return _cache() / f"{layer}-{key}.img"


def _cache() -> Path:
    named = os.environ.get("COBWEB_IMAGES")
    return Path(named) if named else Path.home() / ".cache" / "cobweb" / "images"


def _say(text: str) -> None:
    sys.stderr.write(f"fabric: {text}\n")
