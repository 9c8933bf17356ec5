"""Jobs on their way: ready ones in a queue, failed ones waiting for a retry, the rest in flight.

A job has one cost per queue, also where hosts are lost: what is dropped is found by its host, and
passed over when its turn comes.

The dispatcher keeps no more than `parallel` jobs in flight at the executor, lets the heaviest go
first (weights of the planner), and carries out what an executor leaves to the runtime: Python types
in threads, which wait most of their time and so have room of their own, and actions without work.
Transitions can be held back, all of them, until they are let go. Before one starts it is lent the
archive of its file tree. Jobs that go together are taken at once, whatever there is room for, while
no other instance of their COB is at work or to be checked, and none may still come by what else
goes on. A job whose object has left work on its host starts when that was ended, one whose object
has a late call of a Python type when that has returned; it waits for it as long as it might take
itself.
"""

from __future__ import annotations

import heapq
import math
import random  # the generator is made from the run's seed, see `retry_delay_s`
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count
from typing import Any

from cobweb.errors import PluginError, StoreError
from cobweb.kernel._confirm import DeadManSwitch
from cobweb.kernel._python_calls import MOST_CALLS, NO_RETURN, PythonCalls
from cobweb.kernel._trees import TreeLender
from cobweb.model import (
    Action,
    Cob,
    CobId,
    Job,
    JobKind,
    Missing,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    name_of,
)
from cobweb.plugin import (
    CobContext,
    EndingExecutor,
    Executor,
    ExecutorSetting,
    NodeProvider,
    PythonType,
)

Lacks = Callable[[Sequence[Job]], bool]
"""Says whether more jobs may yet come that go together with these."""

Finish = Callable[[Job], tuple[Job, str]]
"""Gives a job the last that it gets before it starts; says as well which host it lacks, or ""."""

ENDING_S = 60.0
"""Time for ending what is at work on a host, with the start of what does it."""

NO_STEP: Mapping[str, Any] = {"source": "", "dest": "", "attempt": 1, "confirm": None}
"""What a job has that is no attempt of a step."""

RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0
RETRY_JITTER_S = 1.0


def retry_delay_s(*, seed: int, cob: CobId, attempt: int) -> float:
    """Return the wait after failed attempt `attempt` (from 1): doubled each time, with jitter.

    It is the same for a seed.
    """
    jitter = random.Random(f"{seed}/{cob}/{attempt}").uniform(0.0, RETRY_JITTER_S)  # noqa: S311
    return min(RETRY_FIRST_S * 2.0 ** min(attempt - 1, 100), RETRY_MOST_S) + jitter


