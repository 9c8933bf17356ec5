"""A made-up world in which one engine carries out a change, with a journal that outlives it.

What is real is the state and the content of each object; a check tells what that is by the content
that the object's host knows. The journal has what the runtime keeps of the effects: states, locks,
slots, canaries, who served, and which hosts have switched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cobweb.engine import (
    Canary,
    CanaryWritten,
    Changeover,
    CheckEnded,
    Effect,
    Engine,
    Halt,
    HostReturned,
    HostsSwitched,
    HostVanished,
    Input,
    Lending,
    LimitPaused,
    LimitResumed,
    LockGranted,
    LockReleased,
    Served,
    SlotReturned,
    SlotTaken,
    StartCheck,
    StartTransition,
    StateFound,
    StateReason,
    TransitionEnded,
    WaitKind,
)
from cobweb.model import OUTDATED, UNKNOWN, Budget, Cob, CobId, Graph, State, host_of
from tests.support.drive import line

__all__ = ["Change", "Journal", "Rollout"]

MAX_STEPS = 5_000
"""How many jobs may end before a run is held to be endless."""

Order = tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Two generations of a site, and the order in which its hosts switch."""

    base: Graph
    goal: Graph
    order: Order = ()

    def removed(self) -> set[CobId]:
        """Return what the goal has no more, or with another type."""
        goal = self.goal.cobs
        return {
            cob
            for cob, it in self.base.cobs.items()
            if cob not in goal or goal[cob].type.name != it.type.name
        }

    def changed(self) -> set[CobId]:
        """Return what has another content in the goal."""
        both = self.base.cobs.keys() & self.goal.cobs.keys() - self.removed()
        return {cob for cob in both if self.base.cobs[cob] != self.goal.cobs[cob]}

    def added(self) -> set[CobId]:
        """Return what only the goal has."""
        return self.goal.cobs.keys() - self.base.cobs.keys()

    def merged(self, switched: Iterable[str] = ()) -> Graph:
        """Return the graph of a run from the one to the other."""
        old = {
            cob: self.base.cobs[cob]
            for cob in self.base.cobs.keys() - self.goal.cobs.keys()
            if host_of(cob) not in switched
        }
        cobs = dict(sorted({**self.goal.cobs, **old}.items()))
        return replace(self.goal, cobs=cobs, budgets=self._budgets())

    def changeover(self, switched: Iterable[str] = ()) -> Changeover:
        """Return what the hosts stand in that have not switched."""
        changes = self.removed() | self.changed() | self.added()
        hosts = {host_of(cob) for cob in changes} - set(switched)

        def here(cobs: Iterable[CobId]) -> frozenset[CobId]:
            return frozenset(cob for cob in cobs if host_of(cob) in hosts)

        kinds = {cob: self.goal.cobs[cob].type for cob in here(self.changed())}
        guesses = {c: OUTDATED if OUTDATED in t.states else t.remove for c, t in kinds.items()}
        guesses |= {cob: self.goal.cobs[cob].type.remove for cob in here(self.added())}
        cobs = self.merged(switched).cobs
        needs = [
            need
            for need in self.base.needs
            if need not in self.goal.needs
            and cobs.keys() >= {need.cob, need.on}
            and hosts & {host_of(need.cob), host_of(need.on)}
        ]
        return Changeover(
            hosts=frozenset(hosts),
            base={cob: self.base.cobs[cob] for cob in here(self.removed() | self.changed())},
            removed=here(self.removed()),
            anew=here(self.removed() & self.goal.cobs.keys()),
            changed=here(self.changed()),
            added=here(self.added()),
            guesses=guesses,
            needs=tuple(needs),
            order=tuple(
                (tuple(host for host in group if host in hosts), before)
                for group, before in self.order
            ),
            asked=here(self._asked()),
        )

    def _asked(self) -> set[CobId]:
        """Return whom removals may ask to move."""
        found = set(self.removed())
        todo = sorted(found)
        while todo:
            cob = todo.pop()
            for need in self.base.needs:
                if need.cob == cob and need.on not in found:
                    found.add(need.on)
                    todo.append(need.on)
        return found - self.removed()

    def _budgets(self) -> tuple[Budget, ...]:
        """Return the budgets of the goal with the members of both, then those of the base alone."""
        old = {budget.name: budget for budget in self.base.budgets}
        return (
            *(_joined(it, old.pop(it.name, None)) for it in self.goal.budgets),
            *(budget for _, budget in sorted(old.items())),
        )


