"""Where a report comes from: the journal of a site, or a file of events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.report import Report, RunFacts
    from cobweb.store import RunRecord, Store


def from_file(events: str) -> Report:
    """Return the report of a file of events; `-`: standard input. CobwebError for what is none."""
    from cobweb.report import RunFacts, make_report, record_lines

    label = "standard input" if events == "-" else events
    try:
        with _opened(events) as stream:
            story, notes = record_lines(stream, label)
    except OSError as error:
        raise CobwebError(f"cannot read {label}: {error.strerror or error}") from error
    return make_report(story, RunFacts(), notes)


@contextmanager
def _opened(events: str) -> Iterator[TextIO]:
    if events == "-":
        yield sys.stdin
    else:
        with Path(events).open(encoding="utf-8", errors="backslashreplace") as stream:
            yield stream


def from_journal(request: Request, run: str | None) -> Report:
    """Return the report of a run of the site, None: the last; UsageError where there is none."""
    with open_site(request) as session:
        store = session.history()
        return report_of(store, chosen_run(store, run))


def report_of(store: Store, chosen: RunRecord) -> Report:
    """Return the report of a run of the journal."""
    from cobweb.report import make_report, record

    story = record(store.events(chosen.info.id), store.label)
    return make_report(story, _facts(store, chosen))


def chosen_run(store: Store, run: str | None) -> RunRecord:
    """Return the run with this id, None: the last one; UsageError where there is none."""
    found = store.last_run() if run is None else store.run(run)
    if found is not None:
        return found
    if run is None:
        raise UsageError(f"there is no run yet in {store.label}", hint="see `cobweb apply`")
    from difflib import get_close_matches

    close = get_close_matches(run, [known.info.id for known in store.runs(1000)], n=1)
    hint = f"did you mean {close[0]}?" if close else "see `cobweb runs`"
    raise UsageError(f"there is no run {run!r}", hint=hint)


def _facts(store: Store, chosen: RunRecord) -> RunFacts:
    from cobweb.operations import goes_on
    from cobweb.report import RunFacts

    return RunFacts(
        command=chosen.info.command,
        user=chosen.info.user,
        host=chosen.info.host,
        started=chosen.info.started,
        ended=chosen.ended,
        goes_on=goes_on(store, chosen),
        waits=chosen.waits if chosen.ended is not None else None,
    )
