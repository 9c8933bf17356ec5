"""A round of decisions: what is on its way is carried on, then needs take what is needed less.

Why this comes to rest (R2): an SLO that asks has fewer members that fit than it needs, so what it
gets is needed by it, at its weight; what is taken weighed less, and an SLO that a resource leaves
without being fulfilled had needed it. So a move fills a place at a higher weight than each of those
that it empties: with constant KPIs the weights of the filled places, the highest first, only grow.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cobweb_plugins.pools.decision._ledger import Ledger
from cobweb_plugins.pools.decision._market import HEAVIEST, Market, Pick
from cobweb_plugins.pools.decision._memory import Memory, Request, Step
from cobweb_plugins.pools.decision._objectives import Objective, Objectives
from cobweb_plugins.pools.decision._policies import Policy
from cobweb_plugins.pools.decision._pools import SloKind
from cobweb_plugins.pools.decision._progress import carry_on, settle, stay
from cobweb_plugins.pools.decision._state import (
    Holding,
    NoteKind,
    Observed,
    Order,
    Outcome,
    Phase,
    View,
)
from cobweb_plugins.pools.decision._trust import claims, trusted

ROUNDS_OF_A_CIRCLE = 2
"""How often a resource may make one move within `circle_s` before the next time is a circle."""

_GRANTS_IN_VAIN = 2


def decide(  # noqa: PLR0913  # a pure function has all that it needs as arguments
    view: View,
    observations: Mapping[str, Observed],
    memory: Mapping[str, Any],
    now_s: float,
    policy: Policy,
    *,
    hurry: bool = False,
) -> Outcome:
    """Return who holds which resource from now on, and why.

    `observations` are by service; `memory` is that of the last outcome, {} at first; `now_s` never
    goes back (an earlier one counts as that of the last round). With `hurry` nothing waits: not
    to grow, to shrink, or after a move. Cost: see `make bench`, row `pools round`.
    """
    ledger = _ledger_of(view, observations, memory, now_s, hurry=hurry)
    settle(ledger, claims(view, ledger.answers))
    objectives = Objectives(ledger)
    carry_on(ledger, objectives)
    if ledger.writes:  # there are other members now
        objectives = Objectives(ledger)
    for name, text in objectives.waits:
        ledger.note(NoteKind.WAITS, name, text)
    _Round(ledger, objectives, Market(ledger, objectives, policy)).grant()
    return Outcome(
        writes={
            id_: holding
            for id_, holding in sorted(ledger.writes.items())
            if holding != view.holdings.get(id_)
        },
        memory=ledger.memory.data(),
        notes=tuple(ledger.notes),
    )


def usages(
    view: View, observations: Mapping[str, Observed], memory: Mapping[str, Any], now_s: float
) -> Mapping[str, float]:
    """Return the usage of each member whose service has answered (1.1.2.7), not yet weighed."""
    ledger = _ledger_of(view, observations, memory, now_s, hurry=False)
    objectives = Objectives(ledger)
    return {
        id_: objectives.usage(holding.service, ledger.class_of[id_], at_work=ledger.at_work(id_))[0]
        for id_, holding in ledger.holdings.items()
        if holding.service in ledger.answers and holding.phase is Phase.IN
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What an SLO of a service, or its `min`, asks for or will ask for, and since when."""

    service: str
    slo: str
    urgency: float
    wanted: float
    asks: bool
    since_s: float


def needs(
    view: View, observations: Mapping[str, Observed], memory: Mapping[str, Any], now_s: float
) -> list[Need]:
    """Return what services ask for now, and what they will if it lasts, spare pools left out."""
    ledger = _ledger_of(view, observations, memory, now_s, hurry=False)
    found = []
    for name, objectives in Objectives(ledger).of_service.items():
        known = ledger.memory.requests.get(name, {})
        for it in objectives:
            if it.wanted > 0 and not _is_permanent(it):
                since_s = known[it.key].since_s if it.key in known else ledger.now_s
                found.append(
                    Need(
                        service=name,
                        slo=it.key,
                        urgency=it.urgency,
                        wanted=it.wanted,
                        asks=it.asks,
                        since_s=since_s,
                    )
                )
    return found


