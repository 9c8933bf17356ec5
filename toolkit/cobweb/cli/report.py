"""`cobweb report`: what happened in a run, from the journal or from a file of events."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cobweb.cli._options import examples, output_option, pass_request, site_options
from cobweb.cli._output import Output, as_json, as_yaml
from cobweb.cli._pipeline import annotations_option, in_pipeline, tell_pipeline
from cobweb.cli._report_source import from_file, from_journal
from cobweb.cli._request import Format, Request
from cobweb.cli._text import plain
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.report import Report
import time
from itertools import pairwise
from typing import TYPE_CHECKING

from cobweb.cli._output import Tone
from cobweb.cli._render import Cell, Column, write_table
from cobweb.cli._text import count

if TYPE_CHECKING:
    from cobweb.report import Report, Waiting

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
@annotations_option
@output_option(*_FORMATS)
@site_options
@pass_request
def command(
    request: Request,
    *,
    run: str | None,
    events: str | None,
    out: Path | None,
    annotations: bool,
) -> int:
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
    report = from_file(events) if events is not None else from_journal(request, run)
    if output.format is Format.TEXT and out is None:
        tell_report(output, report)
    elif out is None:
        output.write(_text(report, output))
    else:
        _write(out, _text(report, output))
        output.summary(f"wrote {out}")
    if annotations and in_pipeline() and output.format is Format.TEXT:
        tell_pipeline(report)
    return 0


def _text(report: Report, output: Output) -> str:
    """Return the report in the format that is asked for."""
    from cobweb import report as forms

    makers: dict[Format, Callable[[], str]] = {
        Format.JSON: lambda: as_json(forms.report_data(report)),
        Format.YAML: lambda: as_yaml(forms.report_data(report)),
        Format.HTML: lambda: "".join(forms.html_page(report)),
        Format.JUNIT: lambda: "".join(forms.junit_xml(report)),
        Format.GITHUB: lambda: "".join(f"{plain(it)}\n" for it in forms.github_commands(report)),
        Format.GITLAB: lambda: as_json(forms.gitlab_quality(report)),
        Format.TEXT: lambda: _plain(report, output),
    }
    return makers[output.format]()


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


_AN_ORDER = 2
"""Fewer groups of hosts that switched are no order that is worth telling."""

_SHOWN_FAILURES = 20
_SHOWN_CAUSES = 20
_SHOWN_WAITING = 3
_SHOWN_ROWS = 10
_SHOWN_PATH = 30
_SHOWN_SWITCHES = 30


def tell_report(output: Output, report: Report) -> None:
    """Write summary, failures, who waited for what, the critical path and what took longest."""
    _summary(output, report)
    _failures(output, report)
    _waiting(output, report)
    _switches(output, report)
    _path(output, report)
    _slowest(output, report)
    _waited(output, report)
    for note in report.notes:
        output.summary(f"note: {note}", Tone.CAREFUL)


def _head(output: Output, text: str) -> None:
    output.line()
    output.line(text, Tone.HEAD)


def _summary(output: Output, report: Report) -> None:
    from cobweb.report import span

    story, facts = report.story, report.facts
    tone = Tone.GOOD if report.result == "ok" else Tone.BAD
    code = "" if story.exit_code is None else f" (exit code {story.exit_code})"
    output.line(f"run {story.run}: {report.result}{code}", tone)
    if facts.started is not None:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.started))
        output.line(f"{facts.command} by {facts.user}@{facts.host}, began {began}")
    totals = [
        count(len(report.hosts), "host"),
        count(len(story.cobs), "object"),
        count(len(story.steps), "transition"),
        f"{len(story.failures)} failed",
        f"{len(report.waiting)} not settled",
        span(story.last_ms),
    ]
    output.line(", ".join(totals))


def _failures(output: Output, report: Report) -> None:
    from cobweb.report import failure_lines, failure_title, span

    story = report.story
    if story.failures or story.unreachable:
        _head(output, "Failures")
    for failure in story.failures[:_SHOWN_FAILURES]:
        attempt = f", attempt {failure.attempt}" if failure.attempt > 1 else ""
        title = f"{failure.cob}  {failure_title(failure)}"
        output.line(f"{title} (at {span(failure.at_ms)}{attempt})", Tone.BAD)
        for line in failure_lines(failure):
            output.line(f"  | {line}")
    _more(output, len(story.failures) - _SHOWN_FAILURES)
    lost = sorted(story.unreachable.items())
    for host, said in lost[:_SHOWN_FAILURES]:
        output.line(f"{host} could not be reached{f': {said}' if said else ''}", Tone.BAD)
    _more(output, len(lost) - _SHOWN_FAILURES)


def _waiting(output: Output, report: Report) -> None:
    """Tell by cause who waits for it; failures and lost hosts themselves were told above."""
    from cobweb.report import cause_of, chain_text

    by_cause: dict[str, list[Waiting]] = {}
    for it in report.waiting:
        if len(it.chain) != 1 or it.chain[0]["kind"] not in ("failed", "unreachable"):
            by_cause.setdefault(cause_of(it), []).append(it)
    if by_cause:
        _head(output, "Not settled")
    messages = report.messages
    causes = sorted(by_cause.values(), key=lambda waits: -len(waits))
    for waits in causes[:_SHOWN_CAUSES]:
        output.line(chain_text(waits[0], messages)[-1], Tone.CAREFUL)
        for it in waits[:_SHOWN_WAITING]:
            way = "".join(f" <- {link['cob']}" for link in it.chain[1:])
            output.line(f"  {it.cob} is {it.state}{way}")
        if len(waits) > _SHOWN_WAITING:
            output.line(f"  ... and {count(len(waits) - _SHOWN_WAITING, 'object')} more")
    _more(output, len(causes) - _SHOWN_CAUSES, "causes")


def _switches(output: Output, report: Report) -> None:
    """Tell the order in which hosts switched, where there was one."""
    from cobweb.report import hosts_text, span

    switches = report.story.switches
    if len(switches) < _AN_ORDER:
        return
    _head(output, f"Hosts switched to generation {switches[-1].generation}")
    columns = (
        Column(title="AT", right=True),
        Column(title="NUMBER", right=True),
        Column(title="HOSTS", flexible=True),
    )
    rows = [(span(it.at_ms), str(len(it.hosts)), hosts_text(it.hosts)) for it in switches]
    write_table(output, columns, rows[:_SHOWN_SWITCHES])
    _more(output, len(rows) - _SHOWN_SWITCHES)


def _path(output: Output, report: Report) -> None:
    from cobweb.report import path_reason, span

    if not report.path:
        return
    _head(output, f"Critical path ({count(len(report.path), 'transition')})")
    columns = (
        Column(title="AT", right=True),
        Column(title="TOOK", right=True),
        Column(title="OBJECT", flexible=True),
        Column(title="TRANSITION"),
        Column(title="BEGAN", flexible=True),
    )
    rows = []
    for before, it in pairwise((None, *report.path)):
        assert it is not None
        step = it.step
        change = f"{step.source} -> {step.dest}"
        where = (span(step.start_ms), span(step.took_ms), step.cob, change)
        rows.append((*where, path_reason(it, before)))
    write_table(output, columns, rows[:_SHOWN_PATH])
    _more(output, len(rows) - _SHOWN_PATH)


def _slowest(output: Output, report: Report) -> None:
    from cobweb.report import span

    if not report.slow:
        return
    _head(output, "Slowest transitions")
    columns = (
        Column(title="TOOK", right=True),
        Column(title="OBJECT", flexible=True),
        Column(title="TRANSITION"),
        Column(title="RESULT"),
    )
    rows = [
        (
            span(it.took_ms),
            it.cob,
            f"{it.source} -> {it.dest}",
            Cell(text=it.result, tone=Tone.NONE if it.result == "ok" else Tone.BAD),
        )
        for it in report.slow[:_SHOWN_ROWS]
    ]
    write_table(output, columns, rows)


def _waited(output: Output, report: Report) -> None:
    from cobweb.report import span

    if not report.waited:
        return
    _head(output, "Waited for longest")
    columns = (
        Column(title="OBJECT", flexible=True),
        Column(title="STATE"),
        Column(title="WAITS", right=True),
        Column(title="IN ALL", right=True),
        Column(title="LONGEST", flexible=True),
    )
    rows = [
        (
            it.cob,
            it.state,
            str(it.holders),
            span(it.total_ms),
            f"{span(it.most_ms)} {it.longest}",
        )
        for it in report.waited[:_SHOWN_ROWS]
    ]
    write_table(output, columns, rows)


def _more(output: Output, number: int, what: str = "") -> None:
    if number > 0:
        output.line(f"... and {number} more{' ' + what if what else ''} (-o json has all)")
