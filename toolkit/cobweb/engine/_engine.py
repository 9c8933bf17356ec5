"""The engine's face: a pure machine over the objects that it owns (design, section 5).

Inputs go in, a tuple of effects comes out in a fixed order; the caller stores them before it
carries them out. Messages between owned objects stay inside and are delivered in the order of their
posting; all others leave as `Send`. The cost of a step is that of the objects it concerns.

What is away only for something that cannot be done comes home (design, section 5b, P10). When
nothing moves any more, slots that nothing can be done with go to others; then who waits for others
to leave their goal gives up. Both take their requests back, and whoever was asked goes where it
goes by itself. Why they waited is kept; that they give up is told while the requests still stand.
Each unit and each object gives up at most once, so this ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from cobweb.engine import _blocked, _inputs
from cobweb.engine._hosts import HostBook
from cobweb.engine._machine import RETURNS_PER_INCARNATION, EngineSettings, Machine, give_needs
from cobweb.engine._node import BROKEN, GIVEN_UP, IDLE, IMMOVABLE, OTHER_LIFE, Node
from cobweb.engine._renewals import found
from cobweb.engine._rules import settle, start
from cobweb.engine._state_locks import repeat, restore
from cobweb.engine._values import (
    Blocked,
    Changeover,
    CobGaveUp,
    Effect,
    Input,
    Lending,
    Send,
    StateReason,
    WaitKind,
)
from cobweb.engine.budgets._capacity import Ear, Voice
from cobweb.engine.budgets._lender import Lender
from cobweb.engine.budgets._shared_routing import Shared
from cobweb.engine.budgets._units import UnitBook
from cobweb.engine.search._detour import (
    Foreseen,
    abandon,
    advance,
    begin,
    foresee,
    look_ahead,
    prove,
)
from cobweb.engine.search._proof import Proof
from cobweb.errors import ProtocolError
from cobweb.model import OUTDATED, UNKNOWN, Cob, CobId, Graph, State, Transition

DEFAULT_SETTINGS = EngineSettings()

NOTHING_LENT = Lending()


class Engine:
    """Drives the objects of one owner towards their goals.

    `owned` and `movable` default to all of the graph; what is not movable is checked and lends the
    state that it is in. `goals` overrides the preferred state of objects; one whose goal is
    `STAY` moves only when it is asked to. Those of `failed` have failed earlier in this run and
    start nothing more. `change` says what hosts stand in that are to switch to the graph, `lending`
    what is durable of budgets. Where engines share the objects, the one that `lends` keeps all
    limits and the others borrow of it (`_capacity`); with None each engine counts its own alone.
    Only `may_go_out` may leave serving (None: all may). With `returns` what is away only for
    something that cannot be done comes home at the end. `incarnation` is at least 1 and grows from
    one life of a coordinator to the next.
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
        change: Changeover | None = None,
        lending: Lending = NOTHING_LENT,
        may_go_out: AbstractSet[CobId] | None = None,
        returns: bool = False,
        lends: bool | None = None,
        settings: EngineSettings = DEFAULT_SETTINGS,
    ) -> None:
        nodes: dict[CobId, Node] = {}
        machine = self._machine = Machine(graph, nodes, generation, settings)
        own = graph.cobs if owned is None else owned
        life, wishes, cobs = incarnation * RETURNS_PER_INCARNATION, goals or {}, graph.cobs
        for cob in sorted(own):
            it = cobs[cob]
            goal = wishes.get(cob) or it.want or it.type.preferred
            nodes[cob] = Node(it, goal, machine.table_of(cob), life)
        if movable is not None:
            for cob in nodes.keys() - movable:
                nodes[cob].stuck = IMMOVABLE
        for cob in nodes.keys() & failed:
            nodes[cob].stuck |= BROKEN
        for node in nodes.values() if lending.given_up else ():
            node.up = node.cob.host not in lending.given_up
            node.known = node.known and node.up
        machine.open(graph)
        machine.may_go_out = may_go_out
        if change is not None:
            give_needs(change.needs, nodes)
            machine.hosts = HostBook(machine, change)
            machine.guesses = change.guesses
        shared: Ear | Voice | None = None
        if lends is not None and (len(own) < len(cobs) or not lends):
            shared = Ear(machine, life) if lends else Voice(machine, life)
        if graph.budgets or lending.slots:
            machine.lender = Lender(machine, graph, lending, shared)
        if shared is not None:
            machine.shared = Shared(machine, shared)
        machine.counts = machine.counts or machine.hosts is not None or machine.lender is not None
        machine.tracks = machine.lender is not None or may_go_out is not None or change is not None
        self._returns = returns
        self._started = False

    def start(  # noqa: PLR0913 - what is known, and what is believed of the rest
        self,
        states: Mapping[CobId, State],
        locks: Iterable[tuple[CobId, CobId, State]] = (),
        *,
        believed: Mapping[CobId, State] | None = None,
        changed: AbstractSet[CobId] = frozenset(),
        fresh: AbstractSet[CobId] = frozenset(),
        still: AbstractSet[CobId] = frozenset(),
        renew: AbstractSet[CobId] = frozenset(),
        orders: Iterable[Foreseen] = (),
    ) -> tuple[Effect, ...]:
        """Begin with the journal's states and the locks (locked, holder, state) that were out.

        What has no state, or one that its type does not know, is unknown and checked at once; if
        `believed` says where it was it counts as that until its check says otherwise. `changed`
        have another content by now than they were in that state for; only that has made those of
        `still` outdated, which serve until they leave that state. Those `fresh` were never brought
        to what the graph says of them. Those of `renew` are taken for changed, whatever is found.
        `orders` are followed as far as all is found as they have it. Old locks are told first; one
        stays in force until its holder has been checked and does not want it any more.
        """
        if self._started:
            raise ProtocolError("the engine was started before")
        self._started = True
        machine = self._machine
        machine.renewing.update(dict.fromkeys(renew & machine.nodes.keys(), ""))
        if machine.hosts is not None:
            machine.hosts.open((changed | fresh) & machine.nodes.keys())
        machine.tracks = machine.tracks or bool(believed or still or renew)
        if machine.tracks:
            machine.working.still.update((cob, OUTDATED) for cob in still)
            self._believe(states, believed or {}, changed)
        for locked, holder, state in sorted(set(locks)):
            if restore(machine, locked, holder, state):
                machine.nodes[holder].plan_asked = OTHER_LIFE
        for node in machine.nodes.values():
            self._begin(node, states.get(node.id, UNKNOWN))
        for order in orders:
            begin(machine, order)
        if machine.shared is not None:
            machine.shared.open()
        return self._drain()

    def _begin(self, node: Node, state: State) -> None:
        """Have an object go on from a state, or check it; nothing where it is not there yet."""
        machine = self._machine
        if machine.counts:
            machine.book.update(node)
        if node.absent or not node.up:
            return
        if state in node.table.states:
            state = found(machine, node, state) if machine.renewing else state
            machine.set_state(node, state, StateReason.JOURNAL)
            machine.touch(node)
        else:
            machine.check(node)

    def foresee(self, states: Mapping[CobId, State]) -> tuple[Foreseen, ...]:
        """Return the cheapest orders for what the rules alone do not do well; before `start`.

        `states` are where objects are, or will most likely be found.
        """
        self._machine.guesses = states
        return foresee(self._machine)

    def prove(self, states: Mapping[CobId, State]) -> tuple[Proof, ...]:
        """Return why no order exists, for each part that has none; before `start`."""
        self._machine.guesses = states
        return prove(self._machine)

    @property
    def looked_ahead(self) -> bool:
        """Whether an order of the look-ahead was followed."""
        return self._machine.detoured

    def _believe(
        self,
        states: Mapping[CobId, State],
        believed: Mapping[CobId, State],
        changed: AbstractSet[CobId],
    ) -> None:
        """Note who counts as serving before it is known, then open the budgets."""
        machine = self._machine
        for cob, state in believed.items():
            node = machine.nodes.get(cob)
            if node is None or states.get(cob) in node.table.states:
                continue
            if node.type.serves(state):
                machine.working.prior[cob] = cob in changed
        for cob, state in states.items():
            node = machine.nodes.get(cob)
            if node is not None and not node.absent and state in node.table.states:
                node.state = state
        if machine.lender is not None:
            machine.lender.open(changed)
        for node in machine.nodes.values():
            node.state = UNKNOWN

    def step(self, event: Input, now_s: float = 0.0) -> tuple[Effect, ...]:
        """Take one input in at a time and return all that follows; ProtocolError changes nothing.

        `now_s` are seconds from any beginning; they never go back.
        """
        if not self._started:
            raise ProtocolError("the engine was not started")
        machine = self._machine
        if now_s:
            machine.now_s = max(machine.now_s, now_s)
        _inputs.apply(machine, event)
        return self._drain()

    def resend(self) -> tuple[Send, ...]:
        """Say again to all foreign neighbours what was said last, in case it was lost."""
        machine = self._machine
        said = tuple(Send(m) for node in machine.nodes.values() for m in repeat(machine, node))
        return said if machine.shared is None else (*said, *machine.shared.repeat())

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
            for holder, state in sorted(node.locks())
        )

    def blocked(self, cob: CobId) -> Blocked | None:
        """Return why an object is not at its goal or does not give what it was asked for."""
        return _blocked.blocked(self._machine, self._machine.node(cob))

    def chain(self, cob: CobId) -> tuple[Blocked, ...]:
        """Follow what an object waits for: to the end, or to the link that closes a circle."""
        self._machine.node(cob)
        return _blocked.chain(self._machine, cob)

    def slots(self) -> frozenset[tuple[str, str]]:
        """Return the (limit, unit) that have a slot."""
        lender = self._machine.lender
        return frozenset() if lender is None else frozenset(it.key for it in lender.held())

    def rooms(self, cob: CobId) -> tuple[tuple[str, str, bool], ...]:
        """Return the (limit, unit) in whose scope an object is, and whether each takes room now."""
        standing = self._machine.node(cob).standing
        return tuple((*it.key, it.takes_room) for it in (standing.scopes if standing else ()))

    def takes_out(self, cob: CobId, step: Transition) -> bool:
        """Say whether a step takes an object out that works for its users before it."""
        return self._machine.working.goes_out(self._machine.node(cob), step)

    def stands_in_base(self, cob: CobId) -> bool:
        """Say whether an object is what it was before: its host has not switched."""
        node, hosts = self._machine.node(cob), self._machine.hosts
        return hosts is not None and hosts.stands_in_base(node.cob.host)

    @property
    def old_content(self) -> tuple[tuple[CobId, CobId], ...]:
        """Pairs of an object and one whose old content may serve it: to wait would be a circle."""
        hosts = self._machine.hosts
        return () if hosts is None else tuple(sorted(hosts.old_content))

    def cob(self, cob: CobId) -> Cob:
        """Return an object as its host knows it now."""
        return self._machine.node(cob).cob

    def unsettled(self) -> tuple[CobId, ...]:
        """Return the objects that are away from their goal, unknown, failed, or wait for a lock.

        Also those of hosts that have not switched and have something to change there.
        """
        machine = self._machine
        return tuple(
            node.id
            for node in machine.nodes.values()
            if (node.away and not node.absent)
            or (node.held and node.state != node.cob.preferred)
            or machine.renewing.get(node.id)
            or node.failed
            or (node.missing and not node.absent)
            or node.activity is not IDLE
            or (machine.hosts is not None and machine.hosts.has_to_change(node))
        )

    def _drain(self) -> tuple[Effect, ...]:
        """Look at touched objects, then at who may start; then at what nobody else can decide."""
        machine = self._machine
        queue, ready = machine.queue, machine.ready
        while True:
            while queue:
                node = queue.popleft()
                node.queued = False
                if node.news:
                    node.news = False
                    settle(machine, node)
            if machine.hosts is not None and not machine.halted and machine.hosts.switch():
                continue  # before a repair: who is out goes over to the goal at once
            if ready:
                start(machine, ready.popleft())
                continue
            if (machine.counts or machine.detours or machine.shared) and self._let_on():
                continue
            if machine.flying or machine.halted or not machine.alone or not self._untie():
                effects = tuple(machine.effects)
                machine.effects.clear()
                return effects

    def _let_on(self) -> bool:
        """Let in who waited for room, lend slots; say whether more may follow."""
        machine = self._machine
        cob = machine.book.next_waiting()
        if cob is not None:
            settle(machine, machine.nodes[cob])
            return True
        if machine.detours and advance(machine):
            return True
        if machine.halted:
            return False
        if machine.shared is not None:
            machine.shared.let_on()
        lender = machine.lender
        return lender is not None and (lender.lend() or _give_up_failed(machine, lender))

    def _untie(self) -> bool:
        """Do what is left when nothing is in flight: look ahead, free slots, then come home."""
        machine = self._machine
        lender = machine.lender
        if lender is not None and lender.canaries.paused:
            return False
        if abandon(machine) or look_ahead(machine):
            return True
        if lender is not None and lender.lend_anyway():
            return True
        if _relent(machine) or (lender and _give_up_slots(machine, lender, lender.unused())):
            return True
        is_left = lender is not None and lender.during.let_go(lender.during.idle)
        return is_left or (self._returns and _give_up(machine))


