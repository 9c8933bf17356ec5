"""Why an object does not move on, and the chain of what it waits for (promise P5)."""

from __future__ import annotations

from cobweb.engine._machine import Machine
from cobweb.engine._needs import Wanted, agreed, of_state, of_step
from cobweb.engine._node import CHURNED, GIVEN_UP, IDLE, IMMOVABLE, STAY, UNPLANNED, Node
from cobweb.engine._values import Blocked, WaitKind
from cobweb.engine.budgets._why_no_room import Reason, no_room_for, no_room_for_host
from cobweb.model import UNKNOWN, CobId, State


def blocked(machine: Machine, node: Node) -> Blocked | None:
    """Return the first reason why the object is not at its goal or can't give what was asked."""
    if node.failed:
        return Blocked(cob=node.id, kind=WaitKind.FAILED, state=node.state)
    has_to_change = machine.hosts is not None and machine.hosts.has_to_change(node)
    if not node.up and (node.away or node.asks() or has_to_change):
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    return _on_its_way(machine, node)


def _on_its_way(machine: Machine, node: Node) -> Blocked | None:
    """Say why an object of a host that answers does not move on."""
    if node.activity is not IDLE:
        return Blocked(cob=node.id, kind=WaitKind.RUNNING, detail=node.activity)
    if node.absent:
        return _unswitched(machine, node)
    if node.state == UNKNOWN:
        return Blocked(cob=node.id, kind=WaitKind.HALTED)
    if node.stuck & GIVEN_UP and node.state != node.target:
        return machine.given_up[node.id][0]
    return _waiting(machine, node) or _unswitched(machine, node)


def _unswitched(machine: Machine, node: Node) -> Blocked | None:
    """Say why the host of an object that is to change has not switched."""
    hosts = machine.hosts
    if hosts is None or not (hosts.has_to_change(node) or hosts.is_awaited(node)):
        return None
    host = node.cob.host
    holder, on = hosts.holder(host), hosts.awaits(node)
    if holder is not None and holder != node.id:
        return Blocked(cob=node.id, kind=WaitKind.UNSWITCHED, on=holder, detail=host)
    if on is not None:
        return _wait_for_new(machine, node, on)
    if node.lent:
        return _lending(node)
    found = no_room_for_host(machine, host)
    return Blocked(cob=node.id, kind=WaitKind.HALTED) if found is None else _no_room(node, found)


def chain(machine: Machine, cob: CobId) -> tuple[Blocked, ...]:
    """Follow what the object waits for up to a failure, a border of this engine, or a circle.

    The last link of a circle names, in `on`, an object that came before. Who went to and fro waits
    for nobody: who pushed it is named, and not why that is where it is.
    """
    links: list[Blocked] = []
    seen: set[CobId] = set()
    node = machine.nodes.get(cob)
    last: Blocked | None = None
    while node is not None and node.id not in seen:
        seen.add(node.id)
        last = _link(machine, node, last)
        if last is None:
            break
        if machine.halted and last.is_home:  # had the run gone on, it had given its room back
            return (*links[:-1], Blocked(cob=links[-1].cob, kind=WaitKind.HALTED))
        links.append(last)
        before = machine.given_up.get(node.id)
        if before is not None and last is before[0]:
            return (*links[:-1], *before)
        if last.on is None or last.kind is WaitKind.CHURN:
            break
        node = machine.nodes.get(last.on)
    return tuple(links)


def _link(machine: Machine, node: Node, before: Blocked | None) -> Blocked | None:
    """Say why `node` does not do what the link before waits for."""
    if before is not None and before.kind is WaitKind.HOLDERS:
        return _not_yielding(machine, node)
    wanted = ""
    if before is not None and before.kind is WaitKind.LOCK:
        wanted = node.means(before.cob, before.state)
    calm = node.activity is IDLE and node.up and not node.failed
    if wanted and calm and node.state == node.target != wanted:
        return _kept(node) or (_no_step(node, wanted) if node.stuck else None)
    return blocked(machine, node) or _at_rest(node, before)


def _waiting(machine: Machine, node: Node) -> Blocked | None:
    """Say what an object in a known state waits for."""
    if node.state != node.target:
        return (
            _no_step(node, node.target)
            or _held_back(machine, node)
            or _missing(machine, node)
            or _late(machine, node)
        )
    if node.away:
        return _kept(node)
    return _missing(machine, node) or _held_for(machine, node)


def _held_for(machine: Machine, node: Node) -> Blocked | None:
    """Say for which unit of a budget an object is held where it is, away from its own state."""
    lender = machine.lender
    book = None if lender is None else lender.during.holder(node)
    if book is None or node.state == node.cob.preferred:
        return None
    members = (it for unit in book.units if unit.takes_room for it in unit.members)
    on = next((it.id for it in members if it.id != node.id), None)
    detail = f"{book.budget.name}, during"
    return Blocked(cob=node.id, kind=WaitKind.LIMIT, on=on, state=node.state, detail=detail)


