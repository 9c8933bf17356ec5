"""A look for drift: what was left against what is, told apart from pending changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import StoreAwayError, StoreError, UsageError
from cobweb.model import CobId, Job, JobKind, Outcome, Report
from cobweb.operations import (
    Caller,
    DriftResult,
    Ending,
    Interrupts,
    Orders,
    apply_site,
    desired_of,
    drift_site,
    why,
)
from cobweb.operations.drift._drift_check import PendingKind
from cobweb.plugin import Plugins, load_plugins
from cobweb.site import load_site
from cobweb.store import (
    CobRecord,
    Entry,
    HostLost,
    RunInfo,
    RunRecord,
    StateWritten,
    Store,
    TransitionBegan,
    open_store,
)
from cobweb.testing import FakeExecutor

A, B, C = (CobId(name) for name in ("h1/a", "h2/b", "h2/c"))
TYPES = """
cobweb: 1
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: , outdated -> up: , outdated -> down: }
"""
SITE = """
inventory: {all: {hosts: {h1: , h2: }}}
cobs:
  a: {type: simple, on: h1, spec: {x: 1}}
  b: {type: simple, on: h2, spec: {x: 1}}
  c: {type: simple, on: h2, after: [b]}
"""
Answer = Callable[[Job], Report | None]


@dataclass
class Place:
    """A site on pretended hosts, whose states are `world`, and its state database."""

    root: Path
    plugins: Plugins
    store: Store
    world: dict[CobId, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    runs: int = 0

    def write(self, text: str) -> None:
        (self.root / "site.yml").write_text(TYPES + text, encoding="utf-8")
        tasks = self.root / "tasks"
        tasks.mkdir(exist_ok=True)
        (tasks / "check.yml").write_text("- debug:\n", encoding="utf-8")

    def apply(self) -> Ending:
        fake, loaded = self._fake(None)
        desired = desired_of(load_site(self.root))
        orders, info = Orders(), self._info("apply")
        result = apply_site(desired, loaded, self.store, orders, Caller(), info=info)
        self.world.update(fake.states)
        return result.ending

    def look(  # noqa: PLR0913  # what is special about a look, each by its name
        self,
        *,
        limit: str | None = None,
        answer: Answer | None = None,
        interrupts: Interrupts | None = None,
        times: int = 1,
        hold: CobId | None = None,
        orders: Orders | None = None,
    ) -> DriftResult:
        """Look; `interrupts` comes `times` times with the first state that is told."""
        fake, loaded = self._fake(answer)
        if hold is not None:
            fake.hold(hold)
        site = load_site(self.root)
        asked = interrupts or Interrupts()
        self.events.clear()

        def hear(event: Mapping[str, Any]) -> None:
            self.events.append(event)
            if interrupts is not None and event["type"] == "cob.state" and not asked.count:
                for _ in range(times):
                    asked()

        result = drift_site(
            desired_of(site, limit),
            loaded,
            self.store,
            orders or Orders(),
            Caller(sinks=[hear], interrupts=asked),
            info=self._info("drift"),
            ignores=site.ignores_drift,
        )
        self.jobs = fake.jobs
        return result

    def records(self) -> Mapping[CobId, CobRecord]:
        return self.store.states()

    def told(self, reason: str) -> dict[str, str]:
        found = [event for event in self.events if event.get("reason") == reason]
        return {event["cob"]: event["state"] for event in found}

    def _fake(self, answer: Answer | None) -> tuple[FakeExecutor, Plugins]:
        fake = FakeExecutor(states=self.world, answer=answer)
        made: Any = lambda: fake  # noqa: E731  # stands for a class without arguments
        return fake, replace(self.plugins, executors={"ansible": made, "simulate": made})

    def _info(self, command: str) -> RunInfo:
        self.runs += 1
        run = f"run-{self.runs}"
        return RunInfo(id=run, command=command, started=1.0, user="ann", host="here", pid=1)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Make a site with three objects on two hosts, and bring all of them up."""
    with open_store("sqlite:///state.db", tmp_path) as store:
        place = Place(root=tmp_path, plugins=load_plugins(), store=store)
        place.write(SITE)
        assert place.apply() is Ending.OK
        assert set(place.world.values()) == {"up"}
        yield place


def test_nothing_has_drifted_and_nothing_is_written(place: Place) -> None:
    before = place.records()
    result = place.look()
    assert (result.ending, result.exit_code, result.drifted) == (Ending.OK, 0, ())
    assert result.counts["checks"] == result.counts["cobs"] == 3
    assert place.records() == before
    assert place.told("check") == {A: "up", B: "up", C: "up"}
    assert {job.kind for job in place.jobs} == {JobKind.CHECK}


