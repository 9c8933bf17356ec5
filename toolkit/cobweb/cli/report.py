"""`cobweb report`: what happened in a run, from the journal or from a file of events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from cobweb.cli._options import examples, output_option, pass_request, site_options
from cobweb.cli._output import Output, as_json, as_yaml
from cobweb.cli._report_text import tell_report
from cobweb.cli._request import Format, Request
from cobweb.cli._session import open_site
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.report import Report, RunFacts
    from cobweb.store import RunRecord, Store

_FORMATS = (
    Format.TEXT,
    Format.JSON,
    Format.YAML,
    Format.HTML,
    Format.JUNIT,
    Format.GITHUB,
    Format.GITLAB,
)


@click.command(
    "report",
    epilog=examples(
        "cobweb report",
        "cobweb report -o html --out report.html",
        "cobweb report --events events.jsonl -o junit --out junit.xml",
    ),
)
@click.argument("run", required=False)
@click.option(
    "--events",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Report on what `--events` wrote to FILE instead; - is standard input.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the report to FILE instead of standard output.",
)
@output_option(*_FORMATS)
@site_options
@pass_request
def command(request: Request, run: str | None, events: str | None, out: Path | None) -> int:
    """Tell what happened in a run (default: the last one).

    The site need not be valid: the report is made from the state database, or
    from a file of events. html is one page without a network, junit has a test
    suite per host, github are annotations, gitlab is a Code Quality report.
    """
    if events is not None and run is not None:
        raise UsageError("give RUN or --events, not both")
    output = Output.of(request)
    if output.format is Format.HTML and out is None and sys.stdout.isatty():
        raise UsageError("a page is not for a terminal", hint="name a file with --out")
    report = _from_file(events) if events is not None else _from_journal(request, run)
    if output.format is Format.TEXT and out is None:
        tell_report(output, report)
        return 0
    text = _text(report, output)
    if out is None:
        output.write(text)
    else:
        _write(out, text)
        output.summary(f"wrote {out}")
    return 0


def _text(report: Report, output: Output) -> str:
    """Return the report in a format other than text for a terminal."""
    from cobweb import report as forms

    match output.format:
        case Format.JSON:
            return as_json(forms.report_data(report))
        case Format.YAML:
            return as_yaml(forms.report_data(report))
        case _:
            return _plain(report, output)


def _plain(report: Report, output: Output) -> str:
    """Return the text for people without colours, as it goes into a file."""
    with redirect_stdout(StringIO()) as stream:
        tell_report(replace(output, color=False), report)
    return stream.getvalue()


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CobwebError(f"cannot write {path}: {error.strerror or error}") from error


# --- where the events come from


def _from_file(events: str) -> Report:
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


def _from_journal(request: Request, run: str | None) -> Report:
    from cobweb.report import make_report, record

    with open_site(request) as session:
        store = session.history()
        chosen = _chosen(store, run)
        story = record(store.events(chosen.info.id), store.label)
        return make_report(story, _facts(store, chosen))


def _chosen(store: Store, run: str | None) -> RunRecord:
    """Return the run that is asked for; UsageError where there is none."""
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
    from cobweb.report import RunFacts
    from cobweb.runtime import goes_on

    return RunFacts(
        command=chosen.info.command,
        user=chosen.info.user,
        host=chosen.info.host,
        started=chosen.info.started,
        ended=chosen.ended,
        goes_on=goes_on(store, chosen),
        waits=chosen.waits if chosen.ended is not None else None,
    )
