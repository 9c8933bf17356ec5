"""What is believed before a run: the journal's states against the contents that are wanted now.

Beside these stands what is durable of budgets, and which hosts they may hold back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cobweb._lazy import Lazy
from cobweb.engine import Canary, Lending
from cobweb.generation import contents as contents_of
from cobweb.generation import redact
from cobweb.kernel._machines import put_on_machines
from cobweb.model import OUTDATED, UNKNOWN, CobId, State, fill_in, has_late_values, host_of
from cobweb.operations.context._generations import Generations

if TYPE_CHECKING:
    from cobweb.model import Cob, CobType, Graph, Results
    from cobweb.operations.context._desired import Desired
    from cobweb.store import CobRecord, Store

Lock = tuple[CobId, CobId, State]
"""(locked object, holder, state)."""

STALE = "stale"
"""The state that, by convention, says the same of an object that is stopped."""


class Refresh(StrEnum):
    """Which objects are checked at the start: only those in doubt, all, or as few as can be."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStates:
    """The beliefs at the start of a run.

    `known` are states to go on from; all other objects are checked first, and `found` is what their
    check will most likely find. `changed` have another content than the journal's; `added` are not
    in the journal. `uncertain` are those whose state the journal has lost: stopped in a transition,
    or failed; not those that are in their `remove` state since their machine is not there: they are
    `away` where the journal says otherwise. `missed` are hosts that could not be reached the last
    time. `specs` and `applied` are redacted; a damaged record of what was applied raises StoreError
    when it is asked for. Jobs of `at_work` may not have ended on their hosts. `recorded` are the
    states that were known for certain last. `results` are what tasks have handed back.
    """

    known: Mapping[CobId, State]
    found: Mapping[CobId, State]
    applied: Mapping[CobId, Mapping[str, Any] | None]
    contents: Mapping[CobId, str]
    specs: Mapping[CobId, Mapping[str, Any]]
    changed: frozenset[CobId]
    added: frozenset[CobId]
    uncertain: frozenset[CobId]
    missed: frozenset[str]
    away: frozenset[CobId] = frozenset()
    at_work: frozenset[CobId] = frozenset()
    recorded: Mapping[CobId, State | None] = field(default_factory=dict)
    results: Results = field(default_factory=dict)


def known_states(
    graph: Graph,
    records: Mapping[CobId, CobRecord],
    *,
    refresh: Refresh = Refresh.CHANGED,
    contents: Mapping[CobId, str] | None = None,
    results: Results = MappingProxyType({}),
) -> KnownStates:
    """Compare the journal with the site; linear in objects.

    `contents` are the digests of all objects, where they were worked out before. By `results`,
    what tasks have handed back, an object is changed as well that has late values and would get
    others now than when it was applied.
    """
    contents = contents_of(graph) if contents is None else contents
    known: dict[CobId, State] = {}
    found: dict[CobId, State] = {}
    changed: set[CobId] = set()
    for cob, it in graph.cobs.items():
        record = records.get(cob)
        is_changed = record is not None and is_another(it, record, contents[cob], results)
        if is_changed:
            changed.add(cob)
        guess = _guess(record, it, is_changed=is_changed)
        if _is_known(record, it, guess, refresh, is_changed=is_changed):
            known[cob] = guess
        else:
            found[cob] = guess
    carried = put_on_machines(graph, known, found)
    written = {cob: records[cob] for cob in graph.cobs if cob in records}
    return KnownStates(
        known=known,
        found=found,
        applied=Lazy(written, lambda cob: written[cob].applied),
        contents=contents,
        specs=Lazy(graph.cobs, lambda cob: redact(dict(graph.cobs[cob].spec))),
        changed=frozenset(changed),
        added=frozenset(cob for cob in graph.cobs if cob not in records),
        uncertain=frozenset(
            cob
            for cob, record in written.items()
            if cob not in carried and not is_certain(record, graph.cobs[cob].type)
        ),
        missed=frozenset(host_of(cob) for cob, record in records.items() if not record.reachable),
        away=frozenset(cob for cob in carried if not _says(written.get(cob), known[cob])),
        at_work=frozenset(cob for cob, record in written.items() if record.at_work),
        recorded=Lazy(written, lambda cob: written[cob].recorded),
        results=results,
    )


def _says(record: CobRecord | None, state: State) -> bool:
    return record is not None and record.in_transition is None and record.state == state


def is_another(cob: Cob, record: CobRecord, content: str, results: Results) -> bool:
    """Say whether an object of this content is another one than the journal's record is of.

    So it is where its late values would be filled in otherwise than when it was applied; what is
    missing now is taken to be what it was, and so is that of which nothing is applied.
    """
    if not record.content or record.content != content:
        return bool(record.content)
    if not results or record.applied_json is None or not has_late_values(cob.spec):
        return False
    applied = record.applied
    filled, missing = fill_in(redact(dict(cob.spec)), results, known=applied)
    return not missing and filled != applied


