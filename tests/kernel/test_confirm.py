"""The dead-man switch: the steps that a change takes, and its report, with faults at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.kernel._confirm import GRACE_S, LEAST_REVERT_S, switch_of
from cobweb.kernel._dispatch import Dispatcher
from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Confirm,
    Graph,
    Host,
    Job,
    JobKind,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    TaskOutput,
    Tasks,
)
from cobweb.plugin import ExecutorSetting
from cobweb.store import TransitionBegan
from cobweb.testing import FakeExecutor

NET = CobId("h1/net")
WITHIN_S = 60.0
CONFIRM = Confirm(within_s=WITHIN_S, revert="ip link set eth0 up", prepare="keep")

OK = (Outcome.OK, "")
LOST = (Outcome.UNREACHABLE, "no route")
BROKEN = (Outcome.FAILED, "it broke")


def says(state: str, *, told: str = "") -> tuple[Outcome, str, str]:
    return (Outcome.OK, told, state)


Said = tuple[Outcome, str] | tuple[Outcome, str, str]


@dataclass
class Bench:
    """A dispatcher whose executor answers each kind of step by a list, the last for ever."""

    folder: Path
    answers: Mapping[str, Sequence[Said]]
    steps: list[str] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    parallel: int = 2

    def __post_init__(self) -> None:
        self.executor = FakeExecutor(answer=self._answer)
        setting = ExecutorSetting(
            hosts={"h1": Host(name="h1")},
            site_dir=self.folder,
            work_dir=self.folder,
            parallel=self.parallel,
            timeout_s=600,
        )
        self.executor.open(setting)
        self.dispatcher = Dispatcher(self.executor, setting)

    def _answer(self, job: Job) -> Report:
        assert job.confirm is None
        name = _step_of(job)
        self.steps.append(name)
        self.jobs.append(job)
        row = self.answers.get(name, [OK])
        outcome, message, *state = row[min(self.steps.count(name), len(row)) - 1]
        tasks = (TaskOutput(name="ask", status="ok", message=message),)
        return Report(
            number=job.number,
            outcome=outcome,
            message="" if outcome is Outcome.OK else message,
            state=state[0] if state else "",
            tasks=tasks,
        )

    def job(self, kind: JobKind = JobKind.TRANSITION, **more: object) -> Job:
        is_check = kind is JobKind.CHECK
        fields = {
            "action": Tasks(path="/tasks/work.yml"),
            "cob_vars": {"id": NET, "state": "unknown" if is_check else "down"},
            "confirm": CONFIRM,
            "source": "" if is_check else "down",
            "dest": "" if is_check else "up",
            **more,
        }
        number = self.dispatcher.next_number()
        return Job(number=number, kind=kind, cob=NET, host="h1", type_name="net", **fields)  # type: ignore[arg-type]  # typed by Job

    def go(self, kind: JobKind = JobKind.TRANSITION, **more: object) -> Report:
        """See one job through; its report must carry its number."""
        job = self.job(kind, **more)
        self.dispatcher.add(job)
        self.dispatcher.submit(self.dispatcher.take())
        while not self.dispatcher.idle():
            for ended, report in self.dispatcher.wait():
                assert (ended, report.number) == (job, job.number)
                return report
        raise AssertionError("it ended without a report")

    @property
    def seconds(self) -> float:
        return self.executor.now()


def _step_of(job: Job) -> str:
    path = Path(getattr(job.action, "path", "/x/python"))
    return path.stem if path.parent.name == "confirm" else "work"


Make = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Make:
    """Return the maker of a bench, by what each step answers."""

    def make(*, parallel: int = 2, **answers: Sequence[Said]) -> Bench:
        return Bench(folder=tmp_path, answers=answers, parallel=parallel)

    return make


def test_a_good_change_is_armed_made_and_confirmed_over_a_new_connection(bench: Make) -> None:
    it = bench(confirm=[says("confirmed")])
    assert it.go() == Report(number=1, outcome=Outcome.OK, tasks=(TASK,))
    assert it.steps == ["arm", "work", "confirm"]
    assert [job.fresh for job in it.jobs] == [False, False, True]
    assert [job.kind is JobKind.CHECK for job in it.jobs] == [False, False, True]


TASK = TaskOutput(name="ask", status="ok", message="")


def test_the_host_is_told_the_time_and_the_texts_as_templates(bench: Make) -> None:
    it = bench(confirm=[says("confirmed")])
    it.go()
    arm, work, confirm = it.jobs
    wish = arm.cob_vars["confirm"]
    assert (wish["within_s"], wish["revert_s"]) == (WITHIN_S, WITHIN_S)
    assert Path(wish["revert"]).read_text() == CONFIRM.revert
    assert Path(wish["prepare"]).read_text() == CONFIRM.prepare
    assert arm.cob_vars["state"] == "down"
    assert confirm.cob_vars["confirm"]["token"] == wish["token"]
    assert "confirm" not in work.cob_vars


def test_two_changes_have_two_tokens(bench: Make) -> None:
    it = bench(confirm=[says("confirmed")])
    it.go()
    it.dispatcher.submit([it.job()])
    it.dispatcher.wait()
    arms = [job for job in it.jobs if _step_of(job) == "arm"]
    assert len({job.cob_vars["confirm"]["token"] for job in arms}) == 2


def test_the_transition_must_be_over_when_the_host_goes_back(bench: Make) -> None:
    it = bench(confirm=[says("confirmed")])
    it.go()
    it.go(timeout_s=7)
    works = [job.timeout_s for job in it.jobs if _step_of(job) == "work"]
    assert works == [WITHIN_S, 7]


def test_it_is_asked_again_until_a_new_connection_is_made(bench: Make) -> None:
    it = bench(confirm=[LOST, LOST, (Outcome.TIMEOUT, "slow"), says("confirmed")])
    assert it.go().outcome is Outcome.OK
    assert it.steps == ["arm", "work", *["confirm"] * 4]
    assert it.seconds == 3.0


def test_without_a_new_connection_the_host_goes_back_by_itself(bench: Make) -> None:
    it = bench(confirm=[LOST], revert=[LOST, LOST, says("gone-back")])
    report = it.go()
    assert report.outcome is Outcome.FAILED
    assert report.message == (
        "the host could not be reached by a new connection within 60 s; it has gone back by itself"
    )
    assert it.steps[-3:] == ["revert"] * 3
    assert it.seconds == WITHIN_S + 2


def test_a_confirmation_that_comes_too_late_is_none(bench: Make) -> None:
    it = bench(confirm=[says("gone-back")], revert=[says("gone-back")])
    report = it.go()
    assert report.outcome is Outcome.FAILED
    assert report.message.endswith("it has gone back by itself")
    assert it.steps == ["arm", "work", "confirm", "revert"]


def test_a_confirmation_whose_answer_was_lost_counts(bench: Make) -> None:
    it = bench(confirm=[LOST], revert=[says("confirmed")])
    report = it.go()
    assert (report.outcome, report.message) == (Outcome.OK, "")


def test_a_host_that_cannot_keep_the_change_says_why(bench: Make) -> None:
    it = bench(confirm=[BROKEN], revert=[says("gone-back")])
    assert it.go().message == (
        "the host could not be asked to keep the change within 60 s: it broke; "
        "it has gone back by itself"
    )


def test_a_transition_that_fails_is_taken_back_at_once(bench: Make) -> None:
    it = bench(work=[BROKEN], revert=[says("taken-back")])
    report = it.go()
    assert (report.outcome, report.tasks[0].message) == (Outcome.FAILED, "it broke")
    assert report.message == "it broke; the host has taken the change back"
    assert it.steps == ["arm", "work", "revert"]
    assert it.seconds == 0
    assert it.jobs[-1].fresh


def test_a_failed_transition_is_never_confirmed(bench: Make) -> None:
    it = bench(work=[BROKEN], revert=[says("confirmed")])
    assert it.go().outcome is Outcome.FAILED


def test_a_connection_that_breaks_is_waited_for_and_the_host_is_not_lost(bench: Make) -> None:
    it = bench(work=[LOST], revert=[*[LOST] * 5, says("gone-back")])
    report = it.go()
    assert report.outcome is Outcome.FAILED
    assert report.message == "no route; the host has gone back by itself"


def test_a_host_that_stays_away_is_unreachable(bench: Make) -> None:
    it = bench(work=[LOST], revert=[LOST])
    report = it.go()
    assert report.outcome is Outcome.UNREACHABLE
    assert report.message == (
        "no route; the host has not said since whether it has gone back: no route"
    )
    assert it.seconds == pytest.approx(WITHIN_S + WITHIN_S + GRACE_S, abs=1)


def test_a_host_that_cannot_say_it_is_asked_again_and_then_failed(bench: Make) -> None:
    it = bench(work=[BROKEN], revert=[(Outcome.FAILED, "")])
    report = it.go()
    assert report.outcome is Outcome.FAILED
    assert report.message.endswith("the host has not said since whether it has gone back: failed")
    assert it.steps.count("revert") > 100


def test_a_taking_back_that_fails_is_told_with_its_reason(bench: Make) -> None:
    it = bench(work=[BROKEN], revert=[says("not-reverted", told="`revert` ended with 3")])
    assert it.go().message == "it broke; the host could not go back: `revert` ended with 3"


def test_what_cannot_be_armed_is_not_begun(bench: Make) -> None:
    for answer in (BROKEN, LOST):
        it = bench(arm=[answer])
        report = it.go()
        assert (report.outcome, report.message) == answer
        assert it.steps == ["arm"]


def test_what_may_be_armed_and_has_not_begun_is_taken_back(bench: Make) -> None:
    it = bench(arm=[(Outcome.TIMEOUT, "slow")], revert=[says("none")])
    report = it.go()
    assert report.outcome is Outcome.FAILED
    assert report.message == "slow; the host knows of no change to take back"
    assert it.steps == ["arm", "revert"]


def test_the_least_time_for_going_back_is_given_to_the_quickest_change(bench: Make) -> None:
    it = bench(confirm=[says("confirmed")])
    it.go(confirm=Confirm(within_s=5, revert="x"))
    assert it.jobs[0].cob_vars["confirm"]["revert_s"] == LEAST_REVERT_S


@pytest.mark.parametrize("state", ["none", "gone-back", "not-reverted"])
def test_a_check_has_what_is_armed_taken_back_first(bench: Make, state: str) -> None:
    it = bench(revert=[says(state)], work=[says("up")])
    report = it.go(JobKind.CHECK)
    assert (report.outcome, report.state) == (Outcome.OK, "up")
    assert it.steps == ["revert", "work"]
    assert "token" not in it.jobs[0].cob_vars["confirm"]


def test_a_host_that_cannot_be_reached_is_not_checked(bench: Make) -> None:
    it = bench(revert=[LOST])
    assert it.go(JobKind.CHECK).outcome is Outcome.UNREACHABLE
    assert it.steps == ["revert"]


def test_a_change_keeps_its_place_among_the_jobs_in_flight(bench: Make) -> None:
    """While a step waits for its time nothing takes the room that it will need."""
    it = bench(parallel=1, confirm=[LOST, LOST, says("confirmed")])
    guarded = it.job()
    it.dispatcher.add(guarded)
    it.dispatcher.submit(it.dispatcher.take())
    it.dispatcher.add(it.job(confirm=None))
    ended: list[Job] = []
    while not ended:
        ended = [job for job, _ in it.dispatcher.wait()]
        assert ended or it.dispatcher.take() == ()
    assert ended == [guarded]


def test_what_is_stopped_in_the_middle_is_cancelled(bench: Make) -> None:
    it = bench()
    it.executor.hold(NET)
    job = it.job()
    it.dispatcher.submit([job])
    assert it.dispatcher.running() == (job,)
    ((stopped, report),) = it.dispatcher.stop()
    assert stopped == job
    assert (report.number, report.outcome) == (job.number, Outcome.CANCELLED)
    assert report.began


def test_a_step_that_the_executor_cancels_ends_the_change(bench: Make) -> None:
    it = bench(work=[(Outcome.CANCELLED, "stopped")])
    assert it.go().outcome is Outcome.CANCELLED


def test_other_kinds_of_work_are_guarded_as_well(bench: Make) -> None:
    for action in (Nothing(), PythonAction(type_name="net", method="up")):
        it = bench(confirm=[says("confirmed")])
        assert it.go(action=action).outcome is Outcome.OK
        assert it.steps == ["arm", "work", "confirm"]


def guarded(kind: CobType, confirm: Confirm | None) -> Graph:
    return Graph(cobs={NET: Cob(id=NET, type=kind, confirm=confirm)})


def answering(**states: str) -> Callable[[Job], Report | None]:
    """Return how a host answers: a state by step, a failure where that is empty."""

    def answer(job: Job) -> Report | None:
        step = _step_of(job)
        if step not in states or (step == "work" and job.kind is JobKind.CHECK):
            return None
        outcome = Outcome.OK if states[step] else Outcome.FAILED
        return Report(number=job.number, outcome=outcome, state=states[step], message="no")

    return answer


def happenings(rig: Any) -> list[str]:
    """Return what happened in its order: steps submitted, begins journalled, transitions told."""
    found = []
    for what, it in rig.tape.happened:
        if what == "submit":
            found.append(_step_of(it) if it.kind is JobKind.TRANSITION or it.fresh else "check")
        elif what == "event" and it["type"].startswith("transition."):
            found.append(it["type"])
        elif what == "journal":
            found += ["journal" for entry in it if isinstance(entry, TransitionBegan)]
    return found


def test_a_run_writes_and_tells_the_begin_before_the_host_is_armed(
    rig: type[Any], simple_type: Callable[..., CobType], tmp_path: Path
) -> None:
    it = rig(
        guarded(simple_type(), CONFIRM),
        answer=answering(revert="none", confirm="confirmed"),
        work_dir=tmp_path,
    )
    assert it.go().exit_code == 0
    steps = ["revert", "check", "journal", "transition.start", "arm", "work", "confirm"]
    assert happenings(it) == [*steps, "transition.end"]


def test_a_change_that_was_taken_back_is_told_checked_and_not_tried_again(
    rig: type[Any], simple_type: Callable[..., CobType], tmp_path: Path
) -> None:
    it = rig(
        guarded(simple_type(attempts=3), CONFIRM),
        answer=answering(revert="gone-back", work="", confirm="confirmed"),
        states={NET: "down"},
        work_dir=tmp_path,
    )
    assert it.go().exit_code == 1
    (end,) = it.events("transition.end")
    assert (end["result"], end["message"]) == ("failed", "no; the host has gone back by itself")
    assert happenings(it)[-3:] == ["transition.end", "revert", "check"]
    (begun,) = it.entries(TransitionBegan)
    assert begun.cob == NET


def test_what_has_no_work_or_no_hosts_is_not_guarded(
    rig: type[Any], simple_type: Callable[..., CobType], tmp_path: Path
) -> None:
    kind = simple_type()
    steps = tuple(replace(step, action=Nothing()) for step in kind.transitions)
    idle = guarded(replace(kind, transitions=steps), CONFIRM)
    for graph, setting in ((idle, {}), (guarded(kind, CONFIRM), {"has_hosts": False})):
        it = rig(graph, answer=answering(revert="none"), setting=setting, work_dir=tmp_path)
        assert it.go().exit_code == 0
        assert {"arm", "confirm"}.isdisjoint(happenings(it))


def test_the_way_back_is_the_objects_own_or_that_of_its_type(
    simple_type: Callable[..., CobType],
) -> None:
    kind = replace(simple_type(), revert="by type", prepare="keep by type")
    found = [
        switch_of(Cob(id=NET, type=kind, confirm=confirm))
        for confirm in (None, Confirm(within_s=9), Confirm(within_s=9, revert="own"))
    ]
    assert found == [
        None,
        Confirm(within_s=9, revert="by type", prepare="keep by type"),
        Confirm(within_s=9, revert="own"),
    ]


def test_a_host_may_be_lost_for_others_while_its_change_goes_back(
    rig: type[Any], simple_type: Callable[..., CobType], tmp_path: Path
) -> None:
    """What is known of the change is kept, though nothing more is asked of the host."""
    other = CobId("h1/other")
    said = answering(revert="gone-back", work="")

    def answer(job: Job) -> Report | None:
        if job.cob == other and job.kind is JobKind.TRANSITION:
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")
        return said(job)

    kind = simple_type()
    cobs = {
        NET: Cob(id=NET, type=kind, confirm=CONFIRM),
        other: Cob(id=other, type=kind),
    }
    known = dict.fromkeys(cobs, "down")
    it = rig(Graph(cobs=cobs), answer=answer, known=known, work_dir=tmp_path)
    result = it.go()
    assert result.exit_code == 1
    assert {wait.cob for wait in result.waits} == {NET, other}
    messages = {end["cob"]: end["message"] for end in it.events("transition.end")}
    assert messages == {NET: "no; the host has gone back by itself", other: "no route"}


def test_an_interrupt_lets_a_change_be_confirmed(
    rig: type[Any], simple_type: Callable[..., CobType], tmp_path: Path
) -> None:
    it: Any = None

    def answer(job: Job) -> Report | None:
        if _step_of(job) == "arm":
            it.interrupts.count = 1
        return answering(revert="none", confirm="confirmed")(job)

    it = rig(guarded(simple_type(), CONFIRM), answer=answer, work_dir=tmp_path)
    assert it.go().exit_code == 130
    (end,) = it.events("transition.end")
    assert end["result"] == "ok"
