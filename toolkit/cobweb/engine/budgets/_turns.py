"""Which units are to be looked at when slots are lent, and in which order.

A unit is looked at again when something has changed that its plan depends on. Who waits for room
stays, and costs nothing as long as its budget has none: only who takes room already may go on then.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet

from cobweb.engine.budgets._capacity import Key
from cobweb.engine.budgets._units import BudgetBook, UnitBook

Rank = tuple[int, int, tuple[int, float, str], int, str]
"""When the turn of a unit comes: 0 if it is out, the place of its hosts, its order, its name."""


class Turns:
    """The units that wait for a look, by budget."""

    def __init__(self, units: Mapping[Key, UnitBook]) -> None:
        self._units = units
        self._order: dict[str, list[Rank]] = {name: [] for name, _ in units}
        self._ranks: dict[Key, Rank] = {}

    def add(self, unit: UnitBook, rank: Rank) -> bool:
        """Have a unit looked at; say whether it was not to be, or at another turn."""
        if self._ranks.get(unit.key) == rank:
            return False
        self.drop(unit)
        self._ranks[unit.key] = rank
        insort(self._order[unit.key[0]], rank)
        return True

    def drop(self, unit: UnitBook) -> None:
        """Have a unit not looked at before something changes for it."""
        rank = self._ranks.pop(unit.key, None)
        if rank is not None:
            order = self._order[unit.key[0]]
            del order[bisect_left(order, rank)]

    def of(
        self, book: BudgetBook, closed: Collection[str], held: AbstractSet[Key], *, full: bool
    ) -> Iterator[tuple[Rank, UnitBook]]:
        """Yield the units of a budget in order; unless `full` none that would find no room.

        Those of `closed` budgets find none. `held` are the units with a slot.
        """
        name = book.budget.name
        for rank in tuple(self._order[name]):
            if not full and rank[0] and (name in closed or not book.has_spare):
                waiting = self._ranks.keys() & held
                late = sorted(self._ranks[key] for key in waiting if key[0] == name)
                yield from ((it, self._units[name, it[-1]]) for it in late if it >= rank)
                return
            yield rank, self._units[name, rank[-1]]
