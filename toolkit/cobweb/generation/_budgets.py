"""Limits while a run goes from one generation to another (design, section 5b, units).

One is known by its name: its words are the goal's, its members those of both generations. One that
the goal has no more holds with its old words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from cobweb.model import Budget, CobId, Limit, LimitGroup, Unit, host_of


def merged_budgets(
    goal: Iterable[Budget], old: Iterable[Budget], cobs: Container[CobId]
) -> tuple[Budget, ...]:
    """Return the budgets of a run between two generations, over the objects `cobs` of both."""
    before: dict[str, list[Budget]] = {}
    for budget in old:
        before.setdefault(budget.name, []).append(budget)
    merged = [_merged(budget, before.pop(budget.name, ()), cobs) for budget in goal]
    for first, *others in before.values():
        merged.append(_merged(replace(first, first=0), others, cobs))
    return tuple(budget for budget in merged if budget.units)


def merged_limits(
    goal: Iterable[Limit], old: Iterable[Limit], cobs: AbstractSet[CobId]
) -> tuple[Limit, ...]:
    """Return the bounds on transitions of such a run; members go to the group that is theirs now.

    Where a bound is of all together now, that is the one; else the one of the same name.
    """
    words: dict[str, Limit] = {}
    found: dict[str, dict[str, LimitGroup]] = {}
    for limit in (*goal, *old):
        words.setdefault(limit.name, limit)
        groups = found.setdefault(limit.name, {})
        known = {cob for group in groups.values() for cob in group.members}
        for group in limit.groups:
            name = "" if "" in groups else group.name
            now = groups.get(name) or replace(group, members=frozenset())
            groups[name] = replace(now, members=now.members | (group.members - known) & cobs)
    merged = {name: tuple(it for it in found[name].values() if it.members) for name in words}
    return tuple(replace(words[name], groups=some) for name, some in merged.items() if some)


def _merged(budget: Budget, old: Iterable[Budget], cobs: Container[CobId]) -> Budget:
    units = {unit.name: unit for unit in budget.units}
    name_of = _names(budget)
    own = {cob for unit in budget.units for cob in unit.members}
    for version in old:
        for unit in version.units:
            for cob in sorted(unit.members - own):
                name = name_of(unit, cob)
                known = units.get(name) or replace(unit, name=name, members=frozenset())
                units[name] = replace(known, members=known.members | {cob})
    return replace(budget, units=tuple(_present(units.values(), cobs)))


def _names(budget: Budget) -> Callable[[Unit, CobId], str]:
    """Return what says which unit of a budget a member of then belongs to now.

    What a unit is may have changed in the same commit: then it goes with its host.
    """
    units = budget.units
    if units and all(unit.members == {CobId(unit.name)} for unit in units):
        return lambda _unit, cob: cob
    of_host = {host_of(cob): unit.name for unit in units for cob in unit.members}

    def name_of(unit: Unit, cob: CobId) -> str:
        host = host_of(cob)
        if host in of_host:
            return of_host[host]
        mixed = any(host_of(other) in of_host for other in unit.members)
        return host if mixed else unit.name

    return name_of


def _present(units: Iterable[Unit], cobs: Container[CobId]) -> Iterator[Unit]:
    """Yield the units that have a member among `cobs`, with these."""
    for unit in units:
        if members := frozenset(cob for cob in unit.members if cob in cobs):
            yield unit if members == unit.members else replace(unit, members=members)
