"""Changes of sites under budgets: what goes out, who waits, and what is left for the next run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.engine import WaitKind
from cobweb.errors import StoreError
from cobweb.kernel._result import StuckError
from cobweb.kernel._sentences import chain_lines
from cobweb.model import CobId, Job, JobKind, Outcome, Report
from cobweb.operations import (
    Caller,
    Exceptions,
    Interrupts,
    Orders,
    Plan,
    RunResult,
    apply_site,
    desired_of,
    plan_site,
)
from cobweb.plugin import Plugins
from cobweb.site import load_site
from cobweb.store import CobRecord, RunInfo, Store, open_store
from cobweb_plugins.simulate import SimulateExecutor
from tests.operations.test_two_generations import plugins
from tests.support.examples import examples

HOSTS = "abcd"
WEB = {
    "states": ["outdated", "down", "broken", "up"],
    "preferred": "up",
    "remove": "down",
    "serving": ["up", "outdated"],
    "check": {"tasks": "check.yml"},
    "transitions": {
        "down -> up": {"tasks": "do.yml"},
        "up -> down": {"tasks": "do.yml"},
        "outdated -> down": {"tasks": "do.yml"},
        "broken -> down": {"tasks": "do.yml"},
    },
}
ONE = {"on": "all", "cob": "web*", "max": 1}
Event = dict[str, Any]


def info_of(run: str) -> RunInfo:
    return RunInfo(id=run, command="apply", started=1.0, user="u", host="h", pid=1)


class Dying:
    """A store that stands still at one write of the journal, as a killed process leaves it."""

    def __init__(self, store: Store, at: int) -> None:
        self._store, self.left = store, at

    def __getattr__(self, name: str) -> Any:
        if name == "end_run" and self.left <= 0:
            raise StoreError("it is dead")
        return getattr(self._store, name)

    def write(self, entries: Sequence[Any]) -> None:
        """Write, or die."""
        self.left -= 1
        if self.left <= 0:
            raise StoreError("it is dead")
        self._store.write(entries)


@dataclass
class Fleet:
    """Web servers on four hosts under a budget, and their journal."""

    folder: Path
    store: Store
    limit: dict[str, Any] = field(default_factory=lambda: dict(ONE))
    hosts: str = HOSTS
    plugins: Plugins = field(default_factory=plugins)
    runs: int = 0
    events: list[Event] = field(default_factory=list)

    def write(self, cobs: Mapping[str, Any], **types: Any) -> None:
        """Write the site."""
        site = {
            "cobweb": 1,
            "name": "fleet",
            "inventory": {"all": {"hosts": {host: {} for host in self.hosts}}},
            "types": {"web": WEB, **types},
            "cobs": {name: {"type": "web", "on": "all", **it} for name, it in cobs.items()},
            "limits": {"rolling": self.limit} if self.limit else {},
        }
        (self.folder / "site.yml").write_text(json.dumps(site), encoding="utf-8")
        for name in ("check.yml", "do.yml"):
            (self.folder / name).write_text("- debug:\n", encoding="utf-8")

    def plan(self, limit: str | None = None) -> Plan:
        return plan_site(desired_of(load_site(self.folder), limit), plugins(), self.store)

    def apply(
        self,
        *,
        limit: str | None = None,
        orders: Mapping[str, Any] | None = None,
        store: Any = None,
        stop_at: tuple[str, int] = ("", 0),
        **options: Any,
    ) -> RunResult:
        """Apply what was written; `stop_at` is the type and the number of an event to interrupt."""
        self.runs += 1
        self.events.clear()
        interrupts = Interrupts()

        def hear(event: Mapping[str, Any]) -> None:
            self.events.append(json.loads(json.dumps(event)))
            if (
                [it["type"] for it in self.events].count(stop_at[0])
                == stop_at[1]
                > interrupts.count
            ):
                interrupts()

        return apply_site(
            desired_of(load_site(self.folder), limit),
            self.plugins,
            store or self.store,
            Orders(executor="simulate", options=options, **{"parallel": 100, **(orders or {})}),
            Caller(sinks=[hear], interrupts=interrupts),
            info=info_of(f"run-{self.runs}"),
        )

    def moves(self) -> list[str]:
        """Return the transitions that began."""
        return [e["cob"] for e in self.events if e["type"] == "transition.start"]

    def gone_out(self) -> frozenset[CobId]:
        """Return what a step took from a state in which it served."""
        served = [cob for cob, it in self.before.items() if it.state in WEB["serving"]]
        return frozenset(
            CobId(event["cob"])
            for event in self.events
            if event["type"] == "transition.start"
            and event["from"] in WEB["serving"]
            and (event["cob"] in served or event["from"] == "up")
        )

    def most_out(self, already: Sequence[str] = ()) -> int:
        """Return how many hosts were out at most, of those that had a server that served."""
        serves = {cob for cob, it in self.before.items() if it.state in ("up", "outdated")}
        out, most = set(already), len(already)
        for event in self.events:
            host = event.get("cob", "").partition("/")[0]
            if event["type"] == "transition.start" and event["cob"] in serves:
                out.add(host)
            if event["type"] == "slot.return":
                out.discard(event["unit"])
            most = max(most, len(out))
        return most

    def settle(self) -> None:
        """Remember where all is, as what comes next begins with it."""
        self.before: Mapping[CobId, CobRecord] = self.store.states()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return four web servers that are up."""
    with open_store("sqlite:///state.db", tmp_path, create=True) as store:
        found = Fleet(tmp_path, store)
        found.write({"web": {"spec": {"v": 1}}})
        assert found.apply().exit_code == 0
        assert not [e for e in found.events if e["type"].startswith("slot.")]
        assert {it.served for it in store.states().values()} == {True}
        found.settle()
        yield found


