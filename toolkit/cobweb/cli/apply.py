"""`cobweb apply`: bring the site to its desired state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._foreign_json import read_bounded
from cobweb._tables import Tone
from cobweb.cli._access import tell_notes
from cobweb.cli._analysis import check_all
from cobweb.cli._applying import (
    adopting,
    as_it_is_now,
    carry_out,
    ends_in_data,
    go_back,
    orders_of,
    run_options,
)
from cobweb.cli._observers import tell_observers
from cobweb.cli._options import (
    examples,
    limit_option,
    only_option,
    refuse_two_parts,
    renew_option,
    site_request,
)
from cobweb.cli._output import Output
from cobweb.cli._parameters import REVISION
from cobweb.cli._request import Format, Request
from cobweb.cli._running import result_data, tell_result
from cobweb.cli._session import open_site
from cobweb.errors import CobwebError, PlanError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.operations import Desired, Exceptions, Orders, PlanFile, RunResult


@click.command(
    "apply",
    epilog=examples(
        "cobweb apply", "cobweb apply --yes --events events.jsonl", "cobweb apply my.plan"
    ),
)
@click.argument("plan", required=False, type=click.Path(dir_okay=False, path_type=Path))
@limit_option
@only_option
@renew_option
@click.option(
    "--replan",
    is_flag=True,
    help="Where checks find what the plan did not know, go on with a new plan.",
)
@click.option(
    "--while",
    "remembered",
    metavar="SECTION=REVISION",
    type=REVISION,
    help="Begin only while what a plugin remembers of a section is at this revision.",
)
@click.option("--new-canary", is_flag=True, help="Choose anew who goes first, after a failure.")
@run_options
@site_request()
@ends_in_data
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    /,
    *,
    plan: Path | None,
    limit: str | None,
    replan: bool,
    remembered: tuple[str, int] | None,
    events: str | None,
    wait: float | None,
    yes: bool,
    **options: Any,
) -> int:
    """Bring the site to its desired state.

    On a terminal the plan is shown first and a question asked, unless --yes is
    given; without a terminal a change takes --yes or a saved plan. Interrupt
    once to let what runs come to its end, twice to stop it.
    A saved PLAN is refused if the site or the states have changed since.
    """
    saved = _read(plan) if plan else None
    limit = _limit(saved, limit, options, replan=replan)
    if saved is not None and options["refresh"] == "changed":
        options["refresh"] = saved.refresh
    orders = orders_of(request, options)
    output = Output.of(request)
    at = saved.decisions if saved else None
    with open_site(request, runs_tasks=True, decisions=at) as session:
        orders = adopting(session, orders, options["adopt"])
        tell_notes(session, output)
        check_all(session, limit)
        if saved is not None:
            within = _exceptions(saved, orders)
            orders = replace(orders, may_go_out=saved.goes_out, exceptions=within)
        carried_out = partial(
            carry_out,
            session,
            output,
            wanted=partial(as_it_is_now, session, limit),
            command="apply",
            events=events,
            wait_s=wait,
        )
        result = carried_out(
            orders=orders,
            check=partial(_refuse_stale, session, saved, remembered),
            ask=not (yes or plan),
        )
        while replan and result is not None and result.has_unplanned:
            tell_result(output, result)
            result = carried_out(orders=replace(orders, may_go_out=None), append=True, ask=not yes)
        if result is None:
            return 0
        if options["on_failure"] == "rollback" and str(result.ending) in ("failed", "stuck"):
            _roll_back(session, output, orders, result, events=events, wait_s=wait)
        else:
            tell_result(output, result)
    return result.exit_code


def _limit(
    saved: PlanFile | None, limit: str | None, options: Mapping[str, Any], *, replan: bool
) -> str | None:
    """Return the limit of the plan or of the command; UsageError for what does not go together."""
    if saved is not None and limit is not None and limit != saved.limit:
        raise UsageError("--limit is part of the plan", hint="leave it out")
    limit = saved.limit if saved else limit
    only = options["only"] or (saved.only if saved else ())
    refuse_two_parts(limit, only, rolls_back=options["on_failure"] == "rollback")
    if replan and (options["renew"] or (saved and saved.renew)):
        raise UsageError("--replan and --renew do not go together", hint="it would be done twice")
    return limit


def _exceptions(saved: PlanFile, orders: Orders) -> Exceptions:
    """Return the exceptions that a plan was made with; UsageError for others."""
    it = orders.exceptions
    for option, asked, planned in (
        ("--budget", it.budgets, saved.budgets),
        ("--only", it.only, saved.only),
        ("--renew", it.renew, saved.renew),
    ):
        if asked and asked != planned:
            raise UsageError(f"{option} is part of the plan", hint="leave it out")
    return replace(it, budgets=saved.budgets, only=saved.only, renew=saved.renew)


def _roll_back(  # noqa: PLR0913  # as `go_back`
    session: Site,
    output: Output,
    orders: Orders,
    failed: RunResult,
    *,
    events: str | None,
    wait_s: float | None,
) -> None:
    """Tell of a failed run, and go back to the last generation that was reached."""
    people, result = replace(output, format=Format.TEXT), None
    tell_result(people, failed)
    try:
        generation = operations.to_go_back_to(session.store(create=True), after_failure=True)
        output.summary(f"going back to generation {generation}", Tone.CAREFUL)
        message = f"rollback to {generation} after a failure"
        once = replace(orders.exceptions, renew=frozenset())
        orders = replace(orders, message=message, max_removals=None, exceptions=once)
        result = go_back(
            session,
            people,
            orders,
            generation,
            events=events,
            wait_s=wait_s,
            append=True,
            ask=False,
        )
    except CobwebError as error:
        output.summary(f"not going back: {error}", Tone.BAD)
    data = {**result_data(failed), "rollback": None if result is None else result_data(result)}
    tell_observers(data)
    output.data(data)


def _refuse_stale(
    session: Site, saved: PlanFile | None, remembered: tuple[str, int] | None, desired: Desired
) -> None:
    if remembered is not None and session.memory(remembered[0]).revision != remembered[1]:
        hint = "who has planned this looks again"
        raise PlanError(f"`{remembered[0]}` remembers another thing by now", hint=hint)
    if saved is not None:
        operations.refuse_stale(saved, desired, session.store(create=True))


def _read(path: Path) -> PlanFile:
    try:
        return operations.read_plan(read_bounded(path, operations.MAX_PLAN_BYTES), str(path))
    except FileNotFoundError as error:
        hint = "`cobweb plan --out` saves one"
        raise UsageError(f"there is no plan {path}", hint=hint) from error
    except OSError as error:
        raise PlanError(f"cannot read the plan {path}: {error.strerror or error}") from error
