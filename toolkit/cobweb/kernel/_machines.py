"""What is on a machine: nothing where that is not there, and only asked for where it is.

Theory of operation. An object may name the object of its host that is the machine itself
(`Cob.machine`). That one is there in the preferred state of its type, and in no other. So
1. where the machine is known not to be there, what it carries is in its `remove` state, whatever
   the journal says of that (`put_on_machines`);
2. where the machine has to be checked, so has what it carries, and after it: if the machine is
   there its host is asked, if not the answer is known, and if nobody could find out it is lost;
3. when the machine leaves its preferred state later on, what it carries in another than its
   `remove` state is doubted, and believed as in 2.
The answers of 1 and of an absent machine need no job. What moves first is not said here but by
needs; a machine that is not needed by what it carries may go while that is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import TYPE_CHECKING

from cobweb.engine import CheckDropped, CheckEnded, TransitionDropped, TransitionEnded
from cobweb.model import UNKNOWN, CobId, Graph, Job, Outcome, Report, State

if TYPE_CHECKING:
    from cobweb.engine import Engine, Input
    from cobweb.kernel._dispatch import Dispatcher
    from cobweb.kernel._reports import Reports
    from cobweb.kernel._run_state import RunState
    from cobweb.kernel._unreachable_threshold import UnreachableThreshold

_ENDS = (CheckEnded, TransitionEnded, CheckDropped, TransitionDropped)


class Verdict(StrEnum):
    """What is to become of the check of an object, or of a belief, by what is known of its machine.

    `wait` for what is under way there; `ask` the host; `away`: there is no machine, so it is in its
    `remove` state; `lost`: nobody knows whether there is one; `doubt` what is believed.
    """

    WAIT = "wait"
    ASK = "ask"
    AWAY = "away"
    LOST = "lost"
    DOUBT = "doubt"


def put_on_machines(
    graph: Graph, known: dict[CobId, State], found: dict[CobId, State]
) -> AbstractSet[CobId]:
    """Change what is known, and what checks will find, by what is known of machines.

    Return the objects that are in their `remove` state for that.
    """
    away = set()
    for cob, it in graph.cobs.items():
        machine = graph.cobs.get(it.machine) if it.machine else None
        if machine is None:
            continue
        state = known.get(machine.id)
        if state is None:
            guess = known.pop(cob, None) or found[cob]
            is_there = found[machine.id] == machine.type.preferred
            found[cob] = guess if is_there else it.type.remove
        elif state != machine.type.preferred:
            known[cob] = it.type.remove
            found.pop(cob, None)
            away.add(cob)
    return away


class Machines:
    """The machines of one act: what is under way on them, and which checks wait for that.

    Without carried objects it is false and costs nothing.
    """

    def __init__(self, graph: Graph, engine: Engine) -> None:
        self._graph = graph
        self._engine = engine
        self._machine_of: dict[CobId, CobId] = {}
        self._hosted: dict[CobId, list[CobId]] = {}
        for cob, it in graph.cobs.items():
            if it.machine and it.machine in graph.cobs:
                self._machine_of[cob] = it.machine
                self._hosted.setdefault(it.machine, []).append(cob)
        self._busy: set[CobId] = set()
        self._jobs: dict[CobId, deque[Job]] = {}
        self._stirred: dict[CobId, None] = {}

    def __bool__(self) -> bool:
        """Say whether anything is on a machine."""
        return bool(self._hosted)

    def machine_of(self, cob: CobId) -> CobId | None:
        """Return the machine that an object is on."""
        return self._machine_of.get(cob)

    def began(self, cob: CobId) -> None:
        """Note that the check or a transition of an object is under way."""
        if self._hosted and (cob in self._hosted or cob in self._machine_of):
            self._busy.add(cob)

    def ended(self, event: Input) -> None:
        """Note that it is not any more; to be told before the engine is."""
        if self._hosted and isinstance(event, _ENDS):
            self._busy.discard(event.cob)
            machine = self._machine_of.get(event.cob, event.cob)
            if machine in self._hosted:
                self._stirred[machine] = None

    def hold(self, job: Job) -> None:
        """Keep the check of a carried object until `next` says what is to become of it."""
        machine = self._machine_of[job.cob]
        self._jobs.setdefault(machine, deque()).append(job)
        self._stirred[machine] = None

    def verdict(self, cob: CobId) -> Verdict:
        """Return what is to become of the check of a carried object now."""
        return self._of(self._machine_of[cob])

    def next(self, *, doubts: bool = True) -> tuple[Verdict, CobId, Job | None] | None:
        """Return one thing to do: the verdict on a held check, or whom to doubt; None for nothing.

        Without `doubts` nobody is.
        """
        while self._stirred:
            machine = next(iter(self._stirred))
            verdict, jobs = self._of(machine), self._jobs.get(machine)
            if jobs and verdict is not Verdict.WAIT:
                job = jobs.popleft()
                return verdict, job.cob, job
            if doubts and verdict is Verdict.AWAY:
                astray = next(filter(self._is_astray, self._hosted[machine]), None)
                if astray is not None:
                    return Verdict.DOUBT, astray, None
            del self._stirred[machine]
        return None

    def _of(self, machine: CobId) -> Verdict:
        state = self._engine.state(machine)
        is_there = state == self._graph.cobs[machine].type.preferred
        if state != UNKNOWN and not is_there:
            return Verdict.AWAY  # also on its way to be there, until it is
        if machine in self._busy:
            return Verdict.WAIT
        return Verdict.ASK if is_there else Verdict.LOST

    def _is_astray(self, cob: CobId) -> bool:
        """Say whether an object is believed to be where it cannot be without its machine."""
        state = self._engine.state(cob)
        return cob not in self._busy and state not in (UNKNOWN, self._graph.cobs[cob].type.remove)


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
