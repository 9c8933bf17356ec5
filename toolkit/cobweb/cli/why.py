"""`cobweb why`: the chain of what an object waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Tone
from cobweb.cli._access import reasons_of
from cobweb.cli._options import examples, reference_argument, site_request
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._session import open_site

if TYPE_CHECKING:
    from cobweb.operations import Reason


@click.command(
    "why",
    epilog=examples(
        "cobweb why app01/app",
        "cobweb why app01/app -o json",
        "cobweb why app01/app --run 20260801-093012-4f1c",
    ),
)
@reference_argument()
@click.option("--run", metavar="RUN", help="As it was at the end of this run (see `cobweb runs`).")
@site_request()
def command(request: Request, reference: str, run: str | None) -> int:
    """Say what an object waits for.

    The chain leads from the object to the cause: a failure, a host that cannot
    be reached, or a circle.
    """
    from cobweb.operations import why, why_in_run

    output, notes = Output.of(request), list[str]()
    with open_site(request) as session:
        if run is None:
            reason = why(session.evaluated, session.store(), reference)
            notes = reasons_of(session, reason.cob)
        else:
            reason = why_in_run(session.history(), session.run(run), reference)
    if not output.data(_data(reason, notes)):
        _tell(output, reason, past=run is not None)
        for note in notes:
            output.line(note)
    return 0


def _data(reason: Reason, notes: list[str]) -> dict[str, Any]:
    return {
        "format": 1,
        "cob": reason.cob,
        "state": reason.state,
        "preferred": reason.preferred,
        "removed": reason.removed,
        "source": reason.source,
        "run": reason.run,
        "message": reason.message,
        "chain": [dict(link) for link in reason.chain],
        "notes": notes,
    }


def _tell(output: Output, reason: Reason, *, past: bool) -> None:
    from cobweb.model import host_of
    from cobweb.operations import chain_lines, given_up_text

    if past and reason.source == "settled":
        output.line(f"{reason.cob} was {reason.state} when run {reason.run} ended", Tone.GOOD)
        return
    if reason.source == "settled":
        output.line(f"{reason.cob} is {reason.state}, as wanted: it waits for nothing", Tone.GOOD)
        if reason.given_up:
            host = host_of(reason.cob)
            output.line(f"host {host} is {given_up_text(host)}", Tone.CAREFUL)
        return
    state = f"not known ({reason.doubt})" if reason.doubt else reason.state
    wanted = "and is to be removed" if reason.removed else f"and should be {reason.preferred}"
    if reason.changed and state == reason.preferred:
        wanted = "with an earlier content and is to be changed"
    output.line(f"{reason.cob} is {state} {wanted}")
    messages = {link["cob"]: link["message"] for link in reason.chain if "message" in link}
    for line in chain_lines(reason.as_wait(), messages):
        output.line(f"  {line}")
    if reason.source == "run":
        output.summary(f"as run {reason.run} ended")
    else:
        output.summary("worked out from what the journal knows now")
