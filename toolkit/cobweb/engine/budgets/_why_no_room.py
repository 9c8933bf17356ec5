"""Why a budget has no room for an object or a host, and who is in the way (promise P5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cobweb.engine._machine import Machine
from cobweb.engine._node import Node
from cobweb.engine.budgets._departures import Departure, departure, way_of
from cobweb.engine.budgets._trials import Trial
from cobweb.engine.budgets._units import UnitBook, mates_of
from cobweb.model import CobId, State


class Reason(NamedTuple):
    """The label of a limit, an object that takes its room or is its canary, and who goes at once.

    `together` are the units of one departure that is more than the limit ever holds. With `state`
    `on` is what lacks, not room: it is to be in that state first. With `in_vain` the room is there
    as well, and with a slot nothing could be done.
    """

    label: str
    on: CobId | None = None
    together: tuple[str, ...] = ()
    state: State = ""
    in_vain: bool = False


def no_room_for(machine: Machine, node: Node) -> Reason | None:
    """Return which limit holds back an object that has a step before it; None where none does."""
    lender, standing = machine.lender, node.standing
    if lender is None or standing is None or node.plan_move is not None:
        return None
    departures: list[Departure] = []
    behind: Trial | None = None
    for unit in standing.scopes:
        trial = lender.canaries.of(unit)
        behind = trial if trial is not None and trial.refuses_unit(unit) else behind
        if trial is not None and lender.changes(node) and trial.refuses(node):
            return _canary(machine, trial)
        if unit.skipped and node.id in machine.given_up:
            return Reason(_label(unit), in_vain=True)
        departures.append(lender.plan(unit))
    move = node.move()
    assert move is not None
    departures.append(departure(machine, (way_of(machine, node, move.step),)))
    found = _taken(machine, departures, node.cob.host, node.id)
    return found or (None if behind is None else _canary(machine, behind))


def no_room_for_host(machine: Machine, host: str) -> Reason | None:
    """Return which limit holds back the switch of a host; None where none does."""
    lender = machine.lender
    if lender is None:
        return None
    for trial in lender.canaries.all:
        if trial.refuses_host(host):
            return _canary(machine, trial)
    return _taken(machine, map(lender.plan, lender.units_on(host)), host)


def _canary(machine: Machine, trial: Trial) -> Reason:
    """Name who of the canary is not where it should be, or waits for its host."""
    nodes = (node for unit in trial.chosen for node in unit.scope)
    away = next((node.id for node in nodes if _is_late(machine, node)), None)
    return Reason(f"{trial.name}, canary", away)


def _taken(
    machine: Machine, departures: Iterable[Departure], host: str, cob: CobId | None = None
) -> Reason | None:
    """Name the first limit with somebody in the way, who is not `cob` itself.

    None where no departure lacks a slot. Who is in the way for good comes before a limit that is
    too small: more room helps nobody before.
    """
    lacking = [(plan, unit) for plan in departures for unit in plan.units if not unit.held]
    too_much: list[tuple[Departure, UnitBook]] = []
    for plan, unit in lacking:
        mates = mates_of(unit, plan.units)
        first = _to_come_first(machine, plan, unit, host)
        if first is not None:
            return first
        but = {unit}
        if not unit.book.can_hold(mates):
            too_much.append((plan, unit))
            but.update(mates)
        taker = next((it for it in _in_the_way(unit, but) if it != cob), None)
        if taker is not None:
            return Reason(_label(unit), taker)
    if too_much:
        return _too_much(machine, *too_much[0], host)
    return _skipped(machine, [unit for _, unit in lacking], cob) if lacking else None


def _to_come_first(machine: Machine, plan: Departure, unit: UnitBook, host: str) -> Reason | None:
    """Name who is relied on and lost, who has to go over before, or what is not held yet."""
    assert machine.lender is not None
    lost = next((node for node in plan.relied if not node.up), None)
    if lost is not None:
        return Reason(_label(unit), lost.id, state=lost.state)
    if (hosts := machine.hosts) is not None and hosts.pending(host):
        before = (it for it in hosts.company(host) if it not in hosts.mates(host))
        there = [it for on in before for it in machine.on_host(on) if it.removed]
        left = [it for it in there if it.state != it.type.remove]
        if left:
            return Reason(_label(unit), left[0].id, state=left[0].type.remove)
    late = machine.lender.awaited(unit) if host in unit.hosts else None
    if late is not None:
        return Reason(_label(unit), late, state=machine.wanted[late].preferred)
    lacking = machine.lender.during.lacking(unit.book)
    if lacking is None or not unit.book.has_room(mates_of(unit, plan.units)):
        return None
    return Reason(_label(unit), lacking[0].id, state=lacking[1])


def _too_much(machine: Machine, plan: Departure, unit: UnitBook, host: str) -> Reason:
    """Name who would go alone for itself first, else who of all asked is lost, else all units."""
    assert machine.lender is not None
    label, mates = _label(unit), mates_of(unit, plan.units)
    for it in mates:
        late = [node for node in it.scope if _is_late(machine, node)]
        plans = (machine.lender.plan(at) for on in it.hosts for at in machine.lender.units_on(on))
        alone = {book for plan in plans for book in mates_of(it, plan.units)}
        if late and host not in it.hosts and it.book.can_hold(alone):
            first = next(filter(_is_lost, late), late[0])
            return Reason(label, first.id, state=first.target)
    for node in map(machine.nodes.get, sorted(plan.seen)):
        if node is not None and _is_lost(node):
            return Reason(label, node.id, state=node.target)
    return Reason(label, together=tuple(it.name for it in mates))


def _is_lost(node: Node) -> bool:
    return node.failed or not node.up


def _is_late(machine: Machine, node: Node) -> bool:
    return _is_off(node) or (machine.hosts is not None and machine.hosts.has_to_change(node))


def _skipped(machine: Machine, lacking: list[UnitBook], cob: CobId | None) -> Reason | None:
    """Name who could do nothing with a slot, where there is room: nobody gets that one again.

    Else a slot is waited for that another engine lends; of its own one lends what there is, unless
    the run was told to start nothing new.
    """
    if cob in machine.given_up:
        return Reason(_label(lacking[-1]), in_vain=True)
    users = ((unit, node) for unit in lacking if unit.skipped for node in unit.users())
    for unit, node in users:
        if node.id in machine.given_up and node.state != node.target:
            return Reason(_label(unit), node.id)
    return None if machine.shared is None else Reason(_label(lacking[-1]))


def _in_the_way(unit: UnitBook, but: set[UnitBook]) -> Iterator[CobId]:
    """Yield who takes room in the budget of a unit `but` of some: of each who is off, then all.

    Then who keeps the unit itself from being lent a slot, as it failed or does not answer.
    """
    for other in unit.book.units:
        if other.takes_room and other not in but:
            off = [node for node in other.scope if _is_off(node)]
            yield from (node.id for node in (*off, *other.members))
    yield from (node.id for node in unit.scope if _is_lost(node))


def _label(unit: UnitBook) -> str:
    budget = unit.book.budget
    by_domain = bool(unit.domains) and budget.percent is None
    return f"{budget.name} ({', '.join(unit.domains)})" if by_domain else budget.name


def _is_off(node: Node) -> bool:
    return not node.absent and (node.away or _is_lost(node))
