"""Completion of hosts and COBs from the site; silent where there is no valid site."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from cobweb.cli._request import current_request
from cobweb.errors import CobwebError

if TYPE_CHECKING:
    from cobweb.cli._session import Session

__all__ = ["complete_host", "complete_reference"]

_MOST = 1000
"""More candidates than this help nobody and make a shell slow."""


def complete_host(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the hosts of the site that begin as `incomplete` does."""
    return _candidates(ctx, lambda session: session.site.hosts, incomplete)


def complete_reference(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the COBs that begin as `incomplete` does."""
    return _candidates(ctx, lambda session: session.graph().cobs, incomplete)


def _candidates(
    context: click.Context, names: Callable[[Session], Iterable[str]], incomplete: str
) -> list[str]:
    from cobweb.cli._session import open_site

    try:
        with open_site(current_request(context)) as session:
            found = sorted(name for name in names(session) if name.startswith(incomplete))
    except CobwebError:
        return []
    return found[:_MOST]
