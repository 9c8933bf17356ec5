"""Whatever has happened to a site: after `cobweb gc` it is known, told and planned as before.

Random histories are made by real runs: applies that fail, are interrupted or change a part only,
rollbacks, drift, and journals that end in the middle. Of each as much is deleted as ever may be.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cobweb.api import Site
from cobweb.cli import main
from cobweb.errors import CobwebError, UsageError
from cobweb.model import CobId
from cobweb.operations import (
    Caller,
    Garbage,
    Interrupts,
    Orders,
    Retention,
    original_of,
    takes_rollback_back,
    to_go_back_to,
    why,
)
from cobweb.operations.drift._drift_check import drifted_of
from cobweb.store import (
    CanaryWritten,
    Entry,
    HostGivenUp,
    HostLost,
    RunInfo,
    SlotWritten,
    StateWritten,
    Store,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
)
from tests.cli.conftest import TYPE
from tests.support.examples import examples

HOSTS = ("alpha", "beta", "gamma")
COBS = [CobId(f"{host}/{name}") for host in HOSTS for name in ("a", "b")]
LEAST = Retention(generations=1, runs=1)


@dataclass
class Place:
    """A site, what its file says, and its clock."""

    folder: Path
    hosts: frozenset[str] = frozenset(HOSTS)
    names: frozenset[str] = frozenset("ab")
    port: int = 1
    state: str = ""
    times: Iterator[int] = field(default_factory=lambda: count(1))

    def write(self) -> None:
        """Write the file of the site."""
        hosts = ", ".join(f"{host}: {{}}" for host in sorted(self.hosts))
        spec = f"spec: {{port: {self.port}}}"
        cobs = {
            "a": f"  a: {{type: simple, on: all, {spec}}}\n",
            "b": f"  b: {{type: simple, on: all, {spec}, requires: [a]}}\n",
            "": "  c: {type: simple, on: alpha}\n",
        }
        chosen = "".join(cobs[name] for name in sorted({"", *self.names}))
        limit = "limits:\n  rolling: {on: all, cob: a, max: 1, first: 1}\n"
        head = f"cobweb: 1\nname: s\ninventory:\n  all: {{hosts: {{{hosts}}}}}\n{self.state}"
        text = head + TYPE + (limit if "a" in self.names else "") + "cobs:\n" + chosen
        (self.folder / "site.yml").write_text(text, encoding="utf-8")

    def collect(self) -> Garbage:
        """Delete as much as may be, and see that nothing is known otherwise."""
        before = facts(self.folder)
        with Site(self.folder, no_cache=True) as site:
            garbage = site.gc(LEAST)
            assert site.gc(LEAST, dry_run=True) == Garbage(generations=(), runs=())
            for run in garbage.runs:
                assert not list(site.store().events(run.info.id))
        assert facts(self.folder) == before
        return garbage


def facts(folder: Path) -> dict[str, Any]:
    """Return all that is known of a site, and what people are told of it."""
    with Site(folder, no_cache=True) as site:
        store = site.store()
        last = store.last_run()
        asked = (store.states, store.lost_hosts, store.locks, store.results, store.slots)
        more = (store.renames, store.given_up, store.host_generations, store.revision)
        return {
            "known": [ask() for ask in (*asked, *more, store.current_generation)],
            "canaries": store.canaries(),
            "runs": (last, store.last_run(but="drift")),
            "events": [] if last is None else list(store.events(last.info.id)),
            "unfinished": [it for it in store.runs(None) if it.ended is None],
            "drifted": drifted_of(store, store.states().values(), site.graph()),
            "original": original_of(store),
            "back": back(store),
            "why": [reason(site, store, cob) for cob in COBS],
            "status": said(folder, "status", "-o", "json"),
            "plan": said(folder, "plan", "-o", "json"),
            "told": said(folder, "plan", "--diff"),
        }


def back(store: Store) -> Any:
    """Return where a rollback goes, and what it says of that."""
    try:
        chosen = to_go_back_to(store)
    except UsageError as error:
        return str(error)
    return chosen, store.generation(chosen), takes_rollback_back(store, chosen)


def reason(site: Site, store: Store, cob: CobId) -> Any:
    try:
        return why(site.evaluated, store, cob)
    except CobwebError as error:
        return str(error)


def said(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code of a command, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["-C", str(folder), *arguments, "--no-cache"])
    return code, out.getvalue(), err.getvalue()


cobs = st.sampled_from(COBS)
states = st.sampled_from(["outdated", "down", "up", "unknown"])
hosts = st.sampled_from(HOSTS)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(StateWritten, cob=cobs, state=states, reason=st.just("drift"), time=st.just(5.0)),
    st.builds(
        TransitionBegan,
        cob=cobs,
        source=st.just("up"),
        dest=st.just("down"),
        time=st.just(5.0),
        at_work=st.booleans(),
    ),
    st.builds(
        TransitionFinished,
        cob=cobs,
        source=st.just("up"),
        dest=st.just("down"),
        state=st.just("unknown"),
        result=st.just(TransitionResult.FAILED),
        time=st.just(5.0),
        stopped=st.booleans(),
    ),
    st.builds(HostLost, host=hosts, time=st.just(5.0)),
    st.builds(HostGivenUp, host=hosts, given_up=st.booleans()),
    st.builds(SlotWritten, limit=st.just("rolling"), unit=hosts, time=st.just(5.0)),
    st.builds(
        CanaryWritten,
        limit=st.just("rolling"),
        generation=st.integers(1, 4),
        units=st.just(("alpha",)),
        through=st.booleans(),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """The site is edited and applied; some objects fail, somebody interrupts it."""

    hosts: frozenset[str] = frozenset(HOSTS)
    names: frozenset[str] = frozenset("ab")
    port: int = 1
    fail: tuple[str, ...] = ()
    interrupt_at: int = 0
    limit: str | None = None


ROLLBACK, DRIFT, COLLECT = "rollback", "drift", "collect"
Step = Apply | list[Entry] | str
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(
        Apply,
        hosts=st.frozensets(hosts, min_size=1).map(lambda it: it | {"alpha"}),
        names=st.sampled_from([frozenset(), frozenset("a"), frozenset("ab")]),
        port=st.integers(1, 3),
        fail=st.lists(cobs, max_size=1).map(tuple),
        interrupt_at=st.sampled_from([0, 0, 5, 15, 25]),
        limit=st.sampled_from([None, None, "alpha"]),
    ),
    st.builds(Apply, port=st.integers(1, 3)),
    st.lists(entries, min_size=1, max_size=3),
    st.sampled_from([ROLLBACK, DRIFT, DRIFT, COLLECT]),
)


def carry_out(place: Place, step: Step) -> None:
    """Let a step happen to the site; what Cobweb refuses has not happened."""
    interrupts, told = Interrupts(), []

    def listen(event: Mapping[str, Any]) -> None:
        told.append(event)
        if isinstance(step, Apply) and len(told) == step.interrupt_at:
            interrupts()

    if isinstance(step, Apply):
        place.hosts, place.names, place.port = step.hosts, step.names, step.port
        place.write()
    with Site(place.folder, no_cache=True) as site:
        options = {"fail": list(step.fail)} if isinstance(step, Apply) else {}
        orders = Orders(executor="simulate", options=options, allow_stuck=True)
        try:
            if isinstance(step, Apply):
                desired = site.desired(step.limit)
                site.apply(desired, orders, caller=Caller(sinks=[listen], interrupts=interrupts))
            elif isinstance(step, list):
                killed(site.store(create=True), step, next(place.times))
            elif step == ROLLBACK:
                site.rollback(orders=orders)
            elif step == DRIFT:
                found = {"initial": {"alpha/a": "outdated", "beta/a": "down"}}
                site.drift(orders=replace(orders, options=found))
            else:
                place.collect()
        except CobwebError:
            assert step != COLLECT


def killed(store: Store, entries: list[Entry], number: int) -> None:
    """Write entries as a run of the command that was there last, which has no end."""
    last = store.last_run()
    command = last.info.command if last else "apply --executor simulate"
    info = RunInfo(id=f"0-{number}", command=command, started=1.0, user="", host="", pid=1)
    store.begin_run(info)
    store.write(entries)


@pytest.mark.full(
    "a property over whole histories; test_gc.py and test_collection.py are in the gate"
)
@pytest.mark.timeout(600)
@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@example([Apply(), Apply(port=2), Apply(), ROLLBACK, DRIFT, DRIFT])
@example([Apply(), Apply(port=2), ROLLBACK, Apply(port=3, limit="alpha"), DRIFT])
@example([Apply(), Apply(port=2, names=frozenset("a"), fail=("beta/a",)), COLLECT, DRIFT, DRIFT])
@example([Apply(), Apply(port=2, interrupt_at=15), DRIFT, COLLECT, ROLLBACK])
@example([Apply(), DRIFT, Apply(port=2, limit="alpha"), Apply(port=2, limit="alpha")])
@given(st.lists(steps, min_size=2, max_size=7))
def test_what_is_known_told_and_planned_is_the_same_after_gc(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Place(folder=Path(name))
        (place.folder / "simple").mkdir()
        for task in ("check", "start", "stop"):
            text = "- set_fact: {cob_state: up}\n"
            (place.folder / f"simple/{task}.yml").write_text(text, encoding="utf-8")
        place.write()
        for step in history:
            carry_out(place, step)
        place.collect()
        calm = Orders(executor="simulate", allow_stuck=True)
        with Site(place.folder, no_cache=True) as site:
            site.apply(orders=calm)
