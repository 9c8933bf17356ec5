"""The key of an evaluated site: a digest of everything that it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cobweb
from cobweb.inventory._files import Notes
from cobweb.model import CobType

_LIBRARIES = ("jinja2", "jsonschema", "PyYAML")


def base_key(
    site_file: Path, types: Mapping[str, CobType], sections: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the digest of what is known before a file of the site is read.

    That is where the site is, what plugins add, whose home it is (roles are looked for there), and
    the versions of Python, of Cobweb's own files and of the libraries that evaluate.
    """
    parts = [
        str(site_file),
        os.path.expanduser("~"),  # noqa: PTH111  # Path.home raises where there is none
        repr(sorted(types.items())),
        repr(sorted((name, dict(schema)) for name, schema in sections.items())),
        sys.version,
        cobweb.__version__,
        *_own_files(),
        *(version(name) for name in _LIBRARIES),
    ]
    return _digest(parts)


def site_key(base: str, notes: Notes) -> str:
    """Return the digest of a site: its base key and what the disk said."""
    return _digest([base, sorted((*question, said) for question, said in notes.items())])


def _own_files() -> list[str]:
    """Return names, sizes and times of Cobweb's modules: a changed one may evaluate otherwise."""
    folder = Path(cobweb.__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        status = path.stat()
        found.append(f"{path.relative_to(folder)} {status.st_size} {status.st_mtime_ns}")
    return found


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
