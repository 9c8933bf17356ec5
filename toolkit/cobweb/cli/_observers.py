"""The observers that `--observe` names: open before a command begins, closed when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cobweb.cli._output import Output
from cobweb.cli._request import Request, remember

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.operations import Observers

_KEY = "cobweb.open_observers"
"""Where click's `meta` has the observers of this call."""

_F = TypeVar("_F", bound=Callable[..., Any])


def observe_option(function: _F) -> _F:
    """Add `--observe NAME[=ARGUMENT]`."""

    def keep(ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> None:
        if not ctx.resilient_parsing:
            remember("observers", tuple(value.partition("=")[::2] for value in values))

    return click.option(
        "--observe",
        metavar="NAME[=ARG]",
        multiple=True,
        callback=keep,
        expose_value=False,
        help="Let this observer of a plugin hear what happens; repeatable.",
    )(function)


def annotations_option(function: _F) -> _F:
    """Add `--annotations/--no-annotations`: whether observers hear that come unasked."""

    def keep(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        if not ctx.resilient_parsing:
            remember("hears_unasked", value)

    return click.option(
        "--annotations/--no-annotations",
        default=True,
        callback=keep,
        expose_value=False,
        help="Tell failures to the pipeline, where GITHUB_ACTIONS or GITLAB_CI is set.",
    )(function)


def open_observers(request: Request, site: Site) -> None:
    """Open the observers of this call; they are closed when its command has ended."""
    context = click.get_current_context()
    observers = context.meta[_KEY] = site.observers(
        *request.observers, unasked=request.hears_unasked
    )

    @context.call_on_close
    def close() -> None:
        for notice in observers.close():
            Output.of(request).note(notice)


def current_observers() -> Observers | None:
    """Return the observers of this call, if there are any."""
    found: Observers | None = click.get_current_context().meta.get(_KEY)
    return found


def tell_observers(result: Mapping[str, Any]) -> None:
    """Let the observers of this call know, in the end, how it came out."""
    observers = current_observers()
    if observers is not None:
        observers.result = result
