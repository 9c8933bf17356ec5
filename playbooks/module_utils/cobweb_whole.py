# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that is ours as a whole: found, written, and put back as it was.

Before the first write what was there (content, mode, owner, or the link's target) is kept, and put
back on removal. A content that neither we nor the original file had is somebody's edit: it is kept
in `edits/` before it is replaced.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils.cobweb_entry import (
    DEFAULT_MODE,
    Entry,
    group_id,
    put,
    read_entry,
    remove_folders,
    sync_folder,
    user_id,
)
from ansible.module_utils.cobweb_host import file_name, state_dir
from ansible.module_utils.cobweb_record import (
    Place,
    Record,
    activate,
    end_trial,
    forget,
    keep_edit,
    read_record,
    store_entry,
    stored_entry,
    write_record,
)


def whole_place(spec: Dict[str, Any]) -> Place:
    """Return the place of the file that a spec has."""
    return Place(path=Path(spec["path"]), home=state_dir(spec) / "file" / file_name(spec["path"]))


def whole_state(place: Place, spec: Dict[str, Any]) -> str:
    """Find the state; nothing is written."""
    found = read_entry(place.path)
    record = read_record(place.home)
    if record.get("trial") is not None:
        return "outdated"
    if found is None:
        return "down"
    if record.get("put_back") == found.digest:
        return "down"
    return "up" if found == _wanted(spec, found) else "outdated"


def is_ours(place: Place) -> bool:
    """Say whether something of ours is to be removed."""
    return bool(read_record(place.home).get("ours"))


def write_whole(place: Place, spec: Dict[str, Any]) -> Optional[List[str]]:
    """Make the file as the spec says; return which edits were kept, None if all was done."""
    record = end_trial(place)
    if whole_state(place, spec) == "up":
        return None
    found = read_entry(place.path)
    if not record.get("ours"):
        # Nothing counts as ours until the original is stored.
        record = {"ours": True, "original": store_entry(place, "original", found), "written": []}
    wanted = _wanted(spec, found)
    kept = _keep_edit(place, record, found, wanted)
    # A retry finds the content of before the interruption, or of after it: both are ours.
    written = [*record["written"][-1:], wanted.digest]
    activate(place, spec, {**record, "written": written}, wanted)
    return kept


def remove_whole(place: Place) -> List[str]:
    """Put back what was there before the first write, or nothing; return which edits were kept."""
    record = end_trial(place)
    found = read_entry(place.path)
    if not record.get("ours"):
        # What was there before our first write, or after we put it back, is its owner's business.
        if found is not None:
            write_record(place, {"put_back": found.digest})
        return []
    kept = _keep_edit(place, record, found, None)
    original = stored_entry(place, "original", record.get("original"))
    if original is not None:
        put(place.path, original)
        write_record(place, {"put_back": original.digest})
        forget(place, "original")
        return kept
    with contextlib.suppress(FileNotFoundError):
        place.path.unlink()
    sync_folder(place.path.parent)
    remove_folders(record.get("folders", []))
    forget(place, "record.json", "original")
    return kept


def _wanted(spec: Dict[str, Any], found: Optional[Entry]) -> Entry:
    """Return the file to write; an owner that the spec leaves open stays as it is."""
    keep = found if found is not None and not found.link else None
    return Entry(
        content=_content(spec),
        link=False,
        mode=int(spec.get("mode", DEFAULT_MODE), 8),
        uid=user_id(spec.get("owner"), keep.uid if keep else os.geteuid()),
        gid=group_id(spec.get("group"), keep.gid if keep else os.getegid()),
    )


def _content(spec: Dict[str, Any]) -> bytes:
    content = str(spec["content"])
    if spec.get("encoding", "utf-8") == "base64":
        return base64.b64decode(content, validate=True)
    return content.encode("utf-8")


def _keep_edit(
    place: Place, record: Record, found: Optional[Entry], wanted: Optional[Entry]
) -> List[str]:
    """Keep a content that would be lost otherwise; return where."""
    known = {*record.get("written", []), (record.get("original") or {}).get("digest")}
    if wanted is not None:
        known.add(wanted.digest)
    if found is None or found.digest in known:
        return []
    return [keep_edit(place, found.digest, found.content)]
