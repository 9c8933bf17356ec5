"""What `apply` and `rollback` share: to bring about what is wanted, under the site lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from cobweb import operations
from cobweb.cli._analysis import check_all
from cobweb.cli._complete import complete_host
from cobweb.cli._locking import locked_site
from cobweb.cli._observers import annotations_option, observe_option
from cobweb.cli._options import (
    budget_option,
    events_option,
    executor_option,
    max_failures_option,
    max_removals_option,
    max_unreachable_option,
    parallel_option,
    refresh_option,
    store_timeout_option,
    timeout_option,
    wait_option,
    yes_option,
)
from cobweb.cli._output import Output
from cobweb.cli._parameters import AGE
from cobweb.cli._request import Request
from cobweb.cli._running import (
    error_data,
    failure_bound,
    goals_of,
    listening,
    lost_bound,
    removal_bound,
    tell_result,
)
from cobweb.cli._streams import refuse_unasked
from cobweb.cli.plan import tell_plan
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.operations import Desired, Orders, Plan, RunResult


_F = TypeVar("_F", bound=Callable[..., Any])
_P = ParamSpec("_P")

_AGREE = "add --yes, or save a plan with `cobweb plan --out FILE` and apply that"
_AGREE_TO_GO_BACK = "add --yes"

_RUN_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option("-m", "--message", default="", help="Kept with the generation: why this is done."),
    click.option("--seed", type=int, default=0, help="Seed of the waits between attempts."),
    refresh_option,
    events_option,
    observe_option,
    executor_option,
    max_failures_option,
    max_removals_option,
    max_unreachable_option("40%"),
    parallel_option,
    timeout_option,
    store_timeout_option,
    wait_option,
    click.option(
        "--adopt",
        metavar="PATTERN",
        shell_complete=complete_host,
        help="Take these hosts over from other sites whose marks are on them.",
    ),
    click.option(
        "--allow-stuck",
        is_flag=True,
        help="Carry out the parts that come to an end, where others are known not to.",
    ),
    click.option(
        "--on-failure",
        type=click.Choice(["return", "stay", "rollback"]),
        default="return",
        show_default=True,
        help="What was stopped only for what then failed: start it again, leave it, or go back.",
    ),
    click.option(
        "--trust",
        type=AGE,
        metavar="AGE",
        default="60s",
        show_default=True,
        help="How old a check may be before something goes out under a limit.",
    ),
    budget_option,
    yes_option,
    annotations_option,
)


def run_options(function: _F) -> _F:
    """Add the options of a run that changes the site; `orders_of` takes most of them."""
    for add in reversed(_RUN_OPTIONS):
        function = add(function)
    return function


def orders_of(request: Request, options: Mapping[str, Any]) -> Orders:
    """Return the orders that the options of a run give; `refresh` may be one already."""
    return operations.Orders(
        executor=options["executor"] or "ansible",
        parallel=options["parallel"] or operations.DEFAULT_PARALLEL,
        timeout_s=options["timeout"] or operations.DEFAULT_TIMEOUT_S,
        refresh=operations.Refresh(options["refresh"]),
        max_failures=failure_bound(options["max_failures"]),
        max_unreachable=lost_bound(options["max_unreachable"]),
        max_removals=removal_bound(options["max_removals"]),
        deletes=request.deletes,
        seed=options["seed"],
        verbosity=request.verbosity,
        message=options["message"],
        allow_stuck=options["allow_stuck"],
        returns=options["on_failure"] != "stay",
        trust_s=options["trust"],
        store_timeout_s=options["store_timeout"],
        exceptions=operations.Exceptions(
            budgets=dict(options["budgets"]),
            new_canary=options.get("new_canary", False),
            only=frozenset(options.get("only", ())),
            renew=frozenset(options.get("renew", ())),
        ),
    )


def ends_in_data(
    function: Callable[Concatenate[Request, _P], int],
) -> Callable[Concatenate[Request, _P], int]:
    """Let a command of a run end in data, if asked for, also where it does not begin."""

    @wraps(function)
    def call(request: Request, /, *args: _P.args, **kwargs: _P.kwargs) -> int:
        try:
            return function(request, *args, **kwargs)
        except CobwebError as error:
            Output.of(request).data(error_data(error))
            raise

    return call


def adopting(session: Site, orders: Orders, pattern: str | None) -> Orders:
    """Return the orders with the hosts that `--adopt` selects; UsageError where that are none."""
    if pattern is None:
        return orders
    hosts = frozenset(session.evaluated.select(pattern))
    if not hosts:
        raise UsageError(f"--adopt {pattern} selects no host", hint="see `cobweb show`")
    return replace(orders, adopt=hosts)


def as_it_is_now(session: Site, limit: str | None) -> Desired:
    """Return what files and decisions say now, though they said another thing a while ago.

    SiteError where that is wrong.
    """
    if session.refresh():
        check_all(session, limit)
    return session.desired(limit)


def carry_out(  # noqa: PLR0913  # what was decided before the lock, and two switches
    session: Site,
    output: Output,
    orders: Orders,
    wanted: Callable[[], Desired],
    *,
    command: str,
    events: str | None,
    wait_s: float | None,
    append: bool = False,
    check: Callable[[Desired], None] = lambda _desired: None,
    ask: bool,
) -> RunResult | None:
    """Bring about what is `wanted` under the site lock; None where the user said no.

    What is wanted is asked for, and `check`ed, when the lock is held. With `append` the events
    follow those of an earlier run.
    """
    with locked_site(session, output, command, wait_s) as turn:
        desired = wanted()
        check(desired)
        if ask:
            plan = _agreed(session, output, desired, orders)
            if plan is None:
                return None
            orders = replace(orders, may_go_out=plan.goes_out)
        with listening(output, goals_of(desired), events, append=append) as caller:
            return turn.apply(desired, orders, caller)


def go_back(  # noqa: PLR0913  # as `carry_out`
    session: Site,
    output: Output,
    orders: Orders,
    generation: int,
    *,
    events: str | None,
    wait_s: float | None,
    append: bool = False,
    ask: bool,
) -> RunResult | None:
    """Make an earlier generation desired again and bring it about; None where the user said no."""
    orders = replace(orders, message=orders.message or f"rollback to {generation}")
    result = carry_out(
        session,
        output,
        orders,
        lambda: session.desired(generation=generation),
        command="rollback",
        events=events,
        wait_s=wait_s,
        append=append,
        ask=ask,
    )
    if result is not None:
        tell_result(output, result)
    return result


def _agreed(session: Site, output: Output, desired: Desired, orders: Orders) -> Plan | None:
    """Show the plan on a terminal and ask, where something is to be done; None for a no.

    UsageError where that is so and nobody can be asked.
    """
    with operations.signals_as_interrupt():
        plan = session.plan(
            desired,
            refresh=orders.refresh,
            max_removals=orders.max_removals,
            deletes=orders.deletes,
            exceptions=orders.exceptions,
        )
        if plan.is_empty and not plan.checks:
            return plan
        refuse_unasked(_AGREE if desired.kept is None else _AGREE_TO_GO_BACK)
        return plan if _confirmed(output, plan) else None


def _confirmed(output: Output, plan: Plan) -> bool:
    tell_plan(replace(output, aside=True), plan)
    if plan.refusals:
        return True  # by the run itself
    if click.confirm("Apply this plan?", default=False, err=True):
        return True
    output.summary("nothing was changed")
    return False
