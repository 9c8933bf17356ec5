"""Whole sites with machines: applied, looked at, changed and removed; no host asked in vain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import CobId, Job, JobKind, Outcome, Report
from cobweb.operations import (
    Caller,
    DriftResult,
    Ending,
    Orders,
    RunResult,
    apply_site,
    desired_of,
    drift_site,
    plan_site,
    simulate_site,
    why,
)
from cobweb.plugin import Plugins, load_plugins
from cobweb.site import load_site
from cobweb.store import RunInfo, StateWritten, Store, open_store
from cobweb.testing import FakeExecutor

HEAD = """
cobweb: 1
types:
  node:
    states: [gone, made, ready]
    preferred: ready
    remove: gone
    check: {tasks: check.yml}
    transitions: {gone -> made: , made -> ready: , ready -> gone: , made -> gone: }
  service:
    states: [outdated, down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: , outdated -> down: , outdated -> up: }
"""
HOSTS = "inventory: {all: {hosts: {h1: , h2: }}}\n"
NODE = """
  node:
    type: node
    on: all
    needs:
      - {when: "* -> gone", cob: app, state: down}
"""
APP = """
  app:
    type: service
    on: all
    machine: node
    spec: {port: 1}
    needs:
      - {when: "down -> up", cob: node, state: ready}
