"""What one step or one state of an object asks for.

`*` is matched where it is asked for and never expanded over the matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.model import CobId, LockNeed, State, TransitionNeed

__all__ = ["Wanted", "of_state", "of_step"]

Wanted = tuple[tuple[CobId, State], ...]
"""(object, state) pairs, sorted, without doubles."""


def of_step(needs: Sequence[TransitionNeed], source: State, dest: State) -> Wanted:
    """Return what one step asks for, of all transition dependencies of an object."""
    if len(needs) == 1:
        need = needs[0]
        return ((need.on, need.state),) if need.covers(source, dest) else ()
    return tuple(sorted({(need.on, need.state) for need in needs if need.covers(source, dest)}))


def of_state(needs: Sequence[LockNeed], state: State) -> Wanted:
    """Return what one state asks for, of all lock dependencies of an object."""
    return tuple(sorted({(need.on, need.state) for need in needs if need.covers(state)}))
