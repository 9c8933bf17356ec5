"""`cobweb validate`: everything that can be known of a site before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from cobweb._tables import Tone
from cobweb.cli._access import tell_notes
from cobweb.cli._analysis import check_whole
from cobweb.cli._options import examples, output_option, pass_request, site_options
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import Finding, SiteError

if TYPE_CHECKING:
    from cobweb.cli._cached_plans import Sound
    from cobweb.operations import Wait
    from cobweb.site import Site

_STUCK = 4


@click.command("validate", epilog=examples("cobweb validate", "cobweb -C site validate -o json"))
@output_option()
@site_options
@pass_request
def command(request: Request) -> int:
    """Check the site: schema, references, types, circular waits.

    All findings are printed as `file:line:col: message (hint)`; exit code 3
    says that there are some. Warnings, as of a limit that matches nothing or
    that one step cannot fit in, are printed, too, and change no exit code.
    Exit code 4 says that the site is sound, but that no run of it from nothing
    comes to an end, and who waits for what.
    """
    output = Output.of(request)
    with open_site(request) as session:
        try:
            tell_notes(output, click.get_current_context())
            found = check_whole(session)
        except SiteError as error:
            if not output.data(findings_data(error.findings)):
                raise
            return error.exit_code
        stuck: tuple[Wait, ...] = ()
        if not found.converges:
            from cobweb.cli._cached_plans import keep_sound
            from cobweb.operations import old_content_warnings, stuck_from_nothing

            desired = session.desired()
            stuck = stuck_from_nothing(desired)
            found = replace(found, warnings=(*found.warnings, *old_content_warnings(desired)))
            if not stuck:
                keep_sound(session, replace(found, converges=True))
    if not output.data(findings_data((), found.warnings, stuck)):
        for line in "\n".join(f"warning: {it}" for it in found.warnings).splitlines():
            output.summary(line, Tone.CAREFUL)
        if stuck:
            from cobweb.operations import told_stuck

            raise told_stuck(stuck)
        output.summary(_summary(session.evaluated, found), Tone.GOOD)
    return _STUCK if stuck else 0


def _summary(site: Site, found: Sound) -> str:
    """Describe a site without mistakes in one line."""
    parts = [
        count(len(site.hosts), "host"),
        count(found.cobs, "COB"),
        count(found.needs, "need"),
        *([count(len(found.warnings), "warning")] if found.warnings else []),
    ]
    return f"{site.name} is valid: {', '.join(parts)}"


def findings_data(
    findings: Sequence[Finding], warnings: Sequence[Finding] = (), waits: Sequence[Wait] = ()
) -> dict[str, Any]:
    """Return what `cobweb validate -o json` writes; `waits` are of a run from nothing."""
    return {
        "format": 1,
        "findings": list(map(_finding_data, findings)),
        "warnings": list(map(_finding_data, warnings)),
        "waits": list(map(_wait_data, waits)),
    }


def _wait_data(wait: Wait) -> dict[str, Any]:
    from cobweb.operations import chain_data

    return {"cob": wait.cob, "state": wait.state, "chain": chain_data(wait.chain)}


def _finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "file": finding.place.file,
        "line": finding.place.line,
        "column": finding.place.column,
        "message": finding.message,
        "hint": finding.hint,
    }
