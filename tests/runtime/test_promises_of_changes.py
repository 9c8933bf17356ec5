"""Runs from one generation to the next keep P1 to P5, each host under the needs of its own."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.cli._graph_data import graph_data
from cobweb.inventory import load_site
from cobweb.store import open_store
from cobweb.testing.promises import check_promises
from tests.runtime.test_two_generations import applied, chained, changes
from tests.support.plain_promises import plain_check_promises
from tests.support.random_sites import Case

HOSTS = "abcd"


@st.composite
def rolling(draw: st.DrawFn) -> tuple[Case, Case]:
    """Draw two sites of two names on some of four hosts, one of them with a canary."""
    step = draw(st.sampled_from([{}, {"transition": "* -> *"}]))
    limit = {"on": "all", "cob": "r", "max": 2, "first": draw(st.integers(1, 2)), **step}
    return draw(rolled(limit)), draw(rolled(limit))


@st.composite
def rolled(draw: st.DrawFn, limit: dict[str, Any]) -> Case:
    """Draw one of the sites, and what fails in it."""
    some = st.lists(st.sampled_from(HOSTS), min_size=1, unique=True)
    groups: dict[str, Any] = {name: {"hosts": {host: {} for host in draw(some)}} for name in "rx"}
    cobs: dict[str, Any] = {name: {"type": "s", "on": f"on_{name}"} for name in "rx"}
    if groups["r"]["hosts"].keys() >= groups["x"]["hosts"].keys() and draw(st.booleans()):
        cobs["x"]["needs"] = [{"when": "up -> down", "cob": "r", "state": "down"}]
    for name in "rx":
        cobs[name]["spec"] = {"v": draw(st.integers(0, 2))}
    case = chained(cobs)
    inventory = {
        "hosts": {host: {} for host in HOSTS},
        "children": {f"on_{name}": group for name, group in groups.items()},
    }
    trouble = {
        "fail": draw(st.lists(st.sampled_from(["a/r", "b/r", "c/x"]), max_size=2, unique=True)),
        "unreachable": draw(st.lists(st.sampled_from(HOSTS), max_size=1)),
    }
    site = {**case.site, "inventory": {"all": inventory}, "limits": {"rolling": limit}}
    return replace(case, site=site, trouble=trouble)


@settings(max_examples=20)
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
