"""The engine's face: a pure machine over the objects that it owns (design, section 5).

Inputs go in, a tuple of effects comes out in a fixed order; the caller stores them before it
carries them out. Messages between owned objects stay inside and are delivered in the order of their
posting; all others leave as `Send`. The cost of a step is that of the objects it concerns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from cobweb.engine import (
    DEFAULT_SETTINGS,
    Blocked,
    Effect,
    EngineSettings,
    Input,
    LockGranted,
    Send,
    StateReason,
)
from cobweb.errors import ProtocolError
from cobweb.model import UNKNOWN, CobId, Graph, State, TransitionNeed
from tests.support.reference_engine import _blocked, _inputs
from tests.support.reference_engine._machine import RETURNS_PER_INCARNATION, Machine
from tests.support.reference_engine._node import OTHER_LIFE, Activity, Ask, Node, Wish
from tests.support.reference_engine._protocol import receive, repeat
from tests.support.reference_engine._rules import settle, start

__all__ = ["Engine"]


class Engine:
    """Drives the objects of one owner towards their goals.

    `owned` and `movable` default to all of the graph; what is not movable is checked and lends the
    state that it is in. `goals` overrides the preferred state of single objects; one whose goal is
    `STAY` moves only when it is asked to. Those of `failed` have failed earlier in this run and
    start nothing more. `incarnation` is at least 1 and grows from one life of a coordinator to the
    next.
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
        settings: EngineSettings = DEFAULT_SETTINGS,
    ) -> None:
        wanted = goals or {}
        nodes = {
            cob: Node(
                cob=graph.cobs[cob],
                goal=wanted.get(cob, graph.cobs[cob].type.preferred),
                movable=movable is None or cob in movable,
                broken=cob in failed,
                incarnation=incarnation * RETURNS_PER_INCARNATION,
            )
            for cob in sorted(graph.cobs if owned is None else owned)
        }
        for need in graph.needs:
            if isinstance(need, TransitionNeed) and need.cob in nodes:
                kind = graph.cobs[need.on].type
                if not any(kind.serves(state) for state in kind.members(need.state)):
                    nodes[need.cob].outs.append(need)
        self._machine = Machine(graph, nodes, generation, settings)
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
        for locked, holder, state in sorted(set(locks)):
            self._restore(locked, holder, state)
        for node in self._machine.nodes.values():
            state = states.get(node.id, UNKNOWN)
            self._machine.book.update(node)
            if state in node.type.states:
                self._machine.set_state(node, state, StateReason.JOURNAL)
            else:
                _inputs.check(self._machine, node)
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
        return tuple(
            Send(message=m) for node in machine.nodes.values() for m in repeat(machine, node)
        )

    def busy(self) -> frozenset[CobId]:
        """Return the objects with a check or transition in flight."""
        return frozenset(self._machine.flying)

    def idle(self) -> bool:
        """Say whether nothing is in flight: nothing happens any more without input."""
        return not self._machine.flying

    def states(self) -> Mapping[CobId, State]:
        """Return the states of all owned objects, by sorted id."""
        return {node.id: node.state for node in self._machine.nodes.values()}

    def state(self, cob: CobId) -> State:
        """Return the state of one owned object."""
        return self._node(cob).state

    def target(self, cob: CobId) -> State:
        """Return where one owned object wants to go (rule 1)."""
        return self._node(cob).target()

    def locks(self) -> tuple[tuple[CobId, CobId, State], ...]:
        """Return the locks that are out as (locked, holder, state), sorted; of owned objects."""
        return tuple(
            (node.id, holder, node.asks[holder].state)
            for node in self._machine.nodes.values()
            for holder in sorted(node.asks)
            if node.asks[holder].granted
        )

    def blocked(self, cob: CobId) -> Blocked | None:
        """Return why an object is not at its goal or does not give what it was asked for."""
        return _blocked.blocked(self._machine, self._node(cob))

    def chain(self, cob: CobId) -> tuple[Blocked, ...]:
        """Follow what an object waits for: to the end, or to the link that closes a circle."""
        self._node(cob)
        return _blocked.chain(self._machine, cob)

    def unsettled(self) -> tuple[CobId, ...]:
        """Return the objects that are away from their goal, unknown, failed, or wait for a lock."""
        return tuple(
            node.id
            for node in self._machine.nodes.values()
            if node.away or node.failed or node.missing or node.activity is not Activity.IDLE
        )

    def _node(self, cob: CobId) -> Node:
        node = self._machine.nodes.get(cob)
        if node is None:
            raise ProtocolError(f"{cob} is not owned by this engine")
        return node

    def _restore(self, locked: CobId, holder: CobId, state: State) -> None:
        """Take over a grant of an earlier life, on both sides where both are owned."""
        nodes = self._machine.nodes
        if locked in nodes:
            ask = Ask(state=state, incarnation=0, seq=0, granted=True, restored=holder not in nodes)
            nodes[locked].put_ask(holder, ask)
            granted = LockGranted(cob=locked, holder=holder, state=state)
            self._machine.effects.append(granted)
        if holder in nodes:
            nodes[holder].wishes[locked] = Wish(state=state, incarnation=0, seq=0, held=True)
            nodes[holder].plan = OTHER_LIFE

    def _drain(self) -> tuple[Effect, ...]:
        """Deliver mail, look at touched objects, then at who waited for room."""
        machine = self._machine
        while True:
            if machine.mail:
                receive(machine, machine.mail.popleft())
            elif machine.dirty:
                node = machine.dirty.popleft()
                node.dirty = False
                settle(machine, node)
            elif machine.ready:
                start(machine, machine.ready.popleft())
            elif (cob := machine.book.next_waiting()) is not None:
                settle(machine, machine.nodes[cob])
            else:
                effects = tuple(machine.effects)
                machine.effects.clear()
                return effects
