"""Budgets while a run goes from one generation to another (design, section 5b, units).

A budget is known by its name: its words are the goal's, its members those of both generations. One
that the goal has no more holds with its old words.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

from cobweb.model import Budget, CobId, Unit, host_of


def merged_budgets(
    goal: Iterable[Budget], old: Iterable[Budget], cobs: Container[CobId]
) -> tuple[Budget, ...]:
    """Return the budgets of a run between two generations, over the objects `cobs` of both."""
    before: dict[str, list[Budget]] = {}
    for budget in old:
        before.setdefault(budget.name, []).append(budget)
    merged = [_merged(budget, before.pop(budget.name, ()), cobs) for budget in goal]
    for versions in before.values():
        first, *others = versions
        merged.append(_merged(replace(first, first=0), others, cobs))
    return tuple(budget for budget in merged if budget.units)


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
        members = frozenset(cob for cob in unit.members if cob in cobs)
        if members:
            yield unit if members == unit.members else replace(unit, members=members)
