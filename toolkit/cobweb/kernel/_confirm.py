"""The dead-man switch: a change that is not confirmed over a new connection is taken back.

Theory of operation. A job with `confirm` is seen through as a row of steps, each an ordinary job of
the executor (task files in playbooks/confirm), while it counts as one job in flight:
1. `arm`: the host starts a watcher that takes the change back when the time is over;
2. the transition, within that time;
3. `confirm` over a new connection, again and again until the time is over;
4. where 2 or 3 fail, `revert` over a new connection, until the host says how it has ended: it can
   be asked as long as it can be reached, and goes back by itself where it cannot.
So when the job is reported nothing is under way on its host any more, and a check sees the last of
it; unless the host stays unreachable. The claim to confirm or to take back is decided on the host,
where one of the two wins: clocks of coordinator and host need not agree, and a lost answer may be
asked for again. A check with `confirm` begins with step 4 alone: what a coordinator that died has
left armed is taken back first.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobweb._resources import data_dir
from cobweb.model import Cob, Confirm, Job, JobKind, Outcome, Report, Tasks
from cobweb.plugin import ExecutorSetting

CONFIRMED = "confirmed"
"""What a host says of a change that stays."""

NOT_REVERTED = "not-reverted"
"""What it says where the taking back has failed; its task tells why."""

OTHER_ENDS = {
    "gone-back": "has gone back by itself",
    "taken-back": "has taken the change back",
    "none": "knows of no change to take back",
}
"""What else it says, and what that means."""

PAUSE_S = 1.0
"""Between two tries to reach a host."""

TRY_S = 20.0
"""The most that one try to confirm may take."""

LEAST_REVERT_S = 30.0
"""The least time that a host gets to take a change back."""

GRACE_S = 30.0
"""Time for a host to be reached again once it has gone back."""

AT_ONCE_S = 0.0

_Steps = Generator[tuple[Job, float], Report, Report]
"""Yields steps, each a job with the pause before it, is sent their reports, returns that of all."""


def switch_of(cob: Cob) -> Confirm | None:
    """Return the switch of an object, with its type's way back where it has none of its own."""
    if cob.confirm is None or cob.confirm.revert:
        return cob.confirm
    return replace(cob.confirm, revert=cob.type.revert, prepare=cob.type.prepare)