class Dispatcher:
    """Hands jobs to an executor; all methods are called from the run's thread.

    `wake` alone may be called from signal handlers and other threads. `now` is the executor's
    clock, `work` what may be at work though its end was reported.
    """

    def __init__(  # noqa: PLR0913  # what jobs are carried out with, each of its own kind
        self,
        executor: Executor,
        setting: ExecutorSetting,
        *,
        python_types: Mapping[str, PythonType] | None = None,
        providers: Mapping[str, NodeProvider] | None = None,
        weights: Mapping[CobId, float] | None = None,
        trees: TreeLender | None = None,
        at_work: Iterable[CobId] = (),
    ) -> None:
        self._executor = executor
        self.now = executor.now
        self._ending = executor if isinstance(executor, EndingExecutor) else None
        self._setting = setting
        self._calls = PythonCalls(python_types or {}, executor.wake)
        self._providers = dict(providers or {})
        self._weights = dict(weights or {})
        self._trees = trees
        self._waiting: dict[str, dict[int, Job]] = {}
        self._ready: dict[bool, list[tuple[float, int, Job]]] = {True: [], False: []}
        self._later: list[tuple[float, int, Job]] = []
        self._in_flight: dict[int, Job] = {}
        self._held: list[Job] | None = None
        self._aside: dict[str, list[Job]] = {}
        self._behind_call: dict[int, tuple[float, Job]] = {}
        self._answered: dict[int, Report] = {}
        self._pauses: list[tuple[float, str]] = []
        self._numbers = count(1)
        self._switch = DeadManSwitch(setting, self.now, self.next_number)
        self.work = WorkEnder(at_work, next_number=self.next_number)

    def carrier(self, job: Job) -> tuple[str, bool]:
        """Return the executor that carries a job out, "" for the runtime, and if it can be lost.

        Such a job may go on where nobody sees it, and can be ended there.
        """
        reaches = self.reaches(job.action)
        return self._executor.name if reaches else "", reaches and self._ending is not None

    def next_number(self) -> int:
        """Return a job number that was not used in this run."""
        return next(self._numbers)

    def check_of(self, it: Cob, **known: Any) -> Job:
        """Return a job that checks an object; its variables say what is `known` of that as well."""
        own = {"id": it.id, "name": it.name, "host": it.host, "type": it.type.name, "spec": it.spec}
        more = {"reached": "", "renew": False, "target": it.preferred}
        return Job(
            number=self.next_number(),
            kind=JobKind.CHECK,
            cob=it.id,
            host=it.host,
            type_name=it.type.name,
            action=it.type.check,
            cob_vars={**own, **more, **known},
            timeout_s=it.type.check_timeout_s,
            shared=it.type.shared,
        )

    def add(self, job: Job, *, first: bool = False) -> None:
        """Queue a job that may start at once unless it is held back; `first` before all others."""
        self.hold(job)
        if self._held is not None and job.kind is JobKind.TRANSITION:
            self._held.append(job)
        else:
            self._make_ready(job, first=first)

    def hold(self, job: Job) -> None:
        """Have a job wait until it is withdrawn, or dropped with all that wait."""
        self._waiting.setdefault(job.host, {})[job.number] = job

    def withdraw(self, job: Job) -> bool:
        """Forget a job that waits; say whether it did."""
        waiting = self._waiting.get(job.host, {})
        found = waiting.pop(job.number, None) is not None
        if found and not waiting:
            del self._waiting[job.host]
        return found

    def hold_transitions(self) -> None:
        """Hold back the transitions that are added from now on."""
        self._held = self._held or []

    def let_transitions_go(self) -> None:
        """Queue the transitions that were held back and not dropped since, and hold no more."""
        held, self._held = self._held or (), None
        for job in held:
            self._make_ready(job)

    def reaches(self, action: Action) -> bool:
        """Say whether an action goes to its host: the executor carries it out, not the runtime."""
        return type(action) in self._executor.actions

    def add_retry(self, job: Job) -> None:
        """Queue the next attempt of a failed job, after its delay."""
        delay = retry_delay_s(seed=self._setting.seed, cob=job.cob, attempt=job.attempt)
        again = replace(job, number=self.next_number(), attempt=job.attempt + 1)
        self.hold(again)
        heapq.heappush(self._later, (self.now() + delay, again.number, again))

    def add_pause(self, limit: str, seconds: float) -> None:
        """Have the pause of a limit be over after some time."""
        heapq.heappush(self._pauses, (self.now() + seconds, limit))

    def ended_pauses(self) -> tuple[str, ...]:
        """Return, once, the limits whose pauses are over."""
        now, ended = self.now(), []
        while self._pauses and self._pauses[0][0] <= now:
            ended.append(heapq.heappop(self._pauses)[1])
        return tuple(ended)

    def idle(self) -> bool:
        """Say whether no job is ready, delayed or in flight, and no pause is waited for."""
        return not (self._waiting or self._in_flight or self._pauses)

    def running(self) -> tuple[Job, ...]:
        """Return the jobs in flight, oldest first."""
        return tuple(self._in_flight[number] for number in sorted(self._in_flight))

    def take(
        self, finish: Finish = lambda job: (job, ""), lacks: Lacks = lambda _: False
    ) -> tuple[Job, ...]:
        """Return the jobs that fit now, heaviest first; `submit` must follow.

        `finish` returns a job as it is to start, and the host that has not handed back yet what it
        lacks, "" for none. A job that lacks something is put aside until there is news of that
        host; if nothing else goes on any more, it is returned all the same.
        """
        now = self.now()
        while self._later and self._later[0][0] <= now:
            self._make_ready(heapq.heappop(self._later)[2])
        self._let_go_behind_calls()
        taken = self._take(finish, lacks)
        if not taken and self._is_still():
            for host in tuple(self._aside):
                self.tell_news(host)
            taken = self._take(finish, None)
        return taken

    def tell_news(self, host: str) -> None:
        """Let the jobs go that were put aside for what a host hands back."""
        for job in self._aside.pop(host, ()):
            self._make_ready(job)

    def _take(self, finish: Finish, lacks: Lacks | None) -> tuple[Job, ...]:
        """Return the jobs that fit now; without `lacks` none waits for what may yet come."""
        room = {
            True: self._setting.parallel - (len(self._in_flight) - len(self._calls)),
            False: MOST_CALLS - len(self._calls),
        }
        taken: list[Job] = []
        early: dict[tuple[str, ...], list[tuple[float, int, Job]]] = {}
        while fits := [queue for kind, queue in self._ready.items() if queue and room[kind] > 0]:
            entry = heapq.heappop(min(fits, key=lambda queue: queue[0][:2]))
            if not self._waits(entry[2]) or self._waits_behind_call(entry[2]):
                continue
            step = _step(entry[2])
            team = () if step in early else self._team(entry[2], taken, lacks)
            if not team:
                early.setdefault(step, []).append(entry)
            for job in team:
                made, host = finish(job)
                if host and lacks:
                    self._aside.setdefault(host, []).append(job)
                elif self.withdraw(job):
                    taken.append(made)
                    room[self.reaches(made.action)] -= 1
        for entry in chain.from_iterable(early.values()):
            heapq.heappush(self._ready[self.reaches(entry[2].action)], entry)
        return tuple(taken)

    def _team(self, job: Job, taken: Sequence[Job], lacks: Lacks | None) -> Sequence[Job]:
        """Return a job and the ready ones that go with it; none while it has to wait for others."""
        if not getattr(job.action, "together", False):
            return [job]
        ready = [it for queue in self._ready.values() for _, _, it in queue if self._waits(it)]
        checks = (it for it in ready if it.kind is JobKind.CHECK and it.kind is not job.kind)
        before = map(_step, (*self._in_flight.values(), *taken, *checks))
        own = _step(job)
        if any(step[:2] == own[:2] for step in before):
            return ()
        team = [job, *(it for it in ready if _step(it) == own)]
        return () if lacks and lacks(team) else team

    def _waits_behind_call(self, job: Job) -> bool:
        """Keep a job back whose object has a late call; say so."""
        if not self._calls.is_late(job.cob) or job.number in self._answered:
            return False
        self._behind_call[job.number] = (time.monotonic() + self._limit_s(job), job)
        return True

    def _let_go_behind_calls(self) -> None:
        """Let the jobs go whose late calls have returned, and those that have waited long enough.

        A late call that ended well has done what the next attempt of its step is to do.
        """
        for call, report in self._calls.take_returned():
            waiting = self._waiting.get(call.host, {}).values()
            for job in [job for job in waiting if job.cob == call.cob]:
                if self._behind_call.pop(job.number, None):
                    self._make_ready(job)
                same = (call.kind, call.source, call.dest) == (job.kind, job.source, job.dest)
                if same and job.kind is JobKind.TRANSITION and report.outcome is Outcome.OK:
                    self._answered[job.number] = replace(report, number=job.number)
        now = time.monotonic()
        for job in [job for deadline, job in self._behind_call.values() if deadline <= now]:
            del self._behind_call[job.number]
            self._make_ready(job)
            late = Outcome.FAILED
            self._answered[job.number] = Report(number=job.number, outcome=late, message=NO_RETURN)

    def _is_still(self) -> bool:
        """Say whether nothing goes on by which what cannot start yet could get what it lacks."""
        later = (*(it[-1] for it in self._later), *(it[-1] for it in self._behind_call.values()))
        return not (self._in_flight or self._held or self._pauses or any(map(self._waits, later)))

    def submit(self, jobs: Iterable[Job]) -> None:
        """Start jobs that were taken and journalled."""
        for job in jobs:
            self._in_flight[job.number] = job
            if answer := self._answered.pop(job.number, None):
                self._calls.answer(job, answer)
            elif problem := self._lend(job):
                self._fail(job, problem)
            else:
                self._begin_after_others(job)

    def drop_waiting(self, host: str | None = None) -> tuple[Job, ...]:
        """Forget the jobs (of one host, or all and all pauses) not in flight; return the jobs."""
        hosts = [host] if host is not None else list(self._waiting)
        if host is None:
            self._pauses.clear()
        dropped = [job for name in hosts for job in self._waiting.pop(name, {}).values()]
        return tuple(sorted(dropped, key=lambda job: job.number))

    def wait(self, most_s: float | None = None) -> list[tuple[Job, Report]]:
        """Return ended jobs with their reports; block until one, a retry, `wake` or `most_s`."""
        timeout_s = self._timeout_s(most_s)
        has_calls = bool(self._calls or self._behind_call)
        calls_alone = has_calls and len(self._calls) >= len(self._in_flight)
        reports = [] if calls_alone else [*self._executor.wait(timeout_s)]
        reports += self._calls.ended(block_s=timeout_s if calls_alone else 0.0)
        ended = [whole for report in reports if (whole := self._take_report(report))]
        for step in self._switch.due():
            self._start(step)
        return [(self._in_flight.pop(report.number), report) for report in ended]

    def _take_report(self, report: Report) -> Report | None:
        """Return what a report says of a whole job; None if that goes on."""
        job, report = self.work.take(report)
        if job is not None:
            self._begin(job)
            return None
        if report.at_work:
            self._note_lost(report.number)
        return self._switch.take(report)

    def _note_lost(self, number: int) -> None:
        """Take note that a job, or a step of one, may be at work though it was reported."""
        job = self._in_flight.get(number) or self._switch.job(number)
        if job is not None and job.kind is JobKind.TRANSITION:
            self.work.lost(job.cob, number)

    def wake(self) -> None:
        """End a `wait` early."""
        self._calls.wake()
        self._executor.wake()

    def stop(self) -> list[tuple[Job, Report]]:
        """Stop what is in flight, close the executor, and return how the stopped jobs ended.

        Nothing is left running but Python types that do not return.
        """
        if not self._in_flight:
            self._executor.close()
            return []
        self._executor.close(kill=True)
        last = self._calls.ended(block_s=0.0)
        with suppress(PluginError):  # not every executor can be asked once it is closed
            last.extend(self._executor.wait(0.0))
        reports = {report.number: report for report in last}
        for number in [number for number, report in reports.items() if report.at_work]:
            self._note_lost(number)
        jobs, self._in_flight = self.running(), {}
        cut = {it.number: Report(number=it.number, outcome=Outcome.CANCELLED) for it in jobs}
        return [(it, reports.get(it.number, cut[it.number])) for it in jobs]

    def close(self, *, kill: bool = False) -> None:
        """Close the executor and forget what was in flight."""
        self._executor.close(kill=kill)

    def _lend(self, job: Job) -> str:
        """Put what a job works with where it finds it; return what hinders that, "" for nothing."""
        try:
            if self._trees is not None:
                self._trees.lend(job)
        except OSError as error:
            return f"cannot write the archive of the tree: {error.strerror or error}"
        except StoreError as error:
            return f"cannot read the archive of the tree: {error}"
        return ""

    def _begin_after_others(self, job: Job) -> None:
        """Start a job once nothing of its object is at work, as far as the executor can say so."""
        if self._ending is None:
            self.work.believe(job.cob)
        elif end := self.work.before(job):
            self._ending.end_work(*end)
            return
        self._begin(job)

    def _begin(self, job: Job) -> None:
        self._start(self._switch.begin(job) if job.confirm else job)

    def _make_ready(self, job: Job, *, first: bool = False) -> None:
        """Queue a job unless it was dropped."""
        if self._waits(job):
            weight = -math.inf if first else -self._weights.get(job.cob, 0.0)
            queue = self._ready[self.reaches(job.action)]
            heapq.heappush(queue, (weight, job.number, job))

    def _waits(self, job: Job) -> bool:
        """Say whether a queued job was not dropped; the queues keep what was until its turn."""
        return job.number in self._waiting.get(job.host, ())

    def _timeout_s(self, most_s: float | None) -> float | None:
        while self._later and not self._waits(self._later[0][2]):
            heapq.heappop(self._later)
        heaps = (self._later, self._switch.paused, self._pauses)
        waits = [heap[0][0] - self.now() for heap in heaps if heap]
        behind = [deadline for deadline, _ in self._behind_call.values()]
        waits += [due - time.monotonic() for due in (*self._calls.deadlines_s(), *behind)]
        waits += () if most_s is None else (most_s,)
        return max(0.0, min(waits)) if waits else None

    def _start(self, job: Job) -> None:
        match job.action:
            case action if self.reaches(action):
                self._executor.submit(job)
            case Nothing():
                self._calls.answer(job, Report(number=job.number, outcome=Outcome.OK))
            case PythonAction() as action:
                self._calls.begin(job, action, self._context(job), self._limit_s(job))
            case Missing(message=message):
                self._fail(job, message)
            case _:
                self._fail(job, f"executor {self._executor.name} does not carry out {job.action}")

    def _limit_s(self, job: Job) -> float:
        return job.timeout_s or self._setting.timeout_s

    def _context(self, job: Job) -> CobContext:
        """Return what the method of a Python type gets."""
        known = self._setting.hosts[job.host]
        host = replace(known, variables={**known.variables, **job.host_vars})
        mark = self._setting.mark
        return CobContext(
            key=f"{mark.site}/{mark.epoch}/{job.number}" if mark else "",
            cob=job.cob_vars,
            host=host,
            site_dir=self._setting.site_dir,
            providers=self._providers,
            shared=job.shared,
        )

    def _fail(self, job: Job, message: str) -> None:
        """Report a job that cannot be carried out."""
        self._calls.answer(job, Report(number=job.number, outcome=Outcome.FAILED, message=message))


