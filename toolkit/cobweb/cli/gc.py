"""`cobweb gc`: delete the history that nothing needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from cobweb import operations
from cobweb.cli._locking import locked_site
from cobweb.cli._options import examples, site_request, wait_option
from cobweb.cli._output import Output
from cobweb.cli._parameters import DURATION
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count, day

if TYPE_CHECKING:
    from cobweb.operations import Garbage

_NUMBER = click.IntRange(1, 100_000)


@click.command(
    "gc",
    epilog=examples(
        "cobweb gc --dry-run", "cobweb gc --keep-runs 200 --older 90d", "cobweb gc -o json"
    ),
)
@click.option(
    "--keep-generations",
    metavar="N",
    type=_NUMBER,
    default=10,
    show_default=True,
    help="Keep the newest N generations.",
)
@click.option(
    "--keep-runs",
    metavar="N",
    type=_NUMBER,
    default=50,
    show_default=True,
    help="Keep the newest N runs.",
)
@click.option(
    "--older",
    metavar="DURATION",
    type=DURATION,
    help="Delete only what is older than this: 30d, 12h.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@wait_option
@site_request()
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    keep_generations: int,
    keep_runs: int,
    older: float | None,
    dry_run: bool,
    wait: float | None,
) -> int:
    """Delete old generations, and old runs with their events.

    What is known of objects, hosts and budgets stays, and so does the history
    that something refers to: what a host is in, what an object of the journal
    needs, what one would go back to, the last run, and runs without an end.
    """
    retention = operations.Retention(generations=keep_generations, runs=keep_runs, older_s=older)
    output = Output.of(request)
    with open_site(request) as session:
        store = session.history()
        if dry_run or not (store.runs(1) or store.generations()):  # then no database is made
            garbage = session.gc(retention, dry_run=True)
        else:
            store = session.history(create=True)
            with locked_site(session, output, "gc", wait, store) as turn:
                garbage = turn.gc(retention)
    data = {
        "format": 1,
        "dry_run": dry_run,
        "generations": [info.id for info in garbage.generations],
        "runs": [run.info.id for run in garbage.runs],
    }
    if not output.data(data):
        done = "to be deleted" if dry_run else "deleted"
        for line in _lines(garbage):
            output.line(f"{done}: {line}")
        runs, generations = len(garbage.runs), len(garbage.generations)
        output.summary(f"{count(generations, 'generation')} and {count(runs, 'run')} {done}")
    return 0


def _lines(garbage: Garbage) -> Iterator[str]:
    """Yield a line for each generation, and one for all runs, which are many."""
    for info in garbage.generations:
        yield f"generation {info.id} of {day(info.time)} ({info.author})"
    if garbage.runs:
        newest, oldest = garbage.runs[0].info.id, garbage.runs[-1].info.id
        number = count(len(garbage.runs), "run")
        yield f"{number}, {oldest}" + (f" to {newest}" if newest != oldest else "")
