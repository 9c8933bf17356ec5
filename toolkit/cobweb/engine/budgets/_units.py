"""What budgets count: units, which of them should serve, which are out (design, section 5b).

A member *counts* from when it has served until it is gone; in a unit of which a counting member was
taken out, a new member counts as well. A unit *should serve* while a member counts; it is *out*
while one that counts does not serve, or is in a transition that interrupts or leaves serving. A
unit that is out, or has a slot, takes room in its budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from cobweb.engine._node import MOVING, Node
from cobweb.engine.analysis._circles import reached
from cobweb.model import UNKNOWN, Budget, CobId, Need, State, Transition, Unit, host_of


class Working:
    """Who works for its users, as far as states alone do not say.

    `served` are members that have served and are not gone. `prior` are objects of unknown state
    that count as serving until their check says otherwise: their content is new (True), or the run
    only asks again. `still` has, for objects that only their new content made to be in a state that
    does not serve by their type, that state: they serve until they leave it.
    """

    def __init__(self) -> None:
        self.served: set[CobId] = set()
        self.prior: dict[CobId, bool] = {}
        self.still: dict[CobId, State] = {}

    def serves(self, node: Node, group: str = "") -> bool:
        """Say whether an object works for its users now, or is in a state of a group."""
        step = node.step
        if step is not None and node.activity is MOVING:
            return not self.goes_out(node, step, group) and node.type.serves(step.source, group)
        if not node.up:
            return False
        if node.state == UNKNOWN:
            return node.id in self.prior
        return self.serves_in(node, node.state, group)

    def serves_in(self, node: Node, state: State, group: str = "") -> bool:
        """Say whether it would, at rest in a state."""
        return node.type.serves(state, group) or self.still.get(node.id) == state

    def goes_out(self, node: Node, step: Transition, group: str = "") -> bool:
        """Say whether a step takes an object that serves out, for good or for its own time."""
        kind = node.type
        if kind.serves(step.source, group):
            return step.interrupts or not kind.serves(step.dest, group)
        return self.still.get(node.id) == step.source


@dataclass(slots=True, eq=False)
class Standing:
    """What an object is to the budgets: the units it is a member of, and whose scopes it is in."""

    units: list[UnitBook] = field(default_factory=list)
    scopes: list[UnitBook] = field(default_factory=list)


class UnitBook:
    """One unit of one budget.

    `rank` orders units where a slot is lent. `hosts` are those of its members. `held`: it has a
    slot; `began`: something of its scope has changed since, `moved`: by a transition. `asker` is
    whose step it has the slot for, in which state, where that is not a step of its own scope;
    `lent_for` the unit whose turn it was when this one got its slot.
    `skipped`: it had a slot and could do nothing with it. `departures` are the steps that took
    members out with this slot (None: in an earlier run). It was `found_out` once. `last` is the
    epoch of the last end of a transition in its scope. `waiting` are the objects of its scope that
    may not move yet. As it was counted last, `counted` are the members that count, `idle` those of
    them that do not serve; `had_departures` then.

    Where engines share a budget, `far` are the members that others own and `far_scope` the rest of
    its scope there. What the lender was told of them: `far_takes` room, `far_should` serve. What
    was told before the round `since` counts no more.
    """

    def __init__(self, book: BudgetBook, unit: Unit, index: int, members: list[Node]) -> None:
        self.book = book
        self.name = unit.name
        self.domains = unit.domains
        self.members = members
        self.hosts = sorted({node.cob.host for node in members})
        self.scope: list[Node] = []
        self.rank = (unit.order, index)
        self.held = self.began = self.moved = self.skipped = False
        self.departures: dict[CobId, Transition | None] = {}
        self.should = self.out = self.leaving = self.found_out = False
        self.counted, self.idle, self.had_departures = set[CobId](), set[CobId](), False
        self.last = 0
        self.asker: tuple[Node, State] | None = None
        self.lent_for: UnitBook | None = None
        self.waiting: dict[CobId, Node] = {}
        self.far: tuple[CobId, ...] = ()
        self.far_scope: tuple[CobId, ...] = ()
        self.far_takes = self.far_should = False
        self.since = 0

    @property
    def takes_room(self) -> bool:
        """Whether it counts against the bound."""
        return self.held or self.far_takes or (self.out and self.should)

    @property
    def key(self) -> tuple[str, str]:
        """The name of the budget and its own."""
        return self.book.budget.name, self.name

    def users(self) -> list[Node]:
        """Return for whose steps it has, or had, its slot."""
        return [*self.scope] if self.asker is None else [*self.scope, self.asker[0]]


class BudgetBook:
    """One budget: how much room is taken, all together and by domain.

    Of units that are `doubted` the lender has not been told all that it has asked for.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.units: list[UnitBook] = []
        self.doubted: dict[str, UnitBook] = {}
        self.population = self.taken = 0
        self.populations: dict[str, int] = {}
        self.takens: dict[str, int] = {}

    def update(self, unit: UnitBook, working: Working, changed: Node | None = None) -> None:
        """Count a unit anew by the members that are here, or by the one that has `changed`."""
        self._add(unit, -1)
        some = unit.members
        if changed is not None and not (unit.departures or unit.had_departures):
            some = [changed]
        else:
            unit.counted.clear()
            unit.idle.clear()
            unit.leaving = all(node.leaves for node in unit.members)
        unit.had_departures = bool(unit.departures)
        for node in some:
            counts = node.id in working.served or (unit.had_departures and not node.absent)
            serves = not counts or working.serves(node, self.budget.group)
            (unit.counted.add if counts else unit.counted.discard)(node.id)
            (unit.idle.discard if serves else unit.idle.add)(node.id)
        unit.should, unit.out = bool(unit.counted), bool(unit.idle)
        unit.found_out = unit.found_out or unit.out
        self._add(unit, 1)

    def hold(self, unit: UnitBook, *, held: bool) -> None:
        """Give a unit a slot, or take it back."""
        self._add(unit, -1)
        unit.held = held
        self._add(unit, 1)

    def tell(self, unit: UnitBook, *, takes: bool, should: bool, doubt: bool) -> None:
        """Count a unit anew by what was told of its members elsewhere."""
        self._add(unit, -1)
        unit.far_takes, unit.far_should = takes, should
        self._add(unit, 1)
        if doubt:
            self.doubted[unit.name] = unit
        else:
            self.doubted.pop(unit.name, None)

    @property
    def has_spare(self) -> bool:
        """Whether one more unit might be out, of some domain."""
        budget = self.budget
        if budget.percent is not None or not self.populations:
            return self.taken < budget.bound(self.population)
        return any(self._taken(domain) < budget.count for domain in self.populations)

    @property
    def is_over(self) -> bool:
        """Whether more units take room than may, of some domain."""
        budget = self.budget
        if budget.percent is not None or not self.populations:
            return self.taken > budget.bound(self.population)
        return any(taken > budget.count for taken in self.takens.values())

    def has_room(self, units: Iterable[UnitBook], doubted: Iterable[UnitBook] = ()) -> bool:
        """Say whether, with these lent as well, the units that are out are at most the bound.

        Those that are `doubted` count as out.
        """
        more = [unit for unit in units if not unit.takes_room]
        more += [unit for unit in doubted if not unit.takes_room and unit not in more]
        return all(
            self._taken(domain) + sum(not domain or domain in unit.domains for unit in more)
            <= bound
            for domain, bound in self._bounds(units)
        )

    def can_hold(self, units: Iterable[UnitBook]) -> bool:
        """Say whether these alone may be out at the same time."""
        units = tuple(units)
        return all(
            sum(not domain or domain in unit.domains for unit in units) <= bound
            for domain, bound in self._bounds(units)
        )

    def _bounds(self, units: Iterable[UnitBook]) -> Iterator[tuple[str, int]]:
        """Yield the bounds that count for these units, by domain; "" is all units together."""
        budget = self.budget
        domains = sorted({domain for unit in units for domain in unit.domains})
        if budget.percent is not None or not domains:
            yield "", budget.bound(self.population)
        for domain in domains:
            yield domain, budget.bound(self.populations.get(domain, 0))

    def _taken(self, domain: str) -> int:
        return self.takens.get(domain, 0) if domain else self.taken

    def _add(self, unit: UnitBook, sign: int) -> None:
        """Count a unit as it stands, or no more; a percentage is taken of those that live on."""
        takes = unit.takes_room
        lives = (unit.should and not unit.leaving) or unit.far_should
        if lives:
            self.population += sign
        if takes:
            self.taken += sign
        for domain in unit.domains:
            if lives:
                self.populations[domain] = self.populations.get(domain, 0) + sign
            if takes:
                self.takens[domain] = self.takens.get(domain, 0) + sign


