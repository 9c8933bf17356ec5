"""`cobweb restart`: have objects leave and come back, and change nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from cobweb import operations
from cobweb.cli._analysis import check_all
from cobweb.cli._applying import (
    adopting,
    as_it_is_now,
    carry_out,
    ends_in_data,
    orders_of,
    run_options,
)
from cobweb.cli._complete import complete_reference
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._running import tell_result
from cobweb.cli._session import open_site
from cobweb.errors import UsageError


@click.command("restart", epilog=examples("cobweb restart app01/app", "cobweb restart db01/db -y"))
@click.argument(
    "cobs", metavar="REF...", nargs=-1, required=True, shell_complete=complete_reference
)
@run_options
@site_request()
@ends_in_data
def command(  # one parameter per option of section 7
    request: Request,
    /,
    *,
    cobs: tuple[str, ...],
    events: str | None,
    wait: float | None,
    yes: bool,
    **options: Any,
) -> int:
    """Have objects leave and come back, under their needs and limits.

    What has to step aside for that comes back, too; nothing else is moved. An
    object of which a change is pending is refused. On a terminal the plan is
    shown first and a question asked, unless --yes is given; without one --yes
    is needed.
    """
    from cobweb.model import CobId

    if options["on_failure"] == "rollback":
        hint = "leave --on-failure out"
        raise UsageError("after a restart there is nothing to go back to", hint=hint)
    output, refs = Output.of(request), frozenset(map(CobId, cobs))
    orders = orders_of(request, {**options, "only": cobs, "renew": cobs})
    with open_site(request, runs_tasks=True) as session:
        check_all(session, None)
        result = carry_out(
            session,
            output,
            adopting(session, orders, options["adopt"]),
            partial(as_it_is_now, session, None),
            command="restart",
            events=events,
            wait_s=wait,
            check=lambda it: operations.refuse_pending(it, session.store(create=True), refs),
            ask=not yes,
        )
        if result is None:
            return 0
        tell_result(output, result)
    return result.exit_code
