"""The engine's working memory, and the small moves that every part of it makes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobweb.engine._cheapest_way import Ways
from cobweb.engine._limits import LimitBook
from cobweb.engine._node import CHECKING, IDLE, STAY, Activity, Node
from cobweb.engine._tables import TypeTable
from cobweb.engine._values import (
    Blocked,
    Effect,
    Message,
    Send,
    Served,
    StartCheck,
    StateFound,
    StateReason,
    made,
)
from cobweb.engine.budgets._units import Working
from cobweb.errors import ProtocolError
from cobweb.model import (
    OUTDATED,
    UNKNOWN,
    Cob,
    CobId,
    CobType,
    Graph,
    Need,
    State,
    Transition,
    TransitionNeed,
    host_of,
)

if TYPE_CHECKING:
    from cobweb.engine._hosts import HostBook
    from cobweb.engine.budgets._lender import Lender
    from cobweb.engine.budgets._shared_routing import Shared
    from cobweb.engine.search._detour import Detour


RETURNS_PER_INCARNATION = 1 << 20
"""An object's incarnation is its engine's times this, plus how often its host came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Named limits, each per object; who reaches one stops for this run and is reported as churn.

    `max_same_transition` is how often the same step may be taken in a run. `max_new_plans` is how
    often an object may change what it asks for, times its neighbours, while nothing ends anywhere
    that this engine can see: messages alone never go round for ever. `trust_s` is how old a check
    may be that a departure relies on (design, section 5b, fresh knowledge).
    """

    max_same_transition: int = 8
    max_new_plans: int = 32
    trust_s: float = 60.0


class Machine:
    """The owned objects, what follows from the input at hand, and who has to be looked at again.

    `heard` has the newest incarnation of each neighbour elsewhere that was heard of, `flying`
    counts the checks and transitions in flight. `cobs` are the objects of the graph, for what their
    types say of groups, and None where no type has any. `wanted` are all objects of the graph.
    `lender` and `hosts` are None where there are no budgets, or no host has to switch, `shared`
    where no other engine counts on the same limits. `may_go_out`
    are the only objects that may leave serving (None: all may). `gates` are those that are
    checked before anything relies on them, None where there are none. `guesses` are the states that
    the checks of unknown objects will most likely find, `checked_s` when the last check of one
    ended, by `now_s`, `checked_at` in which epoch. `given_up` says why objects gave up. `detours`
    are the orders of the look-ahead under way, `searched` the situations that it has seen.
    `asking_out` are the objects that may ask others out, None until they are asked for.
    `renewing` are objects still to be renewed, each with the state that it goes to for this
    ("": none yet).
    """

    def __init__(
        self, graph: Graph, nodes: Mapping[CobId, Node], generation: int, settings: EngineSettings
    ) -> None:
        self.nodes = nodes
        self.generation = generation
        self.settings = settings
        self.book = LimitBook((), nodes)
        self.heard: dict[CobId, int] = {}
        self.queue: deque[Node] = deque()
        self.ready: deque[Node] = deque()
        self.effects: list[Effect] = []
        self.flying = 0
        self.halted = False
        self.renewing: dict[CobId, State] = {}
        self.asking_out: AbstractSet[CobId] | None = None
        self.alone = False
        self.epoch = 0
        grouped = any(cob.type.groups for cob in graph.cobs.values())
        self.cobs: Mapping[CobId, Cob] | None = graph.cobs if grouped else None
        self._hosts: dict[str, list[Node]] = {}
        self._tables: dict[int, TypeTable] = {}
        self._ways = Ways(graph)
        self.wanted = graph.cobs
        gates = Gates(graph)
        self.gates = gates if gates.trust_s else None
        self.limits = graph.limits
        self.detours: list[Detour] = []
        self.searched: set[tuple[tuple[CobId, State], ...]] = set()
        self.detoured = False
        self.working = Working()
        self.lender: Lender | None = None
        self.hosts: HostBook | None = None
        self.shared: Shared | None = None
        self.may_go_out: AbstractSet[CobId] | None = None
        self.tracks = False
        self.counts = False
        self.guesses: Mapping[CobId, State] = {}
        self.checked_s: dict[CobId, float] = {}
        self.checked_at: dict[CobId, int] = {}
        self.given_up: dict[CobId, tuple[Blocked, ...]] = {}
        self.now_s = 0.0

    def open(self, graph: Graph) -> None:
        """Take the objects in, now that `nodes` has them all."""
        self.book = LimitBook(graph.limits, self.nodes)
        self.alone = len(self.nodes) == len(graph.cobs)
        self.counts = self.book.limits
        give_needs(graph.needs, self.nodes)

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

    def begin(self, node: Node, activity: Activity, step: Transition | None = None) -> None:
        """Note that a check or a transition is under way at the object."""
        node.activity = activity
        node.step = step
        node.frozen = True
        self.flying += 1
        if self.counts:
            self._count(node)
        if node.at_rest:
            self.touch(node)

    def end(self, node: Node, step: Transition | None = None) -> None:
        """Note that nothing is under way any more, as far as is known; `step` may go on unseen."""
        if node.activity is not IDLE:
            node.activity = IDLE
            self.flying -= 1
        node.step = step
        node.frozen = node.suspect
        if self.counts:
            self._count(node)
        if self.hosts is not None:
            for on in node.wishes:
                self.hosts.stir(host_of(on))  # which may have waited for the end of this
        self.touch(node)

    def set_state(self, node: Node, state: State, reason: StateReason) -> None:
        """Believe a state and announce it; the caller has the object looked at."""
        node.state = state
        node.known = node.up and state != UNKNOWN
        if node.grouped and state != UNKNOWN:
            node.regroup()
        if node.goal == STAY or node.leaves:
            node.retarget()
        self.effects.append(made(StateFound, (node.id, state, reason)))
        if self.tracks:
            self._note_working(node, state, reason)
        if self.counts:
            self._count(node)

    def check(self, node: Node) -> None:
        """Start the check of an object, unless nothing new is to be started."""
        if self.halted:
            return
        self.effects.append(made(StartCheck, (node.id,)))
        self.begin(node, CHECKING)

    def doubt(self, node: Node, reason: StateReason) -> None:
        """Forget the state of an object, where it had one, and check it."""
        if node.state != UNKNOWN:
            self.set_state(node, UNKNOWN, reason)
            self.touch(node)
        self.check(node)

    def expected(self, node: Node) -> State:
        """Return the state of an object, or the one that its check will most likely find."""
        if node.state != UNKNOWN:
            return node.state
        return self.guesses.get(node.id, node.type.remove)

    def table(self, kind: CobType) -> TypeTable:
        """Return what the rules look up of a type; one table per type."""
        table = self._tables.get(id(kind))
        if table is None:
            table = self._tables[id(kind)] = TypeTable(kind)
        return table

    def table_of(self, cob: CobId) -> TypeTable:
        """Return that of an object of the graph, whose ways are those that take out the fewest.

        There is one for all objects of a type whose needs look alike.
        """
        steps = self._ways.steps(cob)
        key = id(steps)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = TypeTable(self.wanted[cob].type, steps)
        return table

    def _count(self, node: Node) -> None:
        """Have limits and hosts know that the state or the activity of an object has changed."""
        self.book.update(node)
        if self.lender is not None and node.standing is not None:
            self.lender.update(node)
        if self.hosts is not None:
            self.hosts.stir(node.cob.host)

    def _note_working(self, node: Node, state: State, reason: StateReason) -> None:
        """Keep true who works for its users although its state does not say so."""
        working, cob = self.working, node.id
        if state == UNKNOWN:
            if reason is not StateReason.CONTENT:
                working.prior.pop(cob, None)
                working.still.pop(cob, None)
            return
        is_content = working.prior.pop(cob, False)
        if is_content and state == OUTDATED and not node.type.serves(state):
            working.still[cob] = state
        elif working.still.get(cob) != state:
            working.still.pop(cob, None)
        units = () if node.standing is None or cob in working.served else node.standing.units
        if any(working.serves_in(node, state, unit.book.budget.group) for unit in units):
            working.served.add(cob)
            self.effects.append(Served(cob))

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


@dataclass(slots=True)
class _Round:
    """The checks for one step, of those `left`; the last one has ended at `done_s`.

    It is about `gates`: all that the step relies on, also those that were fresh when it began.
    """

    gates: frozenset[CobId]
    left: set[CobId]
    done_s: float = 0.0


class Gates:
    """Knows when somebody has looked at each gate of a graph, and which steps wait for a look.

    Gates are objects with a `trust` of their own, checked again before anything relies on them.
    Before a step starts that holds locks on gates, all of these at which nobody has looked for
    longer than they are trusted are checked, side by side; it starts with the end of the last of
    these checks, if they find what they found before. To other engines a gate is lent after such a
    check. `trust_s` has all gates, each with how long it is trusted.
    """

    def __init__(self, graph: Graph) -> None:
        self.trust_s = {it.id: it.trust_s for it in graph.cobs.values() if it.trust_s is not None}
        self._looked_s: dict[CobId, float] = {}
        self._rounds: dict[CobId, _Round] = {}

    def looked_at(self, machine: Machine, node: Node) -> None:
        """Take note of the end of a check, and have those looked at that have waited for it."""
        self._looked_s[node.id] = machine.now_s
        holders = {cob for words in node.lent.values() for cob in words}
        for holder in sorted(holders & self._rounds.keys()):
            self._rounds[holder].left.discard(node.id)
            self._rounds[holder].done_s = machine.now_s
            machine.touch(machine.nodes[holder])

    def let_start(self, machine: Machine, node: Node) -> bool:
        """Say whether a step may start; if not, the gates that it relies on are being checked."""
        locks = (on for on, word in node.wishes.items() if word.state and on in machine.nodes)
        gates = frozenset(on for on in locks if on in self.trust_s)
        round_ = self._rounds.pop(node.id, None)
        if round_ is not None and gates == round_.gates:
            if round_.left:
                self._rounds[node.id] = round_
                return False
            if round_.done_s == machine.now_s:
                return True
        old = {on for on in gates if self._is_old(machine, on)}
        if not old:
            return True
        self._rounds[node.id] = _Round(gates=gates, left=old)
        for gate in sorted(old):
            if machine.nodes[gate].activity is IDLE and machine.nodes[gate].up:
                machine.check(machine.nodes[gate])
        return False

    def let_lend(self, machine: Machine, node: Node) -> bool:
        """Say whether an object may be lent to all who ask; if not, it is being checked."""
        asking = node.pending[node.state].values()
        if not self._is_old(machine, node.id) or all(it.holder is not None for it in asking):
            return True
        machine.check(node)
        return False

    def _is_old(self, machine: Machine, cob: CobId) -> bool:
        """Say whether an object is a gate and was looked at longer ago than it is trusted."""
        trust_s, looked_s = self.trust_s.get(cob), self._looked_s.get(cob)
        return trust_s is not None and (looked_s is None or machine.now_s - looked_s > trust_s)


def give_needs(needs: Iterable[Need], nodes: Mapping[CobId, Node]) -> None:
    """Give each owned object its own needs."""
    for need in needs:
        node = nodes.get(need.cob)
        if node is None:
            continue
        if isinstance(need, TransitionNeed):
            node.step_needs = node.step_needs or []
            node.step_needs.append(need)
        else:
            node.lock_needs = node.lock_needs or []
            node.lock_needs.append(need)
