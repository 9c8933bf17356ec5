"""What is wrong with a site before anything runs, kept where that is nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cobweb import operations
from cobweb.errors import Finding, Place

if TYPE_CHECKING:
    from cobweb.api import Site

_SOUND = "sound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """How many objects and needs a site without mistakes has, and what it is warned of.

    `converges` says that a run of it from nothing is known to come to an end.
    """

    cobs: int
    needs: int
    warnings: tuple[Finding, ...] = ()
    converges: bool = False


def check_all(session: Site, limit: str | None) -> None:
    """Raise SiteError with everything that is wrong with the site before anything runs."""
    if limit is None:
        check_whole(session)
    else:
        session.check(limit)


def check_whole(session: Site) -> Sound:
    """Return the size of a whole site and what it is warned of; SiteError as from `check_all`."""
    known = _find_sound(session)
    if known is not None:
        return known
    session.check()
    graph = session.graph()
    warnings = (*session.evaluated.notes(), *operations.graph_warnings(graph))
    found = Sound(cobs=len(graph.cobs), needs=len(graph.needs), warnings=warnings)
    keep_sound(session, found)
    return found


def keep_sound(session: Site, found: Sound) -> None:
    """Keep that the whole site, whose graph was evaluated, has no mistakes."""
    key = session.evaluated.content_key() if session.cache else None
    if key:
        session.cache.put(_SOUND, key, json.dumps(asdict(found)).encode())


def _find_sound(session: Site) -> Sound | None:
    """Return what is known of a whole site that was found to be without mistakes, if it was."""
    key = session.evaluated.content_key() if session.evaluated.is_kept else None
    data = session.cache.get(_SOUND, key) if key else None
    if data is None:
        return None
    found = json.loads(data)
    warnings = tuple(
        Finding(place=Place(**it.pop("place")), **it) for it in found.pop("warnings", ())
    )
    return Sound(warnings=warnings, **found)
