"""The site that a command works on, as the shared options ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.cli._observers import open_observers
from cobweb.cli._request import Request

if TYPE_CHECKING:
    from cobweb.api import Site


def open_site(request: Request, *, runs_tasks: bool = False) -> Site:
    """Return the site that the shared options ask for; nothing is read yet.

    A command that `runs_tasks` of the site, or plans them, lets its inventory run programs, too.
    """
    from cobweb.api import Site

    site = Site(
        request.site,
        strict_plugins=request.strict_plugins,
        no_cache=request.no_cache,
        allow_outside=request.allow_outside,
        trust_inventory=request.trust_inventory or runs_tasks,
    )
    if request.observers or request.hears_unasked:
        open_observers(request, site)
    return site
