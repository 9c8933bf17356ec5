"""One run: drives the engine with an executor, writes the journal ahead, tells the events.

Theory of operation. The loop holds no opinion on order; the engine does. One round is
1. reports of the executor become inputs of the engine, whose effects are collected;
2. the jobs that fit are taken from the dispatcher;
3. everything that was found, granted and is about to start is written to the journal, at once
   (the effects of very many reports in several parts, each one told when it is stored);
4. only then the events are told and the jobs are submitted;
5. wait for the next report.
The run ends when no job is ready, delayed or in flight: then nothing can happen any more (P5).

Where the journal cannot be written any more (3), what is about to start is dropped, the engine is
halted, and what is at work may end. That is taken note of in memory and stored at the end if the
journal can be written by then; else the error says what was in flight and what is out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cobweb import store
from cobweb.engine import (
    CanaryWritten,
    CobGaveUp,
    Effect,
    EngineSettings,
    Halt,
    HostsSwitched,
    Input,
    LimitPaused,
    LimitResumed,
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Served,
    SlotReturned,
    SlotTaken,
    StartCheck,
    StartTransition,
    StateFound,
    StateReason,
)
from cobweb.errors import StoreAwayError, StoreError
from cobweb.kernel._confirm import switch_of
from cobweb.kernel._context import Context
from cobweb.kernel._deferred_values import DeferredValues, finished, refused_results, refused_words
from cobweb.kernel._dispatch import Dispatcher, describe
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._hosted_objects import HostedObjects
from cobweb.kernel._journal import Journal
from cobweb.kernel._machines import BY_MACHINE
from cobweb.kernel._record import Record
from cobweb.kernel._reports import Reports
from cobweb.kernel._result import RunResult, Wait, ending_of, with_cut
from cobweb.kernel._run_state import RunState
from cobweb.kernel._sentences import halted_text, left_lines, stopped_text
from cobweb.kernel._signals import Interrupts
from cobweb.kernel._unreachable_threshold import UnreachableThreshold
from cobweb.model import (
    UNKNOWN,
    Cob,
    CobId,
    Confirm,
    Graph,
    Job,
    JobKind,
    Nothing,
    Outcome,
    Report,
    Results,
    State,
    merged_results,
)
from cobweb.store import (
    Entry,
    Forgotten,
    GrantGone,
    GrantWritten,
    HostForgotten,
    ServedWritten,
    SlotGone,
    SlotWritten,
    StateWritten,
    WorkEnded,
)

_LARGEST_BATCH = 10_000
"""How many events and entries are collected before they are written, though no job is started."""

_TOLD_ONLY = (LockRequested, LockRecalled, CobGaveUp)
"""Effects that are told and change nothing here; there are many."""

_KILL = 2
"""How many interrupts stop what is at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetting:
    """What a run is and how it goes on.

    `context` is what it sets out with, `graph` what is wanted at its end. Only `may_go_out` may
    leave serving (None: all may); with `returns` what is away only for something that cannot be
    done comes home; what a departure relies on was checked at most `trust_s` seconds ago. `missed`
    are hosts that could not be reached the last time and of which all objects take part.
    `max_failures` stops new work when more objects than that have failed (None: never),
    `max_unreachable` when more of the `hosts` that take part than that cannot be reached; as long
    as that can come out of the first checks, no transition begins. `results` are what tasks have
    handed back in earlier runs. `has_hosts` is False where hosts are simulated: then no dead-man
    switch is set, and no late value filled in. `beat` is called from the run's thread at least
    every `beat_s` seconds; `say` gets sentences for people.
    """

    run: str
    context: Context
    graph: Graph
    generation: int = 0
    may_go_out: frozenset[CobId] | None = None
    returns: bool = True
    trust_s: float = 60.0
    missed: frozenset[str] = frozenset()
    max_failures: int | None = None
    hosts: int = 0
    max_unreachable: int | None = None
    results: Results = field(default_factory=dict)
    has_hosts: bool = True
    store_events: bool = True
    beat: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda _text: None
    beat_s: float | None = None


