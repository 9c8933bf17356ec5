# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a `tree` beside its repository: what is applied, and what is under way.

`record.json` says for which spec what is applied, by the commits of three versions: what the site
wanted, what was written (that, merged with local edits), and what was there before us. While a
change is made it has the `change` too, written ahead: what was at its paths, what shall be, where
the drafts are. `known.json` has what was written with signatures of the files, so that a check
reads only what has changed; if it is lost or of another version the repository has the rest.

Python 3.8, standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Failed, file_name, state_dir
from ansible.module_utils.cobweb_tree_disk import Change, Disk, Known, scan
from ansible.module_utils.cobweb_tree_git import Repository, packed_entries, unpacked_entries
from ansible.module_utils.cobweb_tree_merge import FOLDER, Entry, Tree, Wanted, is_like, present_in

VERSION = 1
REPOSITORY = "repository.git"
ARCHIVE = "arrived.tar.gz"


class Place(NamedTuple):
    """A folder of the host, and the one that remembers what is known of it."""

    path: str
    home: Path

    @property
    def repository(self) -> Path:
        """Return where all versions are."""
        return self.home / REPOSITORY

    @property
    def archive(self) -> Path:
        """Return where the archive of a new version is put."""
        return self.home / ARCHIVE


class Applied(NamedTuple):
    """What is applied: for which spec, and the commits of its three versions."""

    key: str
    site: str
    host: str
    original: str


class Journal(NamedTuple):
    """A change that is under way."""

    before: Wanted
    after: Wanted
    drafts: List[str]


def places_of(cob: Dict[str, Any]) -> List[Place]:
    """Return the spec's place, then that of the applied spec if it is another."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    name = file_name(cob["name"])
    return list(
        dict.fromkeys(
            Place(spec["path"], state_dir(spec) / "tree" / file_name(spec["path"]) / name)
            for spec in specs
        )
    )


def read_record(place: Place) -> Dict[str, Any]:
    """Return the record; a place that nothing is known of has an empty one."""
    return _read(place.home / "record.json")


def write_record(place: Place, record: Dict[str, Any]) -> None:
    """Write the record in one step."""
    _write(place.home / "record.json", {"version": VERSION, "path": place.path, **record})


def is_ours(record: Dict[str, Any]) -> bool:
    """Say whether anything of a tree is on the host, or may be."""
    return "applied" in record or "change" in record


def applied_of(record: Dict[str, Any]) -> Optional[Applied]:
    """Return what is applied."""
    return Applied(*record["applied"]) if "applied" in record else None


def journal_of(record: Dict[str, Any]) -> Optional[Journal]:
    """Return the change that is under way."""
    change = record.get("change")
    if change is None:
        return None
    before, after = map(unpacked_entries, (change["before"], change["after"]))
    return Journal(before, after, change["drafts"])


def packed_journal(journal: Journal) -> Dict[str, Any]:
    """Return a journal as the record has it."""
    return {
        "before": packed_entries(journal.before),
        "after": packed_entries(journal.after),
        "drafts": journal.drafts,
    }


def journal_for(change: Change) -> Journal:
    """Return what must be known to take a change back."""
    return Journal(
        {step.path: step.have for step in change.steps},
        {step.path: step.want for step in change.steps},
        list(change.drafts.values()),
    )


def forget(place: Place, record: Dict[str, Any]) -> None:
    """Remember nothing but local edits, if there ever were any."""
    if record.get("edits"):
        write_record(place, {"edits": True})
        with contextlib.suppress(FileNotFoundError):
            (place.home / "known.json").unlink()
        return
    # First the record: without it the rest is of no meaning.
    with contextlib.suppress(FileNotFoundError):
        (place.home / "record.json").unlink()
    shutil.rmtree(str(place.home), ignore_errors=True)
    with contextlib.suppress(OSError):  # other trees are in the same folder
        place.home.parent.rmdir()


def read_known(place: Place, applied: Optional[Applied]) -> Dict[str, Known]:
    """Return what was written, as far as it is known by signatures."""
    if applied is None:
        return {}
    data = _read(place.home / "known.json")
    if data.get("host") != applied.host:
        with contextlib.closing(Repository(place.repository)) as repository:
            entries = present_in(repository.entries(applied.host))
        return {path: Known(entry, None) for path, entry in entries.items()}
    return {
        path: Known(Entry(*entry), None if signature is None else tuple(signature))
        for path, (entry, signature) in data["entries"].items()
    }


def write_known(place: Place, applied: Applied, expected: Tree, found: Dict[str, Known]) -> None:
    """Keep what was written; signatures only of what was found as it was written."""
    entries = {
        path: (entry, found[path].signature if _is_there(path, entry, found) else None)
        for path, entry in expected.items()
    }
    _write(place.home / "known.json", {"host": applied.host, "entries": entries})


def differing(place: Place, applied: Applied) -> List[str]:
    """Return the paths that are not as they were written."""
    known = read_known(place, applied)
    with contextlib.closing(Disk(place.path)) as disk:
        found = scan(disk, known, known)
    return [path for path, one in known.items() if not _is_there(path, one.entry, found)]


def missing_folders(path: str) -> List[str]:
    """Return the folders that must be made for a path, the deepest first."""
    return [str(folder) for folder in [Path(path), *Path(path).parents] if not folder.exists()]


def remove_folders(folders: List[str]) -> None:
    """Remove the folders that we made, as far as nobody else uses them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            Path(folder).rmdir()


def undone(journal: Journal, found: Dict[str, Known]) -> Wanted:
    """Return what shall be again; what somebody has written into the middle stays."""
    wanted: Wanted = {}
    for path, before in journal.before.items():
        now = found[path].entry if path in found else None
        after = journal.after[path]
        foreign = now is not None and FOLDER not in (now.kind, *_kinds(before, after))
        if foreign and not is_like(before, now) and not is_like(after, now):
            wanted[path] = now
        else:
            wanted[path] = before
    return wanted


def _kinds(*entries: Optional[Entry]) -> List[str]:
    return [entry.kind for entry in entries if entry is not None]


def _is_there(path: str, entry: Entry, found: Dict[str, Known]) -> bool:
    return path in found and is_like(entry, found[path].entry)


def _read(path: Path) -> Dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError as error:
        raise Failed(f"{path} is damaged: {error}") from None


def _write(path: Path, data: Dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}")
    handle = os.open(str(draft), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(data, stream)
        stream.flush()
        os.fsync(handle)
    draft.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
