"""What `apply` and `rollback` share: to bring about what is wanted, under the site lock."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cobweb._clock import wall_clock
from cobweb.cli._output import Output, Tone
from cobweb.cli._running import goals_of, listeners
from cobweb.cli._session import Session
from cobweb.cli.plan import tell_plan

if TYPE_CHECKING:
    from cobweb.runtime import Desired, Orders, Plan, RunResult
    from cobweb.store import LockOwner, RunInfo

__all__ = ["carry_out"]


def carry_out(  # noqa: PLR0913  # what was decided before the lock, and two switches
    session: Session,
    output: Output,
    orders: Orders,
    wanted: Callable[[], Desired],
    *,
    command: str,
    events: str | None,
    check: Callable[[Desired], None] = lambda _desired: None,
    ask: bool,
) -> RunResult | None:
    """Bring about what is `wanted` under the site lock; None where the user said no.

    What is wanted is asked for, and `check`ed, when the lock is held.
    """
    from cobweb.runtime import Caller, Interrupts, apply_site, handle_signals

    plugins, store = session.plugins, session.store(create=True)
    info, owner = this_run(command)
    with store.site_lock(clock=wall_clock).acquire(owner) as lock:
        for notice in lock.notices:
            output.summary(f"note: {notice}", Tone.CAREFUL)
        desired = wanted()
        check(desired)
        if ask and not _agreed(session, output, desired, orders):
            return None
        interrupts = Interrupts()
        with listeners(output, goals_of(desired), events) as heard, handle_signals(interrupts):
            caller = Caller(
                sinks=heard.sinks, interrupts=interrupts, beat=lock.heartbeat, say=heard.say
            )
            return apply_site(desired, plugins, store, orders, caller, info=info)


def _agreed(session: Session, output: Output, desired: Desired, orders: Orders) -> bool:
    """Show the plan on a terminal and ask; without one nobody is asked."""
    from cobweb.runtime import plan_site, signals_as_interrupt

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    with signals_as_interrupt():
        store = session.store(create=True)
        plan = plan_site(desired, session.plugins, store, refresh=orders.refresh)
        return (plan.is_empty and not plan.checks) or _confirmed(output, plan)


def this_run(command: str) -> tuple[RunInfo, LockOwner]:
    """Return this process as a new run and as the owner of the site lock."""
    from cobweb.store import RunInfo, this_process

    now = wall_clock()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    run = f"{stamp}-{secrets.token_hex(2)}"
    owner = this_process(run=run, reason=command, since=now)
    info = RunInfo(
        id=run, command=command, started=now, user=owner.user, host=owner.host, pid=owner.pid
    )
    return info, owner


def _confirmed(output: Output, plan: Plan) -> bool:
    tell_plan(replace(output, aside=True), plan)
    if click.confirm("Apply this plan?", default=False, err=True):
        return True
    output.summary("nothing was changed")
    return False