def test_a_release_goes_through_one_after_the_other(fleet: Fleet) -> None:
    fleet.write({"web": {"spec": {"v": 2}}})
    plan = fleet.plan()
    assert set(plan.down_s) == {f"{host}/web" for host in HOSTS}
    assert fleet.apply().exit_code == 0
    assert fleet.most_out() == 1
    assert fleet.moves() == [f"{host}/web" for host in HOSTS for _ in range(2)]
    assert fleet.store.slots() == frozenset()
    assert fleet.plan().is_empty


@pytest.mark.parametrize("first", [0, 1])
def test_what_is_new_after_limited_servers_comes_when_all_are_new(fleet: Fleet, first: int) -> None:
    """A job that this release brings, on a host that no limit concerns; also in the next run."""
    fleet.limit = {"on": "all:!d", "cob": "web", "max": 1, **({"first": 1} if first else {})}
    servers = {"on": "all:!d"}
    fleet.write({"web": {**servers, "spec": {"v": 1}}})
    assert fleet.apply().exit_code == 0
    job = {"on": "d", "spec": {"v": 2}, "after": ["web@all:!d"]}
    fleet.write({"web": {**servers, "spec": {"v": 2}}, "job": job})
    assert [step.cob for step in fleet.plan().steps][-1] == "d/job"
    assert fleet.apply(stop_at=("slot.return", 1)).exit_code == 130
    assert "d/job" not in fleet.moves()
    assert fleet.apply(fail=["c/web"]).exit_code == 1
    assert "d/job" not in fleet.moves()
    assert fleet.apply().exit_code == 0
    assert fleet.moves()[-1] == "d/job"
    fleet.write({"web": {**servers, "spec": {"v": 3}}, "job": {**job, "spec": {"v": 3}}})
    assert fleet.apply().exit_code == 0
    assert fleet.moves()[-1] == "d/job"


def test_a_rename_without_was_removes_and_adds_host_by_host(fleet: Fleet) -> None:
    fleet.write({"web2": {"spec": {"v": 1}}})
    plan = fleet.plan()
    assert plan.counts == {"add": 4, "change": 0, "remove": 4}
    assert set(plan.down_s) == {f"{host}/web" for host in HOSTS}
    assert fleet.apply().exit_code == 0
    assert fleet.most_out() == 1
    assert fleet.moves() == [f"{host}/{name}" for host in HOSTS for name in ("web", "web2")]
    assert set(fleet.store.states()) == {f"{host}/web2" for host in HOSTS}
    assert fleet.store.slots() == frozenset()


def test_a_host_that_leaves_takes_its_turn_in_a_release(fleet: Fleet) -> None:
    fleet.hosts = "abd"
    fleet.write({"web": {"spec": {"v": 2}}})
    assert set(fleet.plan().down_s) == {f"{host}/web" for host in HOSTS}
    assert fleet.apply().exit_code == 0
    assert fleet.most_out() == 1
    assert set(fleet.store.states()) == {f"{host}/web" for host in "abd"}
    assert fleet.store.slots() == frozenset()


