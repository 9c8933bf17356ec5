# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether files have changed since a service has read them.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Dict, Iterable, Iterator, List

from ansible.module_utils.cobweb_host import Failed

MAX_FILES = 10_000
GONE = "gone"


def digests(paths: Iterable[str]) -> Dict[str, str]:
    """Name what is at each path, all files below it for a folder; `gone` for nothing."""
    return {path: _digest(Path(path)) for path in paths}


def changed_since(paths: Iterable[str], wall_s: float) -> List[str]:
    """Return the paths where something has changed after a time."""
    return [path for path in paths if _newest(Path(path)) > wall_s]


def _digest(path: Path) -> str:
    if not path.exists():
        return GONE
    digest = hashlib.sha256()
    for file in _files(path):
        digest.update(f"{file.relative_to(path)}\0".encode("utf-8", "surrogateescape"))
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _newest(path: Path) -> float:
    """Return the latest change in or of anything there; its content may be older than that."""
    if not path.exists():
        return 0.0
    folders = {file.parent for file in _files(path)} if path.is_dir() else set()
    return max(entry.stat().st_ctime for entry in {path, *folders, *_files(path)})


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or all files of a folder in their order, wherever links lead."""
    if path.is_file():
        yield path
        return
    count = 0
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            count += 1
            if count > MAX_FILES:
                raise Failed(f"`watch`: {path} has more than {MAX_FILES} files")
            file = Path(folder, name)
            if file.is_file():
                yield file
