"""Why a budget has no room for an object or a host, and who is in the way (promise P5)."""

from __future__ import annotations

from collections.abc import Iterable

from cobweb.engine._departures import Way, departure
from cobweb.engine._lender import Lender
from cobweb.engine._machine import Machine
from cobweb.engine._node import Node
from cobweb.engine._trials import Trial
from cobweb.engine._units import UnitBook
from cobweb.model import CobId

__all__ = ["no_room_for", "no_room_for_host"]

Reason = tuple[str, CobId | None]
"""The label of a limit, and an object that takes its room or is its canary."""


def no_room_for(machine: Machine, node: Node) -> Reason | None:
    """Return which limit holds back an object that has a step before it; None where none does."""
    lender, standing = machine.lender, node.standing
    if lender is None or standing is None or node.plan_move is not None:
        return None
    lacking: list[UnitBook] = []
    for unit in standing.scopes:
        trial = lender.canaries.of(unit)
        if trial is not None and lender.changes(node) and trial.refuses(node):
            return _canary(machine, trial)
        lacking += _lacking(lender, unit)
    move = node.move()
    assert move is not None
    way = Way(node, node.table, node.state, move.step.dest)
    way.still = machine.working.still.get(node.id, "")
    lacking += [unit for unit in departure(machine, (way,)).units if not unit.held]
    return _taken(lacking, node.id) if lacking else None


def no_room_for_host(machine: Machine, host: str) -> Reason | None:
    """Return which limit holds back the switch of a host; None where none does."""
    lender = machine.lender
    if lender is None:
        return None
    for trial in lender.canaries.all:
        if trial.refuses_host(host):
            return _canary(machine, trial)
    lacking = [it for unit in lender.units_on(host) for it in _lacking(lender, unit)]
    return _taken(lacking, None) if lacking else None


def _lacking(lender: Lender, unit: UnitBook) -> list[UnitBook]:
    return [it for it in lender.plan(unit).units if not it.held]


def _canary(machine: Machine, trial: Trial) -> Reason:
    """Name who of the canary is not where it should be, or waits for its host."""
    hosts = machine.hosts
    away = (
        node
        for unit in trial.chosen
        for node in unit.scope
        if _is_off(node) or (hosts is not None and hosts.has_to_change(node))
    )
    return f"{trial.name}, canary", next((node.id for node in away), None)


def _taken(lacking: Iterable[UnitBook], cob: CobId | None) -> Reason:
    """Name the first limit with somebody in the way, who is not `cob` itself."""
    label = ""
    for unit in lacking:
        label = _label(unit)
        others = (it for it in unit.book.units if it.takes_room and it is not unit)
        for other in others:
            off = [node for node in other.scope if _is_off(node)]
            first = next((node.id for node in off or other.members if node.id != cob), None)
            if first is not None:
                return label, first
    return label, None


def _label(unit: UnitBook) -> str:
    budget = unit.book.budget
    by_domain = bool(unit.domains) and budget.percent is None
    return f"{budget.name} ({', '.join(unit.domains)})" if by_domain else budget.name


def _is_off(node: Node) -> bool:
    return not node.absent and (node.failed or node.away or not node.up)
