"""Problems of a site's sections: where, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from cobweb.plugin import seconds_of

Path = tuple[str | int, ...]
Problem = tuple[Path, str, str]
"""The keys that lead to a value, the first of them a section; what is wrong; a hint."""

MAX_LISTED = 8


def unknown(path: Path, kind: str, name: str, known: Collection[str]) -> Problem:
    """Return the problem that there is no `kind` of this name; the hint names a close one."""
    close = get_close_matches(name, list(known), n=1)
    listed = ", ".join(sorted(known)[:MAX_LISTED]) or "none"
    more = " and others" if len(known) > MAX_LISTED else ""
    hint = f"did you mean `{close[0]}`?" if close else f"there is {listed}{more}"
    return path, f"there is no {kind} `{name}`", hint


def named(path: Path, kind: str, names: Any, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each of `names`, a list or one name or None, that is not known."""
    if isinstance(names, str):
        if names not in known:
            yield unknown(path, kind, names, known)
        return
    for place, name in enumerate(names or ()):
        if name not in known:
            yield unknown((*path, place), kind, name, known)


def seconds(value: str | int | None) -> float:
    """Return the seconds that a duration of a section means; nothing and 0 are 0.

    ValueError, whose text is a sentence's end, for what is no duration.
    """
    if value in (None, 0, "0", ""):
        return 0
    return seconds_of(str(value))


def no_duration(path: Path, value: Any) -> Iterator[Problem]:
    """Yield a problem if a value is no duration."""
    try:
        seconds(value)
    except ValueError as error:
        yield path, f"`{value}` {error}", "0 or nothing means for ever"


def circle_in(edges: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Return a circle of a graph, its first node again at the end; () if it has none.

    Nodes are looked at in the order of `edges`, so the same graph gives the same circle.
    """
    done: set[str] = set()
    for start in edges:
        way: dict[str, Iterator[str]] = {start: iter(edges[start])} if start not in done else {}
        while way:
            here = next(reversed(way))
            following = next(way[here], None)
            if following is None:
                done.add(here)
                del way[here]
            elif following in way:
                nodes = list(way)
                return (*nodes[nodes.index(following) :], following)
            elif following not in done:
                way[following] = iter(edges.get(following, ()))
    return ()
