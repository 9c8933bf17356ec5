"""Which objects an order may have to move, in parts that have nothing to do with each other.

The cone begins with the objects that are not where they should be. Who may move may ask for all
that its steps and locks need. Who is asked for the state that it is in, and should stay there,
need not move; but then a lock on it may ask for more. Who moves and is a member of a budget waits
for room: so do the members that are not where they should be, and those that do not serve may have
to make room. Everything else is a constant for the search. Linear in the needs and the
memberships of the cone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from cobweb.engine.search._problem import Problem
from cobweb.model import Budget, CobId, LockNeed, Need


def parts(problem: Problem) -> tuple[tuple[CobId, ...], ...]:
    """Return the parts of the cone of all unsettled objects, sorted, by first object."""
    cone = _Cone(problem)
    for cob in dict.fromkeys(problem.unsettled()):
        cone.move(cob, cob)
    cone.run()
    found: dict[CobId, list[CobId]] = {}
    for cob in sorted(cone.moving):
        found.setdefault(cone.root(cob), []).append(cob)
    return tuple(map(tuple, found.values()))


class _Cone:
    """The closure under way; `moving` are its objects, joined to parts by `_parent`.

    `_asked` has the (asker, state) for which an object that may still stay was asked.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.moving: set[CobId] = set()
        self._parent: dict[CobId, CobId] = {}
        self._asked: dict[CobId, list[CobId]] = {}
        self._locks: dict[CobId, list[LockNeed]] = {}
        self._stack: list[CobId] = []
        self._shared: dict[str, CobId] = {}

    def move(self, cob: CobId, asker: CobId) -> None:
        """Let an object be one of those that move, in the part of another one."""
        if cob not in self.moving:
            self.moving.add(cob)
            self._parent[cob] = cob
            self._stack.append(cob)
        self._join(cob, asker)

    def run(self) -> None:
        """Follow needs and budgets until nothing is added."""
        while self._stack:
            cob = self._stack.pop()
            for asker in self._asked.get(cob, ()):
                self._join(cob, asker)
            for need in self._problem.needs.get(cob, ()):
                self._ask(cob, need)
            for budget in self._budgets_of.get(cob, ()):
                self._share(cob, budget)

    def root(self, cob: CobId) -> CobId:
        """Return the object that stands for a part."""
        while self._parent[cob] != cob:
            self._parent[cob] = cob = self._parent[self._parent[cob]]
        return cob

    def _join(self, one: CobId, other: CobId) -> None:
        self._parent[self.root(one)] = self.root(other)

    def _ask(self, asker: CobId, need: Need) -> None:
        """Ask what is needed, and what a lock on one that stays depends on."""
        stack, seen = [need], set[CobId]()
        while stack:
            asked = stack.pop()
            on = asked.on
            if on in self.moving:
                self._join(on, asker)
            elif self._problem.movable(on) and not self._stays(asked):
                self.move(on, asker)
            else:
                self._asked.setdefault(on, []).append(asker)
                if on not in seen:
                    seen.add(on)
                    stack += self._dependencies(on)

    def _stays(self, need: Need) -> bool:
        """Say whether who is needed helps nobody by moving: it is where it is needed.

        Where a lock on it depends on others, another state of the group may do without them.
        """
        on, state = need.on, self._problem.states[need.on]
        members = self._problem.graph.cobs[on].type.members(need.state)
        if state not in members or self._problem.goal(on) != state:
            return False
        return members == (state,) or not self._dependencies(on)

    def _dependencies(self, cob: CobId) -> list[LockNeed]:
        """Return what a lock on an object depends on in the state that it is in."""
        if cob not in self._locks:
            state = self._problem.states[cob]
            self._locks[cob] = [
                need
                for need in self._problem.needs.get(cob, ())
                if isinstance(need, LockNeed) and need.covers(state)
            ]
        return self._locks[cob]

    def _share(self, cob: CobId, budget: Budget) -> None:
        """Join all who want room of a budget, or may make some."""
        if budget.name in self._shared:
            self._join(self._shared[budget.name], cob)
            return
        self._shared[budget.name] = cob
        problem = self._problem
        for each in _members(budget):
            if each not in problem.states or not problem.movable(each):
                continue
            it, state = problem.graph.cobs[each], problem.states[each]
            if problem.goal(each) != state or not problem.standing.serves(it, state, budget.group):
                self.move(each, cob)

    @cached_property
    def _budgets_of(self) -> Mapping[CobId, list[Budget]]:
        found: dict[CobId, list[Budget]] = {}
        for budget in self._problem.budgets:
            for each in _members(budget):
                found.setdefault(each, []).append(budget)
        return found


def _members(budget: Budget) -> Iterator[CobId]:
    for unit in budget.units:
        yield from sorted(unit.members)