def _joined(goal: Budget, base: Budget | None) -> Budget:
    units = {unit.name: unit for unit in goal.units}
    for unit in () if base is None else base.units:
        mine = units.get(unit.name, unit)
        units[unit.name] = replace(mine, members=mine.members | unit.members)
    return replace(goal, units=tuple(units.values()))


@dataclass(slots=True)
class Journal:
    """What is durable of a run; `believed` and `still` are as `Engine.start` takes them."""

    states: dict[CobId, State] = field(default_factory=dict)
    believed: dict[CobId, State] = field(default_factory=dict)
    still: set[CobId] = field(default_factory=set)
    locks: set[tuple[CobId, CobId, State]] = field(default_factory=set)
    slots: set[tuple[str, str]] = field(default_factory=set)
    canaries: dict[str, Canary] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Canary] = field(default_factory=dict)
    served: set[CobId] = field(default_factory=set)
    switched: set[str] = field(default_factory=set)
    moving: set[CobId] = field(default_factory=set)

    def store(self, effect: Effect) -> None:
        """Keep an effect, before it is carried out."""
        match effect:
            case StateFound():
                self._found(effect)
            case StartTransition(cob=cob):
                self.moving.add(cob)
            case LockGranted(cob=cob, holder=holder, state=state):
                self.locks.add((cob, holder, state))
            case LockReleased(cob=cob, holder=holder, state=state):
                self.locks.discard((cob, holder, state))
            case _:
                self._lend(effect)

    def _lend(self, effect: Effect) -> None:
        match effect:
            case SlotTaken(limit=limit, unit=unit):
                self.slots.add((limit, unit))
            case SlotReturned(limit=limit, unit=unit):
                self.slots.discard((limit, unit))
            case CanaryWritten(limit=limit, canary=canary):
                self.canaries[limit] = canary
                self.verdicts.pop((limit, canary.contents), None)
                self.verdicts[limit, canary.contents] = canary
            case Served(cob=cob):
                self.served.add(cob)
            case HostsSwitched(hosts=hosts):
                self.switched.update(hosts)
            case _:
                pass

    def _found(self, effect: StateFound) -> None:
        cob, state = effect.cob, effect.state
        if state == UNKNOWN:
            before = self.states.pop(cob, "")
            self.believed.pop(cob, None)
            if before and effect.reason is StateReason.CONTENT:
                self.believed[cob] = before
            else:
                self.still.discard(cob)
            return
        was = self.believed.pop(cob, "")
        if effect.reason is StateReason.TRANSITION:
            self.moving.discard(cob)
        if state != OUTDATED:
            self.still.discard(cob)
        elif was and was != OUTDATED:
            self.still.add(cob)
        self.states[cob] = state

    def lending(self, goal: Graph | None = None) -> Lending:
        """Return what of limits a new run to a goal begins with."""
        cobs = {} if goal is None else goal.cobs
        canaries: dict[str, list[Canary]] = {}
        for (limit, _), canary in reversed(self.verdicts.items()):
            canaries.setdefault(limit, []).append(canary)
        return Lending(
            slots=frozenset(self.slots),
            canaries=canaries,
            contents={cob: repr(it.spec) for cob, it in cobs.items()},
            served=frozenset(self.served),
        )


class KilledError(Exception):
    """The coordinator was killed."""


