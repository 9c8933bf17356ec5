"""The engine's face: a pure machine over the objects that it owns (design, section 5).

Inputs go in, a tuple of effects comes out in a fixed order; the caller stores them before it
carries them out. Messages between owned objects stay inside and are delivered in the order of their
posting; all others leave as `Send`. The cost of a step is that of the objects it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from cobweb.engine import _blocked, _inputs
from cobweb.engine._machine import RETURNS_PER_INCARNATION, EngineSettings, Machine
from cobweb.engine._node import BROKEN, IDLE, IMMOVABLE, OTHER_LIFE, Node
from cobweb.engine._protocol import repeat, restore
from cobweb.engine._rules import settle, start
from cobweb.engine._tables import TypeTable
from cobweb.engine._untangle import untangle
from cobweb.engine._values import Blocked, Canary, Effect, Input, Send, StateReason
from cobweb.errors import ProtocolError
from cobweb.model import UNKNOWN, CobId, Graph, State

__all__ = ["DEFAULT_SETTINGS", "Engine"]

DEFAULT_SETTINGS = EngineSettings()


class Engine:
    """Drives the objects of one owner towards their goals.

    `owned` and `movable` default to all of the graph; what is not movable is checked and lends the
    state that it is in. `goals` overrides the preferred state of objects; one whose goal is
    `STAY` moves only when it is asked to. Those of `failed` have failed earlier in this run and
    start nothing more; `canaries` are those of the limits as an earlier engine of this run left
    them. `incarnation` is at least 1 and grows from one life of a coordinator to the next.
    """

    def __init__(  # noqa: PLR0913 - the contract of the runtime; all but the graph have defaults
        self,
        graph: Graph,
        *,
        owned: AbstractSet[CobId] | None = None,
        movable: AbstractSet[CobId] | None = None,
        generation: int = 0,
        incarnation: int = 1,
        goals: Mapping[CobId, State] | None = None,
        failed: AbstractSet[CobId] = frozenset(),
        canaries: Mapping[str, Canary] | None = None,
        settings: EngineSettings = DEFAULT_SETTINGS,
    ) -> None:
        nodes = _nodes(
            graph,
            graph.cobs if owned is None else owned,
            goals or {},
            incarnation * RETURNS_PER_INCARNATION,
        )
        if movable is not None:
            for cob in nodes.keys() - movable:
                nodes[cob].stuck = IMMOVABLE
        for cob in nodes.keys() & failed:
            nodes[cob].stuck |= BROKEN
        self._machine = Machine(graph, nodes, generation, settings)
        self._machine.book.take_over(canaries or {})
        self._started = False

    def start(
        self,
        states: Mapping[CobId, State],
        locks: Iterable[tuple[CobId, CobId, State]] = (),
    ) -> tuple[Effect, ...]:
        """Begin with the journal's states and the locks (locked, holder, state) that were out.

        What has no state, or one that its type does not know, is unknown and checked at once. Old
        locks are told first; one stays in force until its holder has been checked and does not
        want it any more.
        """
        if self._started:
            raise ProtocolError("the engine was started before")
        self._started = True
        machine = self._machine
        for locked, holder, state in sorted(set(locks)):
            if restore(machine, locked, holder, state):
                machine.nodes[holder].plan_asked = OTHER_LIFE
        for node in machine.nodes.values():
            state = states.get(node.id, UNKNOWN)
            if machine.book.limits:
                machine.book.update(node)
            if state in node.table.states:
                machine.set_state(node, state, StateReason.JOURNAL)
                machine.touch(node)
            else:
                _inputs.check(machine, node)
        return self._drain()

    def step(self, event: Input) -> tuple[Effect, ...]:
        """Take one input in and return all that follows; ProtocolError changes nothing."""
        if not self._started:
            raise ProtocolError("the engine was not started")
        _inputs.apply(self._machine, event)
        return self._drain()

    def resend(self) -> tuple[Send, ...]:
        """Say again to all foreign neighbours what was said last, in case it was lost."""
        machine = self._machine
        return tuple(Send(m) for node in machine.nodes.values() for m in repeat(machine, node))

    def busy(self) -> frozenset[CobId]:
        """Return the objects with a check or transition in flight."""
        nodes = self._machine.nodes
        return frozenset(cob for cob, node in nodes.items() if node.activity is not IDLE)

    def idle(self) -> bool:
        """Say whether nothing is in flight: nothing happens any more without input."""
        return not self._machine.flying

    def states(self) -> Mapping[CobId, State]:
        """Return the states of all owned objects, by sorted id."""
        return {node.id: node.state for node in self._machine.nodes.values()}

    def state(self, cob: CobId) -> State:
        """Return the state of one owned object."""
        return self._machine.node(cob).state

    def target(self, cob: CobId) -> State:
        """Return where one owned object wants to go (rule 1)."""
        return self._machine.node(cob).target

    def locks(self) -> tuple[tuple[CobId, CobId, State], ...]:
        """Return the locks that are out as (locked, holder, state), sorted; of owned objects."""
        return tuple(
            (node.id, holder, state)
            for node in self._machine.nodes.values()
            for holder, state in sorted(
                (holder, word.state)
                for words in node.lent.values()
                for holder, word in words.items()
            )
        )

    def blocked(self, cob: CobId) -> Blocked | None:
        """Return why an object is not at its goal or does not give what it was asked for."""
        return _blocked.blocked(self._machine, self._machine.node(cob))

    def chain(self, cob: CobId) -> tuple[Blocked, ...]:
        """Follow what an object waits for: to the end, or to the link that closes a circle."""
        self._machine.node(cob)
        return _blocked.chain(self._machine, cob)

    def canaries(self) -> Mapping[str, Canary]:
        """Return, by name, how far the limits with a canary have come."""
        return self._machine.book.canaries()

    def unsettled(self) -> tuple[CobId, ...]:
        """Return the objects that are away from their goal, unknown, failed, or wait for a lock."""
        return tuple(
            node.id
            for node in self._machine.nodes.values()
            if node.away or node.failed or node.missing or node.activity is not IDLE
        )

    def _drain(self) -> tuple[Effect, ...]:
        """Look at touched objects, then at who may start; then at limits, canaries and circles."""
        machine = self._machine
        queue, ready = machine.queue, machine.ready
        while True:
            while queue:
                node = queue.popleft()
                node.queued = False
                if node.news:
                    node.news = False
                    settle(machine, node)
            if ready:
                start(machine, ready.popleft())
                continue
            if machine.book.limits and self._let_in():
                continue
            if machine.flying or machine.halted or not machine.alone or not untangle(machine):
                effects = tuple(machine.effects)
                machine.effects.clear()
                return effects

    def _let_in(self) -> bool:
        """Look at one who waited for room, else at the canaries; say whether more may follow."""
        machine = self._machine
        cob = machine.book.next_waiting()
        if cob is not None:
            settle(machine, machine.nodes[cob])
            return True
        return not machine.halted and machine.book.look_at_canaries(machine.effects)


def _nodes(
    graph: Graph, owned: Iterable[CobId], goals: Mapping[CobId, State], incarnation: int
) -> dict[CobId, Node]:
    """Make the owned objects, by sorted id; objects of one type share its table."""
    tables: dict[int, TypeTable] = {}
    nodes = {}
    for cob in sorted(owned):
        made = graph.cobs[cob]
        kind = made.type
        table = tables.get(id(kind))
        if table is None:
            table = tables[id(kind)] = TypeTable(kind)
        nodes[cob] = Node(made, goals.get(cob, made.want or kind.preferred), table, incarnation)
    return nodes
