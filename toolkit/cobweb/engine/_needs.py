"""What one step or one state of an object asks for.

`*` is matched where it is asked for and never expanded over the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cobweb.model import Cob, CobId, LockNeed, State, TransitionNeed

Wanted = tuple[tuple[CobId, State], ...]
"""(object, state or group) pairs, sorted, without doubles."""


def of_step(needs: Sequence[TransitionNeed], source: State, dest: State) -> Wanted:
    """Return what one step asks for, of all transition dependencies of an object."""
    if len(needs) == 1:
        need = needs[0]
        return ((need.on, need.state),) if need.covers(source, dest) else ()
    return tuple(sorted({(need.on, need.state) for need in needs if need.covers(source, dest)}))


def of_state(needs: Sequence[LockNeed], state: State) -> Wanted:
    """Return what one state asks for, of all lock dependencies of an object."""
    return tuple(sorted({(need.on, need.state) for need in needs if need.covers(state)}))


def agreed(wanted: Wanted, cobs: Mapping[CobId, Cob] | None) -> Wanted:
    """Put one pair in place of several for one object, where a state or group satisfies them all.

    Only groups make that possible: two states of one object are as far apart as ever. Without
    `cobs` there are none.
    """
    if cobs is None:
        return wanted
    names: dict[CobId, list[State]] = {}
    for on, state in wanted:
        names.setdefault(on, []).append(state)
    if len(names) == len(wanted):
        return wanted
    found: list[tuple[CobId, State]] = []
    for on, states in names.items():
        both = cobs[on].type.meet(states)
        found.extend((on, state) for state in (states if both is None else [both]))
    return tuple(found)
