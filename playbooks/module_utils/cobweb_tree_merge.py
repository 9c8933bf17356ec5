# SPDX-License-Identifier: GPL-3.0-or-later
"""Three versions of a file tree become one: the part of the type `tree` that only decides.

A version is a mapping from paths to entries. `base` is what the site wanted when it was applied
last, `ours` what is on the host now, `theirs` what the site wants now, `originals` what was at our
paths before the first of them was written. Nobody has touched what is in `ours` as in `base`: it
becomes as in `theirs`. What differs from `base` is somebody's edit: it stays, and is merged with
what the site has changed since. What was deleted is written again, as nothing is lost by that. A
path that the site has dropped becomes again what it was before us.

A folder never takes the place of a file or link that is not ours, nor the other way round: no
policy solves that. A `soft` folder is one for which the site does not say mode and owner: where the
host has such a folder, it is as it should be.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

FILE = "file"
LINK = "link"
FOLDER = "folder"
SPECIAL = "special"

FAIL = "fail"
SITE = "site"
HOST = "host"

FOLDER_MODE = 0o755

_TOKENS = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])")
_MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class Entry(NamedTuple):
    """What is at a path; `blob` names the content of a file, or the target of a link.

    No `uid` or `gid`: whatever it is. The mode of a link means nothing.
    """

    kind: str
    blob: str = ""
    mode: int = 0
    uid: Optional[int] = None
    gid: Optional[int] = None
    soft: bool = False


Tree = Mapping[str, Entry]
Wanted = Dict[str, Optional[Entry]]
TextMerge = Callable[[str, str, str], Tuple[Optional[str], str]]
"""Given the blobs of base, ours and theirs: the merged one, or None and how they collide."""


class Versions(NamedTuple):
    """What is merged; in `originals` None means that nothing was there."""

    base: Tree
    ours: Tree
    theirs: Tree
    originals: Mapping[str, Optional[Entry]]


class Conflict(NamedTuple):
    """Why a path cannot be merged; `hunk` shows how contents collide; `hard`: no policy helps."""

    path: str
    reason: str
    hunk: str = ""
    hard: bool = False


class Merged(NamedTuple):
    """What shall be there (None: nothing) for each path of `base` and `theirs`."""

    tree: Wanted
    conflicts: List[Conflict]


class Rule(NamedTuple):
    """What matches has another mode or owner than the tree says."""

    match: str
    mode: Optional[int]
    uid: Optional[int]
    gid: Optional[int]


class _CollidesError(Exception):
    """A path cannot be merged."""

    def __init__(self, reason: str, *, hunk: str = "", hard: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hunk = hunk
        self.hard = hard


def merge(versions: Versions, policy: str, text: TextMerge) -> Merged:
    """Merge path by path; what collides is decided by the policy, or listed."""
    merger = _Merger(policy, text)
    tree: Wanted = {}
    conflicts = []
    for path in sorted({*versions.base, *versions.theirs}):
        try:
            tree[path] = merger.entry(
                versions.base.get(path),
                versions.ours.get(path),
                versions.theirs.get(path),
                versions.originals.get(path),
            )
        except _CollidesError as found:
            conflicts.append(Conflict(path, found.reason, found.hunk, found.hard))
    return Merged(tree, conflicts)


def is_like(asked: Optional[Entry], found: Optional[Entry]) -> bool:
    """Say whether what was found is what was asked for."""
    if asked is None or found is None:
        return asked is found
    if (asked.kind, asked.blob) != (found.kind, found.blob):
        return False
    if asked.soft:
        return True
    return (
        (asked.kind == LINK or asked.mode == found.mode)
        and asked.uid in (None, found.uid)
        and asked.gid in (None, found.gid)
    )


def present_in(entries: Mapping[str, Optional[Entry]]) -> Dict[str, Entry]:
    """Return the entries that are there."""
    return {path: entry for path, entry in entries.items() if entry is not None}


def parent_of(path: str) -> str:
    """Return the folder that a path is in; "" is the root."""
    return path.rpartition("/")[0]


def with_parents(tree: Tree) -> Dict[str, Entry]:
    """Return a tree in which each folder above an entry is an entry."""
    whole = dict(tree)
    for path in tree:
        above = parent_of(path)
        while above and above not in whole:
            whole[above] = Entry(FOLDER, mode=FOLDER_MODE, soft=True)
            above = parent_of(above)
    return whole


def dressed(raw: Tree, rules: List[Rule]) -> Dict[str, Entry]:
    """Return what the site wants: a tree as it was packed, with owners and other modes.

    The first rule is for all files and links, and for the folders that we make. The last rule that
    matches counts; one that ends in `/` matches folders, every other one files and links. A folder
    that a rule matches is not soft.
    """
    matchers = [(re.compile(_pattern(rule.match)), rule) for rule in rules]
    return {path: _dressed(path, entry, matchers) for path, entry in with_parents(raw).items()}


def _dressed(path: str, entry: Entry, matchers: List[Tuple[Any, Rule]]) -> Entry:
    folder = entry.kind == FOLDER
    entry = entry._replace(soft=folder)
    for number, (pattern, rule) in enumerate(matchers):
        if number and (rule.match.endswith("/") != folder or not pattern.match(path)):
            continue
        entry = entry._replace(
            mode=entry.mode if rule.mode is None else rule.mode,
            uid=entry.uid if rule.uid is None else rule.uid,
            gid=entry.gid if rule.gid is None else rule.gid,
            soft=entry.soft and not number,
        )
    return entry


def _pattern(glob: str) -> str:
    """Translate a glob: one without a slash matches names, every other one from the top."""
    anywhere = "" if "/" in glob.rstrip("/") else "(?:.*/)?"
    pieces = _TOKENS.split(glob.strip("/"))
    meant = (_MEANINGS.get(piece) or _literal(piece) for piece in pieces)
    return "(?s:" + anywhere + "".join(meant) + r")\Z"


def _literal(piece: str) -> str:
    if piece.startswith("[") and piece.endswith("]"):
        inside = piece[1:-1].replace("\\", r"\\")
        return f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(piece)


class _Merger:
    """Merges the versions of one path."""

    def __init__(self, policy: str, text: TextMerge) -> None:
        self._policy = policy
        self._text = text

    def entry(
        self,
        base: Optional[Entry],
        ours: Optional[Entry],
        theirs: Optional[Entry],
        original: Optional[Entry],
    ) -> Optional[Entry]:
        """Return what shall be there."""
        if theirs is None:
            assert base is not None, "a path is of the base or of theirs"
            return self._dropped(base, ours, original)
        if ours is None:
            return theirs
        if (ours.kind == FOLDER) != (theirs.kind == FOLDER):
            return _in_place_of(base, ours, theirs)
        if ours.kind == SPECIAL:
            raise _CollidesError("is no file, folder or link on the host", hard=True)
        if base is not None and not is_like(base, ours) and not theirs.soft:
            return self._edited(base, ours, theirs)
        return ours._replace(soft=True) if theirs.soft else _owned(theirs, ours)

    def _dropped(
        self, base: Entry, ours: Optional[Entry], original: Optional[Entry]
    ) -> Optional[Entry]:
        if original is not None and base.soft:
            original = original._replace(soft=True)
        if ours is None or is_like(base, ours) or base.kind == ours.kind == FOLDER:
            return original
        if is_like(original, ours):
            return ours
        if ours.kind == SPECIAL or FOLDER in (ours.kind, base.kind):
            if original is None:
                return ours
            raise _CollidesError(f"has become a {ours.kind} on the host", hard=True)
        return self._choice("was changed on the host, and is gone from the site", ours, original)

    def _edited(self, base: Entry, ours: Entry, theirs: Entry) -> Entry:
        if theirs == base:
            return ours
        if is_like(theirs, ours):
            return ours
        if not base.kind == ours.kind == theirs.kind:
            said = f"is a {ours.kind} on the host, a {theirs.kind} in the site"
            chosen = self._choice(said, ours, _owned(theirs, ours))
            assert chosen is not None, "both are there"
            return chosen
        return Entry(
            theirs.kind,
            self._blob(base, ours, theirs),
            self._number("mode", base.mode, ours.mode, theirs.mode) or 0,
            self._number("owner", base.uid, ours.uid, theirs.uid),
            self._number("group", base.gid, ours.gid, theirs.gid),
        )

    def _blob(self, base: Entry, ours: Entry, theirs: Entry) -> str:
        if ours.blob == base.blob:
            return theirs.blob
        if theirs.blob in (base.blob, ours.blob):
            return ours.blob
        hunk = ""
        if theirs.kind == FILE:
            merged, hunk = self._text(base.blob, ours.blob, theirs.blob)
            if merged is not None:
                return merged
        what = "content" if theirs.kind == FILE else "target"
        if self._policy == FAIL:
            raise _CollidesError(f"its {what} was changed on the host and in the site", hunk=hunk)
        return theirs.blob if self._policy == SITE else ours.blob

    def _number(
        self, what: str, base: Optional[int], ours: Optional[int], theirs: Optional[int]
    ) -> Optional[int]:
        """Merge modes or owners; the site has no opinion where it says None."""
        if theirs in (None, base, ours):
            return ours
        if base is None or ours == base or self._policy == SITE:
            return theirs
        if self._policy == FAIL:
            raise _CollidesError(f"its {what} was changed on the host and in the site")
        return ours

    def _choice(
        self, reason: str, ours: Optional[Entry], theirs: Optional[Entry]
    ) -> Optional[Entry]:
        if self._policy == FAIL:
            raise _CollidesError(reason)
        return theirs if self._policy == SITE else ours


def _in_place_of(base: Optional[Entry], ours: Entry, theirs: Entry) -> Entry:
    """Let a folder take the place of a file, or the other way round, if that was ours."""
    if base is None or not is_like(base, ours):
        raise _CollidesError(
            f"is a {ours.kind} on the host, a {theirs.kind} in the site", hard=True
        )
    return theirs


def _owned(theirs: Entry, ours: Entry) -> Entry:
    """Fill in the owner that the site leaves open."""
    return theirs._replace(
        uid=ours.uid if theirs.uid is None else theirs.uid,
        gid=ours.gid if theirs.gid is None else theirs.gid,
    )
