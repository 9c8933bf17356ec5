"""Why an object does not move on, and the chain of what it waits for (promise P5)."""

from __future__ import annotations

from cobweb.engine import Blocked, WaitKind
from cobweb.model import UNKNOWN, CobId, State
from tests.support.reference_engine._machine import Machine
from tests.support.reference_engine._node import Activity, Node

__all__ = ["blocked", "chain"]


def blocked(machine: Machine, node: Node) -> Blocked | None:
    """Return the first reason why the object is not at its goal or can't give what was asked."""
    if node.failed:
        return Blocked(cob=node.id, kind=WaitKind.FAILED, state=node.state)
    if not node.up and (node.away or node.asks):
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    if node.activity is not Activity.IDLE:
        return Blocked(cob=node.id, kind=WaitKind.RUNNING, detail=node.activity)
    if node.state == UNKNOWN:
        return Blocked(cob=node.id, kind=WaitKind.HALTED)
    return _waiting(machine, node)


def chain(machine: Machine, cob: CobId) -> tuple[Blocked, ...]:
    """Follow what the object waits for up to a failure, a border of this engine, or a circle.

    The last link of a circle names, in `on`, an object that came before.
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
        links.append(last)
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
    target = node.target()
    calm = node.activity is Activity.IDLE and node.up and not node.failed
    if wanted and calm and node.state == target and target != wanted:
        return _kept(node)
    return blocked(machine, node) or _at_rest(node, before)


def _waiting(machine: Machine, node: Node) -> Blocked | None:
    """Say what an object in a known state waits for."""
    target = node.target()
    if node.state != target:
        return _no_step(node, target) or _missing(machine, node) or _late(machine, node)
    if node.away:
        return _kept(node)
    return _missing(machine, node)


def _no_step(node: Node, target: State) -> Blocked | None:
    """Say why an object away from its target has no step to take at all."""
    if not node.movable:
        return Blocked(cob=node.id, kind=WaitKind.EXCLUDED, state=target)
    if node.churned:
        return Blocked(cob=node.id, kind=WaitKind.CHURN, on=node.pusher, state=target)
    if node.next_step() is None:
        return Blocked(cob=node.id, kind=WaitKind.NO_WAY, state=target)
    return None


def _late(machine: Machine, node: Node) -> Blocked:
    """Say why a step that has all its locks is not started."""
    if node.lent:
        return _lending(node)
    step = node.next_step()
    assert step is not None
    full = machine.book.full(node, step)
    if full:
        first = next(iter(machine.book.in_the_way(node, step)), None)
        return Blocked(cob=node.id, kind=WaitKind.LIMIT, on=first, state=step.dest, detail=full)
    return Blocked(cob=node.id, kind=WaitKind.HALTED, state=step.dest)


def _at_rest(node: Node, before: Blocked | None) -> Blocked | None:
    """Say why an object that lacks nothing does not do more for the link before."""
    if before is None:
        return None
    if before.kind is not WaitKind.LIMIT or node.asking(node.state):
        return _kept(node)
    if not node.up:
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    state = node.type.preferred
    return Blocked(cob=node.id, kind=WaitKind.EXCLUDED, state=state, detail="stays")


def _kept(node: Node) -> Blocked | None:
    holders = node.asking(node.state)
    if not holders:
        return None
    return Blocked(cob=node.id, kind=WaitKind.REQUESTED, on=min(holders), state=node.state)


def _missing(machine: Machine, node: Node) -> Blocked | None:
    unheld = [on for on, wish in node.wishes.items() if wish.state and not wish.held]
    if unheld:
        on = min(unheld)
        return _wait_for(machine, node, on, node.wishes[on].state)
    step = node.plan.step
    if not node.twisted or (step and node.lent):
        return None
    needs = machine.index.of_step(node.id, step.source, step.dest) if step else ()
    pairs = needs or machine.index.of_state(node.id, node.state)
    on, state = next(
        (on, state)
        for on, state in pairs
        if not machine.index.does(on, node.wishes[on].state, state)
    )
    return _wait_for(machine, node, on, state)


def _wait_for(machine: Machine, node: Node, on: CobId, state: State) -> Blocked:
    members = machine.index.groups(on).get(state, ())
    return Blocked(cob=node.id, kind=WaitKind.LOCK, on=on, state=state, detail=", ".join(members))


def _not_yielding(machine: Machine, node: Node) -> Blocked | None:
    """Say why a holder does not give a recalled lock back."""
    if node.suspect:
        return Blocked(cob=node.id, kind=WaitKind.UNREACHABLE, detail=node.cob.host)
    if node.lent and node.activity is Activity.IDLE:
        return _lending(node)
    return blocked(machine, node)


def _lending(node: Node) -> Blocked:
    holder = min(holder for holders in node.lent.values() for holder in holders)
    return Blocked(cob=node.id, kind=WaitKind.HOLDERS, on=holder, state=node.asks[holder].state)
