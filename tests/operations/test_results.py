"""What tasks hand back: kept per host, given to later jobs, filled into specs that wait for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import CobId, Job, JobKind, Outcome, Report
from cobweb.operations import (
    Caller,
    DriftResult,
    Ending,
    Interrupts,
    Orders,
    Plan,
    Refresh,
    RunResult,
    apply_site,
    desired_of,
    drift_site,
    plan_site,
)
from cobweb.plugin import Plugins, load_plugins
from cobweb.site import load_site
from cobweb.store import ResultsWritten, RunInfo, Store, open_store
from cobweb.testing import FakeExecutor

NODE, APP = CobId("n1/node"), CobId("n2/app")
TYPES = """
cobweb: 1
types:
  simple:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: work.yml}
    transitions:
      down -> up: {tasks: work.yml, attempts: 3}
      up -> down: {tasks: work.yml}
      outdated -> up: {tasks: work.yml}
      outdated -> down: {tasks: work.yml}
"""
INVENTORY = "inventory: {all: {hosts: {n1: , n2: }}}\n"
NODE_TEXT = "cobs:\n  node: {type: simple, on: n1}\n"
APP_TEXT = """
  app:
    type: simple
    on: n2
    spec:
      peer: "%{cobweb:result:n1:ip}"
      url: "http://%{cobweb:result:n1:ip}:80"
    after: [node@n1]
