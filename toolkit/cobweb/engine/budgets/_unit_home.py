"""When a unit is home (design, section 5b, given back)."""

from __future__ import annotations

from cobweb.engine._machine import Machine
from cobweb.engine._node import IDLE, IMMOVABLE, STAY, Node
from cobweb.engine.budgets._units import UnitBook


def is_home(machine: Machine, unit: UnitBook) -> bool:
    """Say whether a unit is home; checks its members where nobody has since its last step."""
    if not _is_settled(machine, unit):
        return False
    to_check = [
        node
        for node in unit.members
        if _should_serve(unit, node) and machine.checked_at.get(node.id, -1) <= unit.last
    ]
    for node in to_check:
        machine.check(node)
    return not to_check


def _is_settled(machine: Machine, unit: UnitBook) -> bool:
    """Say whether all in the scope of a unit is where the goal wants it."""
    if (hosts := machine.hosts) is not None and any(hosts.waits(it.cob.host) for it in unit.scope):
        return False
    there = [node for node in unit.scope if not node.absent]
    if any(it.activity is not IDLE or it.suspect or not it.up or it.failed for it in there):
        return False
    is_away = any(it.away and not it.stuck & IMMOVABLE for it in there)
    group = unit.book.budget.group
    wanted = (node for node in unit.members if _should_serve(unit, node))
    return not is_away and all(machine.working.serves(node, group) for node in wanted)


def is_in_vain(unit: UnitBook) -> bool:
    """Say whether a step of a unit has failed of which nothing is out, or has been with its slot.

    A step that failed and was found where it began has taken nothing out, unless it interrupts.
    """
    if unit.out or any(it.activity is not IDLE or it.suspect or not it.up for it in unit.scope):
        return False
    failed = {node.id: node.state for node in unit.scope if node.failed}
    return bool(failed) and all(
        step is not None and not step.interrupts and failed.get(cob) == step.source
        for cob, step in unit.departures.items()
    )


def _should_serve(unit: UnitBook, node: Node) -> bool:
    """Say whether the goal wants a member to serve."""
    goal = node.cob.preferred if node.goal == STAY else node.goal
    return not node.absent and node.type.serves(goal, unit.book.budget.group)