@dataclass(slots=True, kw_only=True)
class _Ask:
    """A need in a round, and how often it has got something in it.

    A vain one, which grants have not lowered, gets only what nobody needs.
    """

    objective: Objective
    request: Request
    is_vain: bool
    granted: int = 0


class _Round:
    """The needs of a round, those that weigh most first, and what each of them gets."""

    def __init__(self, ledger: Ledger, objectives: Objectives, market: Market) -> None:
        self._ledger, self._objectives, self._market = ledger, objectives, market
        self._memory = memory = ledger.memory
        budget = ledger.pools.budget
        self._moves_left = budget.moves - len(memory.moves) if budget else math.inf
        self._coming: dict[str, Counter[int]] = defaultdict(Counter)
        self._ordered: Counter[tuple[str, str]] = Counter()
        self._kept: Counter[str] = Counter()
        oldest_s = ledger.now_s - ledger.pools.order_after_s
        for id_, holding in ledger.leaving().items():
            if holding.to is not None and (holding.order is None or holding.order.at_s > oldest_s):
                self._expect(id_, holding.to, holding.order.slo if holding.order else "")

    def grant(self) -> None:
        """Grant what can be granted; note what cannot, and why."""
        queue = [self._entry(ask) for ask in self._asks()]
        heapq.heapify(queue)
        while queue:
            entry = heapq.heappop(queue)
            ask: _Ask = entry[-1]
            left, current = self._left(ask.objective), self._entry(ask)
            if left <= 0:
                continue
            if current[0] != entry[0]:  # what the service got meanwhile weighs in
                heapq.heappush(queue, current)
            elif self._serve(ask, -current[0], left):
                heapq.heappush(queue, self._entry(ask))
        for name, count in self._kept.items():
            text = f"keeps {count}, given up and asked for again {ROUNDS_OF_A_CIRCLE} times lately"
            self._ledger.note(NoteKind.CIRCLE, name, text)
        self._expel()

    def _asks(self) -> list[_Ask]:
        """Return the needs of this round; what is known of those that are gone is forgotten."""
        found = []
        for name, objectives in self._objectives.of_service.items():
            known = self._memory.requests.get(name, {})
            self._memory.requests[name] = kept = {}
            for objective in objectives:
                if not objective.asks and (
                    objective.needed < math.inf or objective.key not in known
                ):
                    continue
                request = known.get(objective.key) or Request(since_s=self._ledger.now_s)
                kept[objective.key] = request
                if objective.asks:
                    is_vain = self._is_vain(objective, request)
                    found.append(_Ask(objective=objective, request=request, is_vain=is_vain))
        return found

    def _is_vain(self, objective: Objective, request: Request) -> bool:
        """Return whether grants have not lowered a need: for a while others keep what they need."""
        now_s = self._ledger.now_s
        if objective.slo is None or objective.slo.kind not in _BY_KPI or self._ledger.hurry:
            return False
        if request.grants and objective.value < request.value:
            request.grants = request.rests = 0
        is_new = objective.wanted == objective.slo.quantity
        if request.rest_s <= now_s and is_new and request.grants >= _GRANTS_IN_VAIN:
            request.rest(now_s)
        if not request.grants:
            request.value = objective.value
        if request.rest_s <= now_s:
            return False
        text = (
            f"{objective.key}: grants have not lowered its KPI; for {request.rest_s - now_s:g} s "
            "it gets only what nobody needs"
        )
        self._ledger.note(NoteKind.WAITS, objective.service.name, text)
        return True

    def _entry(self, ask: _Ask) -> tuple[float, float, int, float, str, str, _Ask]:
        """Return the place of a need in the queue: by weight, then who got something last."""
        objective, request = ask.objective, ask.request
        return (
            -self._weight(objective),
            request.granted_s,
            ask.granted,
            request.since_s,
            objective.service.name,
            objective.key,
            ask,
        )

    def _weight(self, objective: Objective) -> float:
        if objective.slo is None:
            return math.inf
        name = objective.service.name
        index = self._market.needed(name) + self._coming[name].total() + 1
        return self._market.weigh(objective.service, objective.urgency, index)

    def _left(self, objective: Objective) -> float:
        """Return how many more resources an objective wants, beside those that are on their way."""
        name = objective.service.name
        if objective.slo is None or objective.slo.kind is SloKind.MINIMUM:
            coming = sum(n for class_, n in self._coming[name].items() if class_ in objective.fits)
        else:
            coming = self._ordered[name, objective.key]
        return objective.wanted - coming

    def _serve(self, ask: _Ask, weight: float, left: float) -> bool:
        """Grant one resource, or all of an atomic need; return whether there may be more."""
        objective = ask.objective
        is_atomic = objective.slo is not None and objective.slo.atomic and left < math.inf
        n = int(left) if is_atomic else 1
        service = objective.service
        there = self._ledger.has(service.name) + self._ledger.incoming[service.name]
        if service.max is not None and there + n > service.max:
            return self._unmet(ask, left, f"{service.name} has its `max`, {service.max}")
        if self._reclaim(objective, weight):
            return True
        picks = self._picks(ask, weight, n)
        if len(picks) == n <= self._moves_left:
            for pick in picks:
                self._move(pick, objective, weight)
            ask.request.grants += not ask.granted and not ask.is_vain
            ask.granted += n
            ask.request.granted_s = self._ledger.now_s
            return True
        for pick in picks:
            self._market.put_back(pick)
        if len(picks) == n:
            self._moves_left = 0  # what weighs less does not use up what an atomic need waits for
            return self._unmet(ask, left, "the budget of moves is used up")
        why = f"all {n} at once, and only {len(picks)} can be had"
        return self._unmet(ask, left, why if n > 1 else self._market.why_not(objective))

    def _picks(self, ask: _Ask, weight: float, n: int) -> list[Pick]:
        """Return the resources that a need can take, no more than `n`; they are taken."""
        target, found = ask.objective.service.name, list[Pick]()
        unfit = self._memory.blacklist.get(target, {})
        while len(found) < n:
            pick = self._market.take(ask.objective, weight, unfit, unneeded=ask.is_vain)
            if pick is None:
                break
            if self._closes_circle(pick, ask.objective):
                self._market.put_back(pick, is_loose=False)
            else:
                found.append(pick)
        return found

    def _unmet(self, ask: _Ask, left: float, why: str) -> bool:
        if left < math.inf:
            text = f"{ask.objective.key} wants {left:g} more: {why}"
            self._ledger.note(NoteKind.UNMET, ask.objective.service.name, text)
        return False

    def _reclaim(self, objective: Objective, weight: float) -> bool:
        """Keep a resource that leaves for a need that weighs less, which is no move."""
        name = objective.service.name
        for id_, holding in self._ledger.leaving_from(name):
            if (
                holding.order is not None
                and holding.order.weight < weight
                and self._ledger.class_of[id_] in objective.fits
            ):
                stay(self._ledger, id_, holding)
                self._ledger.note(NoteKind.TAKEN_BACK, id_, f"{name} needs it: {objective.key}")
                self._expect(id_, name, objective.key)
                return True
        return False

    def _closes_circle(self, pick: Pick, objective: Objective) -> bool:
        """Return whether a move goes round a circle once more; the resource stays then.

        It rests, if objectives push it round. If it is given up as idle and asked for again, it is
        only not given up: others may have it.
        """
        source, target = pick.bucket.service or "", objective.service.name
        path = self._memory.paths.get(pick.id, [])
        same = [step for step in path if (step.source, step.target) == (source, target)]
        if len(same) < ROUNDS_OF_A_CIRCLE:
            return False
        way = " -> ".join([path[0].source, *(step.target for step in path)])
        pushed = sorted({it for step in path if step.loser for it in (step.loser, step.winner)})
        if _is_permanent(objective):
            self._kept[source] += 1
        elif pushed:
            self._memory.resting[pick.id] = self._ledger.now_s + self._ledger.pools.circle_s
            text = f"goes round {way}: {' and '.join(pushed)} push against each other"
            self._ledger.note(NoteKind.CIRCLE, pick.id, text)
        return bool(pushed) or _is_permanent(objective)

    def _move(self, pick: Pick, objective: Objective, weight: float) -> None:
        """Write an order, or at once who holds a resource that nobody or a spare pool has."""
        ledger, target = self._ledger, objective.service.name
        source = pick.bucket.service
        order = Order(slo=objective.key, weight=min(weight, HEAVIEST), at_s=ledger.now_s)
        if source is None or ledger.pools.services[source].direct:
            holding = Holding(service=target, order=order, since_s=ledger.now_s)
        else:
            holding = Holding(
                service=source, phase=Phase.LEAVING, to=target, order=order, since_s=ledger.now_s
            )
        self._write(pick.id, holding)
        self._expect(pick.id, target, objective.key)
        winner, loser = f"{target}/{objective.key}", ""
        if source and pick.loser:
            losing = self._objectives.find(source, pick.loser)
            loser = f"{source}/{pick.loser}" if losing and not _is_permanent(losing) else ""
        step = Step(ledger.now_s, source or "", target, winner, loser)
        self._memory.paths.setdefault(pick.id, []).append(step)
        usage = "is free" if pick.weight < 0 else f"weighs {pick.weight:g} in {source}"
        text = f"{source or 'nobody'} -> {target}: {objective.key} weighs {weight:g}, it {usage}"
        ledger.note(NoteKind.MOVE, pick.id, text)

    def _expel(self) -> None:
        """Let members go of services that still have more than their `max`, as found or edited."""
        ledger = self._ledger
        for name in self._objectives.of_service:
            most = ledger.pools.services[name].max
            surplus = 0 if most is None else int(min(ledger.has(name) - most, self._moves_left))
            for id_ in islice(self._market.loose(name), max(surplus, 0)):
                holding = Holding(service=name, phase=Phase.LEAVING, since_s=ledger.now_s)
                self._write(id_, holding)
                text = f"{name} -> nobody: {name} has more than its `max`, {most}"
                ledger.note(NoteKind.MOVE, id_, text)

    def _write(self, id_: str, holding: Holding) -> None:
        self._ledger.write(id_, holding)
        self._memory.moves.append(self._ledger.now_s)
        self._moves_left -= 1

    def _expect(self, id_: str, target: str, key: str) -> None:
        self._coming[target][self._ledger.class_of[id_]] += 1
        self._ordered[target, key] += 1


_BY_KPI = (SloKind.PENDING, SloKind.UTILISATION)


def _is_permanent(objective: Objective) -> bool:
    return objective.slo is not None and objective.slo.kind is SloKind.PERMANENT


def _ledger_of(
    view: View,
    observations: Mapping[str, Observed],
    memory: Mapping[str, Any],
    now_s: float,
    *,
    hurry: bool,
) -> Ledger:
    """Return the state at the begin of a round, which remembers since when members are idle."""
    remembered = Memory.of(memory, now_s)
    remembered.forget(view.pools)
    # By the clock of now: one that was ahead for a moment must not make all answers too old.
    answers, doubts = trusted(view, observations, now_s)
    told = {id_: seen.idle for answer in answers.values() for id_, seen in answer.members.items()}
    for id_, is_idle in told.items():
        if is_idle:
            remembered.idle.setdefault(id_, remembered.now_s)
        else:
            remembered.idle.pop(id_, None)
    ledger = Ledger(view, answers, remembered, hurry=hurry)
    ledger.notes += doubts
    return ledger
