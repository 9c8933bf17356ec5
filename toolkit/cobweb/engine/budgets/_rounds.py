"""Fresh knowledge: nothing goes out on the word of the journal (design, section 5b, P7).

Before a slot is lent, all that count as serving in its budgets, and those on whose states the
departure relies, were checked no longer ago than the budget trusts, or in one round of checks that
was begun for this departure, however long that takes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable

from cobweb.engine._machine import Machine
from cobweb.engine._node import CHECKING, IDLE, Node
from cobweb.engine.budgets._departures import Departure
from cobweb.engine.budgets._units import BudgetBook, UnitBook
from cobweb.model import Budget, CobId

NEVER = float("-inf")
"""When something was checked that never was."""


class _Ages:
    """The members of a budget that it relies on: the one that was checked longest ago first.

    `active` are those of them at which something is under way.
    """

    def __init__(self, book: BudgetBook) -> None:
        self._group = book.budget.group
        members = {node.id: node for unit in book.units for node in unit.members}
        self._nodes = [*members.values()]
        self._places = {cob: at for at, cob in enumerate(members)}
        self._moments: list[float] = []  # of checks, sorted; some may be nobody's any more
        self._checked: dict[float, set[int]] = {}
        self._times: dict[CobId, float] = {}
        self.active: set[CobId] = set()

    def update(self, machine: Machine, node: Node) -> None:
        """Count a member anew."""
        cob = node.id
        before = self._times.pop(cob, None)
        if before is not None:
            self._checked[before].discard(self._places[cob])
        self.active.discard(cob)
        working = machine.working
        if node.absent or (cob in working.served and not working.serves(node, self._group)):
            return
        if node.activity is not IDLE:
            self.active.add(cob)
            return
        moment = self._times[cob] = machine.checked_s.get(cob, NEVER)
        if moment not in self._checked:
            insort(self._moments, moment)
        self._checked.setdefault(moment, set()).add(self._places[cob])

    def older(self, since_s: float) -> list[Node]:
        """Return who was checked before that time and is at rest."""
        moments = self._moments[: bisect_left(self._moments, since_s)]
        empty = [moment for moment in moments if not self._checked[moment]]
        for moment in empty:
            del self._checked[moment], self._moments[bisect_left(self._moments, moment)]
        return [self._nodes[at] for it in moments for at in sorted(self._checked.get(it, ()))]


class Rounds:
    """The rounds of checks that are under way."""

    def __init__(self, machine: Machine, books: Iterable[BudgetBook]) -> None:
        self._machine = machine
        self._ages = {book.budget.name: _Ages(book) for book in books}
        self._checking: set[CobId] = set()
        self._of_budget: Counter[str] = Counter()

    @property
    def busy(self) -> set[str]:
        """The names of the budgets of which members are being checked."""
        return {name for name, number in self._of_budget.items() if number}

    @property
    def closed(self) -> set[str]:
        """The names of those besides in which nothing is known now: a member is under way."""
        return self.busy.union(name for name, ages in self._ages.items() if ages.active)

    def update(self, node: Node) -> None:
        """Take note that the state or the activity of an object has changed, or that it is gone."""
        names = _budgets_of(node)
        for name in names:
            self._ages[name].update(self._machine, node)
        if node.id in self._checking and node.activity is not CHECKING:
            self._checking.discard(node.id)
            self._of_budget.subtract(names)

    def is_known(self, asks: Departure, need: list[UnitBook], began_s: float) -> bool:
        """Say whether what a departure relies on was checked lately; if not, have it checked.

        What was checked since `began_s` is known, however long the other checks take. Of a member
        that is silent its budget knows that it is out; nobody relies on any other silent object.
        """
        machine, is_known = self._machine, True
        trusts = {unit.book.budget.name: self.trust(unit.book.budget) for unit in need}
        for name, trust_s in sorted(trusts.items()):
            ages = self._ages[name]
            is_known = is_known and not ages.active
            for node in ages.older(min(began_s, machine.now_s - trust_s)):
                is_known = not self._has_checked(node) and is_known
        since_s = min(began_s, machine.now_s - min(trusts.values()))
        for node in asks.relied:
            if node.absent or machine.expected(node) != node.state:
                continue  # it is not in the state that is relied on
            if node.activity is not IDLE or not node.up:
                is_known = False
            elif machine.checked_s.get(node.id, NEVER) < since_s:
                is_known = not self._has_checked(node) and is_known
        return is_known

    def _has_checked(self, node: Node) -> bool:
        """Have an object checked whose host answers; say whether it does."""
        if not node.up or node.late:
            return False
        self._machine.check(node)
        self._checking.add(node.id)
        self._of_budget.update(_budgets_of(node))
        return True

    def trust(self, budget: Budget) -> float:
        """Return for how many seconds a budget trusts a check."""
        own = budget.trust_s
        return self._machine.settings.trust_s if own is None else own


def _budgets_of(node: Node) -> list[str]:
    assert node.standing is not None
    return [unit.book.budget.name for unit in node.standing.units]