def rows(store: Store, but: str) -> dict[CobId, CobRecord]:
    return {cob: it for cob, it in store.states().items() if not cob.startswith(f"{but}/")}


@pytest.mark.parametrize("trouble", [{"fail": ["a/web"]}, {"unreachable": ["a"]}])
def test_a_canary_that_fails_leaves_the_rest_as_it_was(
    fleet: Fleet, trouble: dict[str, Any]
) -> None:
    fleet.limit = {**ONE, "max": 4, "first": 1}
    fleet.write({"web": {"spec": {"v": 1}}})
    assert fleet.apply().exit_code == 0
    fleet.settle()
    others, stood = rows(fleet.store, "a"), fleet.store.host_generations()
    fleet.write({"web": {"spec": {"v": 2}}})
    assert fleet.apply(**trouble).exit_code == 1
    assert {cob[0] for cob in fleet.moves()} <= {"a"}
    assert {**rows(fleet.store, "a")} == others
    now = fleet.store.host_generations()
    assert {host: now[host] for host in "bcd"} == {host: stood[host] for host in "bcd"}
    assert fleet.apply(**trouble).exit_code == 1
    assert {cob[0] for cob in fleet.moves()} <= {"a"}
    assert rows(fleet.store, "a") == others
    assert fleet.apply().exit_code == 0
    assert fleet.moves()[0] == "a/web"
    assert set(fleet.store.host_generations().values()) == {fleet.store.current_generation_id()}


CANARIED = {**ONE, "max": 4, "first": 1}
NOTE = {
    "states": ["a", "b"],
    "preferred": "b",
    "remove": "a",
    "check": {"tasks": "check.yml"},
    "transitions": {"a -> b": {"tasks": "do.yml"}, "b -> a": {"tasks": "do.yml"}},
}


def release(fleet: Fleet, version: int, **more: Any) -> None:
    """Write a version of the servers, and what is in the site besides."""
    fleet.write({"web": {"spec": {"v": version}}, **more}, note=NOTE)


def canaries(fleet: Fleet) -> list[tuple[str, bool]]:
    """Return who went first, and whether the others may follow, the last verdict first."""
    return [(" ".join(it.units), it.through) for it in fleet.store.canaries()]


def test_a_canary_is_one_of_those_that_the_run_may_move(fleet: Fleet) -> None:
    """Who tries a version on one host has a canary there: when it fails, no other gets it."""
    fleet.limit = CANARIED
    release(fleet, 1)
    assert fleet.apply().exit_code == 0
    release(fleet, 2)
    assert fleet.plan(limit="d").limits[0].canary == ("d",)
    assert fleet.apply(limit="d", fail=["d/web"]).exit_code == 1
    assert canaries(fleet) == [("d", False)]
    assert fleet.apply(fail=["d/web"]).exit_code == 1
    assert set(fleet.moves()) <= {"d/web"}
    assert fleet.apply().exit_code == 0
    assert fleet.moves()[0] == "d/web"


def test_a_canary_that_this_run_does_not_move_is_not_home(fleet: Fleet) -> None:
    """It has failed, or has its new content yet to come: nobody follows it there."""
    fleet.limit = CANARIED
    release(fleet, 1)
    assert fleet.apply().exit_code == 0
    release(fleet, 2)
    assert fleet.apply(fail=["a/web"]).exit_code == 1
    assert fleet.apply(limit="d").exit_code == 1
    assert fleet.moves() == []
    assert fleet.apply().exit_code == 0
    assert fleet.moves()[0] == "a/web"