def test_drift_is_found_noted_and_repaired_by_the_next_apply(place: Place) -> None:
    before = place.records()[A]
    place.world[A] = "outdated"
    result = place.look()
    (drifted,) = result.drifted
    assert (result.ending, result.exit_code) == (Ending.DRIFT, 2)
    assert (drifted.cob, drifted.was, drifted.state) == (A, "up", "outdated")
    assert drifted.was_since == before.since
    after = place.records()[A]
    assert (after.state, after.reason, after.run) == ("outdated", "drift", result.run)
    kept = ("content", "applied_json", "generation", "in_transition", "reachable")
    assert all(getattr(after, name) == getattr(before, name) for name in kept)
    assert place.told("drift") == {A: "outdated"}
    assert place.told("check") == {B: "up", C: "up"}
    assert place.apply() is Ending.OK
    assert place.world[A] == "up"
    assert place.look().ending is Ending.OK


def test_drift_is_known_since_it_was_noticed_first(place: Place) -> None:
    place.world[A] = "outdated"
    first = place.look().drifted
    noted = place.records()[A]
    assert place.look().drifted == first
    assert place.records()[A] == noted
    place.world[A] = "down"
    (other,) = place.look().drifted
    assert other == replace(first[0], state="down")
    assert place.records()[A].state == "down"
    assert place.look().drifted == (other,)


def test_what_is_right_again_is_found_right(place: Place) -> None:
    place.world[A] = "down"
    assert place.look().ending is Ending.DRIFT
    place.world[A] = "up"
    assert place.look().ending is Ending.OK
    record = place.records()[A]
    assert (record.state, record.reason) == ("up", "check")


def test_drift_of_which_the_events_are_gone_is_drift_all_the_same(place: Place) -> None:
    entry = StateWritten(cob=A, state="down", reason="drift", time=7.0)
    place.store.write([entry])
    place.world[A] = "down"
    (drifted,) = place.look().drifted
    assert (drifted.was, drifted.state, drifted.since) == ("up", "down", 7.0)


def test_an_object_that_the_last_apply_left_down_has_not_drifted(place: Place) -> None:
    place.store.write([StateWritten(cob=A, state="down", reason="check", time=5.0)])
    place.world[A] = "down"
    assert place.look().ending is Ending.OK
    place.world[A] = "up"
    (drifted,) = place.look().drifted
    assert (drifted.was, drifted.state) == ("down", "up")


def test_a_pending_change_is_checked_as_it_was_applied(place: Place) -> None:
    place.write(SITE.replace("on: h1, spec: {x: 1}", "on: h1, spec: {x: 2}"))
    result = place.look()
    assert result.ending is Ending.OK
    assert [(it.cob, it.kind) for it in result.pending] == [(A, PendingKind.CHANGED)]
    (job,) = [job for job in place.jobs if job.cob == A]
    assert job.cob_vars["spec"] == job.cob_vars["applied"] == {"x": 1}
    place.world[A] = "outdated"
    both = place.look()
    assert [it.cob for it in both.drifted] == [A]
    assert both.pending == result.pending
    assert place.apply() is Ending.OK
    assert place.look().pending == ()


def test_what_is_new_or_gone_is_pending(place: Place) -> None:
    """`b` is gone with its host's other object, `d` is new; what is gone can drift still."""
    place.write(
        "inventory: {all: {hosts: {h1: }}}\n"
        "cobs:\n  a: {type: simple, on: h1, spec: {x: 1}}\n  d: {type: simple, on: h1}\n"
    )
    place.world[B] = "down"
    result = place.look()
    added, removed = PendingKind.ADDED, PendingKind.REMOVED
    assert [(it.cob, it.kind) for it in result.pending] == [
        ("h1/d", added),
        (B, removed),
        (C, removed),
    ]
    assert [it.cob for it in result.drifted] == [B]
    assert {job.cob for job in place.jobs} == {A, B, C}


def test_what_no_generation_knows_any_more_is_not_checked(place: Place) -> None:
    place.write(SITE.replace("on: h1, spec: {x: 1}", "on: h1, spec: {x: 2}"))
    place.store.write([StateWritten(cob=A, state="up", reason="check", time=2.0, content="old")])
    result = place.look()
    assert (result.ending, result.exit_code) == (Ending.FAILED, 1)
    assert [(it.cob, it.message) for it in result.unchecked] == [
        (A, "no generation says any more what was applied")
    ]


