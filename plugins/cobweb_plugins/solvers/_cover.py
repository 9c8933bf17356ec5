"""Whether the nodes that are left can still give every atom what it needs.

Families of sets are closed downwards, so this is only a question of covering: if at most as many
sets as there are nodes have each atom often enough, atoms that are there too often are taken away,
and a node with two atoms gives one to a node that has none. A clique of foes that needs more nodes
than there are says no; a greedy cover says yes; CP-SAT decides the rest, over the greatest sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.solvers._atoms import Atoms, Places, bits, next_of
from cobweb_plugins.solvers._errors import too_many
from cobweb_plugins.solvers._order import Order, Position

__all__ = ["MAX_COLUMNS", "Cover", "Verdict", "Want", "greatest_sets", "solvable"]

MAX_COLUMNS = 100_000
"""How many greatest sets are handed to CP-SAT."""


class Verdict(Enum):
    """An answer, and why it is no: the needs cannot be covered, or something else."""

    YES = "yes"
    UNCOVERED = "uncovered"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is left to do: new nodes without a layout, and how many nodes each atom has so far."""

    nodes: int
    used: tuple[int, ...]

    def needs(self, atoms: Atoms) -> list[int] | None:
        """Return how many more nodes each atom needs at least; None if one has too many."""
        needs = [
            next_of(counts, used) for counts, used in zip(atoms.counts, self.used, strict=True)
        ]
        return None if None in needs else [need or 0 for need in needs]

    def spare(self, atom: int, atoms: Atoms) -> int:
        """Return how many more nodes an atom may have at most."""
        counts, used = atoms.counts[atom], self.used[atom]
        most = min(counts[-1], used + self.nodes)
        return max(0, most - (most - counts.start) % counts.step - used)

    def given(self, count: int, mask: int) -> Want:
        """Return what is left to do when some nodes get a set."""
        used = tuple(n + count * (mask >> atom & 1) for atom, n in enumerate(self.used))
        return Want(nodes=self.nodes - count, used=used)


@dataclass(slots=True)
class Cover:
    """Answers for the new nodes; `asked` counts the questions that only CP-SAT could answer."""

    atoms: Atoms
    place: Places
    order: Order
    asked: int = 0
    foes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        types = [
            sum(1 << kind for kind, fit in enumerate(self.atoms.fits) if fit >> atom & 1)
            for atom in range(len(self.atoms.services))
        ]
        self.foes = tuple(
            foes | sum(1 << b for b, other in enumerate(types) if not types[a] & other and a != b)
            for a, foes in enumerate(self.atoms.foes)
        )

    def verdict(self, want: Want, tail: Position) -> Verdict:
        """Say whether layouts from `tail` on can complete the cluster."""
        needs = want.needs(self.atoms)
        if needs is None:
            return Verdict.NO
        short = _mask_of(needs)
        if short & ~self.place.free or any(need > want.nodes for need in needs):
            return Verdict.UNCOVERED
        if short and self._too_few(needs, want.nodes, tail.size):
            return Verdict.UNCOVERED
        fills = self._fills(want, needs)
        if fills and self._greedy(needs, want.nodes, tail):
            return Verdict.YES
        self.asked += 1
        return self._exact(want, tail, needs, fills=fills)

    def cliques(self, needs: Sequence[int]) -> Iterator[int]:
        """Yield cliques of foes that need many nodes, each begun at another atom."""
        order = sorted((atom for atom, need in enumerate(needs) if need), key=lambda a: -needs[a])
        seen = set()
        for first in order:
            clique, around = 1 << first, self.foes[first]
            for atom in order:
                if around >> atom & 1:
                    clique |= 1 << atom
                    around &= self.foes[atom]
            if clique not in seen:
                seen.add(clique)
                yield clique

    def _too_few(self, needs: Sequence[int], nodes: int, size: int) -> bool:
        """Say whether some needs together are more than the nodes can serve."""
        weights = self.order.weights
        if sum(need * weights[atom] for atom, need in enumerate(needs)) > nodes * size:
            return True
        return any(sum(needs[a] for a in bits(c)) > nodes for c in self.cliques(needs))

    def _fills(self, want: Want, needs: Sequence[int]) -> bool:
        """Say whether no node needs to stay empty, by what may be added one by one; or unsure."""
        if self.place.base:
            return True
        total = sum(needs)
        for atom in bits(self.place.free):
            if self.atoms.counts[atom].step == 1:
                total += want.spare(atom, self.atoms) - needs[atom]
            if total >= want.nodes:
                return True
        return total >= want.nodes

    def _greedy(self, needs: Sequence[int], nodes: int, tail: Position) -> bool:
        """Look for a cover, the neediest atoms first; False says nothing."""
        left = list(needs)
        for _ in range(4 * len(needs) + 8):
            if not any(left):
                return True
            mask = self._fitting(left, tail)
            if not mask or nodes <= 0:
                return False
            others = max(
                (need for atom, need in enumerate(left) if not mask >> atom & 1), default=0
            )
            taken = min(*(left[atom] for atom in bits(mask)), max(1, nodes - others))
            for atom in bits(mask):
                left[atom] -= taken
            nodes -= taken
            if nodes < 0:
                return False
        return False

    def _fitting(self, left: Sequence[int], tail: Position) -> int:
        """Return a set of needy atoms from the tail."""
        mask, size, fits = 0, 0, (1 << len(self.atoms.fits)) - 1
        for atom in sorted(
            (a for a, need in enumerate(left) if need),
            key=lambda a: (-left[a], -self.foes[a].bit_count(), a),
        ):
            both = sum(1 << k for k in bits(fits) if self.atoms.fits[k] >> atom & 1)
            heavier = size + self.order.weights[atom]
            if not both or heavier > tail.size or not self.atoms.joins(atom, mask):
                continue
            if heavier == tail.size and not self._in_tail(mask | 1 << atom, tail):
                continue
            mask, size, fits = mask | 1 << atom, heavier, both
        return mask

    def _in_tail(self, mask: int, tail: Position) -> bool:
        position = self.order.position(mask)
        return position is not None and tail.reached(position)

    def _exact(self, want: Want, tail: Position, needs: Sequence[int], *, fills: bool) -> Verdict:
        wanted = _mask_of(needs)
        if not fills:
            for atom in bits(self.place.free):
                wanted |= (want.spare(atom, self.atoms) > 0) << atom
        columns = self._columns(wanted, tail)
        if fills:
            return Verdict.YES if _covered(needs, columns, want.nodes) else Verdict.UNCOVERED
        place = Places(nodes=want.nodes, base=0, free=wanted)
        yes = solvable(self.atoms, [(place, columns)], want.used, going=0)
        return Verdict.YES if yes else Verdict.NO

    def _columns(self, wanted: int, tail: Position) -> list[int]:
        """Return sets of the tail such that each of its sets of wanted atoms is in one of them."""
        found: set[int] = set()
        for fit in self.atoms.fits:
            for mask in greatest_sets(self.atoms, fit & wanted, 0, tail.size):
                if self._in_tail(mask, tail):
                    found.add(mask)
                else:
                    found.update(mask & ~(1 << atom) for atom in bits(mask))
        return sorted(mask for mask in found if mask)


