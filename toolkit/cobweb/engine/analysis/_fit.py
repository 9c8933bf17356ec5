"""Budgets that one step cannot fit in, that let everything out, or that count what still serves.

One step takes out what its needs ask for in states that do not serve, what had to go before that
could, and so on: a closure over needs as `(db, outdated -> down) <- (app, down)`. What went before
counts as long as it cannot come back meanwhile, for its own steps home need what it made room for.
Looked at are the steps on the ways to what objects prefer, so those of changes and of first
installations; a removal takes the needs with it that ask others to go.

Nothing here is an error: a budget may be wider than needed, and no run may ever take such a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property

from cobweb._text import some_of
from cobweb.engine.analysis._analysis import TroubleLink, as_wanted
from cobweb.engine.analysis._patterns import Pattern, Patterns, Positions
from cobweb.model import (
    OUTDATED,
    Budget,
    CobId,
    Graph,
    State,
    Transition,
    TransitionNeed,
    Unit,
    name_of,
)

MIN_FOLLOWED, FOLLOWED_PER_NEED = 100_000, 4
"""So many objects of all closures together are followed; further steps are not looked at."""

SHOWN = 3
"""So many units, and needs, of a step are named."""


class MisfitKind(StrEnum):
    """Why a budget hardly does what somebody means by it."""

    STEP = "step"  # one step takes out more units than the bound lets
    ALL = "all"  # the bound lets all units out at once
    SERVING = "serving"  # a member's type does not say whether `outdated` serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A budget with what is odd about it; `links` are the needs that take units out together."""

    kind: MisfitKind
    budget: Budget
    message: str
    links: tuple[TroubleLink, ...] = ()


def misfits(graph: Graph) -> tuple[Misfit, ...]:
    """Return what is odd about the budgets of a graph, in their order; linear but for closures.

    One that lets nobody out is a freeze, and meant.
    """
    budgets = tuple(it for it in graph.budgets if it.count or it.percent is not None)
    graph = replace(graph, budgets=budgets)
    found = [*_letting_all_out(graph.budgets), *_without_serving(graph)]
    if graph.budgets:
        fit = _Fit(graph)
        found += [*fit.steps(), *fit.whole_units()]
    names = {budget.name: at for at, budget in enumerate(graph.budgets)}
    return tuple(sorted(found, key=lambda misfit: names[misfit.budget.name]))


def _letting_all_out(budgets: Iterable[Budget]) -> Iterator[Misfit]:
    """Find bounds that hold nothing back; one unit alone cannot be kept in by any bound."""
    for budget in budgets:
        units = len(budget.units)
        if units > 1 and _over(budget, _by_domain(budget.units), budget.units) is None:
            bound = f"{budget.percent}%" if budget.percent else str(budget.count)
            message = f"limit `{budget.name}` lets all of its {units} units out at once: {bound}"
            yield Misfit(kind=MisfitKind.ALL, budget=budget, message=message)


def _without_serving(graph: Graph) -> Iterator[Misfit]:
    """Find types whose `outdated` members count as out though they may serve still."""
    for budget in graph.budgets:
        members = (member for unit in budget.units for member in unit.members)
        kinds = {id(kind): kind for kind in (graph.cobs[member].type for member in members)}
        silent = (it for it in kinds.values() if OUTDATED in it.states and not it.serving)
        for name in sorted({it.name for it in silent} if not budget.group else ()):
            message = (
                f"limit `{budget.name}`: type `{name}` does not say whether it serves while it is "
                f"`{OUTDATED}`, so a member counts as out then"
            )
            yield Misfit(kind=MisfitKind.SERVING, budget=budget, message=message)


