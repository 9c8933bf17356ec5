"""What a run may take down, checked from outside: by what is real, not by the engine's books.

Written from design 5b alone, for worlds of web servers (`webs`, `rollout`): a server serves while
it is up, whatever its content is, its host answers and nothing is under way that stops or
interrupts it. Each effect is looked at before it is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable

from cobweb.engine import (
    CanaryWritten,
    Effect,
    HostsSwitched,
    SlotReturned,
    SlotTaken,
    StartTransition,
    StateFound,
    StateReason,
)
from cobweb.model import OUTDATED, UNKNOWN, Budget, CobId, Transition, Unit, host_of
from tests.support.rollout import Rollout

__all__ = ["Watch"]

Key = tuple[str, str]


class Watch:
    """Watches a rollout; AssertionError where it takes down more than it says.

    `served` are members that have served and are not gone, `slots` who has one, `moved` the units
    of which something has moved since they have it, `gone_out` those of which a member was taken
    out with it, `leaving` whose slots members leave with that are under way. `canary` is who goes
    first by limit while the verdict is open, `chosen` the same by limit and contents for ever.
    """

    def __init__(self, run: Rollout) -> None:
        self.run = run
        self.change = run.change
        self.budgets = {it.name: it for it in run.change.merged().budgets}
        self.near = _near(run)
        self.served: set[CobId] = set(run.journal.served)
        self.served |= {cob for cob, state in run.journal.states.items() if state == "up"}
        self.slots: set[Key] = set(run.journal.slots)
        self.moved: set[Key] = set(self.slots)
        self.gone_out: set[Key] = set(self.slots)
        self.leaving: dict[CobId, set[Key]] = {}
        self.canary: dict[str, frozenset[str]] = {}
        self.chosen: dict[Key, frozenset[str]] = {}
        self.switched: set[str] = set(run.journal.switched)
        self.doubted: set[CobId] = set()

    def resume(self) -> None:
        """Go on after the coordinator was killed: what was stored counts."""
        journal = self.run.journal
        self.slots = set(journal.slots)
        self.moved = set(self.slots)
        self.gone_out = set(self.slots)
        self.leaving.clear()
        self.switched = set(journal.switched)
        self.canary = {k: it.units for k, it in journal.canaries.items() if not it.through}

    def __call__(self, effect: Effect) -> None:  # noqa: C901, PLR0912 - a case for each kind
        """Look at an effect."""
        self.served |= {cob for cob in self.run.real if self._is_up(cob)}
        match effect:
            case SlotTaken(limit=limit, unit=unit):
                self.slots.add((limit, unit))
                self.moved.discard((limit, unit))
                self.gone_out.discard((limit, unit))
                self._room(self.budgets[limit], effect)
            case SlotReturned(limit=limit, unit=unit):
                self.slots.discard((limit, unit))
                if (limit, unit) in self.moved:
                    self._home(limit, unit)
            case CanaryWritten(limit=limit, canary=canary):
                self.canary.pop(limit, None)
                first = self.chosen.setdefault((limit, canary.contents), canary.units)
                assert first >= canary.units, f"{effect}, and before {sorted(first)}"
                if not canary.through:
                    self.canary[limit] = canary.units
            case HostsSwitched(hosts=hosts):
                self.switched.update(hosts)
                self._held_back(hosts, effect)
            case StartTransition(cob=cob, transition=step):
                self._begins(cob, step)
            case StateFound(cob=cob, state=state, reason=reason):
                left = self.leaving.pop(cob, set())
                self.gone_out |= left if state != UNKNOWN else set()
                if state == UNKNOWN and reason is not StateReason.CONTENT:
                    self.doubted.add(cob)
                elif state not in (UNKNOWN, OUTDATED):
                    self.doubted.discard(cob)
            case _:
                pass

    # --- one step

    def _begins(self, cob: CobId, step: Transition) -> None:
        is_new = cob in self.change.removed() | self.change.added()
        if is_new or (host_of(cob) in self.switched and cob in self.change.changed()):
            self._held_back((host_of(cob),), step)
        stops = step.dest != "up" or step.interrupts or self._is_first(cob, step)
        outs = stops and self._is_up(cob)
        for budget in self.budgets.values():
            self._flags(budget, cob, step, is_out=outs)
            for unit in budget.units:
                key = (budget.name, unit.name)
                if outs and cob in unit.members:
                    assert key in self.slots, f"{cob} {step} without a slot of {key}"
                    assert key in self.moved or self._fits(budget), f"{cob} {step} beyond {key}"
                    self.leaving.setdefault(cob, set()).add(key)
                    self.gone_out |= {key} if step.interrupts else set()
                if cob in self._scope(unit) and key in self.slots:
                    self.moved.add(key)

    def _flags(self, budget: Budget, cob: CobId, step: Transition, *, is_out: bool) -> None:
        """See that what a budget holds is there when a unit goes out, and while any has a slot."""
        flags = dict(budget.during)
        if is_out and any(cob in unit.members for unit in budget.units):
            under_way = {job.cob for job in self.run.jobs if isinstance(job, StartTransition)}
            for flag, state in flags.items():
                assert self.run.real.get(flag) == state, f"{cob} {step} without {flag} {state}"
                assert flag not in under_way, f"{cob} {step} while {flag} moves"
        if flags.get(cob) == step.source:
            lent = {limit for limit, _ in self.slots}
            assert budget.name not in lent, f"{cob} {step} while {self.slots} are lent"

    def _is_first(self, cob: CobId, step: Transition) -> bool:
        """Say whether a step leaves the old content of a type that does not say that it serves.

        Where it was doubted in between, nobody knows any more that only its content is old.
        """
        kind = self.run.engine.cob(cob).type
        is_known = cob not in self.doubted
        return is_known and step.source == OUTDATED and not kind.serves(OUTDATED)

    def _is_up(self, cob: CobId) -> bool:
        """Say whether an object works for its users, as far as can be seen."""
        if self.run.real.get(cob) != "up" or host_of(cob) in self.run.dead:
            return False
        for job in self.run.jobs:
            if isinstance(job, StartTransition) and job.cob == cob:
                step = job.transition
                return step.dest == "up" and not step.interrupts and not self._is_first(cob, step)
        return True

    # --- all units of a budget

    def idle(self) -> set[Key]:
        """Return who has a slot although nothing is out, or was, and all there can be seen."""
        found = self.slots - self.gone_out
        units = {
            (budget.name, it.name): it for budget in self.budgets.values() for it in budget.units
        }
        return {
            key
            for key in found
            if not self._counting(units[key]) - {it for it in self.run.real if self._is_up(it)}
            and not any(it in self.run.silent for it in self._scope(units[key]))
            and not any(host_of(it) in self.run.dead for it in self._scope(units[key]))
        }

    def _room(self, budget: Budget, effect: Effect) -> None:
        assert self._fits(budget), f"{effect}: out are {self._out(budget)}, {self.slots}"

    def _fits(self, budget: Budget) -> bool:
        """Say whether the units that are out or have a slot are at most the bound."""
        taking = self._out(budget) | {unit for limit, unit in self.slots if limit == budget.name}
        population = [it for it in budget.units if self._counting(it) and self._stays(it)]
        domains = {domain for unit in budget.units for domain in unit.domains}
        is_whole = budget.percent is not None or not domains
        if is_whole and len(taking) > budget.bound(len(population)):
            return False
        return all(
            sum(domain in it.domains for it in budget.units if it.name in taking)
            <= budget.bound(sum(domain in it.domains for it in population))
            for domain in domains
        )

    def _out(self, budget: Budget) -> set[str]:
        return {
            unit.name
            for unit in budget.units
            if any(not self._is_up(cob) for cob in self._counting(unit))
        }

    def _counting(self, unit: Unit) -> set[CobId]:
        gone = {cob for cob in self.change.removed() if host_of(cob) in self.switched}
        return {cob for cob in unit.members if cob in self.served and cob not in gone}

    def _stays(self, unit: Unit) -> bool:
        return any(cob in self.change.goal.cobs for cob in unit.members)

    def _home(self, limit: str, name: str) -> None:
        """Check that all of a unit serves that gives a slot back with which it has moved."""
        (unit,) = (it for it in self.budgets[limit].units if it.name == name)
        for cob in unit.members & self.change.goal.cobs.keys():
            goal = self.change.goal.cobs[cob]
            assert self.run.real.get(cob) == goal.preferred, f"{limit} has {name} back from {cob}"

    # --- canaries

    def _held_back(self, hosts: Iterable[str], what: object) -> None:
        """Nothing new happens on hosts of other units of a limit whose canary is open."""
        for limit, first in self.canary.items():
            for unit in self.budgets[limit].units:
                others = {host_of(cob) for cob in self._scope(unit)}
                is_other = unit.name not in first
                assert not (is_other and others & set(hosts)), f"{what} before {limit}'s verdict"

    def _scope(self, unit: Unit) -> set[CobId]:
        hosts = {host_of(cob) for cob in unit.members}
        found = set(unit.members)
        todo = sorted(found)
        while todo:
            for cob in self.near.get(todo.pop(), ()):
                if cob not in found and host_of(cob) in hosts:
                    found.add(cob)
                    todo.append(cob)
        return found


def _near(run: Rollout) -> dict[CobId, set[CobId]]:
    near: dict[CobId, set[CobId]] = {}
    for need in (*run.change.base.needs, *run.change.goal.needs):
        near.setdefault(need.cob, set()).add(need.on)
        near.setdefault(need.on, set()).add(need.cob)
    return near
