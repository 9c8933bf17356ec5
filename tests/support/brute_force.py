"""A dumb look-ahead: every situation of a small system, cheapest first, and what may be done in it.

It is written from the design alone (sections 5 and 5b) and shares nothing with the engine: states
are in a dictionary, and everything is worked out anew for every step.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cobweb.model import Budget, CobId, Graph, LockNeed, State, Transition, TransitionNeed, Unit

Member = tuple[str, CobId]
"""The name of a budget and one of its members."""


@dataclass(frozen=True)
class World:
    """A graph and what is known of it besides states; the words are those of `Standing`."""

    graph: Graph
    counting: frozenset[Member] = frozenset()
    serving: Mapping[CobId, State] = field(default_factory=dict)
    leaving: Collection[CobId] = ()
    owed: Collection[tuple[str, str]] = ()
    fixed: Collection[CobId] = ()


@dataclass(frozen=True)
class Now:
    """Where everything is, and which members count."""

    states: tuple[tuple[CobId, State], ...]
    counting: frozenset[Member]


def cheapest(
    world: World, start: Mapping[CobId, State], goals: Mapping[CobId, State], most: int = 1 << 20
) -> tuple[int, int] | None:
    """Return (objects taken out, steps) of the cheapest order, or None: there is none.

    OverflowError after `most` situations.
    """
    first = begun(world, start)
    last = tuple((cob, goals.get(cob, state)) for cob, state in first.states)
    costs, heap, numbers = {first: (0, 0)}, [((0, 0), 0, first)], 0
    while heap:
        cost, _, now = heapq.heappop(heap)
        if cost > costs[now]:
            continue
        if now.states == last:
            return cost
        for cob, step in legal_steps(world, now):
            after = stepped(world, now, cob, step)
            dearer = (cost[0] + goes_out(world, cob, step), cost[1] + 1)
            if after not in costs or dearer < costs[after]:
                costs[after] = dearer
                numbers += 1
                heapq.heappush(heap, (dearer, numbers, after))
        if len(costs) > most:
            raise OverflowError(most)
    return None


def begun(world: World, start: Mapping[CobId, State]) -> Now:
    """Return the first situation: who serves counts, whatever was said."""
    serving = {
        (budget.name, cob)
        for budget in world.graph.budgets
        for unit in budget.units
        for cob in unit.members
        if serves(world, cob, start[cob], budget)
    }
    return Now(tuple(sorted(start.items())), world.counting | serving)


def legal_steps(world: World, now: Now) -> Iterator[tuple[CobId, Transition]]:
    """Yield everything that may be done."""
    for cob, _ in now.states:
        for step in world.graph.cobs[cob].type.transitions:
            if is_legal(world, now, cob, step):
                yield cob, step


def is_legal(world: World, now: Now, cob: CobId, step: Transition) -> bool:
    """Say whether one step may be taken."""
    it, states = world.graph.cobs[cob], dict(now.states)
    if cob in world.fixed or states[cob] != step.source:
        return False
    if cob in world.leaving and step.source == it.type.remove:
        return False
    if any(
        group.bound < 1 and cob in group.members
        for limit in world.graph.limits
        if limit.source in ("*", step.source) and limit.dest in ("*", step.dest)
        for group in limit.groups
    ):
        return False
    return locks_can_be_had(world.graph, states, cob, step) and all(
        has_room(world, now, budget, cob, step) for budget in world.graph.budgets
    )


def locks_can_be_had(
    graph: Graph, states: Mapping[CobId, State], cob: CobId, step: Transition
) -> bool:
    """Say whether all that the step needs can be locked at the same time."""
    lent: set[CobId] = set()
    while True:
        more = {
            each
            for each in graph.cobs
            if each != cob
            and each not in lent
            and all(
                need.on in lent and meets(graph, states, need)
                for need in graph.needs
                if isinstance(need, LockNeed) and need.cob == each and need.covers(states[each])
            )
        }
        if not more:
            break
        lent |= more
    return all(
        need.on in lent and meets(graph, states, need)
        for need in graph.needs
        if isinstance(need, TransitionNeed)
        and need.cob == cob
        and need.covers(step.source, step.dest)
    )


def meets(graph: Graph, states: Mapping[CobId, State], need: LockNeed | TransitionNeed) -> bool:
    """Say whether an object is where a need wants it."""
    return states[need.on] in graph.cobs[need.on].type.members(need.state)


def serves(world: World, cob: CobId, state: State, budget: Budget | None = None) -> bool:
    """Say whether an object works in a state, or is in the group that a budget names."""
    if world.serving.get(cob) == state:
        return True
    kind = world.graph.cobs[cob].type
    if budget is not None and budget.group:
        return state in kind.groups[budget.group]
    return state in (kind.serving or (kind.preferred,))


def goes_out(world: World, cob: CobId, step: Transition, budget: Budget | None = None) -> bool:
    """Say whether a step takes an object out of serving, or interrupts it."""
    if not serves(world, cob, step.source, budget):
        return False
    fresh = world.serving.get(cob) == step.source
    return fresh or step.interrupts or not serves(world, cob, step.dest, budget)


def has_room(world: World, now: Now, budget: Budget, cob: CobId, step: Transition) -> bool:
    """Say whether a budget lets a member go out."""
    mine = [unit for unit in budget.units if cob in unit.members]
    if (budget.name, cob) not in now.counting or not goes_out(world, cob, step, budget):
        return True
    out = [unit for unit in budget.units if is_out(world, now, budget, unit)]
    for unit in mine:
        if unit in out:
            continue
        after = [*out, unit]
        for domain in unit.domains:
            here = [each for each in after if domain in each.domains]
            if len(here) > budget.bound(population(world, now, budget, domain)):
                return False
        together = not unit.domains or budget.percent is not None
        if together and len(after) > budget.bound(population(world, now, budget, "")):
            return False
    return True


def population(world: World, now: Now, budget: Budget, domain: str) -> int:
    """Return how many units should serve, but for those that are leaving."""
    return sum(
        bool(counting(world, now, budget, unit) or (budget.name, unit.name) in world.owed)
        for unit in budget.units
        if (not domain or domain in unit.domains) and unit.members - set(world.leaving)
    )


def counting(world: World, now: Now, budget: Budget, unit: Unit) -> list[CobId]:
    """Return the members of a unit that count and are not gone."""
    return [
        cob
        for cob in unit.members
        if (budget.name, cob) in now.counting
        and not (
            cob in world.leaving and dict(now.states)[cob] == world.graph.cobs[cob].type.remove
        )
    ]


def is_out(world: World, now: Now, budget: Budget, unit: Unit) -> bool:
    """Say whether a member of a unit that counts does not serve, or the unit is owed."""
    if (budget.name, unit.name) in world.owed:
        return True
    states = dict(now.states)
    return any(
        not serves(world, cob, states[cob], budget) for cob in counting(world, now, budget, unit)
    )


def stepped(world: World, now: Now, cob: CobId, step: Transition) -> Now:
    """Return what is after a step: who serves counts, and who is new where another one went out."""
    states = tuple((each, step.dest if each == cob else state) for each, state in now.states)
    more: set[Member] = set()
    for budget in world.graph.budgets:
        for unit in budget.units:
            if cob not in unit.members:
                continue
            if serves(world, cob, step.dest, budget):
                more.add((budget.name, cob))
            elif (budget.name, cob) in now.counting and goes_out(world, cob, step, budget):
                more |= {
                    (budget.name, each) for each in unit.members if wanted(world, each, budget)
                }
    return replace(now, states=states, counting=now.counting | more)


def wanted(world: World, cob: CobId, budget: Budget) -> bool:
    """Say whether a member is to serve in the end."""
    it = world.graph.cobs[cob]
    states = (
        it.type.groups[budget.group] if budget.group else it.type.serving or (it.type.preferred,)
    )
    return cob not in world.leaving and it.preferred in states
