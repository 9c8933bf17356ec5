"""The commands of the controller: what is decided, what is served, what is approved and pinned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cobweb.errors import ConflictError, UsageError
from cobweb.model import Decision
from cobweb.plugin import (
    Column,
    JsonError,
    SiteAccess,
    Tone,
    json_of,
    seconds_of,
    shortened,
    site_access,
)

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


_SERVE_EXAMPLES = """\b
Examples:
  cobweb serve
  cobweb serve --once
  cobweb serve --git ssh://git@example.org/site.git --branch main"""

_FILE = click.Path(dir_okay=False, path_type=Path)
_MAY_SAY_WHY = click.option("--reason", metavar="TEXT", default="", help="Why: kept, and shown.")
_SAYS_WHY = click.option("--reason", metavar="TEXT", required=True, help="Why: kept, and shown.")


_DECIDERS_EXAMPLES = """\b
Examples:
  cobweb deciders
  cobweb deciders -o json
  cobweb deciders --replay decided.jsonl"""


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
    there = {it.section for it in access.decision_history()}  # also where the plugin is gone
    asked = sorted({*known, *there}) if section is None else [section]
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
    "--revision", metavar="N", type=click.IntRange(0), help="Only at this one: the last you saw."
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


def _seconds(_context: click.Context, _option: click.Parameter, value: str) -> float:
    try:
        return seconds_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}") from error


@click.command("serve", epilog=_SERVE_EXAMPLES)
@click.option("--git", "url", metavar="URL", help="Serve a branch of this Git repository.")
@click.option("--branch", metavar="B", default="main", show_default=True, help="The branch.")
@click.option("--path", metavar="DIR", default=".", help="Where the site is in the repository.")
@click.option(
    "--work",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="For the clone and plans; default below $XDG_STATE_HOME (~/.local/state).",
)
@click.option(
    "--every",
    metavar="DURATION",
    default="30s",
    show_default=True,
    callback=_seconds,
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="One round, for cron and pipelines.")
@click.option(
    "--record", metavar="FILE", type=_FILE, help="Add to it what deciders see and decide."
)
@click.pass_context
def serve(  # noqa: PLR0913  # one parameter per option
    context: click.Context,
    *,
    url: str | None,
    branch: str,
    path: str,
    work: Path | None,
    every: float,
    once: bool,
    record: Path | None,
) -> int:
    """Keep a site as it should be: look, decide, plan, ask, apply, again and again.

    What it may do by itself stands under `serve:` in the site; what needs a
    person waits: `cobweb approvals`. Every change is an ordinary run, which
    goes on where this command ends.
    """
    from cobweb_plugins.controller._serve import Where, serve_site

    record = record and record.absolute()
    where = Where(url=url, branch=branch, path=path, work=work, record=record)
    return serve_site(site_access(context), where, every, once=once)


@click.command("deciders", epilog=_DECIDERS_EXAMPLES)
@click.option(
    "--replay", metavar="FILE", type=_FILE, help="Decide again what `serve --record` has recorded."
)
@click.pass_context
def deciders(context: click.Context, *, replay: Path | None) -> int:
    """List what decides by itself, and why it did or did not.

    A decider of a plugin looks and decides for a section of the site, while
    `cobweb serve` is there. Told are its notes, and what went wrong. What it
    has seen can be recorded and decided again: the exit code is 1 if anything
    is decided otherwise.
    """
    from cobweb_plugins.controller.deciders._listed import list_deciders, replay_record

    access = site_access(context)
    if replay is not None:
        return replay_record(access, replay)
    list_deciders(access)
    return 0


@click.command("approvals", epilog="\b\nExamples:\n  cobweb approvals\n  cobweb approvals -o json")
@click.pass_context
def approvals(context: click.Context) -> None:
    """List what waits to be admitted, and why.

    A controller (`cobweb serve`) plans each new commit and each new decision,
    and admits it where `serve:` of the site says so. Told as well: what is
    admitted, how far that is, what is pinned, and who leads.
    """
    from cobweb_plugins.controller._approvals import list_approvals

    list_approvals(site_access(context))


@click.command("approve", epilog='\b\nExamples:\n  cobweb approve git-1f2e3d4c --reason "seen"')
@click.argument("name", metavar="ID")
@_MAY_SAY_WHY
@click.pass_context
def approve(context: click.Context, *, name: str, reason: str) -> None:
    """Let a controller admit what waits.

    It is planned again when it is admitted: if more would go out than was
    shown, it waits again.
    """
    from cobweb_plugins.controller._approvals import judge
    from cobweb_plugins.controller._memory import Fate

    judge(site_access(context), name, reason, Fate.APPROVED)


@click.command("reject", epilog='\b\nExamples:\n  cobweb reject git-1f2e3d4c --reason "not today"')
@click.argument("name", metavar="ID")
@_MAY_SAY_WHY
@click.pass_context
def reject(context: click.Context, *, name: str, reason: str) -> None:
    """Keep a controller from admitting what waits.

    A newer commit or decision waits anew.
    """
    from cobweb_plugins.controller._approvals import judge
    from cobweb_plugins.controller._memory import Fate

    judge(site_access(context), name, reason, Fate.REJECTED)


@click.command("pin", epilog='\b\nExamples:\n  cobweb pin 12 --reason "13 is slow"')
@click.argument("generation", required=False, type=click.IntRange(1, 2**31 - 1))
@_SAYS_WHY
@click.pass_context
def pin(context: click.Context, *, generation: int | None, reason: str) -> None:
    """Have a controller hold a generation.

    The current one by default, until `cobweb unpin`. Of a site in Git its
    commit is held, and decisions go on; without Git nothing but this generation
    is brought about.
    """
    from cobweb_plugins.controller._approvals import pin_generation

    pin_generation(site_access(context), generation, reason)


@click.command("unpin", epilog="\b\nExamples:\n  cobweb unpin")
@click.pass_context
def unpin(context: click.Context) -> None:
    """Let a controller go on.

    Nothing is pinned any more, and nothing that was applied by hand is held.
    """
    from cobweb_plugins.controller._approvals import unpin_generation

    unpin_generation(site_access(context))
