"""What would have to go out for something to be done (design, section 5b, occupied and lent).

A step asks others to be in some states, these ask others on their way, and so on. Whoever stands in
such a state already is relied on; whoever does not has to move, and may have to leave serving. So
one walk over types and needs says which units a change takes out, before anything is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cobweb.engine._machine import Machine
from cobweb.engine._needs import agreed, of_state, of_step
from cobweb.engine._node import STAY, Node
from cobweb.engine._tables import TypeTable
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


def departure(machine: Machine, ways: Iterable[Way]) -> Departure:
    """Return what has to go out for these ways to be gone; linear in what they ask for."""
    return _Walk(machine).of(ways)


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

    def _go(self, way: Way) -> None:
        node, state = way.node, way.source
        while state != way.dest:
            move = way.table.moves[state].get(way.dest)
            if move is None:
                return
            step = move.step
            self._take_out(way, step)
            if node.step_needs is not None:
                wanted = of_step(node.step_needs, step.source, step.dest)
                for on, name in agreed(wanted, self._machine.cobs):
                    self._ask(on, name)
            state = step.dest

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
            ways = (way for node in nodes.values() for way in ways_ahead(machine, node))
            found = self._plans[unit.key] = departure(machine, ways)
            for cob in found.seen | nodes.keys():
                self._readers.setdefault(cob, set()).add(unit.key)
        return found

    def forget(self, cob: CobId) -> list[tuple[str, str]]:
        """Forget what was thought of an object that has changed; return whose plans that were."""
        readers = self._readers.pop(cob, ())
        return [key for key in readers if self._plans.pop(key, None) is not None]

    def with_unit(self, unit: UnitBook) -> list[tuple[str, str]]:
        """Return whose plans take a unit out, by name: what waits there waits for its slot."""
        readers = {key for node in unit.members for key in self._readers.get(node.id, ())}
        plans = ((key, self._plans.get(key)) for key in sorted(readers))
        return [key for key, plan in plans if plan is not None and unit in plan.units]