def test_a_verdict_holds_for_a_later_generation_with_the_same_contents(fleet: Fleet) -> None:
    """What failed on one server is not tried on another one since somebody has edited a note."""
    fleet.limit = CANARIED
    release(fleet, 1)
    assert fleet.apply().exit_code == 0
    release(fleet, 2)
    broken: dict[str, Any] = {"fail": ["b/web"], "initial": {"b/web": "broken"}}
    assert fleet.apply(**broken).exit_code == 1
    for text in ("x", "y"):
        release(fleet, 2, note={"type": "note", "on": "d", "spec": {"text": text}})
        assert fleet.apply(**broken).exit_code == 1
        assert set(fleet.moves()) <= {"b/web", "d/note"}
        assert canaries(fleet) == [("b", False)]
    release(fleet, 3)
    assert fleet.apply(initial={"b/web": "broken"}).exit_code == 0
    assert fleet.moves()[0] == "b/web"
    assert canaries(fleet) == [("b", True), ("b", False)]
    release(fleet, 2)
    assert fleet.apply(fail=["b/web"]).exit_code == 1
    assert set(fleet.moves()) == {"b/web"}


def test_a_verdict_that_is_through_covers_what_it_was_about_alone(fleet: Fleet) -> None:
    """It lets the others follow later; what was not to be there then has a canary of its own."""
    fleet.limit = {**CANARIED, "max": 1}
    release(fleet, 1)
    assert fleet.apply().exit_code == 0
    release(fleet, 2)
    assert fleet.apply(stop_at=("slot.return", 1)).exit_code != 0
    assert canaries(fleet) == [("a", True)]
    assert fleet.plan().limits[0].canary == ()
    release(fleet, 2, web={"spec": {"v": "{{ '9' if inventory_hostname == 'c' else '2' }}"}})
    assert fleet.plan().limits[0].canary == ("b",)


def test_a_canary_that_was_chosen_anew_is_the_one_that_counts(fleet: Fleet) -> None:
    """Whoever failed before."""
    fleet.limit = CANARIED
    release(fleet, 1)
    assert fleet.apply().exit_code == 0
    release(fleet, 2)
    anew = {"exceptions": Exceptions(new_canary=True)}
    assert fleet.apply(fail=["a/web"]).exit_code == 1
    broken: dict[str, Any] = {"fail": ["a/web", "d/web"], "initial": {"d/web": "broken"}}
    assert fleet.apply(orders=anew, **broken).exit_code == 1
    assert canaries(fleet) == [("d", False), ("a", False)]
    assert fleet.apply(**broken).exit_code == 1
    assert set(fleet.moves()) <= {"a/web", "d/web"}
    assert fleet.apply(fail=["a/web"], initial={"d/web": "broken"}).exit_code == 1
    assert canaries(fleet)[0] == ("d", True)
    assert fleet.apply().exit_code == 0


FLAG = {
    "states": ["set", "clear"],
    "preferred": "clear",
    "remove": "clear",
    "serving": ["set", "clear"],
    "check": {"tasks": "check.yml"},
    "transitions": {"clear -> set": {"tasks": "do.yml"}, "set -> clear": {"tasks": "do.yml"}},
}
SET, CLEARED = "d/flag: clear -> set", "d/flag: set -> clear"


def flagged(fleet: Fleet, version: int) -> None:
    """Write a version of the servers whose limit holds a flag on the last host."""
    fleet.limit = {**ONE, "during": {"cob": "flag", "on": "d", "state": "set"}}
    fleet.write({"web": {"spec": {"v": version}}, "flag": {"type": "flag", "on": "d"}}, flag=FLAG)


def steps(fleet: Fleet) -> list[str]:
    """Return the transitions of the last run that began."""
    told = (it for it in fleet.events if it["type"] == "transition.start")
    return [f"{it['cob']}: {it['from']} -> {it['to']}" for it in told]


def test_a_flag_is_held_over_the_whole_rollout_as_the_plan_says(fleet: Fleet) -> None:
    flagged(fleet, 1)
    assert fleet.apply().exit_code == 0
    flagged(fleet, 2)
    plan = fleet.plan()
    shown = [f"{it.cob}: {it.source} -> {it.dest}" for it in plan.steps]
    assert (shown[0], shown[-1]) == (SET, CLEARED)
    assert CobId("d/flag") not in plan.down_s
    assert fleet.apply().exit_code == 0
    assert steps(fleet) == shown
    assert fleet.most_out() == 1


