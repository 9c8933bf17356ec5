"""What would have to go out for something to be done (design, section 5b, occupied and lent).

A step asks others to be in some states, these ask others on their way, and so on. Whoever stands in
such a state already is relied on; whoever does not has to move, and may have to leave serving. So
one walk over types and needs says which units a change takes out, before anything is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cobweb.engine._machine import Machine
from cobweb.engine._needs import agreed, of_state, of_step
from cobweb.engine._node import STAY, Node
from cobweb.engine._tables import TypeTable
from cobweb.engine.analysis._circles import reached
from cobweb.engine.budgets._units import UnitBook
from cobweb.model import OUTDATED, UNKNOWN, CobId, CobType, State, Transition


@dataclass(slots=True, eq=False)
class Way:
    """A way that an object has before it, by a type; it serves in `still` although that says no."""

    node: Node
    table: TypeTable
    source: State
    dest: State
    still: State = ""

    def stay_serving(self, kind: CobType) -> None:
        """Have the object serve where only its new content will have made it outdated."""
        if not kind.serves(OUTDATED):
            self.still = OUTDATED


def way_of(machine: Machine, node: Node, step: Transition) -> Way:
    """Return the way of an object that is at rest and has one step before it."""
    still = machine.working.still.get(node.id, "")
    return Way(node, node.table, node.state, step.dest, still)


@dataclass(slots=True, eq=False)
class Departure:
    """Which units go out for a change, by name, on whom it relies, and who was looked at."""

    units: list[UnitBook]
    relied: list[Node]
    seen: set[CobId]


NOTHING = Departure([], [], set())
"""Of what asks nobody out: nothing, whatever becomes of others."""


def departure(machine: Machine, ways: Iterable[Way]) -> Departure:
    """Return what has to go out for these ways to be gone; linear in what they ask for."""
    some = tuple(ways)
    return NOTHING if _ask_nobody_out(machine, some) else _Walk(machine).of(some)


def _ask_nobody_out(machine: Machine, ways: Iterable[Way]) -> bool:
    """Say whether nothing goes out for these ways, as far as they and types alone tell it."""
    working = machine.working
    if machine.hosts is not None or machine.renewing or working.prior or working.still:
        return False  # types do not say all of who works
    if machine.asking_out is None:
        machine.asking_out = _asking_out(machine)
    if not machine.asking_out.isdisjoint(way.node.id for way in ways):
        return False
    counted = (way for way in ways if way.node.standing and way.node.standing.units)
    return not any(map(_Walk(machine).takes_out, counted))


def _asking_out(machine: Machine) -> frozenset[CobId]:
    """Return the objects that may ask another one out, or one that does, whatever the states are.

    That is so for hardly any: who is asked to serve goes out for it only where its type has no
    other way. One look at each need.
    """
    nodes, lender = machine.nodes, machine.lender
    groups = {book.budget.group for book in lender.books} if lender else set()
    known: dict[tuple[int, State], bool] = {}
    users: dict[CobId, list[CobId]] = {}
    found: set[CobId] = set()
    for node in nodes.values():
        for need in node.needs:
            on = nodes.get(need.on)
            if on is None:
                continue
            key = (id(on.table), need.state)
            if key not in known:
                states = on.type.states
                known[key] = any(_leaves(on, state, need.state, groups) for state in states)
            if known[key]:
                found.add(node.id)
            users.setdefault(on.id, []).append(node.id)
    return frozenset(reached(found, lambda cob: users.get(cob, ())))


def _leaves(node: Node, state: State, name: State, groups: Iterable[str]) -> bool:
    """Say whether who is asked for a state, or a group, leaves one that a budget counts."""
    kind = node.type
    return any(
        kind.serves(step.source, group) and (step.interrupts or not kind.serves(step.dest, group))
        for step in _steps(Way(node, node.table, state, kind.stands_for(name, state)))
        for group in groups
    )


def ways_ahead(machine: Machine, node: Node) -> Iterator[Way]:
    """Yield the ways that an object has before it in this run, as far as is known.

    What stands in its base goes on from what a check against its new content will most likely find.
    """
    if node.stuck or node.gone:
        return
    state = machine.expected(node)
    change = machine.hosts
    if change is None or not change.waits(node.cob.host):
        if node.goal != STAY:
            way = Way(node, node.table, state, node.goal)
            if node.state == UNKNOWN and node.id in machine.working.prior:
                way.stay_serving(node.type)
            yield way
        return
    if node.removed:
        yield Way(node, node.table, state, node.type.remove)
    goal = change.goal_of(node)
    if goal is None:
        return
    table = machine.table_of(node.id)
    start = change.start_of(node, goal)
    way = Way(node, table, start, goal.preferred)
    if start == OUTDATED and not node.removed and machine.working.serves(node):
        way.stay_serving(goal.type)
    yield way


class _Walk:
    """One walk; each (object, way) and each (object, state) is looked at once."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._units: dict[tuple[str, str], UnitBook] = {}
        self._relied: dict[CobId, Node] = {}
        self._seen: set[tuple[CobId, State, State, int]] = set()
        self._asked: set[tuple[CobId, State]] = set()
        self._todo: list[Way] = []

    def of(self, ways: Iterable[Way]) -> Departure:
        for way in ways:
            self._add(way)
        while self._todo:
            self._go(self._todo.pop())
        units = [self._units[key] for key in sorted(self._units)]
        seen = {key[0] for key in self._seen} | {key[0] for key in self._asked}
        return Departure(units, [self._relied[cob] for cob in sorted(self._relied)], seen)

    def _add(self, way: Way) -> None:
        key = (way.node.id, way.source, way.dest, id(way.table))
        if key not in self._seen:
            self._seen.add(key)
            self._todo.append(way)

    def takes_out(self, way: Way) -> bool:
        """Say whether the object of a way goes out on it."""
        for step in _steps(way):
            self._take_out(way, step)
        return bool(self._units)

    def _go(self, way: Way) -> None:
        needs = way.node.step_needs
        for step in _steps(way):
            self._take_out(way, step)
            if needs is not None:
                wanted = of_step(needs, step.source, step.dest)
                for on, name in agreed(wanted, self._machine.cobs):
                    self._ask(on, name)

    def _take_out(self, way: Way, step: Transition) -> None:
        node, working = way.node, self._machine.working
        assert node.standing is not None  # the lender knows all whom its departures reach
        for unit in node.standing.units:
            group = unit.book.budget.group
            if not unit.should or not (node.id in working.served or unit.departures):
                continue
            serves = working.serves(node, group)
            if serves and (step.source == way.still or working.goes_out(node, step, group)):
                self._units[unit.key] = unit

    def _ask(self, cob: CobId, name: State) -> None:
        if (cob, name) in self._asked:
            return
        self._asked.add((cob, name))
        node = self._machine.nodes.get(cob)
        if node is None or node.absent:
            return
        state = self._machine.expected(node)
        if state not in node.type.states or not node.type.knows(name):
            return
        wanted = node.type.stands_for(name, state)
        if wanted == state:
            self._relied[cob] = node
        else:
            way = Way(node, node.table, state, wanted)
            if node.state == UNKNOWN and cob in self._machine.working.prior:
                way.stay_serving(node.type)
            self._add(way)
        if node.lock_needs is not None:
            for on, state in agreed(of_state(node.lock_needs, wanted), self._machine.cobs):
                self._ask(on, state)


