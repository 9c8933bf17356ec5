"""How the solver `cpsat` works: the most preferred layout at any size, by walking and covering.

Existing nodes choose first, group by group, then the new ones. In each group the layouts are
walked in the order of preference, and each gets the greatest count with which the rest can still
be completed from there on: counted from the front that is the lexicographic maximum. "With at
least this count" can only turn from yes to no as the count grows, so the count is found by
bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cobweb_plugins.solvers._answer import Assignment
from cobweb_plugins.solvers._atoms import Atoms, Places, bits, compile_atoms, places
from cobweb_plugins.solvers._cover import Cover, Verdict, Want
from cobweb_plugins.solvers._models import greatest_sets, solvable
from cobweb_plugins.solvers._order import Filter, Order, Position
from cobweb_plugins.solvers._parse import read
from cobweb_plugins.solvers._preference import solve_with
from cobweb_plugins.solvers._problem import (
    Existing,
    LayoutProblem,
    NodeLayout,
    Rank,
    by_rank,
)

Columns = list[tuple[Places, Sequence[int]]]


@dataclass(slots=True)
class Effort:
    """What a search took: layouts that were tried, branches looked at, questions to CP-SAT."""

    layouts: int = 0
    looks: int = 0
    asked: int = 0


def solve(
    template: Mapping[str, Any], constraints: Mapping[str, Any], rank: Rank
) -> dict[str, Any]:
    """Answer a question of the protocol; see `Solver.solve`.

    CobwebError without OR-tools, where a question comes to need them.
    """
    return solve_with(
        read(template, constraints, by_rank(rank)),
        lambda problem: most_preferred(problem, rank),
        lambda problem: feasible(problem, rank),
    )


def most_preferred(
    problem: LayoutProblem, rank: Rank, effort: Effort | None = None
) -> Assignment | None:
    """Return the most preferred layout; None if it is proven that there is none."""
    search = _Search(problem=problem, atoms=compile_atoms(problem, rank), effort=effort or Effort())
    return search.solve()


def feasible(problem: LayoutProblem, rank: Rank) -> bool:
    """Say whether there is a layout."""
    search = _Search(problem=problem, atoms=compile_atoms(problem, rank), effort=Effort())
    return search.feasible()


@dataclass(slots=True)
class _Search:
    problem: LayoutProblem
    atoms: Atoms
    effort: Effort
    places: list[Places] = field(init=False)
    cover: Cover = field(init=False)

    def __post_init__(self) -> None:
        self.places = places(self.problem, self.atoms)
        new = self.places[-1]
        order = Order(atoms=self.atoms, free=new.free, base=new.base)
        self.cover = Cover(atoms=self.atoms, place=new, order=order)

    def feasible(self) -> bool:
        """Say whether there is a layout."""
        if not all(self.atoms.counts) or not self.places[-1].possible:
            return False
        if any(not place.possible and not place.goes for place in self.places[:-1]):
            return False
        used = [0] * len(self.atoms.services)
        if self._chosen():
            return self._solvable([], self.places, used, self.problem.going)
        for place in self.places[:-1]:
            _add(used, place.nodes, place.base)
        return self.cover.verdict(self._want(used), _FIRST) is Verdict.YES

    def solve(self) -> Assignment | None:
        """Return the most preferred layout; None if there is none."""
        if not self.feasible():
            return None
        used = [0] * len(self.atoms.services)
        assignment: list[list[tuple[NodeLayout, int]]] = []
        going = self.problem.going
        for index, group in enumerate(self.problem.existing):
            chosen = self._existing(index, group, used, going)
            going -= group.count - sum(count for _, count in chosen)
            types = (group.layout.hardwaretype, group.layout.imagetype)
            assignment.append([(self.atoms.layout(mask, types), n) for mask, n in chosen])
        assignment.append(self._new(self._want(used)))
        self.effort.looks, self.effort.asked = self.cover.order.looks, self.cover.asked
        return assignment

    def _chosen(self) -> bool:
        """Say whether an existing node has a choice."""
        return any(place.free or place.goes for place in self.places[:-1])

    def _want(self, used: Sequence[int]) -> Want:
        """Return what new nodes are to do; what is on all of them counts from the start."""
        want = Want(nodes=self.problem.new, used=tuple(used))
        base = want.given(want.nodes, self.places[-1].base)
        return replace(base, nodes=want.nodes)

    def _existing(
        self, index: int, group: Existing, used: list[int], going: int
    ) -> list[tuple[int, int]]:
        """Return the sets of a group of existing nodes, with counts, and add them to `used`."""
        place = self.places[index]
        if not self._chosen():
            _add(used, place.nodes, place.base)
            return [(place.base, place.nodes)]
        chosen = []
        outcomes = place.outcomes(self.atoms, group)
        left = place.nodes
        later = sum(other.nodes for other in self.places[index + 1 :])
        for number, mask in enumerate(outcomes):
            tail = [outcome & ~place.base for outcome in outcomes[number:]]

            def completes(count: int, mask: int = mask, tail: list[int] = tail) -> bool:
                there = list(used)
                _add(there, count, mask)
                rest = replace(place, nodes=left - count)  # noqa: B023  # called within the round
                return self._solvable([(rest, tail)], self.places[index + 1 :], there, going)

            want = Want(nodes=left + later, used=tuple(used))
            most = min([left, *(want.spare(atom, self.atoms) for atom in bits(mask))])
            self.effort.layouts += 1
            count = _greatest(most, completes)
            if count:
                chosen.append((mask, count))
                _add(used, count, mask)
                left -= count
            if not left:
                break
        return chosen

    def _new(self, want: Want) -> list[tuple[NodeLayout, int]]:
        """Return the layouts of the new nodes, with counts."""
        chosen = []
        position: Position | None = None
        useless: tuple[int, ...] = ()
        while want.nodes:
            keep = self._filter(want, useless)
            position = self.cover.order.after(position, keep)
            assert position is not None, "the rest could be completed"
            count, verdict = self._count(want, position)
            self.effort.layouts += 1
            if count:
                mask = position.mask | self.places[-1].base
                chosen.append((self.atoms.layout(mask, self.atoms.types[position.kind]), count))
                want, useless = want.given(count, position.mask), ()
            elif verdict is Verdict.UNCOVERED and self._tells(position, keep):
                useless = (*useless, position.mask & keep.needed)
        return chosen

    def _count(self, want: Want, position: Position) -> tuple[int, Verdict]:
        """Return how many nodes can have a layout, and the verdict if none can."""
        verdicts = {}

        def completes(count: int) -> bool:
            verdicts[count] = self.cover.verdict(want.given(count, position.mask), position)
            return verdicts[count] is Verdict.YES

        spare = [want.spare(atom, self.atoms) for atom in bits(position.mask)]
        count = _greatest(min([want.nodes, *spare]), completes)
        return count, verdicts.get(1, Verdict.NO)

    def _filter(self, want: Want, useless: tuple[int, ...]) -> Filter:
        """Return what the next layout has to keep to, or the rest could not be completed."""
        needs = want.needs(self.atoms)
        assert needs is not None
        spare = {atom: want.spare(atom, self.atoms) for atom in bits(self.places[-1].free)}
        tight = [
            clique
            for clique in self.cover.cliques(needs)
            if sum(needs[atom] for atom in bits(clique)) == want.nodes
        ]
        scarce = not self.places[-1].base and all(n < want.nodes - 1 for n in spare.values())
        keep = Filter(
            allowed=sum(1 << atom for atom, count in spare.items() if count),
            touch=tuple(tight),
            needed=sum(1 << atom for atom, need in enumerate(needs) if need),
            useless=useless,
        )
        return replace(keep, most=sum(spare.values()) - want.nodes + 1) if scarce else keep

    def _tells(self, position: Position, keep: Filter) -> bool:
        """Say whether the failure of a set is that of all sets that serve no other needs.

        Not where it has an atom without need whose number goes by steps: that made a new need.
        """
        extra = position.mask & ~keep.needed
        return all(self.atoms.counts[atom].step == 1 for atom in bits(extra))

    def _solvable(
        self, first: Columns, later: Sequence[Places], used: Sequence[int], going: int
    ) -> bool:
        groups = [*first, *((place, self._columns(place)) for place in later if place.nodes)]
        groups = [
            (place if place.possible else replace(place, base=0, free=0), columns)
            for place, columns in groups
        ]
        self.effort.asked += 1
        return solvable(self.atoms, groups, used, going=going)

    def _columns(self, place: Places) -> list[int]:
        """Return the greatest sets of free atoms that nodes may have."""
        if not place.possible:
            return []
        everything = 1 << 30
        if place.types is not None:
            return list(greatest_sets(self.atoms, place.free, place.base, everything))
        found: set[int] = set()
        for fit in self.atoms.fits:
            found.update(greatest_sets(self.atoms, fit & place.free, 0, everything))
        return sorted(found)


_FIRST = Position(size=1 << 30, kind=0, mask=0)
"""Before every layout."""


def _greatest(most: int, completes: Callable[[int], bool]) -> int:
    """Return the greatest count up to `most` that completes; 0 is known to."""
    if most <= 0:
        return 0
    if completes(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2 if low else max(1, (low + high) // 4)
        if completes(middle):
            low = middle
        else:
            high = middle
    return low


def _add(used: list[int], count: int, mask: int) -> None:
    for atom in bits(mask):
        used[atom] += count
