"""What becomes of a report: an input of the engine, entries of the journal, perhaps a retry.

A transition whose report is in doubt goes on, for the engine, until a check has said where it led
to. In its target it has ended well; where it began it is tried again; anywhere else it has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

from cobweb import engine
from cobweb._text import shortened
from cobweb.kernel._deferred_values import kept_results
from cobweb.kernel._dispatch import NO_STEP, Dispatcher
from cobweb.kernel._record import LONGEST_MESSAGE, Record
from cobweb.kernel._run_state import BY_MACHINE, RunState
from cobweb.model import (
    UNKNOWN,
    CobId,
    Graph,
    Job,
    JobKind,
    Missing,
    Outcome,
    Report,
    State,
    host_of,
    merged_results,
)
from cobweb.store import HostFound, HostLost, ResultsWritten, StateWritten


class Reports:
    """Takes the reports of one run; `step` hands an input to the engine."""

    def __init__(
        self,
        progress: RunState,
        record: Record,
        dispatcher: Dispatcher,
        step: Callable[[engine.Input], None],
    ) -> None:
        self._run_state = progress
        self._record = record
        self._dispatcher = dispatcher
        self._step = step
        self._doubtful: dict[int, tuple[Job, Report]] = {}
        self.lost_hosts = LostHosts(progress.context.graph)

    def take(self, job: Job, report: Report) -> None:
        """Take the report of a job."""
        if job.number not in self._run_state.probes:
            report = self._keep_results(job, report)
        if report.in_doubt and not self._run_state.halted:
            self._ask(job, report)
            return
        if job.number in self._doubtful:
            self._settle(job, report)
            return
        if report.outcome is Outcome.OK:
            self._meet(job.host)
        elif report.message:
            self._blame(job, report.message)
        if job.number in self._run_state.probes:  # what else it finds is not believed
            if report.outcome is Outcome.UNREACHABLE:
                self._lose(job, report.message)
            elif report.outcome in (Outcome.OK, Outcome.FAILED):
                self._take_back(job.host)
        elif job.kind is JobKind.CHECK:
            self._take_check(job, report)
        else:
            self._take_transition(job, report)

    def _ask(self, job: Job, report: Report) -> None:
        """Have a check, or the same one again, say what a job has done of which nobody knows."""
        if job.kind is JobKind.CHECK:
            asks = replace(job, number=self._dispatcher.next_number())
            if job.number in self._run_state.probes:
                self._run_state.probes.add(asks.number)
            if job.number in self._doubtful:
                self._doubtful[asks.number] = self._doubtful.pop(job.number)
        else:
            kind = self._run_state.engine.cob(job.cob).type
            asks = replace(job, **NO_STEP, kind=JobKind.CHECK, action=kind.check)
            number, timeout_s = self._dispatcher.next_number(), kind.check_timeout_s
            asks = replace(asks, number=number, timeout_s=timeout_s)
            self._doubtful[asks.number] = (job, replace(report, in_doubt=False))
        self._dispatcher.add(asks, first=True)

    def _settle(self, check: Job, found: Report) -> None:
        """End a transition by what the check has found that was made for it, or try it again."""
        job, report = self._doubtful.pop(check.number)
        state = found.state if found.outcome is Outcome.OK else None
        if state == job.dest:
            self.take(job, Report(number=job.number, outcome=Outcome.OK))
        elif state == job.source and job.attempt == 1 and self._may_repeat(job):
            self._dispatcher.add_retry(job)
        elif found.outcome is Outcome.UNREACHABLE:
            self.take(job, replace(found, number=job.number))
        else:
            self.take(job, report)

    def _keep_results(self, job: Job, report: Report) -> Report:
        """Keep what a job hands back, for all jobs that begin later; bad results fail the job."""
        known = self._run_state.results.get(job.host, {})
        opened = self._run_state.engine.cob(job.cob).type.opens(job.action)
        report, new = kept_results(known, report, opened)
        if new:
            self._run_state.results[job.host] = merged_results(known, new)
            self._record.write(ResultsWritten(host=job.host, results=new))
            self._dispatcher.tell_news(job.host)
        return report

    def believe(self, job: Job, state: State) -> None:
        """Take a state that is known without the check `job`, since the machine is not there."""
        self._run_state.by_machine.add(job.cob)
        self._run_state.remember_applied(job, state)
        self._step(engine.CheckEnded(cob=job.cob, state=state))

    def doubt(self, cob: CobId) -> None:
        """Have an object looked at again whose machine has gone from under it."""
        self._record.found(cob, UNKNOWN, BY_MACHINE)
        self._step(engine.StateDoubted(cob=cob))

    def drop_waiting(self, host: str | None, reason: str) -> None:
        """Forget what is queued (of one host, or all); what never began has changed nothing."""
        messages = self._run_state.messages
        for job in self._dispatcher.drop_waiting(host):
            if job.attempt == 1:
                self._drop(job)
            else:
                self._fail(job, f"{messages.get(job.cob, 'it failed')} ({reason})")

    def _drop(self, job: Job) -> None:
        if job.number in self._run_state.probes:
            return
        if job.number in self._doubtful:
            self.take(*self._doubtful.pop(job.number))
            return
        is_check = job.kind is JobKind.CHECK
        self._step((engine.CheckDropped if is_check else engine.TransitionDropped)(cob=job.cob))

    def _blame(self, job: Job, message: str) -> None:
        """Keep what went wrong; a check that fails after its transition does not hide the cause."""
        run_state = self._run_state
        first = run_state.messages.get(job.cob) if job.cob in run_state.failed else None
        is_second = first not in (None, message) and job.kind is JobKind.CHECK
        both = f"{first}; then the check: {message}"
        run_state.messages[job.cob] = both if is_second else message

    def _take_check(self, job: Job, report: Report) -> None:
        run_state = self._run_state
        match report.outcome:
            case Outcome.UNREACHABLE:
                self._record.checked(job.cob, report)
                self._lose(job, report.message)
            case Outcome.CANCELLED if run_state.halted:
                self._drop(job)
            case Outcome.OK if was := self._fallen_from(job.cob, report.state):
                why = f" ({report.message})" if report.message else ""
                lost = f"it is {report.state}{why}: this run had it {was}, which did not last"
                self._blame(job, lost)
                self._fail_check(job, replace(report, outcome=Outcome.FAILED))
            case Outcome.OK if report.state in run_state.engine.cob(job.cob).type.states:
                self._record.checked(job.cob, report)
                run_state.remember_applied(job, report.state)
                self._step(engine.CheckEnded(cob=job.cob, state=report.state))
            case _:
                self._fail_check(job, report)

    def _fallen_from(self, cob: CobId, state: State | None) -> State:
        """Return the state that this run led to, where it served and what is found does not."""
        kind, was = self._run_state.engine.cob(cob).type, self._run_state.reached.get(cob, "")
        is_known = bool(was) and state is not None and state in kind.states
        return was if is_known and not kind.serves(str(state)) else ""

    def _fail_check(self, job: Job, report: Report) -> None:
        run_state = self._run_state
        if report.outcome is Outcome.OK:
            known = ", ".join(run_state.engine.cob(job.cob).type.states)
            self._blame(job, f"the check says {report.state!r}, which is no state of it ({known})")
        run_state.failed.add(job.cob)
        time = run_state.now_s
        self._record.write(
            StateWritten(cob=job.cob, state=UNKNOWN, reason="check", time=time, failed=True)
        )
        said = self._record.checked(job.cob, report, message=run_state.messages.get(job.cob, ""))
        self._record.found(job.cob, UNKNOWN, "check", **said)
        self._step(engine.CheckEnded(cob=job.cob, state=None))

    def _take_transition(self, job: Job, report: Report) -> None:
        match report.outcome:
            case Outcome.OK:
                self._succeed(job, report)
            case Outcome.UNREACHABLE:
                self._end(job, UNKNOWN, report)
                self._lose(job, report.message)
            case Outcome.CANCELLED if self._run_state.halted and not report.began:
                self._end(job, job.source)
                self._drop(job)
            case _ if self._may_retry(job, report):
                self._dispatcher.add_retry(job)
            case Outcome.CANCELLED if self._run_state.interrupted:
                doubt = f" ({report.message})" if report.at_work else ""
                self._run_state.cut[job.cob] = f"{job.source} -> {job.dest}{doubt}"
                self._fail(job, f"stopped by an interrupt{doubt}", report)
            case _:
                self._fail(job, report.message, report)

    def _may_repeat(self, job: Job) -> bool:
        run_state = self._run_state
        # What may cut off its host is tried once.
        return not run_state.halted and job.host not in run_state.lost and job.confirm is None

    def _may_retry(self, job: Job, report: Report) -> bool:
        lacks = isinstance(job.action, Missing)  # that does not come by waiting
        if lacks or not self._may_repeat(job) or report.outcome is Outcome.CANCELLED:
            return False
        step = self._run_state.engine.cob(job.cob).type.transition(job.source, job.dest)
        return step is not None and job.attempt < step.attempts

    def _succeed(self, job: Job, report: Report) -> None:
        self._run_state.remember_applied(job, job.dest)
        self._run_state.transitions += 1
        self._run_state.messages.pop(job.cob, None)
        lasts = self._run_state.engine.cob(job.cob).type.serves(job.dest)
        # One that stands in base has yet to become what the goal says, whatever becomes of it.
        lasts = lasts and not self._run_state.engine.stands_in_base(job.cob)
        self._run_state.reached[job.cob] = job.dest if lasts else ""
        self._end(job, job.dest, report)
        self.lost_hosts.moved(job.cob, self._dispatcher.next_number())
        self._step(engine.TransitionEnded(cob=job.cob, ok=True))

    def _fail(self, job: Job, message: str, report: Report | None = None) -> None:
        if message:
            self._run_state.messages[job.cob] = message
        self._run_state.failed.add(job.cob)
        self._end(job, UNKNOWN, report)
        self._step(engine.TransitionEnded(cob=job.cob, ok=False))

    def _end(self, job: Job, state: State, report: Report | None = None) -> None:
        at_work = self._dispatcher.work.is_at_work(job.cob)
        self._record.ended(job, state, self._run_state, report, at_work=at_work)

    def _lose(self, job: Job, message: str) -> None:
        """Do without the host of a job, which cannot be reached; of the first one it is told."""
        run_state, host = self._run_state, job.host
        self.lost_hosts.lost(host, job.number)
        if host in run_state.lost:
            return
        run_state.lost[host] = message
        told = {"host": host, "message": shortened(message, LONGEST_MESSAGE)}
        self._record.tell([("host.unreachable", told)])
        run_state.missed.discard(host)
        self._record.write(HostLost(host=host, time=run_state.now_s))
        if host in run_state.hosts:
            self._step(engine.HostVanished(host=host))
        self.drop_waiting(host, f"host {host} cannot be reached")

    def _take_back(self, host: str) -> None:
        """Go on with a host that was lost and answers; all of it is checked."""
        if self._run_state.lost.pop(host, None) is None:
            return
        self.lost_hosts.found(host)
        self._record.write(HostFound(host=host, time=self._run_state.now_s))
        self._record.tell([("host.returned", {"host": host})])
        if host in self._run_state.hosts:
            self._step(engine.HostReturned(host=host))

    def _meet(self, host: str) -> None:
        """Take note that a host answers which did not the last time."""
        if host in self._run_state.missed:
            self._run_state.missed.discard(host)
            self._record.write(HostFound(host=host, time=self._run_state.now_s))


class LostHosts:
    """Lost hosts, and when to ask them again: what is behind a router answers when that is back.

    A host is lost by a job that did not reach it. It is asked again when something that its objects
    need has ended a transition since that job was made, so never more often than there are
    transitions. Time is counted in job numbers; `graph` says what is needed on other hosts.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._behind: dict[CobId, dict[str, int]] = {}
        self._moved: dict[CobId, int] = {}
        self.due: set[str] = set()
        """Hosts that are to be asked again."""

    def lost(self, host: str, number: int) -> None:
        """Take note that job `number` has not reached a host."""
        self.due.discard(host)
        for _, cob in self._needs.get(host, ()):
            self._behind.setdefault(cob, {})[host] = number
            if self._moved.get(cob, -1) > number:
                self.due.add(host)

    def moved(self, cob: CobId, number: int) -> None:
        """Take note that an object has ended a transition, when `number` was the last job."""
        self._moved[cob] = number
        self.due.update(self._behind.get(cob, ()))

    def found(self, host: str) -> None:
        """Take note that a host answers."""
        self.due.discard(host)
        for _, cob in self._needs.get(host, ()):
            self._behind.get(cob, {}).pop(host, None)

    def objects(self, host: str) -> list[CobId]:
        """Return the objects of a host that need something on another one."""
        return [cob for cob, _ in self._needs.get(host, ())]

    @cached_property  # most runs lose no host
    def _needs(self) -> dict[str, list[tuple[CobId, CobId]]]:
        needs: dict[str, list[tuple[CobId, CobId]]] = {}
        for need in self._graph.needs:
            if host_of(need.cob) != host_of(need.on):
                needs.setdefault(host_of(need.cob), []).append((need.cob, need.on))
        return needs
