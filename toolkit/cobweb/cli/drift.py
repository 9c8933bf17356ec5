"""`cobweb drift`: what somebody has changed by hand; nothing on a host is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cobweb import operations
from cobweb._tables import Cell, Column, Tone
from cobweb.cli._analysis import check_all
from cobweb.cli._changes import SIGNS, tone_of
from cobweb.cli._locking import locked_site
from cobweb.cli._observers import annotations_option, observe_option, tell_observers
from cobweb.cli._options import (
    events_option,
    examples,
    executor_option,
    limit_option,
    parallel_option,
    site_request,
    store_timeout_option,
    timeout_option,
    wait_option,
)
from cobweb.cli._output import Output
from cobweb.cli._render import write_table
from cobweb.cli._request import Request
from cobweb.cli._running import goals_of, listening
from cobweb.cli._session import open_site
from cobweb.cli._text import count, moment

if TYPE_CHECKING:
    from cobweb.operations import DriftResult

_DRIFTED = (
    Column(title="OBJECT", flexible=True),
    Column(title="WAS"),
    Column(title="IS"),
    Column(title="SINCE"),
)
_DOUBTFUL = (
    Column(title="OBJECT", flexible=True),
    Column(title="IN DOUBT", flexible=True),
    Column(title="IS"),
)
_SHOWN = 20
"""How many pending changes, or objects that were not checked, are told of; JSON has all."""


@click.command(
    "drift",
    epilog=examples(
        "cobweb drift", "cobweb drift --limit app -o json", "cobweb drift --events drift.jsonl"
    ),
)
@events_option
@observe_option
@executor_option
@limit_option
@parallel_option
@timeout_option
@store_timeout_option
@wait_option
@annotations_option
@site_request()
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    events: str | None,
    executor: str | None,
    limit: str | None,
    parallel: int | None,
    timeout: float | None,
    store_timeout: float,
    wait: float | None,
) -> int:
    """Find what was changed by hand.

    Every object is checked against what was applied last; nothing on a host is
    changed. What has drifted is noted, so that the next apply repairs it.
    Exits with 2 where something has drifted.
    """
    orders = operations.Orders(
        executor=executor or "ansible",
        parallel=parallel or operations.DEFAULT_PARALLEL,
        timeout_s=timeout or operations.DEFAULT_TIMEOUT_S,
        verbosity=request.verbosity,
        store_timeout_s=store_timeout,
    )
    output = Output.of(request)
    with open_site(request, runs_tasks=True) as session:
        check_all(session, limit)
        with locked_site(session, output, "drift", wait) as turn:
            desired = session.desired(limit)
            with listening(output, goals_of(desired), events) as caller:
                result = turn.drift(desired, orders, caller)
        data = operations.drift_data(result)
        tell_observers(data)
        if not output.data(data):
            _tell(output, result)
        _sum_up(output, result)
    return result.exit_code


def _tell(output: Output, result: DriftResult) -> None:
    """Write what was found, each kind for itself, with a line between them."""
    parts = (
        (result.drifted, _tell_drifted),
        (result.doubtful, _tell_doubtful),
        (result.unchecked, _tell_unchecked),
        (result.pending, _tell_pending),
    )
    for number, tell in enumerate(tell for found, tell in parts if found):
        if number:
            output.line()
        tell(output, result)


def _tell_drifted(output: Output, result: DriftResult) -> None:
    rows = [
        (it.cob, it.was, Cell(text=it.state, tone=Tone.BAD), moment(it.since))
        for it in result.drifted
    ]
    write_table(output, _DRIFTED, rows)
    said = [(f"{it.cob}: {it.message}", Tone.NONE) for it in result.drifted if it.message]
    _tell_some(output, said)


def _tell_doubtful(output: Output, result: DriftResult) -> None:
    write_table(output, _DOUBTFUL, [(it.cob, it.why, it.state) for it in result.doubtful])


def _tell_unchecked(output: Output, result: DriftResult) -> None:
    """Tell of lost hosts by host, of all else by object."""
    from cobweb.model import host_of

    on_host = Counter(host_of(it.cob) for it in result.unchecked)
    others = [it for it in result.unchecked if host_of(it.cob) not in result.unreachable]
    lines = [f"not checked: {it.cob}: {it.message}" for it in others]
    for host, said in result.unreachable.items():
        objects = count(on_host[host], "object")
        lines.append(f"host {host} cannot be reached, {objects} not checked: {said}")
    _tell_some(output, [(line, Tone.BAD) for line in lines])


def _tell_pending(output: Output, result: DriftResult) -> None:
    output.line("pending changes, which the next apply makes:", Tone.HEAD)
    lines = [f"{SIGNS[it.kind]} {it.cob}" for it in result.pending]
    _tell_some(output, [(line, tone_of(line)) for line in lines])


def _tell_some(output: Output, lines: Sequence[tuple[str, Tone]]) -> None:
    for line, tone in lines[:_SHOWN]:
        output.wrapped(line, tone)
    if len(lines) > _SHOWN:
        output.line(f"... and {len(lines) - _SHOWN} more (-o json has all)")


def _sum_up(output: Output, result: DriftResult) -> None:
    """Write the last lines for people, on standard error."""
    for line in result.in_flight:
        output.summary(f"stopped in the middle: {line}", Tone.CAREFUL)
    for notice in result.notices:
        output.note(notice)
    counts = result.counts
    words = {
        "pending": "pending",
        "doubtful": "in doubt",
        "unchecked": "not checked",
        "ignored": "ignored",
    }
    rest = [f"{counts[name]} {word}" for name, word in words.items() if counts[name]]
    done = f"({count(counts['checks'], 'check')}, {result.seconds:.1f} s)"
    told = f"{_verdict(result)} {done}"
    tone = Tone.GOOD if result.exit_code == 0 else Tone.BAD
    output.summary("; ".join([told, ", ".join(rest)]) if rest else told, tone)


def _verdict(result: DriftResult) -> str:
    counts = result.counts
    found = f"{counts['drifted']} of {count(counts['cobs'], 'object')} drifted"
    if str(result.ending) == "interrupted":
        return f"interrupted: {found} as far as is known"
    return found if counts["drifted"] else "no drift"
