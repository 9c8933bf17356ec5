"""What is wrong with a site before anything runs, kept where that is nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.cli._cached_plans import Sound


def check_all(session: Site, limit: str | None) -> None:
    """Raise SiteError with everything that is wrong with the site before anything runs."""
    if limit is None:
        check_whole(session)
    else:
        session.check(limit)


def check_whole(session: Site) -> Sound:
    """Return the size of a whole site and what it is warned of; SiteError as from `check_all`."""
    from cobweb.cli._cached_plans import find_sound, keep_sound, sound

    known = find_sound(session)
    if known is not None:
        return known
    from cobweb.operations import graph_warnings

    session.check()
    graph = session.graph()
    found = sound(graph, (*session.evaluated.notes(), *graph_warnings(graph)))
    keep_sound(session, found)
    return found