def _step(job: Job) -> tuple[str, ...]:
    """Return what jobs of instances of one COB have in common: its name and type; and the step."""
    return name_of(job.cob), job.type_name, job.source, job.dest


def describe(jobs: Sequence[Job]) -> list[str]:
    """Return one line per job, for a person who waits for it."""
    return [
        f"{job.cob}: {'check' if job.kind is JobKind.CHECK else f'{job.source} -> {job.dest}'}"
        for job in jobs
    ]


class WorkEnder:
    """Ends the work that lost jobs may have left on hosts before their objects are touched again.

    A job is lost where nobody has seen its end: the coordinator was killed, the host went away in
    the middle, what it had started did not end when it was stopped. The journal keeps whose jobs
    these are (`CobRecord.at_work`, promise P11): `cobs`. The next job of such an object, a check as
    a rule, begins only after one that ends such work on the host has ended well.
    """

    def __init__(self, cobs: Iterable[CobId], *, next_number: Callable[[], int]) -> None:
        self._left: dict[CobId, tuple[int, ...]] = dict.fromkeys(cobs, ())
        self._next_number = next_number
        self._behind: dict[int, Job] = {}
        self._over: list[CobId] = []

    def is_at_work(self, cob: CobId) -> bool:
        """Say whether a job of an object may still be at work, though its end was reported."""
        return cob in self._left

    def lost(self, cob: CobId, number: int) -> None:
        """Take note that the job `number` of an object may be at work, though it was reported."""
        self._left[cob] = (*self._left.get(cob, ()), number)

    def believe(self, cob: CobId) -> None:
        """Take an object for one of which nothing is at work, where nobody can end it."""
        if self._left.pop(cob, None) is not None:
            self._over.append(cob)

    def before(self, job: Job) -> tuple[Job, tuple[int, ...]] | None:
        """Return the job that ends what has to end before `job`, and the numbers of this run's.

        None where nothing has.
        """
        if job.cob not in self._left:
            return None
        step = replace(job, **NO_STEP, kind=JobKind.TRANSITION, action=Nothing(), fresh=False)
        step = replace(step, number=self._next_number(), timeout_s=ENDING_S)
        self._behind[step.number] = job
        return step, self._left[job.cob]

    def take(self, report: Report) -> tuple[Job | None, Report]:
        """Take a report; return the job that can begin now, or None and what is to be reported."""
        job = self._behind.pop(report.number, None)
        if job is None:
            return None, report
        if report.outcome is Outcome.OK:
            self._left.pop(job.cob, None)
            if job.kind is JobKind.CHECK:  # a transition is at work itself from now on
                self._over.append(job.cob)
            return job, report
        said = report.message
        if report.outcome is not Outcome.UNREACHABLE:
            why = f": {said}" if said else ""
            said = f"what an earlier job has left at work on {job.host} was not ended{why}"
        return None, replace(report, number=job.number, message=said, began=False, at_work=False)

    def take_ended(self) -> tuple[CobId, ...]:
        """Return, once, the objects of which nothing is at work any more."""
        over, self._over = tuple(self._over), []
        return over
