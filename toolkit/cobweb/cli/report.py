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
from cobweb.cli._report_text import tell_report
from cobweb.cli._request import Format, Request
from cobweb.cli._text import plain
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.report import Report

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
