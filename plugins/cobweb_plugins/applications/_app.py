"""The commands of `cobweb app`: applications in phases on many nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cobweb.plugin import site_access

if TYPE_CHECKING:
    from cobweb_plugins.applications._desk import Desk

_F = TypeVar("_F", bound=Callable[..., Any])


@click.group(
    "app",
    epilog="\b\nExamples:\n  cobweb app run ring\n  cobweb app status ring",
)
def app() -> None:
    """Run applications in phases on many nodes, and see how they are."""


def _command(name: str, *examples: str) -> Callable[[_F], Any]:
    lines = "".join(f"\n  cobweb app {it}" for it in examples)
    return app.command(name, epilog=f"\b\nExamples:{lines}")


def _changing(function: _F) -> _F:
    """Add the options of a command that has something decided and carried out."""
    for option in (
        click.option("--reason", metavar="TEXT", default="", help="Why: kept with the decision."),
        click.option(
            "--wait",
            metavar="DURATION",
            default="1h",
            show_default=True,
            help="Wait so long for a site that another run holds.",
        ),
        click.option("-y", "--yes", is_flag=True, help="Ask no question."),
    ):
        function = option(function)
    return function


_name = click.argument("name", metavar="APPLICATION")


def _desk(context: click.Context, name: str) -> Desk:
    from cobweb_plugins.applications._desk import Desk

    return Desk(site_access(context), name)


def _ask(desk: Desk, question: str, *, yes: bool) -> None:
    if not yes:
        desk.access.refuse_unasked()
        click.confirm(question, abort=True, err=True)


@_command("run", "run ring", "run ring --yes --reason 'the nightly one'")
@_name
@_changing
@click.pass_context
def run_command(context: click.Context, /, *, name: str, yes: bool, wait: str, reason: str) -> int:
    """Start an application on its nodes, and see it through to its end.

    Where it is at work already, this goes on with it: whoever looked after it
    before may have gone at any moment. Interrupt it, and the application goes
    on by itself in the phases that have begun. The exit code is 0 where it has
    ended well on all nodes that have joined.
    """
    from cobweb_plugins.applications._life import Controller

    desk = _desk(context, name)
    if desk.book is None or desk.book.is_over:
        _ask(desk, f"Start {name} on {desk.application.on}?", yes=yes)
    with desk.nodes() as nodes:
        code = Controller(desk, nodes, reason=reason or f"app run {name}", wait=wait).run()
    _data(desk)
    return code


@_command("stop", "stop ring", "stop ring --yes")
@_name
@_changing
@click.pass_context
def stop_command(context: click.Context, /, *, name: str, yes: bool, wait: str, reason: str) -> int:
    """End what is at work of an application, on all of its nodes."""
    from cobweb_plugins.applications._life import stop

    desk = _desk(context, name)
    _ask(desk, f"Stop {name}?", yes=yes)
    code = stop(desk, reason or f"app stop {name}", wait)
    _data(desk)
    return code


def _data(desk: Desk) -> None:
    """Write how an application is as data, where that is asked for."""
    if desk.access.output != "text":
        from cobweb_plugins.applications._views import tell_status

        tell_status(desk, is_asked=False)


_no_ask = click.option("--no-ask", is_flag=True, help="Ask no node: only what the journal knows.")


@_command("admit", "admit n3", "admit n3 --of ring --reason 'a new cable'")
@click.argument("node")
@click.option("--of", "name", metavar="APPLICATION", help="Of this one; default: of all.")
@click.option("--reason", metavar="TEXT", default="", help="Why: kept with the decision.")
@click.pass_context
def admit_command(context: click.Context, /, *, node: str, name: str | None, reason: str) -> None:
    """Have a node invited again that was left out, for it went away too often."""
    from cobweb_plugins.applications._life import admit

    admit(site_access(context), node, name, reason or f"app admit {node}")


@_command("status", "status", "status ring", "status ring -o json")
@click.argument("name", metavar="APPLICATION", required=False)
@_no_ask
@click.pass_context
def status_command(context: click.Context, /, *, name: str | None, no_ask: bool) -> None:
    """Show how far an application is on each of its nodes; without one, list all."""
    from cobweb_plugins.applications import _views

    if name is None:
        _views.tell_all(site_access(context))
    else:
        _views.tell_status(_desk(context, name), is_asked=not no_ask)


@_command("why", "why ring", "why ring n3")
@_name
@click.argument("host", required=False)
@_no_ask
@click.pass_context
def why_command(context: click.Context, /, *, name: str, host: str | None, no_ask: bool) -> None:
    """Say what an application, or one of its nodes, waits for, and what is wrong."""
    from cobweb_plugins.applications._views import tell_why

    tell_why(_desk(context, name), host, is_asked=not no_ask)


@_command(
    "logs", "logs ring", "logs ring --on n3 --phase compute --lines 100", "logs ring --follow"
)
@_name
@click.option("--on", "pattern", metavar="PATTERN", help="Of these hosts; default: all members.")
@click.option("--phase", metavar="PHASE", help="Of this phase; default: the last that has begun.")
@click.option(
    "--lines",
    metavar="N",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="At most so many lines of each.",
)
@click.option("--follow", is_flag=True, help="Go on as it comes, until you interrupt it.")
@click.pass_context
def logs_command(context: click.Context, /, *, name: str, **options: Any) -> int:
    """Show what the phases of an application have written, equal ends together."""
    from cobweb_plugins.applications._views import tell_output

    return tell_output(_desk(context, name), **options)
