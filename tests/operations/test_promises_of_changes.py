"""Runs from one generation to the next keep P1 to P5, each host under the needs of its own."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.cli.graph import graph_data
from cobweb.engine import WaitKind
from cobweb.model import CobId
from cobweb.site import load_site
from cobweb.store import open_store
from cobweb.testing.promises import check_promises
from tests.operations.test_two_generations import applied, chained, changes
from tests.support.examples import examples
from tests.support.plain_promises import plain_check_promises
from tests.support.random_sites import Case

HOSTS = "abcd"


@st.composite
def rolling(draw: st.DrawFn) -> tuple[Case, Case]:
    """Draw two sites of two names on some of four hosts, one of them with a canary."""
    kinds: list[dict[str, Any]] = [{"transition": "* -> *"}, {"first": 1}, {"first": 2}]
    kind = draw(st.sampled_from(kinds))
    limit = {"on": "all", "cob": "r", "max": 2, **kind}
    return draw(rolled(limit)), draw(rolled(limit))


@st.composite
def rolled(draw: st.DrawFn, limit: dict[str, Any]) -> Case:
    """Draw one of the sites, and what fails in it."""
    some = st.lists(st.sampled_from(HOSTS), min_size=1, unique=True).map("".join)
    hosts = {"r": draw(some), "x": draw(some)}
    cobs: dict[str, Any] = {name: {"spec": {"v": draw(st.integers(0, 2))}} for name in hosts}
    if set(hosts["r"]) >= set(hosts["x"]) and draw(st.booleans()):
        cobs["x"]["needs"] = [{"when": "up -> down", "cob": "r", "state": "down"}]
    trouble = {
        "fail": draw(st.lists(st.sampled_from(["a/r", "b/r", "c/x"]), max_size=2, unique=True)),
        "unreachable": draw(st.lists(st.sampled_from(HOSTS), max_size=1)),
    }
    return replace(limited(limit, hosts, cobs), trouble=trouble)


def limited(limit: dict[str, Any], hosts: dict[str, str], cobs: dict[str, Any]) -> Case:
    """Return a site with a limit, and each object on hosts of its own."""
    case = chained({name: {"type": "s", "on": f"on_{name}", **cob} for name, cob in cobs.items()})
    inventory = {
        "hosts": {host: {} for host in HOSTS},
        "children": {f"on_{name}": {"hosts": {h: {} for h in on}} for name, on in hosts.items()},
    }
    return replace(
        case, site={**case.site, "inventory": {"all": inventory}, "limits": {"rolling": limit}}
    )


@pytest.mark.gate("P1 to P5 as a property over random changes")
@settings(max_examples=examples(20))
@given(st.one_of(changes(), rolling()))
def test_a_run_to_another_generation_keeps_the_promises(change: tuple[Case, Case]) -> None:
    """Whatever fails, in the run and in the one after it that goes on."""
    first, second = change
    with tempfile.TemporaryDirectory() as name, open_store("sqlite://", Path(name)) as store:
        applied(Path(name), store, first, "one")
        before = graph_data(load_site(Path(name)).graph(), {})
        for run, options in (("two", second.trouble), ("three", {})):
            _, _, events = applied(Path(name), store, second, run, **options)
            graph = graph_data(load_site(Path(name)).graph(), {})
            assert check_promises(events, graph, before=before) == []
            assert plain_check_promises(events, graph, before=before) == []


def test_a_canary_that_fails_holds_up_changes_and_removals(tmp_path: Path) -> None:
    """Also those of units that leave the site."""
    limit = {"on": "all", "cob": "r", "max": 2, "first": 1, "pause": "10s"}
    first = limited(limit, {"r": "abcd"}, {"r": {}})
    second = limited(limit, {"r": "cd"}, {"r": {"spec": {"v": 1}}})
    with open_store("sqlite://", tmp_path) as store:
        applied(tmp_path, store, first, "one")
        before = graph_data(load_site(tmp_path).graph(), {})
        plan, result, events = applied(tmp_path, store, second, "two", fail=["c/r"])
        assert {step.cob for step in plan.steps} == {"a/r", "b/r", "c/r", "d/r"}
        assert {e["cob"] for e in events if e["type"] == "transition.start"} == {"c/r"}
        assert not [event for event in events if event["type"] == "limit.pause"]
        why = {wait.cob: wait.chain for wait in result.waits}
        assert sorted(why) == ["a/r", "b/r", "c/r", "d/r"]
        assert why.pop(CobId("c/r"))[0].kind is WaitKind.FAILED
        assert {(chain[0].kind, chain[0].on) for chain in why.values()} == {(WaitKind.LIMIT, "c/r")}
        graph = graph_data(load_site(tmp_path).graph(), {})
        assert check_promises(events, graph, before=before) == []
        assert plain_check_promises(events, graph, before=before) == []
        _, last, _ = applied(tmp_path, store, second, "three")
        assert last.exit_code == 0
        assert set(store.states()) == {"c/r", "d/r"}


def test_a_limit_that_speaks_of_other_objects_now_is_full_by_one_of_those(tmp_path: Path) -> None:
    """Its members are those of both generations: what is gone waits for what cannot be reached."""
    limit = {"on": "all", "max": 1}
    first = limited({**limit, "cob": "r"}, {"r": "b", "x": "a"}, {"r": {}, "x": {}})
    second = limited({**limit, "cob": "x"}, {"x": "a"}, {"x": {}})
    with open_store("sqlite://", tmp_path) as store:
        applied(tmp_path, store, first, "one")
        before = graph_data(load_site(tmp_path).graph(), {})
        _, result, events = applied(tmp_path, store, second, "two", unreachable=["a"])
        why = {wait.cob: [(link.kind, link.on) for link in wait.chain] for wait in result.waits}
        assert why[CobId("b/r")] == [(WaitKind.LIMIT, "a/x"), (WaitKind.UNREACHABLE, None)]
        graph = graph_data(load_site(tmp_path).graph(), {})
        assert check_promises(events, graph, before=before) == []
        assert plain_check_promises(events, graph, before=before) == []
        _, last, _ = applied(tmp_path, store, second, "three")
        assert last.exit_code == 0


def test_a_slot_that_a_unit_has_for_another_is_kept(tmp_path: Path) -> None:
    """It has nothing to do itself; the slot was taken back and lent again for ever."""
    limit = {"on": "all", "max": 2}
    need = {"when": "* -> up", "cob": "x", "state": "down"}
    first = limited(limit, {"r": "a", "x": "b"}, {"r": {}, "x": {}})
    needs = [{**need, "on": "b"}]
    second = limited(
        limit, {"r": "a", "x": "b"}, {"r": {"spec": {"v": 1}, "needs": needs}, "x": {}}
    )
    with open_store("sqlite://", tmp_path) as store:
        applied(tmp_path, store, first, "one")
        _, result, _ = applied(tmp_path, store, second, "two")
        assert result.exit_code == 0, result.waits
