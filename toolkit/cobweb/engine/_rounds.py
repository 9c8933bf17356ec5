"""Fresh knowledge: nothing goes out on the word of the journal (design, section 5b, P7).

Before a slot is lent, all that count as serving in its budgets, and those on whose states the
departure relies, were checked no longer ago than the budget trusts, or in one round of checks that
was begun for this departure, however long that takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cobweb.engine._departures import Departure
from cobweb.engine._machine import Machine
from cobweb.engine._node import CHECKING, IDLE, Node
from cobweb.engine._units import UnitBook
from cobweb.model import Budget, CobId

__all__ = ["Rounds"]


class Rounds:
    """The rounds of checks that are under way."""

    __slots__ = ("_checking", "_machine", "_of_budget")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._checking: set[CobId] = set()
        self._of_budget: Counter[str] = Counter()

    @property
    def busy(self) -> set[str]:
        """The names of the budgets of which members are being checked."""
        return {name for name, number in self._of_budget.items() if number}

    def update(self, node: Node) -> None:
        """Take note that the activity of an object has changed."""
        if node.id in self._checking and node.activity is not CHECKING:
            self._checking.discard(node.id)
            self._of_budget.subtract(_budgets_of(node))

    def is_known(self, asks: Departure, need: list[UnitBook], began_s: float) -> bool:
        """Say whether what a departure relies on was checked lately; if not, have it checked.

        What was checked since `began_s` is known, however long the other checks take.
        """
        machine, is_known = self._machine, True
        for node, trust_s in self._relied(asks, need):
            at = machine.checked_s.get(node.id)
            is_fresh = at is not None and (at >= began_s or machine.now_s - at <= trust_s)
            if node.activity is not IDLE:
                is_known = False
            elif not is_fresh and node.up and not node.late:
                is_known = False
                machine.check(node)
                if node.standing is not None and node.activity is CHECKING:
                    self._checking.add(node.id)
                    self._of_budget.update(_budgets_of(node))
        return is_known

    def _relied(self, asks: Departure, need: list[UnitBook]) -> Iterator[tuple[Node, float]]:
        """Yield on whom a departure relies, and how old a check of them may be."""
        machine, working = self._machine, self._machine.working
        books = {unit.book.budget.name: unit.book for unit in need}
        trusts = [self._trust(books[name].budget) for name in sorted(books)]
        for name in sorted(books):
            book, trust_s = books[name], self._trust(books[name].budget)
            for unit in book.units:
                for node in unit.members:
                    is_out = node.id in working.served and not working.serves(
                        node, book.budget.group
                    )
                    if not node.absent and not is_out:
                        yield node, trust_s
        for node in asks.relied:
            if not node.absent and machine.expected(node) == node.state:
                yield node, min(trusts)

    def _trust(self, budget: Budget) -> float:
        own = budget.trust_s
        return self._machine.settings.trust_s if own is None else own


def _budgets_of(node: Node) -> list[str]:
    assert node.standing is not None
    return [unit.book.budget.name for unit in node.standing.units]
