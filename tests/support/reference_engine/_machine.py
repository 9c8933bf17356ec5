"""The engine's working memory, and the small moves that every part of it makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from cobweb.engine import (
    Effect,
    EngineSettings,
    Message,
    MessageKind,
    Send,
    StateFound,
    StateReason,
)
from cobweb.model import UNKNOWN, CobId, Graph, State, Transition
from tests.support.reference_engine._limits import LimitBook
from tests.support.reference_engine._needs import NeedIndex
from tests.support.reference_engine._node import Activity, Node

__all__ = ["RETURNS_PER_INCARNATION", "Machine"]

RETURNS_PER_INCARNATION = 1 << 20
"""An object's incarnation is its engine's times this, plus how often its host came back."""


class Machine:
    """The owned objects, mail between them, and who has to be looked at again."""

    __slots__ = (
        "book",
        "dirty",
        "effects",
        "epoch",
        "flying",
        "generation",
        "halted",
        "heard",
        "hosts",
        "index",
        "mail",
        "nodes",
        "ready",
        "settings",
    )

    def __init__(
        self,
        graph: Graph,
        nodes: Mapping[CobId, Node],
        generation: int,
        settings: EngineSettings,
    ) -> None:
        self.nodes = nodes
        self.generation = generation
        self.settings = settings
        self.index = NeedIndex(graph.needs, nodes, graph.cobs)
        self.book = LimitBook(graph.limits, nodes)
        self.heard: dict[CobId, int] = {}
        self.mail: deque[Message] = deque()
        self.dirty: deque[Node] = deque()
        self.ready: deque[Node] = deque()
        self.effects: list[Effect] = []
        self.flying: set[CobId] = set()
        self.halted = False
        self.epoch = 0
        self.hosts: dict[str, list[Node]] = {}
        for node in nodes.values():
            self.hosts.setdefault(node.cob.host, []).append(node)

    def touch(self, node: Node) -> None:
        """Have the object looked at again."""
        if not node.dirty:
            node.dirty = True
            self.dirty.append(node)

    def post(self, message: Message) -> None:
        """Deliver a message: by the queue inside, or as an effect to another engine."""
        if message.receiver in self.nodes:
            self.mail.append(message)
        else:
            self.effects.append(Send(message=message))

    def known(self, cob: CobId) -> int:
        """Return the newest incarnation of a neighbour that was heard of."""
        node = self.nodes.get(cob)
        return node.incarnation if node else self.heard.get(cob, 0)

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

    def set_activity(self, node: Node, activity: Activity, step: Transition | None = None) -> None:
        """Note what is under way at the object."""
        node.activity = activity
        node.step = step
        if activity is Activity.IDLE:
            self.flying.discard(node.id)
        else:
            self.flying.add(node.id)
        self.book.update(node)
        self.touch(node)

    def set_state(self, node: Node, state: State, reason: StateReason) -> None:
        """Believe a state and announce it."""
        node.state = state
        if state != UNKNOWN:
            node.refile()
        self.effects.append(StateFound(cob=node.id, state=state, reason=reason))
        self.book.update(node)
        self.touch(node)
