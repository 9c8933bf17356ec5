"""`cobweb lock`: who holds the site, a hold for maintenance, and the end of a dead lock."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import click

from cobweb._clock import wall_clock
from cobweb._tables import Tone
from cobweb.cli._locking import patience_of
from cobweb.cli._options import examples, site_options, site_request, wait_option, yes_option
from cobweb.cli._output import Output
from cobweb.cli._parameters import DURATION
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._streams import refuse_unasked
from cobweb.errors import UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.store import LockOwner, SiteLock


@click.group(
    "lock",
    epilog=examples(
        "cobweb lock show",
        "cobweb lock hold --for 10m --reason 'disk swap'",
        "cobweb lock break hold-20260101-120000-1a2b --yes",
    ),
)
@site_options
def command() -> None:
    """Show, hold or break the lock of the site.

    One run at a time holds a site; another gets exit code 5. A lock never ends
    by time alone, but a run whose process is known to be dead is taken over.
    """


@command.command("show", epilog=examples("cobweb lock show", "cobweb lock show -o json"))
@site_request()
def show(request: Request) -> None:
    """Show who holds the site."""
    output = Output.of(request)
    with open_site(request) as session:
        lock = _site_lock(session, create=False)
        owner = lock.show()
        doubt = lock.doubt(owner)
    if output.data({"format": 1, "lock": owner and owner_data(owner)}):
        return
    if owner is None:
        output.line("the site is not locked", Tone.GOOD)
    else:
        output.line(f"the site is locked by {owner.line(wall_clock())}", Tone.CAREFUL)
        if doubt:
            output.line(doubt, Tone.CAREFUL)


@command.command("hold", epilog=examples("cobweb lock hold --for 10m --reason 'disk swap'"))
@click.option(
    "--for",
    "for_s",
    metavar="DURATION",
    type=DURATION,
    required=True,
    help="How long: 90s, 10m, 1h30m, 2d.",
)
@click.option("--reason", default="held by hand", show_default=True, help="Why; others see it.")
@wait_option
@site_request()
def hold(request: Request, for_s: float, reason: str, wait: float | None) -> None:
    """Keep all runs off the site for a while.

    No process is needed to hold it. `cobweb lock break ID` ends a hold early.
    """
    from cobweb.store import this_process

    output = Output.of(request)
    since = wall_clock()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(since))
    name = f"hold-{stamp}-{secrets.token_hex(2)}"
    with open_site(request) as session:
        lock = _site_lock(session, create=True)
        owner, notices = lock.hold(
            this_process(run=name, reason=reason, since=since),
            for_s=for_s,
            patience=patience_of(output, wait),
        )
    for notice in notices:
        output.note(notice)
    if not output.data({"format": 1, "lock": owner_data(owner)}):
        output.line(owner.run)
    output.summary(f"locked: {owner.line(wall_clock())}; `cobweb lock break {owner.run}` ends it")


@command.command("break", epilog=examples("cobweb lock break hold-20260101-120000-1a2b --yes"))
@click.argument("name", metavar="ID")
@yes_option
@site_request()
def break_(request: Request, *, name: str, yes: bool) -> None:
    """End the lock of the run or hold ID, which `lock show` tells.

    A run that is still alive fails at its next write. On a terminal a question
    is asked first; without one --yes is needed.
    """
    output = Output.of(request)
    with open_site(request) as session:
        lock = _site_lock(session, create=False)
        owner = lock.show()
        if owner is None:
            raise UsageError("the site is not locked")
        if owner.run == name:
            if alive := lock.why_alive(owner):
                ends = "what it has at work on hosts goes on until the next run ends it"
                output.summary(f"{alive}: {ends}", Tone.CAREFUL)
            if not (yes or _confirmed(owner)):
                output.summary("nothing was changed")
                return
        lock = _site_lock(session, create=True)
        broken = lock.break_lock(name)
    if not output.data({"format": 1, "lock": owner_data(broken)}):
        output.summary(f"broken: the lock of {broken.line(wall_clock())}", Tone.CAREFUL)


def owner_data(owner: LockOwner) -> dict[str, Any]:
    """Return the holder of a lock as plain data; times are seconds since the epoch."""
    return {
        "id": owner.run,
        "user": owner.user,
        "host": owner.host,
        "pid": owner.pid,
        "reason": owner.reason,
        "since": owner.since,
        "heartbeat": owner.heartbeat,
        "until": owner.until,
    }


def _site_lock(session: Site, *, create: bool) -> SiteLock:
    return session.history(create=create).site_lock(clock=wall_clock)


def _confirmed(owner: LockOwner) -> bool:
    refuse_unasked()
    return click.confirm(f"Break the lock of {owner.line(wall_clock())}?", default=False, err=True)
