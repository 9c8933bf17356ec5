"""A layout problem in bit masks: atoms, what keeps them apart, and what each group may be.

Services that must coexist are one atom: it is on a node whole or not at all. Atoms are numbered by
their first service; a set of atoms is a mask. Every family of masks here is closed downwards: what
is left of a valid set when atoms are taken away is valid too. The whole method rests on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cobweb_plugins.solvers._errors import too_many
from cobweb_plugins.solvers._problem import (
    Existing,
    LayoutProblem,
    NodeLayout,
    Rank,
    order_of_outcome,
)

MAX_OUTCOMES = 1 << 16
"""How many ways of what an existing node may become are written out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atoms:
    """The atoms of a problem, by number.

    `counts` are the numbers of nodes that may have each. `foes` are the atoms that cannot be on a
    node with it, `apart` sets of three and more that cannot be on a node all together. `types` are
    the types of new nodes by preference, and `fits` the atoms that may be on each; of these, pairs
    are left out on which nothing can be that cannot be on a preferred pair.
    """

    services: tuple[tuple[str, ...], ...]
    counts: tuple[range, ...]
    foes: tuple[int, ...]
    apart: tuple[int, ...]
    dead: int
    types: tuple[tuple[str, str], ...]
    fits: tuple[int, ...]

    def weight(self, mask: int) -> int:
        """Return how many services a set has."""
        return sum(len(self.services[atom]) for atom in bits(mask))

    def joins(self, atom: int, mask: int) -> bool:
        """Say whether an atom can be added to a valid set."""
        if self.foes[atom] & mask:
            return False
        whole = mask | 1 << atom
        return not any(apart >> atom & 1 and apart & whole == apart for apart in self.apart)

    def valid(self, mask: int) -> bool:
        """Say whether atoms can be on one node, as far as they themselves are concerned."""
        if mask & self.dead or any(apart & mask == apart for apart in self.apart):
            return False
        return not any(self.foes[atom] & mask for atom in bits(mask))

    def kind(self, mask: int) -> int | None:
        """Return the number of the preferred types of a new node with these atoms."""
        return next((kind for kind, fit in enumerate(self.fits) if mask & ~fit == 0), None)

    def layout(self, mask: int, types: tuple[str, str]) -> NodeLayout:
        """Return the layout of a node with these atoms and types."""
        names = sorted(name for atom in bits(mask) for name in self.services[atom])
        return NodeLayout(hardwaretype=types[0], imagetype=types[1], services=tuple(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Nodes that choose alike: each has `base` and may have of `free` whatever is valid with it.

    `possible` is False where nothing is. `types` are those of existing nodes, None for new ones.
    `goes`: a node may also go.
    """

    nodes: int
    base: int
    free: int
    possible: bool = True
    types: tuple[str, str] | None = None
    goes: bool = False

    def outcomes(self, atoms: Atoms, group: Existing) -> list[int]:
        """Return what an existing node may become, the most preferred first."""
        if not self.possible:
            return []
        assert self.types is not None
        key = order_of_outcome(group, lambda layout: layout.services)
        masks = list(_subsets(atoms, self.base, self.free))
        types = self.types
        return sorted((m for m in masks if m), key=lambda mask: key(atoms.layout(mask, types)))


def compile_atoms(problem: LayoutProblem, rank: Rank) -> Atoms:
    """Return the atoms of a problem."""
    services = _joined(problem)
    number = {name: atom for atom, names in enumerate(services) for name in names}
    foes, apart, dead = [0] * len(services), [], 0
    for names in problem.cant:
        mask = _mask(number[name] for name in names)
        first, *others = bits(mask)
        if not others:
            dead |= mask
        elif len(others) == 1:
            foes[first] |= 1 << others[0]
            foes[others[0]] |= 1 << first
        else:
            apart.append(mask)
    types, fits = _fits(problem, services, rank)
    return Atoms(
        services=services,
        counts=tuple(_counts(problem, names) for names in services),
        foes=tuple(foes),
        apart=tuple(apart),
        dead=dead,
        types=types,
        fits=tuple(fit & ~dead for fit in fits),
    )


def places(problem: LayoutProblem, atoms: Atoms) -> list[Places]:
    """Return where nodes may be put: groups of existing ones in their order, then the new ones."""
    return [*(_existing(problem, atoms, group) for group in problem.existing), _new(problem, atoms)]


def next_of(counts: range, used: int) -> int | None:
    """Return how many more nodes an atom needs at least to have an allowed number of them."""
    if not counts or used > counts[-1]:
        return None
    if used <= counts[0]:
        return counts[0] - used
    return -(used - counts[0]) % counts.step


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the atoms in a mask, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _joined(problem: LayoutProblem) -> tuple[tuple[str, ...], ...]:
    """Join the services of must-coexist sets that share one; atoms are sorted by first service."""
    atoms = {name: frozenset([name]) for name in problem.services}
    for together in problem.must:
        whole = frozenset().union(*(atoms[name] for name in together))
        atoms.update(dict.fromkeys(whole, whole))
    return tuple(sorted(tuple(sorted(atom)) for atom in set(atoms.values())))


def _counts(problem: LayoutProblem, names: Sequence[str]) -> range:
    """Return the numbers of nodes that all services of an atom may have."""
    common = problem.rules[names[0]].counts()
    for name in names[1:]:
        other = problem.rules[name].counts()
        if common.step == other.step == 1:
            common = range(max(common.start, other.start), min(common.stop, other.stop))
            continue
        both = [count for count in common if count in other]
        step = both[1] - both[0] if len(both) > 1 else 1
        common = range(both[0], both[-1] + 1, step) if both else range(0)
    return common


def _fits(
    problem: LayoutProblem, services: Sequence[Sequence[str]], rank: Rank
) -> tuple[tuple[tuple[str, str], ...], tuple[int, ...]]:
    pairs = [(hw, image) for hw in problem.hardwaretypes for image in problem.imagetypes]
    found: list[tuple[tuple[str, str], int]] = []
    for pair in sorted(pairs, key=lambda pair: rank(*pair)):
        fit = _allowed(problem, services, pair)
        if not any(fit & ~better == 0 for _, better in found):
            found.append((pair, fit))
    return tuple(pair for pair, _ in found), tuple(fit for _, fit in found)


def _allowed(
    problem: LayoutProblem, services: Sequence[Sequence[str]], pair: tuple[str, str]
) -> int:
    return _mask(
        atom
        for atom, names in enumerate(services)
        if all(problem.rules[name].allows(*pair) for name in names)
    )


def _existing(problem: LayoutProblem, atoms: Atoms, group: Existing) -> Places:
    before = frozenset(group.layout.services)
    kept, reach = before - group.may_lose, before | group.may_gain
    types = (group.layout.hardwaretype, group.layout.imagetype)
    fit = _allowed(problem, atoms.services, types) & ~atoms.dead
    whole = _mask(a for a, names in enumerate(atoms.services) if reach.issuperset(names)) & fit
    base = _mask(a for a, names in enumerate(atoms.services) if kept & frozenset(names))
    possible = kept <= frozenset(problem.services) and not base & ~whole and atoms.valid(base)
    free = _mask(a for a in bits(whole & ~base) if possible and atoms.joins(a, base))
    return Places(
        nodes=group.count,
        base=base,
        free=free,
        possible=possible and bool(base | free),
        types=types,
        goes=problem.going > 0,
    )


def _new(problem: LayoutProblem, atoms: Atoms) -> Places:
    """Return the new nodes; what nothing keeps from any of them is on all of them."""
    everywhere = -1
    for fit in atoms.fits:
        everywhere &= fit
    bound = 0
    for mask in atoms.apart:
        bound |= mask
    whole = 0
    base = 0
    for atom, counts in enumerate(atoms.counts):
        one = 1 << atom
        if any(fit & one for fit in atoms.fits):
            whole |= one
        full = counts.step == 1 and bool(counts) and counts[-1] >= problem.nodes
        if atoms.fits and everywhere & one and not atoms.foes[atom] and not bound & one and full:
            base |= one
    return Places(
        nodes=problem.new, base=base, free=whole & ~base, possible=bool(whole) or not problem.new
    )


def _subsets(atoms: Atoms, base: int, free: int) -> Iterator[int]:
    """Yield base with each valid set of free atoms."""
    found = [base]
    for atom in bits(free):
        found += [mask | 1 << atom for mask in found if atoms.joins(atom, mask)]
        if len(found) > MAX_OUTCOMES:
            raise too_many(
                f"an existing node may become more than {MAX_OUTCOMES:,} things",
                "let existing nodes gain and lose fewer services at once",
            )
    yield from found


def _mask(atoms: Iterable[int]) -> int:
    mask = 0
    for atom in atoms:
        mask |= 1 << atom
    return mask
