# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `file`: check, write and remove one file.

Before the first write the module keeps what was there (content, mode, owner, or the link's target)
in `STATE_DIR/file/PATH/` and puts it back on removal. `record.json` there is written ahead of each
change, so that an interrupted one can be repeated. A content that neither we nor the original file
had is somebody's edit: it is kept in `edits/` before it is replaced.

The states: `up` if content, mode and owner are as asked; `down` if nothing is there, or what we put
back; `outdated` if anything else is.
"""

from __future__ import annotations

import base64
import contextlib
import grp
import hashlib
import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Answer, Failed, file_name, run, state_dir

VERSION = 1
DEFAULT_MODE = "0644"


class Entry(NamedTuple):
    """A file or symbolic link as it is; `content` is the target's name for a link."""

    content: bytes
    link: bool
    mode: int
    uid: int
    gid: int

    @property
    def digest(self) -> str:
        """Name kind and content."""
        kind = b"link:" if self.link else b"file:"
        return hashlib.sha256(kind + self.content).hexdigest()


class Place(NamedTuple):
    """A path and the folder that remembers what is known of it."""

    path: Path
    home: Path


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    place, *others = _places(cob)
    state = _state(place, cob["spec"])
    if any(_read_record(other).get("ours") for other in others):
        state = "outdated"
    return {"state": state}


def write(cob: Dict[str, Any]) -> Answer:
    """Make the file as the spec says; a file of ours under an earlier path is removed."""
    spec = cob["spec"]
    place, *others = _places(cob)
    kept: List[str] = []
    for other in others:
        kept += _remove(other)
    if _state(place, spec) == "up":
        return _answer(changed=bool(others), kept=kept)
    found = _read_entry(place.path)
    record = _read_record(place)
    if not record.get("ours"):
        record = _keep_original(place, found)
    wanted = _wanted(spec, found)
    kept += _keep_edit(place, record, found, wanted)
    record["folders"] = _missing_folders(place.path) + record.get("folders", [])
    # A retry finds the content of before the interruption, or of after it: both are ours.
    _write_record(place, {**record, "written": [*record["written"][-1:], wanted.digest]})
    place.path.parent.mkdir(parents=True, exist_ok=True)
    _put(place.path, wanted, owner_matters="owner" in spec or "group" in spec)
    return _answer(changed=True, kept=kept)


def remove(cob: Dict[str, Any]) -> Answer:
    """Put back what was there before the first write, or nothing."""
    kept = [edit for place in _places(cob) for edit in _remove(place)]
    return _answer(changed=True, kept=kept)


def _answer(*, changed: bool, kept: List[str]) -> Answer:
    if not kept:
        return {"changed": changed}
    return {"changed": changed, "msg": f"kept a local edit as {', '.join(kept)}", "kept": kept}


def _places(cob: Dict[str, Any]) -> List[Place]:
    """Return the spec's place, then that of the applied spec if it is another."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    places = [
        Place(
            path=Path(spec["path"]),
            home=state_dir(spec) / "file" / file_name(spec["path"]),
        )
        for spec in specs
    ]
    return list(dict.fromkeys(places))


def _state(place: Place, spec: Dict[str, Any]) -> str:
    found = _read_entry(place.path)
    if found is None:
        return "down"
    if _read_record(place).get("put_back") == found.digest:
        return "down"
    return "up" if found == _wanted(spec, found) else "outdated"


def _wanted(spec: Dict[str, Any], found: Optional[Entry]) -> Entry:
    """Return the file to write; an owner that the spec leaves open stays as it is."""
    keep = found if found is not None and not found.link else None
    return Entry(
        content=_content(spec),
        link=False,
        mode=int(spec.get("mode", DEFAULT_MODE), 8),
        uid=_uid(spec.get("owner"), keep.uid if keep else os.geteuid()),
        gid=_gid(spec.get("group"), keep.gid if keep else os.getegid()),
    )


def _content(spec: Dict[str, Any]) -> bytes:
    content = str(spec["content"])
    if spec.get("encoding", "utf-8") == "base64":
        return base64.b64decode(content, validate=True)
    return content.encode("utf-8")


def _uid(owner: Any, default: int) -> int:
    if owner is None:
        return default
    if str(owner).isdigit():
        return int(owner)
    try:
        return pwd.getpwnam(owner).pw_uid
    except KeyError:
        raise Failed(f"there is no user {owner} on this host") from None


def _gid(group: Any, default: int) -> int:
    if group is None:
        return default
    if str(group).isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise Failed(f"there is no group {group} on this host") from None


def _read_entry(path: Path) -> Optional[Entry]:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    link = stat.S_ISLNK(found.st_mode)
    if not link and not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "special file"
        raise Failed(f"{path} is a {kind}, not a file; move it away or change the path")
    # Path.readlink came with Python 3.9.
    content = os.fsencode(os.readlink(path)) if link else path.read_bytes()  # noqa: PTH115
    mode = stat.S_IMODE(found.st_mode)
    return Entry(content=content, link=link, mode=mode, uid=found.st_uid, gid=found.st_gid)


# --- what is remembered


def _read_record(place: Place) -> Dict[str, Any]:
    try:
        return dict(json.loads((place.home / "record.json").read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Failed(f"the record in {place.home} is damaged: {error}") from None


def _write_record(place: Place, record: Dict[str, Any]) -> None:
    text = json.dumps({"version": VERSION, "path": str(place.path), **record})
    _store(place.home / "record.json", text.encode())


def _keep_original(place: Place, found: Optional[Entry]) -> Dict[str, Any]:
    """Keep what is there before the first write; nothing counts as ours until it is stored."""
    place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    record: Dict[str, Any] = {"ours": True, "original": None, "written": []}
    if found is not None:
        _store(place.home / "original", found.content)
        record["original"] = {
            "link": found.link,
            "mode": found.mode,
            "uid": found.uid,
            "gid": found.gid,
            "digest": found.digest,
        }
    return record


def _keep_edit(
    place: Place, record: Dict[str, Any], found: Optional[Entry], wanted: Optional[Entry]
) -> List[str]:
    """Keep a content that would be lost otherwise; return where."""
    known = {*record.get("written", []), (record.get("original") or {}).get("digest")}
    if wanted is not None:
        known.add(wanted.digest)
    if found is None or found.digest in known:
        return []
    edit = place.home / "edits" / found.digest[:16]
    edit.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _store(edit, found.content)
    return [str(edit)]


def _remove(place: Place) -> List[str]:
    found = _read_entry(place.path)
    record = _read_record(place)
    if not record.get("ours"):
        # What was there before our first write, or after we put it back, is its owner's business.
        if found is not None:
            place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_record(place, {"put_back": found.digest})
        return []
    kept = _keep_edit(place, record, found, None)
    original = _read_original(place, record)
    if original is not None:
        _put(place.path, original)
        _write_record(place, {"put_back": original.digest})
    else:
        with contextlib.suppress(FileNotFoundError):
            place.path.unlink()
        _sync_folder(place.path.parent)
        _remove_folders(record.get("folders", []))
        with contextlib.suppress(FileNotFoundError):
            (place.home / "record.json").unlink()
    with contextlib.suppress(FileNotFoundError):
        (place.home / "original").unlink()
    with contextlib.suppress(OSError):  # edits are kept there
        place.home.rmdir()
    return kept


def _read_original(place: Place, record: Dict[str, Any]) -> Optional[Entry]:
    known = record.get("original")
    if known is None:
        return None
    return Entry(
        content=(place.home / "original").read_bytes(),
        link=known["link"],
        mode=known["mode"],
        uid=known["uid"],
        gid=known["gid"],
    )


def _missing_folders(path: Path) -> List[str]:
    """Return the folders above `path` that must be made, the deepest first."""
    return [str(folder) for folder in path.parents if not folder.exists()]


def _remove_folders(folders: List[str]) -> None:
    """Remove the folders that we made, as far as nobody else uses them."""
    with contextlib.suppress(OSError):
        for folder in folders:
            Path(folder).rmdir()


# --- writing


def _put(path: Path, entry: Entry, *, owner_matters: bool = False) -> None:
    """Replace `path` in one step; a reader sees the old file or the new one, whole.

    Only root can give files away: for others the owner is an error if it matters, or left out.
    """
    draft = path.with_name(f".{path.name}.cobweb")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    if entry.link:
        draft.symlink_to(os.fsdecode(entry.content))
    else:
        _write_draft(draft, entry, owner_matters=owner_matters)
    draft.replace(path)
    _sync_folder(path.parent)


def _write_draft(draft: Path, entry: Entry, *, owner_matters: bool) -> None:
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(entry.content)
        stream.flush()
        if owner_matters or os.geteuid() == 0:
            os.fchown(handle, entry.uid, entry.gid)
        os.fchmod(handle, entry.mode)
        os.fsync(handle)


def _store(path: Path, content: bytes) -> None:
    _put(path, Entry(content=content, link=False, mode=0o600, uid=os.geteuid(), gid=os.getegid()))


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if __name__ == "__main__":
    run({"check": check, "write": write, "remove": remove})
