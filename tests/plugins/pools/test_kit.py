"""The kit for service adapters: the built-in ones pass, and each mistake is found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.model import CobType, Expansion, Job, Outcome, Report, Tasks, Transition
from cobweb.plugin import data_dir, load_plugins, type_file
from cobweb.testing import NamedCheck
from cobweb_plugins.pools._adapters import AdapterService, Membership
from cobweb_plugins.pools.kit import AdapterCase, adapter_checks, check_adapter

BUILT_IN = load_plugins().extensions_at("service_adapter")
FOLDER = Path(str(data_dir("playbooks"))) / "pools"
SETTINGS = {"folder": "/srv/pool"}
CASES = {
    "spare": AdapterCase(adapter=BUILT_IN["spare"]),
    "counter": AdapterCase(
        adapter=BUILT_IN["counter"],
        type=type_file(FOLDER / "pool-counter" / "type.yml"),
        settings=SETTINGS,
    ),
    "gridengine": AdapterCase(
        adapter=BUILT_IN["gridengine"],
        type=type_file(FOLDER / "pool-gridengine" / "type.yml"),
        entry_type=type_file(FOLDER / "pool-gridengine-entry" / "type.yml"),
        settings={"cell": "default"},
        host="master",
    ),
    "slurm": AdapterCase(
        adapter=BUILT_IN["slurm"],
        type=type_file(FOLDER / "pool-slurm" / "type.yml"),
        entry_type=type_file(FOLDER / "pool-slurm-entry" / "type.yml"),
        settings={"conf": "CPUs=8 Feature=big", "server": "control", "partition": "main"},
        host="control",
    ),
    "processes": AdapterCase(
        adapter=BUILT_IN["processes"],
        type=type_file(FOLDER / "pool-process" / "type.yml"),
        settings=SETTINGS,
    ),
}


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}-{check}")
        for name, case in CASES.items()
        for check in adapter_checks(case)
    ],
)
def test_built_in_adapters_conform(check: NamedCheck) -> None:
    check()


class _Good:
    """An adapter in Python that keeps what it promises."""

    point: ClassVar[str] = "service_adapter"
    name: ClassVar[str] = "good"
    holds: ClassVar[Sequence[str]] = ("host",)
    schema: ClassVar[Mapping[str, Any]] = {"additionalProperties": False}
    direct = False
    observe = Tasks(path="observe")
    observe_timeout_s = None

    def expand(self, _service: AdapterService, members: Sequence[Membership]) -> Expansion:
        return Expansion(cobs={it.name: self.cob(it) for it in members})

    def cob(self, it: Membership) -> Mapping[str, Any]:
        needs = [dict(need) for need in it.needs]
        return {"type": "member", "on": it.resource.id, "want": it.want, "needs": needs}

    def read(self, _service: AdapterService, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        return answer


class _HoldsNothing(_Good):
    holds: ClassVar[Sequence[str]] = ()


class _Misspelt(_Good):
    schema: ClassVar[Mapping[str, Any]] = {"type": "objekt"}


class _Restless(_Good):
    numbers = itertools.count()

    def cob(self, it: Membership) -> Mapping[str, Any]:
        return {**super().cob(it), "spec": {"number": next(self.numbers)}}


class _Wilful(_Good):
    def cob(self, it: Membership) -> Mapping[str, Any]:
        return {**super().cob(it), "want": "up"}


class _Careless(_Good):
    def cob(self, it: Membership) -> Mapping[str, Any]:
        return {**super().cob(it), "needs": []}


class _Trusting(_Good):
    def read(self, _service: AdapterService, _answer: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"state": "running"}


class _Member:
    """The type of members, as it should be."""

    name: ClassVar[str] = "member"
    states: ClassVar[Sequence[str]] = ("down", "draining", "up")
    serving: ClassVar[Sequence[str]] = ("draining", "up")
    steps: ClassVar[Sequence[str]] = ("down up", "up draining", "draining up", "draining down")

    def cob_type(self) -> CobType:
        return CobType(
            name=self.name,
            states=tuple(self.states),
            preferred="up",
            remove="down",
            check=Tasks(path="check"),
            transitions=tuple(
                Transition(source=source, dest=dest, action=Tasks(path=dest))
                for source, dest in map(str.split, self.steps)
            ),
            serving=tuple(self.serving),
        )


class _Outdated(_Member):
    states: ClassVar[Sequence[str]] = ("outdated", "down", "draining", "up")


class _Idler(_Member):
    serving: ClassVar[Sequence[str]] = ("up",)


class _Hasty(_Member):
    steps: ClassVar[Sequence[str]] = (*_Member.steps, "up down")


class _Master(_Good):
    """An adapter with entries, whose state is not that of their members."""

    of_draining: ClassVar[str] = "up"

    def expand(self, service: AdapterService, members: Sequence[Membership]) -> Expansion:
        wants = {it.entry: {**self.cob(it), "type": "entry"} for it in members}
        for entry in (it for it in wants.values() if it["want"] == "draining"):
            entry["want"] = self.of_draining
        return Expansion(cobs={**super().expand(service, members).cobs, **wants})


class _Draining(_Master):
    of_draining: ClassVar[str] = "draining"


class _Entry(_Member):
    """The type of entries that drain."""

    name: ClassVar[str] = "entry"
    steps: ClassVar[Sequence[str]] = (*_Member.steps, "up down")


class _Plain(_Member):
    name: ClassVar[str] = "entry"
    states: ClassVar[Sequence[str]] = ("down", "up")
    serving: ClassVar[Sequence[str]] = ("up",)
    steps: ClassVar[Sequence[str]] = ("down up", "up down")


class _OneWay(_Entry):
    steps: ClassVar[Sequence[str]] = ("down up", "up draining", "draining down")


def _failing(**case: Any) -> list[str]:
    failing = []
    for check in adapter_checks(AdapterCase(**{"adapter": _Good, "type": _Member, **case})):
        try:
            check()
        except Exception:  # noqa: BLE001 - also what is not said by the kit is a failure
            failing.append(str(check))
    return failing


def test_a_good_adapter_passes() -> None:
    assert _failing() == []
    check_adapter(AdapterCase(adapter=_Good, type=_Member))


@pytest.mark.parametrize("adapter", [_HoldsNothing, _Misspelt, _Restless, _Wilful, _Careless])
def test_the_kit_finds_members_that_are_not_what_pools_want(adapter: type[_Good]) -> None:
    assert _failing(adapter=adapter) == ["schema_and_members_are_sound"]


def test_the_kit_finds_settings_that_the_schema_refuses() -> None:
    assert _failing(settings={"folder": "/"}) == ["schema_and_members_are_sound"]


def test_the_kit_finds_a_service_that_runs_out_of_nothing() -> None:
    assert _failing(adapter=_Trusting) == ["a_broken_answer_is_none"]
    with pytest.raises(AssertionError, match="is a service that runs"):
        check_adapter(AdapterCase(adapter=_Trusting, type=_Member))


@pytest.mark.parametrize("member", [_Outdated, _Idler, _Hasty])
def test_the_kit_finds_members_that_do_not_drain(member: type[_Member]) -> None:
    assert _failing(type=member) == ["members_drain_before_they_go"]


@pytest.mark.parametrize(
    ("adapter", "entry", "failing"),
    [
        (_Master, _Plain, []),
        (_Draining, _Entry, []),
        (_Master, _Entry, ["schema_and_members_are_sound"]),
        (_Draining, _Plain, ["schema_and_members_are_sound"]),
        (_Draining, _OneWay, ["members_drain_before_they_go"]),
    ],
)
def test_the_kit_finds_entries_that_drain_without_their_type_or_not_with_it(
    adapter: type[_Good], entry: type[_Member], failing: list[str]
) -> None:
    assert _failing(adapter=adapter, entry_type=entry) == failing


# --- with an executor, which here is the service itself


class _Service:
    """A service with one member, and an executor that speaks to it."""

    def __init__(self) -> None:
        self.state, self.jobs, self.held, self.reports = "down", 0, 0, list[Report]()

    def submit(self, job: Job) -> None:
        assert isinstance(job.action, Tasks)
        said, results = "", {}
        match job.action.path:
            case "observe":
                results = self.observed()
            case "check":
                pass
            case "down" if self.jobs and self.keeps():
                said = "job 1 is at work"
            case dest:
                said = self.go(dest)
        outcome = Outcome.FAILED if said else Outcome.OK
        state = results.get("state", self.state)
        self.reports.append(
            Report(number=job.number, outcome=outcome, message=said, state=state, results=results)
        )

    def wait(self, _timeout_s: float | None) -> Sequence[Report]:
        found, self.reports = self.reports, []
        return found

    def observed(self) -> dict[str, Any]:
        members = {"n1": {"idle": not self.jobs, "jobs": self.jobs}} if self.state != "down" else {}
        return {"state": "running", "kpis": [self.pending()], "members": members}

    def pending(self) -> dict[str, Any]:
        return {"name": "pending", "value": 0}

    def keeps(self) -> bool:
        return True

    def go(self, dest: str) -> str:
        self.state = dest
        return ""

    @contextmanager
    def busy(self) -> Iterator[None]:
        self.jobs = 1
        yield
        self.jobs = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        self.held = 1
        yield
        self.held = 0


class _Once(_Service):
    def go(self, dest: str) -> str:
        return "it is there already" if dest == self.state else super().go(dest)


class _Lost(_Service):
    def observed(self) -> dict[str, Any]:
        return {**super().observed(), "members": {}}


class _Cruel(_Service):
    def keeps(self) -> bool:
        return False


class _Blind(_Service):
    def observed(self) -> dict[str, Any]:
        found = super().observed()
        return {**found, "members": {it: {"idle": True} for it in found["members"]}}


class _Greedy(_Service):
    def pending(self) -> dict[str, Any]:
        return {"name": "pending", "value": self.held}


@pytest.mark.parametrize(
    ("service", "failing"),
    [
        (_Service, []),
        (_Once, ["steps_may_be_done_twice", "no_job_is_left_behind"]),
        (_Lost, ["steps_may_be_done_twice", "no_job_is_left_behind"]),
        (_Cruel, ["no_job_is_left_behind"]),
        (_Blind, ["no_job_is_left_behind"]),
        (_Greedy, ["what_is_held_is_not_pending"]),
    ],
)
def test_the_kit_finds_a_service_that_does_what_pools_do_not_expect(
    service: type[_Service], failing: list[str]
) -> None:
    it = service()
    assert _failing(executor=it, busy=it.busy, hold=it.hold) == failing
