"""The run behind `cobweb drift`: every check once; what is found goes to journal and events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from cobweb._text import shortened
from cobweb.errors import StoreAwayError
from cobweb.kernel._database_outage import PatientJournal
from cobweb.kernel._deferred_values import finished, kept_results, refuse_results
from cobweb.kernel._dispatch import Dispatcher, describe
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._record import LONGEST_MESSAGE, Record
from cobweb.kernel._result import Ending
from cobweb.kernel._signals import KILL
from cobweb.model import (
    UNKNOWN,
    CobId,
    Job,
    Outcome,
    Report,
    State,
    fill_in,
    host_of,
    merged_results,
)
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._orders import (
    HEARTBEAT_S,
    Caller,
    Orders,
    command_of,
    end_of,
    keep_apart,
    open_executor,
    private_folder,
    told_if_broken,
)
from cobweb.operations.context._stored_work import KeptWork
from cobweb.operations.drift._drift_check import (
    DRIFT,
    THERE,
    Doubtful,
    DriftCheck,
    Drifted,
    DriftResult,
    Left,
    Subject,
    Unchecked,
    drift_check_of,
    found_of,
    why_doubtful,
)
from cobweb.plugin import Plugins
from cobweb.store import HostFound, HostLost, ResultsWritten, RunInfo, StateWritten, Store

_APPLY_ENDS = "`cobweb apply` ends it first"
_NEVER = "nothing was ever applied by this state database, so nothing could be compared"


def drift_site(  # noqa: PLR0913  # what is looked at, how, for whom, and as which run
    desired: Desired,
    plugins: Plugins,
    store: Store,
    orders: Orders,
    caller: Caller,
    *,
    info: RunInfo,
    ignores: Callable[[CobId], bool] = lambda _cob: False,
) -> DriftResult:
    """Check what was applied, as the run `info`; the caller holds the site lock.

    Objects that `ignores` names are left out. Raises StoreError, LockedError, ExecutorError; what
    had been found by then is in the journal.
    """
    keep_apart(store, orders)
    generation = store.current_generation_id()
    info = replace(info, command=command_of(info, orders), generation=generation)
    with private_folder() as folder:
        work = KeptWork(store, desired.roots, plugins.python_types, folder, types=plugins.types)
        look = drift_check_of(desired, store, work, ignores=ignores)
        expected = {it.cob.id: it.record.state for it in look.subjects}
        there = replace(desired, hosts=look.hosts)
        with open_executor(plugins, orders, there, expected) as (executor, setting):
            store.begin_run(info)
            publisher = EventPublisher(caller.sinks, executor.now)
            say, timeout_s = caller.say, orders.store_timeout_s
            journal = PatientJournal(store, caller.interrupts, say, outage_s=timeout_s)
            record = Record(journal, publisher)
            record.run_started(info.id, desired.graph, generation=info.generation)
            dispatcher = Dispatcher(
                executor, setting, python_types=plugins.python_types, providers=plugins.providers
            )
            with told_if_broken(store, info):
                looking = _DriftRun(look, dispatcher, record, caller, orders=orders)
                refuse_results(looking.results, desired.graph, record.write, say)
                result = looking.go(info.id)
    store.end_run(end_of(info, result.ending, result.counts))
    never = () if info.generation or look.subjects else (_NEVER,)
    return replace(result, notices=(*never, *publisher.notices))


class _DriftRun:
    """Goes through the checks of one look; use once.

    `unchecked` and `lost` hold what was said of objects and hosts.
    """

    def __init__(
        self,
        look: DriftCheck,
        dispatcher: Dispatcher,
        record: Record,
        caller: Caller,
        *,
        orders: Orders,
    ) -> None:
        self._look = look
        self._subjects = {it.cob.id: it for it in look.subjects}
        self._rest = iter(look.subjects)
        self._dispatcher = dispatcher
        self._record = record
        self._caller = caller
        checks = (it.cob.type.check for it in look.subjects)
        whole = any(getattr(check, "together", False) for check in checks)
        self._parallel = max(orders.parallel, len(look.subjects) if whole else 0)
        self._simulates = orders.simulates
        self._drifted: dict[CobId, Drifted] = {}
        self._doubtful: dict[CobId, Doubtful] = {}
        self._unchecked: dict[CobId, str] = {}
        self._lost: dict[str, str] = {}
        self._checked: set[CobId] = set()
        self.results = dict(look.results)
        self._now_s = 0.0
        self._machines = dict(look.machines)
        self._behind: dict[CobId, list[Subject]] = {}
        self._freed: deque[Subject] = deque()

    def go(self, run: str) -> DriftResult:
        """Check everything, or as much as the user lets it, and return what was found."""
        interrupts, dispatcher = self._caller.interrupts, self._dispatcher
        interrupts.wake = dispatcher.wake
        self._now_s = started_s = dispatcher.now()
        is_told = False
        while True:
            if interrupts.count and not is_told:
                is_told = True
                running = len(dispatcher.running())
                self._caller.say(f"nothing more is checked; {running} still at work")
            self._record.flush()
            if not interrupts.count:
                self._begin_next()
            if dispatcher.idle() or interrupts.count >= KILL:
                break
            self._take_all(dispatcher.wait(HEARTBEAT_S))
            with suppress(StoreAwayError):  # what is written next waits for it
                self._caller.beat()
        stopped = dispatcher.stop()
        self._take_all((job, it) for job, it in stopped if it.outcome is not Outcome.CANCELLED)
        cut = [job for job, it in stopped if it.outcome is Outcome.CANCELLED]
        self._meet_hosts()
        result = self._result(run, is_interrupted=bool(interrupts.count))
        self._record.run_ended(result.ending, result.counts, result.unreachable)
        self._record.flush()
        return replace(result, in_flight=tuple(describe(cut)), seconds=self._now_s - started_s)

    def _begin_next(self) -> None:
        """Start the next checks, as many as there is room for; none on hosts that are lost."""
        room = self._parallel - len(self._dispatcher.running())
        chosen = (it for it in self._in_line() if not self._passed_over(it))
        for subject in islice(chosen, max(0, room)):
            self._dispatcher.add(self._job(subject))
        self._dispatcher.submit(self._dispatcher.take())

    def _in_line(self) -> Iterator[Subject]:
        """Yield who is next; those on a machine that is looked at come after that."""
        while True:
            while self._freed:
                yield self._freed.popleft()
            subject = next(self._rest, None)
            if subject is None:
                return
            machine = subject.cob.machine
            if machine in self._subjects and machine not in self._machines:
                self._behind.setdefault(machine, []).append(subject)
            else:
                yield subject

    def _passed_over(self, subject: Subject) -> bool:
        """Say whether the host is not to be asked, and take what is known without that."""
        cob, machine = subject.cob, subject.cob.machine
        if cob.host in self._lost:
            self._unchecked[cob.id] = self._lost[cob.host]
            return True
        if subject.record.at_work:
            # What may still be at work may change while it is looked at (P11).
            why = why_doubtful(subject.record)
            self._fail(subject, f"{why}, and may still be at work; {_APPLY_ENDS}")
            self._know(cob.id, UNKNOWN)
            return True
        if machine not in self._machines or self._machines[machine] == THERE:
            return False
        state = self._machines[machine]
        if state == UNKNOWN:
            self._fail(subject, f"its machine {machine} could not be looked at")
        else:
            message = f"its machine {machine} is {state}"
            gone = Report(number=0, outcome=Outcome.OK, state=cob.type.remove, message=message)
            self._take(subject, gone)
        return True

    def _know(self, machine: CobId, state: State) -> None:
        """Take note of what a machine is found in, so that those on it are next."""
        self._machines[machine] = state
        self._freed.extend(self._behind.pop(machine, ()))

    def _job(self, subject: Subject) -> Job:
        it = subject.cob
        # What was filled in when it was applied is what its host is to be compared with.
        spec = it.spec if self._simulates else fill_in(it.spec, {}, known=subject.record.applied)[0]
        job = self._dispatcher.check_of(
            it,
            id=self._look.first_names.get(it.id, it.id),
            spec=spec,
            applied=subject.record.applied,
            recorded=subject.record.recorded,
            state=subject.record.state,
            generation=subject.generation,
            results=self.results.get(it.host, {}),
        )
        return job if self._simulates else finished(job, spec, self.results)[0]

    # --- reports

    def _take_all(self, ended: Iterable[tuple[Job, Report]]) -> None:
        self._now_s = self._dispatcher.now()
        for job, said in ended:
            subject, known = self._subjects[job.cob], self.results.get(job.host, {})
            report, new = kept_results(known, said, subject.cob.type.opens(job.action))
            if new:
                self.results[job.host] = merged_results(known, new)
                self._record.write(ResultsWritten(host=job.host, results=new))
            self._take(subject, report)
            self._know(job.cob, found_of(subject, report))

    def _take(self, subject: Subject, report: Report) -> None:
        states = subject.cob.type.states
        match report.outcome:
            case Outcome.OK if report.state in states:
                self._checked.add(subject.cob.id)
                self._record.checked(subject.cob.id, report)
                self._take_state(subject, report)
            case Outcome.OK:
                known = ", ".join(states)
                message = f"the check says {report.state!r}, which is no state of it ({known})"
                self._fail(subject, message, report)
            case Outcome.UNREACHABLE:
                self._record.checked(subject.cob.id, report)
                if subject.cob.host not in self._lost:
                    self._lost[subject.cob.host] = report.message
                    self._record.write(HostLost(host=subject.cob.host, time=self._now_s))
                self._unchecked[subject.cob.id] = report.message
            case _:
                self._fail(subject, report.message or str(report.outcome), report)

    def _take_state(self, subject: Subject, report: Report) -> None:
        cob, left, state = subject.cob.id, subject.left, report.state
        if left is None:
            why = why_doubtful(subject.record)
            self._doubtful[cob] = Doubtful(cob=cob, why=why, state=state)
            self._record.found(cob, state, "check")
        elif state == left.was:
            self._record.found(cob, state, "check")
            if state != subject.record.state or subject.record.reason == DRIFT:
                self._write(subject, state, "check")
        else:
            self._drift(subject, left, report)

    def _drift(self, subject: Subject, left: Left, report: Report) -> None:
        cob, state = subject.cob.id, report.state
        since = self._now_s if left.since is None else left.since
        more: dict[str, Any] = {"was": left.was, "was_since": left.was_since, "since": since}
        self._drifted[cob] = Drifted(cob=cob, state=state, message=report.message, **more)
        said = {"message": shortened(report.message, LONGEST_MESSAGE)} if report.message else {}
        self._record.found(cob, state, DRIFT, **more, **said)
        if state != subject.record.state or subject.record.reason != DRIFT:
            self._write(subject, state, DRIFT)

    def _write(self, subject: Subject, state: State, reason: str) -> None:
        self._record.write(
            StateWritten(
                cob=subject.cob.id,
                state=state,
                reason=reason,
                time=self._now_s,
                generation=subject.record.generation,
            )
        )

    def _fail(self, subject: Subject, message: str, report: Report | None = None) -> None:
        """Tell that a check failed or was not made; the journal goes on believing what it did."""
        cob = subject.cob.id
        report = report or Report(number=0, outcome=Outcome.FAILED, message=message)
        self._unchecked[cob] = message
        said = self._record.checked(cob, report, message=message)
        self._record.found(cob, UNKNOWN, "check", **said)

    def _meet_hosts(self) -> None:
        """Take note of hosts that answer again, where all that the journal has of them is checked.

        Of the others the next apply checks everything, for nobody knows what was done to them.
        """
        for host, cobs in sorted(self._look.missed.items()):
            if host not in self._lost and cobs <= self._checked:
                self._record.write(HostFound(host=host, time=self._now_s))

    def _result(self, run: str, *, is_interrupted: bool) -> DriftResult:
        look = self._look
        undefined = "no generation says any more what was applied"
        unchecked = {**self._unchecked, **dict.fromkeys(look.undefined, undefined)}
        if is_interrupted:
            ending = Ending.INTERRUPTED
        elif self._drifted:
            ending = Ending.DRIFT
        else:
            ending = Ending.FAILED if unchecked else Ending.OK
        counts = {
            "hosts": len({host_of(cob) for cob in self._subjects}),
            "cobs": len(look.subjects),
            "checks": len(self._checked),
            "drifted": len(self._drifted),
            "pending": len(look.pending),
            "doubtful": len(self._doubtful),
            "unchecked": len(unchecked),
            "ignored": look.ignored,
        }
        return DriftResult(
            run=run,
            ending=ending,
            counts=counts,
            drifted=tuple(self._drifted[cob] for cob in sorted(self._drifted)),
            pending=look.pending,
            doubtful=tuple(self._doubtful[cob] for cob in sorted(self._doubtful)),
            unchecked=tuple(Unchecked(cob=it, message=unchecked[it]) for it in sorted(unchecked)),
            unreachable=dict(sorted(self._lost.items())),
        )
