"""`cobweb decisions` and `cobweb decide`: desired state that is in no file of the site."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from cobweb.errors import ConflictError, UsageError
from cobweb.model import Decision
from cobweb.plugin import Column, JsonError, SiteAccess, Tone, json_of, shortened, site_access

_ATTEMPTS = 10
"""How often a decision is tried where others decide in the same section at the same moment."""

_SHOWN_BODY = 60
"""How many characters of a body a table has."""

_COLUMNS = (
    Column(title="DECISION", flexible=True),
    Column(title="REV", right=True),
    Column(title="BODY", flexible=True),
    Column(title="BY", flexible=True),
    Column(title="SINCE"),
    Column(title="REASON", flexible=True),
)

_EXAMPLES = """\b
Examples:
  cobweb decisions
  cobweb decisions pools n03 --history
  cobweb decisions -o json"""

_DECIDE_EXAMPLES = """\b
Examples:
  cobweb decide lamps n1 '{"on": true}' --reason "the street is dark"
  cobweb decide lamps n1 null --reason "it is day"
  cobweb decide lamps n1 '{"on": true}' --reason dark --revision 7"""


@click.command("decisions", epilog=_EXAMPLES)
@click.argument("section", required=False)
@click.argument("key", required=False)
@click.option("--history", is_flag=True, help="All that was decided, the newest first.")
@click.pass_context
def decisions(
    context: click.Context, *, section: str | None, key: str | None, history: bool
) -> None:
    """List what was decided: desired state that is in no file.

    A decision belongs to a section of the site and has a key there. `cobweb
    plan` shows what follows from it.
    """
    access = site_access(context)
    known = sorted(access.plugins.decision_schemas)
    asked = sorted({*known, *_decided_in(access)}) if section is None else [section]
    found = {name: _found(access, name, key, history=history) for name in asked}
    if section is not None and section not in known and not found[section][0]:
        hint = f"known are {', '.join(known) or 'none'}"
        raise UsageError(f"there is no section `{section}` that takes decisions", hint=hint)
    if not access.data(_data(found, history=history)):
        _tell(access, found)


@click.command("decide", epilog=_DECIDE_EXAMPLES)
@click.argument("section")
@click.argument("key")
@click.argument("body", metavar="JSON|null")
@click.option("--reason", metavar="TEXT", required=True, help="Why: shown wherever it counts.")
@click.option(
    "--revision",
    metavar="N",
    type=click.IntRange(0),
    help="Only if the section is at this revision, the last one that you have seen.",
)
@click.pass_context
def decide(  # noqa: PLR0913  # one parameter per argument
    context: click.Context, *, section: str, key: str, body: str, reason: str, revision: int | None
) -> None:
    """Decide what a section of the site has under a key.

    It changes no host: `cobweb plan` shows what follows from it, and `cobweb
    apply` brings that about. `null` takes back what was decided. Refused is
    what the section does not take, and what leaves no valid site.
    """
    access = site_access(context)
    try:
        writes = {key: json_of(body, "the decision")}
    except JsonError as error:
        raise UsageError(str(error), hint="as in '{\"on\": true}'") from error
    if writes[key] is None and key not in access.decisions(section).by_key:
        hint = f"see `cobweb decisions {section}`"
        raise UsageError(f"nothing is decided for `{key}` of `{section}`", hint=hint)
    made = _decided(access, section, writes, reason, revision)
    found = _found(access, section, key, history=True)
    mine = [it for it in found[1] if it.revision == made]
    if not access.data(_data({section: (made, mine)}, history=True)):
        access.summary(f"decided: {mine[0] if mine else section}", Tone.GOOD)
        access.summary("`cobweb plan` shows what follows from it")


def _decided(
    access: SiteAccess, section: str, writes: Mapping[str, Any], reason: str, revision: int | None
) -> int:
    """Decide on the revision that was seen, or on whichever there is; return the one it makes."""
    for attempt in range(_ATTEMPTS, 0, -1):
        expected = access.decisions(section).revision if revision is None else revision
        try:
            return access.decide(section, expected, writes, reason)
        except ConflictError:
            if revision is not None or attempt == 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _decided_in(access: SiteAccess) -> set[str]:
    """Return the sections that something was decided in, also those whose plugin is gone."""
    return {decision.section for decision in access.decision_history()}


def _found(
    access: SiteAccess, section: str, key: str | None, *, history: bool
) -> tuple[int, Sequence[Decision]]:
    """Return the revision of a section and what was decided in it, of one key or all."""
    now = access.decisions(section)
    chosen = access.decision_history(section) if history else now.by_key.values()
    return now.revision, [it for it in chosen if key in (None, it.key)]


def _data(
    found: Mapping[str, tuple[int, Sequence[Decision]]], *, history: bool
) -> Mapping[str, Any]:
    """Return what `-o json` writes: schemas/decisions.schema.json."""
    word = "history" if history else "decisions"
    return {
        "format": 1,
        "sections": {
            section: {"revision": revision, word: [_decision_data(it) for it in decided]}
            for section, (revision, decided) in found.items()
        },
    }


def _decision_data(decision: Decision) -> dict[str, Any]:
    names = ("key", "body", "revision", "author", "reason", "time")
    return {name: getattr(decision, name) for name in names}


def _tell(access: SiteAccess, found: Mapping[str, tuple[int, Sequence[Decision]]]) -> None:
    rows = [_row(decision) for _, decided in found.values() for decision in decided]
    access.table(_COLUMNS, rows)
    if not rows:
        access.summary("nothing is decided")
    for section, (revision, _) in found.items():
        if revision:
            access.summary(f"{section} is at revision {revision}")


def _row(decision: Decision) -> tuple[str, ...]:
    body = "taken back" if decision.body is None else json.dumps(decision.body)
    return (
        f"{decision.section}/{decision.key}",
        str(decision.revision),
        shortened(body, _SHOWN_BODY),
        decision.author,
        datetime.fromtimestamp(decision.time, tz=UTC).strftime("%Y-%m-%d %H:%M"),
        " ".join(decision.reason.split()),
    )
