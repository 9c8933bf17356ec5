"""`cobweb validate`: everything that can be known of a site before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from cobweb.cli._analysis import check_all
from cobweb.cli._kept import counts_of, find_sound
from cobweb.cli._models import note_stale_models
from cobweb.cli._options import examples, output_option, pass_request, site_options
from cobweb.cli._output import Output, Tone
from cobweb.cli._request import Request
from cobweb.cli._session import Session, open_site
from cobweb.cli._text import count
from cobweb.errors import Finding, SiteError


@click.command(
    "validate",
    epilog=examples("cobweb validate", "cobweb -C site validate -o json"),
)
@output_option()
@site_options
@pass_request
def command(request: Request) -> int:
    """Check the site: schema, references, types, circular waits.

    All findings are printed as `file:line:col: message (hint)`; exit code 3
    says that there are some.
    """
    output = Output.of(request)
    with open_site(request) as session:
        note_stale_models(session, output)
        try:
            summary = check_site(session)
            findings: Sequence[Finding] = ()
        except SiteError as error:
            if not output.data(findings_data(error.findings)):
                raise
            return error.exit_code
    if not output.data(findings_data(findings)):
        output.summary(summary, Tone.GOOD)
    return 0


def check_site(session: Session) -> str:
    """Check a whole site and describe it in one line; SiteError with all findings."""
    size = find_sound(session)
    if size is None:
        check_all(session, None)
        size = counts_of(session.graph())
    site = session.site
    parts = [
        count(len(site.hosts), "host"),
        count(size.cobs, "COB"),
        count(size.needs, "need"),
    ]
    return f"{site.name} is valid: {', '.join(parts)}"


def findings_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what `cobweb validate -o json` writes."""
    return {"format": 1, "findings": [_finding_data(finding) for finding in findings]}


def _finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "message": finding.message,
        "hint": finding.hint,
    }