VAULTED = """
inventory: {all: {hosts: {h1: {secret: !vault "$ANSIBLE_VAULT;1.1;AES256 3632"}}}}
cobs: {a: {type: simple, on: h1, spec: {x: %s, key: "{{ secret }}"}}}
"""


def test_a_vaulted_value_of_an_earlier_content_is_found_again(place: Place) -> None:
    place.write(VAULTED % 1)
    assert place.apply() is Ending.OK
    place.look()
    (first,) = [job for job in place.jobs if job.cob == A]
    place.write(VAULTED % 2)
    place.look()
    (second,) = [job for job in place.jobs if job.cob == A]
    assert second.cob_vars["spec"] == first.cob_vars["spec"]
    place.write((VAULTED % 2).replace("3632", "3633"))
    assert [it.cob for it in place.look().unchecked] == [A]


def test_an_object_in_doubt_has_not_drifted_and_stays_in_doubt(place: Place) -> None:
    place.store.write(
        [
            TransitionBegan(cob=A, source="up", dest="down", time=3.0),
            StateWritten(cob=B, state="unknown", reason="check", time=3.0, failed=True),
            StateWritten(cob=C, state="unknown", reason="check", time=3.0),
        ]
    )
    before = place.records()
    place.world[A] = "down"
    result = place.look()
    assert result.ending is Ending.OK
    assert [(it.cob, it.why, it.state) for it in result.doubtful] == [
        (A, "stopped in up -> down", "down"),
        (B, "failed", "up"),
        (C, "its state was lost", "up"),
    ]
    assert place.records() == before


def test_what_may_still_be_at_work_is_not_checked(place: Place) -> None:
    """Nobody knows what it is about to be, and a look ends nothing; the next apply does."""
    place.store.write([TransitionBegan(cob=A, source="up", dest="down", time=3.0, at_work=True)])
    before = place.records()
    place.world[A] = "down"
    result = place.look()
    assert (result.ending, A in {job.cob for job in place.jobs}) == (Ending.FAILED, False)
    assert [(it.cob, it.message) for it in result.unchecked] == [
        (A, "stopped in up -> down, and may still be at work; `cobweb apply` ends it first")
    ]
    assert (result.drifted, result.doubtful, place.records()) == ((), (), before)
    assert place.apply() is Ending.OK
    assert place.look().ending is Ending.OK


def lost(host: str) -> Answer:
    """Answer for a host that cannot be reached."""

    def answer(job: Job) -> Report | None:
        if job.host != host:
            return None
        return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")

    return answer


def test_a_lost_host_is_asked_once_and_told_once(place: Place) -> None:
    place.world[A] = "down"
    result = place.look(answer=lost("h2"), orders=Orders(parallel=1))
    assert (result.ending, result.exit_code) == (Ending.DRIFT, 2)
    assert [job.cob for job in place.jobs] == [A, B]
    assert dict(result.unreachable) == {"h2": "no route"}
    assert [(it.cob, it.message) for it in result.unchecked] == [(B, "no route"), (C, "no route")]
    assert not place.records()[B].reachable
    assert place.events[-1]["unreachable"] == {"h2": "no route"}
    place.world[A] = "up"
    assert place.look(answer=lost("h2")).exit_code == 1


def test_a_host_that_answers_again_is_trusted_once_all_of_it_was_checked(place: Place) -> None:
    place.store.write([HostLost(host="h2", time=4.0)])
    place.write(SITE + "drift: {ignore: [c]}\n")
    assert place.look().ending is Ending.OK
    assert not place.records()[B].reachable
    place.write(SITE)
    assert place.look().ending is Ending.OK
    assert place.records()[B].reachable


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"outcome": Outcome.FAILED, "message": "no python"}, "no python"),
        ({"outcome": Outcome.TIMEOUT}, "timeout"),
        (
            {"outcome": Outcome.OK, "state": "sideways"},
            "the check says 'sideways', which is no state of it (outdated, down, up)",
        ),
    ],
)
def test_a_check_that_fails_finds_nothing(
    place: Place, report: dict[str, Any], message: str
) -> None:
    before = place.records()

    def answer(job: Job) -> Report | None:
        return Report(number=job.number, **report) if job.cob == A else None

    result = place.look(answer=answer)
    assert (result.ending, result.exit_code) == (Ending.FAILED, 1)
    assert [(it.cob, it.message) for it in result.unchecked] == [(A, message)]
    assert place.records() == before
    end, event = [event for event in place.events if event.get("state") == "unknown"]
    assert (end["type"], end["cob"], end["result"]) == ("check.end", A, "failed")
    assert end["message"] == message
    assert (event["cob"], event["message"]) == (A, message)


