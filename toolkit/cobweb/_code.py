"""What tells one state of some code from another: its contents, whatever its times say."""

from __future__ import annotations

import hashlib
from pathlib import Path

_SUFFIXES = (".py", ".so")


def code_of(path: Path) -> list[str]:
    """Return names and digests of the modules at `path`, sorted: of a package's folder, or of one.

    Compiled modules count too. One that cannot be read is named without a digest.
    """
    if not path.is_dir():
        return [f"{path.name} {_digest(path)}"]
    files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES)
    return [f"{each.relative_to(path)} {_digest(each)}" for each in files]


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"
