"""A seeded simulation of one or more engines with faults, which checks the promises as it goes.

`Simulation` holds the truth that the engines can't see: the real state of each object, the jobs in
flight, and mail that is lost, doubled and reordered. One `random.Random` decides everything, so a
seed is a run. It is meant for tests of the engine and of graphs; the executor `simulate` is another
thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random  # noqa: TID251 - the generator is an argument
from typing import Any

from cobweb.engine import (
    CanaryWritten,
    CheckEnded,
    Effect,
    Engine,
    HostReturned,
    HostsSwitched,
    HostVanished,
    Input,
    Lending,
    LimitPaused,
    LimitResumed,
    Message,
    Receive,
    Send,
    Served,
    SlotReturned,
    SlotTaken,
    StartCheck,
    StartTransition,
    StateFound,
    TransitionEnded,
)
from cobweb.kernel._events import of_effect
from cobweb.model import CobId, Graph, State, TransitionNeed, host_of

__all__ = [
    "BrokenPromiseError",
    "Faults",
    "Simulation",
    "graph_json",
    "graph_stream",
    "public_event",
]

MAX_ROUNDS = 20_000
"""How many things may happen before a simulation is held to be endless."""

CRASH_TOO_LATE = 0.5
"""How likely a transition in flight was carried out nevertheless when a coordinator is killed."""

MAX_VANISHED = 10
"""How many hosts vanish in one simulation."""

MAX_QUIET_RESENDS = 3
"""How often everything is said again without any echo before the system is held to be at rest."""


class BrokenPromiseError(AssertionError):
    """A promise did not hold; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of mishaps; all zero by default.

    `lose` and `double` are per message, `fail` per transition, `fail_check` per check. `vanish`, of
    a host where something is in flight (else nobody notices), and `come_back` are per round.
    `fail_ids` names objects whose transitions always fail.
    """

    lose: float = 0.0
    double: float = 0.0
    fail: float = 0.0
    fail_check: float = 0.0
    vanish: float = 0.0
    come_back: float = 0.0
    fail_ids: frozenset[CobId] = frozenset()


NO_FAULTS = Faults()

NOTHING_LENT = Lending()


@dataclass(slots=True, kw_only=True)
class _Job:
    """A check (`step` None) or a transition in flight; `zombie` once its host has vanished."""

    cob: CobId
    step: StartTransition | None
    zombie: bool = False


@dataclass(slots=True)
class Simulation:
    """Engines over one graph in one made-up world; `run` goes on until nothing can happen.

    `owners` partitions the objects. `truth` is the real state of each, `states` what the journal
    knows, `goals` where single objects go instead of their preferred state. `lending` is what is
    durable of budgets, and `options` what engines are told besides. After `run`, `history` has all
    effects in order and `events` the public events of them. Each check and transition ends a second
    after the one before.
    """

    graph: Graph
    random: Random
    truth: dict[CobId, State]
    states: Mapping[CobId, State] = field(default_factory=dict)
    owners: Sequence[frozenset[CobId]] = ()
    faults: Faults = NO_FAULTS
    goals: Mapping[CobId, State] = field(default_factory=dict)
    lending: Lending = NOTHING_LENT
    options: Mapping[str, Any] = field(default_factory=dict)
    engines: list[Engine] = field(default_factory=list, init=False)
    history: list[Effect] = field(default_factory=list, init=False)
    down: set[str] = field(default_factory=set, init=False)
    failed: set[CobId] = field(default_factory=set, init=False)
    unchecked: set[CobId] = field(default_factory=set, init=False)
    vanished: int = field(default=0, init=False)
    life: int = field(default=1, init=False)
    now_s: float = field(default=0.0, init=False)
    _mail: list[Message] = field(default_factory=list, init=False)
    _jobs: list[_Job] = field(default_factory=list, init=False)
    _pauses: list[tuple[Engine, LimitPaused]] = field(default_factory=list, init=False)
    _owner: dict[CobId, Engine] = field(default_factory=dict, init=False)
    _needs: dict[CobId, list[TransitionNeed]] = field(default_factory=dict, init=False)

    def run(self) -> None:
        """Run to the end; BrokenPromiseError or ProtocolError where something is wrong."""
        self.begin()
        for _ in range(MAX_ROUNDS):
            if not self.round():
                return
        raise BrokenPromiseError("P5: the simulation does not end")

    def begin(self) -> None:
        """Make and start the engines."""
        for need in self.graph.transition_needs():
            self._needs.setdefault(need.cob, []).append(need)
        for owned in self.owners or (frozenset(self.graph.cobs),):
            self._make(owned)
        for engine in self.engines:
            self._carry_out(engine, engine.start(self.states))

    def crash(self) -> None:
        """Kill all engines and begin anew from what a journal would hold; mail is lost.

        What was in flight has happened or not; its objects are unknown to the new life.
        """
        old, self.engines = self.engines, []
        self.lending = self._lent()
        for job in self._jobs:
            if self.random.random() < CRASH_TOO_LATE:
                self._work(job)
        self._jobs.clear()
        self._mail.clear()
        self._pauses.clear()
        self.life += 1
        for engine in old:
            owned = frozenset(engine.states())
            states = {cob: s for cob, s in engine.states().items() if cob not in engine.busy()}
            after = self._make(owned)
            self._carry_out(after, after.start(states, engine.locks()))

    def _make(self, owned: frozenset[CobId]) -> Engine:
        known: dict[str, Any] = {
            "incarnation": self.life,
            "goals": self.goals,
            "lending": self.lending,
        }
        engine = Engine(self.graph, owned=owned, **known, **self.options)
        self.engines.append(engine)
        self._owner.update(dict.fromkeys(owned, engine))
        return engine

    def round(self) -> bool:
        """Let one thing happen; say whether anything could."""
        if self._mishap():
            return True
        mail, jobs = len(self._mail), len(self._jobs)
        choices = mail + jobs + len(self._pauses)
        if not choices:
            return self._say_again() or self._come_back()
        pick = self.random.randrange(choices)
        if pick < mail:
            self._deliver(self._mail.pop(pick))
        elif pick < mail + jobs:
            self._end(self._jobs.pop(pick - mail))
        else:
            self._resume(*self._pauses.pop(pick - mail - jobs))
        return True

    def _lent(self) -> Lending:
        """Return what is durable of budgets after all that has happened."""
        slots, served = set(self.lending.slots), set(self.lending.served)
        canaries = dict(self.lending.canaries)
        for effect in self.history:
            match effect:
                case SlotTaken(limit=limit, unit=unit):
                    slots.add((limit, unit))
                case SlotReturned(limit=limit, unit=unit):
                    slots.discard((limit, unit))
                case CanaryWritten(limit=limit, canary=canary):
                    canaries[limit] = (canary,)
                case Served(cob=cob):
                    served.add(cob)
                case _:
                    pass
        return Lending(slots=frozenset(slots), canaries=canaries, served=frozenset(served))

    def _resume(self, engine: Engine, pause: LimitPaused) -> None:
        self._carry_out(engine, engine.step(LimitResumed(limit=pause.limit)))

    def _mishap(self) -> bool:
        hosts = sorted({host_of(job.cob) for job in self._jobs if not job.zombie})
        if hosts and self.vanished < MAX_VANISHED and self.random.random() < self.faults.vanish:
            self.vanished += 1
            self._vanish(self.random.choice(hosts))
            return True
        return self.random.random() < self.faults.come_back and self._come_back()

    def _come_back(self) -> bool:
        if not self.down or not self.faults.come_back:
            return False
        host = self.random.choice(sorted(self.down))
        self.down.discard(host)
        self._finish_zombies(host)
        for engine in self._engines_of(host):
            self._carry_out(engine, engine.step(HostReturned(host=host)))
        return True

    def _vanish(self, host: str) -> None:
        self.down.add(host)
        for job in self._jobs:
            if host_of(job.cob) == host:
                job.zombie = True
        for engine in self._engines_of(host):
            self._carry_out(engine, engine.step(HostVanished(host=host)))

    def _finish_zombies(self, host: str) -> None:
        """End what was in flight on a vanished host: it answers again."""
        for job in [job for job in self._jobs if job.zombie and host_of(job.cob) == host]:
            self._jobs.remove(job)
            self._work(job)

    def _engines_of(self, host: str) -> list[Engine]:
        return [
            engine
            for engine in self.engines
            if any(host_of(cob) == host for cob, owner in self._owner.items() if owner is engine)
        ]

    def _say_again(self) -> bool:
        if len(self.engines) == 1:
            return False
        for _ in range(MAX_QUIET_RESENDS):
            before = len(self.history)
            for engine in self.engines:
                for send in engine.resend():
                    self._deliver(send.message)
            while self._mail:
                self._deliver(self._mail.pop(0))
            if any(not isinstance(effect, Send) for effect in self.history[before:]):
                return True
        return False

    def _deliver(self, message: Message) -> None:
        self._step(message.receiver, Receive(message=message))

    def _step(self, cob: CobId, event: Input) -> None:
        engine = self._owner[cob]
        self._carry_out(engine, engine.step(event, self.now_s))

    def _end(self, job: _Job) -> None:
        self.now_s += 1.0
        if job.zombie:
            self._work(job)
            return
        if job.step is None:
            failed = self.random.random() < self.faults.fail_check
            self._step(
                job.cob, CheckEnded(cob=job.cob, state=None if failed else self.truth[job.cob])
            )
            (self.unchecked.add if failed else self.unchecked.discard)(job.cob)
            return
        self._step(job.cob, TransitionEnded(cob=job.cob, ok=self._work(job)))

    def _work(self, job: _Job) -> bool:
        """Change the real world as the transition does; say whether it did well."""
        if job.step is None:
            return True
        step = job.step.transition
        failed = job.cob in self.faults.fail_ids or self.random.random() < self.faults.fail
        if failed:
            self.failed.add(job.cob)
            self.truth[job.cob] = self.random.choice([step.source, step.dest])
        else:
            self.truth[job.cob] = step.dest
        return not failed

    def _carry_out(self, engine: Engine, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.history.append(effect)
            match effect:
                case Send(message=message):
                    self._post(message)
                case StartCheck(cob=cob):
                    self._jobs.append(_Job(cob=cob, step=None))
                case StartTransition():
                    self._begin(effect)
                case LimitPaused():
                    self._pauses.append((engine, effect))
                case _:
                    pass

    def _post(self, message: Message) -> None:
        if self.random.random() < self.faults.lose:
            return
        self._mail.append(message)
        if self.random.random() < self.faults.double:
            self._mail.append(message)

    def _begin(self, start: StartTransition) -> None:
        self._promise_4(start)
        self._promise_1(start)
        self._promise_2(start)
        self._jobs.append(_Job(cob=start.cob, step=start))

    def _promise_4(self, start: StartTransition) -> None:
        step = start.transition
        if any(job.cob == start.cob for job in self._jobs):
            raise BrokenPromiseError(f"P4: {start.cob} starts while something is under way there")
        if self.truth[start.cob] != step.source:
            raise BrokenPromiseError(f"P4: {start.cob} is not in {step.source}")
        if self.graph.cobs[start.cob].type.transition(step.source, step.dest) is None:
            raise BrokenPromiseError(f"P4: {start.cob} has no transition {step}")

    def _promise_1(self, start: StartTransition) -> None:
        moving = {job.cob for job in self._jobs if job.step is not None}
        for need in self._needs_of(start):
            met = self.truth[need.on] in self.graph.cobs[need.on].type.members(need.state)
            if not met or need.on in moving:
                raise BrokenPromiseError(f"P1: {start.cob} starts and {need} does not hold")
        for job in self._jobs:
            for need in self._needs_of(job.step) if job.step is not None else ():
                if need.on == start.cob:
                    raise BrokenPromiseError(f"P1: {start.cob} moves while {need} must hold")

    def _promise_2(self, start: StartTransition) -> None:
        if out := [lock for lock in self._owner[start.cob].locks() if lock[0] == start.cob]:
            raise BrokenPromiseError(f"P2: {start.cob} moves with {out} out")

    def _needs_of(self, start: StartTransition) -> list[TransitionNeed]:
        step = start.transition
        return [n for n in self._needs.get(start.cob, ()) if n.covers(step.source, step.dest)]

    def events(self) -> list[dict[str, Any]]:
        """Return the history as public events (design, section 7)."""
        events: list[dict[str, Any]] = [{"type": "version", "events": 1}, {"type": "run.start"}]
        running: dict[CobId, StartTransition] = {}
        for effect in self.history:
            if isinstance(effect, StartTransition):
                running[effect.cob] = effect
            elif isinstance(effect, StateFound) and effect.cob in running:
                events.append(_end_of(running.pop(effect.cob), effect.state))
            if event := public_event(effect):
                events.append(event)
        unsettled = [cob for engine in self.engines for cob in engine.unsettled()]
        hurt = self.failed or self.unchecked or self.down
        code = 1 if unsettled and hurt else 4 if unsettled else 0
        events.append({"type": "run.end", "exit_code": code})
        return [{"seq": seq, **event} for seq, event in enumerate(events, 1)]


def graph_json(graph: Graph) -> dict[str, Any]:
    """Return what `graph -o json` says of a graph, as far as the promises need it."""
    return {"format": 1} | {name: list(part) for name, part in graph_stream(graph).items()}


def graph_stream(graph: Graph) -> dict[str, Iterator[dict[str, Any]]]:
    """Return the objects and needs of `graph_json`, to be read once; for large graphs."""
    return {"cobs": _cobs(graph), "needs": _needs(graph)}


def _cobs(graph: Graph) -> Iterator[dict[str, Any]]:
    limits = graph.bounded()
    for cob in graph.cobs.values():
        given = {"groups": dict(cob.type.groups), "limits": limits.get(cob.id, [])}
        yield {
            "id": cob.id,
            "states": list(cob.type.states),
            "preferred": cob.preferred,
            "remove": cob.type.remove,
            "transitions": [[step.source, step.dest] for step in cob.type.transitions],
        } | {key: value for key, value in given.items() if value}


def _needs(graph: Graph) -> Iterator[dict[str, Any]]:
    for n in graph.transition_needs():
        yield {"cob": n.cob, "from": n.source, "to": n.dest, "on": n.on, "state": n.state}
    for lock in graph.lock_needs():
        yield {"cob": lock.cob, "in": lock.within, "on": lock.on, "state": lock.state}


def _end_of(start: StartTransition, state: State) -> dict[str, Any]:
    step = start.transition
    result = "ok" if state == step.dest else "failed"
    pair = {"cob": start.cob, "from": step.source, "to": step.dest}
    return {"type": "transition.end", "state": state, "result": result, **pair}


def public_event(effect: Effect) -> dict[str, Any] | None:
    """Return the public event of an effect as a run tells it, if it does."""
    match effect:
        case StateFound(cob=cob, state=state, reason=reason):
            return {"type": "cob.state", "cob": cob, "state": state, "reason": str(reason)}
        case StartTransition(cob=cob, transition=step, locks=locks):
            pairs = [{"cob": on, "state": state} for on, state in locks]
            start = {"cob": cob, "from": step.source, "to": step.dest, "locks": pairs}
            return {"type": "transition.start", **start}
        case HostsSwitched(hosts=hosts):
            return {"type": "generation.switch", "hosts": list(hosts)}
        case _:
            return next(({"type": kind, **data} for kind, data in of_effect(effect)), None)