def _relent(machine: Machine) -> bool:
    """Let those begin who wait for new content that waits for them; say whether there are any."""
    hosts = machine.hosts
    if hosts is None:
        return False
    for cob, node in machine.nodes.items():
        links = _blocked.chain(machine, cob) if hosts.awaits(node) else ()
        if links and links[-1].on in {it.cob for it in links}:
            return sum([hosts.relent(it.cob) for it in links]) > 0
    return False


def _give_up_slots(machine: Machine, lender: Lender, units: list[UnitBook]) -> bool:
    """Take back slots that nothing can be done with; say whether somebody else may have one."""
    users = {node.id: node for unit in units for node in unit.users()}
    _keep(machine, [users[cob] for cob in sorted(users) if users[cob].plan_move is not None])
    lender.skip(units)
    return bool(units)


def _give_up_failed(machine: Machine, lender: Lender) -> bool:
    """Take back the slots of which a step failed, where all that waits in the unit waits for it."""
    units, lender.in_vain = lender.in_vain, []
    return _give_up_slots(machine, lender, [it for it in units if _waits_for_failed(machine, it)])


def _waits_for_failed(machine: Machine, unit: UnitBook) -> bool:
    waiting = (_blocked.chain(machine, it.id) for it in unit.scope if it.plan_move is not None)
    return all(links and links[-1].kind is WaitKind.FAILED for links in waiting)


