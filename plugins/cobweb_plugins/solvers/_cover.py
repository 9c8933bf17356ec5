"""Whether the nodes that are left can still give every atom what it needs.

Families of sets are closed downwards, so this is only a question of covering: if at most as many
sets as there are nodes have each atom often enough, atoms that are there too often are taken away,
and a node with two atoms gives one to a node that has none. A clique of foes that needs more nodes
than there are says no; a greedy cover says yes; CP-SAT decides the rest, over the greatest sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from cobweb_plugins.solvers._atoms import Atoms, Places, bits, next_of
from cobweb_plugins.solvers._models import covered, greatest_sets, placed, solvable
from cobweb_plugins.solvers._order import Order, Position

FEW = 4000
"""Up to how many nodes times atoms CP-SAT places atoms on nodes, and does not count sets."""


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
        if fills and want.nodes * wanted.bit_count() <= FEW:
            yes = placed(self.atoms, needs, want.nodes, self._refusal(tail), size=tail.size)
            return Verdict.YES if yes else Verdict.UNCOVERED
        columns = self._columns(wanted, tail)
        if fills:
            return Verdict.YES if covered(needs, columns, want.nodes) else Verdict.UNCOVERED
        place = Places(nodes=want.nodes, base=0, free=wanted)
        yes = solvable(self.atoms, [(place, columns)], want.used, going=0)
        return Verdict.YES if yes else Verdict.NO

    def _refusal(self, tail: Position) -> Callable[[int], bool]:
        def refused(mask: int) -> bool:
            heavy = self.atoms.weight(mask) == tail.size
            return heavy and not self._in_tail(mask, tail)

        return refused

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


def _mask_of(needs: Sequence[int]) -> int:
    return sum(1 << atom for atom, need in enumerate(needs) if need)
