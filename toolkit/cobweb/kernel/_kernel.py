"""The steppable kernel: drives one engine with an executor, writes the journal, tells the events.

Theory of operation. The loop holds no opinion on order; the engine does. One `poll` is
1. reports of the executor become inputs of the engine, whose effects are collected;
2. the jobs that fit are taken from the dispatcher;
3. everything that was found, granted and is about to start is written to the journal, at once
   (the effects of very many reports in several parts, each one told when it is stored);
4. only then the events are told and the jobs are submitted.
It is at rest when no job is ready, delayed or in flight: then nothing can happen any more (P5) but
by what is fed from outside. Who holds a kernel decides when to ask it again, and when to end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from cobweb import engine, store
from cobweb.errors import ProtocolError, StoreAwayError
from cobweb.kernel._confirm import switch_of
from cobweb.kernel._context import Context
from cobweb.kernel._deferred_values import finished, refuse_results
from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._events import of_effect
from cobweb.kernel._machines import HostedObjects
from cobweb.kernel._mail import Mail, Part
from cobweb.kernel._record import Record
from cobweb.kernel._reports import Reports
from cobweb.kernel._result import data_of
from cobweb.kernel._run_state import BY_MACHINE, RunState
from cobweb.kernel._unreachable_threshold import UnreachableThreshold
from cobweb.model import (
    OUTDATED,
    UNKNOWN,
    Cob,
    CobId,
    Graph,
    Job,
    JobKind,
    Nothing,
    Outcome,
    Report,
    Results,
    State,
    host_of,
    name_of,
)

_LARGEST_BATCH = 10_000
"""How many events and entries are collected before they are written, though no job is started."""


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
    every `beat_s` seconds; `say` gets sentences for people. With a `part` other kernels have the
    rest of the graph.
    """

    run: str
    context: Context
    graph: Graph
    may_go_out: frozenset[CobId] | None = None
    returns: bool = True
    trust_s: float = 60.0
    missed: frozenset[str] = frozenset()
    max_failures: int | None = None
    hosts: int = 0
    max_unreachable: int | None = None
    results: Results = field(default_factory=dict)
    has_hosts: bool = True
    beat: Callable[[], None] = lambda: None
    say: Callable[[str], None] = lambda _text: None
    beat_s: float | None = None
    part: Part | None = None