def old_locks(
    graph: Graph,
    records: Mapping[CobId, CobRecord],
    locks: Iterable[Lock],
    *,
    whole: bool,
    given_up: AbstractSet[str] = frozenset(),
) -> tuple[tuple[Lock, ...], tuple[Lock, ...]]:
    """Return the locks of before that stay in force now, and those that are over.

    A lock whose holder takes part ends by itself when the holder has been checked. One whose holder
    does not (`whole` says that all of the site takes part, so the holder is gone) protects nothing,
    unless the holder may still be in transition. Locks on objects that do not take part are left
    alone while they may be needed. Those of and on hosts that are `given_up` are over.
    """
    held: list[Lock] = []
    dead: list[Lock] = []
    for lock in locks:
        locked, holder, _ = lock
        may_move = _may_move(records.get(holder))
        if locked in graph.cobs and (holder in graph.cobs or may_move):
            (held if given_up.isdisjoint(map(host_of, lock[:2])) else dead).append(lock)
        elif (whole and not may_move) or locked in graph.cobs:
            dead.append(lock)
    return tuple(held), tuple(dead)


def _may_move(record: CobRecord | None) -> bool:
    """Say whether a transition of an object may go on that nobody has seen the end of."""
    return record is not None and (record.in_transition is not None or record.state == UNKNOWN)


def _is_known(
    record: CobRecord | None, cob: Cob, guess: State, refresh: Refresh, *, is_changed: bool
) -> bool:
    """Say whether an object goes on from its guessed state without a check.

    With `Refresh.NONE` a changed one does, but for one that would be taken to be as it is wanted:
    its change would never be carried out.
    """
    if record is None or not record.reachable or not is_certain(record, cob.type):
        return False
    if is_changed:
        return refresh is Refresh.NONE and guess != cob.preferred
    return refresh is not Refresh.ALL


def is_certain(record: CobRecord, cob_type: CobType) -> bool:
    """Say whether the journal knows a state that the type has, and nothing is at work on it."""
    is_still = record.in_transition is None and not record.at_work
    return is_still and record.state in cob_type.states


def _guess(record: CobRecord | None, cob: Cob, *, is_changed: bool) -> State:
    """Say what a check will most likely find."""
    cob_type = cob.type
    if record is None:
        return OUTDATED if getattr(cob_type.check, "finds", ()) else cob_type.remove
    last = record.in_transition[0] if record.in_transition else record.state
    if last == UNKNOWN or last not in cob_type.states:
        last = cob.preferred if record.applied is not None else cob_type.remove
    return outdated_in(cob, last) if is_changed else last


def outdated_in(cob: Cob, state: State) -> State:
    """Return what a check finds of an object in `state` that an older content is applied of."""
    if state == cob.type.preferred and OUTDATED in cob.type.states:
        return OUTDATED
    if state == cob.want and STALE in cob.type.states:
        return STALE
    return state


def limited_hosts(desired: Desired, store: Store, before: KnownStates) -> frozenset[str]:
    """Return the hosts that a budget, of then or of now, may hold back where they have changes."""
    if not before.changed:
        return frozenset()
    budgets, past = list(desired.graph.budgets), Generations(store, desired.roots)
    for generation in sorted({past.active.get(host_of(cob), 0) for cob in before.changed}):
        site = past.site(generation)
        if site and site.has_limits and (found := past.find(generation)):
            budgets += found[1].budgets
    return frozenset(host_of(cob) for it in budgets for unit in it.units for cob in unit.members)


def lending_of(
    store: Store,
    contents: Mapping[CobId, str],
    records: Mapping[CobId, CobRecord],
    graph: Graph,
    *,
    anew: bool = False,
) -> Lending:
    """Return what is durable of budgets, without canaries where these are chosen `anew`."""
    if not graph.budgets:
        return Lending(given_up=store.given_up())
    members = {cob for it in graph.budgets for unit in it.units for cob in unit.members}
    served = {cob for cob in members if cob in records and _has_served(records[cob], graph)}
    canaries: dict[str, list[Canary]] = {}
    for it in () if anew else store.canaries():
        canary = Canary(frozenset(it.units), it.through, it.contents, it.covers)
        canaries.setdefault(it.limit, []).append(canary)
    return Lending(
        slots=store.slots(),
        canaries=canaries,
        contents=contents,
        served=frozenset(served),
        given_up=store.given_up(),
    )


def _has_served(record: CobRecord, graph: Graph) -> bool:
    """Say whether an object has served; before a limit had it, what is applied tells."""
    it = graph.cobs[record.cob]
    return record.served or (record.applied_json is not None and it.type.serves(it.preferred))
