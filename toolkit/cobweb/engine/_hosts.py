"""Hosts that go over from the generation that they stand in to the goal (COB paper, section 5.6).

A host switches when its own removed objects are gone, the hosts before it have switched, nothing is
under way on it, and no slot or canary holds it back. Until then its objects are what they were: who
is removed goes to its `remove` state, who is changed goes where its base wants it, who is new is
not there. From then on a changed object is unknown and is checked against its new content. A need
of the bases alone is obeyed until both of its hosts have switched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from cobweb.engine._machine import Machine
from cobweb.engine._node import BROKEN, IDLE, MOVING, STAY, UNCHECKED, Node
from cobweb.engine._precedence import Precedence
from cobweb.engine._rules import replan
from cobweb.engine._values import Changeover, HostsSwitched, StateReason
from cobweb.engine.analysis._circles import parts_of, reached
from cobweb.model import UNKNOWN, Cob, CobId, LockNeed, Need, State, host_of


class HostBook:
    """Which hosts stand in their base, in which order they may switch, what their objects are."""

    def __init__(self, machine: Machine, change: Changeover) -> None:
        self._machine = machine
        self._change = change
        self._waiting = set(change.hosts)
        self._based = change.hosts | change.stay
        self._old: dict[str, dict[int, Need]] = {}
        for number, need in enumerate(change.needs):
            for host in (host_of(need.cob), host_of(need.on)):
                self._old.setdefault(host, {})[number] = need
        self._changes = change.removed | change.changed | change.added
        self._groups: list[tuple[tuple[str, ...], tuple[int, ...]]] = list(change.order)
        ordered = {host for hosts, _ in self._groups for host in hosts}
        self._groups += [((host,), ()) for host in sorted(change.hosts - ordered)]
        self._left = set(range(len(self._groups)))
        self._after: dict[int, list[int]] = {}
        for at, (_, before) in enumerate(self._groups):
            for number in before:
                self._after.setdefault(number, []).append(at)
        self._places: list[int] = []
        for _, before in self._groups:
            self._places.append(1 + max((self._places[number] for number in before), default=-1))
        self._stirred = set(self._left)
        self._group_of = {host: at for at, it in enumerate(self._groups) for host in it[0]}
        self._resting: list[Node] = []
        for node in [it for it in machine.nodes.values() if it.cob.host in self._based]:
            if node.id in self._changes:
                self._set_back(node)
            if node.id in change.asked and not node.removed:
                self._rest(node)
        self._parts: list[tuple[CobId, ...]] = []
        self._part_of: dict[CobId, list[int]] = {}
        self._awaited: dict[int, set[CobId]] = {}
        self._news: set[str] = set()
        self._keep_until_seen()
        self.old_content: set[tuple[CobId, CobId]] = set()
        """Pairs of an object and one whose new content it relies on and does not wait for."""

    def waits(self, host: str) -> bool:
        """Say whether a host has not switched yet and is to do so."""
        return host in self._waiting

    def stands_in_base(self, host: str) -> bool:
        """Say whether a host knows its objects as they were before."""
        return host in self._waiting or host in self._change.stay

    def has_to_change(self, node: Node) -> bool:
        """Say whether an object waits for the switch of its host, which this run is to make."""
        return node.cob.host in self._waiting and node.id in self._changes and not node.gone

    def may_mend(self, node: Node) -> bool:
        """Say whether the switch of its host may mend an object: what it is tied to there changes.

        What that makes of it is tried although it has failed before.
        """
        scopes = () if node.standing is None else node.standing.scopes
        near = (node, *(it for unit in scopes for it in unit.scope if it.cob.host == node.cob.host))
        return node.cob.host in self._waiting and any(map(self.is_change, near))

    def open(self, fresh: AbstractSet[CobId]) -> None:
        """Begin: switch what may switch at once; `fresh` have new content, and hosts that have.

        Who waits only for removals stays where it is, unless asked: what its base had it be may be
        what the goal mends. Where a budget may keep a host waiting, a repair waits for nothing.
        """
        machine = self._machine
        precedence = Precedence(machine, self._change, fresh)
        self.old_content = precedence.met
        for cob, others in (*precedence.late.items(), *precedence.stays.items()):
            if others:
                self._keep({cob}, others)
        self._drop_needs([host for host in sorted(self._old) if host not in self._based])
        for host in sorted(self._waiting):
            for node in machine.on_host(host):
                is_free = node.standing is None and node.id not in machine.renewing
                if is_free and not node.removed and node.goal != STAY:
                    self._rest(node)
        self._stirred.update(self._left)

    def goal_of(self, node: Node) -> Cob | None:
        """Return what an object is to become when its host switches; None for nothing."""
        if node.removed and node.id not in self._change.anew:
            return None
        return self._machine.wanted[node.id]

    def start_of(self, node: Node, goal: Cob) -> State:
        """Return in which state an object will most likely be found when its host switches."""
        change = self._change
        if node.id in change.anew:
            return goal.type.remove
        if node.absent or node.id in change.changed:
            return change.guesses.get(node.id, goal.type.remove)
        return self._machine.expected(node)

    def is_change(self, node: Node) -> bool:
        """Say whether this run has something to do with an object but to repair it."""
        return node.id in self._changes

    def holder(self, host: str) -> CobId | None:
        """Return a removed object that must be gone before the host may switch."""
        at = self._group_of.get(host)
        seen: set[int] = set()
        todo = [] if at is None else [at]
        while todo:
            group = todo.pop()
            if group in seen or group not in self._left:
                continue
            seen.add(group)
            for other in self._groups[group][0]:
                if other in self._change.held:
                    return self._change.held[other]
                for it in self._machine.on_host(other):
                    if it.removed and not (it.gone or self._is_gone(it)):
                        return it.id
            todo += self._groups[group][1]
        return None

    def pending(self, host: str) -> bool:
        """Say whether other hosts have to switch before this one."""
        at = self._group_of.get(host)
        return at is not None and not self._left.isdisjoint(self._groups[at][1])

    def mates(self, host: str) -> tuple[str, ...]:
        """Return the hosts that switch together with this one, itself included."""
        return self._groups[self._group_of[host]][0] if host in self._waiting else (host,)

    def company(self, host: str) -> Iterator[str]:
        """Return the hosts that switch together with this one, itself included, or before it."""
        numbers = {self._group_of[host]} if host in self._waiting else set()
        for number in range(max(numbers, default=-1), -1, -1):  # those before have lower numbers
            if number in numbers:
                numbers.update(self._left.intersection(self._groups[number][1]))
                yield from self._groups[number][0]

    def place(self, host: str) -> int:
        """Return after how many others a host switches at least: its place in that order."""
        at = self._group_of.get(host)
        return 0 if at is None else self._places[at]

    def awaits(self, node: Node) -> CobId | None:
        """Return who has to go over before an object does what is new for it, or is removed."""
        return min(self._before(node.id), default=None)

    def relied(self, cobs: Iterable[CobId]) -> set[CobId]:
        """Return these objects and all that have to go over before them."""
        return reached(cobs, self._before)

    def _before(self, cob: CobId) -> set[CobId]:
        own = (at for at in self._part_of.get(cob, ()) if self._parts[at] == (cob,))
        return set().union(*(self._awaited.get(at, ()) for at in own))

    def holds_back(self, node: Node) -> bool:
        """Say whether an object that knows its new content may do nothing for it yet."""
        if node.id not in self._part_of or node.removed or node.target != node.goal:
            return False
        return not self.stands_in_base(node.cob.host) and self.awaits(node) is not None

    def is_kept(self, node: Node) -> bool:
        """Say whether a removed object stays until others have gone over."""
        return node.leaves and self.awaits(node) is not None

    def is_awaited(self, node: Node) -> bool:
        """Say whether a removed object stays until this one, in its base yet, has gone over."""
        awaited = (self._awaited.get(at, ()) for at in self._part_of.get(node.id, ()))
        return self.waits(node.cob.host) and any(node.id in some for some in awaited)

    def relent(self, cob: CobId) -> bool:
        """Let an object begin, or leave, before others have gone over; say if it waited for any."""
        own = [at for at in self._part_of.get(cob, ()) if self._parts[at] == (cob,)]
        if not self._machine.nodes[cob].removed:
            self.old_content.update((cob, on) for on in self._before(cob))
        return sum([self._let_go(at) for at in own if at in self._awaited]) > 0

    def stir(self, host: str) -> None:
        """Have a host looked at again: something of it has changed."""
        if self._awaited:
            self._news.add(host)
        at = self._group_of.get(host)
        if at in self._left:
            self._stirred.add(at)

    def switch(self) -> bool:
        """Let the hosts switch that may, and removals go; say whether any did."""
        switched = False
        while self._stirred or self._news:
            for host in sorted(self._news):
                switched = self._see(host) or switched
            self._news.clear()
            stirred, self._stirred = sorted(self._stirred), set()
            for at in stirred:
                switched = self._switch_group(at) or switched
        return switched

    def _switch_group(self, at: int) -> bool:
        """Let hosts that switch together do so if they may; say whether anything moves."""
        hosts, before = self._groups[at]
        if not self._left.isdisjoint(before) or not self._waiting.issuperset(hosts):
            return False  # one of them may take no part: then it stays, and so do they
        if not (self._change.held.keys().isdisjoint(hosts) and all(map(self._may_switch, hosts))):
            return False
        self._left.discard(at)
        self._stirred.update(self._left.intersection(self._after.get(at, ())))
        if hosts:
            self._go_over(hosts)
        return bool(hosts)

    def end_stay(self) -> bool:
        """Have what waits for its own preferred state no longer; say whether anything moves."""
        moved = False
        for node in self._resting:
            if node.goal == STAY:
                node.aim(node.cob.preferred)
                self._machine.touch(node)
                moved = True
        return moved

    # --- what is removed, and what stays until it is

    def _rest(self, node: Node) -> None:
        node.aim(STAY)
        self._resting.append(node)

    def _keep_until_seen(self) -> None:
        """Have removed objects stay until those that needs tie to them were looked at as well.

        One may have to be where it is for another one to go, which is only asked for when that is
        known.
        """
        nodes, ids = self._machine.nodes, self._change.removed | self._change.asked
        near: dict[CobId, list[CobId]] = {cob: [] for cob in sorted(ids)}
        for cob in ids & nodes.keys():
            for need in nodes[cob].needs:
                if need.on in near:
                    near[need.on].append(cob)
                    near[cob].append(need.on)
        for part in parts_of(near):
            removed = {it for it in part if it in nodes and nodes[it].removed}
            if len(removed) > 1:
                self._keep(removed, removed)

    def _keep(self, some: AbstractSet[CobId], awaited: Iterable[CobId]) -> None:
        """Have objects stay, or begin nothing new, until others were looked at, or went over."""
        self._awaited[len(self._parts)] = set(awaited)
        for cob in sorted({*some, *awaited}):
            self._part_of.setdefault(cob, []).append(len(self._parts))
        for node in map(self._machine.nodes.__getitem__, some):
            if node.removed:
                node.aim(STAY)
        self._parts.append(tuple(sorted(some)))

    def _see(self, host: str) -> bool:
        """Let removed objects go that waited for nobody else but on this host; say if any may."""
        moved = False
        for node in self._machine.on_host(host):
            for part in self._part_of.get(node.id, ()):
                awaited = self._awaited.get(part, set())
                if node.id in awaited and self._is_over(node):
                    awaited.discard(node.id)
                    moved = (not awaited and self._let_go(part)) or moved
        return moved

    def _is_over(self, node: Node) -> bool:
        """Say whether a removed object was looked at, or another one is what it is to become."""
        if node.removed:
            return node.known or node.failed or not node.up
        at_rest = node.known and node.activity is IDLE and not node.failed
        return at_rest and node.state == node.goal and not self.stands_in_base(node.cob.host)

    def _let_go(self, part: int) -> bool:
        """Have objects go to their `remove` state, or begin, that wait no more; say if any do."""
        self._awaited.pop(part, None)
        machine, moved = self._machine, False
        for node in map(machine.nodes.__getitem__, self._parts[part]):
            left = self._awaited.keys() & self._part_of[node.id]
            if any(node.id in self._parts[at] for at in left):
                continue
            if node.removed:
                node.aim(node.type.remove)
            machine.touch(node)
            self.stir(node.cob.host)
            if machine.lender is not None and node.standing is not None:
                for unit in node.standing.scopes:
                    machine.lender.stir(unit)
                    machine.lender.wake(unit)
            moved = True
        return moved

    # --- one host

    def _set_back(self, node: Node) -> None:
        """Make an object what its host knows it as."""
        change, cob = self._change, node.id
        base = change.base.get(cob)
        if cob in change.removed:
            node.removed = True
            node.leaves = cob not in change.anew
            kind = (base or node.cob).type
            node.become(base or node.cob, self._machine.table(kind), kind.remove)
        elif base is not None:
            node.become(base, self._machine.table(base.type), base.preferred)
        elif cob in change.added:
            node.absent = True

    def _may_switch(self, host: str) -> bool:
        machine = self._machine
        for node in machine.on_host(host):
            if node.activity is not IDLE or node.suspect or not node.up:
                return False
            if node.removed and not node.gone and not self._is_gone(node):
                return False
            holders = [machine.nodes.get(it) for it, _ in node.locks() if node.id in self._changes]
            if any(it is not None and it.activity is MOVING for it in holders):
                return False  # a step that is under way relies on what would be unknown
        return machine.lender is None or machine.lender.lets_switch(host)

    def _is_gone(self, node: Node) -> bool:
        at_rest = node.known and node.activity is IDLE and not node.lent
        return at_rest and node.state == node.target == node.type.remove

    def _go_over(self, hosts: tuple[str, ...]) -> None:
        machine = self._machine
        machine.effects.append(HostsSwitched(hosts))
        there = [node for host in hosts for node in machine.on_host(host)]
        mended = [node for node in there if node.failed and self.may_mend(node)]
        self._waiting.difference_update(hosts)
        self._news.update(hosts)
        self._drop_needs(hosts)
        for node in mended:
            node.stuck &= ~(BROKEN | UNCHECKED)  # that was the content of before
            machine.touch(node)
            if node.state == UNKNOWN and not self.is_change(node):
                machine.check(node)
        for node in there:
            self._arrive(node)
        if machine.lender is not None:
            machine.lender.switched(hosts)

    def _arrive(self, node: Node) -> None:
        """Make an object of a host that has just switched what the goal says."""
        machine, change = self._machine, self._change
        goal = self.goal_of(node)
        if goal is None:
            node.gone = node.absent = True
            machine.working.served.discard(node.id)
            return
        if not self.is_change(node):
            if node.goal != goal.preferred:
                node.aim(goal.preferred)
                machine.touch(node)
            return
        served = machine.working.serves(node) and not node.absent
        if node.removed:
            machine.working.served.discard(node.id)
        node.removed = node.absent = False
        node.become(goal, machine.table_of(node.id), goal.preferred)
        machine.working.still.pop(node.id, None)
        if served:
            machine.working.prior[node.id] = True
        else:
            machine.working.prior.pop(node.id, None)
        guess = change.guesses.get(node.id, UNKNOWN)
        if node.id in change.trusted and guess in node.table.states:
            machine.set_state(node, guess, StateReason.CONTENT)
            machine.touch(node)
        else:
            machine.doubt(node, StateReason.CONTENT)

    def _drop_needs(self, hosts: Iterable[str]) -> None:
        """Forget the needs of the bases alone of which both hosts have switched."""
        for host in hosts:
            for number, need in sorted(self._old.get(host, {}).items()):
                if self._is_obeyed(need):
                    continue
                for end in (host_of(need.cob), host_of(need.on)):
                    self._old[end].pop(number, None)
                node = self._machine.nodes.get(need.cob)
                if node is not None:
                    _without(node, need)
                    replan(self._machine, node)

    def _is_obeyed(self, need: Need) -> bool:
        """Say whether a need of the bases alone still counts.

        Who has switched needs no more that what is removed is there.
        """
        cob, on = self._machine.nodes.get(need.cob), self._machine.nodes.get(need.on)
        is_left = on is not None and on.leaves and not (cob is not None and cob.removed)
        if is_left and on is not None and on.type.remove not in on.type.members(need.state):
            return self.stands_in_base(host_of(need.cob))
        return any(host_of(it) in self._waiting for it in (need.cob, need.on))


def _without(node: Node, need: Need) -> None:
    if isinstance(need, LockNeed):
        assert node.lock_needs is not None
        node.lock_needs.remove(need)
    else:
        assert node.step_needs is not None
        node.step_needs.remove(need)