class Run:
    """Drives one context to its end; use once."""

    def __init__(
        self,
        setting: RunSetting,
        dispatcher: Dispatcher,
        journal: Journal,
        publisher: EventPublisher,
    ) -> None:
        context = setting.context
        self._setting = setting
        self._context = context
        self._dispatcher = dispatcher
        self._record = Record(journal, publisher, store_events=setting.store_events)
        self._engine = context.engine(
            may_go_out=setting.may_go_out,
            returns=setting.returns,
            settings=EngineSettings(trust_s=setting.trust_s),
        )
        self._run_state = RunState(
            context=context,
            engine=self._engine,
            hosts=frozenset(context.graph.hosts()),
            missed=set(setting.missed),
            results=dict(setting.results),
        )
        self._reports = Reports(self._run_state, self._record, dispatcher, self._step)
        self._threshold = UnreachableThreshold(hosts=setting.hosts, most=setting.max_unreachable)
        self._hosted = HostedObjects(self._run_state, dispatcher, self._reports, self._threshold)
        self._locks: dict[CobId, tuple[tuple[CobId, State], ...]] = {}
        self._states: dict[CobId, State] = {}
        self._untaken: deque[tuple[Job, Report]] = deque()
        self._unwritten: list[tuple[Job, Report]] = []
        self._unsent: tuple[Job, ...] = ()
        self._waits: list[Wait] = []

    def go(self, interrupts: Interrupts) -> RunResult:
        """Go through the run.

        The executor is closed in any case. Raises what the journal and the executor raise, with a
        note for each job that was stopped or whose report was not taken yet; then their objects are
        left in transition, and the next run checks them. Where the journal fails, what is at work
        is let end, and notes say that of which it does not know, and what is out.
        """
        interrupts.wake = self._dispatcher.wake
        stopped: tuple[str, ...] = ()
        self._run_state.now_s = started_s = self._dispatcher.now()
        try:
            it = self._setting
            self._record.run_started(it.run, it.graph, generation=it.generation)
            self._play(interrupts)
            stopped = tuple(self._stop(interrupts))
            return self._finish(started_s, stopped)
        except BaseException as error:
            untaken = (job for job, _ in self._untaken)
            for line in (*stopped, *describe([*untaken, *self._dispatcher.running()])):
                error.add_note(f"stopped in the middle: {line}")
            if isinstance(error, StoreError):
                self._note_left(error)
            self._dispatcher.close(kill=True)
            raise

    def _note_left(self, error: StoreError) -> None:
        """Note at an error what the journal does not know, and what is out."""
        ended = [
            f"{line} ({report.outcome})"
            for job, report in self._unwritten
            if job.kind is JobKind.TRANSITION and report.outcome is not Outcome.CANCELLED
            for line in describe([job])
        ]
        cobs = (self._engine.cob(cob) for cob in self._engine.unsettled())
        out = [it.id for it in cobs if not it.type.serves(self._engine.state(it.id))]
        for line in left_lines(ended, out):
            error.add_note(line)

    def _play(self, interrupts: Interrupts) -> None:
        """Go on until nothing is left to do or what is at work is to be stopped."""
        try:
            self._go_on(interrupts)
        except StoreError as error:
            self._let_end(error, interrupts)
        if self._dispatcher.idle():
            self._waits.extend(self._context.waits(self._engine))

    def _go_on(self, interrupts: Interrupts) -> None:
        self._begin()
        self._look_at(interrupts)
        self._flush()
        while not self._dispatcher.idle() and interrupts.count < _KILL:
            ended = self._dispatcher.wait(self._setting.beat_s)
            self._run_state.now_s = self._dispatcher.now()
            self._take_all(ended)
            self._end_pauses()
            with suppress(StoreAwayError):  # what is written next waits for it
                self._setting.beat()
            self._look_at(interrupts)
            self._flush()

    def _let_end(self, error: StoreError, interrupts: Interrupts) -> None:
        """Start nothing new without a journal, and let what is at work end."""
        self._run_state.stopped = error.message
        self._halt("the state database cannot be written: ")
        for job in self._unsent:
            dropped = Report(number=job.number, outcome=Outcome.CANCELLED, began=False)
            self._reports.take(job, dropped)
        self._take_untaken()
        while self._dispatcher.running() and interrupts.count < _KILL:
            self._untaken.extend(self._dispatcher.wait(self._setting.beat_s))
            self._run_state.now_s = self._dispatcher.now()
            self._take_untaken()
            with suppress(StoreError):
                self._setting.beat()
            self._look_at(interrupts)

    def _begin(self) -> None:
        """Start the engine with what is believed."""
        context, results = self._context, self._run_state.results
        for refused in refused_results(results, context.graph):
            results[refused.host] = merged_results(results[refused.host], refused.results)
            self._record.write(refused)
            self._setting.say(refused_words(refused))
        for entry in context.first():
            self._write(entry)
        for hosts in context.at_once:
            self._record.tell(context.told(hosts))
        for cob in sorted(context.changed):
            self._record.became_unknown(cob, "content")
        self._record.tell(("cob.gave_up", {"cob": wait.cob}) for wait in context.left)
        self._dispatcher.hold_transitions()
        self._absorb(self._engine.start(context.known, context.held, **context.beliefs()))
        self._hosted.look()
        self._probe()

    def _write(self, entry: Entry) -> None:
        """Write an entry down, and forget what it makes undone."""
        if isinstance(entry, HostForgotten):
            self._run_state.results.pop(entry.host, None)
        elif isinstance(entry, Forgotten):
            self._run_state.applied[entry.cob] = None
            self._run_state.recorded.pop(entry.cob, None)
        self._record.write(entry)

    def _probe(self) -> None:
        """Ask hosts of which nothing is checked before they switch whether they answer."""
        context, hosts = self._context, set(self._context.given_up)
        change = context.change
        for cob in sorted(() if change is None else change.changed | change.added):
            it = self._engine.cob(cob)
            if it.host in hosts or not context.can_probe(cob):
                continue
            hosts.add(it.host)
            if self._dispatcher.reaches(it.type.check) and self._threshold.ask(it.host):
                job = self._check_job(it)
                self._run_state.probes.add(job.number)
                self._dispatcher.add(job, first=True)

    # --- interrupts and limits

    def _look_at(self, interrupts: Interrupts) -> None:
        """Start nothing new once the user says so, too much has failed or too many are lost."""
        run_state = self._run_state
        if interrupts.count and not run_state.interrupted:
            run_state.interrupted = True
            self._halt("")
        if not run_state.halted:
            self._look_at_trouble()
        if self._threshold.lets_go(run_state.lost):
            self._dispatcher.let_transitions_go()

    def _look_at_trouble(self) -> None:
        run_state, most = self._run_state, self._setting.max_failures
        if most is not None and len(run_state.failed) > most:
            run_state.stopped = f"{len(run_state.failed)} failed, more than may"
            self._halt(f"{run_state.stopped}: ")
        elif refusal := self._threshold.refusal(run_state.lost):
            run_state.stopped = refusal
            self._halt("too many hosts cannot be reached: ")

    def _halt(self, why: str) -> None:
        with suppress(OSError):  # the terminal may be gone; what is at work shall end all the same
            self._setting.say(why + halted_text(describe(self._dispatcher.running())))
        if not self._run_state.halted:
            self._run_state.halted = True
            self._start_nothing()

    def _start_nothing(self) -> None:
        self._step(Halt())
        self._dispatcher.drop_pauses()
        self._reports.drop_waiting(None, "the run was stopped before the next attempt")

    def _stop(self, interrupts: Interrupts) -> Iterable[str]:
        """Stop what is still at work after a second interrupt; yield a line for each job."""
        is_cut = not self._dispatcher.idle()
        if is_cut:
            self._look_at(interrupts)
        stopped = self._dispatcher.stop()
        self._run_state.now_s = self._dispatcher.now()
        for job, report in stopped:
            if report.outcome is Outcome.CANCELLED:
                yield from describe([job])
            self._reports.take(job, report)
            self._unwritten.append((job, report))
        if is_cut:
            self._waits.extend(self._context.waits(self._engine))

    # --- reports

    def _take_all(self, ended: Iterable[tuple[Job, Report]]) -> None:
        """Take reports; what very many say is stored in parts, each of which may take its time."""
        self._untaken.extend(ended)
        while self._untaken:
            self._take_untaken(_LARGEST_BATCH)
            if self._record.size >= _LARGEST_BATCH:
                self._write_down()
                with suppress(StoreAwayError):
                    self._setting.beat()

    def _take_untaken(self, batch: float = math.inf) -> None:
        """Take what has ended, until as much as that is to be written down."""
        for cob in self._dispatcher.take_ended_work():
            self._record.write(WorkEnded(cob=cob))
        while self._untaken and self._record.size < batch:
            job, report = self._untaken[0]
            self._reports.take(job, report)
            self._unwritten.append(self._untaken.popleft())
            if self._dispatcher.reaches(job.action):
                self._threshold.heard(job.host)

    def _end_pauses(self) -> None:
        for limit in self._dispatcher.ended_pauses():
            self._record.limit_resumed(limit)
            self._step(LimitResumed(limit=limit))

    # --- effects

    def _step(self, event: Input) -> None:
        self._hosted.machines.ended(event)
        self._absorb(self._engine.step(event, self._run_state.now_s))
        self._hosted.look()

    def _absorb(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if _is_failed_check(effect):
                continue  # written and told with its report
            if isinstance(effect, StateFound):
                reason = self._reason(effect)
                self._record.found(effect.cob, effect.state, reason)
                self._note_state(effect, reason)
                continue
            self._record.effect(effect)
            if not isinstance(effect, _TOLD_ONLY):
                self._note(effect)

    def _note(self, effect: Effect) -> None:
        match effect:
            case LockGranted(cob=cob, holder=holder, state=state):
                self._record.write(GrantWritten(cob=cob, holder=holder, state=state))
            case LockReleased(cob=cob, holder=holder):
                self._record.write(GrantGone(cob=cob, holder=holder))
            case StartCheck(cob=cob):
                self._hosted.check(self._check_job(self._engine.cob(cob)))
            case StartTransition(cob=cob):
                self._hosted.machines.began(cob)
                self._locks[cob] = effect.locks
                self._dispatcher.add(self._transition_job(effect))
            case _:
                self._note_limits(effect)

    def _note_limits(self, effect: Effect) -> None:
        """Write down what is durable of limits, and of hosts that switch."""
        match effect:
            case LimitPaused(limit=limit, pause_s=pause_s):
                self._dispatcher.add_pause(limit, pause_s)
            case SlotTaken(limit=limit, unit=unit):
                self._record.write(SlotWritten(limit=limit, unit=unit, time=self._run_state.now_s))
            case SlotReturned(limit=limit, unit=unit):
                self._record.write(SlotGone(limit=limit, unit=unit))
            case CanaryWritten(limit=limit, canary=canary):
                self._record.write(
                    store.CanaryWritten(
                        limit=limit,
                        generation=self._context.generation,
                        units=tuple(sorted(canary.units)),
                        through=canary.through,
                    )
                )
            case Served(cob=cob):
                self._record.write(ServedWritten(cob=cob))
            case HostsSwitched(hosts=hosts):
                for entry in self._context.switched(hosts):
                    self._write(entry)
                self._record.tell(self._context.told(hosts))
            case _:
                pass

    def _reason(self, effect: StateFound) -> str:
        """Return why a state is believed: as the engine says, unless it is for the machine."""
        run_state = self._run_state
        if effect.reason is StateReason.JOURNAL and effect.cob in self._context.away:
            run_state.applied[effect.cob] = None
            return BY_MACHINE
        if effect.cob in run_state.by_machine:
            run_state.by_machine.discard(effect.cob)
            return BY_MACHINE
        return str(effect.reason)

    def _note_state(self, effect: StateFound, reason: str) -> None:
        """Write down what was found; what the journal says itself need not be told to it.

        Of a changed object that goes on without a check it is told for which content that is.
        """
        was, self._states[effect.cob] = self._states.get(effect.cob), effect.state
        if reason == StateReason.JOURNAL and effect.cob not in self._context.changed:
            return
        if reason == StateReason.CONTENT and effect.state == UNKNOWN:
            return  # the journal goes on knowing where it was, and for which content
        if reason == StateReason.CHECK and was == effect.state:
            return  # it was looked at once more
        is_known = effect.state != UNKNOWN
        if is_known:
            self._run_state.recorded[effect.cob] = effect.state
        self._record.write(
            StateWritten(
                cob=effect.cob,
                state=effect.state,
                reason=reason,
                time=self._run_state.now_s,
                content=self._content(effect.cob) if is_known else None,
                applied=self._run_state.applied_to(effect.cob) if is_known else ...,
            )
        )

    def _content(self, cob: CobId) -> str | None:
        return self._context.content(cob, in_base=self._engine.stands_in_base(cob))

    def _check_job(self, it: Cob) -> Job:
        return Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.CHECK,
            cob=it.id,
            host=it.host,
            type_name=it.type.name,
            action=it.type.check,
            cob_vars=self._cob_vars(it, target=it.preferred),
            timeout_s=it.type.check_timeout_s,
            confirm=self._confirm(it),
            content=self._content(it.id) or "",
            shared=it.type.shared,
        )

    def _transition_job(self, effect: StartTransition) -> Job:
        step, it = effect.transition, self._engine.cob(effect.cob)
        return Job(
            number=self._dispatcher.next_number(),
            kind=JobKind.TRANSITION,
            cob=it.id,
            host=it.host,
            type_name=it.type.name,
            action=step.action,
            cob_vars=self._cob_vars(it, target=effect.target),
            source=step.source,
            dest=step.dest,
            timeout_s=step.timeout_s,
            confirm=None if isinstance(step.action, Nothing) else self._confirm(it),
            content=self._content(it.id) or "",
            shared=it.type.shared,
        )

    def _confirm(self, it: Cob) -> Confirm | None:
        return switch_of(it) if self._setting.has_hosts else None

    def _cob_vars(self, it: Cob, *, target: State) -> dict[str, Any]:
        return {
            "id": self._context.first_names.get(it.id, it.id),
            "name": it.name,
            "host": it.host,
            "type": it.type.name,
            "spec": it.spec,
            "applied": self._run_state.applied_to(it.id),
            "recorded": self._recorded(it),
            "state": self._engine.state(it.id),
            "target": target,
            "generation": self._context.generation,
            "results": self._run_state.results.get(it.host, {}),
        }

    def _recorded(self, it: Cob) -> State | None:
        """Return the state that was known for certain last."""
        state = self._run_state.recorded.get(it.id) or self._context.recorded(it.id)
        return state if state in it.type.states else None

    def _finished(self, job: Job) -> tuple[Job, str]:
        """Return a job that is about to start with what was handed back so far; see `finished`."""
        run_state = self._run_state
        if not self._setting.has_hosts or job.number in run_state.probes:
            return job, ""
        it = self._engine.cob(job.cob)
        is_new = self._context.is_new(job.cob) and not self._engine.stands_in_base(job.cob)
        late = DeferredValues(
            results=run_state.results,
            spec=it.spec,
            applied=None if is_new else run_state.applied_to(job.cob),
            removes=job.cob_vars["target"] == it.type.remove,
        )
        return finished(job, late)

    # --- journal and events

    def _flush(self) -> None:
        """Write everything down, tell it, and only then start what fits."""
        jobs = self._dispatcher.take(self._finished)
        now_s = self._dispatcher.now()
        for job in jobs:
            if job.kind is JobKind.CHECK:
                self._run_state.checks += 1
                continue
            self._run_state.begun += job.attempt == 1
            self._record.began(job, self._locks.pop(job.cob, ()), now_s, self._dispatcher)
        self._unsent = jobs
        self._write_down()
        self._unsent = ()
        self._dispatcher.submit(jobs)

    def _write_down(self) -> None:
        self._record.flush()
        self._unwritten.clear()

    def _finish(self, started_s: float, in_flight: tuple[str, ...]) -> RunResult:
        run_state, graph = self._run_state, self._setting.graph
        waits = with_cut(self._waits, run_state.cut)
        ending = ending_of(waits, interrupted=run_state.interrupted, stopped=run_state.stopped)
        stopped = run_state.stopped if waits else ""
        astray = {*self._engine.unsettled(), *(wait.cob for wait in waits)}
        counts = {
            "hosts": len(graph.hosts()),
            "cobs": len(graph.cobs),
            "settled": len(graph.cobs) - len(astray & graph.cobs.keys()),
            "checks": run_state.checks,
            "transitions": run_state.transitions,
            "failed": len(run_state.failed - run_state.cut.keys()),
            "waiting": len(waits),
        }
        self._record.run_ended(str(ending), ending.exit_code, counts, unreachable=run_state.lost)
        self._record.flush()
        return RunResult(
            run=self._setting.run,
            ending=ending,
            counts=counts,
            waits=waits,
            messages=dict(run_state.messages),
            seconds=self._dispatcher.now() - started_s,
            in_flight=in_flight,
            stopped=stopped_text(stopped, begun=run_state.begun),
        )


def _is_failed_check(effect: Effect) -> bool:
    return (
        isinstance(effect, StateFound)
        and effect.state == UNKNOWN
        and effect.reason is StateReason.CHECK
    )
