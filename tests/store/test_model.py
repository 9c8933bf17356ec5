"""The store against a dumb model: entries one by one into dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.generation import canonical_json
from cobweb.model import CobId, host_of
from cobweb.store import (
    CanaryWritten,
    CobRecord,
    CobRenamed,
    Entry,
    EventWritten,
    Forgotten,
    GrantGone,
    GrantWritten,
    HostForgotten,
    HostFound,
    HostGivenUp,
    HostLost,
    HostSwitched,
    ResultsWritten,
    RunInfo,
    ServedWritten,
    SlotGone,
    SlotWritten,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    WorkEnded,
    open_store,
)
from tests.support.examples import examples

COBS = [CobId(f"{host}/{name}") for host in ("h1", "h2") for name in ("a", "b")]
cobs = st.sampled_from(COBS)
states = st.sampled_from(["outdated", "down", "up", "unknown"])
times = st.floats(0, 2e9, width=32)
contents = st.none() | st.sampled_from(["c1", "c2"])
generations = st.none() | st.integers(1, 9)
applied = st.just(...) | st.none() | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
limits = st.sampled_from(["rolling", "racks"])
units = st.sampled_from(["h1", "h2", "h1/a", "rack1"])
results = st.none() | st.integers() | st.lists(st.text(max_size=3), max_size=2)

entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(
        StateWritten,
        cob=cobs,
        state=states,
        reason=st.sampled_from(["check", "journal", "content"]),
        time=times,
        applied=applied,
        content=contents,
        failed=st.none() | st.booleans(),
        generation=generations,
    ),
    st.builds(
        TransitionBegan,
        cob=cobs,
        source=states,
        dest=states,
        time=times,
        attempt=st.integers(1, 3),
        executor=st.sampled_from(["", "ansible"]),
        at_work=st.booleans(),
    ),
    st.builds(
        TransitionFinished,
        cob=cobs,
        source=states,
        dest=states,
        state=states,
        result=st.sampled_from(TransitionResult),
        time=times,
        applied=applied,
        content=contents,
        generation=generations,
        at_work=st.booleans(),
    ),
    st.builds(WorkEnded, cob=cobs),
    st.builds(GrantWritten, cob=cobs, holder=cobs, state=states),
    st.builds(GrantGone, cob=cobs, holder=cobs),
    st.builds(HostLost, host=st.sampled_from(["h1", "h2"]), time=times),
    st.builds(HostFound, host=st.sampled_from(["h1", "h2"]), time=times),
    st.builds(HostSwitched, host=st.sampled_from(["h1", "h2"]), generation=st.integers(1, 9)),
    st.builds(
        ResultsWritten,
        host=st.sampled_from(["h1", "h2"]),
        results=st.dictionaries(st.sampled_from("ab"), results, max_size=2),
    ),
    st.builds(HostForgotten, host=st.sampled_from(["h1", "h2"])),
    st.builds(Forgotten, cob=cobs),
    st.builds(ServedWritten, cob=cobs),
    st.builds(HostGivenUp, host=st.sampled_from(["h1", "h2"]), given_up=st.booleans()),
    st.builds(SlotWritten, limit=limits, unit=units, time=times),
    st.builds(SlotGone, limit=limits, unit=units),
    st.builds(
        CanaryWritten,
        limit=limits,
        generation=st.integers(1, 2),
        units=st.lists(units, max_size=2).map(tuple),
        through=st.booleans(),
        contents=st.sampled_from(["c1", "c2"]),
        covers=st.sampled_from(["", "c3"]),
    ),
)

NEW_RUN, REOPEN, COLLECT = "new run", "reopen", "collect"
steps = st.lists(
    st.lists(entries, max_size=12) | st.sampled_from([NEW_RUN, REOPEN, COLLECT]), max_size=6
)


@dataclass
class Model:
    """What the journal means, without a database and without batches."""

    run: RunInfo
    cobs: dict[CobId, CobRecord] = field(default_factory=dict)
    grants: dict[tuple[CobId, CobId], str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    switched: dict[str, int] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    slots: set[tuple[str, str]] = field(default_factory=set)
    canaries: dict[tuple[str, str], CanaryWritten] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)

    def take(self, entry: Entry) -> None:  # noqa: C901, PLR0912  # one case for each kind
        match entry:
            case GrantWritten():
                self.grants[entry.cob, entry.holder] = entry.state
            case GrantGone():
                self.grants.pop((entry.cob, entry.holder), None)
            case HostLost() | HostFound() | HostSwitched() | HostForgotten() | HostGivenUp():
                self.take_host(entry)
            case ServedWritten() | SlotWritten() | SlotGone() | CanaryWritten():
                self.take_budget(entry)
            case ResultsWritten():
                self.take_results(entry)
            case Forgotten():
                self.cobs.pop(entry.cob, None)
                self.give_back_all(entry.cob)
                self.grants = {
                    pair: state for pair, state in self.grants.items() if entry.cob not in pair
                }
            case StateWritten() | TransitionFinished():
                self.take_state(entry)
            case CobRenamed():
                raise AssertionError("no rename is drawn: they have tests of their own")
            case TransitionBegan():
                self.cobs[entry.cob] = replace(
                    self.touched(entry.cob),
                    in_transition=(entry.source, entry.dest),
                    attempt=entry.attempt,
                    executor=entry.executor,
                    at_work=entry.at_work,
                )
            case WorkEnded(cob=cob):
                if cob in self.cobs:
                    self.cobs[cob] = replace(self.cobs[cob], at_work=False)
            case EventWritten():
                raise AssertionError("events are not modelled")

    def take_budget(self, entry: ServedWritten | SlotWritten | SlotGone | CanaryWritten) -> None:
        match entry:
            case ServedWritten():
                record = self.cobs.get(entry.cob, unwritten(entry.cob))
                self.cobs[entry.cob] = replace(record, served=True)
            case SlotWritten():
                self.slots.add((entry.limit, entry.unit))
            case SlotGone():
                self.slots.discard((entry.limit, entry.unit))
            case CanaryWritten():
                self.canaries.pop(key := (entry.limit, entry.contents), None)
                self.canaries[key] = replace(entry, units=tuple(sorted(entry.units)))

    def give_back_all(self, unit: str) -> None:
        self.slots = {slot for slot in self.slots if slot[1] != unit}

    def take_host(
        self, entry: HostLost | HostFound | HostSwitched | HostForgotten | HostGivenUp
    ) -> None:
        match entry:
            case HostLost():
                self.lost.add(entry.host)
            case HostFound():
                self.lost.discard(entry.host)
            case HostSwitched():
                self.switched[entry.host] = entry.generation
            case HostGivenUp():
                (self.given_up.add if entry.given_up else self.given_up.discard)(entry.host)
            case HostForgotten():
                self.lost.discard(entry.host)
                self.given_up.discard(entry.host)
                self.give_back_all(entry.host)
                self.switched.pop(entry.host, None)
                self.results.pop(entry.host, None)

    def take_results(self, entry: ResultsWritten) -> None:
        known = self.results.setdefault(entry.host, {})
        for key, value in entry.results.items():
            known.pop(key, None)
            if value is not None:
                known[key] = value
        if not known:
            del self.results[entry.host]

    def take_state(self, entry: StateWritten | TransitionFinished) -> None:
        record = replace(
            self.touched(entry.cob), state=entry.state, since=entry.time, in_transition=None
        )
        generation = self.run.generation if entry.generation is None else entry.generation
        known = record.known if entry.state == "unknown" else entry.state
        record = replace(record, generation=generation, known=known)
        if entry.content is not None:
            record = replace(record, content=entry.content)
        if entry.applied is not ...:
            text = None if entry.applied is None else canonical_json(entry.applied)
            record = replace(record, applied_json=text)
        if isinstance(entry, TransitionFinished):
            failed: bool | None = entry.result == "failed"
            reason = "transition"
            record = replace(record, at_work=entry.at_work)
        else:
            failed, reason = entry.failed, entry.reason
        failed = record.failed if failed is None else failed
        self.cobs[entry.cob] = replace(record, reason=reason, failed=failed)

    def touched(self, cob: CobId) -> CobRecord:
        record = self.cobs.get(cob, unwritten(cob))
        failed = record.failed and record.run == self.run.id
        return replace(record, run=self.run.id, failed=failed)

    def states(self) -> dict[CobId, CobRecord]:
        return {
            cob: replace(record, reachable=host_of(cob) not in self.lost)
            for cob, record in sorted(self.cobs.items())
        }

    def known_canaries(self) -> tuple[CanaryWritten, ...]:
        newest = [*self.canaries.values()][::-1]
        return tuple(sorted(newest, key=attrgetter("limit")))

    def locks(self) -> tuple[tuple[CobId, CobId, str], ...]:
        return tuple((*pair, state) for pair, state in sorted(self.grants.items()))


def unwritten(cob: CobId) -> CobRecord:
    return CobRecord(
        cob=cob,
        state="unknown",
        content="",
        applied_json=None,
        in_transition=None,
        reachable=True,
        since=0.0,
        run="",
        generation=0,
        failed=False,
        reason="",
    )


def run(number: int) -> RunInfo:
    return RunInfo(
        id=f"r{number}",
        command="apply",
        started=float(number),
        user="ann",
        host="admin1",
        pid=1,
        generation=number,
    )


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_batches_leave_what_their_entries_mean_one_by_one(
    fresh_url: Callable[[], str], tmp_path: Path, steps: list[list[Entry] | str]
) -> None:
    url, number = fresh_url(), 1
    model, store = Model(run=run(1)), open_store(url, tmp_path)
    store.begin_run(run(1))
    try:
        for step in steps:
            if isinstance(step, list):
                store.write(step)
                for entry in step:
                    model.take(entry)
            elif step == COLLECT:
                store.delete_history(runs=[it.info.id for it in store.runs(None)[1:]])
                store.compact()
            else:
                if step == REOPEN:
                    store.close()
                    store = open_store(url, tmp_path)
                number += 1
                store.begin_run(run(number))
                model.run = run(number)
            assert store.states() == model.states()
            assert list(store.states()) == list(model.states())
            assert store.locks() == model.locks()
            assert store.results() == model.results
            assert store.slots() == model.slots
            assert store.given_up() == model.given_up
            assert store.canaries() == model.known_canaries()
            assert store.host_generations() == dict(sorted(model.switched.items()))
    finally:
        store.close()
