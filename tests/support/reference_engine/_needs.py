"""The needs of each object, found by transition and by state without a search.

Needs are grouped once by the dependent object; what one transition or one state asks for is worked
out when it is first asked for and kept. `*` is matched there and never expanded over the matrix.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from cobweb.model import Cob, CobId, LockNeed, Need, State, TransitionNeed

__all__ = ["NeedIndex", "Wanted"]

Wanted = tuple[tuple[CobId, State], ...]
"""(object, state) pairs, sorted, without doubles."""


class NeedIndex:
    """What each object needs; construction is linear in the needs of the `owned` objects."""

    __slots__ = ("_cache", "_cobs", "_locks", "_steps")

    def __init__(
        self, needs: Iterable[Need], owned: Container[CobId], cobs: Mapping[CobId, Cob]
    ) -> None:
        self._cobs = cobs
        self._steps: dict[CobId, list[TransitionNeed]] = {}
        self._locks: dict[CobId, list[LockNeed]] = {}
        self._cache: dict[tuple[CobId, State, State], Wanted] = {}
        for need in needs:
            if need.cob not in owned:
                continue
            if isinstance(need, TransitionNeed):
                self._steps.setdefault(need.cob, []).append(need)
            else:
                self._locks.setdefault(need.cob, []).append(need)

    def of_step(self, cob: CobId, source: State, dest: State) -> Wanted:
        """Return the transition dependencies of one step; () for most objects, at no cost."""
        if cob not in self._steps:
            return ()
        key = (cob, source, dest)
        if key not in self._cache:
            wanted = {(n.on, n.state) for n in self._steps[cob] if n.covers(source, dest)}
            self._cache[key] = self._agreed(wanted)
        return self._cache[key]

    def of_state(self, cob: CobId, state: State) -> Wanted:
        """Return the lock dependencies of one state."""
        if cob not in self._locks:
            return ()
        key = (cob, state, state)
        if key not in self._cache:
            wanted = {(n.on, n.state) for n in self._locks[cob] if n.covers(state)}
            self._cache[key] = self._agreed(wanted)
        return self._cache[key]

    def groups(self, cob: CobId) -> Mapping[str, tuple[State, ...]]:
        """Return the groups of states of an object's type."""
        return self._cobs[cob].type.groups

    def does(self, on: CobId, said: State, state: State) -> bool:
        """Say whether one word to an object is as good as another one."""
        members = self._cobs[on].type.members
        return set(members(said)) <= set(members(state))

    def _agreed(self, wanted: set[tuple[CobId, State]]) -> Wanted:
        """Put one word in place of all to an object, where there is one that is as good."""
        found = set()
        for on in {on for on, _ in wanted}:
            names = sorted(state for other, state in wanted if other == on)
            both = self._cobs[on].type.meet(names)
            found |= {(on, state) for state in (names if both is None else [both])}
        return tuple(sorted(found))
