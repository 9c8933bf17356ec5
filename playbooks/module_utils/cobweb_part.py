# SPDX-License-Identifier: GPL-3.0-or-later
"""A line or a block that is ours in a file that is not: found, written, and taken out again.

Several COBs may have their parts in one file, and each finds and touches its own alone. What it may
not touch it knows from the records of the others, which are in folders beside its own, by the ids
of the COBs. A link is followed: the file that it points to is edited. One COB at a time works on
the parts of files on a host; the lock ends with the process that has it.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set

from ansible.module_utils.cobweb_entry import (
    DEFAULT_MODE,
    Entry,
    group_id,
    put,
    read_entry,
    remove_folders,
    store,
    sync_folder,
    user_id,
)
from ansible.module_utils.cobweb_host import Failed, file_name, state_dir
from ansible.module_utils.cobweb_lines import (
    Block,
    Line,
    Spot,
    Text,
    bare,
    block_markers,
    find_blocks,
    find_line,
    join,
    pattern,
    replaced_lines,
    split,
    with_block,
    with_line,
    without_line,
)
from ansible.module_utils.cobweb_record import (
    Place,
    Record,
    activate,
    end_trial,
    forget,
    keep_edit,
    read_record,
    write_record,
)

PARTS = ("line", "block")
FOLDER = "file-part"
MADE = "made.json"
"""Beside the folders of the parts of a file: that the file itself was made for them."""


class View(NamedTuple):
    """All that decides on a part: the file, the spec's `line` or `block`, and what is known."""

    text: Text
    spec: Dict[str, Any]
    record: Record
    foreign: Set[int]

    @property
    def is_ours(self) -> bool:
        """Whether we have written the part."""
        return bool(self.record.get("ours"))


class Change(NamedTuple):
    """A new text, what has to be remembered with it, and lines of somebody that it loses."""

    text: Text
    record: Record
    edits: List[str]


def part_place(spec: Dict[str, Any], kind: str, cob_id: str) -> Place:
    """Return the place of a part; its path is that of the file itself, whatever links to it."""
    marker = ""
    if kind == "block":
        marker = str(spec["block"].get("marker", "# {mark} cobweb " + cob_id.partition("/")[2]))
        if "{mark}" not in marker or "\n" in marker:
            raise Failed("`block.marker` must be one line with {mark} in it")
    folder = state_dir(spec) / FOLDER / file_name(spec["path"])
    # Path.resolve ends with an exception on a circle of links in Python below 3.13.
    path = Path(os.path.realpath(spec["path"]))
    home = folder / file_name(" ".join(filter(None, [kind, cob_id, marker])))
    return Place(path=path, home=home, kind=kind, marker=marker)


@contextlib.contextmanager
def locked(place: Place) -> Iterator[None]:
    """Keep all other COBs from the parts of files on this host."""
    folder = place.home.parents[1]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def part_is_ours(place: Place) -> bool:
    """Say whether something of ours is to be removed."""
    return bool(read_record(place.home).get("ours"))


def part_state(place: Place, spec: Dict[str, Any]) -> str:
    """Find the state; nothing is written."""
    record = read_record(place.home)
    if record.get("trial") is not None:
        return "outdated"
    found = read_entry(place.path)
    if found is None:
        return "down"
    with _named(place):
        return _state(place, _view(place, spec, record, found))


def write_part(place: Place, spec: Dict[str, Any]) -> Optional[List[str]]:
    """Make the part as the spec says; return which edits were kept, None if all was done."""
    record = end_trial(place)
    found = read_entry(place.path)
    entry = _new_file(place, spec) if found is None else found
    with _named(place):
        view = _view(place, spec, record, entry)
        if found is not None and _state(place, view) == "up":
            return None
        change = _line_in(view) if place.kind == "line" else _block_in(place, view)
    kept = _keep(place, change)
    if found is None:
        place.home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        store(place.home.parent / MADE, b"{}")
    wanted = entry._replace(content=join(change.text))
    # The owner of a file that is there is not the part's business.
    activate(place, {"validate": spec.get("validate")}, change.record, wanted)
    return kept


