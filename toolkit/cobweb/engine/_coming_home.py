"""Coming home: what is away only for something that cannot be done (design, section 5b, P10).

When nothing moves any more, slots that nothing can be done with go to others; then who waits for
others to leave their goal gives up. Both take their requests back, and whoever was asked goes where
it goes by itself. Why they waited is kept; that they give up is told while the requests still
stand. Each unit and each object gives up at most once, so this ends.
"""

from __future__ import annotations

from cobweb.engine._blocked import chain
from cobweb.engine._machine import Machine
from cobweb.engine._node import GIVEN_UP, IDLE, Node
from cobweb.engine._values import CobGaveUp, WaitKind
from cobweb.engine.budgets._lender import Lender
from cobweb.engine.budgets._units import UnitBook
from cobweb.model import UNKNOWN


def relent(machine: Machine) -> bool:
    """Let those begin who wait for new content that waits for them; say whether there are any."""
    hosts = machine.hosts
    if hosts is None:
        return False
    for cob, node in machine.nodes.items():
        links = chain(machine, cob) if hosts.awaits(node) else ()
        if links and links[-1].on in {it.cob for it in links}:
            return sum([hosts.relent(it.cob) for it in links]) > 0
    return False


def give_up_slots(machine: Machine, lender: Lender, units: list[UnitBook]) -> bool:
    """Take back slots that nothing can be done with; say whether somebody else may have one."""
    users = {node.id: node for unit in units for node in unit.users()}
    _keep(machine, [users[cob] for cob in sorted(users) if users[cob].plan_move is not None])
    lender.skip(units)
    return bool(units)


def give_up_failed(machine: Machine, lender: Lender) -> bool:
    """Take back the slots of which a step failed, where all that waits in the unit waits for it."""
    units, lender.in_vain = lender.in_vain, []
    return give_up_slots(machine, lender, [it for it in units if _waits_for_failed(machine, it)])


def _waits_for_failed(machine: Machine, unit: UnitBook) -> bool:
    waiting = (chain(machine, it.id) for it in unit.scope if it.plan_move is not None)
    return all(links and links[-1].kind is WaitKind.FAILED for links in waiting)


def give_up(machine: Machine) -> bool:
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
        machine.given_up[node.id] = chain(machine, node.id)
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
