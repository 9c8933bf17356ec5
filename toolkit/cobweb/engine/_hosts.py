"""Hosts that go over from the generation that they stand in to the goal (COB paper, section 5.6).

A host switches when its own removed objects are gone, the hosts before it have switched, nothing is
under way on it, and no slot or canary holds it back. Until then its objects are what they were: who
is removed goes to its `remove` state, who is changed goes where its base wants it, who is new is
not there. From then on a changed object is unknown and is checked against its new content. A need
of the bases alone is obeyed until both of its hosts have switched.
"""

from __future__ import annotations

from collections.abc import Iterator

from cobweb.engine._machine import Machine
from cobweb.engine._node import BROKEN, IDLE, STAY, UNCHECKED, Node
from cobweb.engine._rules import replan
from cobweb.engine._values import Changeover, HostsSwitched, StateReason
from cobweb.model import UNKNOWN, Cob, CobId, LockNeed, Need, State, host_of


class HostBook:
    """Which hosts stand in their base, in which order they may switch, and what their objects are.

    `blocked` has, for hosts that may not switch yet, a removed object or a host that comes before.
    """

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
        for cob in sorted(change.removed | change.changed | change.added):
            node = machine.nodes.get(cob)
            if node is not None and node.cob.host in self._based:
                self._set_back(node)
        self._resting: list[Node] = []
        for cob in sorted(change.asked):
            node = machine.nodes.get(cob)
            if node is not None and not node.removed and node.cob.host in self._based:
                self._rest(node)
        self._parts: list[tuple[CobId, ...]] = []
        self._part_of: dict[CobId, int] = {}
        self._unseen: dict[int, set[CobId]] = {}
        self._keep_until_seen()

    def waits(self, host: str) -> bool:
        """Say whether a host has not switched yet and is to do so."""
        return host in self._waiting

    def stands_in_base(self, host: str) -> bool:
        """Say whether a host knows its objects as they were before."""
        return host in self._waiting or host in self._change.stay

    def has_to_change(self, node: Node) -> bool:
        """Say whether an object waits for the switch of its host, which this run is to make."""
        return node.cob.host in self._waiting and node.id in self._changes and not node.gone

    def open(self) -> None:
        """Begin: switch what may switch at once.

        Who waits only for removals stays where it is, unless asked: what its base had it be may be
        what the goal mends. Where a budget may keep a host waiting, a repair waits for nothing.
        """
        machine = self._machine
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
                removed = (n for n in self._machine.on_host(other) if n.removed and not n.gone)
                missing = next((n.id for n in removed if not self._is_gone(n)), None)
                if missing is not None:
                    return missing
            todo += self._groups[group][1]
        return None

    def pending(self, host: str) -> bool:
        """Say whether other hosts have to switch before this one."""
        at = self._group_of.get(host)
        return at is not None and any(self._open(before) for before in self._groups[at][1])

    def mates(self, host: str) -> tuple[str, ...]:
        """Return the hosts that switch together with this one, itself included."""
        at = self._group_of.get(host)
        return (host,) if at is None or host not in self._waiting else self._groups[at][0]

    def company(self, host: str) -> Iterator[str]:
        """Return the hosts that switch together with this one, itself included, or before it."""
        at = self._group_of.get(host)
        numbers = set() if at is None or host not in self._waiting else {at}
        for number in range(max(numbers, default=-1), -1, -1):  # those before have lower numbers
            if number in numbers:
                numbers.update(filter(self._open, self._groups[number][1]))
                yield from self._groups[number][0]

    def place(self, host: str) -> int:
        """Return after how many others a host switches at least: its place in that order."""
        at = self._group_of.get(host)
        return 0 if at is None else self._places[at]

    def stir(self, host: str) -> None:
        """Have a host looked at again: something of it has changed."""
        at = self._group_of.get(host)
        if at in self._left:
            self._stirred.add(at)

    def switch(self) -> bool:
        """Let the hosts switch that may, and removals go; say whether any did."""
        switched = False
        while self._stirred:
            stirred, self._stirred = sorted(self._stirred), set()
            for at in stirred:
                switched = self._switch_group(at) or switched
        return switched

    def _switch_group(self, at: int) -> bool:
        """Let hosts that switch together do so if they may; say whether anything moves."""
        hosts, before = self._groups[at]
        moved = sum(map(self._see, hosts)) > 0
        if any(map(self._open, before)) or not self._waiting.issuperset(hosts):
            return moved  # one of them may take no part: then it stays, and so do they
        if not self._change.held.keys().isdisjoint(hosts):
            return moved
        if not all(map(self._may_switch, hosts)):
            return moved
        self._left.discard(at)
        self._stirred.update(self._left.intersection(self._after.get(at, ())))
        if hosts:
            self._go_over(hosts)
        return moved or bool(hosts)

    def end_stay(self) -> bool:
        """Have what waits for its own preferred state no longer; say whether anything moves."""
        moved = False
        for node in self._resting:
            if node.goal == STAY:
                node.goal = node.cob.preferred
                node.retarget()
                self._machine.touch(node)
                moved = True
        return moved

    # --- what is removed, and what stays until it is

    def _rest(self, node: Node) -> None:
        node.goal = STAY
        node.retarget()
        self._resting.append(node)

    def _keep_until_seen(self) -> None:
        """Have removed objects stay until those that needs tie to them were looked at as well.

        One may have to be where it is for another one to go, which is only asked for when that is
        known.
        """
        nodes, ids = self._machine.nodes, self._change.removed | self._change.asked
        near: dict[CobId, set[CobId]] = {cob: set() for cob in ids}
        for cob in ids & nodes.keys():
            node = nodes[cob]
            for need in (*(node.step_needs or ()), *(node.lock_needs or ())):
                if need.on in near:
                    near[need.on].add(cob)
                    near[cob].add(need.on)
        for cob in sorted(near):
            if cob in self._part_of or cob not in nodes or not nodes[cob].removed:
                continue
            part, todo = {cob}, [cob]
            while todo:
                more = near[todo.pop()] - part
                part |= more
                todo += more
            removed = {it for it in part if it in nodes and nodes[it].removed}
            if len(removed) > 1:
                self._part_of.update(dict.fromkeys(removed, len(self._parts)))
                self._unseen[len(self._parts)] = removed
                self._parts.append(tuple(sorted(removed)))
        for cob in self._part_of:
            nodes[cob].goal = STAY
            nodes[cob].retarget()

    def _see(self, host: str) -> bool:
        """Let removed objects go once all that is tied to them was looked at; say if any may."""
        if not self._unseen:
            return False
        moved = False
        for node in self._machine.on_host(host):
            part = self._part_of.get(node.id, -1)
            unseen = self._unseen.get(part)
            if unseen is None or not (node.known or node.failed or not node.up):
                continue
            unseen.discard(node.id)
            if not unseen:
                del self._unseen[part]
                self._let_go(self._parts[part])
                moved = True
        return moved

    def _let_go(self, part: tuple[CobId, ...]) -> None:
        """Have removed objects go to their `remove` state now."""
        for cob in part:
            node = self._machine.nodes[cob]
            node.goal = node.type.remove
            node.retarget()
            self._machine.touch(node)

    # --- one host

    def _open(self, at: int) -> bool:
        return at in self._left

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
        return machine.lender is None or machine.lender.lets_switch(host)

    def _is_gone(self, node: Node) -> bool:
        at_rest = node.known and node.activity is IDLE and not node.lent
        return at_rest and node.state == node.target == node.type.remove

    def _go_over(self, hosts: tuple[str, ...]) -> None:
        machine = self._machine
        machine.effects.append(HostsSwitched(hosts))
        self._waiting.difference_update(hosts)
        self._drop_needs(hosts)
        for host in hosts:
            for node in machine.on_host(host):
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
                node.goal = goal.preferred
                node.retarget()
                machine.touch(node)
            return
        served = machine.working.serves(node) and not node.absent
        if node.removed:
            machine.working.served.discard(node.id)
        node.removed = node.absent = False
        node.stuck &= ~(BROKEN | UNCHECKED)  # that was the content of before
        node.become(goal, machine.table_of(node.id), goal.preferred)
        machine.note_prior(node, served=served)
        guess = change.guesses.get(node.id, UNKNOWN)
        if node.id in change.trusted and guess in node.table.states:
            machine.set_state(node, guess, StateReason.CONTENT)
            machine.touch(node)
        else:
            if node.state != UNKNOWN:
                machine.set_state(node, UNKNOWN, StateReason.CONTENT)
                machine.touch(node)
            machine.check(node)

    def _drop_needs(self, hosts: tuple[str, ...]) -> None:
        """Forget the needs of the bases alone of which both hosts have switched."""
        for host in hosts:
            for number, need in sorted(self._old.get(host, {}).items()):
                if host_of(need.cob) in self._waiting or host_of(need.on) in self._waiting:
                    continue
                for end in (host_of(need.cob), host_of(need.on)):
                    self._old[end].pop(number, None)
                node = self._machine.nodes.get(need.cob)
                if node is not None:
                    _without(node, need)
                    replan(self._machine, node)


def _without(node: Node, need: Need) -> None:
    if isinstance(need, LockNeed):
        assert node.lock_needs is not None
        node.lock_needs.remove(need)
    else:
        assert node.step_needs is not None
        node.step_needs.remove(need)