class Kernel:
    """Drives one context, step by step; all methods are called from one thread.

    Raises what the journal and the executor raise.
    """

    def __init__(self, setting: RunSetting, dispatcher: Dispatcher, record: Record) -> None:
        context = setting.context
        self._setting = setting
        self._context = context
        self._dispatcher = dispatcher
        self.record = record
        part = setting.part
        self._mail = Mail(part, context.graph, dispatcher.wake, setting.say) if part else None
        self._generation = (part.generation if part else 0) or context.generation
        self.engine = context.engine(
            may_go_out=setting.may_go_out,
            returns=setting.returns,
            settings=engine.EngineSettings(trust_s=setting.trust_s),
            **({} if part is None else part.engine_options(context.graph)),
        )
        self.run_state = RunState(
            context=context,
            engine=self.engine,
            hosts=frozenset(context.graph.hosts()),
            missed=set(setting.missed),
            results=dict(setting.results),
        )
        self.reports = Reports(self.run_state, self.record, dispatcher, self.feed)
        self.threshold = UnreachableThreshold(hosts=setting.hosts, most=setting.max_unreachable)
        self._hosted = HostedObjects(self.run_state, dispatcher, self.reports, self.threshold)
        self.started_s = 0.0
        self._locks: dict[CobId, tuple[tuple[CobId, State], ...]] = {}
        self._states: dict[CobId, State] = {}
        self._untaken: deque[tuple[Job, Report]] = deque()
        self.unwritten: list[tuple[Job, Report]] = []
        """Reports that were taken since the journal was written last."""
        self._unsent: tuple[Job, ...] = ()

    def start(self) -> None:
        """Begin with what is believed; nothing is written or sent before `flush`."""
        it = self._setting
        self.run_state.now_s = self.started_s = self._dispatcher.now()
        self.record.run_started(it.run, it.graph, generation=self._generation)
        context, results = self._context, self.run_state.results
        refuse_results(results, context.graph, self.record.write, self._setting.say)
        for entry in context.first():
            self._write(entry)
        for hosts in context.at_once:
            self.record.tell(context.told(hosts))
        for cob in sorted(context.changed & self.engine.states().keys()):
            self.record.found(cob, UNKNOWN, "content")
        self.record.tell(("cob.gave_up", {"cob": wait.cob}) for wait in context.left)
        self._dispatcher.hold_transitions()
        self._absorb(self.engine.start(context.known, context.held, **context.beliefs()))
        self._hosted.look()
        self._probe()

    def feed(self, event: engine.Input) -> None:
        """Hand the engine an input, and carry out what it says."""
        self._hosted.machines.ended(event)
        self._absorb(self.engine.step(event, self.run_state.now_s))
        self._hosted.look()

    def poll(self, most_s: float = 0.0) -> None:
        """Take what has ended or come, after waiting for it as long as `most_s`, and go on."""
        self.take(most_s)
        self.flush()

    def take(self, most_s: float | None = 0.0) -> None:
        """Take what has ended, after waiting for it as long as `most_s`; `flush` must follow."""
        if self._mail is not None:
            wait_s = self._mail.wait_s(self.run_state.now_s)
            most_s = min(wait_s, math.inf if most_s is None else most_s)
        ended = self._dispatcher.wait(most_s)
        self.run_state.now_s = self._dispatcher.now()
        self._untaken.extend(ended)
        while self._untaken:  # what very many say is stored in parts, each of which takes its time
            self._take_untaken(_LARGEST_BATCH)
            if self.record.size >= _LARGEST_BATCH:
                self._write_down()
                with suppress(StoreAwayError):
                    self._setting.beat()
        self._ask_lost_hosts()
        for limit in self._dispatcher.ended_pauses():
            self.record.tell([("limit.resume", {"limit": limit})])
            self.feed(engine.LimitResumed(limit=limit))
        if self._mail is not None:
            self._hear(self._mail)
        with suppress(StoreAwayError):  # what is written next waits for it
            self._setting.beat()

    def is_settled(self) -> bool:
        """Say whether all that it owns is where it should be, and nothing is under way."""
        return self.is_idle() and not self.engine.unsettled()

    def is_idle(self) -> bool:
        """Say whether nothing is at work, or about to be: only words make it go on."""
        return self._dispatcher.idle()

    def waits(self) -> list[dict[str, Any]]:
        """Return why objects are not where they should be: `unsettled` of result.schema.json."""
        return data_of(self._context.waits(self.engine), self.run_state.messages)

    def halt(self) -> None:
        """Begin nothing new; what is at work may end."""
        if not self.run_state.halted:
            self.run_state.halted = True
            self.feed(engine.Halt())
            self.reports.drop_waiting(None, "the run was stopped before the next attempt")

    def close(self) -> None:
        """Give up the link to the others."""
        if self._mail is not None:
            self._mail.close()

    def _hear(self, mail: Mail) -> None:
        """Hand the engine what others have said, and say again what may have been lost."""
        for message in mail.receive():
            try:
                self.feed(engine.Receive(message=message))
            except ProtocolError:
                mail.dropped += 1
        mail.again(self.run_state.now_s, self.engine.resend)

    def _write(self, entry: store.Entry) -> None:
        """Write an entry down, and forget what it makes undone."""
        if isinstance(entry, store.HostForgotten):
            self.run_state.results.pop(entry.host, None)
        elif isinstance(entry, store.Forgotten):
            self.run_state.applied[entry.cob] = None
            self.run_state.recorded.pop(entry.cob, None)
        self.record.write(entry)

    def _probe(self) -> None:
        """Ask hosts of which nothing is checked before they switch whether they answer."""
        context, hosts = self._context, set(self._context.given_up)
        change = context.change
        for cob in sorted(() if change is None else change.changed | change.added):
            it = self.engine.cob(cob)
            if it.host in hosts or not context.can_probe(cob):
                continue
            hosts.add(it.host)
            if self._dispatcher.reaches(it.type.check) and self.threshold.ask(it.host):
                self._ask_host(it)

    def _ask_host(self, it: Cob) -> None:
        """See whether the host of an object answers."""
        job = self._check_job(it)
        self.run_state.probes.add(job.number)
        self._dispatcher.add(job, first=True)

    def _ask_lost_hosts(self) -> None:
        """Ask lost hosts again that may be back, once nothing is at work there any more."""
        lost = self.reports.lost_hosts
        if not lost.due or self.run_state.halted:
            return
        for host in sorted(lost.due - {job.host for job in self._dispatcher.running()}):
            lost.due.discard(host)
            cobs = map(self.engine.cob, lost.objects(host))
            it = next((it for it in cobs if self._dispatcher.reaches(it.type.check)), None)
            if it is not None:
                self._ask_host(it)

    # --- reports

    def hear(self, most_s: float | None = 0.0) -> None:
        """Take what has ended, as `poll` does, where nothing can be written any more."""
        self._untaken.extend(self._dispatcher.wait(most_s))
        self.run_state.now_s = self._dispatcher.now()
        self._take_untaken()

    def drop_unsent(self) -> None:
        """Take back what was about to start when the journal failed."""
        for job in self._unsent:
            dropped = Report(number=job.number, outcome=Outcome.CANCELLED, began=False)
            self.reports.take(job, dropped)
        self._take_untaken()

    def stop(self) -> tuple[Job, ...]:
        """Stop what is at work; return what was cut off in the middle."""
        stopped = self._dispatcher.stop()
        self.run_state.now_s = self._dispatcher.now()
        for job, report in stopped:
            self.reports.take(job, report)
            self.unwritten.append((job, report))
        return tuple(job for job, report in stopped if report.outcome is Outcome.CANCELLED)

    def unreported(self) -> tuple[Job, ...]:
        """Return the jobs in flight, and those of which the report was not taken yet."""
        return (*(job for job, _ in self._untaken), *self._dispatcher.running())

    def _take_untaken(self, batch: float = math.inf) -> None:
        """Take what has ended, until as much as that is to be written down."""
        for cob in self._dispatcher.work.take_ended():
            self.record.write(store.WorkEnded(cob=cob))
        while self._untaken and self.record.size < batch:
            job, report = self._untaken[0]
            self.reports.take(job, report)
            self.unwritten.append(self._untaken.popleft())
            if self._dispatcher.reaches(job.action):
                self.threshold.heard(job.host)

    # --- effects

    def _absorb(self, effects: Sequence[engine.Effect]) -> None:
        if self._mail is not None and any(not isinstance(it, engine.Send) for it in effects):
            self._mail.stir()
        for effect in effects:
            if isinstance(effect, engine.StateFound):
                # A check that failed is written and told with its report.
                if (effect.state, effect.reason) != (UNKNOWN, engine.StateReason.CHECK):
                    self._note_state(effect)
                continue
            self.record.tell(of_effect(effect))
            self._note(effect)

    def _note(self, effect: engine.Effect) -> None:
        match effect:
            case engine.LockRequested() | engine.LockRecalled() | engine.CobGaveUp():
                pass  # there are many
            case engine.LockGranted(cob=cob, holder=holder, state=state):
                self.record.write(store.GrantWritten(cob=cob, holder=holder, state=state))
            case engine.Send(message=message) if self._mail is not None:
                self._mail.put(message)
            case engine.LockReleased(cob=cob, holder=holder):
                self.record.write(store.GrantGone(cob=cob, holder=holder))
            case engine.StartCheck(cob=cob):
                self._hosted.check(self._check_job(self.engine.cob(cob)))
            case engine.StartTransition(cob=cob):
                self._hosted.machines.began(cob)
                self._locks[cob] = effect.locks
                self._dispatcher.add(self._transition_job(effect))
            case _:
                self._note_limits(effect)

    def _note_limits(self, effect: engine.Effect) -> None:
        """Write down what is durable of limits, and of hosts that switch."""
        match effect:
            case engine.LimitPaused(limit=limit, pause_s=pause_s):
                self._dispatcher.add_pause(limit, pause_s)
            case engine.SlotTaken(limit=limit, unit=unit):
                now_s = self.run_state.now_s
                self.record.write(store.SlotWritten(limit=limit, unit=unit, time=now_s))
            case engine.SlotReturned(limit=limit, unit=unit):
                self.record.write(store.SlotGone(limit=limit, unit=unit))
            case engine.CanaryWritten(limit=limit, canary=canary):
                self.record.write(
                    store.CanaryWritten(
                        limit=limit,
                        generation=self._context.generation,
                        units=tuple(sorted(canary.units)),
                        through=canary.through,
                        contents=canary.contents,
                        covers=canary.covers,
                    )
                )
            case engine.Served(cob=cob):
                self.record.write(store.ServedWritten(cob=cob))
            case engine.HostsSwitched(hosts=hosts):
                for entry in self._context.switched(hosts):
                    self._write(entry)
                self.record.tell(self._context.told(hosts))
            case _:
                pass

    def _reason(self, effect: engine.StateFound) -> str:
        """Return why a state is believed: as the engine says, unless it is for the machine."""
        run_state = self.run_state
        if effect.reason is engine.StateReason.JOURNAL and effect.cob in self._context.away:
            run_state.applied[effect.cob] = None
            return BY_MACHINE
        if effect.cob in run_state.by_machine:
            run_state.by_machine.discard(effect.cob)
            return BY_MACHINE
        return str(effect.reason)

    def _note_state(self, effect: engine.StateFound) -> None:
        """Tell and write down what was found; the journal need not be told what it says itself.

        Of a changed object that goes on without a check it is told for which content that is.
        """
        reason = self._reason(effect)
        self.record.found(effect.cob, effect.state, reason)
        was, self._states[effect.cob] = self._states.get(effect.cob), effect.state
        if reason == engine.StateReason.JOURNAL and effect.cob not in self._context.changed:
            return
        if reason == engine.StateReason.CONTENT and effect.state == UNKNOWN:
            return  # the journal goes on knowing where it was, and for which content
        if reason == engine.StateReason.CHECK and was == effect.state:
            return  # it was looked at once more
        is_known = effect.state != UNKNOWN
        if is_known:
            self.run_state.recorded[effect.cob] = effect.state
        self.record.write(
            store.StateWritten(
                cob=effect.cob,
                state=effect.state,
                reason=reason,
                time=self.run_state.now_s,
                content=self._content(effect.cob) if is_known else None,
                applied=self.run_state.applied_to(effect.cob) if is_known else ...,
            )
        )

    def _content(self, cob: CobId) -> str | None:
        return self._context.content(cob, in_base=self.engine.stands_in_base(cob))

    def _check_job(self, it: Cob) -> Job:
        recorded = self.run_state.recorded.get(it.id) or self._context.recorded(it.id)
        job = self._dispatcher.check_of(
            it,
            id=self._context.first_names.get(it.id, it.id),
            applied=self.run_state.applied_to(it.id),
            recorded=recorded if recorded in it.type.states else None,
            reached=self.run_state.reached.get(it.id, ""),
            state=self.engine.state(it.id),
            generation=self._generation,
            results=self.run_state.results.get(it.host, {}),
        )
        confirm = switch_of(it) if self._setting.has_hosts else None
        return replace(job, confirm=confirm, content=self._content(it.id) or "")

    def _transition_job(self, effect: engine.StartTransition) -> Job:
        step, check = effect.transition, self._check_job(self.engine.cob(effect.cob))
        renew = effect.cob in self._context.renew and step.source == OUTDATED
        return replace(
            check,
            kind=JobKind.TRANSITION,
            action=step.action,
            cob_vars={**check.cob_vars, "renew": renew, "target": effect.target},
            source=step.source,
            dest=step.dest,
            timeout_s=step.timeout_s,
            confirm=None if isinstance(step.action, Nothing) else check.confirm,
        )

    def _finished(self, job: Job) -> tuple[Job, str]:
        """Return a job that is about to start with what was handed back so far; see `finished`."""
        run_state = self.run_state
        if not self._setting.has_hosts or job.number in run_state.probes:
            return job, ""
        it = self.engine.cob(job.cob)
        is_new = self._context.is_new(job.cob) and not self.engine.stands_in_base(job.cob)
        return finished(
            job,
            it.spec,
            run_state.results,
            applied=None if is_new else run_state.applied_to(job.cob),
            removes=job.cob_vars["target"] == it.type.remove,
        )

    def _lacks(self, team: Sequence[Job]) -> bool:
        """Say whether another instance is on its way, so that it may yet go with a team."""
        name, own, run_state = name_of(team[0].cob), {job.cob for job in team}, self.run_state
        others = (it for it in self.engine.unsettled() if name_of(it) == name and it not in own)
        left = (it in run_state.failed or host_of(it) in run_state.lost for it in others)
        return team[0].kind is JobKind.TRANSITION and not all(left)

    # --- journal and events

    def flush(self) -> None:
        """Write everything down, tell it, and only then start what fits."""
        if self.threshold.lets_go(self.run_state.lost):
            self._dispatcher.let_transitions_go()
        jobs = self._dispatcher.take(self._finished, self._lacks)
        now_s = self._dispatcher.now()
        for job in jobs:
            if job.kind is JobKind.CHECK:
                self.run_state.checks += 1
                continue
            self.run_state.begun += job.attempt == 1
            self.record.began(job, self._locks.pop(job.cob, ()), now_s, self._dispatcher)
        self._unsent = jobs
        self._write_down()
        self._unsent = ()
        self._dispatcher.submit(jobs)

    def _write_down(self) -> None:
        self.record.flush()
        self.unwritten.clear()
        if self._mail is not None:
            self._mail.send()
