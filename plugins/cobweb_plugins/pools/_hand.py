"""The commands of `cobweb pool` that look at pools, and move resources by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cobweb.errors import UsageError
from cobweb.plugin import SiteAccess, Tone, seconds_of, site_access
from cobweb_plugins.pools._commands import pool

if TYPE_CHECKING:
    from cobweb_plugins.pools._desk import Desk
    from cobweb_plugins.pools._moves import Mover

_F = TypeVar("_F", bound=Callable[..., Any])


def _command(name: str, *examples: str) -> Callable[[_F], Any]:
    lines = "".join(f"\n  cobweb pool {it}" for it in examples or (name,))
    return pool.command(name, epilog=f"\b\nExamples:{lines}")


def _look(name: str, text: str) -> None:
    """Add a command that shows how the pools are; `_views.tell_NAME` tells people."""

    @click.option("--no-ask", is_flag=True, help="Ask no service: only what is decided.")
    @click.pass_context
    def command(context: click.Context, *, no_ask: bool) -> None:
        from cobweb_plugins.pools import _views

        desk = _desk(context)
        data = _views.pool_data(desk, {} if no_ask else desk.ask(desk.pools.services))
        if not desk.access.data(data):
            getattr(_views, f"tell_{name}")(desk.access, data)

    command.__doc__ = text
    _command(name, name, f"{name} -o json")(command)


_look("status", "Show services, and resources that are not at rest.")
_look("services", "List services: their states, members, bounds and indicators.")
_look("resources", "List resources: whose they are, since when and why.")


@_command("needs", "needs", "needs -o json")
@click.pass_context
def needs_command(context: click.Context) -> None:
    """List what services need, the most urgent first, and what is in the way."""
    from cobweb_plugins.pools._balance import Round, tell_needs
    from cobweb_plugins.pools._views import pool_data

    desk = _desk(context)
    answers = desk.ask(desk.registered())
    found = Round(desk, answers).needs()
    if not desk.access.data({**pool_data(desk, answers, only=()), "needs": found}):
        tell_needs(desk.access, found)


@_command("orders", "orders", "orders -o json")
@click.pass_context
def orders_command(context: click.Context) -> None:
    """List what is being freed, and who gets it then."""
    from cobweb_plugins.pools._balance import orders, tell_orders
    from cobweb_plugins.pools._views import pool_data

    desk = _desk(context)
    found = orders(desk)
    if not desk.access.data({**pool_data(desk, {}, only=()), "orders": found}):
        tell_orders(desk.access, found)


@_command("balance", "balance --dry-run", "balance --yes", "balance --now --yes")
@click.option("--dry-run", is_flag=True, help="Decide, and write nothing.")
@click.option("--now", "hurry", is_flag=True, help="Wait for nothing: not to grow, nor to shrink.")
@click.option("-y", "--yes", is_flag=True, help="Ask no question.")
@click.option("--wait", metavar="DURATION", help="Wait so long for a site that another run holds.")
@click.option("--reason", metavar="TEXT", default="pool balance", help="Why: kept with it.")
@click.pass_context
def balance_command(context: click.Context, /, **options: Any) -> int:
    """Decide once by need, as a controller does, and carry it out.

    Two rounds move a resource that is at work: it drains, and goes once it is
    idle. The exit code is 2 while something is on its way.
    """
    from cobweb_plugins.pools._balance import Round, balance, tell_round
    from cobweb_plugins.pools._views import pool_data

    desk = _desk(context)
    access = desk.access
    answers = desk.ask(desk.registered())
    found = Round(desk, answers, hurry=options["hurry"])
    made = {"writes": dict(found.bodies), "notes": found.notes}
    if access.output == "text":
        tell_round(access, found)
    code = 2 if found.bodies else 0
    if not options["dry_run"]:
        if found.bodies and not options["yes"]:
            access.refuse_unasked()
            click.confirm("Write and carry out that?", abort=True, err=True)
        code = balance(desk, found, options["reason"], options["wait"])
        desk.forget()
    access.data({**pool_data(desk, answers), **made})
    return code


_file = click.Path(dir_okay=False, path_type=Path)


@_command("history", "history", "history n03", "history --chart who.svg --since 2h")
@click.argument("resource", required=False)
@click.option("--chart", metavar="FILE", type=_file, help="Draw who had what when, as SVG.")
@click.option("--since", metavar="DURATION", help="Draw the last of it; default: all.")
@click.option("--record", metavar="FILE", type=_file, help="Draw what waited: by `serve --record`.")
@click.pass_context
def history_command(context: click.Context, /, **options: Any) -> int:
    """List all that was decided, the newest first.

    With --chart it is drawn in the file as well. Decisions do not say what
    work has waited; a file of `cobweb serve --record` does.
    """
    access = site_access(context)
    resource, chart = options["resource"], options["chart"]
    if chart is not None:
        _draw(access, chart, options)
    elif options["since"] or options["record"]:
        raise UsageError("--since and --record are for a chart", hint="--chart FILE")
    code = 0
    if access.output == "text":
        from cobweb_plugins.pools._views import tell_history

        tell_history(access, resource)
    else:
        key = () if resource is None else (resource,)
        code = access.run("decisions", "pools", *key, "--history", "-o", access.output)
    if chart is not None:
        access.summary(f"wrote {chart}")
    return code


def _draw(access: SiteAccess, chart: Path, options: Mapping[str, Any]) -> None:
    """Write the chart of a history."""
    from cobweb_plugins.pools._answers import now_s
    from cobweb_plugins.pools._chart import check_place, write
    from cobweb_plugins.pools._history import load_of, picture_of, spans

    check_place(chart, options["record"])
    until_s, since, resource = now_s(), options["since"], options["resource"]
    history = [it for it in access.decision_history("pools") if resource in (None, it.key)]
    found = spans(history, until_s)
    start_s = min((it.start_s for it in found), default=until_s - 1)
    if since:
        start_s = until_s - _seconds("since", since)
        found = [it for it in found if it.end_s > start_s]
    load = load_of(options["record"]) if options["record"] else {}
    write(chart, picture_of(found, load, start_s, until_s))


@_command("why", "why n03", "why batch")
@click.argument("name", metavar="RESOURCE|SERVICE")
@click.pass_context
def why_command(context: click.Context, *, name: str) -> None:
    """Say whose a resource is and why, or how a service is.

    All services are asked, and what a round of decisions would say of it now is
    shown; nothing of that is decided.
    """
    from cobweb_plugins.pools._views import (
        comparison,
        pool_data,
        tell_resources,
        tell_services,
    )

    desk = _desk(context)
    access, is_service = desk.access, name in desk.pools.services
    id_ = "" if is_service else desk.resource(name).id
    answers = desk.ask(desk.pools.services)
    data = pool_data(desk, answers, only=[id_] if id_ else ())
    data["services"] = [it for it in data["services"] if it["name"] == name]
    data["why"] = comparison(desk, answers, name)
    if access.data(data):
        return
    tell_services(access, data)
    tell_resources(access, data)
    for found in data["resources"]:
        _tell_resource(desk, found)
    for found in data["services"]:
        access.line(f"members: {', '.join(found['members']) or 'none'}")
    for usage in data["why"]["usages"]:
        access.line(f"usage of {usage['resource']} in {usage['service']}: {usage['usage']:g}")
    for note in data["why"]["notes"]:
        access.line(f"{note['kind']}: {note['subject']}: {note['text']}")


def _tell_resource(desk: Desk, found: Mapping[str, Any]) -> None:
    """Write what is decided of a resource, what its objects are like, and what to do."""
    from cobweb_plugins.pools._moves import FOR_EVER_S
    from cobweb_plugins.pools._views import moment, told

    access, id_ = desk.access, found["id"]
    decision = desk.decisions.by_key.get(id_)
    said = told(decision) if decision else f"nothing is decided of {id_}: it is nobody's"
    access.line(said)
    if found["reason"] not in said:
        access.line(found["reason"])
    if held_s := found["held_until"]:
        until = "it is released" if held_s >= FOR_EVER_S else moment(held_s)
        access.line(f"held until {until}: no need takes it away")
    for cob, state in found["objects"].items():
        access.line(f"object {cob}: {state}")
    if cause := desk.cause(found["objects"]) if found["objects"] else "":
        access.line(f"the last run said: {cause}", Tone.BAD)
    if found["state"] == "error":
        access.line(f"next, once its cause is mended: `cobweb pool reset {id_}`, or --to S")


def _desk(context: click.Context) -> Desk:
    from cobweb_plugins.pools._desk import Desk

    return Desk(site_access(context))


# --- moves


def _act(name: str, *examples: str, drains: bool = False) -> Callable[[_F], Any]:
    """Make a command of a function that returns a question to the user, and what to do then."""

    def decorate(function: _F) -> Any:
        def command(yes: bool, wait: str | None, reason: str, **options: Any) -> int:  # noqa: FBT001 - click gives them by name
            from cobweb_plugins.pools._moves import Mover
            from cobweb_plugins.pools._views import pool_data

            desk = _desk(click.get_current_context())
            drain = options.pop("drain", None)
            mover = Mover(
                desk=desk,
                reason=reason,
                wait=wait,
                drain_s=_seconds("drain", drain) if drain else 0.0,
                held_until_s=_until(options.pop("held")) if "held" in options else None,
            )
            question, act = function(mover, **options)
            if not yes:
                desk.access.refuse_unasked()
                click.confirm(question, abort=True, err=True)
            code = int(act())
            if desk.access.output == "text":
                return code
            desk.forget()
            service = options.get("service") if "resource" not in options else None
            shown = desk.members(service) if service else [options["resource"]]
            data = pool_data(desk, {}, only=shown)
            data["services"] = [it for it in data["services"] if it["name"] == service]
            desk.access.data(data)
            return code

        command.__doc__ = function.__doc__
        params = getattr(function, "__click_params__", [])
        command.__click_params__ = list(params)  # type: ignore[attr-defined]
        made: Any = command
        if drains:
            text = "Wait so long for its jobs to end; default: not at all."
            made = click.option("--drain", metavar="DURATION", help=text)(made)
        text = "Why: kept with what is decided."
        made = click.option("--reason", metavar="TEXT", default=f"pool {name}", help=text)(made)
        text = "Wait so long for a site that another run holds."
        made = click.option("--wait", metavar="DURATION", help=text)(made)
        made = click.option("-y", "--yes", is_flag=True, help="Ask no question.")(made)
        return _command(name, *examples)(made)

    return decorate


_resource = click.argument("resource")
_service = click.argument("service")
Act = tuple[str, Callable[[], int]]


@_act("move", "move n03 hpc", "move n03 hpc --drain 1h --for 2h --yes", drains=True)
@_resource
@_service
@click.option("--for", "held", metavar="DURATION", help="Keep it there so long; default: for good.")
def _move(mover: Mover, resource: str, service: str) -> Act:
    """Move a resource to a service, once it is idle where it is.

    It gets no new work from now on. While it is busy it stays, the exit code
    is 2, and the same command goes on later. No need takes it away until
    `pool release`, or for the time of --for.
    """
    mover.desk.service(service)
    return f"Move {resource} to {service}?", lambda: mover.move(resource, service)


@_act("add", "add n03 batch")
@_resource
@_service
def _add(mover: Mover, resource: str, service: str) -> Act:
    """Give a resource that is nobody's to a service."""
    holding = mover.desk.book(mover.desk.resource(resource).id).holding
    if holding and holding.service != mover.desk.service(service).name:
        hint = f"`cobweb pool move {resource} {service}` takes it from there"
        raise UsageError(f"{resource} is in the service `{holding.service}`", hint=hint)
    return f"Add {resource} to {service}?", lambda: mover.move(resource, service)