def _steps(way: Way) -> Iterator[Transition]:
    """Yield the steps of a way, as far as there is one."""
    state = way.source
    while state != way.dest and (move := way.table.moves[state].get(way.dest)) is not None:
        yield move.step
        state = move.step.dest


class PlanBook:
    """What goes out for all that is to be done in the scope of units; kept until that changes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._plans: dict[tuple[str, str], Departure] = {}
        self._readers: dict[CobId, set[tuple[str, str]]] = {}

    def of(self, unit: UnitBook, together: Iterable[UnitBook]) -> Departure:
        """Return that of a unit whose hosts switch with those of some others."""
        found = self._plans.get(unit.key)
        if found is None:
            machine = self._machine
            nodes = {node.id: node for it in together for node in it.scope}
            ways = [way for node in nodes.values() for way in ways_ahead(machine, node)]
            found = self._plans[unit.key] = departure(machine, ways)
            for cob in self._watched(nodes) if found is NOTHING else found.seen | nodes.keys():
                self._readers.setdefault(cob, set()).add(unit.key)
        return found

    def _watched(self, nodes: Mapping[CobId, Node]) -> Iterator[CobId]:
        """Yield of which of these objects it matters that they change: they, or others, may go."""
        asking_out = self._machine.asking_out or ()
        for cob, node in nodes.items():
            if cob in asking_out or (node.standing is not None and node.standing.units):
                yield cob

    def forget(self, cob: CobId) -> list[tuple[str, str]]:
        """Forget what was thought of an object that has changed; return whose plans that were."""
        readers = self._readers.pop(cob, ())
        return [key for key in readers if self._plans.pop(key, None) is not None]

    def with_unit(self, unit: UnitBook) -> list[tuple[str, str]]:
        """Return whose plans take a unit out, by name: what waits there waits for its slot."""
        readers = {key for node in unit.members for key in self._readers.get(node.id, ())}
        plans = ((key, self._plans.get(key)) for key in sorted(readers))
        return [key for key, plan in plans if plan is not None and unit in plan.units]
