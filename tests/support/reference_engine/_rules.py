"""The rules that one object runs on every change (section 5.4 of the paper, numbered as there).

`settle` is the whole algorithm: what to ask for (2, 4), what to give back (6, 7, recall), what to
recall, what to grant (3), what to start (5). Rule 1, the target, is the node's own.
"""

from __future__ import annotations

from cobweb.engine import StartTransition
from cobweb.model import UNKNOWN, CobId, State, Transition
from tests.support.reference_engine._machine import Machine
from tests.support.reference_engine._needs import Wanted
from tests.support.reference_engine._node import NO_PLAN, Activity, Node, Plan
from tests.support.reference_engine._protocol import grant, recall, release, request

__all__ = ["settle", "start"]


def settle(machine: Machine, node: Node) -> None:
    """Look at one object and do all that its rules allow now."""
    if not node.frozen:
        _pursue(machine, node, _plan(node))
        _yield_recalled(machine, node)
    _recall_lent(machine, node)
    if node.frozen or not node.up or node.state == UNKNOWN:
        return
    if node.plan.asked:
        _grant_asked(machine, node)
    elif node.plan.step is not None and not (node.missing or node.twisted or node.lent):
        machine.ready.append(node)


def start(machine: Machine, node: Node) -> None:
    """Rule 5, when all who have something to say have said it: start what still may."""
    if node.frozen or not node.up or node.state == UNKNOWN or node.plan.asked:
        return
    if node.plan.step is not None:
        _start(machine, node, node.plan.step)


def _plan(node: Node) -> Plan:
    """Say which needs matter now: rules 2 and 4, and P3 for what is lent."""
    lent = tuple(sorted(node.lent))
    if not node.up or node.state == UNKNOWN:
        return Plan(lent=lent) if lent else NO_PLAN
    step = node.next_step()
    if step is not None:
        return Plan(lent=lent, step=step)
    if node.state in node.pending or node.state in node.lent:
        return Plan(lent=lent, asked=node.state)
    return Plan(lent=lent) if lent else NO_PLAN


def _pursue(machine: Machine, node: Node, plan: Plan) -> None:
    """Ask for what the plan needs and release all else: rules 2, 4, 6 and 7."""
    if plan == node.plan:
        return
    if _restless(machine, node):
        plan = _plan(node)
    node.plan = plan
    wanted = _wanted(machine, node, plan)
    for on in sorted(node.wishes):
        if node.wishes[on].state and on not in wanted:
            release(machine, node, on)
    for on, state in wanted.items():
        wish = node.wishes.get(on)
        if wish is None or wish.state != state:
            request(machine, node, on, state)
    node.missing = sum(1 for wish in node.wishes.values() if wish.state and not wish.held)


def _restless(machine: Machine, node: Node) -> bool:
    """Stop an object that changes its mind again and again while nothing happens anywhere."""
    if node.epoch != machine.epoch:
        node.epoch, node.new_plans = machine.epoch, 0
    node.new_plans += 1
    neighbours = 1 + len(node.asks) + len(node.wishes)
    if node.stuck or node.new_plans <= machine.settings.max_new_plans * neighbours:
        return False
    node.churned = True
    return True


def _wanted(machine: Machine, node: Node, plan: Plan) -> dict[CobId, State]:
    """Merge the needs of a plan, one state per object: what is lent binds first."""
    wanted: dict[CobId, State] = {}
    for lent in plan.lent:
        wanted.update(machine.index.of_state(node.id, lent))
    node.base = tuple(wanted.items())
    node.twisted = False
    for on, state in _ahead(machine, node, plan):
        if not machine.index.does(on, wanted.setdefault(on, state), state):
            node.twisted = True
    return wanted


def _ahead(machine: Machine, node: Node, plan: Plan) -> Wanted:
    if plan.step is not None:
        return machine.index.of_step(node.id, plan.step.source, plan.step.dest)
    return machine.index.of_state(node.id, plan.asked) if plan.asked else ()


def _yield_recalled(machine: Machine, node: Node) -> None:
    """Give back at once what is asked back, unless a lock lent on top of it is out; ask again."""
    if not node.recalled:
        return
    bound = {on for on, _ in node.base}
    for on in sorted(node.recalled - bound):
        node.missing += 1
        request(machine, node, on, node.wishes[on].state)


def _recall_lent(machine: Machine, node: Node) -> None:
    """Ask for the locks back that keep the object from its aim, or that it can't vouch for."""
    if not node.at_rest:
        return
    sure = node.up and node.state != UNKNOWN and not node.recalled
    keep = node.aim() if sure and node.aim() == node.state else None
    if keep is not None and len(node.lent) == 1 and keep in node.lent:
        return
    for holder in sorted(node.at_rest):
        if node.asks[holder].stands_for != keep:
            recall(machine, node, holder)


def _grant_asked(machine: Machine, node: Node) -> None:
    """Rule 3: in the target state, all lock dependencies held: grant all requests for it."""
    if node.missing or node.recalled or node.twisted:
        return
    for holder in sorted(node.pending.get(node.state, ())):
        grant(machine, node, holder)


def _start(machine: Machine, node: Node, step: Transition) -> None:
    """Rule 5: all transition dependencies held, no own lock out: start, if limits allow."""
    if node.missing or node.twisted or node.lent or machine.halted:
        return
    taken = node.counts.get((step.source, step.dest), 0)
    if taken >= machine.settings.max_same_transition:
        node.churned = True
        machine.touch(node)
        return
    if machine.book.wait(node, step):
        return
    node.counts[step.source, step.dest] = taken + 1
    target = node.aim()
    node.pusher = min(node.asking(target), default=node.pusher)
    locks = tuple(sorted((on, wish.state) for on, wish in node.wishes.items() if wish.state))
    machine.effects.append(
        StartTransition(cob=node.id, transition=step, target=target, locks=locks)
    )
    machine.set_activity(node, Activity.MOVING, step)