def test_a_flag_stays_while_a_server_is_out_and_it_is_said_for_which(fleet: Fleet) -> None:
    flagged(fleet, 1)
    assert fleet.apply().exit_code == 0
    flagged(fleet, 2)
    assert fleet.apply(stop_at=("transition.start", 2)).exit_code != 0
    (out,) = (cob for cob, it in fleet.store.states().items() if it.state == "down")
    assert fleet.store.states()[CobId("d/flag")].state == "set"
    result = fleet.apply(fail=[out])
    assert result.exit_code == 1
    lines = [line for wait in result.waits for line in chain_lines(wait)]
    assert f"d/flag is held set by a limit (rolling, during), until {out} is home" in lines
    assert not {SET, CLEARED} & set(steps(fleet))
    assert fleet.apply().exit_code == 0
    assert steps(fleet)[-1] == CLEARED


def test_nothing_goes_out_where_the_flag_is_outside_of_what_may_be_moved(fleet: Fleet) -> None:
    flagged(fleet, 1)
    assert fleet.apply().exit_code == 0
    flagged(fleet, 2)
    result = fleet.apply(limit="a")
    assert (result.exit_code, steps(fleet)) == (1, [])
    lines = [line for wait in result.waits for line in chain_lines(wait)]
    assert "a/web waits for d/flag to be set" in lines
    assert "d/flag is outside of what this run may move (--limit)" in lines


RESTARTED = {
    **WEB,
    "transitions": {
        "down -> up": {"tasks": "do.yml"},
        "up -> down": {"tasks": "do.yml"},
        "outdated -> up": {"tasks": "do.yml", "interrupts": True},
        "broken -> up": {"tasks": "do.yml"},
    },
}
"""A type whose step to new content takes it out, however it ends."""


def test_a_slot_is_owed_until_its_unit_is_home(fleet: Fleet) -> None:
    fleet.write({"web": {"spec": {"v": 2}}}, web=RESTARTED)
    assert fleet.apply(fail=["a/web"]).exit_code == 1
    assert fleet.store.slots() == {("rolling", "a")}
    assert fleet.moves() == ["a/web"]
    assert fleet.apply(limit="b", initial={"a/web": "broken"}).exit_code == 1
    assert fleet.moves() == []
    assert fleet.store.slots() == {("rolling", "a")}
    assert fleet.apply(initial={"a/web": "broken"}).exit_code == 0
    assert fleet.moves()[0] == "a/web"
    assert fleet.store.slots() == frozenset()


def test_going_back_begins_with_who_has_a_slot(fleet: Fleet) -> None:
    fleet.write({"web": {"spec": {"v": 2}}}, web=RESTARTED)
    assert fleet.apply(fail=["b/web"]).exit_code == 1
    assert fleet.store.slots() == {("rolling", "b")}
    fleet.settle()
    fleet.write({"web": {"spec": {"v": 1}}}, web=RESTARTED)
    assert fleet.apply(initial={"b/web": "broken"}).exit_code == 0
    assert fleet.moves()[0] == "b/web"
    assert fleet.most_out(["b"]) == 1
    assert fleet.store.slots() == frozenset()
    assert {it.state for it in fleet.store.states().values()} == {"up"}


@pytest.mark.parametrize("at", range(1, 20))
def test_a_run_goes_on_after_any_write_of_the_journal(fleet: Fleet, at: int) -> None:
    """Whoever was out when it died is the first one home, and nobody else goes out before."""
    fleet.write({"web": {"spec": {"v": 2}}})
    with pytest.raises(StoreError, match="dead"):
        fleet.apply(store=Dying(fleet.store, at))
    slots = fleet.store.slots()
    assert len(slots) <= 1
    fleet.settle()
    lost = [cob for cob, it in fleet.before.items() if it.in_transition or it.state == "down"]
    assert {("rolling", cob[0]) for cob in lost} <= slots
    plan = fleet.plan()
    turns = [unit for it in plan.limits for unit in it.units]
    assert set(turns) == {step.cob[0] for step in plan.steps}
    held = [unit for _, unit in slots if unit in turns]
    assert turns[: len(held)] == held
    initial = {cob: it.state for cob, it in fleet.before.items() if it.in_transition}
    assert fleet.apply(initial=initial).exit_code == 0
    assert fleet.most_out([unit for _, unit in slots]) <= 1
    if lost:
        assert fleet.moves()[0] == lost[0]
    assert fleet.store.slots() == frozenset()
    assert fleet.plan().is_empty


