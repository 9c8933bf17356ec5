"""`cobweb rollback`: make an earlier generation desired again, and bring it about."""

from __future__ import annotations

from typing import Any

import click

from cobweb import operations
from cobweb.cli._applying import adopting, ends_in_data, go_back, orders_of, run_options
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output
from cobweb.cli._parameters import GENERATION
from cobweb.cli._request import Request
from cobweb.cli._session import open_site


@click.command("rollback", epilog=examples("cobweb rollback", "cobweb rollback 3 --yes"))
@click.argument("generation", metavar="[GENERATION]", required=False, type=GENERATION)
@run_options
@site_request()
@ends_in_data
def command(  # one parameter per option of section 7
    request: Request,
    /,
    *,
    generation: int | None,
    events: str | None,
    wait: float | None,
    yes: bool,
    **options: Any,
) -> int:
    """Go back to an earlier generation (default: the last one reached).

    Its content becomes a new generation, which is brought about as by apply: on
    a terminal the plan is shown first and a question asked, unless --yes is
    given; without one --yes is needed. The files of the site stay as they are:
    mend them before the next apply.
    """
    output = Output.of(request)
    orders = orders_of(request, options)
    with open_site(request, runs_tasks=True) as session:
        orders = adopting(session, orders, options["adopt"])
        chosen = operations.to_go_back_to(session.store(), generation)
        is_back = operations.takes_rollback_back(session.store(), chosen)
        again = ": this takes the rollback back" if is_back else ""
        output.summary(f"going back to generation {chosen}{again}")
        result = go_back(session, output, orders, chosen, events=events, wait_s=wait, ask=not yes)
    return 0 if result is None else result.exit_code