def remove_part(place: Place, spec: Dict[str, Any]) -> List[str]:
    """Put back what the part has replaced, or nothing; return which edits were kept."""
    record = end_trial(place)
    found = read_entry(place.path)
    if found is None:
        forget(place, "record.json")
        _forget_file(place)
        return []
    with _named(place):
        view = _view(place, spec, record, found)
        change = _line_out(view) if place.kind == "line" else _block_out(place, view)
    kept = _keep(place, change)
    content = join(change.text)
    if not content and (place.home.parent / MADE).exists():
        place.path.unlink()
        sync_folder(place.path.parent)
        remove_folders(record.get("folders", []))
    elif content != found.content:
        put(place.path, found._replace(content=content))
    if change.record:
        write_record(place, change.record)
    else:
        forget(place, "record.json")
    _forget_file(place)
    return kept


def _forget_file(place: Place) -> None:
    """Forget the file itself once no part of ours is left in it."""
    folder = place.home.parent
    if not list(folder.glob("*/record.json")):
        with contextlib.suppress(FileNotFoundError):
            (folder / MADE).unlink()
        with contextlib.suppress(OSError):  # edits are kept there
            folder.rmdir()


def _new_file(place: Place, spec: Dict[str, Any]) -> Entry:
    given = Path(spec["path"])
    if given.is_symlink():
        raise Failed(f"{given} is a link to {place.path}, which is not there")
    if not spec.get("create", False):
        raise Failed(f"{given} is not there; `create: true` makes it")
    return Entry(
        content=b"",
        link=False,
        mode=int(spec.get("mode", DEFAULT_MODE), 8),
        uid=user_id(spec.get("owner"), os.geteuid()),
        gid=group_id(spec.get("group"), os.getegid()),
    )


def _keep(place: Place, change: Change) -> List[str]:
    if not change.edits:
        return []
    content = "\n".join([*change.edits, ""]).encode("utf-8", "surrogateescape")
    return [keep_edit(place, hashlib.sha256(content).hexdigest(), content)]


@contextlib.contextmanager
def _named(place: Place) -> Iterator[None]:
    """Name the file in what is wrong with its text."""
    try:
        yield
    except Failed as error:
        raise Failed(f"{place.path}: {error}") from None


# --- what is whose


def _view(place: Place, spec: Dict[str, Any], record: Record, found: Entry) -> View:
    text = split(found.content)
    return View(text, spec[place.kind], record, _foreign(place, text.lines))


def _foreign(place: Place, lines: List[str]) -> Set[int]:
    """Return the indexes of the lines that are parts of other COBs."""
    foreign: Set[int] = set()
    for home in place.home.parent.glob("*/"):
        record = read_record(home) if home != place.home else {}
        texts = record.get("texts", [])
        foreign |= {index for index, line in enumerate(lines) if bare(line) in texts}
        if "marker" in record:
            with contextlib.suppress(Failed):  # what is wrong with it its own COB says
                for block in find_blocks(lines, record["marker"]):
                    foreign |= set(range(block.first, block.last + 1))
    return foreign


def _state(place: Place, view: View) -> str:
    return _line_state(view) if place.kind == "line" else _block_state(place, view)


def _spot(view: View) -> Spot:
    return Spot(view.spec.get("after"), view.spec.get("before"))


# --- lines


def _line(view: View) -> Line:
    text = str(view.spec["text"])
    # str.removesuffix came with Python 3.9.
    text = text[:-1] if text.endswith("\n") else text
    if "\n" in text or "\r" in text:
        raise Failed("`line.text` has more than one line; use a `block`")
    known = tuple(view.record.get("texts", ()))
    return Line(text, pattern("match", view.spec.get("match")), known)


def _originals(view: View) -> Set[str]:
    return {bare(each["line"]) for each in view.record.get("replaced", [])}


def _line_state(view: View) -> str:
    line = _line(view)
    found = find_line(view.text.lines, line, view.foreign)
    if found.older or len(found.same) > 1 or (found.same and found.hits):
        return "outdated"
    if found.same:
        is_put_back = not view.is_ours and view.record.get("put_back") == line.text
        return "down" if is_put_back else "up"
    if not view.is_ours:
        return "down"
    # Ours is gone: by its removal, or by the hand of somebody.
    lines = set(map(bare, view.text.lines))
    is_edited = any(bare(view.text.lines[index]) not in _originals(view) for index in found.hits)
    return "outdated" if is_edited or not _originals(view) <= lines else "down"