class Rollout:
    """One change in one world; `run` goes on until nothing is left to happen.

    `real` has the state of each object, `version` the content that it was brought there by.
    Transitions of `fails` fail and leave their object where they began; checks find what `finds`
    says, or what is real; those of `silent` fail. A host of `dead` answers no more, which this life
    has heard of those of `lost`. `watch` is told
    each effect before it is carried out. `kill_after` is how many effects are stored before the
    coordinator dies.
    """

    def __init__(
        self,
        change: Change,
        real: Mapping[CobId, State],
        *,
        journal: Journal | None = None,
        **options: Any,
    ) -> None:
        self.change = change
        self.real = dict(real)
        self.version: dict[CobId, Any] = {cob: it.spec for cob, it in change.base.cobs.items()}
        self.journal = Journal(states=dict(real)) if journal is None else journal
        self.options = options
        self.fails: set[CobId] = set()
        self.finds: dict[CobId, State] = {}
        self.silent: set[CobId] = set()
        self.dead: set[str] = set()
        self.lost: set[str] = set()
        self.now_s = 0.0
        self.halted = False
        self.effects: list[Effect] = []
        self.lines: list[str] = []
        self.jobs: list[Effect] = []
        self.watch: Callable[[Effect], None] | None = None
        self.kill_after = -1
        self.renew: frozenset[CobId] = frozenset()
        self.engine: Engine

    # --- lives

    def begin(self) -> list[str]:
        """Start an engine from the journal."""
        journal = self.journal
        graph = self.change.merged(journal.switched)
        change = self.change.changeover(journal.switched)
        self.halted = False
        self.jobs.clear()
        self.lost.clear()
        self._switched(tuple(journal.switched))
        for cob in journal.moving:
            journal.states.pop(cob, None)
            journal.still.discard(cob)
        journal.moving.clear()
        options = {"change": change, "lending": journal.lending(self.change.goal), **self.options}
        self.engine = Engine(graph, **options)
        fresh = {cob for cob in self._new() if host_of(cob) in journal.switched}
        locks = [it for it in journal.locks if graph.cobs.keys() >= {it[0], it[1]}]
        return self._take(
            self.engine.start(
                {cob: state for cob, state in journal.states.items() if cob in graph.cobs},
                locks,
                believed={cob: it for cob, it in journal.believed.items() if cob in graph.cobs},
                changed=frozenset(fresh & self.change.base.cobs.keys()),
                fresh=frozenset(fresh),
                still=frozenset(journal.still & graph.cobs.keys()),
                renew=self.renew,
            )
        )

    def switch_at_once(self) -> None:
        """Have hosts switch before the run that neither a removal nor a limit concerns.

        So do operations; such a host has new content, and others still to get theirs.
        """
        change = self.change
        members = (
            cob for it in change.merged().budgets for unit in it.units for cob in unit.members
        )
        bound = {host_of(cob) for cob in (*members, *change.removed())}
        bound |= {host for hosts, _ in change.order for host in hosts}
        self.journal.switched |= {host_of(it) for it in change.changed() | change.added()} - bound
        for cob in sorted(change.changed()):
            if host_of(cob) in self.journal.switched and cob in self.journal.states:
                self.journal.believed[cob] = self.journal.states.pop(cob)

    def _new(self) -> set[CobId]:
        """Return what has not got its new content yet."""
        goal = self.change.goal.cobs
        return {cob for cob, it in goal.items() if self.version.get(cob) != it.spec}

    def run(self, choose: Callable[[int], int] | None = None) -> list[str]:
        """Begin, and end what is under way until nothing happens any more; the first job first."""
        before = len(self.lines)
        self.begin()
        self.finish(choose)
        return self.lines[before:]

    def finish(self, choose: Callable[[int], int] | None = None) -> list[str]:
        """Go on to the end."""
        before = len(self.lines)
        for _ in range(MAX_STEPS):
            if not self.jobs:
                self._is_explained()
                return self.lines[before:]
            self.end(self.jobs[0 if choose is None else choose(len(self.jobs))])
        raise AssertionError("the run does not end")

    def _is_explained(self) -> None:
        """See that nobody is said to wait since the run was halted, where it was not."""
        for cob in () if self.halted else self.engine.unsettled():
            assert all(it.kind is not WaitKind.HALTED for it in self.engine.chain(cob)), cob

    def until(self, text: str) -> None:
        """Go on until an effect is told in these words."""
        for _ in range(MAX_STEPS):
            if text in self.lines:
                return
            assert self.jobs, (text, self.lines)
            self.end(self.jobs[0])
        raise AssertionError("the run does not end")

    # --- the world

    def vanish(self, host: str) -> list[str]:
        """Have a host answer no more."""
        self.dead.add(host)
        self.lost.add(host)
        self.jobs = [job for job in self.jobs if not self._is_on(job, host)]
        return self.give(HostVanished(host=host))

    def come_back(self, host: str) -> list[str]:
        """Have a host answer again."""
        self.dead.discard(host)
        if host not in self.lost:
            return []
        self.lost.discard(host)
        return self.give(HostReturned(host=host))

    def _is_on(self, job: Effect, host: str) -> bool:
        return not isinstance(job, LimitPaused) and host_of(job.cob) == host  # type: ignore[union-attr]

    def end(self, job: Effect) -> list[str]:
        """End a check, a transition or a pause."""
        self.jobs.remove(job)
        match job:
            case StartCheck(cob=cob):
                if host_of(cob) in self.dead:
                    return self.vanish(host_of(cob))
                state = None if cob in self.silent else self.found(cob)
                return self.give(CheckEnded(cob=cob, state=state))
            case StartTransition(cob=cob, transition=step):
                if host_of(cob) in self.dead:
                    return self.vanish(host_of(cob))
                ok = cob not in self.fails
                if ok:
                    self.real[cob] = step.dest
                    self.version[cob] = self.engine.cob(cob).spec
                return self.give(TransitionEnded(cob=cob, ok=ok))
            case LimitPaused(limit=limit):
                self.now_s += job.pause_s
                return self.give(LimitResumed(limit=limit))
            case _:
                raise AssertionError(job)

    def found(self, cob: CobId) -> State:
        """Return what a check finds, by the content that the object's host knows."""
        wanted = self.engine.cob(cob)
        if cob in self.finds:
            return self.finds[cob]
        return self.state_by(cob, wanted)

    def state_by(self, cob: CobId, wanted: Cob) -> State:
        """Return the state of an object as one content has it."""
        kind = wanted.type
        state = self.real.get(cob, kind.remove)
        if cob not in self.version or state not in kind.states:
            return kind.remove
        is_old = self.version[cob] != wanted.spec and state in (kind.preferred, OUTDATED)
        return OUTDATED if is_old and OUTDATED in kind.states else state

    def give(self, event: Input) -> list[str]:
        """Give the engine an input."""
        self.halted = self.halted or isinstance(event, Halt)
        return self._take(self.engine.step(event, self.now_s))

    def _take(self, effects: tuple[Effect, ...]) -> list[str]:
        new = []
        for effect in effects:
            if len(self.effects) == self.kill_after:
                self.kill_after = -1
                raise KilledError
            self.effects.append(effect)
            new.append(line(effect))
            self.lines.append(new[-1])
            self.journal.store(effect)
        # Nothing is carried out before all that came with it is stored.
        for effect in effects:
            if self.watch is not None:
                self.watch(effect)
            if isinstance(effect, HostsSwitched):
                self._see_nobody_relies_on(effect.hosts)
                self._switched(effect.hosts)
            if isinstance(effect, (StartCheck, StartTransition, LimitPaused)):
                self.jobs.append(effect)
        return new

    def _switched(self, hosts: tuple[str, ...]) -> None:
        for cob in self.change.removed():
            if host_of(cob) in hosts:
                self.real.pop(cob, None)
                self.version.pop(cob, None)

    def _see_nobody_relies_on(self, hosts: tuple[str, ...]) -> None:
        """See that no step under way relies on an object that a switch makes unknown."""
        steps = [job for job in self.jobs if isinstance(job, StartTransition)]
        for cob in self.change.changed():
            users = [it.cob for it in steps if cob in dict(it.locks)]
            assert host_of(cob) not in hosts or not users, f"{cob} is new under {users}"

    # --- questions

    def told(self, *words: str) -> list[str]:
        """Return the lines that have one of these words."""
        return [text for text in self.lines if any(word in text for word in words)]

    def why(self, cob: str) -> str:
        """Tell the chain of what an object waits for."""
        links = self.engine.chain(CobId(cob))
        return ", ".join(
            f"{it.cob} {it.kind} {it.detail} {it.on or ''}".replace("  ", " ").strip()
            for it in links
        )
