"""One run: drives an engine with an executor, writes the journal ahead, tells the events.

Theory of operation. The loop holds no opinion on order; the engine does. One round is
1. reports of the executor become inputs of the engine, whose effects are collected;
2. the jobs that fit are taken from the dispatcher;
3. everything that was found, granted and is about to start is written to the journal, at once;
4. only then the events are told and the jobs are submitted;
5. wait for the next report.
The run ends when no job is ready, delayed or in flight: then nothing can happen any more (P5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    Halt,
    HostVanished,
    Input,
    LockGranted,
    LockReleased,
    StartCheck,
    StartTransition,
    StateFound,
    StateReason,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.model import (
    UNKNOWN,
    CobId,
    Graph,
    Job,
    JobKind,
    Outcome,
    Report,
    host_of,
)
from cobweb.runtime._dispatch import Dispatcher, describe
from cobweb.runtime._events import Emitter, of_effect
from cobweb.runtime._journal import Journal
from cobweb.runtime._result import RunResult, ending_of
from cobweb.runtime._signals import Interrupts
from cobweb.store import (
    Entry,
    EventWritten,
    GrantGone,
    GrantWritten,
    HostFound,
    HostLost,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
)

__all__ = ["Run", "RunSetting"]

_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What a run works on and how.

    `contents` are the digests of the objects' contents, `specs` their specs fit for the journal
    (secrets replaced), `applied` the specs last applied as the journal has them. `changed` are
    objects whose content differs from the journal's, `missed` hosts that could not be reached the
    last time. `max_failures` stops new work when more
    objects than that have failed (None: never). `beat` is called often, from the run's thread.
    """

    run: str
    graph: Graph
    generation: int = 0
    contents: Mapping[CobId, str] = field(default_factory=dict)
    specs: Mapping[CobId, Mapping[str, Any]] = field(default_factory=dict)
    applied: Mapping[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    changed: frozenset[CobId] = frozenset()
    missed: frozenset[str] = frozenset()
    max_failures: int | None = None
    store_events: bool = True
    beat: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda _text: None
    beat_s: float | None = None


class Run:
    """Drives one engine to its end; use once."""

    def __init__(
        self,
        setting: RunSetting,
        engine: Engine,
        dispatcher: Dispatcher,
        journal: Journal,
        emitter: Emitter,
    ) -> None:
        self._setting = setting
        self._engine = engine
        self._dispatcher = dispatcher
        self._journal = journal
        self._emitter = emitter
        self._entries: list[Entry] = []
        self._events: list[dict[str, Any]] = []
        self._applied = dict(setting.applied)
        self._began_s: dict[CobId, float] = {}
        self._locks: dict[CobId, tuple[tuple[CobId, str], ...]] = {}
        self._messages: dict[CobId, str] = {}
        self._counts = {"checks": 0, "transitions": 0, "failed": 0}
        self._halted = False
        self._lost: set[str] = set()
        self._missed = set(setting.missed)

    def go(self, start: Iterable[Effect], interrupts: Interrupts) -> RunResult:
        """Carry out `start`, the effects of `engine.start`, and all that follows from them.

        The executor is closed in any case. Raises what the journal and the executor raise; then
        the objects in flight are left in transition, and the next run checks them.
        """
        interrupts.wake = self._dispatcher.wake
        started_s = self._dispatcher.now()
        killed = False
        try:
            self._tell_start()
            self._absorb(start)
            self._flush()
            while not (self._dispatcher.idle() or killed):
                for job, report in self._dispatcher.wait(self._setting.beat_s):
                    self._take(job, report)
                self._setting.beat()
                self._halt_if_due(interrupts)
                killed = interrupts.count > 1
                self._flush(start=not killed)
        except BaseException:
            self._dispatcher.close(kill=True)
            raise
        in_flight = tuple(describe(self._dispatcher.running()))
        self._dispatcher.close(kill=killed)
        return self._finish(started_s, in_flight, interrupted=interrupts.count > 0)

    # --- interrupts and limits

    def _halt_if_due(self, interrupts: Interrupts) -> None:
        most = self._setting.max_failures
        too_many = most is not None and self._counts["failed"] > most
        if (interrupts.count or too_many) and not self._halted:
            self._halt()

    def _halt(self) -> None:
        self._halted = True
        self._say_halted()
        self._step(Halt())
        self._drop_waiting(None, "the run was stopped before the next attempt")

    def _drop_waiting(self, host: str | None, reason: str) -> None:
        """Forget what is queued; a transition that was never begun has changed nothing."""
        for job in self._dispatcher.drop_waiting(host):
            if job.kind is JobKind.CHECK:
                continue
            if job.attempt == 1:
                self._step(TransitionDropped(cob=job.cob))
            else:
                self._fail(job, reason)

    def _say_halted(self) -> None:
        running = describe(self._dispatcher.running())
        if not running:
            self._setting.say("nothing new is started")
            return
        shown = ", ".join(running[:_SHOWN]) + (" ..." if len(running) > _SHOWN else "")
        self._setting.say(
            f"nothing new is started; {len(running)} still at work: {shown} "
            "(interrupt again to stop what is at work)"
        )

    # --- reports

    def _take(self, job: Job, report: Report) -> None:
        if report.outcome is Outcome.OK and job.host in self._missed:
            self._missed.discard(job.host)
            self._entries.append(HostFound(host=job.host, time=self._dispatcher.now()))
        if report.message and report.outcome is not Outcome.OK:
            self._messages[job.cob] = report.message
        if job.kind is JobKind.CHECK:
            self._take_check(job, report)
        else:
            self._take_transition(job, report)

    def _take_check(self, job: Job, report: Report) -> None:
        states = self._setting.graph.cobs[job.cob].type.states
        if report.outcome is Outcome.UNREACHABLE:
            self._lose(job)
        elif report.outcome is Outcome.OK and report.state in states:
            self._remember_applied(job.cob, report.state)
            self._step(CheckEnded(cob=job.cob, state=report.state))
        else:
            if report.outcome is Outcome.OK:
                known = ", ".join(states)
                message = f"the check says {report.state!r}, which is no state of it ({known})"
                self._messages[job.cob] = message
            self._counts["failed"] += 1
            self._entries.append(
                StateWritten(
                    cob=job.cob,
                    state=UNKNOWN,
                    reason="check",
                    time=self._dispatcher.now(),
                    failed=True,
                )
            )
            self._step(CheckEnded(cob=job.cob, state=None))

    def _take_transition(self, job: Job, report: Report) -> None:
        match report.outcome:
            case Outcome.OK:
                self._succeed(job)
            case Outcome.UNREACHABLE:
                self._tell_end(job, state=UNKNOWN, result="failed")
                self._lose(job)
            case Outcome.CANCELLED if not report.began:
                self._tell_end(job, state=job.source, result="failed")
                self._step(TransitionDropped(cob=job.cob))
            case _ if self._may_retry(job, report):
                self._dispatcher.add_retry(job)
            case _:
                self._fail(job, report.message)

    def _may_retry(self, job: Job, report: Report) -> bool:
        from tenacity import RetryCallState, Retrying, stop_after_attempt  # heavy

        if self._halted or report.outcome is Outcome.CANCELLED:
            return False
        step = self._setting.graph.cobs[job.cob].type.transition(job.source, job.dest)
        call = RetryCallState(retry_object=Retrying(), fn=None, args=(), kwargs={})
        call.attempt_number = job.attempt
        return step is not None and not stop_after_attempt(step.attempts)(call)

    def _succeed(self, job: Job) -> None:
        self._remember_applied(job.cob, job.dest)
        self._counts["transitions"] += 1
        self._tell_end(job, state=job.dest, result="ok")
        self._step(TransitionEnded(cob=job.cob, ok=True))

    def _fail(self, job: Job, message: str) -> None:
        if message:
            self._messages[job.cob] = message
        self._counts["failed"] += 1
        self._tell_end(job, state=UNKNOWN, result="failed")
        self._step(TransitionEnded(cob=job.cob, ok=False))

    def _lose(self, job: Job) -> None:
        if job.host in self._lost:
            return
        self._lost.add(job.host)
        self._entries.append(HostLost(host=job.host, time=self._dispatcher.now()))
        self._step(HostVanished(host=job.host))
        self._drop_waiting(job.host, f"host {job.host} cannot be reached")

    def _remember_applied(self, cob: CobId, state: str) -> None:
        cob_type = self._setting.graph.cobs[cob].type
        if state == cob_type.preferred:
            self._applied[cob] = self._setting.specs.get(cob, {})
        elif state == cob_type.remove:
            self._applied[cob] = None

    # --- effects

    def _step(self, event: Input) -> None:
        self._absorb(self._engine.step(event))

    def _absorb(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            event = of_effect(effect)
            if event is not None:
                self._events.append(event)
            self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case StateFound():
                self._note_state(effect)
            case LockGranted(cob=cob, holder=holder, state=state):
                self._entries.append(GrantWritten(cob=cob, holder=holder, state=state))
            case LockReleased(cob=cob, holder=holder):
                self._entries.append(GrantGone(cob=cob, holder=holder))
            case StartCheck(cob=cob):
                self._dispatcher.add(self._check_job(cob))
            case StartTransition(cob=cob):
                self._locks[cob] = effect.locks
                self._dispatcher.add(self._transition_job(effect))
            case _:
                pass

    def _note_state(self, effect: StateFound) -> None:
        """Write down what was found; what the journal said itself need not be told to it."""
        if effect.reason is StateReason.JOURNAL:
            return
        is_known = effect.state != UNKNOWN
        self._entries.append(
            StateWritten(
                cob=effect.cob,
                state=effect.state,
                reason=str(effect.reason),
                time=self._dispatcher.now(),
                content=self._setting.contents.get(effect.cob) if is_known else None,
                applied=self._applied.get(effect.cob) if is_known else ...,
            )
        )

    def _check_job(self, cob: CobId) -> Job:
        cob_type = self._setting.graph.cobs[cob].type
        return Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.CHECK,
            cob=cob,
            host=host_of(cob),
            type_name=cob_type.name,
            action=cob_type.check,
            cob_vars=self._cob_vars(cob, target=cob_type.preferred),
            timeout_s=cob_type.check_timeout_s,
        )

    def _transition_job(self, effect: StartTransition) -> Job:
        step = effect.transition
        return Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.TRANSITION,
            cob=effect.cob,
            host=host_of(effect.cob),
            type_name=self._setting.graph.cobs[effect.cob].type.name,
            action=step.action,
            cob_vars=self._cob_vars(effect.cob, target=effect.target),
            source=step.source,
            dest=step.dest,
            timeout_s=step.timeout_s,
        )

    def _cob_vars(self, cob: CobId, *, target: str) -> dict[str, Any]:
        it = self._setting.graph.cobs[cob]
        return {
            "id": it.id,
            "name": it.name,
            "host": it.host,
            "type": it.type.name,
            "spec": it.spec,
            "applied": self._applied.get(cob),
            "state": self._engine.state(cob),
            "target": target,
            "generation": self._setting.generation,
        }

    # --- journal and events

    def _flush(self, *, start: bool = True) -> None:
        """Write everything down, tell it, and only then start what was taken."""
        jobs = self._dispatcher.take() if start else ()
        for job in jobs:
            if job.kind is JobKind.CHECK:
                self._counts["checks"] += 1
            elif job.attempt == 1:
                self._tell_begin(job)
        self._write()
        self._dispatcher.submit(jobs)

    def _write(self) -> None:
        events = [self._emitter.number(event) for event in self._events]
        if self._setting.store_events:
            self._entries.extend(_stored(event) for event in events)
        if self._entries:
            self._journal.write(self._entries)
        self._entries, self._events = [], []
        for event in events:
            self._emitter.tell(event)

    def _tell_start(self) -> None:
        graph = self._setting.graph
        self._events.append(self._emitter.version())
        self._events.append(
            {
                "type": "run.start",
                "run": self._setting.run,
                "generation": self._setting.generation,
                "hosts": len(graph.hosts()),
                "cobs": len(graph.cobs),
            }
        )
        self._events.extend(
            {"type": "cob.state", "cob": cob, "state": UNKNOWN, "reason": "content"}
            for cob in sorted(self._setting.changed)
        )

    def _tell_begin(self, job: Job) -> None:
        now = self._dispatcher.now()
        self._began_s[job.cob] = now
        self._entries.append(
            TransitionBegan(cob=job.cob, source=job.source, dest=job.dest, time=now)
        )
        self._events.append(
            {
                "type": "transition.start",
                "cob": job.cob,
                "from": job.source,
                "to": job.dest,
                "locks": [
                    {"cob": cob, "state": state} for cob, state in self._locks.get(job.cob, ())
                ],
            }
        )

    def _tell_end(self, job: Job, *, state: str, result: str) -> None:
        now = self._dispatcher.now()
        self._entries.append(
            TransitionFinished(
                cob=job.cob,
                source=job.source,
                dest=job.dest,
                state=state,
                result=TransitionResult(result),
                applied=self._applied.get(job.cob),
                time=now,
            )
        )
        self._events.append(
            {
                "type": "transition.end",
                "cob": job.cob,
                "from": job.source,
                "to": job.dest,
                "state": state,
                "result": result,
                "attempt": job.attempt,
                "seconds": round(now - self._began_s.pop(job.cob, now), 6),
            }
        )

    def _finish(
        self, started_s: float, in_flight: Sequence[str], *, interrupted: bool
    ) -> RunResult:
        ending, waits = ending_of(self._engine, interrupted=interrupted)
        settled = len(self._setting.graph.cobs) - len(waits)
        counts = {
            "hosts": len(self._setting.graph.hosts()),
            "cobs": len(self._setting.graph.cobs),
            "settled": settled,
            **self._counts,
            "waiting": len(waits),
        }
        self._events.append(
            {
                "type": "run.end",
                "result": str(ending),
                "exit_code": ending.exit_code,
                "counts": counts,
            }
        )
        self._write()
        return RunResult(
            run=self._setting.run,
            ending=ending,
            counts=counts,
            waits=waits,
            messages=dict(self._messages),
            seconds=self._dispatcher.now() - started_s,
            in_flight=tuple(in_flight),
        )


def _stored(event: Mapping[str, Any]) -> EventWritten:
    data = {key: value for key, value in event.items() if key not in ("seq", "time", "type")}
    return EventWritten(seq=event["seq"], time=event["time"], type=event["type"], data=data)
