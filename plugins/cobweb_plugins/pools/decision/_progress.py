"""What is on its way: joins that failed, resources that are free to go, orders that are void."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from cobweb_plugins.pools.decision._ledger import Ledger
from cobweb_plugins.pools.decision._objectives import Objectives
from cobweb_plugins.pools.decision._pools import Service
from cobweb_plugins.pools.decision._state import (
    Holding,
    MemberState,
    NoteKind,
    Phase,
    SeenState,
)


def settle(
    ledger: Ledger,
    claims: Mapping[str, tuple[str, ...]],
) -> None:
    """Write what has failed, and what services have brought with them.

    A failed join or removal is a failure of the resource. A rejected one is nobody's, and its
    service does not get it again. What one service claims and nobody has is that service's.
    """
    ledger.memory.heard = {
        id_: _last_heard_s(ledger, id_, holding) for id_, holding in ledger.leaving().items()
    }
    for id_, holding in list(ledger.holdings.items()):
        member = ledger.view.members.get(id_)
        answer = ledger.answers.get(holding.service)
        seen = answer.members.get(id_) if answer else None
        if seen is not None and seen.state is SeenState.SILENT:
            ledger.note(NoteKind.UNTRUSTED, id_, f"{holding.service} does not hear it")
        if holding.phase is Phase.FAILED:
            continue
        if member is not None and member.state is MemberState.REJECTED:
            ledger.memory.blacklist.setdefault(holding.service, {})[id_] = member.reason
            ledger.write(id_, None)
            ledger.note(NoteKind.REJECTED, id_, f"{holding.service} cannot use it: {member.reason}")
        elif member is not None and member.state is MemberState.FAILED:
            _fail(ledger, id_, holding, member.reason)
        elif _is_silent(ledger, id_, holding):
            long_s = ledger.pools.leave_within_s
            reason = f"nothing was heard of it for {long_s:g} s while it left {holding.service}"
            _fail(ledger, id_, holding, reason)
    ledger.ambiguous = frozenset(
        id_ for id_, names in claims.items() if _is_ambiguous(ledger, id_, names)
    )


def carry_on(ledger: Ledger, objectives: Objectives) -> None:
    """Hand over what is free to go, the oldest order first; take back what nobody wants any more.

    An order is void if its SLO is fulfilled or gone, if its service is full, or if nothing has
    been known of that service for `order_after`. Taking a resource back is no move.
    """
    targets: dict[str | None, list[tuple[float, str, Holding]]] = defaultdict(list)
    for id_, holding in ledger.leaving().items():
        given_s = holding.order.at_s if holding.order else holding.since_s
        targets[holding.to].append((given_s, id_, holding))
    for target, orders in targets.items():
        can_come = target is None or target in ledger.answers
        delivered: dict[str, int] = defaultdict(int)
        waiting = []
        for _, id_, holding in sorted(orders, key=lambda it: it[:2]):
            slo = holding.order.slo if holding.order else ""
            if _wanted(ledger, objectives, holding) - delivered[slo] <= 0:
                _take_back(ledger, id_, holding)
            elif can_come and _is_ready(ledger, id_, holding):
                _hand_over(ledger, id_, holding)
                delivered[slo] += 1
            else:
                waiting.append((id_, holding, slo))
        for id_, holding, slo in waiting:
            if _wanted(ledger, objectives, holding) - delivered[slo] <= 0:
                _take_back(ledger, id_, holding)
            else:
                text = f"leaves {holding.service} for {holding.to or 'nobody'}"
                ledger.note(NoteKind.WAITS, id_, text)


def _fail(ledger: Ledger, id_: str, holding: Holding, reason: str) -> None:
    ledger.write(
        id_,
        Holding(service=holding.service, phase=Phase.FAILED, since_s=ledger.now_s, reason=reason),
    )
    ledger.note(NoteKind.FAILED, id_, reason)


def _last_heard_s(ledger: Ledger, id_: str, holding: Holding) -> float:
    """Return when a service last told of a member that leaves, at least when it was asked to."""
    answer = ledger.answers.get(holding.service)
    seen = answer.members.get(id_) if answer else None
    if seen is not None and seen.state is not SeenState.SILENT:
        return ledger.now_s
    return max(holding.since_s, ledger.memory.heard.get(id_, holding.since_s))


def _is_silent(ledger: Ledger, id_: str, holding: Holding) -> bool:
    """Return whether nothing has been heard for too long of a resource that leaves."""
    return (
        holding.phase is Phase.LEAVING
        and ledger.now_s - ledger.memory.heard[id_] > ledger.pools.leave_within_s
        and not _is_down(ledger, id_, holding)
    )


def _is_ambiguous(ledger: Ledger, id_: str, names: tuple[str, ...]) -> bool:
    """Return whether nobody can say whose a claimed resource is; write it if somebody can."""
    holding = ledger.holdings.get(id_)
    if holding is None:
        unasked = ledger.unasked(id_)
        holds = ledger.pools.services[names[0]].holds
        seen = ledger.answers[names[0]].members[id_]
        if len(names) == 1 and seen.state is not SeenState.UP:
            text = f"found in {names[0]}, where it is {seen.state}: `cobweb pool adopt {names[0]}`"
            ledger.note(NoteKind.FOUND, id_, text)
            return True
        if len(names) == 1 and not unasked and ledger.pools.resources[id_].type in holds:
            ledger.write(id_, Holding(service=names[0], since_s=ledger.now_s))
            ledger.note(NoteKind.FOUND, id_, f"found in {names[0]}, and nobody's: it is its")
            return False
        claimed = sorted({*names, *unasked})
    else:
        owner = ledger.answers.get(holding.service)
        if owner is not None and id_ not in owner.members and len(names) == 1:
            _fail(ledger, id_, holding, f"moved by hand: {names[0]} has it")
            return False
        claimed = sorted({*names, holding.service})
    ledger.note(NoteKind.AMBIGUOUS, id_, f"claimed by {', '.join(claimed)}")
    return True


def _wanted(
    ledger: Ledger,
    objectives: Objectives,
    holding: Holding,
) -> float:
    """Return how many resources the SLO of an order wants, those that it has not got included."""
    if holding.to is None:
        return math.inf
    service = ledger.pools.services.get(holding.to)
    if service is None or not service.registered or _is_full(ledger, service):
        return 0
    if holding.order is None:
        return math.inf
    if holding.to not in ledger.answers:
        is_old = holding.order.at_s < ledger.now_s - ledger.pools.order_after_s
        return 0 if is_old else math.inf
    objective = objectives.find(holding.to, holding.order.slo)
    return objective.wanted if objective else 0


def _is_full(ledger: Ledger, service: Service, coming: int = 0) -> bool:
    return service.max is not None and ledger.has(service.name) + coming >= service.max


def _is_down(ledger: Ledger, id_: str, holding: Holding) -> bool:
    """Return whether nothing of a member is left in its service."""
    member, service = ledger.view.members.get(id_), ledger.pools.services.get(holding.service)
    if member is None:
        return service is None or service.direct
    return member.state is MemberState.DOWN


def _is_ready(ledger: Ledger, id_: str, holding: Holding) -> bool:
    """Return whether a resource can go: asked after it got no new work, it had none left."""
    if _is_down(ledger, id_, holding):
        return True
    member, answer = ledger.view.members.get(id_), ledger.answers.get(holding.service)
    return (
        member is not None
        and answer is not None
        and member.state is MemberState.DRAINING
        and answer.begun_s > member.since_s
        and id_ in answer.members
        and answer.members[id_].idle
        and answer.members[id_].state is not SeenState.SILENT
    )


def _hand_over(ledger: Ledger, id_: str, holding: Holding) -> None:
    if holding.to is None:
        ledger.write(id_, None)
        ledger.note(NoteKind.DELIVERED, id_, f"has left {holding.service}")
        return
    joins = replace(holding, service=holding.to, phase=Phase.IN, to=None, since_s=ledger.now_s)
    ledger.write(id_, joins)
    ledger.note(NoteKind.DELIVERED, id_, f"has left {holding.service} and joins {holding.to}")


def _take_back(ledger: Ledger, id_: str, holding: Holding) -> None:
    """Let a resource stay in its service; where that is full it goes to nobody."""
    service = ledger.pools.services.get(holding.service)
    if service is None or _is_full(ledger, service, ledger.incoming[service.name]):
        ledger.write(id_, replace(holding, to=None, order=None))
    else:
        stay(ledger, id_, holding)
    ledger.note(NoteKind.TAKEN_BACK, id_, f"{holding.to} does not want it any more")


def stay(ledger: Ledger, id_: str, holding: Holding) -> None:
    """Write that a resource that was leaving stays where it is, as if it had not been asked."""
    ledger.write(id_, Holding(service=holding.service, since_s=ledger.now_s))
    if holding.order is not None and ledger.memory.paths.get(id_):
        ledger.memory.paths[id_].pop()