@_act("remove", "remove n03", "remove n03 --drain 10m", drains=True)
@_resource
def _remove(mover: Mover, resource: str) -> Act:
    """Take a resource out of its service, to nobody."""
    return f"Remove {resource}?", lambda: mover.move(resource, None)


@_act("reset", "reset n03", "reset n03 --to batch")
@_resource
@click.option("--to", "service", metavar="S", help="The service that it is in.")
def _reset(mover: Mover, resource: str, service: str | None) -> Act:
    """Take a resource back that has failed, or say whose it is."""
    return f"Reset {resource}?", lambda: mover.reset(resource, service)


@_act("adopt", "adopt batch")
@_service
def _adopt(mover: Mover, service: str) -> Act:
    """Take as decided what a service says that it has."""
    return f"Adopt what {service} has?", lambda: mover.adopt(service)


@_act("lost", "lost n03 --reason 'it burnt'")
@_resource
def _lost(mover: Mover, resource: str) -> Act:
    """Give a resource up with its host: you vouch that it is dead.

    Its jobs are those of its service to run again; nothing waits for the host.
    """
    return f"Is {resource} dead, and to be given up?", lambda: mover.give_up(resource)


@_act("release", "release n03")
@_resource
def _release(mover: Mover, resource: str) -> Act:
    """Let needs take a resource again that was moved by hand."""
    return f"Release {resource}?", lambda: mover.release(resource)


@_act("start", "start batch")
@_service
def _start(mover: Mover, service: str) -> Act:
    """Have a service take part again."""
    return f"Start {service}?", lambda: mover.start(service)


@_act("stop", "stop batch", "stop batch --free-resources --drain 1h", drains=True)
@_service
@click.option("--free-resources", is_flag=True, help="Its members leave it, to a spare pool.")
def _stop(mover: Mover, service: str, *, free_resources: bool) -> Act:
    """Have a service take no part.

    Nothing is taken from it or given to it. Its members stay, or go to a spare
    pool with --free-resources.
    """
    return f"Stop {service}?", lambda: mover.stop(service, frees=free_resources)


def _until(text: str | None) -> float:
    """Return until when what is moved by hand is held."""
    from cobweb_plugins.pools._answers import now_s
    from cobweb_plugins.pools._moves import FOR_EVER_S

    return FOR_EVER_S if text is None else now_s() + _seconds("for", text)


def _seconds(option: str, text: str) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise UsageError(f"--{option} {text} {error}", hint="as in `10m`") from error


def commands() -> Sequence[click.Command]:
    """Return the group with all its commands."""
    return [pool]
