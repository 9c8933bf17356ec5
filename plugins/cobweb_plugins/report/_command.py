"""`cobweb report`: what happened in a run, from the journal or from a file of events."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import SiteAccess, site_access
from cobweb_plugins.report._pipeline import in_pipeline, tell_pipeline

if TYPE_CHECKING:
    from cobweb_plugins.report.forms import Report

FORMS = ("text", "json", "yaml", "html", "junit", "github", "gitlab")
"""What `-o` takes."""

_EXAMPLES = """\b
Examples:
  cobweb report
  cobweb report -o html --out report.html
  cobweb report --events events.jsonl -o junit --out junit.xml"""


@click.command("report", epilog=_EXAMPLES)
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
@click.option(
    "--annotations/--no-annotations",
    default=True,
    help="Tell failures to the pipeline, where GITHUB_ACTIONS or GITLAB_CI is set.",
)
@click.pass_context
def command(
    context: click.Context,
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
    access = site_access(context)
    if access.output == "html" and out is None and sys.stdout.isatty():
        raise UsageError("a page is not for a terminal", hint="name a file with --out")
    report = from_file(events) if events is not None else from_journal(access, run)
    if out is None:
        write_report(access, report)
    else:
        _write(out, access.captured(lambda: write_report(access, report)))
        access.summary(f"wrote {out}")
    if annotations and in_pipeline() and access.output == "text":
        tell_pipeline(report)
    return 0


def write_report(access: SiteAccess, report: Report) -> None:
    """Write the report to standard output in the form that is asked for."""
    from cobweb_plugins.report import forms
    from cobweb_plugins.report._terminal import tell_report

    match access.output:
        case "html":
            access.write("".join(forms.html_page(report)))
        case "junit":
            access.write("".join(forms.junit_xml(report)))
        case "github":
            for line in forms.github_commands(report):
                access.line(line)
        case "gitlab":
            access.data(forms.gitlab_quality(report), "json")
        case "text":
            tell_report(access, report)
        case _:
            access.data(forms.report_data(report))


def from_file(events: str) -> Report:
    """Return the report of a file of events; `-`: standard input. CobwebError for what is none."""
    from cobweb_plugins.report.forms import RunFacts, make_report, record_lines

    label = "standard input" if events == "-" else events
    try:
        with _opened(events) as stream:
            story, notes = record_lines(stream, label)
    except OSError as error:
        raise CobwebError(f"cannot read {label}: {error.strerror or error}") from error
    return make_report(story, RunFacts(), notes)


def from_journal(access: SiteAccess, run: str | None) -> Report:
    """Return the report of a run of the site, None: the last; UsageError where there is none."""
    from cobweb_plugins.report.forms import RunFacts, make_report, record

    known = access.run_facts(run)
    facts = RunFacts(
        command=known["command"],
        user=known["user"],
        host=known["host"],
        started=known["started"],
        ended=known["ended"],
        goes_on=known["goes_on"],
        waits=known["unsettled"],
    )
    return make_report(record(access.events(known["run"]), known["journal"]), facts)


@contextmanager
def _opened(events: str) -> Iterator[TextIO]:
    if events == "-":
        yield sys.stdin
    else:
        with Path(events).open(encoding="utf-8", errors="backslashreplace") as stream:
            yield stream


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CobwebError(f"cannot write {path}: {error.strerror or error}") from error
