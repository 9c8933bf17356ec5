"""What a search is asked: a graph, where everything is, and what cannot or may not move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cobweb.model import UNKNOWN, Budget, Cob, CobId, Graph, Need, State, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What budgets know of objects besides their states.

    `counting` has, by the name of a budget, the members that have served, or count for another
    reason; one that serves counts anyway. `serving` are objects that serve in the state given
    there, whatever their type says, as those do that only new content has made outdated. `leaving`
    are objects that are gone for good in their `remove` state, and are in no population. `owed` are
    (budget, unit) that are out, whatever state their members are in.
    """

    counting: Mapping[str, Collection[CobId]] = field(default_factory=dict)
    serving: Mapping[CobId, State] = field(default_factory=dict)
    leaving: Collection[CobId] = ()
    owed: Collection[tuple[str, str]] = ()

    def serves(self, cob: Cob, state: State, group: str = "") -> bool:
        """Say whether an object works for its users in a state, or is in a state of a group."""
        if self.serving.get(cob.id) == state:
            return True
        return state != UNKNOWN and cob.type.serves(state, group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Where the objects of a graph are, and where they should be.

    `states` has every object. Who is without a goal should be where it is: who only makes way comes
    back. `needs` are those of each object that has some, and `budgets` those that hold. An object
    in `fixed`, or of unknown state, does not move: it failed, is lost, is not selected. Where `may`
    is given it says which steps may be taken at all (those that a canary lets through, say).
    """

    graph: Graph
    states: Mapping[CobId, State]
    needs: Mapping[CobId, Sequence[Need]]
    budgets: tuple[Budget, ...]
    goals: Mapping[CobId, State] = field(default_factory=dict)
    fixed: Collection[CobId] = ()
    standing: Standing = field(default_factory=Standing)
    may: Callable[[CobId, Transition], bool] | None = None

    def movable(self, cob: CobId) -> bool:
        """Say whether an object may take any step."""
        return cob not in self.fixed and self.states[cob] != UNKNOWN

    def goal(self, cob: CobId) -> State:
        """Return where an object should be."""
        return self.goals.get(cob, self.states[cob])

    def unsettled(self) -> tuple[CobId, ...]:
        """Return who is not where it should be and may move, by sorted id; asks every object."""
        found = (cob for cob, goal in self.goals.items() if self.states[cob] != goal)
        return tuple(sorted(cob for cob in found if self.movable(cob)))


def by_cob(needs: Iterable[Need]) -> dict[CobId, list[Need]]:
    """Return the needs of each object that has some, in their order."""
    found: dict[CobId, list[Need]] = {}
    for need in needs:
        found.setdefault(need.cob, []).append(need)
    return found
