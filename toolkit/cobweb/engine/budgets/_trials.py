"""Canaries: some units go first, and the others follow when these have stood (section 5b).

Budgets that share members share one canary: the largest `first`, the longest `pause`. The chosen
units are told by the hosts and objects of their scopes. A canary that fails stays open: nothing of
the other units changes, in this run or a later one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import cached_property

from cobweb.engine._machine import Machine
from cobweb.engine._node import Node
from cobweb.engine._values import Canary
from cobweb.engine.budgets._units import BudgetBook, UnitBook, tie, tied
from cobweb.model import CobId, Graph, Unit, host_of


class Contents:
    """The contents of all objects in the goal, as digests; {} where nobody has told them.

    What the verdict of a canary is about are those in the scopes of units.
    """

    def __init__(self, contents: Mapping[CobId, str], graph: Graph) -> None:
        self._contents = contents
        self._graph = graph

    def of(self, units: Iterable[Unit]) -> str:
        """Return a digest of what is in the scopes of units in the goal, "" for nothing."""
        found = set[CobId]()
        for unit in units if self._contents else ():
            found |= tied(unit.members & self._contents.keys(), self._near)
        text = "".join(f"{cob} {self._contents[cob]}\n" for cob in sorted(found))
        return hashlib.sha256(text.encode()).hexdigest() if text else ""

    @cached_property
    def _near(self) -> Mapping[CobId, set[CobId]]:
        """Whom the needs of the goal tie to each object."""
        near: dict[CobId, set[CobId]] = {}
        tie(near, (it for it in self._graph.needs if self._contents.keys() >= {it.cob, it.on}))
        return near


class TrialStage(StrEnum):
    """How far a canary has come."""

    OUT = "out"  # not all of it is home
    PAUSED = "paused"
    CHECKED = "checked"
    THROUGH = "through"  # or there is none to wait for


class Trial:
    """The canary of budgets that share members; `lead` is the one that asks for most units.

    `lost` are units that went first and are on given-up hosts: nobody can say any more whether they
    stand, so the canary stays open. `round` is the one of the lead, where engines share it, in
    which the canary was last checked. While it is `undecided`, since `began_s`, nobody goes first
    yet.
    """

    def __init__(self, machine: Machine, books: list[BudgetBook], contents: Contents) -> None:
        self._machine = machine
        self._contents = contents
        self.books = books
        self.lead = max(books, key=lambda it: it.budget.first)
        self.pause_s = max(book.budget.pause_s for book in books)
        self.stage = TrialStage.THROUGH
        self.chosen: list[UnitBook] = []
        self.lost: frozenset[str] = frozenset()
        self.round = 0
        self.began_s = 0.0
        self.undecided = False
        self._hosts = {node.cob.host for unit in self.units for node in unit.scope}
        self._scope: set[CobId] = set()
        self._mine: set[str] = set()

    @property
    def name(self) -> str:
        """The name of the budget that the canary belongs to."""
        return self.lead.budget.name

    @property
    def is_open(self) -> bool:
        """Whether others have to wait for it."""
        return self.stage is not TrialStage.THROUGH

    @property
    def units(self) -> list[UnitBook]:
        """All units of its budgets."""
        return [unit for book in self.books for unit in book.units]

    @property
    def value(self) -> Canary:
        """What is durable of it."""
        names = self.lost.union(it.name for it in self.chosen)
        return self._value(names, through=self.stage is TrialStage.THROUGH)

    def _value(self, names: frozenset[str], *, through: bool) -> Canary:
        first = (it for it in self.lead.budget.units if it.name in names)
        every = (it for book in self.books for it in book.budget.units)
        return Canary(
            units=names,
            through=through,
            contents=self._contents.of(first),
            covers=self._contents.of(every) if through else "",
        )

    def is_about(self, before: Canary) -> bool:
        """Say whether the canary of an earlier run, of which a unit is left, has these contents."""
        is_left = any(it.name in before.units for it in self.lead.budget.units)
        return is_left and before == self._value(before.units, through=before.through)

    def go_on(self, before: Canary, given_up: AbstractSet[str]) -> None:
        """Have those go first who did in an earlier run; who is gone by now is home."""
        here = {unit.name for unit in self.lead.units}
        self.lost = frozenset(
            unit.name
            for unit in self.lead.budget.units
            if unit.name in before.units - here
            and not given_up.isdisjoint(map(host_of, unit.members))
        )
        self.choose(it for it in self.lead.units if it.name in before.units)
        self.stage = TrialStage.THROUGH if before.through else TrialStage.OUT

    def choose(self, units: Iterable[UnitBook]) -> None:
        """Have these units go first; where there are none, there is no canary.

        With them go those on whose new content they rely, the hosts that can only switch together
        with all these, or before them, and what these have to have removed before.
        """
        self.chosen = list(units)
        self._scope = {node.id for unit in self.chosen for node in unit.scope}
        self._mine = set(map(host_of, self._scope))
        hosts = self._machine.hosts
        for _ in range(2):  # those who go along may have company as well
            if hosts is None:
                break
            self._mine.update([it for host in self._mine for it in hosts.company(host)])
            there = (node for host in self._mine for node in self._machine.on_host(host))
            self._scope = hosts.relied(self._scope.union(it.id for it in there if it.removed))
            self._mine.update(map(host_of, self._scope))
        self.stage = TrialStage.OUT if self.chosen else TrialStage.THROUGH

    def refuses_host(self, host: str) -> bool:
        """Say whether a host has to wait for the canary with its switch."""
        return self.is_open and host in self._hosts and host not in self._mine

    def refuses(self, node: Node) -> bool:
        """Say whether a change of an object has to wait for the canary."""
        return self.is_open and node.id not in self._scope

    def refuses_unit(self, unit: UnitBook) -> bool:
        """Say whether nothing of a unit's scope is in that of the canary."""
        return self.is_open and all(map(self.refuses, unit.scope))


def trials_of(machine: Machine, books: Iterable[BudgetBook], contents: Contents) -> list[Trial]:
    """Return the canaries of budgets, one for each set of them that share members."""
    parts: list[tuple[set[CobId], list[BudgetBook]]] = []
    for book in books:
        members = {node.id for unit in book.units for node in unit.members}
        members.update(cob for unit in book.units for cob in unit.far)
        shared = [part for part in parts if part[0] & members]
        parts = [part for part in parts if not part[0] & members]
        members.update(*(other for other, _ in shared))
        parts.append((members, [*(it for _, some in shared for it in some), book]))
    return [
        Trial(machine, sorted(some, key=lambda it: it.budget.name), contents)
        for _, some in parts
        if any(book.budget.first for book in some)
    ]
