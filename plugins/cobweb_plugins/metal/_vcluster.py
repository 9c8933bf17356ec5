"""The group `cobweb vcluster`: virtual clusters are asked for, changed, looked at, given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cobweb.errors import UsageError
from cobweb.plugin import seconds_of, site_access

if TYPE_CHECKING:
    from cobweb_plugins.metal.vclusters._desk import Desk

_F = TypeVar("_F", bound=Callable[..., Any])
_COUNT, _PRIORITY = click.IntRange(0, 100_000), click.IntRange(-1000, 1000)
Act = tuple[str, Callable[[], int]]
"""What the user is asked, and what is done then, which returns an exit code."""


@click.group(
    "vcluster",
    epilog="\b\nExamples:\n  cobweb vcluster create shop --template web --count 4\n"
    "  cobweb vcluster status shop\n  cobweb vcluster release shop",
)
def vcluster() -> None:
    """Virtual clusters: machines for some time, with names of their own."""


def _command(name: str, *examples: str) -> Callable[[_F], Any]:
    lines = "".join(f"\n  cobweb vcluster {it}" for it in examples)
    return vcluster.command(name, epilog=f"\b\nExamples:{lines}")


@_command("list", "list", "list -o json")
@click.pass_context
def list_command(context: click.Context) -> None:
    """List the virtual clusters: how many nodes are ready, and until when."""
    from cobweb_plugins.metal.vclusters._views import tell_list, vcluster_data

    desk = _desk(context)
    data = vcluster_data(desk)
    if not desk.access.data(data):
        tell_list(desk, data)


@_command("status", "status shop", "status shop -o json")
@click.argument("name")
@click.pass_context
def status_command(context: click.Context, *, name: str) -> None:
    """Show the nodes of a virtual cluster: on which machine each is, and how it is."""
    from cobweb_plugins.metal.vclusters._views import tell_list, tell_nodes, vcluster_data

    desk = _desk(context)
    data = vcluster_data(desk, [desk.request(name).name])
    if not desk.access.data(data):
        tell_list(desk, data)
        tell_nodes(desk, data)


@_command("why", "why shop", "why m02")
@click.argument("name", metavar="VCLUSTER|MACHINE")
@click.pass_context
def why_command(context: click.Context, *, name: str) -> None:
    """Say who decided what of a virtual cluster or a machine, and what could be had.

    The reason of each machine is why it can be no (further) node now.
    """
    from cobweb_plugins.metal.vclusters._why import reasons, why_data

    desk = _desk(context)
    data = why_data(desk, name)
    if desk.access.data(data):
        return
    for line in (*data["decisions"], *reasons(data)):
        desk.access.line(line)


def _act(name: str, *examples: str) -> Callable[[Callable[..., Act]], Any]:
    """Make a command of a function that returns a question to the user, and what to do then."""

    def decorate(function: Callable[..., Act]) -> Any:
        def command(yes: bool, wait: str, reason: str, **options: Any) -> int:  # noqa: FBT001 - click gives them by name
            from cobweb_plugins.metal.vclusters._desk import Desk

            _check_wait(wait)
            desk = Desk(site_access(click.get_current_context()), reason, wait)
            question, act = function(desk, **options)
            if not yes:
                desk.access.refuse_unasked()
                click.confirm(question, abort=True, err=True)
            code = act()
            _show(desk, options.get("name"))
            return code

        command.__doc__ = function.__doc__
        command.__click_params__ = list(getattr(function, "__click_params__", []))  # type: ignore[attr-defined]
        made: Any = command
        text = "Why: kept with what is decided."
        made = click.option("--reason", metavar="TEXT", default=f"vcluster {name}", help=text)(made)
        text = "Wait so long for a site that another run holds; default 1h."
        made = click.option("--wait", metavar="DURATION", default="1h", help=text)(made)
        made = click.option("-y", "--yes", is_flag=True, help="Ask no question.")(made)
        return _command(name, *examples)(made)

    return decorate


def _check_wait(wait: str) -> None:
    """Raise UsageError for no duration: an apply would find that after all was decided."""
    try:
        seconds_of(wait)
    except ValueError as error:
        raise UsageError(f"--wait {wait} {error}", hint="as in `10m`") from error


def _show(desk: Desk, name: str | None) -> None:
    from cobweb_plugins.metal.vclusters._views import tell_nodes, vcluster_data

    vars(desk).pop("views", None)
    desk.forget()
    data = vcluster_data(desk, None if name is None else [name])
    if not desk.access.data(data) and name is not None:
        tell_nodes(desk, data)


_name = click.argument("name")


def _lease_options(function: _F) -> _F:
    for option, metavar, text in (
        ("--grace", "TIME", "How long after it nodes may still take; default 10m."),
        ("--notice", "TIME", "How long before its nodes are to be left; default 1h."),
        ("--for", "TIME", "So long from now on."),
        ("--until", "WHEN", "Until when it is there, as in 2026-12-01T08:00Z."),
    ):
        function = click.option(option, option.strip("-") + "_", metavar=metavar, help=text)(
            function
        )
    return function


@_act(
    "create",
    "create shop --template web --count 4 --where 'cores >= 4'",
    "create shop --until 2026-12-01T08:00Z --template web --count 2",
    "create shop   # as `vclusters` of site.yml says",
)
@_name
@click.option("--template", metavar="T", help="What runs on its nodes.")
@click.option("--count", type=_COUNT, metavar="N", help="How many nodes; 1.")
@click.option("--min", "least", type=_COUNT, metavar="N", help="Others leave it so many; N.")
@click.option("--max", "most", type=_COUNT, metavar="N", help="It never gets more.")
@click.option("--where", metavar="FILTER", help="On which machines, by their properties.")
@click.option("--group", metavar="TEXT", help="Whose it is.")
@click.option("--subnet", metavar="A/N", help="Of which its addresses are.")
@click.option("--domain", metavar="DOMAIN", help="That of its nodes' names.")
@click.option("--priority", type=_PRIORITY, metavar="N", help="Takes from lower ones; 0.")
@_lease_options
def _create(desk: Desk, name: str, **said: Any) -> Act:
    """Ask for a virtual cluster, and make it.

    All of its machines are chosen at once, or none: then the exit code is 1,
    and nothing was changed. Without options it is as `vclusters` of the site's
    section `metal` says. The same command again goes on.
    """
    from cobweb_plugins.metal.vclusters._acts import asked, grant

    given = {key: it for key, it in said.items() if it is not None}
    return grant(desk, name, lambda: asked(desk, name, given))


@_act("resize", "resize shop --count 6", "resize shop   # as site.yml says now")
@_name
@click.option("--count", type=_COUNT, metavar="N", help="How many nodes.")
@click.option("--part", type=click.IntRange(1), default=1, metavar="I", help="Of which kind; 1.")
def _resize(desk: Desk, name: str, *, count: int | None, part: int) -> Act:
    """Give a virtual cluster more nodes, or fewer: then those of the highest numbers go."""
    from cobweb_plugins.metal.vclusters._acts import grant, resized

    return grant(desk, name, lambda: resized(desk, name, count, part - 1), exists=True)


@_act("extend", "extend shop --for 7d", "extend shop --until 2026-12-01T08:00Z")
@_name
@_lease_options
def _extend(desk: Desk, name: str, **said: Any) -> Act:
    """Have the lease of a virtual cluster end at another time.

    Where its nodes were to be left, what the site has on them comes back.
    """
    from cobweb_plugins.metal.vclusters._acts import extended, grant

    given = {key: it for key, it in said.items() if it}
    return grant(desk, name, lambda: extended(desk.request(name), given), exists=True)


@_act("renew", "renew shop", "renew shop --at-once 4")
@_name
@click.option("--at-once", type=click.IntRange(1), default=1, metavar="N", help="So many; 1.")
def _renew(desk: Desk, name: str, *, at_once: int) -> Act:
    """Re-image the nodes whose template has another image now, one after the other.

    The first that fails ends it. The same command again goes on.
    """
    from cobweb_plugins.metal.vclusters._acts import renew

    return renew(desk, desk.request(name), at_once)


@_act("release", "release shop", "release shop --yes")
@_name
def _release(desk: Desk, name: str) -> Act:
    """Give a virtual cluster back: what is on its nodes goes, then they do."""
    from cobweb_plugins.metal.vclusters._acts import release

    return release(desk, name)


@_act("expire", "expire --yes   # every few minutes, by cron")
def _expire(desk: Desk) -> Act:
    """Do what is due: end leases, replace failed machines, switch idle ones off.

    When a lease is about to end its nodes are to be left, at its end they go,
    and after its grace by power. A failed machine is replaced where another
    one can be had.
    """
    from cobweb_plugins.metal.vclusters._acts import expire

    return "Do what is due?", lambda: expire(desk)


@click.command("release", epilog="\b\nExamples:\n  cobweb metal release m01")
@click.argument("machine")
@click.pass_context
def metal_release(context: click.Context, *, machine: str) -> None:
    """Have a machine that was put aside be chosen again."""
    from cobweb_plugins.metal.vclusters._acts import put_back
    from cobweb_plugins.metal.vclusters._desk import Desk

    put_back(Desk(site_access(context), "metal release"), machine)


def _desk(context: click.Context) -> Desk:
    from cobweb_plugins.metal.vclusters._desk import Desk

    return Desk(site_access(context))
