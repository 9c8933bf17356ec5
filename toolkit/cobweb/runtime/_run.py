"""One run: drives an engine with an executor, writes the journal ahead, tells the events.

Theory of operation. The loop holds no opinion on order; the engine does. One round is
1. reports of the executor become inputs of the engine, whose effects are collected;
2. the jobs that fit are taken from the dispatcher;
3. everything that was found, granted and is about to start is written to the journal, at once
   (the effects of very many reports in several parts, each one told when it is stored);
4. only then the events are told and the jobs are submitted;
5. wait for the next report.
The run ends when no job is ready, delayed or in flight: then nothing can happen any more (P5).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cobweb.engine import (
    CheckDropped,
    CheckEnded,
    Effect,
    Engine,
    Halt,
    HostVanished,
    Input,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    StartCheck,
    StartTransition,
    StateFound,
    StateReason,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.model import UNKNOWN, CobId, Graph, Job, JobKind, Outcome, Report, State, host_of
from cobweb.runtime._dispatch import Dispatcher, describe
from cobweb.runtime._events import Emitter
from cobweb.runtime._journal import Journal
from cobweb.runtime._record import Record
from cobweb.runtime._result import RunResult, ending_of
from cobweb.runtime._signals import Interrupts
from cobweb.store import GrantGone, GrantWritten, HostFound, HostLost, StateWritten

__all__ = ["Run", "RunSetting"]

_SHOWN = 5
_LARGEST_BATCH = 10_000
"""How many events and entries are collected before they are written, though no job is started."""

_TOLD_ONLY = (LockRequested, LockRecalled)
"""Effects that are told and change nothing here; there are many."""

_KILL = 2
"""How many interrupts stop what is at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What a run works on and how.

    `contents` are the digests of the objects' contents, `specs` their specs fit for the journal
    (secrets replaced), `applied` the specs last applied as the journal has them. `changed` are
    objects whose content differs from the journal's, `missed` hosts that could not be reached the
    last time and of which all objects take part. `max_failures` stops new work when more objects
    than that have failed (None: never). `beat` is called from the run's thread at least every
    `beat_s` seconds; `say` gets sentences for people.
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
        self._record = Record(journal, emitter, store_events=setting.store_events)
        self._applied = dict(setting.applied)
        self._locks: dict[CobId, tuple[tuple[CobId, State], ...]] = {}
        self._messages: dict[CobId, str] = {}
        self._checks = 0
        self._transitions = 0
        self._failed: set[CobId] = set()
        self._halted = False
        self._interrupted = False
        self._lost: dict[str, str] = {}
        self._missed = set(setting.missed)
        self._now_s = 0.0
        self._untaken: deque[tuple[Job, Report]] = deque()

    def go(self, start: Iterable[Effect], interrupts: Interrupts) -> RunResult:
        """Carry out `start`, the effects of `engine.start`, and all that follows from them.

        The executor is closed in any case. Raises what the journal and the executor raise, with a
        note for each job that was stopped or whose report was not taken yet; then their objects are
        left in transition, and the next run checks them.
        """
        interrupts.wake = self._dispatcher.wake
        self._now_s = started_s = self._dispatcher.now()
        try:
            self._begin(start)
            self._look_at(interrupts)
            self._flush()
            while not self._dispatcher.idle() and interrupts.count < _KILL:
                ended = self._dispatcher.wait(self._setting.beat_s)
                self._now_s = self._dispatcher.now()
                self._take_all(ended)
                self._setting.beat()
                self._look_at(interrupts)
                self._flush()
            if not self._dispatcher.idle():
                self._look_at(interrupts)
            stopped = tuple(self._stop())
            return self._finish(started_s, stopped)
        except BaseException as error:
            untaken = (job for job, _ in self._untaken)
            for line in describe([*untaken, *self._dispatcher.running()]):
                error.add_note(f"stopped in the middle: {line}")
            self._dispatcher.close(kill=True)
            raise

    def _begin(self, start: Iterable[Effect]) -> None:
        it = self._setting
        self._record.run_started(it.run, it.graph, generation=it.generation, changed=it.changed)
        self._absorb(start)

    # --- interrupts and limits

    def _look_at(self, interrupts: Interrupts) -> None:
        """Start nothing new once the user says so or too much has failed."""
        if interrupts.count and not self._interrupted:
            self._interrupted = True
            self._halt("")
        most = self._setting.max_failures
        if most is not None and len(self._failed) > most and not self._halted:
            self._halt(f"{len(self._failed)} failed, more than may: ")

    def _halt(self, why: str) -> None:
        with suppress(OSError):  # the terminal may be gone; what is at work shall end all the same
            self._setting.say(why + _halted_line(describe(self._dispatcher.running())))
        if self._halted:
            return
        self._halted = True
        self._step(Halt())
        self._drop_waiting(None, "the run was stopped before the next attempt")

    def _drop_waiting(self, host: str | None, reason: str) -> None:
        """Forget what is queued; what was never begun has changed nothing."""
        for job in self._dispatcher.drop_waiting(host):
            if job.attempt == 1:
                self._drop(job)
            else:
                self._fail(job, f"{self._messages.get(job.cob, 'it failed')} ({reason})")

    def _drop(self, job: Job) -> None:
        is_check = job.kind is JobKind.CHECK
        self._step(CheckDropped(cob=job.cob) if is_check else TransitionDropped(cob=job.cob))

    def _stop(self) -> Iterable[str]:
        """Stop what is still at work after a second interrupt; yield a line for each job."""
        stopped = self._dispatcher.stop()
        self._now_s = self._dispatcher.now()
        for job, report in stopped:
            if report.outcome is Outcome.CANCELLED:
                yield from describe([job])
            self._take(job, report)

    # --- reports

    def _take_all(self, ended: Iterable[tuple[Job, Report]]) -> None:
        """Take reports; what very many say is stored in parts, each of which may take its time."""
        self._untaken.extend(ended)
        while self._untaken:
            self._take(*self._untaken[0])
            self._untaken.popleft()
            if self._record.size >= _LARGEST_BATCH:
                self._record.flush()
                self._setting.beat()

    def _take(self, job: Job, report: Report) -> None:
        if report.outcome is Outcome.OK:
            self._meet(job.host)
        elif report.message:
            self._blame(job, report.message)
        if job.kind is JobKind.CHECK:
            self._take_check(job, report)
        else:
            self._take_transition(job, report)

    def _blame(self, job: Job, message: str) -> None:
        """Keep what went wrong; a check that fails after its transition does not hide the cause."""
        first = self._messages.get(job.cob) if job.cob in self._failed else None
        is_second = first is not None and job.kind is JobKind.CHECK
        self._messages[job.cob] = f"{first}; then the check: {message}" if is_second else message

    def _take_check(self, job: Job, report: Report) -> None:
        match report.outcome:
            case Outcome.UNREACHABLE:
                self._lose(job.host, report.message)
            case Outcome.CANCELLED if self._halted:
                self._drop(job)
            case Outcome.OK if report.state in self._states(job.cob):
                self._remember_applied(job.cob, report.state)
                self._step(CheckEnded(cob=job.cob, state=report.state))
            case _:
                self._fail_check(job, report)

    def _fail_check(self, job: Job, report: Report) -> None:
        if report.outcome is Outcome.OK:
            known = ", ".join(self._states(job.cob))
            self._blame(job, f"the check says {report.state!r}, which is no state of it ({known})")
        self._failed.add(job.cob)
        self._record.write(
            StateWritten(cob=job.cob, state=UNKNOWN, reason="check", time=self._now_s, failed=True)
        )
        message = self._messages.get(job.cob, "")
        self._record.became_unknown(job.cob, "check", message=message, report=report)
        self._step(CheckEnded(cob=job.cob, state=None))

    def _take_transition(self, job: Job, report: Report) -> None:
        match report.outcome:
            case Outcome.OK:
                self._succeed(job)
            case Outcome.UNREACHABLE:
                self._end(job, UNKNOWN, report)
                self._lose(job.host, report.message)
            case Outcome.CANCELLED if self._halted and not report.began:
                self._end(job, job.source)
                self._drop(job)
            case _ if self._may_retry(job, report):
                self._dispatcher.add_retry(job)
            case _:
                self._fail(job, report.message, report)

    def _may_retry(self, job: Job, report: Report) -> bool:
        if self._halted or job.host in self._lost or report.outcome is Outcome.CANCELLED:
            return False
        step = self._setting.graph.cobs[job.cob].type.transition(job.source, job.dest)
        return step is not None and job.attempt < step.attempts

    def _succeed(self, job: Job) -> None:
        self._remember_applied(job.cob, job.dest)
        self._transitions += 1
        self._messages.pop(job.cob, None)
        self._end(job, job.dest)
        self._step(TransitionEnded(cob=job.cob, ok=True))

    def _fail(self, job: Job, message: str, report: Report | None = None) -> None:
        if message:
            self._messages[job.cob] = message
        self._failed.add(job.cob)
        self._end(job, UNKNOWN, report)
        self._step(TransitionEnded(cob=job.cob, ok=False))

    def _end(self, job: Job, state: State, report: Report | None = None) -> None:
        applied = self._applied.get(job.cob)
        message = self._messages.get(job.cob, "")
        self._record.ended(job, state, self._now_s, applied=applied, message=message, report=report)

    def _lose(self, host: str, message: str) -> None:
        """Take note, once, that a host cannot be reached; what else it was to do is dropped."""
        if host in self._lost:
            return
        self._lost[host] = message
        self._missed.discard(host)
        self._record.write(HostLost(host=host, time=self._now_s))
        self._step(HostVanished(host=host))
        self._drop_waiting(host, f"host {host} cannot be reached")

    def _meet(self, host: str) -> None:
        """Take note that a host answers which did not the last time."""
        if host in self._missed:
            self._missed.discard(host)
            self._record.write(HostFound(host=host, time=self._now_s))

    def _states(self, cob: CobId) -> tuple[State, ...]:
        return self._setting.graph.cobs[cob].type.states

    def _remember_applied(self, cob: CobId, state: State) -> None:
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
            self._record.effect(effect)
            if not isinstance(effect, _TOLD_ONLY):
                self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case LockGranted(cob=cob, holder=holder, state=state):
                self._record.write(GrantWritten(cob=cob, holder=holder, state=state))
            case LockReleased(cob=cob, holder=holder):
                self._record.write(GrantGone(cob=cob, holder=holder))
            case StateFound():
                self._note_state(effect)
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
        self._record.write(
            StateWritten(
                cob=effect.cob,
                state=effect.state,
                reason=str(effect.reason),
                time=self._now_s,
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

    def _cob_vars(self, cob: CobId, *, target: State) -> dict[str, Any]:
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

    def _flush(self) -> None:
        """Write everything down, tell it, and only then start what fits."""
        jobs = self._dispatcher.take()
        now_s = self._dispatcher.now()
        for job in jobs:
            if job.kind is JobKind.CHECK:
                self._checks += 1
            elif job.attempt == 1:
                self._record.began(job, self._locks.pop(job.cob, ()), now_s)
        self._record.flush()
        self._dispatcher.submit(jobs)

    def _finish(self, started_s: float, stopped: tuple[str, ...]) -> RunResult:
        ending, waits = ending_of(self._engine, interrupted=self._interrupted)
        graph = self._setting.graph
        counts = {
            "hosts": len(graph.hosts()),
            "cobs": len(graph.cobs),
            "settled": len(graph.cobs) - len(self._engine.unsettled()),
            "checks": self._checks,
            "transitions": self._transitions,
            "failed": len(self._failed),
            "waiting": len(waits),
        }
        self._record.run_ended(str(ending), ending.exit_code, counts, unreachable=self._lost)
        self._record.flush()
        return RunResult(
            run=self._setting.run,
            ending=ending,
            counts=counts,
            waits=waits,
            messages=dict(self._messages),
            seconds=self._dispatcher.now() - started_s,
            in_flight=stopped,
        )


def _halted_line(running: list[str]) -> str:
    if not running:
        return "nothing new is started"
    shown = ", ".join(running[:_SHOWN]) + (" ..." if len(running) > _SHOWN else "")
    return (
        f"nothing new is started; {len(running)} still at work: {shown} "
        "(interrupt again to stop what is at work)"
    )
