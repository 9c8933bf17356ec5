"""Completion of hosts and COBs from the site; silent where there is no valid site."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from cobweb.cli._request import current_request
from cobweb.errors import CobwebError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.model import CobId


_MOST = 1000
"""More candidates than this help nobody and make a shell slow."""


def complete_host(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the hosts of the site that begin as `incomplete` does."""
    return _candidates(ctx, lambda session: session.evaluated.hosts, incomplete)


def complete_reference(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of the COBs that begin as `incomplete` does."""
    return _candidates(ctx, lambda session: session.graph().cobs, incomplete)


def complete_gone(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the objects that begin so and are gone from the site, but known."""
    return _candidates(ctx, _gone, incomplete)


def complete_gone_host(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the hosts of such objects that begin so and are gone as well."""
    return _candidates(ctx, _gone_hosts, incomplete)


def _gone(session: Site) -> Iterable[CobId]:
    return session.store().states().keys() - session.graph().cobs.keys()


def _gone_hosts(session: Site) -> Iterable[str]:
    from cobweb.model import host_of

    return {host_of(cob) for cob in _gone(session)} - session.evaluated.hosts.keys()


def _candidates(
    context: click.Context, names: Callable[[Site], Iterable[str]], incomplete: str
) -> list[str]:
    from cobweb.cli._session import open_site

    try:
        with open_site(current_request(context)) as session:
            found = sorted(name for name in names(session) if name.startswith(incomplete))
    except CobwebError:
        return []
    return found[:_MOST]