class DeadManSwitch:
    """Sees the jobs with `confirm` of one run through; a job is known by its number, in all calls.

    `now` is the executor's clock, `next_number` gives numbers for the jobs of steps.
    """

    def __init__(
        self, setting: ExecutorSetting, now: Callable[[], float], next_number: Callable[[], int]
    ) -> None:
        self._setting = setting
        self._now = now
        self._next_number = next_number
        self._at_work: dict[int, tuple[Job, _Steps]] = {}
        self.paused: list[tuple[float, int, Job]] = []
        """The steps that wait for their time, as a heap: when each is to begin, its number."""

    def begin(self, job: Job) -> Job:
        """Return the first step of a job with `confirm`."""
        assert job.confirm is not None
        rows = self._check if job.kind is JobKind.CHECK else self._transition
        steps = rows(job, job.confirm)
        step, _ = next(steps)
        self._at_work[step.number] = (job, steps)
        return step

    def job(self, number: int) -> Job | None:
        """Return the job of which this is the step at work; None if it is none."""
        return self._at_work.get(number, (None,))[0]

    def take(self, report: Report) -> Report | None:
        """Return what the report of a job or step says of a whole job; None if that goes on."""
        if report.number not in self._at_work:
            return report
        job, steps = self._at_work.pop(report.number)
        if report.outcome is Outcome.CANCELLED:
            return replace(report, number=job.number)
        try:
            step, paused_s = steps.send(report)
        except StopIteration as end:
            whole: Report = end.value
            return replace(whole, number=job.number)
        self._at_work[step.number] = (job, steps)
        heapq.heappush(self.paused, (self._now() + paused_s, step.number, step))
        return None

    def due(self) -> Sequence[Job]:
        """Return the steps whose time has come."""
        found = []
        while self.paused and self.paused[0][0] <= self._now():
            found.append(heapq.heappop(self.paused)[2])
        return found

    # --- rows of steps

    def _transition(self, job: Job, confirm: Confirm) -> _Steps:
        began_s = self._now()
        deadline_s = began_s + confirm.within_s
        wish = {
            "token": f"{began_s:.6f}/{job.number}",
            "within_s": confirm.within_s,
            "revert_s": _revert_s(confirm),
        }
        armed = yield self._arm(job, confirm, wish), AT_ONCE_S
        if armed.outcome in (Outcome.FAILED, Outcome.UNREACHABLE):
            return armed  # nothing has changed; what may be armed changes nothing by going back
        if armed.outcome is not Outcome.OK:
            return (yield from self._go_back(job, confirm, wish, armed))
        ended = yield self._work(job, deadline_s), AT_ONCE_S
        if ended.outcome is Outcome.OK:
            said = yield from self._ask_until(self._step(job, "confirm", wish, TRY_S), deadline_s)
            if said.outcome is Outcome.OK and said.state == CONFIRMED:
                return ended
            ended = replace(ended, message=_unconfirmed(said, confirm))
        return (yield from self._go_back(job, confirm, wish, ended))

    def _go_back(self, job: Job, confirm: Confirm, wish: dict[str, Any], ended: Report) -> _Steps:
        """Wait until the host has taken a change back that ended so; it is asked to, if it can."""
        revert_s = _revert_s(confirm)
        last_s = self._now() + confirm.within_s + revert_s + GRACE_S
        step = self._step(job, "revert", wish, revert_s + GRACE_S)
        said = yield from self._ask_until(step, last_s)
        is_ok = ended.outcome is Outcome.OK
        if is_ok and said.outcome is Outcome.OK and said.state == CONFIRMED:
            return replace(ended, message="")
        is_lost = said.outcome is Outcome.UNREACHABLE
        return Report(
            number=job.number,
            outcome=Outcome.UNREACHABLE if is_lost else Outcome.FAILED,
            message=f"{ended.message or 'it failed'}; {_told(said, 'it' if is_ok else 'the host')}",
            tasks=ended.tasks or said.tasks,
        )

    def _check(self, job: Job, confirm: Confirm) -> _Steps:
        limit_s = _revert_s(confirm) + GRACE_S
        said = yield self._step(job, "revert", {}, limit_s), AT_ONCE_S
        if said.outcome is Outcome.UNREACHABLE:
            return said
        return (yield replace(job, number=self._next_number(), confirm=None), AT_ONCE_S)

    def _ask_until(self, step: Job, last_s: float) -> _Steps:
        """Ask the host until it answers or the time is over; return the last report."""
        said = yield step, AT_ONCE_S
        while said.outcome is not Outcome.OK and self._now() < last_s:
            said = yield replace(step, number=self._next_number()), PAUSE_S
        return said

    # --- steps

    def _arm(self, job: Job, confirm: Confirm, wish: dict[str, Any]) -> Job:
        revert, prepare = self._text_file(confirm.revert), self._text_file(confirm.prepare)
        wish = {**wish, "revert": revert, "prepare": prepare}
        step = self._step(job, "arm", wish, confirm.within_s)
        return replace(step, kind=JobKind.TRANSITION, fresh=False)

    def _work(self, job: Job, deadline_s: float) -> Job:
        """Return the transition itself, which must be over when the host goes back."""
        own_s = self._setting.timeout_s if job.timeout_s is None else job.timeout_s
        left_s = max(PAUSE_S, round(deadline_s - self._now(), 1))
        return replace(job, number=self._next_number(), confirm=None, timeout_s=min(own_s, left_s))

    def _step(self, job: Job, name: str, wish: dict[str, Any], timeout_s: float) -> Job:
        """Return a question to the host: like a check, its answer is a state."""
        path = Path(str(data_dir("playbooks"))) / "confirm" / f"{name}.yml"
        state = job.source or job.cob_vars["state"]
        return replace(
            job,
            number=self._next_number(),
            kind=JobKind.CHECK,
            action=Tasks(path=str(path)),
            cob_vars={**job.cob_vars, "state": state, "confirm": wish},
            timeout_s=timeout_s,
            fresh=True,
            confirm=None,
        )

    def _text_file(self, text: str) -> str:
        """Keep a text where Ansible finds it as a template; return the file's path."""
        folder = self._setting.work_dir / "confirm"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.j2"
        path.write_text(text, encoding="utf-8")
        return str(path)


def _revert_s(confirm: Confirm) -> float:
    return max(confirm.within_s, LEAST_REVERT_S)


def _unconfirmed(said: Report, confirm: Confirm) -> str:
    within = f"within {confirm.within_s:g} s"
    if said.outcome is Outcome.FAILED:
        return f"the host could not be asked to keep the change {within}: {said.message}"
    return f"the host could not be reached by a new connection {within}"


def _told(said: Report, who: str) -> str:
    """Return what a host has said of the end of a change, as the second half of a sentence."""
    if said.outcome is not Outcome.OK:
        why = said.message or said.outcome
        return f"{who} has not said since whether it has gone back: {why}"
    if said.state == NOT_REVERTED:
        words = next((task.message for task in said.tasks if task.message), "it gave no reason")
        return f"{who} could not go back: {words}"
    return f"{who} {OTHER_ENDS.get(said.state, f'is {said.state}')}"