def mates_of(unit: UnitBook, units: Iterable[UnitBook]) -> list[UnitBook]:
    """Return those of some units that are in the same budget as this one, itself included."""
    return [it for it in units if it.book is unit.book]


def book_of(
    budget: Budget, nodes: Mapping[CobId, Node], given_up: AbstractSet[str], *, is_shared: bool
) -> BudgetBook:
    """Return the book of a budget, with units that have a member here; none of given-up hosts.

    One that engines share has all its units.
    """
    book = BudgetBook(budget)
    for index, unit in enumerate(budget.units):
        found = (nodes.get(cob) for cob in sorted(unit.members))
        members = [n for n in found if n is not None and n.cob.host not in given_up]
        far = unit.members - nodes.keys() if is_shared else frozenset()
        if members or far:
            book.units.append(UnitBook(book, unit, index, members))
            book.units[-1].far = tuple(sorted(it for it in far if host_of(it) not in given_up))
    return book


def give_standing(
    nodes: Mapping[CobId, Node], books: Iterable[BudgetBook], shared: Iterable[Need] = ()
) -> None:
    """Tell each object which units concern it: as a member, by scope, or by what it may ask for.

    Whom these may ask in turn is known to the lender as well: a departure relies on them. `shared`
    are the needs of all engines where the budgets are of all.
    """
    near: dict[CobId, set[CobId]] = {}
    tie(near, shared)
    askers: dict[CobId, list[CobId]] = {}
    for node in nodes.values():
        tie(near, node.needs)
        for need in node.needs:
            askers.setdefault(need.on, []).append(need.cob)
    concerned = {cob for book in books for cob, _ in book.budget.during}
    for book in books:
        for unit in book.units:
            for member in unit.members:
                _standing(member).units.append(unit)
            scope = tied((*(node.id for node in unit.members), *unit.far), near)
            unit.far_scope = tuple(sorted(scope.difference(nodes, unit.far)))
            for cob in sorted(cob for cob in scope if cob in nodes):  # not all nodes for each unit
                unit.scope.append(nodes[cob])
                _standing(nodes[cob]).scopes.append(unit)
                concerned.add(cob)
    concerned = reached(concerned, lambda cob: askers.get(cob, ()))
    here = concerned & nodes.keys()
    for cob in reached(here, lambda cob: (it.on for it in nodes[cob].needs if it.on in nodes)):
        _standing(nodes[cob])


def tie(near: dict[CobId, set[CobId]], needs: Iterable[Need]) -> None:
    """Note of the two objects of each need that they are near each other."""
    for need in needs:
        near.setdefault(need.cob, set()).add(need.on)
        near.setdefault(need.on, set()).add(need.cob)


def _standing(node: Node) -> Standing:
    if node.standing is None:
        node.standing = Standing()
    return node.standing


def tied(members: Iterable[CobId], near: Mapping[CobId, set[CobId]]) -> set[CobId]:
    """Return the members of a unit and all on its hosts that needs tie to them, either way."""
    members = set(members)
    hosts = set(map(host_of, members))
    return reached(members, lambda cob: (it for it in near.get(cob, ()) if host_of(it) in hosts))