def _over(
    budget: Budget, there: Mapping[str | None, int], out: Iterable[Unit]
) -> tuple[str | None, int] | None:
    """Return a domain (None: all) and its bound that so many units are beyond; None for none.

    `there` are all units by domain.
    """
    gone = _by_domain(out)
    if budget.percent is None and len(there) > 1:
        del gone[None]  # a number is of each domain alone
    for domain in sorted(gone, key=lambda it: it or ""):
        bound = budget.bound(there[domain])
        if gone[domain] > bound:
            return domain, bound
    return None


def _by_domain(units: Iterable[Unit]) -> Counter[str | None]:
    """Count units by failure domain, and under None all of them."""
    return Counter(domain for unit in units for domain in (None, *unit.domains))


class _Fit:
    """A graph whose steps are looked at; `_wanted` is it with what objects want as preferred."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._wanted = as_wanted(graph)
        self._patterns = Patterns(self._wanted)
        self._of_leaving = cache(_of_leaving)
        self._sizes = [_by_domain(budget.units) for budget in graph.budgets]
        self._units: dict[CobId, list[tuple[int, Unit]]] = {}
        for at, budget in enumerate(graph.budgets):
            for unit in budget.units:
                for member in unit.members:
                    self._units.setdefault(member, []).append((at, unit))

    def steps(self) -> Iterator[Misfit]:
        """Yield of steps alike the first that takes out more than a budget lets."""
        risky = {pattern: _risky(pattern) for pattern in self._patterns.all()}
        told: set[tuple[int, str, str]] = set()
        left = MIN_FOLLOWED + FOLLOWED_PER_NEED * len(self._graph.needs)
        for cob, pattern in self._patterns.having(risky.get).items():
            for step in risky[pattern]:
                gone = self._closure(cob, pattern, step)
                left -= len(gone)
                for at, misfit in self._beyond(cob, step, gone):
                    key = (at, name_of(cob), str(step))
                    if key not in told:
                        told.add(key)
                        yield misfit
            if left < 0:
                return

    def whole_units(self) -> Iterator[Misfit]:
        """Yield what no unit of another budget, which goes as a whole, fits in; once for a pair."""
        told: set[tuple[str, int]] = set()
        for budget in self._graph.budgets:
            for whole in budget.units:
                parts: dict[int, dict[str, Unit]] = {}
                for at, unit in (it for cob in whole.members for it in self._units[cob]):
                    parts.setdefault(at, {})[unit.name] = unit
                for at, units in parts.items():
                    other, pair = self._graph.budgets[at], (budget.name, at)
                    over = None if pair in told else _over(other, self._sizes[at], units.values())
                    if over is not None and other is not budget and len(units) > 1:
                        told.add(pair)
                        what = f"`{whole.name}` of limit `{budget.name}`"
                        message = _message(other, what, sorted(units), over)
                        yield Misfit(kind=MisfitKind.STEP, budget=other, message=message)

    def _closure(self, cob: CobId, pattern: Pattern, step: Transition) -> dict[CobId, TroubleLink]:
        """Return which needs have objects be away while one takes a step, in their order."""
        gone: dict[CobId, TroubleLink] = {}
        self._add(gone, cob, str(step), pattern.of_step(step.source, step.dest))
        queue = list(gone)
        for other in queue:  # it grows
            its_pattern, state = self._patterns.of(other), gone[other].state
            if its_pattern is not None:
                label = f"{its_pattern.type.preferred} -> {state}"
                positions = self._of_leaving(its_pattern, state)
                before = len(gone)
                self._add(gone, other, label, positions, its_pattern.type.members(state))
                queue += list(gone)[before:]
        return gone

    def _add(
        self,
        gone: dict[CobId, TroubleLink],
        cob: CobId,
        label: str,
        positions: Positions,
        states: tuple[State, ...] | None = None,
    ) -> None:
        """Add what some needs of an object ask to be away.

        With `states`, of that object, only what cannot come back while it is in one of these.
        """
        for at in positions:
            need = self._patterns.needs[cob][at]
            kind = self._wanted.cobs[need.on].type
            if kind.preferred in kind.members(need.state) or need.on in gone or need.on == cob:
                continue
            if states is None or self._stays(need.on, cob, states):
                gone[need.on] = TroubleLink(
                    cob=cob, step=label, on=need.on, state=need.state, place=need.place
                )

    def _stays(self, cob: CobId, away: CobId, states: tuple[State, ...]) -> bool:
        """Say whether all steps of an object home need another one out of `states`."""
        kind, other = self._wanted.cobs[cob].type, self._wanted.cobs[away].type
        needs = [
            need
            for need in self._between.get((cob, away), ())
            if not set(states) & set(other.members(need.state))
        ]
        home = [step for step in kind.transitions if step.dest == kind.preferred]
        return all(any(need.covers(step.source, step.dest) for need in needs) for step in home)

    @cached_property
    def _between(self) -> Mapping[tuple[CobId, CobId], list[TransitionNeed]]:
        """The transition dependencies by (object, what it needs)."""
        found: dict[tuple[CobId, CobId], list[TransitionNeed]] = {}
        for need in self._graph.needs:
            if isinstance(need, TransitionNeed):
                found.setdefault((need.cob, need.on), []).append(need)
        return found

    def _beyond(
        self, cob: CobId, step: Transition, gone: Mapping[CobId, TroubleLink]
    ) -> Iterator[tuple[int, Misfit]]:
        """Yield the budgets that a step with all that goes for it is beyond, by number."""
        units: dict[int, dict[str, tuple[Unit, TroubleLink | None]]] = {}
        for at, unit in self._units.get(cob, ()):
            kind, group = self._graph.cobs[cob].type, self._graph.budgets[at].group
            serves = kind.serves(step.source, group) and kind.serves(step.dest, group)
            if step.interrupts or not serves:
                units.setdefault(at, {}).setdefault(unit.name, (unit, None))
        for other, link in gone.items():
            kind = self._graph.cobs[other].type
            states = kind.members(link.state)
            for at, unit in self._units.get(other, ()):
                group = self._graph.budgets[at].group
                if not any(kind.serves(state, group) for state in states):
                    units.setdefault(at, {}).setdefault(unit.name, (unit, link))
        for at in sorted(units):
            budget, out = self._graph.budgets[at], units[at].values()
            if len(out) == 1:
                continue  # any bound has room for one
            over = _over(budget, self._sizes[at], [unit for unit, _ in out])
            if over is not None:
                links = tuple(why for _, why in out if why is not None)[:SHOWN]
                message = _message(budget, f"{cob}: {step}", list(units[at]), over)
                yield at, Misfit(kind=MisfitKind.STEP, budget=budget, message=message, links=links)


def _risky(pattern: Pattern) -> tuple[Transition, ...]:
    """Return the steps on ways to the preferred state that ask others away."""
    kind = pattern.type
    ways = (kind.way(state, kind.preferred) or () for state in kind.states)
    steps = dict.fromkeys(step for way in ways for step in way)
    asked = ((step, pattern.of_step(step.source, step.dest)) for step in steps)
    return tuple(step for step, positions in asked if pattern.asks_away(positions))


def _of_leaving(pattern: Pattern, name: State) -> Positions:
    """Return which needs every way asks for from the preferred state to a state or group."""
    kind = pattern.type
    ways = [kind.way(kind.preferred, state) for state in kind.members(name)]
    asked = [
        {at for step in way for at in pattern.of_step(step.source, step.dest)}
        for way in ways
        if way is not None
    ]
    return tuple(sorted(set.intersection(*asked))) if asked else ()


def _message(budget: Budget, step: str, units: list[str], over: tuple[str | None, int]) -> str:
    domain, bound = over
    where = "" if domain is None else f" of `{domain}`"
    return (
        f"limit `{budget.name}`: no room for {step}, which takes out {len(units)} units at once "
        f"({some_of(units, SHOWN)}), where at most {bound}{where} may be out"
    )
