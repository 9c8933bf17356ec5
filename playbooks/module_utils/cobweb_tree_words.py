# SPDX-License-Identifier: GPL-3.0-or-later
"""What a `tree` says to people: paths and conflicts, printable and bounded."""

from __future__ import annotations

from typing import Dict, List

from ansible.module_utils.cobweb_tree_merge import Conflict

LISTED = 10
"""So many paths are named in a message."""

SIDES_SHOWN = 3
"""So many collisions are shown with all three sides."""

SIDE_LENGTH = 60
_BEGINS = (("<<<<<<< ", "host"), ("||||||| ", "applied before"), ("=======", "site"))


def conflict_message(folder: str, conflicts: List[Conflict]) -> str:
    """Say in one line which paths, why, how contents collide, and what to do."""
    paths = listed([conflict.path for conflict in conflicts])
    reasons = [f"{one.path}: {one.reason}{_collisions(one)}" for one in conflicts[:LISTED]]
    if len(reasons) > 1:
        reasons.insert(0, paths)
    parts = [f"conflict in {folder}, nothing was changed: {plain('; '.join(reasons))}"]
    if not all(one.hard for one in conflicts):
        parts.append("merge the edits into the site, or say `on_conflict: site` or `host`")
    return "; ".join(parts)


def _collisions(conflict: Conflict) -> str:
    """Tell the first collisions of a file: what each side says."""
    found: List[Dict[str, List[str]]] = []
    side: List[str] = []
    for line in conflict.hunk.splitlines():
        begun = next((name for mark, name in _BEGINS if line.startswith(mark)), None)
        if begun == "host":
            found.append({})
        if begun and found:
            side = found[-1].setdefault(begun, [])
        elif not line.startswith(">>>>>>> "):
            side.append(line)
    shown = [
        ", ".join(f"{name} {_quoted(lines)}" for name, lines in sides.items())
        for sides in found[:SIDES_SHOWN]
    ]
    if len(found) > SIDES_SHOWN:
        shown.append(f"and {len(found) - SIDES_SHOWN} more")
    return f" ({'; '.join(shown)})" if shown else ""


def _quoted(lines: List[str]) -> str:
    text = " / ".join(line.strip() for line in lines)
    cut = text if len(text) <= SIDE_LENGTH else f"{text[:SIDE_LENGTH]}..."
    return f"`{cut}`" if lines else "nothing"


def hunks(merged: bytes) -> str:
    """Return what collides, without what is around it."""
    shown, inside = [], False
    for line in merged.decode("utf-8", "replace").splitlines():
        inside = inside or line.startswith("<<<<<<< ")
        if inside:
            shown.append(line)
        inside = inside and not line.startswith(">>>>>>> ")
    return "\n".join(shown)


def listed(paths: List[str]) -> str:
    """Name the first paths, and how many more there are."""
    more = len(paths) - LISTED
    text = ", ".join(map(plain, paths[:LISTED]))
    return f"{text} and {more} more" if more > 0 else text


def plain(text: str) -> str:
    """Make a text printable in one line."""
    kept = text.encode("utf-8", "backslashreplace").decode()
    return "".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter in kept.replace("\t", " ")
    )