def test_what_the_site_ignores_is_left_out_and_counted(place: Place) -> None:
    place.write(SITE + "drift: {ignore: [a, c@h2]}\n")
    place.world.update({A: "down", C: "down"})
    result = place.look()
    assert (result.ending, result.counts["ignored"]) == (Ending.OK, 2)
    assert [job.cob for job in place.jobs] == [B]


def test_a_limit_looks_at_its_hosts_alone(place: Place) -> None:
    without = SITE.replace("  b: {type: simple, on: h2, spec: {x: 1}}\n", "")
    place.write(without.replace("[b]", "[]"))
    place.world.update({A: "down", B: "down"})
    assert [it.cob for it in place.look(limit="h1").drifted] == [A]
    assert [job.cob for job in place.jobs] == [A]
    result = place.look(limit="h2")
    assert [it.cob for it in result.drifted] == [B]
    assert [it.cob for it in result.pending] == [B]


def test_hosts_take_turns(place: Place) -> None:
    place.write(SITE + "  d: {type: simple, on: h1}\n  e: {type: simple, on: h2}\n")
    assert place.apply() is Ending.OK
    place.look()
    assert [job.cob for job in place.jobs] == [A, B, "h1/d", C, "h2/e"]


def test_an_interrupt_begins_no_further_check(place: Place) -> None:
    place.world[A] = "down"
    result = place.look(interrupts=Interrupts(), orders=Orders(parallel=1))
    assert (result.ending, result.exit_code) == (Ending.INTERRUPTED, 130)
    assert [job.cob for job in place.jobs] == [A]
    assert [it.cob for it in result.drifted] == [A]
    assert place.records()[A].state == "down"


def test_one_interrupt_lets_what_is_at_work_come_to_its_end(place: Place) -> None:
    place.world[B] = "down"
    result = place.look(interrupts=Interrupts())
    assert (result.ending, result.counts["checks"]) == (Ending.INTERRUPTED, 3)
    assert result.in_flight == ()


def test_two_interrupts_stop_what_is_at_work(place: Place) -> None:
    result = place.look(interrupts=Interrupts(), times=2, hold=A)
    assert (result.ending, result.counts["checks"]) == (Ending.INTERRUPTED, 2)
    assert result.in_flight == ("h1/a: check",)
    assert place.records()[A].state == "up"
    record = place.store.last_run()
    assert record is not None
    assert (record.result, record.exit_code) == ("interrupted", 130)


def test_a_look_is_a_run(place: Place) -> None:
    place.world[A] = "down"
    result = place.look()
    record = place.store.last_run()
    assert record is not None
    assert (record.info.command, record.info.generation) == ("drift", 1)
    assert (record.result, record.exit_code, record.counts["drifted"]) == ("drift", 2, 1)
    events = list(place.store.events(result.run))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events == [dict(event) for event in place.events]
    assert (events[-1]["type"], events[-1]["result"]) == ("run.end", "drift")


def test_a_look_that_breaks_is_told_as_failed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_entries: object, **_again: bool) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(place.store, "write", fail)
    with pytest.raises(StoreError, match="no room"):
        place.look()
    record = place.store.last_run()
    assert record is not None
    assert record.result == "failed"


def test_a_look_waits_for_its_database(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write, tries = place.store.write, count(1)

    def away_at_first(entries: Sequence[Entry], *, again: bool = False) -> None:
        if next(tries) <= 2:
            raise StoreAwayError("it is away")
        write(entries, again=again)

    monkeypatch.setattr(place.store, "write", away_at_first)
    with pytest.raises(StoreAwayError):
        place.look(orders=Orders(store_timeout_s=0.0))
    tries = count(1)
    assert place.look().ending is Ending.OK


def test_a_simulation_is_not_taken_for_real_hosts(place: Place) -> None:
    with pytest.raises(UsageError, match="real hosts"):
        place.look(orders=Orders(executor="simulate"))


def test_a_look_leaves_the_answers_of_the_last_apply(place: Place) -> None:
    info = RunInfo(id="r", command="apply", started=1.0, user="ann", host="here", pid=1)
    place.store.begin_run(info)
    place.store.write([StateWritten(cob=A, state="down", reason="check", time=5.0)])
    wait = {"cob": A, "state": "down", "message": "it broke", "chain": []}
    place.store.end_run(RunRecord(info=info, result="failed", exit_code=1, waits=[wait], ended=6.0))
    place.world[A] = "down"
    before = why(load_site(place.root), place.store, A)
    assert (before.source, before.message) == ("run", "it broke")
    place.look()
    assert why(load_site(place.root), place.store, A) == before
