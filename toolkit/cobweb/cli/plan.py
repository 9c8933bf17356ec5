"""`cobweb plan`: what an apply would do, in which order, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cobweb import operations
from cobweb._garbage import no_collections
from cobweb._tables import Column, Tone
from cobweb._text import some_of
from cobweb.cli._access import tell_notes
from cobweb.cli._analysis import check_all
from cobweb.cli._changes import SIGNS, detail_lines, tone_of, write_lines
from cobweb.cli._options import (
    budget_option,
    examples,
    limit_option,
    max_removals_option,
    only_option,
    refresh_option,
    refuse_two_parts,
    renew_option,
    site_request,
)
from cobweb.cli._output import Output
from cobweb.cli._parameters import GENERATION, REVISION
from cobweb.cli._render import write_table
from cobweb.cli._request import Format, Request
from cobweb.cli._running import first_few, removal_bound, tell_rollback
from cobweb.cli._session import open_site
from cobweb.cli._text import count
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.api import Site
    from cobweb.cli._cached_plans import PrintedPlan
    from cobweb.cli._parameters import Allowance
    from cobweb.model import CobId
    from cobweb.operations import LimitUse, Plan, Wait

__all__ = ["tell_plan"]

_PENDING = 2
_REFUSED = 1
_STUCK = 4
_COLUMNS = (
    Column(title="STAGE", right=True),
    Column(title="OBJECT", flexible=True),
    Column(title="TRANSITION"),
    Column(title="AFTER", flexible=True),
)
_ALL_LINES = "`cobweb plan --diff` shows all"
_SHOWN_WAITS = 3
_SHOWN_DOWN = 10
_SHOWN_GROUPS = 10
_SHOWN_HOSTS = 5
_SHOWN_DECISIONS = 10


@click.command(
    "plan",
    epilog=examples(
        "cobweb plan",
        "cobweb plan --diff",
        "cobweb plan --detailed-exitcode -o json",
        "cobweb plan --out my.plan",
        "cobweb plan --generation 3",
        "cobweb plan --planner stages",
    ),
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Save the plan for `cobweb apply FILE`.",
)
@click.option(
    "--generation",
    metavar="GENERATION",
    type=GENERATION,
    help="Plan the way back to this generation, as `cobweb rollback` would do it.",
)
@click.option(
    "--planner",
    metavar="NAME",
    default="event",
    show_default=True,
    help="Who puts the transitions into stages (`cobweb plugins` lists them).",
)
@click.option("--diff", is_flag=True, help="Show all lines of what changes in texts and files.")
@click.option("--detailed-exitcode", is_flag=True, help="Exit with 2 where changes are pending.")
@click.option(
    "--at",
    metavar="SECTION=REVISION",
    multiple=True,
    type=REVISION,
    help="With what was decided in a section up to this revision; repeatable.",
)
@max_removals_option
@refresh_option
@limit_option
@only_option
@renew_option
@budget_option
@site_request()
def command(  # noqa: PLR0913  # one parameter per option of section 7
    request: Request,
    *,
    out: Path | None,
    generation: int | None,
    planner: str,
    diff: bool,
    detailed_exitcode: bool,
    max_removals: Allowance | None,
    refresh: str,
    limit: str | None,
    only: tuple[str, ...],
    renew: tuple[str, ...],
    budgets: tuple[tuple[str, int], ...],
    at: tuple[tuple[str, int], ...],
) -> int:
    """Show what an apply would do, in which order and why.

    The prediction is a run of the real engine on the states that the journal
    knows; no host is asked. Objects in doubt are named: they are checked first.
    """
    output = Output.of(request)
    refuse_two_parts(limit, only)
    if generation is not None:
        given = {"--out": out, "--only": only, "--renew": renew, "--limit": limit, "--at": at}
        _refuse_with_generation(generation, given)
    asked: dict[str, Any] = {
        "limit": limit,
        "refresh": refresh,
        "out": out is not None,
        "diff": diff,
        "planner": planner,
        "budgets": dict(budgets),
        "only": sorted(set(only)),
        "renew": sorted(set(renew)),
        "max_removals": None if max_removals is None else str(max_removals),
        "deletes": sorted(request.deletes),
        "generation": generation,
        "at": sorted(at),
    }
    with open_site(request, runs_tasks=True, decisions=dict(at) or None) as session:
        if generation is None:
            tell_notes(session, output)
        make = _kept_or_made if generation is None else _printed
        printed = make(session, output, asked, removal_bound(max_removals))
        if out is not None:
            _save(out, printed.file)
        printed.show(output)
    if out is not None:
        output.summary(f"saved; carry it out with: cobweb apply {out}")
    return _code(printed, detailed=detailed_exitcode)


def _kept_or_made(
    session: Site, output: Output, asked: Mapping[str, Any], bound: Callable[[int], int]
) -> PrintedPlan:
    """Return the plan of what the files say, made now or kept from before."""
    from cobweb.cli._cached_plans import find_plan, keep_plan, plan_key

    is_whole = asked["limit"] is None  # a part is planned in the time that it takes to look
    key = plan_key(session, output, asked) if is_whole and session.evaluated.is_kept else None
    printed = find_plan(session, key)
    if printed is not None:
        return printed
    with no_collections():
        check_all(session, asked["limit"])
        if is_whole and key is None:
            key = plan_key(session, output, asked)
        printed = _printed(session, output, asked, bound)
    if key is not None and key == plan_key(session, output, asked):
        keep_plan(session, key, printed)  # nobody has written meanwhile
    return printed


def _refuse_with_generation(generation: int, options: Mapping[str, object]) -> None:
    """Raise UsageError for the first option that does not go with an earlier generation."""
    option = next((name for name, value in options.items() if value not in (None, ())), None)
    if option is not None:
        hint = f"carry it out with `cobweb rollback {generation}`"
        raise UsageError(f"{option} does not go with --generation", hint=hint)


def _code(printed: PrintedPlan, *, detailed: bool) -> int:
    """Return the exit code of a plan: what would be refused, or not begun, is not pending."""
    if printed.is_refused:
        return _REFUSED
    if printed.is_stuck:
        return _STUCK
    return _PENDING if detailed and not printed.is_empty else 0


def _printed(
    session: Site, output: Output, asked: Mapping[str, Any], bound: Callable[[int], int]
) -> PrintedPlan:
    """Make the plan and write it to a printer."""
    from cobweb.cli._cached_plans import PrintedPlan, Printer

    plan = session.plan(
        session.desired(asked["limit"], generation=asked["generation"]),
        refresh=operations.Refresh(asked["refresh"]),
        planner=asked["planner"],
        max_removals=bound,
        deletes=frozenset(asked["deletes"]),
        exceptions=operations.Exceptions(
            budgets=asked["budgets"],
            only=frozenset(asked["only"]),
            renew=frozenset(asked["renew"]),
        ),
    )
    printer = Printer.like(output)
    if output.format is Format.TEXT:
        tell_plan(printer, plan, whole=asked["diff"])
    else:
        printer.data(plan.as_data())
    if asked["generation"] is None and any(change.kind != "removed" for change in plan.changes):
        tell_rollback(printer, session.store())
    return PrintedPlan(
        text="".join(printer.texts),
        summaries=printer.summaries,
        file=operations.plan_text(plan) if asked["out"] else "",
        is_empty=plan.is_empty,
        is_refused=bool(plan.refusals),
        is_stuck=not plan.converges,
    )


def tell_plan(output: Output, plan: Plan, *, whole: bool = False) -> None:
    """Write a plan for people to standard output; `whole` with all lines of each change."""
    for decision in plan.decided[:_SHOWN_DECISIONS]:
        output.wrapped(str(decision))
    if len(plan.decided) > _SHOWN_DECISIONS:
        output.line(f"... and {len(plan.decided) - _SHOWN_DECISIONS} more (-o json has all)")
    _tell_changes(output, plan, whole=whole)
    if plan.checks:
        lost = f", {len(plan.uncertain)} in a state that was lost" if plan.uncertain else ""
        output.line(f"? {count(len(plan.checks), 'object')} to be checked first{lost}")
    if plan.changes or plan.checks or plan.unsettled:
        output.line()
    write_table(output, _COLUMNS, _rows(plan))
    _tell_switches(output, plan)
    _tell_waits(output, plan)
    _tell_times(output, plan)
    if plan.given_up:
        back = "`cobweb forget --host HOST --undo` takes one back"
        output.summary(f"given up: {', '.join(plan.given_up)} ({back})", Tone.CAREFUL)
    for refusal in plan.refusals:
        output.summary(f"an apply of this is refused: {refusal}", Tone.BAD)


def _tell_changes(output: Output, plan: Plan, *, whole: bool) -> None:
    notes = {change.cob: f" (was {change.was})" for change in plan.changes if change.was}
    notes |= _removals(plan)
    for change in plan.changes:
        note = notes.get(change.cob, "")
        sign = SIGNS[change.kind]
        output.line(f"{sign} {change.cob}{note}", tone_of(sign))
        details = detail_lines(change.lines, change.files, whole=whole, where=_ALL_LINES)
        write_lines(output, details)
    checked = set(plan.checks)
    for it in plan.unsettled:
        output.line(f"{'?' if it.cob in checked else '!'} {it.cob} ({it.why})", Tone.CAREFUL)
        write_lines(output, detail_lines(it.lines, it.files, whole=whole, where=_ALL_LINES))


def _removals(plan: Plan) -> dict[CobId, str]:
    """Return of each object that is gone from the site what becomes of it, in brackets."""
    ways: dict[CobId, list[str]] = {
        change.cob: [] for change in plan.changes if change.kind == "removed"
    }
    for step in plan.steps if ways else ():
        if step.cob in ways:
            ways[step.cob] += [step.dest] if ways[step.cob] else [step.source, step.dest]
    stay = {wait.cob: wait for wait in plan.waits}
    return {cob: f" (removed: {_fate(way, stay.get(cob))})" for cob, way in ways.items()}


def _fate(way: Sequence[str], wait: Wait | None) -> str:
    """Return what becomes of a removed object: the way it goes, and the end of that."""
    if wait is None:
        return f"{_way(way)}forgotten"
    if way and wait.state == way[-1]:
        return f"{_way(way)}kept until its host goes on, see below"
    return "not possible, see below"


def _way(way: Sequence[str]) -> str:
    return f"{' -> '.join(way)}, then " if way else ""


def _tell_switches(output: Output, plan: Plan) -> None:
    """Tell in which order hosts go over to the new generation, where removals ask for one."""
    from cobweb.model import host_of

    removed = {host_of(change.cob) for change in plan.changes if change.kind == "removed"}
    if not removed or not plan.switches:
        return
    first, *later = plan.switches
    others = () if removed.intersection(first) else first
    groups = later if others else plan.switches
    order = [_group(group) for group in groups[:_SHOWN_GROUPS]]
    if len(groups) > _SHOWN_GROUPS:
        order.append(f"{len(groups) - _SHOWN_GROUPS} more, one after the other")
    parts = [", then ".join(order)] if order else []
    parts += [f"{_others(others)} at any time"] if others else []
    output.wrapped(f"hosts switch: {'; '.join(parts)}")


def _others(hosts: Sequence[str]) -> str:
    return ", ".join(hosts) if len(hosts) <= _SHOWN_HOSTS else f"{len(hosts)} other hosts"


def _group(hosts: Sequence[str]) -> str:
    more = len(hosts) - _SHOWN_HOSTS
    rest = f" + {more} more" if more > 0 else ""
    return " + ".join(hosts[:_SHOWN_HOSTS]) + rest + (" together" if len(hosts) > 1 else "")


def _rows(plan: Plan) -> list[tuple[str, str, str, str]]:
    return [
        (str(number), it.cob, f"{it.source} -> {it.dest}", some_of(it.waits_for, _SHOWN_WAITS))
        for number, stage in enumerate(plan.stages.stages, start=1)
        for it in stage
    ]


def _tell_waits(output: Output, plan: Plan) -> None:
    from cobweb.model import UNKNOWN

    told, like_them, others = first_few(plan.waits)
    for wait in told:
        word = "be left" if wait.state == UNKNOWN else "stay"
        output.line(f"{wait.cob} would {word} {wait.state}:", Tone.BAD)
        for line in operations.chain_lines(wait):
            output.line(f"  {line}")
    for cause, number in like_them.items():
        output.line(f"... and {number} more would wait for {cause}")
    if others:
        output.line(f"... and {others} more (-o json has all)")
    for line in plan.proofs:
        output.wrapped(line, Tone.BAD)


def _tell_times(output: Output, plan: Plan) -> None:
    if not plan.steps:
        words = f"{_counts(plan)}; no transition" if plan.changes else "nothing to change"
        doubt = " as far as is known without the checks" if plan.checks else ""
        output.summary(words + doubt, Tone.GOOD if plan.is_empty else Tone.CAREFUL)
        return
    _tell_down(output, plan)
    for it in plan.limits:
        if len({*it.units, *it.canary}) > 1:
            output.wrapped(_limit_text(it))
    if plan.old_content:
        pairs = some_of([f"{on} for {cob}" for cob, on in plan.old_content], _SHOWN_DOWN)
        output.wrapped(f"old content serves, in a circle that a limit makes: {pairs}")
    if len(plan.stages.critical_path) > 1:
        path = " > ".join(f"{s.cob} {s.dest}" for s in plan.stages.critical_path)
        output.wrapped(f"critical path: {path}")
    by_event, by_stages = plan.makespan["event"], plan.makespan["stages"]
    if by_stages > by_event:
        times = f"{by_event:g} by event, {by_stages:g} stage by stage"
        output.wrapped(f"makespan, if each transition took 1: {times}")
    steps = count(len(plan.steps), "transition")
    stages = count(len(plan.stages.stages), "stage")
    output.summary(f"{_counts(plan)}; {steps} in {stages}")


def _counts(plan: Plan) -> str:
    return ", ".join(f"{number} to {word}" for word, number in plan.counts.items())


def _tell_down(output: Output, plan: Plan) -> None:
    removed = {change.cob for change in plan.changes if change.kind == "removed"}
    for title, cobs in (
        ("out for a while", sorted(plan.down_s.keys() - removed)),
        ("gone for good", sorted(plan.down_s.keys() & removed)),
        ("restarted in place", plan.restarts),
    ):
        if cobs:
            output.wrapped(f"{title}: {some_of(cobs, _SHOWN_DOWN)}", Tone.CAREFUL)


def _limit_text(it: LimitUse) -> str:
    """Say in which order units go under a limit: `limit rolling (max 1): a first, then b, c`."""
    others = [unit for unit in it.units if unit not in it.canary]
    turns = some_of(others or it.canary, _SHOWN_DOWN)
    if it.canary and others:
        pause = f", {it.pause_s:g} s pause" if it.pause_s else ""
        turns = f"{', '.join(it.canary)} first{pause}, then {turns}"
    return f"limit {it.limit} (max {it.bound}): {turns}"


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CobwebError(f"cannot write the plan to {path}: {error.strerror}") from error
