"""Going back is the same run as if the old files were applied, and gives the same generation."""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings

from cobweb.engine import analyse
from cobweb.errors import GenerationError, UsageError
from cobweb.model import Graph
from cobweb.operations import (
    Caller,
    Desired,
    Orders,
    apply_site,
    desired_again,
    desired_of,
    original_of,
    plan_site,
    to_go_back_to,
)
from cobweb.site import load_site
from cobweb.store import RunInfo, Store, open_store
from tests.operations.test_two_generations import changes, plugins
from tests.support.examples import examples
from tests.support.random_sites import Case

Event = dict[str, Any]


def write(folder: Path, case: Case) -> None:
    (folder / "site.yml").write_text(json.dumps(case.site), encoding="utf-8")
    for name in ("check.yml", "do.yml"):
        (folder / name).write_text("- debug:\n", encoding="utf-8")


def run(
    store: Store, desired: Desired, name: str, *, command: str = "apply", **options: Any
) -> list[Event]:
    """Apply what is desired by a simulation, and return the events."""
    told: list[Event] = []
    info = RunInfo(id=name, command=command, started=1.0, user="u", host="h", pid=1)
    orders = Orders(executor="simulate", parallel=1000, options=options, allow_stuck=True)
    apply_site(desired, plugins(), store, orders, Caller(sinks=[told.append]), info=info)
    return [json.loads(json.dumps(event)) for event in told]


def third_run(change: tuple[Case, Case], *, back: bool) -> tuple[list[Event], list[str]]:
    """Apply two sites one after the other, then the first again; return events and digests.

    The plan comes first, with the places in files that its proofs name.
    """
    first, second = change
    with tempfile.TemporaryDirectory() as name, open_store("sqlite://", Path(name)) as store:
        folder = Path(name)
        for case, options in ((first, {}), (second, second.trouble)):
            write(folder, case)
            run(store, desired_of(load_site(folder)), f"of {case is second}", **options)
        if back:
            desired = desired_again(load_site(folder), plugins(), store, 1)
        else:
            write(folder, first)
            desired = desired_of(load_site(folder))
        plan = plan_site(desired, plugins(), store)
        events = run(store, desired, "third")
        return [plan.as_data(), *events], [info.digest for info in store.generations()]


@pytest.mark.gate("a property over random changes")
@settings(max_examples=examples(25))
@given(changes())
def test_to_go_back_is_to_apply_what_was(change: tuple[Case, Case]) -> None:
    if analyse(change[0].graph):
        with pytest.raises(GenerationError):
            third_run(change, back=True)
        event("refused")
        return
    told, digests = third_run(change, back=True)
    anew, same = third_run(change, back=False)
    assert (told, digests) == ([without_places(anew[0]), *anew[1:]], same)
    assert digests[0] == digests[-1]


def without_places(plan: Event) -> Event:
    """Return a plan as one that goes back has it: a generation keeps no places in its files."""
    proofs = [re.sub(r" \(site\.yml:[0-9:]+\)$", "", line) for line in plan["proofs"]]
    return {**plan, "proofs": proofs}


def test_a_plan_back_that_has_no_order_proves_it_with_the_same_needs() -> None:
    """Its files may be others by now, so it is not said where in them a need stands."""
    sites = [site_of(number) for number in (1, 2)]
    for site in sites:
        site["cobs"]["b"] = {"type": "t", "on": "h"}
        site["cobs"]["a"]["needs"] = [{"when": "outdated -> up", "cob": "b", "state": "down"}]
    first, second = (
        Case(site=site, graph=Graph(cobs={}), initial={}, trouble={}, orders={}) for site in sites
    )
    told, _ = third_run((first, second), back=True)
    anew, _ = third_run((first, second), back=False)
    assert told[0]["proofs"][1:] == ["  (h/a, outdated -> up) <- (h/b, down)"]
    assert anew[0]["proofs"] != told[0]["proofs"]
    assert [without_places(anew[0]), *anew[1:]] == told


def test_what_the_history_says_of_going_back(tmp_path: Path) -> None:
    with open_store("sqlite://", tmp_path) as store:
        assert original_of(store) == (0, 0)
        with pytest.raises(UsageError, match="no earlier generation"):
            to_go_back_to(store)
        cases = [site_of(number) for number in (1, 2, 3)]
        for number, site in enumerate(cases, start=1):
            (tmp_path / "site.yml").write_text(json.dumps(site), encoding="utf-8")
            (tmp_path / "check.yml").write_text("- debug:\n", encoding="utf-8")
            trouble: dict[str, Any] = {"fail": ["h/a"]} if number == 3 else {}
            with suppress(UsageError):
                run(store, desired_of(load_site(tmp_path)), str(number), **trouble)
        assert original_of(store) == (3, 0)
        assert to_go_back_to(store) == to_go_back_to(store, after_failure=True) == 2
        back = desired_again(load_site(tmp_path), plugins(), store, 2)
        run(store, back, "back", command="rollback")
        assert original_of(store) == (4, 2)
        assert to_go_back_to(store) == 1
        with pytest.raises(UsageError, match="generation 4 was reached before"):
            to_go_back_to(store, after_failure=True)


def site_of(number: int) -> dict[str, Any]:
    steps = {"down -> up": {"tasks": "check.yml"}, "outdated -> up": {"tasks": "check.yml"}}
    kind = {
        "states": ["outdated", "down", "up"],
        "preferred": "up",
        "remove": "down",
        "check": {"tasks": "check.yml"},
        "transitions": steps,
    }
    return {
        "cobweb": 1,
        "inventory": {"all": {"hosts": {"h": {}}}},
        "types": {"t": kind},
        "cobs": {"a": {"type": "t", "on": "h", "spec": {"n": number}}},
    }
