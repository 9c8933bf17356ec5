"""The site that a command works on, as the shared options ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.cli._observers import open_observers
from cobweb.cli._request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cobweb.api import Site
    from cobweb.model import Decisions


def open_site(
    request: Request,
    *,
    runs_tasks: bool = False,
    decisions: Mapping[str, Decisions | int] | None = None,
) -> Site:
    """Return the site that the shared options ask for; nothing is read yet.

    A command that `runs_tasks` of the site, or plans them, lets its inventory run programs, too.
    `decisions` are those of `Site`.
    """
    from cobweb.api import Site

    site = Site(
        request.site,
        strict_plugins=request.strict_plugins,
        no_cache=request.no_cache,
        allow_outside=request.allow_outside,
        trust_inventory=request.trust_inventory or runs_tasks,
        decisions=decisions,
    )
    if request.observers or request.hears_unasked:
        open_observers(request, site)
    return site
