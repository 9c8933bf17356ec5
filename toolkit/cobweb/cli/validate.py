"""`cobweb validate`: everything that can be known of a site before anything runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._foreign_json import JsonError, json_file
from cobweb._resources import data_dir
from cobweb._tables import Tone
from cobweb.cli._access import tell_notes
from cobweb.cli._analysis import Sound, check_whole, keep_sound
from cobweb.cli._options import examples, site_request
from cobweb.cli._output import Output
from cobweb.cli._request import Request
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import Finding, SiteError, UsageError

if TYPE_CHECKING:
    from cobweb.model import Decisions
    from cobweb.operations import Wait
    from cobweb.site import Site

_STUCK = 4


@click.command("validate", epilog=examples("cobweb validate", "cobweb -C site validate -o json"))
@click.option(
    "--decisions",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With what was decided as FILE says, which `cobweb decisions -o json` wrote.",
)
@site_request()
def command(request: Request, *, file: Path | None) -> int:
    """Check the site: schema, references, types, circular waits.

    All findings are printed as `file:line:col: message (hint)`; exit code 3
    says that there are some. Warnings, as of a limit that matches nothing or
    that one step cannot fit in, are printed, too, and change no exit code.
    Exit code 4 says that the site is sound, but that no run of it from nothing
    comes to an end, and who waits for what. The state database is not asked:
    without --decisions nothing is decided.
    """
    output = Output.of(request)
    with open_site(request, decisions=_decisions(file)) as session:
        try:
            tell_notes(session, output)
            found = check_whole(session)
        except SiteError as error:
            if not output.data(findings_data(error.findings)):
                raise
            return error.exit_code
        stuck: tuple[Wait, ...] = ()
        if not found.converges:
            desired = session.desired()
            stuck = operations.stuck_from_nothing(desired)
            old_content = operations.old_content_warnings(desired)
            found = replace(found, warnings=(*found.warnings, *old_content))
            if not stuck:
                keep_sound(session, replace(found, converges=True))
    if not output.data(findings_data((), found.warnings, stuck)):
        for line in "\n".join(f"warning: {it}" for it in found.warnings).splitlines():
            output.summary(line, Tone.CAREFUL)
        if stuck:
            raise operations.told_stuck(stuck)
        output.summary(_summary(session.evaluated, found), Tone.GOOD)
    return _STUCK if stuck else 0


def _decisions(path: Path | None) -> Mapping[str, Decisions]:
    """Return by section what a file has that `cobweb decisions -o json` wrote; nothing of none.

    UsageError where it cannot be read as such.
    """
    if path is None:
        return {}
    from jsonschema import Draft202012Validator

    from cobweb.model import Decision, Decisions

    schema = (data_dir("schemas") / "decisions.schema.json").read_text(encoding="utf-8")
    hint = "`cobweb decisions -o json` writes what is decided now"
    try:
        data = json_file(path)
    except JsonError as error:
        raise UsageError(str(error), hint=error.hint or hint) from error
    for wrong in Draft202012Validator(json.loads(schema)).iter_errors(data):
        message = f"{path}: there are no decisions: at {wrong.json_path}: {wrong.message}"
        raise UsageError(message, hint=hint)
    if any("history" in found for found in data["sections"].values()):
        raise UsageError(f"{path}: this is a history of decisions", hint=hint)
    return {
        section: Decisions(
            revision=found["revision"],
            by_key={it["key"]: Decision(section=section, **it) for it in found["decisions"]},
        )
        for section, found in data["sections"].items()
    }


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
    return {"cob": wait.cob, "state": wait.state, "chain": operations.chain_data(wait.chain)}


def _finding_data(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding.place), "message": finding.message, "hint": finding.hint}
