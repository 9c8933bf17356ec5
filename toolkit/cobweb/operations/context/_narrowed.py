"""Runs that move a few objects only: these, what they need, and nothing else.

All else of the site takes part: it lends its states and counts in limits. A host switches to the
goal generation if nothing is pending on it but what is moved; otherwise it stays in its base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cobweb._text import did_you_mean, some_of
from cobweb.errors import UsageError
from cobweb.model import OUTDATED, Cob, CobId, Graph, LockNeed, Need, Transition, host_of
from cobweb.operations.context._desired import Desired, Exceptions
from cobweb.operations.context._known_states import KnownStates, known_states
from cobweb.operations.context._removal import gone_of
from cobweb.operations.context._renames import pending_renames, with_renames
from cobweb.store import CobRecord, Store

_SHOWN = 5
"""How many objects are named."""


def check_known(desired: Desired, refs: Iterable[CobId]) -> None:
    """Raise UsageError for an object that is not in the site."""
    cobs = desired.graph.cobs
    for ref in sorted(refs):
        if ref not in cobs:
            hint = did_you_mean(ref, cobs, otherwise="see `cobweb show`")
            raise UsageError(f"there is no object {ref!r}", hint=hint)


def narrowed(
    desired: Desired, store: Store, records: Mapping[CobId, CobRecord], exceptions: Exceptions
) -> Desired:
    """Return what is desired where only the objects that are named, and what they need, are moved.

    `records` are all that the journal has. UsageError for an object that is not there or may not be
    renewed, and where a change of an object that is moved would have its host switch with others
    still pending on it.
    """
    only, renew = exceptions.only, exceptions.renew
    check_known(desired, only | renew)
    allowed = only or desired.movable
    if renew - allowed:
        cob, option = min(renew - allowed), "--only" if only else "--limit"
        raise UsageError(f"{cob} cannot be renewed: {option} leaves it out")
    if not only:
        return desired
    before, pending = _believed(desired, store, records)
    moved = _with_needs(desired.graph, before, only, renew)
    # What is moved on demand, and not asked for, holds no host back.
    pending &= moved | desired.movable | gone_of(desired, records)
    left_out = set(map(host_of, pending - moved))
    if mixed := left_out.intersection(map(host_of, pending & moved)):
        others = sorted(cob for cob in pending - moved if host_of(cob) in mixed)
        message = f"changes are pending on the same host: {some_of(others, _SHOWN)}"
        hint = "a host goes over to a generation with all of its changes: name these as well"
        raise UsageError(f"--only leaves out what cannot wait: {message}", hint=hint)
    return replace(desired, only=moved, chosen=frozenset(map(host_of, moved)) - left_out)


def refuse_pending(desired: Desired, store: Store, refs: AbstractSet[CobId]) -> None:
    """Raise UsageError where a restart would carry out a change, of these or of what they need."""
    check_known(desired, refs)
    store = with_renames(store, pending_renames(desired, store), 0)
    before, pending = _believed(desired, store, store.states())
    pending &= _with_needs(desired.graph, before, refs, refs)
    if pending:
        cob = min(pending, key=lambda it: (it not in refs, it))
        why = "" if cob in refs else ", which it needs,"
        options = "".join(f" --only {ref}" for ref in sorted(refs if cob in refs else {*refs, cob}))
        raise UsageError(
            f"a change of {cob}{why} is pending; a restart changes nothing",
            hint=f"bring it about with `cobweb apply{options}`",
        )


def _with_needs(
    graph: Graph, before: KnownStates, cobs: AbstractSet[CobId], renew: AbstractSet[CobId]
) -> frozenset[CobId]:
    """Return objects with all that their ways to where they should be need, and their machines.

    Also what has to make way for that, with what its own way there and back needs.
    """
    needs: dict[CobId, list[Need]] = {}
    for need in graph.needs:
        needs.setdefault(need.cob, []).append(need)
    todo = [(cob, graph.cobs[cob].preferred) for cob in sorted(cobs)]
    for cob in sorted(renew):  # what is renewed comes back from there
        kind = graph.cobs[cob].type
        todo.append((cob, OUTDATED if OUTDATED in kind.states else kind.remove))
    found = set(todo)
    while todo:
        cob, over = todo.pop()
        it = graph.cobs[cob]
        now = before.known.get(cob) or before.found[cob]
        steps = [*(it.type.way(now, over) or ()), *(it.type.way(over, it.preferred) or ())]
        asked = {it.machine: ""} if it.machine else {}
        asked |= {need.on: need.state for need in needs.get(cob, ()) if _matters(need, it, steps)}
        for on, state in asked.items():
            other = graph.cobs[on]
            place = (on, other.type.stands_for(state or other.preferred, other.preferred))
            if place not in found:
                found.add(place)
                todo.append(place)
    return frozenset(cob for cob, _ in found)


def _matters(need: Need, cob: Cob, steps: Iterable[Transition]) -> bool:
    """Say whether an object that takes these steps to its preferred state asks for a need."""
    if isinstance(need, LockNeed):
        return need.covers(cob.preferred)
    return any(need.covers(step.source, step.dest) for step in steps)


def _believed(
    desired: Desired, store: Store, records: Mapping[CobId, CobRecord]
) -> tuple[KnownStates, frozenset[CobId]]:
    """Return what is believed, and what is new, changed, or gone from the site."""
    before = known_states(
        desired.graph, records, contents=desired.evaluated.contents, results=store.results()
    )
    return before, before.added | before.changed | gone_of(desired, records)
