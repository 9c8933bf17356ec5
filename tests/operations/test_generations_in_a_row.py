"""A site that lives for some generations, with trouble in each, keeps the promises and gets there.

Every generation is a random part of one graph, with random contents. Objects fail, hosts are lost,
users interrupt, too much is lost, the journal breaks; then the next generation comes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.cli.graph import graph_data
from cobweb.errors import StoreError
from cobweb.model import Graph
from cobweb.operations import (
    Caller,
    Ending,
    Interrupts,
    Orders,
    RunResult,
    apply_site,
    desired_of,
    plan_site,
)
from cobweb.site import load_site
from cobweb.store import Entry, RunInfo, Store, open_store
from cobweb.testing.promises import check_promises
from tests.operations.test_two_generations import parts, plugins
from tests.support.examples import examples
from tests.support.graphs import graphs
from tests.support.random_sites import Case

Event = dict[str, Any]

UNTOLD = " and waits for nothing"
"""What the checker says of an object that was not begun: no event tells why a run was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One apply: the site, how many may be lost, and when somebody stops it or the disk is full."""

    case: Case
    parallel: int = 1000
    most_lost: int | None = None
    interrupt_at: int | None = None
    broken_at: int | None = None

    @property
    def bound(self) -> Callable[[int], int] | None:
        """What `Orders.max_unreachable` takes."""
        most = self.most_lost
        return None if most is None else lambda _total: most


@st.composite
def lives(draw: st.DrawFn) -> tuple[Step, ...]:
    """Draw two to four generations of one graph."""
    graph = draw(graphs(max_cobs=7, max_needs=12))
    rarely = st.one_of(st.none(), st.none(), st.integers(1, 25))
    return tuple(
        Step(
            case=draw(parts(graph)),
            parallel=draw(st.sampled_from([1, 2, 1000])),
            most_lost=draw(st.sampled_from([None, None, 0, 1])),
            interrupt_at=draw(rarely),
            broken_at=draw(rarely),
        )
        for _ in range(draw(st.integers(2, 4)))
    )


@dataclass
class Life:
    """A site in a folder, its state database, and what hosts know by generation."""

    folder: Path
    store: Store
    graphs: dict[int, Graph] = field(default_factory=dict)
    runs: int = 0

    def apply(self, step: Step, *, calm: bool = False) -> tuple[RunResult | None, list[Event]]:
        """Apply; with `calm` nothing goes wrong. None where the journal broke."""
        self._write(step.case)
        self.runs += 1
        told: list[Event] = []
        interrupts = Interrupts()

        def listen(event: Event) -> None:
            told.append(json.loads(json.dumps(event)))
            if not calm and len(told) == step.interrupt_at:
                interrupts()

        orders = Orders(
            executor="simulate",
            parallel=step.parallel,
            max_unreachable=None if calm else step.bound,
            options={} if calm else step.case.trouble,
            allow_stuck=True,
        )
        info = RunInfo(id=f"r{self.runs}", command="apply", started=1.0, user="u", host="h", pid=1)
        desired = desired_of(load_site(self.folder))
        caller = Caller(sinks=[listen], interrupts=interrupts)
        store: Any = self.store if calm else Breaking(self.store, step.broken_at)
        result: RunResult | None = None
        try:
            result = apply_site(desired, plugins(), store, orders, caller, info=info)
        except StoreError:
            assert step.broken_at is not None
        self.graphs[self.store.current_generation_id()] = desired.graph
        return result, told

    def known(self) -> Graph:
        """Return the objects and needs as the hosts know them.

        What the journal knows of a host that has not switched since is defined by the newest
        generation that has it.
        """
        active = self.store.host_generations()
        source = {
            cob: generation
            for generation, graph in sorted(self.graphs.items())
            for cob in graph.cobs
            if cob in self.store.states()
        }
        for generation, graph in self.graphs.items():
            own = [cob for cob, it in graph.cobs.items() if active.get(it.host) == generation]
            source.update(dict.fromkeys(own, generation))
        cobs = {cob: self.graphs[source[cob]].cobs[cob] for cob in sorted(source)}
        needs = [
            need
            for generation, graph in self.graphs.items()
            for need in graph.needs
            if source.get(need.cob) == generation and need.on in cobs
        ]
        return Graph(cobs=cobs, needs=tuple(needs))

    def _write(self, case: Case) -> None:
        (self.folder / "site.yml").write_text(json.dumps(case.site), encoding="utf-8")
        for name in ("check.yml", "do.yml"):
            (self.folder / name).write_text("- debug:\n", encoding="utf-8")


class Breaking:
    """A store of which a write of the journal fails, once."""

    def __init__(self, store: Store, at: int | None) -> None:
        self._store, self._left = store, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, entries: Sequence[Entry]) -> None:
        """Write, or fail."""
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise StoreError("the disk is full")
        self._store.write(entries)


def broken(
    life: Life, before: Graph, events: Sequence[Mapping[str, Any]], *, ended: bool
) -> list[str]:
    """Return the promises that a run broke; one that did not end itself has no P5."""
    graph = graph_data(life.graphs[life.store.current_generation_id()], {})
    lines = check_promises(events, graph, before=graph_data(before, {}))
    lines = [line for line in lines if ended or not line.startswith("P5")]
    return [line for line in lines if UNTOLD not in line]


@pytest.mark.gate("a property over random changes")
@pytest.mark.timeout(300)
@settings(max_examples=examples(20))
@given(lives())
def test_some_generations_in_a_row_keep_the_promises_and_get_there(life: tuple[Step, ...]) -> None:
    with tempfile.TemporaryDirectory() as name, open_store("sqlite://", Path(name)) as store:
        cluster = Life(folder=Path(name), store=store)
        for step in life:
            before = cluster.known()
            result, events = cluster.apply(step)
            assert broken(cluster, before, events, ended=result is not None) == []
            if result is not None:
                told(cluster, step, result)
        calm(cluster, life[-1])


def told(life: Life, step: Step, result: RunResult) -> None:
    """See that what is left of the old site is told, and that nothing else is left."""
    left = life.store.states().keys() - step.case.graph.cobs.keys()
    waits = {wait.cob for wait in result.waits}
    assert result.ending is not Ending.OK or not left
    for cob in left - waits:  # it waits for others that its host has to wait for, or to be begun
        assert waits or result.stopped, cob


def calm(life: Life, step: Step) -> None:
    """See that a run in which nothing goes wrong ends as planned, and the next has nothing to do.

    Where the needs themselves stand in the way, the next one says the same again.
    """
    before = life.known()
    result, events = life.apply(step, calm=True)
    assert result is not None
    assert broken(life, before, events, ended=True) == []
    again, events = life.apply(step, calm=True)
    assert again is not None
    assert broken(life, life.known(), events, ended=True) == []
    if result.ending is Ending.OK:
        assert again.ending is Ending.OK
        assert (again.counts["transitions"], again.counts["checks"]) == (0, 0)
        assert life.store.states().keys() == step.case.graph.cobs.keys()
        assert life.store.locks() == ()
        assert set(life.store.host_generations().values()) == {life.store.current_generation_id()}
        plan = plan_site(desired_of(load_site(life.folder)), plugins(), life.store)
        assert plan.is_empty
        assert plan.switches == ()