def greatest_sets(atoms: Atoms, free: int, base: int, size: int) -> Iterator[int]:
    """Yield the valid sets of free atoms, beside base, that no atom can be added to.

    `size` bounds how many services they have; `MAX_COLUMNS` how many there are.
    """
    weights = [len(names) for names in atoms.services]
    stack = [(0, free, 0, 0)]
    count = 0
    while stack:
        chosen, left, out, weight = stack.pop()
        if not left:
            if any(
                weight + weights[a] <= size and atoms.joins(a, chosen | base) for a in bits(out)
            ):
                continue
            count += 1
            if count > MAX_COLUMNS:
                raise too_many(
                    f"more than {MAX_COLUMNS:,} sets of services matter", "ask for fewer services"
                )
            yield chosen
            continue
        low = left & -left
        atom = low.bit_length() - 1
        rest = left ^ low
        heavier = weight + weights[atom]
        if heavier > size or not atoms.joins(atom, chosen | base):
            stack.append((chosen, rest, out, weight))
            continue
        foes = atoms.foes[atom]
        full = weight + sum(weights[a] for a in bits(left)) > size
        if foes & rest or full or any(apart & low for apart in atoms.apart):
            stack.append((chosen, rest, out | low, weight))
        stack.append((chosen | low, rest & ~foes, out, heavier))


def solvable(
    atoms: Atoms,
    groups: Sequence[tuple[Places, Sequence[int]]],
    used: Sequence[int],
    *,
    going: int,
) -> bool:
    """Say whether the nodes of all groups can be given sets within their columns; by CP-SAT.

    A column is a set of free atoms; a node has its group's base and any part of one column, but
    not nothing. `used` are nodes that atoms have already, `going` how many nodes go.
    """
    model = _cp_model().CpModel()
    totals: list[list[Any]] = [[count] for count in used]
    stays = []
    for place, columns in groups:
        low = 0 if place.goes else place.nodes
        staying = model.new_int_var(low, place.nodes, "")
        stays.append(staying)
        counts = [model.new_int_var(0, place.nodes, "") for _ in columns]
        model.add(sum(counts) == staying)
        placed = []
        for atom in bits(place.free):
            having = [c for c, column in zip(counts, columns, strict=True) if column >> atom & 1]
            some = model.new_int_var(0, place.nodes, "")
            model.add(some <= sum(having))
            placed.append(some)
            totals[atom].append(some)
        if not place.base:
            model.add(sum(placed) >= staying)
        for atom in bits(place.base):
            totals[atom].append(staying)
    if any(place.goes for place, _ in groups):
        model.add(sum(stays) == sum(place.nodes for place, _ in groups) - going)
    for atom, parts in enumerate(totals):
        domain = _cp_model().Domain.from_values(atoms.counts[atom])
        if atoms.counts[atom].step == 1 and atoms.counts[atom]:
            domain = _cp_model().Domain(atoms.counts[atom][0], atoms.counts[atom][-1])
        model.add_linear_expression_in_domain(sum(parts), domain)
    return _solved(model)


def _covered(needs: Sequence[int], columns: Sequence[int], nodes: int) -> bool:
    model = _cp_model().CpModel()
    counts = [
        model.new_int_var(0, min(nodes, max(needs[atom] for atom in bits(column))), "")
        for column in columns
    ]
    model.add(sum(counts) <= nodes)
    for atom, need in enumerate(needs):
        if need:
            having = [c for c, column in zip(counts, columns, strict=True) if column >> atom & 1]
            model.add(sum(having) >= need)
    return _solved(model)


def _solved(model: Any) -> bool:
    cp_model = _cp_model()
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    assert status in {cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE}, status
    return bool(status != cp_model.INFEASIBLE)


def _cp_model() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise CobwebError(
            "this question needs OR-tools", hint="pip install 'cobweb[cluster]'"
        ) from error
    return cp_model


def _mask_of(needs: Sequence[int]) -> int:
    return sum(1 << atom for atom, need in enumerate(needs) if need)
