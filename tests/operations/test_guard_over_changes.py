"""What stops a run stops it as a whole: removals wait for all hosts that are asked to answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cobweb.operations import Caller, Orders, RunResult, apply_site, desired_of
from cobweb.plugin import Plugins, load_plugins
from cobweb.site import load_site
from cobweb.store import RunInfo, Store, open_store

HOSTS = tuple("abcdef")
TYPE = {
    "states": ["outdated", "down", "up"],
    "preferred": "up",
    "remove": "down",
    "check": {"tasks": "check.yml"},
    "transitions": {
        "down -> up": {"tasks": "do.yml"},
        "up -> down": {"tasks": "do.yml"},
        "outdated -> up": {"tasks": "do.yml"},
    },
}
OLD = {"gone": "a:b", "app": "all"}
NEW = {"app": "all", "more": "all:!a"}


@cache
def plugins() -> Plugins:
    """Return the installed plugins; loading them takes a while."""
    return load_plugins()


class Cluster:
    """A site whose objects the test names, and its state database."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store, self.runs = folder, store, 0
        self.needs: dict[str, Any] = {}
        for name in ("check.yml", "do.yml"):
            (folder / name).write_text("- debug:\n", encoding="utf-8")

    def apply(
        self,
        cobs: Mapping[str, str],
        *,
        hosts: Sequence[str] = HOSTS,
        orders: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> tuple[RunResult, list[dict[str, Any]]]:
        """Apply objects by the patterns of their hosts, and return the events as well."""
        site = {
            "cobweb": 1,
            "name": "six",
            "inventory": {"all": {"hosts": {host: {} for host in hosts}}},
            "types": {"simple": TYPE},
            "cobs": {
                name: {"type": "simple", "on": on, "needs": self.needs.get(name, [])}
                for name, on in cobs.items()
            },
        }
        (self.folder / "site.yml").write_text(json.dumps(site), encoding="utf-8")
        self.runs += 1
        told: list[dict[str, Any]] = []
        info = RunInfo(
            id=f"run-{self.runs}", command="apply", started=1.0, user="u", host="h", pid=1
        )
        result = apply_site(
            desired_of(load_site(self.folder)),
            plugins(),
            self.store,
            Orders(executor="simulate", options=options, **(orders or {})),
            Caller(sinks=[told.append]),
            info=info,
        )
        return result, told


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster of six hosts on which the old objects are up."""
    with open_store("sqlite:///state.db", tmp_path, create=True) as store:
        found = Cluster(tmp_path, store)
        assert found.apply(OLD)[0].exit_code == 0
        yield found


def begun(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["cob"] for event in events if event["type"] == "transition.start"]


GUARD = {"max_unreachable": lambda _total: 2}


def test_removals_wait_for_hosts_that_only_the_new_site_asks(cluster: Cluster) -> None:
    result, events = cluster.apply(NEW, orders=GUARD, unreachable=["c", "d", "e"])
    assert begun(events) == []
    assert result.stopped.startswith("3 of 6 hosts cannot be reached (c, d, e)")
    assert result.stopped.endswith("nothing was changed")
    assert result.exit_code == 1
    (switch,) = [event for event in events if event["type"] == "generation.switch"]
    assert switch["hosts"] == ["c", "d", "e", "f"]  # of which nothing is removed
    assert cluster.store.states().keys() >= {"a/gone", "b/gone"}
    again, events = cluster.apply(NEW, orders=GUARD)
    assert again.exit_code == 0
    assert set(begun(events)) == {"a/gone", "b/gone", *(f"{host}/more" for host in "bcdef")}


def test_as_many_hosts_as_may_be_are_lost_without_harm(cluster: Cluster) -> None:
    result, events = cluster.apply(NEW, orders=GUARD, unreachable=["c", "d"])
    assert result.stopped == ""
    assert set(begun(events)) == {"a/gone", "b/gone", "b/more", "e/more", "f/more"}
    assert {wait.cob for wait in result.waits} == {"c/more", "d/more"}


def test_new_hosts_are_asked_as_well(cluster: Cluster) -> None:
    more = [*HOSTS, "g", "h", "i"]
    result, events = cluster.apply(
        {"app": "all"}, hosts=more, orders=GUARD, unreachable=["g", "h", "i"]
    )
    assert begun(events) == []
    assert result.stopped.startswith("3 of 9 hosts cannot be reached (g, h, i)")


def test_hosts_of_removals_and_of_what_is_new_count_together(cluster: Cluster) -> None:
    """One host is lost by a removal, two by checks of new objects."""
    result, events = cluster.apply(NEW, orders=GUARD, unreachable=["a", "c", "d"])
    assert "(a, c, d)" in result.stopped
    assert [cob for cob in begun(events) if not cob.endswith("/gone")] == []


def test_what_an_asking_check_finds_is_not_believed(cluster: Cluster) -> None:
    """What is new on a host that has to switch is checked when it has.

    What is to be removed is checked as well, which is asking enough.
    """
    result, events = cluster.apply(NEW, orders=GUARD)
    assert result.exit_code == 0
    (switch,) = [e["seq"] for e in events if e.get("hosts") == ["b"]]
    states = [event["seq"] for event in events if event.get("cob") == "b/more"]
    assert min(states) > switch
    assert result.counts["checks"] == 2 + 5


def test_without_a_removal_no_check_is_doubled(cluster: Cluster) -> None:
    result, _ = cluster.apply({**OLD, "more": "all"}, orders=GUARD)
    assert result.counts["checks"] == 6


def test_what_a_removal_finds_on_a_host_that_was_lost_is_removed_too(tmp_path: Path) -> None:
    """`b/gone` was never looked at, and `a/gone` needs it down; then both are gone."""
    needs = [{"when": "up -> down", "cob": "gone", "on": "b", "state": "down"}]
    with open_store("sqlite:///state.db", tmp_path, create=True) as store:
        cluster = Cluster(tmp_path, store)
        cluster.needs = {"gone": needs}
        cluster.apply({"gone": "a:b", "app": "a"}, unreachable=["b"])
        assert "b/gone" not in store.states()
        cluster.needs = {}
        result, events = cluster.apply({"app": "a"}, initial={"b/gone": "up"})
        assert begun(events) == ["b/gone", "a/gone"]
        assert result.exit_code == 0
        assert store.states().keys() == {"a/app"}


def test_failures_of_removals_and_of_what_is_new_count_together(cluster: Cluster) -> None:
    orders = {"max_failures": lambda _total: 0}
    result, events = cluster.apply(NEW, orders=orders, fail=["a/gone"])
    assert result.exit_code == 1
    assert result.stopped == "1 failed, more than may"
    begun_after = {e["cob"] for e in events if e["type"] == "transition.start" and e["time"] > 1.0}
    assert begun_after == set()
    assert {wait.cob for wait in result.waits} >= {"a/gone", "b/more"}


def test_a_share_of_failures_counts_removed_objects_too(cluster: Cluster) -> None:
    totals: list[int] = []

    def bound(total: int) -> int:
        totals.append(total)
        return total

    cluster.apply(NEW, orders={"max_failures": bound})
    assert totals == [13]