def _line_in(view: View) -> Change:
    line = _line(view)
    found = find_line(view.text.lines, line, view.foreign)
    hits = [bare(view.text.lines[index]) for index in found.hits]
    if view.is_ours:
        replaced = view.record["replaced"]
        edits = [each for each in hits if each not in _originals(view)]
    else:
        replaced, edits = replaced_lines(view.text.lines, found), []
    # A retry finds the text of before the interruption, or of after it: both are ours.
    texts = list(dict.fromkeys([*view.record.get("texts", [])[-1:], line.text]))
    record = {**view.record, "ours": True, "texts": texts, "replaced": replaced}
    record.pop("put_back", None)
    record["match"] = view.spec.get("match")
    return Change(with_line(view.text, line, found, _spot(view)), record, edits)


def _line_out(view: View) -> Change:
    line = _line(view)
    if not view.is_ours:
        # What was there before our first write, or after we put it back, is its owner's business.
        found = find_line(view.text.lines, line, view.foreign)
        return Change(view.text, {"put_back": line.text} if found.same else {}, [])
    match = pattern("match", view.record.get("match"))
    known = view.record["texts"]
    found = find_line(view.text.lines, Line(known[-1], match, tuple(known)), view.foreign)
    own, edits = sorted(found.same + found.older), []
    if not own:
        edited = [it for it in found.hits if bare(view.text.lines[it]) not in _originals(view)]
        own = edited[:1]
        edits = [bare(view.text.lines[index]) for index in own]
    text = without_line(view.text, own, view.record["replaced"])
    is_left = line.text in map(bare, text.lines)
    return Change(text, {"put_back": line.text} if is_left else {}, edits)


# --- blocks


def _body(place: Place, view: View) -> List[str]:
    body = [bare(line) for line in split(str(view.spec["text"]).encode()).lines]
    if set(body) & set(block_markers(place.marker)):
        raise Failed("`block.text` holds the marker of its own block")
    return body


def _digest(body: List[str]) -> str:
    return hashlib.sha256("\n".join(body).encode("utf-8", "surrogateescape")).hexdigest()


def _block_state(place: Place, view: View) -> str:
    blocks = find_blocks(view.text.lines, place.marker)
    if not blocks:
        return "down"
    if len(blocks) == 1 and view.record.get("put_back") == _digest(blocks[0].body):
        return "down"
    return "up" if [block.body for block in blocks] == [_body(place, view)] else "outdated"


def _block_in(place: Place, view: View) -> Change:
    body = _body(place, view)
    for home in place.home.parent.glob("*/"):
        if home != place.home and read_record(home).get("marker") == place.marker:
            raise Failed(f"another object has a block with the marker `{place.marker}` here")
    blocks = find_blocks(view.text.lines, place.marker)
    record = dict(view.record) if view.is_ours else {"replaced": None}
    if not view.is_ours and blocks:
        record["replaced"] = blocks[0].body
    # A retry finds the text of before the interruption, or of after it: both are ours.
    record["bodies"] = [*record.get("bodies", [])[-1:], _digest(body)]
    record.update(ours=True, marker=place.marker)
    edits = _block_edits(record, blocks) if view.is_ours else []
    begin, end = block_markers(place.marker)
    text = with_block(view.text, blocks, [begin, *body, end], _spot(view))
    return Change(text, record, edits)


def _block_out(place: Place, view: View) -> Change:
    blocks = find_blocks(view.text.lines, place.marker)
    if not view.is_ours:
        return Change(view.text, {"put_back": _digest(blocks[0].body)} if blocks else {}, [])
    replaced = view.record["replaced"]
    edits = _block_edits(view.record, blocks)
    if replaced is None:
        return Change(with_block(view.text, blocks, None), {}, edits)
    begin, end = block_markers(place.marker)
    text = with_block(view.text, blocks, [begin, *replaced, end])
    return Change(text, {"put_back": _digest(replaced)}, edits)


def _block_edits(record: Record, blocks: List[Block]) -> List[str]:
    known = set(record["bodies"])
    if record["replaced"] is not None:
        known.add(_digest(record["replaced"]))
    return [line for block in blocks if _digest(block.body) not in known for line in block.body]