def _no_step(node: Node, target: State) -> Blocked | None:
    """Say why an object away from its target has no step to take at all."""
    if node.stuck & IMMOVABLE:
        return Blocked(cob=node.id, kind=WaitKind.EXCLUDED, state=target)
    if node.stuck & UNPLANNED:
        return Blocked(cob=node.id, kind=WaitKind.UNPLANNED, state=target)
    if node.stuck & CHURNED:
        return Blocked(cob=node.id, kind=WaitKind.CHURN, on=node.pusher, state=target)
    if node.move() is None:
        return Blocked(cob=node.id, kind=WaitKind.NO_WAY, state=target)
    return None


def _held_back(machine: Machine, node: Node) -> Blocked | None:
    """Say which limit, or whose new content, keeps an object from asking for anything."""
    hosts = machine.hosts
    if hosts is not None and hosts.holds_back(node) and (on := hosts.awaits(node)):
        return _wait_for_new(machine, node, on)
    found = no_room_for(machine, node)
    if found is None:
        return None
    return machine.given_up[node.id][0] if found.in_vain else _no_room(node, found, node.target)


def _no_room(node: Node, reason: Reason, state: State = "") -> Blocked:
    if reason.state:
        return Blocked(cob=node.id, kind=WaitKind.LOCK, on=reason.on, state=reason.state)
    return Blocked(
        cob=node.id,
        kind=WaitKind.LIMIT,
        on=reason.on,
        state=state,
        detail=reason.label,
        together=reason.together,
    )


def _late(machine: Machine, node: Node) -> Blocked:
    """Say why a step that has all its locks is not started."""
    if node.lent:
        return _lending(node)
    move = node.move()
    assert move is not None
    step = move.step
    full = machine.book.full(node, step)
    if full is not None:
        first, name = min(full.busy, default=None), full.label
        return Blocked(cob=node.id, kind=WaitKind.LIMIT, on=first, state=step.dest, detail=name)
    return Blocked(cob=node.id, kind=WaitKind.HALTED, state=step.dest)


def _at_rest(node: Node, before: Blocked | None) -> Blocked | None:
    """Say why an object that lacks nothing does not do more for the link before."""
    if before is None:
        return None
    if not node.up:
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    if before.kind is not WaitKind.LIMIT or node.asking(node.state):
        return _kept(node)
    return Blocked(
        cob=node.id,
        kind=WaitKind.EXCLUDED,
        state=node.cob.preferred,
        detail="stays",
        is_home=node.goal != STAY and not node.stuck & IMMOVABLE,
    )


def _kept(node: Node) -> Blocked | None:
    holders = node.asking(node.state)
    if not holders:
        return None
    return Blocked(cob=node.id, kind=WaitKind.REQUESTED, on=min(holders), state=node.state)


def _missing(machine: Machine, node: Node) -> Blocked | None:
    unheld = [on for on, wish in node.wishes.items() if wish.state and not wish.granted]
    if unheld:
        on = min(unheld)
        return _wait_for(machine, node, (on, node.wishes[on].state))
    if not node.twisted or (node.plan_move and node.lent):
        return None
    lacking = (pair for pair in _ahead(machine, node) if not _satisfied(machine, node, pair))
    return _wait_for(machine, node, next(lacking))


def _wait_for(machine: Machine, node: Node, pair: tuple[CobId, State]) -> Blocked:
    """Say which lock is waited for; the detail are the states of a group."""
    on, state = pair
    members = () if machine.cobs is None else machine.cobs[on].type.groups.get(state, ())
    return Blocked(cob=node.id, kind=WaitKind.LOCK, on=on, state=state, detail=", ".join(members))


def _wait_for_new(machine: Machine, node: Node, on: CobId) -> Blocked:
    """Say which object has to go over first: that it is in that state by its base does not do."""
    state = machine.wanted[on].preferred
    return Blocked(cob=node.id, kind=WaitKind.LOCK, on=on, state=state, detail="as the goal has it")


def _ahead(machine: Machine, node: Node) -> Wanted:
    """Return the needs of the next step, or else those of the present state."""
    move, steps, locks = node.plan_move, node.step_needs, node.lock_needs
    needs = of_step(steps, move.step.source, move.step.dest) if move and steps else ()
    wanted = needs or (of_state(locks, node.state) if locks else ())
    return agreed(wanted, machine.cobs)


def _satisfied(machine: Machine, node: Node, pair: tuple[CobId, State]) -> bool:
    """Say whether what the object says to another one is what this need asks for, or better."""
    on, state = pair
    said = node.wishes[on].state
    return said == state or agreed(((on, said), pair), machine.cobs) == ((on, said),)


def _not_yielding(machine: Machine, node: Node) -> Blocked | None:
    """Say why a holder does not give a recalled lock back."""
    if node.suspect:
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    if node.lent and node.activity is IDLE:
        return _lending(node)
    return blocked(machine, node)


def _lending(node: Node) -> Blocked:
    holder, state = min(node.locks())
    return Blocked(cob=node.id, kind=WaitKind.HOLDERS, on=holder, state=state)
