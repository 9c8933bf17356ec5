"""`cobweb runs`: the runs that the state database knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cobweb._tables import Cell, Column, Tone
from cobweb.cli._options import examples, last_option, site_request
from cobweb.cli._output import Output
from cobweb.cli._plain_data import run_data
from cobweb.cli._render import write_table
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count, moment

_COLUMNS = (
    Column(title="RUN"),
    Column(title="BEGAN"),
    Column(title="TOOK", right=True),
    Column(title="WHO", flexible=True),
    Column(title="COMMAND", flexible=True),
    Column(title="GEN", right=True),
    Column(title="RESULT", flexible=True),
)
_NO_END = "no end"


@click.command(
    "runs", epilog=examples("cobweb runs", "cobweb runs --last 100", "cobweb runs -o json")
)
@last_option("runs")
@site_request()
def command(request: Request, last: int) -> int:
    """List the runs of the site, the newest first.

    `cobweb report RUN` tells more of one. Simulations are not kept.
    """
    output = Output.of(request)
    with open_site(request) as session:
        store = session.history()
        label, deleted = store.label, store.newest_deleted_run()
        records = store.runs(last + 1)
        runs = [run_data(record, goes_on=store.goes_on(record)) for record in records[:last]]
    if not output.data({"format": 1, "runs": runs}):
        is_one_host = len({run["host"] for run in runs}) == 1
        write_table(output, _COLUMNS, [_row(run, with_host=not is_one_host) for run in runs])
        if any(_result(run) == _NO_END for run in runs):
            output.summary(f"{_NO_END}: it was killed, or its state database was away")
        told = count(len(runs), "run") if runs else f"no run yet in {label}"
        if len(records) > last:
            told = f"the last {told.removeprefix('1 ')}; --last N shows more"
        elif deleted:
            told += "; earlier ones were deleted by `cobweb gc`"
        output.summary(told)
    return 0


def _row(run: Mapping[str, Any], *, with_host: bool) -> tuple[Cell | str, ...]:
    result = _result(run)
    tone = {"ok": Tone.GOOD, "goes on": Tone.HEAD}.get(result, Tone.BAD)
    code = f" (exit {run['exit_code']})" if run["exit_code"] else ""
    return (
        run["id"],
        moment(run["started"]),
        "" if run["ended"] is None else f"{max(0.0, run['ended'] - run['started']):.1f} s",
        f"{run['user']}@{run['host']}" if with_host else run["user"],
        run["command"],
        str(run["generation"] or "-"),
        Cell(text=", ".join([f"{result}{code}", *_done(run["counts"])]), tone=tone),
    )


def _result(run: Mapping[str, Any]) -> str:
    return run["result"] or ("goes on" if run["goes_on"] else _NO_END)


def _done(counts: Mapping[str, int]) -> list[str]:
    """Return what was done and what is left, as far as it is not nothing."""
    words = {"transitions": "done", "failed": "failed", "waiting": "waiting"}
    return [f"{counts[name]} {word}" for name, word in words.items() if counts.get(name)]
