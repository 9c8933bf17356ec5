"""What each input does to the machine; illegal input is refused before anything changes."""

from __future__ import annotations

from typing import assert_never

from cobweb.engine import (
    CheckDropped,
    CheckEnded,
    Halt,
    HostReturned,
    HostVanished,
    Input,
    LimitResumed,
    Receive,
    StartCheck,
    StateDoubted,
    StateReason,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.errors import ProtocolError
from cobweb.model import UNKNOWN, CobId
from tests.support.reference_engine._machine import Machine
from tests.support.reference_engine._node import Activity, Node
from tests.support.reference_engine._protocol import receive

__all__ = ["apply", "check"]


def apply(machine: Machine, event: Input) -> None:
    """Carry one input into the machine; ProtocolError where it does not fit, nothing changed."""
    if isinstance(event, Receive):
        _node(machine, event.message.receiver)
        receive(machine, event.message)
        return
    machine.epoch += 1
    match event:
        case CheckEnded():
            _check_ended(machine, event)
        case CheckDropped():
            _check_dropped(machine, event)
        case TransitionEnded():
            _transition_ended(machine, event)
        case TransitionDropped():
            _transition_dropped(machine, event)
        case StateDoubted():
            _state_doubted(machine, event.cob)
        case _:
            _apply_to_many(machine, event)


def _apply_to_many(
    machine: Machine, event: HostVanished | HostReturned | LimitResumed | Halt
) -> None:
    match event:
        case HostVanished():
            _host_vanished(machine, event.host)
        case HostReturned():
            _host_returned(machine, event.host)
        case LimitResumed():
            _limit_resumed(event.limit)
        case Halt():
            machine.halted = True
        case _:
            assert_never(event)


def check(machine: Machine, node: Node) -> None:
    """Start the check of an unknown object, the one thing that leads out of `unknown`."""
    if machine.halted:
        return
    machine.effects.append(StartCheck(cob=node.id))
    machine.set_activity(node, Activity.CHECKING)


def _node(machine: Machine, cob: CobId) -> Node:
    node = machine.nodes.get(cob)
    if node is None:
        raise ProtocolError(f"{cob} is not owned by this engine")
    return node


def _check_ended(machine: Machine, event: CheckEnded) -> None:
    node = _node(machine, event.cob)
    if node.activity is not Activity.CHECKING and not node.late:
        raise ProtocolError(f"no check of {event.cob} is under way")
    if event.state is not None and event.state not in node.type.states:
        raise ProtocolError(f"{event.cob} has no state {event.state!r}")
    node.late = node.suspect = False
    if node.renewed:
        node.renewed = False
        node.incarnation += 1
    machine.set_activity(node, Activity.IDLE)
    if event.state is not None:
        node.unchecked = False
        machine.set_state(node, event.state, StateReason.CHECK)
    elif node.up:
        node.unchecked = True
        if node.state != UNKNOWN:
            machine.set_state(node, UNKNOWN, StateReason.CHECK)


def _check_dropped(machine: Machine, event: CheckDropped) -> None:
    node = _node(machine, event.cob)
    if node.activity is not Activity.CHECKING and not node.late:
        raise ProtocolError(f"no check of {event.cob} is under way")
    node.late = False
    machine.set_activity(node, Activity.IDLE)
    if node.up:
        check(machine, node)


def _transition_ended(machine: Machine, event: TransitionEnded) -> None:
    node = _node(machine, event.cob)
    step = node.step
    if step is None:
        raise ProtocolError(f"no transition of {event.cob} is under way")
    node.suspect = False
    machine.set_activity(node, Activity.IDLE)
    if event.ok:
        machine.set_state(node, step.dest, StateReason.TRANSITION)
        return
    node.broken = True
    if node.state != UNKNOWN:
        machine.set_state(node, UNKNOWN, StateReason.TRANSITION)
    if node.up:
        check(machine, node)


def _transition_dropped(machine: Machine, event: TransitionDropped) -> None:
    node = _node(machine, event.cob)
    step = node.step
    if step is None or not (node.suspect or node.activity is Activity.MOVING):
        raise ProtocolError(f"no transition of {event.cob} is under way")
    node.suspect = False
    node.counts[step.source, step.dest] -= 1
    machine.set_activity(node, Activity.IDLE)


def _host_nodes(machine: Machine, host: str) -> list[Node]:
    if host not in machine.hosts:
        raise ProtocolError(f"no object of host {host} is owned by this engine")
    return machine.hosts[host]


def _host_vanished(machine: Machine, host: str) -> None:
    for node in _host_nodes(machine, host):
        if not node.up:
            continue
        node.up = False
        node.suspect = node.suspect or node.activity is Activity.MOVING
        node.late = node.activity is Activity.CHECKING
        machine.set_activity(node, Activity.IDLE, node.step)
        if node.suspect and node.state != UNKNOWN:
            machine.set_state(node, UNKNOWN, StateReason.TRANSITION)


def _host_returned(machine: Machine, host: str) -> None:
    nodes = _host_nodes(machine, host)
    if all(node.up for node in nodes):
        raise ProtocolError(f"host {host} had not vanished")
    for node in nodes:
        node.up, node.late, node.renewed = True, False, True
        if node.state != UNKNOWN:
            machine.set_state(node, UNKNOWN, StateReason.CHECK)
        check(machine, node)


def _state_doubted(machine: Machine, cob: CobId) -> None:
    node = _node(machine, cob)
    if node.activity is not Activity.IDLE or not node.up or node.state == UNKNOWN:
        raise ProtocolError(f"{cob} is not at rest in a known state")
    machine.set_state(node, UNKNOWN, StateReason.CHECK)
    check(machine, node)


def _limit_resumed(limit: str) -> None:
    raise ProtocolError(f"limit {limit} is not paused")
