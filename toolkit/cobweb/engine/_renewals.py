"""Objects that are to be renewed: taken for changed, though their content is what it was.

Where the type has a state `outdated` an object that is found at its goal counts as that, and serves
until it leaves it. Any other one goes to its `remove` state first, under all needs and limits.
"""

from __future__ import annotations

from cobweb.engine._machine import Machine
from cobweb.engine._node import Node
from cobweb.engine._values import StateReason
from cobweb.model import OUTDATED, State


def found(machine: Machine, node: Node, state: State) -> State:
    """Return the state of an object that was found, or is believed, to be in `state`."""
    if node.id not in machine.renewing or state != node.goal or not node.type.serves(state):
        return state
    if machine.hosts is not None and machine.hosts.has_to_change(node):
        return state  # its host switches first
    if OUTDATED in node.table.states:
        if not node.type.serves(OUTDATED):
            machine.working.still[node.id] = OUTDATED
        return OUTDATED
    machine.renewing[node.id] = node.directive = node.type.remove
    node.retarget()
    return state


def checked(machine: Machine, node: Node, state: State) -> None:
    """Believe the state that a check has found."""
    state = found(machine, node, state) if machine.renewing else state
    machine.set_state(node, state, StateReason.CHECK)
    if machine.renewing:
        ended(machine, node, state)


def ended(machine: Machine, node: Node, state: State, *, by_step: bool = False) -> None:
    """Note where an object is now: one that has left comes back as ever."""
    over = machine.renewing.get(node.id)
    if over is None:
        return
    if state == node.type.remove or (by_step and not over):
        del machine.renewing[node.id]
        if over:
            node.directive = ""
            node.retarget()
