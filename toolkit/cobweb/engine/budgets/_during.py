"""States that are held while units of a budget are out: a flag, a silence (section 5b, during).

Before the first slot is lent, the objects that a budget names are asked into their state; nothing
moves them from there before the last unit is home, or all is at rest and none is out. Whoever is
out at the end leaves them where they are, for the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from cobweb.engine._machine import Machine
from cobweb.engine._node import IDLE, STAY, Node
from cobweb.engine.budgets._departures import Departure
from cobweb.engine.budgets._units import BudgetBook, UnitBook
from cobweb.model import CobId, State


class During:
    """What the budgets of a lender hold; `homes` are the goals of the objects that are held."""

    def __init__(self, machine: Machine, books: Iterable[BudgetBook]) -> None:
        self._machine = machine
        self._books = [book for book in books if book.budget.during]
        self._homes: dict[CobId, State] = {}
        self._held: list[BudgetBook] = []
        self._in_vain: dict[str, object] = {}

    def open(self, is_to_lend: Callable[[BudgetBook], bool]) -> None:
        """Go on with what an earlier run has left held: a unit is out, or has still to go out."""
        for book in self._books:
            is_set = all(node.state == state for node, state in self._of(book))
            if any(it.held for it in book.units) or (is_set and (book.taken or is_to_lend(book))):
                self._hold(book)

    def are_held(self, units: Iterable[UnitBook]) -> bool:
        """Have what the budgets of units name go to its state; say whether it is there."""
        books = {unit.key[0]: unit.book for unit in units}
        pairs = {pair for book in books.values() for pair in book.budget.during}
        if len(dict(pairs)) < len(pairs):
            return False  # an object in two states
        for book in books.values():
            if book in self._books and self._in_vain.get(book.budget.name) != self._stand(book):
                self._hold(book)
        return all(self.lacking(book) is None for book in books.values())

    def lacking(self, book: BudgetBook) -> tuple[Node, State] | None:
        """Return an object that is not in the state in which a budget wants it held."""
        for node, state in self._of(book):
            if node.state != state or not node.known or node.activity is not IDLE:
                return node, state
        return None

    def relied(self, asks: Departure, units: Iterable[UnitBook]) -> Departure:
        """Return a departure that relies on what is held for its units as well."""
        held = [node for unit in units for node, _ in self._of(unit.book)]
        return replace(asks, relied=[*asks.relied, *held]) if held else asks

    def holder(self, node: Node) -> BudgetBook | None:
        """Return the budget that holds an object."""
        return next((it for it in self._held if node.id in dict(it.budget.during)), None)

    def hold_again(self) -> None:
        """Go on holding objects that have another goal since their host has switched."""
        for book in self._held:
            for node, _ in self._of(book):
                self._aim(node)

    def let_go(self, books: Iterable[BudgetBook]) -> bool:
        """Have what these budgets held go home, or where others want it; say if they held any.

        What is not there then is not asked for again before something of it has changed.
        """
        gone = [book for book in books if book in self._held]
        self._held = [book for book in self._held if book not in gone]
        for book in gone:
            is_lacking = self.lacking(book) is not None
            self._in_vain[book.budget.name] = self._stand(book) if is_lacking else None
            for node, _ in self._of(book):
                self._aim(node)
        return bool(gone)

    @property
    def idle(self) -> list[BudgetBook]:
        """The budgets that hold something while none of their units takes room."""
        return [book for book in self._held if not book.taken]

    def _of(self, book: BudgetBook) -> Iterator[tuple[Node, State]]:
        for cob, state in book.budget.during:
            node = self._machine.nodes.get(cob)
            if node is not None and not node.gone and not node.leaves:
                yield node, state

    def _stand(self, book: BudgetBook) -> object:
        return [(node.state, node.stuck, node.up, node.absent) for node, _ in self._of(book)]

    def _hold(self, book: BudgetBook) -> None:
        if book not in self._held:
            self._held.append(book)
            for node, _ in self._of(book):
                self._aim(node)

    def _aim(self, node: Node) -> None:
        """Have an object go where it is held, or home; of several budgets the first one says."""
        book = None if node.absent else self.holder(node)
        state = "" if book is None else dict(book.budget.during)[node.id]
        if state not in node.type.states:
            state = ""
        if node.goal != node.held:
            self._homes[node.id] = node.cob.preferred if node.goal == STAY else node.goal
        if state or node.held:
            node.held = state
            node.aim(state or self._homes[node.id])
            self._machine.touch(node)
