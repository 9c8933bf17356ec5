"""What a run does with the checks of what is on machines; what is to be done `_machines` says."""

from __future__ import annotations

from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._machines import Machines, Verdict
from cobweb.kernel._reports import Reports
from cobweb.kernel._run_state import RunState
from cobweb.kernel._unreachable_threshold import UnreachableThreshold
from cobweb.model import Job, Outcome, Report


class HostedObjects:
    """Starts the checks of one run; those of carried objects when their machines let it."""

    def __init__(
        self,
        run_state: RunState,
        dispatcher: Dispatcher,
        reports: Reports,
        threshold: UnreachableThreshold,
    ) -> None:
        self._run_state = run_state
        self._dispatcher = dispatcher
        self._reports = reports
        self._threshold = threshold
        self._looks = False
        self.machines = Machines(run_state.context.graph, run_state.engine)

    def check(self, job: Job) -> None:
        """Queue a check; that of a carried object waits for `look`."""
        self.machines.began(job.cob)
        if self.machines.machine_of(job.cob) is None:
            self._ask(job)
        else:
            self._dispatcher.hold(job)
            self.machines.hold(job)

    def look(self) -> None:
        """Do what there is to do by now; also what that leads to."""
        if not self.machines or self._looks:
            return
        self._looks = True
        try:
            while (found := self.machines.next(doubts=not self._run_state.halted)) is not None:
                verdict, cob, job = found
                if job is None:
                    self._reports.doubt(cob)
                elif self._dispatcher.withdraw(job):
                    self._answer(job, verdict)
        finally:
            self._looks = False

    def _ask(self, job: Job) -> None:
        asks = self._dispatcher.reaches(job.action) and self._threshold.ask(job.host)
        self._dispatcher.add(job, first=asks)

    def _answer(self, job: Job, verdict: Verdict) -> None:
        """Ask the host, or take the answer to a check that is not made."""
        it = self._run_state.engine.cob(job.cob)
        if verdict is Verdict.ASK:
            self._ask(job)
        elif verdict is Verdict.AWAY:
            self._reports.believe(job, it.type.remove)
        else:
            message = f"its machine {it.machine} could not be looked at"
            lost = Report(number=job.number, outcome=Outcome.FAILED, message=message)
            self._reports.take(job, lost)
