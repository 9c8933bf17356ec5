"""The third stage of the Coopr paper: how many nodes of each layout, the most preferred first.

Counts are tried from as many as possible of the most preferred layout downwards; where no cluster
comes of it, one node is taken from the last layout that has any and given to those after it. So
counts are visited in lexicographic order, and the first that fits is the most preferred. Whole
runs of counts are skipped that no cluster can come of: those with more nodes of a service than may
have it, and those that leave a service short that no later layout has, or more often than nodes
are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cobweb_plugins.solvers._choices import GONE, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Per group the number of nodes of each choice; None if no cluster fits. `explored`: effort."""

    counts: tuple[tuple[int, ...], ...] | None
    explored: int


def search(groups: Sequence[Group], steps: Mapping[str, range]) -> Found:
    """Find the lexicographically greatest counts that give each service an allowed number.

    The cost is exponential in the number of choices; `explored` counts the steps.
    """
    if not all(steps.values()):
        return Found(counts=None, explored=0)
    walk = _Walk(groups=groups, steps=steps)
    explored = 0
    while True:
        explored += 1
        if walk.complete():
            return Found(counts=walk.counts(), explored=explored)
        if not walk.descend() and not walk.give_way():
            return Found(counts=None, explored=explored)


@dataclass(slots=True)
class _Walk:
    """Where the search is: `taken` holds (position, count) for the layouts that have nodes."""

    groups: Sequence[Group]
    steps: Mapping[str, range]
    uses: list[tuple[str, ...]] = field(init=False)
    ends: list[int] = field(init=False)
    last: dict[str, int] = field(init=False)
    used: dict[str, int] = field(init=False)
    left: list[int] = field(init=False)
    taken: list[tuple[int, int]] = field(init=False, default_factory=list)
    position: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.uses, self.ends, self.last = [], [], {}
        for group in self.groups:
            for choice in group.choices:
                uses = choice.services if choice else (GONE,)
                self.last.update(dict.fromkeys(uses, len(self.uses)))
                self.uses.append(uses)
            self.ends.append(len(self.uses))
        self.used = dict.fromkeys(self.steps, 0)
        self.left = [group.nodes for group in self.groups]

    def complete(self) -> bool:
        """Say whether all nodes have a layout and all services an allowed number of nodes."""
        return not any(self.left) and all(
            self.used[name] in counts for name, counts in self.steps.items()
        )

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """Return how many nodes have each choice, per group."""
        chosen = dict(self.taken)
        return tuple(
            tuple(chosen.get(place, 0) for place in range(start, end))
            for start, end in zip([0, *self.ends], self.ends, strict=False)
        )

    def descend(self) -> bool:
        """Give as many nodes as possible to the next layout that may have any; False: none may."""
        while self.position < len(self.uses) and self._hopeful():
            group = self._group(self.position)
            if not self.left[group]:
                self.position = self.ends[group]
                continue
            if any(self.left[:group]):
                return False
            uses = self.uses[self.position]
            count = min(self.left[group], *(self.steps[n][-1] - self.used[n] for n in uses))
            self.position += 1
            if count > 0:
                self._move(self.position - 1, count)
                self.taken.append((self.position - 1, count))
                return True
        return False

    def give_way(self) -> bool:
        """Take a node from the last layout that has any, to give it to those after it."""
        if not self.taken:
            return False
        position, count = self.taken.pop()
        self._move(position, -1)
        if count > 1:
            self.taken.append((position, count - 1))
        self.position = position + 1
        return True

    def _hopeful(self) -> bool:
        """Say whether the layouts from here on can still give each service what it needs."""
        nodes = sum(self.left)
        for name, counts in self.steps.items():
            short = counts[0] - self.used[name]
            if short > 0 and (short > nodes or self.last.get(name, -1) < self.position):
                return False
        return True

    def _group(self, position: int) -> int:
        return next(index for index, end in enumerate(self.ends) if position < end)

    def _move(self, position: int, count: int) -> None:
        self.left[self._group(position)] -= count
        for name in self.uses[position]:
            self.used[name] += count