def test_what_is_wanted_down_takes_room_for_as_long(fleet: Fleet) -> None:
    """A bound is about what is left: one may be, and two only under a larger bound."""
    one, two = (
        {"web": {"spec": {"v": 1}, "want": "{{ 'down' if " + these + " else 'up' }}"}}
        for these in ("inventory_hostname == 'a'", "inventory_hostname in 'ab'")
    )
    fleet.write(one)
    assert fleet.apply().exit_code == 0
    assert fleet.moves() == ["a/web"]
    fleet.write(two)
    with pytest.raises(StuckError) as caught:
        fleet.apply()
    (wait,) = caught.value.waits
    assert chain_lines(wait) == [
        "b/web waits for room in a limit (rolling), taken by a/web",
        "a/web is wanted down and takes that room (--budget lends more)",
    ]
    fleet.limit = {**ONE, "max": 2}
    fleet.write(two)
    assert fleet.apply().exit_code == 0
    assert fleet.moves() == ["b/web"]


@pytest.mark.parametrize(
    ("stop_at", "out", "cause"),
    [
        (("transition.start", 1), 1, "a/web was not begun: the run was told to stop"),
        (("transition.end", 2), 0, "b/web was not begun: the run was told to stop"),
    ],
)
def test_of_a_run_that_was_stopped_it_is_said_that_it_was(
    fleet: Fleet, stop_at: tuple[str, int], out: int, cause: str
) -> None:
    """Nobody takes room for good who is at rest only since nothing new is begun."""
    fleet.write({"web": {"spec": {"v": 2}}})
    result = fleet.apply(stop_at=stop_at)
    assert (result.exit_code, result.out) == (130, out)
    wait = next(it for it in result.waits if it.cob == "b/web")
    assert chain_lines(wait)[-1] == cause
    assert not [line for it in result.waits for line in chain_lines(it) if "takes that" in line]


def test_what_has_never_served_is_not_out(fleet: Fleet) -> None:
    fleet.limit = {}
    fleet.write({"web": {"spec": {"v": 1}}, "new": {"spec": {"v": 1}}})
    result = fleet.apply(orders={"parallel": 1}, stop_at=("transition.start", 1))
    assert (result.exit_code, len(result.waits), result.out) == (130, 3, 0)
    fleet.write({"web": {"spec": {"v": 2}}, "new": {"spec": {"v": 1}, "requires": ["web"]}})
    result = fleet.apply(stop_at=("transition.start", 1))
    down = {wait.cob for wait in result.waits if wait.state == "down"}
    assert down == {"a/new", "b/new", "b/web", "c/new", "c/web", "d/new", "d/web"}
    assert result.out == 4, "three servers, and the one that is new and was up already"


CROSSED: dict[str, Any] = {
    "x": {"needs": [{"when": "outdated -> *", "cob": "y", "state": "broken"}]},
    "y": {},
}


def test_what_is_known_to_end_stuck_is_not_begun(fleet: Fleet) -> None:
    fleet.limit = {}
    fleet.write({**CROSSED, "web": {"spec": {"v": 1}}})
    assert fleet.apply(initial={"a/x": "down"}).exit_code == 0
    states, stood = fleet.store.states(), fleet.store.host_generations()
    current = fleet.store.current_generation_id()
    changed = {**CROSSED, "x": {**CROSSED["x"], "spec": {"v": 2}}, "web": {"spec": {"v": 2}}}
    fleet.write(changed)
    plan = fleet.plan()
    assert not plan.converges
    with pytest.raises(StuckError) as caught:
        fleet.apply()
    assert caught.value.exit_code == 4
    assert {wait.cob for wait in caught.value.waits} == {f"{host}/x" for host in HOSTS}
    assert fleet.events == []
    assert (fleet.store.states(), fleet.store.host_generations()) == (states, stood)
    assert fleet.store.current_generation_id() == current
    result = fleet.apply(orders={"allow_stuck": True})
    assert result.exit_code == 4
    assert set(fleet.moves()) == {f"{host}/web" for host in HOSTS}
    assert {wait.cob for wait in result.waits} == {f"{host}/x" for host in HOSTS}


def test_what_no_plan_named_does_not_go_out(fleet: Fleet) -> None:
    fleet.write({"web": {"spec": {"v": 2}}})
    result = fleet.apply(orders={"may_go_out": frozenset({CobId("a/web")})})
    assert result.exit_code == 1
    assert result.has_unplanned
    assert set(fleet.moves()) == {"a/web"}
    assert {fleet.store.states()[CobId(f"{host}/web")].state for host in "bcd"} <= {
        "up",
        "outdated",
    }
    assert fleet.apply().exit_code == 0


