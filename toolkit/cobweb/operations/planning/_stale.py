"""Why a saved plan does not fit any more: what was done, and what was edited, since it was made.

Two people who plan on the same base must not both apply: the plan of the second one speaks of a
site that the first one has changed. What differs is told, as far as plan and journal know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cobweb.errors import PlanError
from cobweb.model import CobId, State
from cobweb.operations.context._context import beliefs
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._renames import pending_renames, with_renames
from cobweb.operations.planning._plan import CHANGED, IN_DOUBT, NEW, PlanFile, base_digest
from cobweb.store import CobRecord, RunRecord, Store

_SHOWN = 10
"""How many objects are named."""

_SHOWN_RUNS = 5
"""How many runs are named: the last ones."""

_LOOKED_AT = 1000
"""How many runs are looked through for the plan's."""

_NOWHERE = "not there"


def refuse_stale(plan: PlanFile, desired: Desired, store: Store) -> None:
    """Raise PlanError where a saved plan does not fit the site or the journal any more.

    Its notes say which runs came after the plan, and which objects differ.
    """
    records = beliefs(with_renames(store, pending_renames(desired, store), 0), desired)
    is_edited = plan.site != desired.evaluated.digest
    is_moved = plan.base != base_digest(records)
    newer = _newer_generation(plan, desired, store)
    if not (is_edited or is_moved or newer):
        return
    error = PlanError(_what(newer, is_edited=is_edited, is_moved=is_moved), hint=_HINT)
    runs = _later(plan, store)
    ids = frozenset(run.info.id for run in runs)
    view = _View(plan=plan, desired=desired, records=records, later=ids)
    edits = list(_edits(view)) or [_OTHER_EDITS] if is_edited else []
    moves = list(_moves(view, is_edited=is_edited))
    for line in (*_run_lines(runs, store), *_few(edits), *_few(moves)):
        error.add_note(line)
    raise error


_HINT = "make a new one with `cobweb plan --out`"
_OTHER_EDITS = "no object differs in the site: needs, limits, types, task files or hosts do"


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What is compared; `later` are the ids of the runs after the plan."""

    plan: PlanFile
    desired: Desired
    records: Mapping[CobId, CobRecord]
    later: frozenset[str]


def _what(newer: int, *, is_edited: bool, is_moved: bool) -> str:
    subjects = ["the site"] * is_edited + ["the states"] * is_moved
    if not subjects:
        return f"generation {newer} was applied since the plan was made"
    have = "have" if is_moved else "has"
    return f"{' and '.join(subjects)} {have} changed since the plan was made"


def _newer_generation(plan: PlanFile, desired: Desired, store: Store) -> int:
    """Return the current generation if another site was applied since the plan was made, else 0.

    Or the same one by newer decisions: the plan would take these back.
    """
    current = next(iter(store.generations()), None)
    if current is None:
        return 0
    if any(current.decisions.get(name, 0) > plan.decisions[name] for name in plan.decisions):
        return current.id
    if current.id == plan.generation:
        return 0
    is_planned = plan.limit is None and current.digest == plan.site
    return 0 if is_planned or current.digest == desired.whole().digest else current.id


def _later(plan: PlanFile, store: Store) -> tuple[RunRecord, ...]:
    """Return the runs that began after the plan's last one; () where that one is not known."""
    runs = store.runs(_LOOKED_AT)
    ids = [run.info.id for run in runs]
    if plan.run not in ids:
        return () if plan.run else runs[::-1]
    return runs[: ids.index(plan.run)][::-1]


def _run_lines(later: tuple[RunRecord, ...], store: Store) -> Iterator[str]:
    """Yield a line for each of the last runs."""
    said = {it.id: it.message for it in store.generations()}
    if len(later) > _SHOWN_RUNS:
        yield f"{len(later)} runs came after the plan, the last {_SHOWN_RUNS}:"
    for run in later[-_SHOWN_RUNS:]:
        it = run.info
        began = datetime.fromtimestamp(it.started, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        message = f" ({said[it.generation]})" if said.get(it.generation) else ""
        under = f", generation {it.generation}{message}" if it.generation else ""
        yield f"run {it.id}: {it.command} by {it.user}@{it.host}, {began}{under}"


def _few(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"... and {len(lines) - _SHOWN} more objects"


# --- what was edited


def _edits(view: _View) -> Iterator[str]:
    """Yield a line for each object that the site has otherwise than the plan."""
    contents, movable = view.desired.evaluated.contents, view.desired.movable
    planned = view.plan.states.keys() | view.plan.contents.keys()
    if planned and not planned & contents.keys():
        yield "no object of the plan is in this site: is it the right one?"
        return
    for cob in sorted({*movable, *view.records, *view.plan.contents}):
        if cob in contents and cob not in movable:
            continue
        then, now = _content_then(view, cob), contents.get(cob, "")
        if then is None or (then and now.startswith(then)) or then == now:
            continue
        yield f"{cob}: {_edit(then, now)} since the plan was made"


def _edit(then: str, now: str) -> str:
    if not then:
        return "added to the site"
    return "changed in the site" if now else "taken out of the site"


def _content_then(view: _View, cob: CobId) -> str | None:
    """Return the (beginning of the) content that the plan was made for; None if it is not known.

    The plan has that of what it changes; of all else the journal has it, if no run came after.
    """
    record = view.records.get(cob)
    if cob in view.plan.contents:
        return view.plan.contents[cob]
    if cob in view.plan.removed or record is None:
        return ""
    return None if record.run in view.later else record.content or None


# --- what was done


def _moves(view: _View, *, is_edited: bool) -> Iterator[str]:
    """Yield a line for each object that the journal has otherwise than when the plan was made."""
    for cob in sorted({*view.records, *view.desired.graph.cobs, *view.plan.states}):
        record = view.records.get(cob)
        then, now = _state_then(view, cob), _state_now(record)
        if record is None and (is_edited or then == NEW):
            continue
        is_other = then != now
        if record is not None and then in (NEW, CHANGED, IN_DOUBT, ""):
            is_other = record.run in view.later
        if is_other:
            yield f"{cob}: {then} then, {now} now" if then else f"{cob}: {now} now"
        elif record is not None and not is_edited and _has_other_content(view, record):
            yield f"{cob}: {now} then, {now} with another content now"


def _state_then(view: _View, cob: CobId) -> State:
    """Return where an object was when the plan was made; "" where nobody knows."""
    if cob in view.plan.states:
        return view.plan.states[cob]
    if cob in view.plan.removed:
        return ""
    if cob in view.desired.movable:
        return view.desired.graph.cobs[cob].preferred
    return "" if cob in view.desired.graph.cobs else _NOWHERE


def _state_now(record: CobRecord | None) -> str:
    if record is None:
        return "forgotten"
    if record.in_transition is not None:
        return "in transition"
    return record.state


def _has_other_content(view: _View, record: CobRecord) -> bool:
    """Say whether an object that the plan left alone has another content than the site's."""
    content = view.desired.evaluated.contents.get(record.cob)
    untouched = record.cob not in view.plan.contents and record.run in view.later
    return untouched and content is not None and record.content != content
