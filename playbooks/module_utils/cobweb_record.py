# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a file that COBs write to: written ahead of each change, and rolled back.

The folder of a place holds `record.json`; `original`, what was there before the first write;
`trial`, what a file on trial has replaced; and `edits/` with what somebody wrote into what is ours.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ansible.module_utils.cobweb_command import run_command, words
from ansible.module_utils.cobweb_entry import (
    Entry,
    Judge,
    missing_folders,
    put,
    read_entry,
    remove_folders,
    store,
    sync_folder,
)
from ansible.module_utils.cobweb_host import Failed

VERSION = 1
VALIDATE_S = 60.0
STAGED = "%s"

Record = Dict[str, Any]


class Place(NamedTuple):
    """A path, the folder that remembers what is known of it, and how it is ours.

    `kind` is `content` for the whole file, else `line` or `block`, which has a `marker`.
    """

    path: Path
    home: Path
    kind: str = "content"
    marker: str = ""


class Validation(NamedTuple):
    """A command that must end well before a file becomes active, or just after, for `in_place`."""

    argv: List[str]
    in_place: bool
    limit_s: float


def read_record(home: Path) -> Record:
    """Return what is remembered, nothing if that is nothing."""
    try:
        return dict(json.loads((home / "record.json").read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Failed(f"the record in {home} is damaged: {error}") from None


def write_record(place: Place, record: Record) -> None:
    """Remember; durable when it returns."""
    place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"version": VERSION, "path": str(place.path), **record})
    store(place.home / "record.json", text.encode())


def forget(place: Place, *names: str) -> None:
    """Remove files of the folder, and the folder itself if nothing is left in it."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            (place.home / name).unlink()
    with contextlib.suppress(OSError):  # edits are kept there
        place.home.rmdir()


def keep_edit(place: Place, name: str, content: bytes) -> str:
    """Keep what would be lost otherwise; return where."""
    edit = place.home / "edits" / name[:16]
    edit.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    store(edit, content)
    return str(edit)


def store_entry(place: Place, name: str, entry: Optional[Entry]) -> Optional[Record]:
    """Keep an entry beside the record; return what the record has to say of it."""
    if entry is None:
        return None
    place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    store(place.home / name, entry.content)
    return {**entry._asdict(), "content": None, "digest": entry.digest}


def stored_entry(place: Place, name: str, known: Optional[Record]) -> Optional[Entry]:
    """Return an entry that `store_entry` has kept."""
    if known is None:
        return None
    content = (place.home / name).read_bytes()
    fields = {field: known[field] for field in ("link", "mode", "uid", "gid")}
    return Entry(content=content, **fields)


# --- changing the file


def activate(place: Place, spec: Dict[str, Any], record: Record, wanted: Entry) -> None:
    """Remember `record`, then put the file; where that fails both are as they were before."""
    validation = _validation(spec)
    before = read_record(place.home)
    made = missing_folders(place.path)
    record = {**record, "folders": made + record.get("folders", [])}
    try:
        if validation is not None and validation.in_place:
            found = read_entry(place.path)
            trial = {"digest": wanted.digest, "before": store_entry(place, "trial", found)}
            record["trial"] = trial
        write_record(place, record)
        _put(place, spec, wanted, validation)
    except (Failed, OSError):
        remove_folders(made)
        if before:
            write_record(place, before)
            forget(place, "trial")
        else:
            forget(place, "trial", "original", "record.json")
        raise
    if record.pop("trial", None) is not None:
        write_record(place, record)
        forget(place, "trial")


def end_trial(place: Place) -> Record:
    """Put back what a file has replaced whose trial never ended; return the record without it."""
    record = read_record(place.home)
    trial = record.pop("trial", None)
    if trial is None:
        return record
    found = read_entry(place.path)
    if found is not None and found.digest == trial["digest"]:
        _put_back(place, stored_entry(place, "trial", trial["before"]))
    write_record(place, record)
    forget(place, "trial")
    return record


def _put(
    place: Place, spec: Dict[str, Any], wanted: Entry, validation: Optional[Validation]
) -> None:
    place.path.parent.mkdir(parents=True, exist_ok=True)
    owner_matters = "owner" in spec or "group" in spec
    if validation is None or not validation.in_place:
        judge = None if validation is None else _judge(place, validation)
        put(place.path, wanted, owner_matters=owner_matters, judge=judge)
        return
    before = read_entry(place.path)
    put(place.path, wanted, owner_matters=owner_matters)
    try:
        _judge(place, validation)(place.path)
    except (Failed, OSError):
        _put_back(place, before)
        raise


def _put_back(place: Place, before: Optional[Entry]) -> None:
    if before is not None:
        put(place.path, before)
        return
    with contextlib.suppress(FileNotFoundError):
        place.path.unlink()
    sync_folder(place.path.parent)


def _validation(spec: Dict[str, Any]) -> Optional[Validation]:
    given = spec.get("validate")
    if given is None:
        return None
    more = given if isinstance(given, dict) else {"command": given}
    argv = words(more["command"])
    in_place = bool(more.get("in_place", False))
    if not in_place and not any(STAGED in word for word in argv):
        raise Failed(
            f"`validate` has no {STAGED} for the file that is to be looked at; "
            "a command that looks at the file in its place needs `in_place: true`"
        )
    return Validation(argv, in_place, float(more.get("timeout", VALIDATE_S)))


def _judge(place: Place, validation: Validation) -> Judge:
    def judge(path: Path) -> None:
        argv = [word.replace(STAGED, str(path)) for word in validation.argv]
        ended = run_command(argv, validation.limit_s)
        if ended.status != 0:
            raise Failed(
                f"{place.path} is as it was, its new content is refused: "
                f"`{' '.join(validation.argv)}` {ended.describe(validation.limit_s)}"
            )

    return judge
