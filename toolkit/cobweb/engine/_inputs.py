"""What each input does to the machine; illegal input is refused before anything changes."""

from __future__ import annotations

from typing import assert_never

from cobweb.engine._machine import Machine
from cobweb.engine._node import BROKEN, CHECKING, IDLE, MOVING, UNCHECKED, Node
from cobweb.engine._renewals import checked, ended
from cobweb.engine._state_locks import receive
from cobweb.engine._values import (
    CheckDropped,
    CheckEnded,
    Halt,
    HostReturned,
    HostVanished,
    Input,
    LimitResumed,
    Receive,
    StateDoubted,
    StateReason,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.errors import ProtocolError
from cobweb.model import UNKNOWN, CobId


def apply(machine: Machine, event: Input) -> None:
    """Carry one input into the machine; ProtocolError where it does not fit, nothing changed."""
    if isinstance(event, Receive):
        if machine.shared is not None and machine.shared.receive(event.message):
            return
        machine.node(event.message.receiver)
        receive(machine, event.message)
        return
    machine.epoch += 1
    match event:
        case CheckEnded():
            _check_ended(machine, event)
        case TransitionEnded():
            _transition_ended(machine, event)
        case CheckDropped():
            _check_dropped(machine, event)
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
            _limit_resumed(machine, event.limit)
        case Halt():
            machine.halted = True
        case _:
            assert_never(event)


def _check_ended(machine: Machine, event: CheckEnded) -> None:
    node = machine.node(event.cob)
    if node.activity is not CHECKING and not node.late:
        raise ProtocolError(f"no check of {event.cob} is under way")
    if event.state is not None and event.state not in node.table.states:
        raise ProtocolError(f"{event.cob} has no state {event.state!r}")
    node.late = node.suspect = False
    if machine.lender is not None:
        machine.checked_s[node.id] = machine.now_s
        machine.checked_at[node.id] = machine.epoch
    if node.renewed:
        node.renewed = False
        node.incarnation += 1
    machine.end(node)
    if machine.gates is not None and node.id in machine.gates.trust_s:
        machine.gates.looked_at(machine, node)
    if event.state is not None:
        node.stuck &= ~UNCHECKED
        checked(machine, node, event.state)
    elif node.up:
        node.stuck |= UNCHECKED
        machine.working.prior.pop(node.id, None)
        if node.state != UNKNOWN:
            machine.set_state(node, UNKNOWN, StateReason.CHECK)
        elif node.standing is not None and machine.lender is not None:
            machine.lender.update(node)


def _check_dropped(machine: Machine, event: CheckDropped) -> None:
    node = machine.node(event.cob)
    if node.activity is not CHECKING and not node.late:
        raise ProtocolError(f"no check of {event.cob} is under way")
    node.late = False
    machine.end(node)
    if node.up:
        machine.check(node)


def _transition_ended(machine: Machine, event: TransitionEnded) -> None:
    node = machine.node(event.cob)
    step = node.step
    if step is None:
        raise ProtocolError(f"no transition of {event.cob} is under way")
    node.suspect = False
    if machine.lender is not None and node.standing is not None:
        machine.lender.ended(node)
    machine.end(node)
    if event.ok:
        machine.set_state(node, step.dest, StateReason.TRANSITION)
        if machine.renewing:
            ended(machine, node, step.dest, by_step=True)
        return
    node.stuck |= BROKEN
    if node.up:
        machine.doubt(node, StateReason.TRANSITION)


def _transition_dropped(machine: Machine, event: TransitionDropped) -> None:
    node = machine.node(event.cob)
    step = node.step
    if step is None or not (node.suspect or node.activity is MOVING):
        raise ProtocolError(f"no transition of {event.cob} is under way")
    node.suspect = False
    assert node.taken is not None
    node.taken[node.table.number(step)] -= 1
    machine.end(node)


def _host_nodes(machine: Machine, host: str) -> list[Node]:
    nodes = machine.on_host(host)
    if not nodes:
        raise ProtocolError(f"no object of host {host} is owned by this engine")
    return nodes


def _host_vanished(machine: Machine, host: str) -> None:
    for node in _host_nodes(machine, host):
        if not node.up:
            continue
        node.up = node.known = False
        machine.working.prior.pop(node.id, None)
        node.suspect = node.suspect or node.activity is MOVING
        node.late = node.activity is CHECKING
        machine.end(node, node.step)
        if node.suspect and node.state != UNKNOWN:
            machine.set_state(node, UNKNOWN, StateReason.TRANSITION)


def _host_returned(machine: Machine, host: str) -> None:
    nodes = _host_nodes(machine, host)
    if all(node.up for node in nodes):
        raise ProtocolError(f"host {host} had not vanished")
    for node in nodes:
        node.up, node.late, node.renewed = True, False, True
        if not node.absent:
            machine.doubt(node, StateReason.CHECK)
    if machine.hosts is not None:
        machine.hosts.stir(host)


def _state_doubted(machine: Machine, cob: CobId) -> None:
    node = machine.node(cob)
    if node.activity is not IDLE or not node.known:
        raise ProtocolError(f"{cob} is not at rest in a known state")
    machine.doubt(node, StateReason.CHECK)


def _limit_resumed(machine: Machine, limit: str) -> None:
    if machine.lender is None or limit not in machine.lender.canaries.paused:
        raise ProtocolError(f"limit {limit} is not paused")
    if not machine.halted:
        machine.lender.canaries.end_pause(limit)