"""
SITE = f"{HOSTS}cobs:{NODE}{APP}"
ALONE = f"{HOSTS}cobs:\n  node: {{type: node, on: all}}\n"
H1_APP, H1_NODE, H2_APP, H2_NODE = (
    CobId(cob) for cob in ("h1/app", "h1/node", "h2/app", "h2/node")
)


@dataclass
class Place:
    """A site on pretended hosts that answer only while their machines are there."""

    root: Path
    store: Store
    world: dict[str, str] = field(default_factory=dict)
    plugins: Plugins = field(default_factory=load_plugins)
    jobs: list[Job] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    in_vain: list[Job] = field(default_factory=list)
    silent: set[CobId] = field(default_factory=set)

    def write(self, text: str) -> None:
        (self.root / "site.yml").write_text(HEAD + text, encoding="utf-8")
        (self.root / "tasks").mkdir(exist_ok=True)
        (self.root / "tasks/check.yml").write_text("- debug:\n", encoding="utf-8")

    def lose(self, host: str) -> None:
        """Let a machine go, and all that is on it."""
        self.world = {it: at for it, at in self.world.items() if not it.startswith(f"{host}/")}

    def apply(self, **orders: Any) -> RunResult:
        with self._called("apply") as it:
            return apply_site(
                desired_of(load_site(self.root)), it[0], self.store, Orders(**orders), **it[1]
            )

    def look(self) -> DriftResult:
        site = load_site(self.root)
        with self._called("drift") as it:
            return drift_site(
                desired_of(site), it[0], self.store, Orders(), **it[1], ignores=site.ignores_drift
            )

    def planned(self) -> list[tuple[str, str, str]]:
        plan = plan_site(desired_of(load_site(self.root)), self.plugins, self.store)
        return [(it.cob, it.source, it.dest) for it in plan.steps]

    def checked(self) -> list[str]:
        return sorted(job.cob for job in self.jobs if job.kind is JobKind.CHECK)

    def _called(self, command: str) -> Any:
        fake = FakeExecutor(answer=self._answer)
        made: Any = lambda: fake  # noqa: E731  # stands for a class without arguments
        plugins = replace(self.plugins, executors={"ansible": made, "simulate": made})
        self.events.clear()
        self.jobs.clear()
        run = f"run-{len(self.store.runs())}"
        info = RunInfo(id=run, command=command, started=1.0, user="a", host="h", pid=1)
        return _Called(plugins, {"caller": Caller(sinks=[self._hear]), "info": info})

    def _hear(self, event: Any) -> None:
        self.events.append(dict(event))

    def _answer(self, job: Job) -> Report:
        self.jobs.append(job)
        node = f"{job.host}/node"
        if job.cob in self.silent:
            return Report(number=job.number, outcome=Outcome.FAILED, message="no credentials")
        if job.type_name == "service" and self.world.get(node) != "ready":
            self.in_vain.append(job)
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")
        if job.kind is JobKind.CHECK:
            default = "gone" if job.type_name == "node" else "down"
            state = self.world.get(job.cob, default)
            return Report(number=job.number, outcome=Outcome.OK, state=state)
        self.world[job.cob] = job.dest
        return Report(number=job.number, outcome=Outcome.OK)


@dataclass
class _Called:
    """Gives what a call needs, for a `with`."""

    plugins: Plugins
    words: dict[str, Any]

    def __enter__(self) -> tuple[Plugins, dict[str, Any]]:
        return self.plugins, self.words

    def __exit__(self, *_: object) -> None:
        return


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Place]:
    """Return a place with two machines to be made, and a service on each."""
    with open_store("sqlite:///state.db", tmp_path) as store:
        place = Place(root=tmp_path, store=store)
        place.write(SITE)
        yield place
        assert place.in_vain == []


@pytest.fixture
def place(empty: Place) -> Place:
    """Return it as it is after the first apply."""
    assert empty.apply().ending is Ending.OK
    assert set(empty.world.values()) == {"ready", "up"}
    return empty


def test_machines_are_made_before_anything_on_them_is_asked(empty: Place) -> None:
    assert empty.planned()[:2] == [("h1/node", "gone", "made"), ("h2/node", "gone", "made")]
    assert empty.apply().ending is Ending.OK
    assert empty.checked() == ["h1/node", "h2/node"]


def test_with_a_bound_on_silent_hosts_new_machines_count_for_nothing(empty: Place) -> None:
    assert empty.apply(max_unreachable=lambda _hosts: 0).ending is Ending.OK


def test_a_lost_machine_is_found_with_all_that_was_on_it(place: Place) -> None:
    place.lose("h1")
    result = place.look()
    assert [(it.cob, it.was, it.state, it.message) for it in result.drifted] == [
        ("h1/app", "up", "down", "its machine h1/node is gone"),
        ("h1/node", "ready", "gone", ""),
    ]
    assert place.checked() == ["h1/node", "h2/app", "h2/node"]
    assert result.counts["checks"] == 4
    steps = place.planned()
    assert place.apply().ending is Ending.OK
    assert place.checked() == []
    made = [(job.cob, job.source, job.dest) for job in place.jobs]
    assert (
        made
        == steps
        == [
            ("h1/node", "gone", "made"),
            ("h1/node", "made", "ready"),
            ("h1/app", "down", "up"),
        ]
    )
    assert place.look().ending is Ending.OK


def test_what_the_journal_knows_of_a_machine_is_enough(place: Place) -> None:
    """The journal says that the service is up; it may have been written before the machine went."""
    place.lose("h1")
    place.store.write([StateWritten(cob=H1_NODE, state="gone", reason="check", time=5.0)])
    assert why(load_site(place.root), place.store, H1_APP).source == "journal"
    assert [step[0] for step in place.planned()] == ["h1/node", "h1/node", "h1/app"]
    assert place.apply().ending is Ending.OK
    assert place.checked() == []
    told = [e for e in place.events if e.get("cob") == H1_APP and e["type"] == "cob.state"]
    assert [(e["state"], e["reason"]) for e in told[:1]] == [("down", "machine")]


def test_what_is_on_a_machine_that_nobody_can_look_at_is_not_looked_at(place: Place) -> None:
    place.silent.add(H1_NODE)
    result = place.look()
    assert {it.cob: it.message for it in result.unchecked} == {
        "h1/app": "its machine h1/node could not be looked at",
        "h1/node": "no credentials",
    }
    assert result.ending is Ending.FAILED
    assert place.checked() == ["h1/node", "h2/app", "h2/node"]
    assert place.store.states()[H1_APP].state == "up"


@pytest.mark.parametrize("state", ["gone", "ready"])
def test_a_machine_that_is_not_looked_at_is_as_the_journal_says(place: Place, state: str) -> None:
    place.write(f"drift: {{ignore: [node]}}\n{SITE}")
    if state == "gone":
        place.lose("h1")
    place.store.write([StateWritten(cob=H1_NODE, state=state, reason="check", time=5.0)])
    result = place.look()
    assert [it.cob for it in result.drifted] == (["h1/app"] if state == "gone" else [])
    assert place.checked() == ["h2/app"] if state == "gone" else ["h1/app", "h2/app"]


def test_what_was_on_a_lost_machine_is_removed_without_a_word(place: Place) -> None:
    place.lose("h1")
    place.write(ALONE)
    result = place.apply()
    assert result.ending is Ending.OK
    assert place.store.states().keys() == {H1_NODE, H2_NODE}
    assert [(job.cob, job.kind.value) for job in place.jobs if job.cob == H1_APP] == []
    moved = [(job.cob, job.dest) for job in place.jobs if job.kind is JobKind.TRANSITION]
    of_h1 = [dest for cob, dest in moved if cob == H1_NODE]
    assert (of_h1, sorted(moved)[-1:]) == (["made", "ready"], [("h2/app", "down")])


def test_a_machine_goes_after_all_that_is_on_it(place: Place) -> None:
    place.write("present: false\n" + SITE)
    assert place.apply().ending is Ending.OK
    moved = [(job.cob, job.dest) for job in place.jobs if job.kind is JobKind.TRANSITION]
    assert sorted(moved[:2]) == [("h1/app", "down"), ("h2/app", "down")]
    assert sorted(moved[2:]) == [("h1/node", "gone"), ("h2/node", "gone")]
    assert place.store.states() == {}


def test_a_new_machine_is_not_asked_for_while_others_are_removed(place: Place) -> None:
    """What a later act begins with is asked for before anything is removed, where it can be."""
    hosts = HOSTS.replace("h2: ", "h2: , h3: ")
    node, app = NODE.partition("    needs:")[0], APP.replace("on: all", "on: h2:h3")
    place.write(f"{hosts}cobs:{node}{app}")
    assert place.apply(max_unreachable=lambda _hosts: 0).ending is Ending.OK
    assert place.world["h3/app"] == "up"
    assert H1_APP not in place.store.states()


def test_a_change_of_a_machine_looks_at_it_first(place: Place) -> None:
    place.write(SITE.replace("type: node\n", "type: node\n    spec: {size: 2}\n"))
    assert place.apply().ending is Ending.OK
    order = [job.cob for job in place.jobs]
    assert order.index(H1_NODE) < order.index(H1_APP)
    assert order.index(H2_NODE) < order.index(H2_APP)


def test_a_simulated_site_makes_its_machines_too(place: Place) -> None:
    caller = Caller()
    started = {"defaults": {H1_NODE: "gone", H1_APP: "up", H2_NODE: "ready", H2_APP: "up"}}
    orders = Orders(executor="simulate", options=started)
    result = simulate_site(desired_of(load_site(place.root)), load_plugins(), orders, caller)
    assert result.ending is Ending.OK
    assert result.counts["checks"] == 3
    assert result.counts["transitions"] == 3


def test_the_last_certain_state_is_told_to_tasks(place: Place) -> None:
    """The source of what failed, also in a later run."""
    place.write(SITE.replace("port: 1", "port: 2"))
    place.silent.add(H1_APP)
    assert place.apply().ending is Ending.FAILED
    seen = [job.cob_vars["recorded"] for job in place.jobs if job.cob == H1_APP]
    assert set(seen) == {"up"}
    place.silent.clear()
    assert place.apply().ending is Ending.OK
    again = next(job for job in place.jobs if job.cob == H1_APP)
    assert (again.kind, again.cob_vars["state"], again.cob_vars["recorded"]) == (
        JobKind.CHECK,
        "unknown",
        "up",
    )


def test_a_look_tells_the_last_certain_state_as_well(place: Place) -> None:
    place.look()
    assert {job.cob_vars["recorded"] for job in place.jobs} == {"ready", "up"}


def test_nothing_is_recorded_of_what_is_new(empty: Place) -> None:
    empty.apply()
    first = next(job for job in empty.jobs if job.cob == H2_NODE)
    assert first.cob_vars["recorded"] is None