"""
FILLED = {"peer": "10.0.0.1", "url": "http://10.0.0.1:80"}
Answer = Callable[[Job], Report | None]


@dataclass
class Place:
    """A site on pretended hosts, whose states are `world`, and its state database."""

    root: Path
    store: Store
    plugins: Plugins = field(default_factory=load_plugins)
    world: dict[CobId, str] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)
    runs: int = 0
    say: Callable[[str], None] = lambda _text: None

    def write(self, text: str = NODE_TEXT + APP_TEXT, inventory: str = INVENTORY) -> None:
        (self.root / "site.yml").write_text(TYPES + inventory + text, encoding="utf-8")
        (self.root / "tasks").mkdir(exist_ok=True)
        (self.root / "tasks" / "work.yml").write_text("- debug:\n", encoding="utf-8")

    def keep(self, host: str, **results: Any) -> None:
        """Keep results, whatever they say, as if a type had opened all names."""
        self.store.write([ResultsWritten(host=host, results=results)])

    def apply(
        self, answer: Answer | None = None, *, interrupts: Interrupts | None = None, **orders: Any
    ) -> RunResult:
        _, loaded = self._fake(answer)
        desired = desired_of(load_site(self.root))
        info, caller = (
            self._info("apply"),
            Caller(interrupts=interrupts or Interrupts(), say=self.say),
        )
        return apply_site(desired, loaded, self.store, Orders(**orders), caller, info=info)

    def plan(self) -> Plan:
        return plan_site(desired_of(load_site(self.root)), self.plugins, self.store)

    def drift(self, answer: Answer | None = None) -> DriftResult:
        _, loaded = self._fake(answer)
        desired = desired_of(load_site(self.root))
        return drift_site(
            desired, loaded, self.store, Orders(), Caller(say=self.say), info=self._info("drift")
        )

    def job(self, cob: CobId, kind: JobKind = JobKind.TRANSITION) -> Job:
        """Return the last job of an object."""
        return [job for job in self.jobs if (job.cob, job.kind) == (cob, kind)][-1]

    def asked(self, cob: CobId) -> list[JobKind]:
        return [job.kind for job in self.jobs if job.cob == cob]

    def applied(self, cob: CobId) -> Mapping[str, Any] | None:
        return self.store.states()[cob].applied

    def _fake(self, answer: Answer | None) -> tuple[FakeExecutor, Plugins]:
        fake = FakeExecutor(states=self.world, answer=answer)
        fake.states, self.jobs = self.world, fake.jobs
        made: Any = lambda: fake  # noqa: E731  # stands for a class without arguments
        return fake, replace(self.plugins, executors={"ansible": made, "simulate": made})

    def _info(self, command: str) -> RunInfo:
        self.runs += 1
        run = f"{os.getpid()}-{self.runs}"
        return RunInfo(id=run, command=command, started=1.0, user="ann", host="here", pid=1)


def handing(cob: CobId, kind: JobKind = JobKind.TRANSITION, **results: Any) -> Answer:
    """Return answers in which the jobs of an object that end well hand something back."""

    def answer(job: Job) -> Report | None:
        if (job.cob, job.kind) != (cob, kind):
            return None
        state = "up" if kind is JobKind.CHECK else ""
        return Report(number=job.number, outcome=Outcome.OK, state=state, results=results)

    return answer


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Make a site on either database."""
    is_file = request.param == "sqlite"
    url = "sqlite:///state.db" if is_file else request.getfixturevalue("postgresql_url")()
    with open_store(url, tmp_path) as store:
        place = Place(root=tmp_path, store=store)
        place.write()
        yield place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Make a site."""
    with open_store("sqlite:///state.db", tmp_path) as store:
        place = Place(root=tmp_path, store=store)
        place.write()
        yield place


@pytest.mark.gate("by Ansible itself")
def test_what_one_job_hands_back_the_later_ones_have(either: Place) -> None:
    """Those of its host as `cob.results` and for their connection, all others where they ask."""
    results: dict[str, Any] = {
        "ip": "10.0.0.1",
        "ansible_host": "10.0.0.1",
        "disks": [1, {"a": None}],
    }
    assert either.apply(handing(NODE, **results)).ending is Ending.OK
    assert either.store.results() == {"n1": results}
    assert either.job(NODE).cob_vars["results"] == {}
    assert either.job(APP).cob_vars["spec"] == FILLED
    assert either.job(APP).cob_vars["results"] == either.job(APP).host_vars == {}
    assert either.applied(APP) == FILLED
    either.world[NODE] = "down"
    assert either.apply(refresh=Refresh.ALL).ending is Ending.OK
    for kind in (JobKind.CHECK, JobKind.TRANSITION):
        assert either.job(NODE, kind).cob_vars["results"] == results
        assert either.job(NODE, kind).host_vars == {"ansible_host": "10.0.0.1"}


def test_results_are_merged_by_key_and_null_deletes(either: Place) -> None:
    either.apply(handing(NODE, ip="10.0.0.1", id=7))
    either.world[NODE] = "down"
    either.apply(
        handing(NODE, JobKind.CHECK, ip="10.0.0.2", id=None, new=True), refresh=Refresh.ALL
    )
    assert either.store.results() == {"n1": {"ip": "10.0.0.2", "new": True}}


def test_the_same_results_are_not_written_again(place: Place) -> None:
    place.apply(handing(NODE, ip="10.0.0.1"))
    before = place.store.revision()
    place.apply(handing(NODE, JobKind.CHECK, ip="10.0.0.1"), refresh=Refresh.ALL)
    assert place.store.revision() == before


def test_nothing_is_checked_again_while_the_values_stay(place: Place) -> None:
    place.apply(handing(NODE, ip="10.0.0.1"))
    assert place.apply().ending is Ending.OK
    assert place.jobs == []
    assert place.plan().is_empty


def test_with_another_value_an_object_is_changed(place: Place) -> None:
    """The next run finds that, and plan and drift know of it."""
    place.apply(handing(NODE, ip="10.0.0.1"))
    place.apply(handing(NODE, JobKind.CHECK, ip="10.0.0.9"), refresh=Refresh.ALL)
    assert place.applied(APP) == FILLED
    (change,) = place.plan().changes
    assert (change.cob, change.kind) == (APP, "changed")
    assert change.lines[:2] == ('-peer: "10.0.0.1"', '+peer: "10.0.0.9"')
    drift = place.drift()
    assert [(it.cob, str(it.kind)) for it in drift.pending] == [(APP, "changed")]
    assert drift.ending is Ending.OK
    assert place.job(APP, JobKind.CHECK).cob_vars["spec"] == FILLED
    place.world[APP] = "outdated"
    assert place.apply().ending is Ending.OK
    assert place.asked(APP) == [JobKind.CHECK, JobKind.TRANSITION]
    assert place.job(APP).cob_vars["applied"] == FILLED
    assert place.applied(APP) == {"peer": "10.0.0.9", "url": "http://10.0.0.9:80"}
    assert place.plan().is_empty


def test_a_transition_that_lacks_a_value_fails_and_no_host_is_asked(place: Place) -> None:
    """When nothing else goes on; its check sees the token itself, and nothing is tried again."""
    result = place.apply()
    assert result.ending is Ending.FAILED
    assert result.messages[APP] == "n1 has no `ip` yet (a result of its tasks)"
    assert place.asked(APP) == [JobKind.CHECK, JobKind.CHECK]
    spec = place.job(APP, JobKind.CHECK).cob_vars["spec"]
    assert spec["peer"] == "%{cobweb:result:n1:ip}"


@pytest.mark.parametrize("parallel", [1, 10])
def test_a_transition_waits_for_a_value_that_is_on_its_way(place: Place, parallel: int) -> None:
    """Without a need, and without taking the place of the one that it waits for."""
    place.write(NODE_TEXT + APP_TEXT.replace("    after: [node@n1]\n", ""))
    assert place.apply(handing(NODE, ip="10.0.0.1"), parallel=parallel).ending is Ending.OK
    moved = [job.cob for job in place.jobs if job.kind is JobKind.TRANSITION]
    assert moved == [NODE, APP]
    assert place.applied(APP) == FILLED


def test_what_waits_for_each_others_values_fails_in_the_end(place: Place) -> None:
    text = "cobs:\n"
    for host, other in (("n1", "n2"), ("n2", "n1")):
        spec = f'{{peer: "%{{cobweb:result:{other}:ip}}"}}'
        text += f"  on-{host}: {{type: simple, on: {host}, spec: {spec}}}\n"
    place.write(text)
    result = place.apply()
    assert result.ending is Ending.FAILED
    assert result.messages == {
        CobId("n1/on-n1"): "n2 has no `ip` yet (a result of its tasks)",
        CobId("n2/on-n2"): "n1 has no `ip` yet (a result of its tasks)",
    }


def test_what_waits_for_a_value_is_dropped_with_an_interrupt(place: Place) -> None:
    """It has not begun, so nothing has failed."""
    place.write(NODE_TEXT + APP_TEXT.replace("    after: [node@n1]\n", ""))
    interrupts = Interrupts()

    def answer(job: Job) -> Report | None:
        if (job.cob, job.kind) == (NODE, JobKind.TRANSITION):
            interrupts()
        return None

    result = place.apply(answer, interrupts=interrupts)
    assert result.ending is Ending.INTERRUPTED
    assert result.messages == {}
    assert place.store.states()[APP].in_transition is None


def test_an_object_is_removed_although_a_value_is_gone(place: Place) -> None:
    """What was filled in when it was applied stands in for it."""
    place.apply(handing(NODE, ip="10.0.0.1"))
    place.apply(handing(NODE, JobKind.CHECK, ip=None), refresh=Refresh.ALL)
    place.write(NODE_TEXT)
    assert place.apply().ending is Ending.OK
    assert place.job(APP).dest == "down"
    assert place.job(APP).cob_vars["spec"] == FILLED
    assert APP not in place.store.states()


def test_what_was_never_applied_is_removed_with_its_tokens(place: Place) -> None:
    place.world[APP] = "outdated"
    place.apply()
    place.write(NODE_TEXT)
    assert place.apply().ending is Ending.OK
    assert place.job(APP).cob_vars["spec"]["peer"] == "%{cobweb:result:n1:ip}"


def test_results_go_with_the_last_object_of_a_host(place: Place) -> None:
    place.apply(handing(NODE, ip="10.0.0.1"))
    place.write("cobs:\n  other: {type: simple, on: n2}\n", INVENTORY.replace("n1: , ", ""))
    assert place.apply().ending is Ending.OK
    assert place.store.results() == {}


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"a b": 1}, "the key of a result is of letters, digits, `_`, `.` and `-`, not 'a b'"),
        ({"f": float("nan")}, "results are plain JSON data: Out of range float values"),
        ({"o": object()}, "results are plain JSON data: Object of type object is not JSON"),
        ({"s": [{"__ansible_vault": "x"}]}, "the result s is vaulted, and no secret is kept"),
        ({"x": "x" * 70_000}, "results of 70009 characters of JSON; a job may hand back 65536"),
        ([1], "results are a mapping of keys to values, not a list"),
    ],
    ids=["key", "nan", "object", "vaulted", "long", "list"],
)
def test_results_that_cannot_be_kept_fail_their_job(
    place: Place, results: Any, message: str
) -> None:
    def answer(job: Job) -> Report | None:
        if (job.cob, job.kind) != (NODE, JobKind.TRANSITION):
            return None
        return Report(number=job.number, outcome=Outcome.OK, results=results)

    result = place.apply(answer)
    assert result.ending is Ending.FAILED
    assert result.messages[NODE].startswith(message)
    assert place.store.results() == {}


def test_a_simulated_run_fills_nothing_in(place: Place) -> None:
    assert place.apply(executor="simulate").ending is Ending.OK
    assert place.job(APP).cob_vars["spec"]["peer"] == "%{cobweb:result:n1:ip}"


def test_drift_keeps_what_checks_hand_back(place: Place) -> None:
    place.apply(handing(NODE, ip="10.0.0.1"))
    assert place.drift(handing(NODE, JobKind.CHECK, load=3)).ending is Ending.OK
    assert place.store.results() == {"n1": {"ip": "10.0.0.1", "load": 3}}


def _create_and_die(root: str, url: str) -> None:
    """Fail with a result, and be killed while the second attempt is under way."""

    def answer(job: Job) -> Report | None:
        if (job.cob, job.kind) != (NODE, JobKind.TRANSITION):
            return None
        if job.attempt == 2:
            assert job.cob_vars["results"] == {"id": 7}
            os.kill(os.getpid(), signal.SIGKILL)
        return Report(number=job.number, outcome=Outcome.FAILED, message="no", results={"id": 7})

    with open_store(url, Path(root)) as store:
        Place(root=Path(root), store=store).apply(answer)


@pytest.mark.gate("kill -9 of a run in a process of its own")
def test_what_was_handed_back_outlives_a_kill(either: Place, tmp_path: Path) -> None:
    """The machine that a failed attempt has made is known to the next attempt, and the next run."""
    url = either.store._database.engine.url.render_as_string(hide_password=False)
    url = url if url.startswith("postgresql") else "sqlite:///state.db"
    child = multiprocessing.get_context("spawn").Process(
        target=_create_and_die, args=(str(tmp_path), url)
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    record = either.store.states()[NODE]
    assert record.in_transition == ("down", "up")
    assert (record.attempt, record.executor) == (2, "fake")
    assert either.store.results() == {"n1": {"id": 7}}
    assert either.apply(handing(NODE, ip="10.0.0.1")).ending is Ending.OK
    assert either.job(NODE).cob_vars["results"] == {"id": 7}
    assert either.store.states()[NODE].attempt == 1
    assert either.store.results() == {"n1": {"id": 7, "ip": "10.0.0.1"}}


ATTACKS: Mapping[str, Any] = {
    "ansible_ssh_common_args": '-o ProxyCommand="sh -c id"',
    "ansible_connection": "local",
    "ansible_become_method": "x",
    "ansible_python_interpreter": "sh",
    "ansible_host": "-oProxyCommand=id",
    "ansible_port": "22 -v",
    "ansible_user": "a;b",
}


@pytest.mark.parametrize("key", ATTACKS)
def test_a_host_that_says_how_it_is_reached_fails_and_is_named(place: Place, key: str) -> None:
    """Nothing of what it handed back is kept; what does not need it goes on."""
    place.write(NODE_TEXT + "  other: {type: simple, on: n2}\n")
    result = place.apply(handing(NODE, id="5", **{key: ATTACKS[key]}))
    assert result.ending is Ending.FAILED
    assert f"the result `{key}`" in result.messages[NODE]
    assert place.store.results() == {}
    assert place.store.states()[CobId("n2/other")].state == "up"


def test_a_type_opens_more_by_name(place: Place) -> None:
    opened = TYPES.replace("remove: down", "remove: down\n    connection: [ansible_timeout]")
    (place.root / "site.yml").write_text(opened + INVENTORY + NODE_TEXT, encoding="utf-8")
    place.apply(handing(NODE, ansible_timeout=30))
    assert place.store.results() == {"n1": {"ansible_timeout": 30}}
    place.drift()
    assert place.job(NODE, JobKind.CHECK).host_vars == {"ansible_timeout": 30}


@pytest.mark.parametrize("command", ["apply", "drift"])
def test_what_was_kept_before_is_taken_away_and_told(place: Place, command: str) -> None:
    place.write(NODE_TEXT)
    place.apply()
    place.keep("n1", **ATTACKS, id="5")
    said: list[str] = []
    place.say = said.append
    place.drift() if command == "drift" else place.apply(refresh=Refresh.ALL)
    assert place.job(NODE, JobKind.CHECK).host_vars == {}
    assert place.job(NODE, JobKind.CHECK).cob_vars["results"] == {"id": "5"}
    assert place.store.results() == {"n1": {"id": "5"}}
    (line,) = said
    assert line.startswith("n1: ")
    assert all(f"`{key}`" in line for key in ATTACKS)
