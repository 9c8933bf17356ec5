"""The sets of atoms in the order of preference, found one after the other and never written out.

The next set after a given one is looked for depth-first, by number of services, then types, then
names; a branch is left as soon as nothing in it can be of use. Of the reasons for that, the exact
one is the heaviest set that is still possible (a weighted independent set, remembered per mask of
candidates); the others come from the state of the search: atoms that are used up, cliques of foes
that have to be served by every node that is left, and sets like one that has failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cobweb_plugins.solvers._atoms import Atoms, bits
from cobweb_plugins.solvers._errors import too_many

MAX_LOOKS = 5_000_000
"""How many branches are looked at in one search for a layout."""


@dataclass(frozen=True, slots=True, kw_only=True, order=False)
class Position:
    """A place in the order: number of free services, number of the types, the atoms."""

    size: int
    kind: int
    mask: int

    def reached(self, other: Position) -> bool:
        """Say whether `other` is here or after."""
        if (self.size, self.kind) != (other.size, other.kind):
            return (-self.size, self.kind) < (-other.size, other.kind)
        apart = self.mask ^ other.mask
        return not apart & -apart & other.mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a set has to keep to: atoms that it may have, masks of which it must have some each.

    `useless` are projections: a set that has of `needed` no more than one of them is of no use.
    `most` is the greatest number of atoms.
    """

    allowed: int
    touch: tuple[int, ...] = ()
    needed: int = 0
    useless: tuple[int, ...] = ()
    most: int = 1 << 30

    def hopeless(self, reach: int) -> bool:
        """Say whether no set within `reach` keeps to it."""
        if any(not mask & reach for mask in self.touch):
            return True
        projected = reach & self.needed
        return any(not projected & ~mask for mask in self.useless)


@dataclass(slots=True)
class Order:
    """Walks the valid sets of `free` atoms of new nodes in the order of preference."""

    atoms: Atoms
    free: int
    base: int
    looks: int = 0
    weights: tuple[int, ...] = field(init=False)
    _heaviest: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = tuple(len(names) for names in self.atoms.services)

    def position(self, mask: int) -> Position | None:
        """Return where a valid set is; None if no types fit it."""
        kind = self.atoms.kind(mask | self.base)
        if kind is None:
            return None
        return Position(size=self.atoms.weight(mask), kind=kind, mask=mask)

    def after(self, last: Position | None, keep: Filter) -> Position | None:
        """Return the first position after `last` whose set keeps to the filter."""
        fits = [fit & self.free & keep.allowed for fit in self.atoms.fits]
        size = max((self.heaviest(fit) for fit in fits), default=0)
        if last is not None:
            size = min(size, last.size)
        size = min(size, sum(sorted(self.weights, reverse=True)[: keep.most]))
        while size >= (0 if self.base else 1):
            for kind, fit in enumerate(fits):
                same_size = last is not None and size == last.size
                if last is not None and same_size and kind < last.kind:
                    continue
                past = last.mask if last is not None and same_size and kind == last.kind else None
                found = self._first(fit, kind, size, past, keep)
                if found is not None:
                    return Position(size=size, kind=kind, mask=found)
            size -= 1
        return None

    def heaviest(self, mask: int) -> int:
        """Return the most services of a valid set in `mask`, or more where sets of three matter."""
        known = self._heaviest.get(mask)
        if known is None and not mask:
            return 0
        if known is None:
            known = self._heaviest[mask] = self._weigh(mask)
        return known

    def _weigh(self, mask: int) -> int:
        foes, weights = self.atoms.foes, self.weights
        total, left, worst, degree = 0, mask, -1, 0
        for atom in bits(mask):
            around = foes[atom] & left
            if not left >> atom & 1:
                continue
            if not around:
                total += weights[atom]
                left &= ~(1 << atom)
            elif around & (around - 1) == 0 and weights[atom] >= weights[around.bit_length() - 1]:
                total += weights[atom]
                left &= ~(around | 1 << atom)
        if left != mask:
            return total + self.heaviest(left)
        for atom in bits(left):
            count = (foes[atom] & left).bit_count()
            if count > degree:
                worst, degree = atom, count
        rest = left & ~(1 << worst)
        return max(weights[worst] + self.heaviest(rest & ~foes[worst]), self.heaviest(rest))

    def _first(
        self, candidates: int, kind: int, size: int, past: int | None, keep: Filter
    ) -> int | None:
        """Return the first set of this size and kind, after the set `past`."""
        better = [fit & self.free for fit in self.atoms.fits[:kind]]
        stack = [(0, candidates, 0, past)]
        while stack:
            chosen, left, weight, after = stack.pop()
            self.looks += 1
            if self.looks > MAX_LOOKS:
                raise too_many(
                    f"more than {MAX_LOOKS:,} steps were needed", "ask for fewer services"
                )
            if self._dead_end(chosen, left, size - weight, better, keep):
                continue
            low = left & -left
            if after is not None and after & (low - 1) & ~chosen:
                after = None  # it has an atom that was passed over: all that follows comes later
            if not left:
                if after is None and weight == size:
                    return chosen
                continue
            atom = low.bit_length() - 1
            rest = left ^ low
            skipped = after is not None and not after & low
            stack.append((chosen, rest, weight, after if skipped else None))
            if not skipped and self.atoms.joins(atom, chosen | self.base):
                heavier = weight + self.weights[atom]
                stack.append((chosen | low, rest & ~self.atoms.foes[atom], heavier, after))
        return None

    def _dead_end(
        self, chosen: int, left: int, missing: int, better: list[int], keep: Filter
    ) -> bool:
        reach = chosen | left
        more = keep.most - chosen.bit_count()
        if missing < 0 or missing > more * max(self.weights) or keep.hopeless(reach):
            return True
        if any(not reach & ~fit for fit in better):
            return True
        return self.heaviest(left) < missing