class Losing(SimulateExecutor):
    """Loses host `b` when something is to move there."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs: dict[int, Job] = {}
        self._is_lost = False

    def submit(self, job: Job) -> None:
        """Take a job, perhaps the one that never ends."""
        self._jobs[job.number] = job
        self._is_lost = self._is_lost or (job.host == "b" and job.kind is JobKind.TRANSITION)
        super().submit(job)

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Wait; what ends on the lost host is not heard of."""
        return [self._heard(report) for report in super().wait(timeout_s)]

    def _heard(self, report: Report) -> Report:
        if self._is_lost and self._jobs[report.number].host == "b":
            return Report(number=report.number, outcome=Outcome.UNREACHABLE, message="no route")
        return report


def test_what_was_stopped_for_a_lost_host_comes_home(fleet: Fleet) -> None:
    """A new configuration stops two servers; the host of one is lost when the other has stopped."""
    fleet.limit = {}
    needs = [
        {"when": "outdated -> *", "cob": "app", "on": host, "state": "down"} for host in ("b", "c")
    ]
    tiers: dict[str, Any] = {"cfg": {"on": "a", "needs": needs}, "app": {"on": "b:c"}}
    fleet.write(tiers)
    assert fleet.apply().exit_code == 0
    fleet.write({**tiers, "cfg": {**tiers["cfg"], "spec": {"v": 2}}})
    fleet.plugins = replace(plugins(), executors={"simulate": Losing})
    result = fleet.apply()
    assert result.exit_code == 1
    assert fleet.moves() == ["b/app", "c/app", "c/app"]
    states = {cob: it.state for cob, it in fleet.store.states().items()}
    assert (states[CobId("c/app")], states[CobId("a/cfg")]) == ("up", "outdated")
    why = {wait.cob: wait.chain[-1] for wait in result.waits}
    assert why[CobId("a/cfg")].kind is WaitKind.UNREACHABLE


@st.composite
def sites(draw: st.DrawFn) -> dict[str, Any]:
    """Draw two names on some of four hosts, how one needs the other, and a budget."""
    some = st.lists(st.sampled_from(HOSTS), min_size=1, unique=True).map(",".join)
    word = draw(st.sampled_from(["", "requires", "binds", "stops"]))
    x_on = draw(some)
    cobs: dict[str, Any] = {
        "r": {"on": "all" if word else draw(some), "spec": {"v": draw(st.integers(0, 1))}},
        "x": {
            "on": x_on,
            "spec": {"v": draw(st.integers(0, 1))},
            **({word: ["r"]} if word else {}),
        },
    }
    if draw(st.booleans()):
        cobs.pop(draw(st.sampled_from(sorted(cobs) if not word else ["x"])))
    bounds: list[dict[str, Any]] = [{}, {"max": 1}, {"max": 2}, {"max": "50%", "first": 1}]
    limit = draw(st.sampled_from(bounds))
    name = draw(st.sampled_from([*cobs, "*"]))
    return {"cobs": cobs, "limit": {"on": "all", "cob": name, **limit} if limit else {}}


@pytest.mark.gate("P8 as a property over random sites")
@pytest.mark.timeout(300)
@settings(max_examples=examples(15))
@given(sites(), sites(), st.dictionaries(st.sampled_from(["r", "x"]), st.integers(0, 5)))
def test_what_goes_out_is_what_the_plan_named(
    first: dict[str, Any], second: dict[str, Any], durations: dict[str, int]
) -> None:
    """P8: where nothing fails and checks find what the plan believed."""
    with tempfile.TemporaryDirectory() as name, open_store("sqlite://", Path(name)) as store:
        fleet = Fleet(Path(name), store)
        for site in (first, second):
            fleet.limit = site["limit"]
            fleet.write(site["cobs"])
            fleet.settle()
            plan = fleet.plan()
            assert plan.converges, plan.waits
            assert fleet.apply(durations=durations).exit_code == 0
            assert fleet.gone_out() == plan.goes_out
            assert fleet.store.slots() == frozenset()
        assert fleet.plan().is_empty
