# SPDX-License-Identifier: GPL-3.0-or-later
"""What a `tree` says to people: paths and conflicts, printable and bounded."""

from __future__ import annotations

from typing import List

from ansible.module_utils.cobweb_tree_merge import Conflict

LISTED = 10
"""So many paths are named in a message."""

HUNK_LINES = 30
LINE_LENGTH = 200


def conflict_message(folder: str, conflicts: List[Conflict]) -> str:
    """Say first which paths, then why, then how contents collide."""
    paths = listed([conflict.path for conflict in conflicts])
    lines = [f"conflict in {folder}, nothing was changed: {paths}"]
    lines += [plain(f"{one.path}: {one.reason}") for one in conflicts[:LISTED]]
    if not all(one.hard for one in conflicts):
        lines.append("merge the edits into the site, or say `on_conflict: site` or `host`")
    hunks = [one for one in conflicts if one.hunk][:LISTED]
    shown = [line for one in hunks for line in (f"--- {one.path}", *one.hunk.splitlines())]
    if len(shown) > HUNK_LINES:
        shown = [*shown[:HUNK_LINES], f"... and {len(shown) - HUNK_LINES} lines more"]
    return "\n".join([*lines, *(plain(line[:LINE_LENGTH]) for line in shown)])


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
