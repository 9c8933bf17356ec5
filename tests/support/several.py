"""A made-up world in which several engines carry out a change, and a checker from outside.

Each engine has its own journal, and is killed and started again by itself; mail is lost, doubled
and reordered, and mail of a dead life is still delivered. `Bounds` knows nothing of the engines'
books: it counts by what is real which units Cobweb has taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cobweb.engine import (
    CanaryWritten,
    CheckEnded,
    Effect,
    Engine,
    EngineSettings,
    HostReturned,
    HostVanished,
    Input,
    LimitPaused,
    LimitResumed,
    Message,
    Receive,
    Send,
    StartCheck,
    StartTransition,
    TransitionEnded,
)
from cobweb.model import OUTDATED, Budget, CobId, Graph, Limit, State, Transition, Unit, host_of
from cobweb.model.cob import ANY
from cobweb.testing.simulation import Faults
from tests.support.rollout import Journal

__all__ = ["Bounds", "Mishaps", "Several"]

MAX_EVENTS = 20_000
"""How many things may happen before a run is held to be endless."""

QUIET_RESENDS = 12
"""How often all is said again without anything but words before a run is held to be over."""

NEW = {"v": 2}
OLD = {"v": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishaps(Faults):
    """`kill`, of an engine, `vanish` and `come_back` are by event.

    `fail_check` and `fail_ids` mean nothing here.
    """

    kill: float = 0.0
    come_back: float = 0.1


@dataclass(slots=True, eq=False)
class Seat:
    """One engine, what outlives it, and what it has under way."""

    owned: frozenset[CobId]
    journal: Journal
    lends: bool | None
    life: int = 0
    jobs: list[StartCheck | StartTransition | LimitPaused] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    engine: Any = None


class Several:
    """A run of several engines over one graph; `changed` objects stand in their old content.

    The first of `owners` lends; without `shares` each counts its own alone.
    """

    def __init__(  # noqa: PLR0913 - what a story says of its world
        self,
        graph: Graph,
        owners: Sequence[frozenset[CobId]],
        real: dict[CobId, State],
        *,
        changed: frozenset[CobId] = frozenset(),
        random: Random | None = None,
        mishaps: Mishaps | None = None,
        shares: bool = True,
        trust_s: float = 60.0,
        max_kills: int = 3,
    ) -> None:
        self.graph = graph
        self.real = dict(real)
        self.changed = changed
        self.version = {cob: OLD if cob in changed else NEW for cob in graph.cobs}
        self.random = random or Random(0)
        self.mishaps = mishaps or Mishaps()
        self.trust_s = trust_s
        self.kills = self.vanishes = max_kills
        self.now_s = 0.0
        self.dead: set[str] = set()
        self.mail: list[Message] = []
        self.sent = 0
        self.lines: list[tuple[int, Effect]] = []
        self.seats = [
            Seat(
                owned=owned,
                journal=Journal(
                    states={cob: graph.cobs[cob].preferred for cob in owned - changed},
                    believed={cob: graph.cobs[cob].preferred for cob in owned & changed},
                    served=set(owned),
                ),
                lends=(number == 0) if shares else None,
            )
            for number, owned in enumerate(owners)
        ]
        self.bounds = Bounds(self)

    # --- lives

    def begin(self) -> None:
        """Start all engines."""
        for seat in self.seats:
            self.start(seat)

    def start(self, seat: Seat) -> None:
        """Begin a life of an engine from its journal."""
        journal = seat.journal
        seat.life += 1
        seat.jobs.clear()
        seat.lost.clear()
        for cob in journal.moving:
            journal.states.pop(cob, None)
            journal.still.discard(cob)
        journal.moving.clear()
        seat.engine = Engine(
            self.graph,
            owned=seat.owned,
            incarnation=seat.life,
            lending=journal.lending(),
            lends=seat.lends,
            settings=EngineSettings(trust_s=self.trust_s),
        )
        fresh = {cob for cob in seat.owned if self.version[cob] is OLD}
        effects = seat.engine.start(
            dict(journal.states),
            sorted(journal.locks),
            believed=dict(journal.believed),
            changed=fresh,
            still=frozenset(journal.still),
        )
        self.take(seat, effects)

    def kill(self, seat: Seat) -> None:
        """Kill an engine and start it again; what it had under way has happened, or not."""
        for job in seat.jobs:
            if isinstance(job, StartTransition) and self.random.random() < 0.5:
                self._work(job)
        self.bounds.ended(seat.jobs)
        self.start(seat)

    # --- running

    def run(self) -> None:
        """Run to the end."""
        self.begin()
        self.finish()

    def finish(self) -> None:
        """Go on to the end."""
        quiet = 0
        for _ in range(MAX_EVENTS):
            if self.event():
                quiet = 0
                continue
            before = len(self.lines)
            for seat in self.seats:
                for send in seat.engine.resend():
                    self._post(send.message)
            while self.mail:
                self._deliver()
            quiet = 0 if len(self.lines) > before else quiet + 1
            if quiet == QUIET_RESENDS:
                if not self.dead or not self.mishaps.come_back:
                    return
                self._come_back(min(self.dead))
                quiet = 0
        raise AssertionError("the run does not end")

    def event(self) -> bool:
        """Let one thing happen; say whether anything could."""
        random, mishaps = self.random, self.mishaps
        self.now_s += random.choice([0.0, 0.0, 1.0, 20.0])
        if self.kills and random.random() < mishaps.kill:
            self.kills -= 1
            self.kill(random.choice(self.seats))
            return True
        if self.vanishes and random.random() < mishaps.vanish:
            self.vanishes -= 1
            self._vanish(random.choice(self.graph.hosts()))
            return True
        if self.dead and random.random() < mishaps.come_back:
            self._come_back(random.choice(sorted(self.dead)))
            return True
        jobs = [(seat, job) for seat in self.seats for job in seat.jobs]
        pick = random.randrange(len(self.mail) + len(jobs) or 1)
        if pick < len(self.mail):
            self._deliver(pick)
        elif jobs:
            self.end(*jobs[pick - len(self.mail)])
        return bool(jobs or self.mail)

    def _deliver(self, number: int = 0) -> None:
        message = self.mail.pop(number)
        receiver = message.receiver
        seat = next(
            it
            for it in self.seats
            if (it.lends if receiver.startswith("/") else receiver in it.owned)
        )
        self.give(seat, Receive(message=message))

    def end(self, seat: Seat, job: StartCheck | StartTransition | LimitPaused) -> None:
        """End a check, a transition or a pause."""
        seat.jobs.remove(job)
        if isinstance(job, LimitPaused):
            self.now_s += job.pause_s
            self.give(seat, LimitResumed(limit=job.limit))
        elif host_of(job.cob) in self.dead:
            seat.jobs.append(job)
            self._notice(seat, host_of(job.cob))
        elif isinstance(job, StartCheck):
            self.give(seat, CheckEnded(cob=job.cob, state=self.found(job.cob)))
        else:
            ok = self.random.random() >= self.mishaps.fail
            if ok:
                self._work(job)
            self.bounds.ended([job])
            self.give(seat, TransitionEnded(cob=job.cob, ok=ok))

    def _work(self, job: StartTransition) -> None:
        self.real[job.cob] = job.transition.dest
        self.version[job.cob] = NEW

    def found(self, cob: CobId) -> State:
        """Return what a check finds."""
        state, kind = self.real[cob], self.graph.cobs[cob].type
        is_old = self.version[cob] is OLD and state == kind.preferred
        return OUTDATED if is_old and OUTDATED in kind.states else state

    def _vanish(self, host: str) -> None:
        self.dead.add(host)
        for seat in self.seats:
            if any(host_of(cob) == host for cob in seat.owned) and self.random.random() < 0.5:
                self._notice(seat, host)

    def _notice(self, seat: Seat, host: str) -> None:
        if host in seat.lost:
            return
        seat.lost.add(host)
        mine = [
            job
            for job in seat.jobs
            if not isinstance(job, LimitPaused) and host_of(job.cob) == host
        ]
        for job in mine:
            seat.jobs.remove(job)
            if isinstance(job, StartTransition) and self.random.random() < 0.5:
                self._work(job)
        self.bounds.ended(mine)
        self.give(seat, HostVanished(host=host))

    def _come_back(self, host: str) -> None:
        self.dead.discard(host)
        for seat in self.seats:
            if host in seat.lost:
                seat.lost.discard(host)
                self.give(seat, HostReturned(host=host))

    def give(self, seat: Seat, event: Input) -> None:
        """Give an engine an input."""
        self.take(seat, seat.engine.step(event, self.now_s))

    def take(self, seat: Seat, effects: tuple[Effect, ...]) -> None:
        """Store effects, then carry them out; or die on the way, with a part of them stored."""
        number = self.seats.index(seat)
        if effects and self.kills and self.random.random() < self.mishaps.kill:
            self.kills -= 1
            for effect in effects[: self.random.randrange(len(effects))]:
                seat.journal.store(effect)
                if isinstance(effect, CanaryWritten):
                    self.bounds.look_at(effect)
            self.kill(seat)
            return
        for effect in effects:
            seat.journal.store(effect)
        for effect in effects:
            if isinstance(effect, Send):
                self._post(effect.message)
                continue
            self.lines.append((number, effect))
            self.bounds.look_at(effect)
            if isinstance(effect, (StartCheck, StartTransition, LimitPaused)):
                seat.jobs.append(effect)

    def _post(self, message: Message) -> None:
        self.sent += 1
        if self.random.random() >= self.mishaps.lose:
            self.mail.append(message)
            if self.random.random() < self.mishaps.double:
                self.mail.append(message)

    # --- questions

    def unsettled(self) -> list[CobId]:
        """Return what is not where it should be, of all engines."""
        return [cob for seat in self.seats for cob in seat.engine.unsettled()]


class Bounds:
    """Watches what is taken out, by what is real; `broken` tells what should not have been.

    `taken` are the units that a step of Cobweb has taken out and that are not back yet. As long as
    nothing dies by itself (`calm`) units that are out for another reason count as well.
    """

    def __init__(self, run: Several) -> None:
        self.run = run
        self.broken: list[str] = []
        self.taken: set[tuple[str, str]] = set()
        self.moving: dict[CobId, Transition] = {}
        self.first: dict[str, set[str]] = {it.name: set() for it in run.graph.budgets}
        self._trials = _trials(run.graph.budgets)
        self.through: set[str] = set()
        self.most = 0
        self._scopes = {
            (budget.name, unit.name): _scope(run.graph, unit)
            for budget in run.graph.budgets
            for unit in budget.units
        }

    def look_at(self, effect: Effect) -> None:
        """Look at an effect before it is carried out."""
        match effect:
            case StartTransition(cob=cob, transition=step):
                self._in_flight(cob, step)
                self._canary(cob)
                self._goes_out(cob, step)
                self.moving[cob] = step
            case CanaryWritten(limit=limit, canary=canary):
                self._chosen(limit, canary.units)
                if canary.through:
                    self._verdict(limit)
            case _:
                pass

    def ended(self, jobs: Sequence[object]) -> None:
        """Note that jobs have ended."""
        for job in jobs:
            if isinstance(job, StartTransition):
                self.moving.pop(job.cob, None)

    def _serves(self, cob: CobId) -> bool:
        """Say whether an object works for its users now."""
        if self.run.real[cob] != "up":
            return False
        step = self.moving.get(cob)
        return step is None or (step.dest == "up" and not step.interrupts)

    def _goes_out(self, cob: CobId, step: Transition) -> None:
        if not self._serves(cob) or (step.dest == "up" and not step.interrupts):
            return
        for budget in self.run.graph.budgets:
            for unit in budget.units:
                key = (budget.name, unit.name)
                if not self._is_out(unit):
                    self.taken.discard(key)
                elif not self._is_calm() and key not in self.taken:
                    continue
                elif self._is_calm():
                    self.taken.add(key)
            for unit in budget.units:
                if cob in unit.members:
                    self.taken.add((budget.name, unit.name))
                    self._count(budget, cob)

    def _is_calm(self) -> bool:
        return not self.run.mishaps.vanish

    def _is_out(self, unit: Unit) -> bool:
        return not all(self._serves(cob) for cob in unit.members)

    def _count(self, budget: Budget, cob: CobId) -> None:
        out = [unit for unit in budget.units if (budget.name, unit.name) in self.taken]
        self.most = max(self.most, len(out))
        names = [unit.name for unit in out]
        domains = {it for unit in budget.units if cob in unit.members for it in unit.domains}
        if (budget.percent is not None or not domains) and len(out) > budget.bound(
            len(budget.units)
        ):
            self.broken.append(f"{budget.name}: {cob} goes out, out are {names}")
        for domain in sorted(domains):
            of_it = [unit for unit in budget.units if domain in unit.domains]
            if sum(unit in of_it for unit in out) > budget.bound(len(of_it)):
                self.broken.append(f"{budget.name} ({domain}): {cob} goes out, out are {names}")

    def _in_flight(self, cob: CobId, step: Transition) -> None:
        for limit in self.run.graph.limits:
            for group in limit.groups:
                if cob not in group.members or not _is_of(limit, step):
                    continue
                moving = self.moving.items()
                busy = [it for it, its in moving if it in group.members and _is_of(limit, its)]
                if len(busy) >= group.bound:
                    self.broken.append(f"{limit.name}: {cob} moves beside {busy}")

    # --- canaries

    def _canary(self, cob: CobId) -> None:
        """Nothing new begins before the verdict but on what goes first."""
        if self.run.version[cob] is not OLD:
            return
        for part in self._trials:
            if self.through.isdisjoint(part) and self._is_scope(part, cob):
                lead = max(part, key=lambda name: (self._budget(name).first, name == part[0]))
                if not any(self._has_change(it, lead) for it in self._budget(lead).units):
                    continue  # there is no canary
                chosen = [self._scopes[name, unit] for name in part for unit in self.first[name]]
                if cob not in self._asked({it for scope in chosen for it in scope}):
                    self.broken.append(f"{part}: {cob} changes, first are {self.first}")

    def _budget(self, name: str) -> Budget:
        return next(it for it in self.run.graph.budgets if it.name == name)

    def _has_change(self, unit: Unit, limit: str) -> bool:
        return not self._scopes[limit, unit.name].isdisjoint(self.run.changed)

    def _asked(self, cobs: set[CobId]) -> set[CobId]:
        """Return objects, and whom their needs may ask."""
        found, todo = set(cobs), sorted(cobs)
        while todo:
            cob = todo.pop()
            more = {it.on for it in self.run.graph.needs if it.cob == cob} - found
            found |= more
            todo += more
        return found

    def _is_scope(self, part: list[str], cob: CobId) -> bool:
        return any(cob in scope for key, scope in self._scopes.items() if key[0] in part)

    def _chosen(self, limit: str, units: frozenset[str]) -> None:
        (part,) = (it for it in self._trials if limit in it)
        budgets = [it for it in self.run.graph.budgets if it.name in part]
        if self.first[limit] not in (set(), units) or len(units) > max(it.first for it in budgets):
            self.broken.append(f"{limit}: first are {units} after {self.first}")
        self.first[limit] = set(units)

    def _verdict(self, limit: str) -> None:
        self.through.add(limit)
        for cob in (it for unit in self.first[limit] for it in self._scopes[limit, unit]):
            is_up = self.run.real[cob] == "up" or cob not in self.run.changed  # nobody checks it
            if self._is_calm() and (not is_up or self.run.version[cob] is OLD):
                self.broken.append(f"{limit}: let through, and {cob} is not home")


def _is_of(limit: Limit, step: Transition) -> bool:
    return limit.source in (ANY, step.source) and limit.dest in (ANY, step.dest)


def _trials(budgets: Sequence[Budget]) -> list[list[str]]:
    """Return the names of budgets with one canary: those that share members."""
    parts: list[tuple[set[CobId], list[Budget]]] = []
    for budget in budgets:
        members = {cob for unit in budget.units for cob in unit.members}
        some = [budget]
        for part in [it for it in parts if it[0] & members]:
            parts.remove(part)
            members |= part[0]
            some += part[1]
        parts.append((members, some))
    return [sorted(it.name for it in some) for _, some in parts if any(it.first for it in some)]


def _scope(graph: Graph, unit: Unit) -> set[CobId]:
    hosts = {host_of(cob) for cob in unit.members}
    near: dict[CobId, set[CobId]] = {}
    for need in graph.needs:
        near.setdefault(need.cob, set()).add(need.on)
        near.setdefault(need.on, set()).add(need.cob)
    found = set(unit.members)
    todo = sorted(found)
    while todo:
        for cob in near.get(todo.pop(), ()):
            if cob not in found and host_of(cob) in hosts:
                found.add(cob)
                todo.append(cob)
    return found