def _give_up(machine: Machine) -> bool:
    """Have all give up who ask others away from home in vain; say whether anybody comes home."""
    waiting = [node for node in machine.nodes.values() if _asks_in_vain(machine, node)]
    _keep(machine, waiting)
    for node in waiting:
        node.stuck |= GIVEN_UP
        machine.touch(node)
    stayed = machine.hosts is not None and machine.hosts.end_stay()
    return bool(waiting) or stayed


def _keep(machine: Machine, waiting: list[Node]) -> None:
    """Keep why objects wait, and tell that they are about to give up."""
    for node in waiting:
        machine.given_up[node.id] = _blocked.chain(machine, node.id)
        machine.effects.append(CobGaveUp(node.id))


def _asks_in_vain(machine: Machine, node: Node) -> bool:
    """Say whether an object that wants to move asks another one to be away from its goal.

    Also where those whom it asks do so, as they may grant nothing before.
    """
    if node.plan_move is None or node.stuck or node.activity is not IDLE:
        return False
    todo, seen = [node], {node.id}
    while todo:
        asker = todo.pop()
        for cob, word in asker.wishes.items():
            other = machine.nodes[cob]
            is_asked = word.state and other.goal in other.type.states and other.goal != UNKNOWN
            if is_asked and other.means(asker.id, word.state) != other.goal:
                return True
            if word.state and not word.granted and cob not in seen:
                seen.add(cob)
                todo.append(other)
    return False
