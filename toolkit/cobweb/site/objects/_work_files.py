"""The files that the types in use work with: what a generation keeps of them.

Of a task file that is its folder with all below, for templates and further tasks are beside it; of
a role all of it. A task file in the site's own folder, or outside of the site, is kept alone: who
knows what else is there. Hidden files, links to folders and what is not the site's are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import assert_never

from cobweb._resources import data_dir
from cobweb._text import is_below
from cobweb.generation import OWN_ROOT, SITE_ROOT, Paths
from cobweb.model import CobType, Missing, Nothing, PythonAction, Role, Tasks
from cobweb.site.reading._files import Files

MAX_BYTES = 256 * 1024
"""A larger file is not kept."""

MAX_FILES = 500
"""Of a folder with more files the task file alone is kept, of a role nothing."""


def work_files(types: Iterable[CobType], files: Files) -> dict[str, bytes]:
    """Return the contents of the files that types work with, by their names in a generation.

    What cannot be read is left out: to tell of it is the task of an `ActionAdapter`.
    """
    site = str(files.site_dir)
    paths = Paths({SITE_ROOT: site, OWN_ROOT: str(data_dir("playbooks"))})
    found: dict[str, bytes] = {}
    trees: dict[Path, tuple[Path, ...]] = {}
    for kind in types:
        for path in dict.fromkeys(_named(kind, site, files, trees)):
            name = paths.written(str(path), kind.place)
            if name not in found and name.startswith(f"{SITE_ROOT}:"):
                with suppress(OSError):
                    found[name] = files.data(path, MAX_BYTES)
    return found


def _named(
    kind: CobType, site: str, files: Files, trees: dict[Path, tuple[Path, ...]]
) -> Iterator[Path]:
    """Yield the files that a type works with; `trees` are those known by now, by their folder."""
    for action in kind.actions():
        match action:
            case Tasks(path=name):
                path = Path(name)
                if files.is_file(path):
                    yield path
                folder = path.parent
            case Role(name=name):
                folder = Path(name)
            case PythonAction() | Nothing() | Missing():
                continue
            case _:
                assert_never(action)
        if is_below(str(folder), site):
            if folder not in trees:
                tree = tuple(_tree(folder, files))
                trees[folder] = tree if len(tree) <= MAX_FILES else ()
            yield from trees[folder]


def _tree(folder: Path, files: Files) -> Iterator[Path]:
    """Yield the files below a folder, in order; one more than may be kept and no more."""
    folders, number = [folder], 0
    while folders and number <= MAX_FILES:
        here = folders.pop()
        with suppress(OSError):
            for path, is_dir, is_file, _ in files.members(here):
                if path.name.startswith(".") or number > MAX_FILES:
                    continue
                if is_file:
                    number += 1
                    yield path
                elif is_dir and files.resolve(path) == files.resolve(here) / path.name:
                    folders.append(path)
