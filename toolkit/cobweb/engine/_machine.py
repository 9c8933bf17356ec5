"""The engine's working memory, and the small moves that every part of it makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cobweb.engine._limits import LimitBook
from cobweb.engine._node import IDLE, STAY, Activity, Node
from cobweb.engine._values import Effect, Message, MessageKind, Send, StateFound, StateReason, made
from cobweb.errors import ProtocolError
from cobweb.model import UNKNOWN, Cob, CobId, Graph, Need, State, Transition, TransitionNeed

__all__ = ["RETURNS_PER_INCARNATION", "EngineSettings", "Machine"]

RETURNS_PER_INCARNATION = 1 << 20
"""An object's incarnation is its engine's times this, plus how often its host came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Named limits, each per object; who reaches one stops for this run and is reported as churn.

    `max_same_transition` is how often the same step may be taken in a run. `max_new_plans` is how
    often an object may change what it asks for, times its neighbours, while nothing ends anywhere
    that this engine can see: messages alone never go round for ever.
    """

    max_same_transition: int = 8
    max_new_plans: int = 32


class Machine:
    """The owned objects, what follows from the input at hand, and who has to be looked at again.

    `heard` has the newest incarnation of each neighbour elsewhere that was heard of, `flying`
    counts the checks and transitions in flight. `cobs` are the objects of the graph, for what their
    types say of groups, and None where no type has any.
    """

    __slots__ = (
        "_hosts",
        "alone",
        "book",
        "cobs",
        "effects",
        "epoch",
        "flying",
        "generation",
        "halted",
        "heard",
        "nodes",
        "queue",
        "ready",
        "settings",
    )

    def __init__(
        self, graph: Graph, nodes: Mapping[CobId, Node], generation: int, settings: EngineSettings
    ) -> None:
        self.nodes = nodes
        self.generation = generation
        self.settings = settings
        self.book = LimitBook(graph.limits, nodes)
        self.heard: dict[CobId, int] = {}
        self.queue: deque[Node] = deque()
        self.ready: deque[Node] = deque()
        self.effects: list[Effect] = []
        self.flying = 0
        self.halted = False
        self.alone = len(nodes) == len(graph.cobs)
        self.epoch = 0
        kinds = {id(cob.type): cob.type for cob in graph.cobs.values()}
        grouped = any(kind.groups for kind in kinds.values())
        self.cobs: Mapping[CobId, Cob] | None = graph.cobs if grouped else None
        self._hosts: dict[str, list[Node]] = {}
        _give_needs(graph.needs, nodes)

    def touch(self, node: Node) -> None:
        """Have the object looked at again, unless a look would find nothing to do.

        Nobody thaws after an input is taken in, so that stays true until the next one.
        """
        if not node.news and (not node.frozen or node.at_rest):
            node.news = True
            if not node.queued:
                node.queued = True
                self.queue.append(node)

    def send(self, message: Message) -> None:
        """Say something to an object elsewhere."""
        self.effects.append(Send(message))

    def message(
        self, kind: MessageKind, node: Node, other: CobId, pair: tuple[State, int, int]
    ) -> Message:
        """Make a message of `node` to `other`; `pair` is (state, seq, known)."""
        state, seq, known = pair
        return Message(
            kind=kind,
            sender=node.id,
            receiver=other,
            state=state,
            incarnation=node.incarnation,
            seq=seq,
            generation=self.generation,
            known=known,
        )

    def begin(self, node: Node, activity: Activity, step: Transition | None = None) -> None:
        """Note that a check or a transition is under way at the object."""
        node.activity = activity
        node.step = step
        node.frozen = True
        self.flying += 1
        if self.book.limits:
            self.book.update(node)
        self.touch(node)

    def end(self, node: Node, step: Transition | None = None) -> None:
        """Note that nothing is under way any more, as far as is known; `step` may go on unseen."""
        if node.activity is not IDLE:
            node.activity = IDLE
            self.flying -= 1
        node.step = step
        node.frozen = node.suspect
        if self.book.limits:
            self.book.update(node)
        self.touch(node)

    def set_state(self, node: Node, state: State, reason: StateReason) -> None:
        """Believe a state and announce it; the caller has the object looked at."""
        node.state = state
        node.known = node.up and state != UNKNOWN
        if node.grouped and state != UNKNOWN:
            node.regroup()
        if node.goal == STAY:
            node.retarget()
        self.effects.append(made(StateFound, (node.id, state, reason)))
        if self.book.limits:
            self.book.update(node)

    def node(self, cob: CobId) -> Node:
        """Return an owned object; ProtocolError for another one."""
        node = self.nodes.get(cob)
        if node is None:
            raise ProtocolError(f"{cob} is not owned by this engine")
        return node

    def on_host(self, host: str) -> list[Node]:
        """Return the owned objects of a host; the first question finds those of all hosts."""
        if not self._hosts:
            for node in self.nodes.values():
                self._hosts.setdefault(node.cob.host, []).append(node)
        return self._hosts.get(host, [])


def _give_needs(needs: Iterable[Need], nodes: Mapping[CobId, Node]) -> None:
    """Give each owned object its own needs."""
    for need in needs:
        node = nodes.get(need.cob)
        if node is None:
            continue
        if isinstance(need, TransitionNeed):
            if node.step_needs is None:
                node.step_needs = [need]
            else:
                node.step_needs.append(need)
        elif node.lock_needs is None:
            node.lock_needs = [need]
        else:
            node.lock_needs.append(need)
