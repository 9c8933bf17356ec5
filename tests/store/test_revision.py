"""Every change of what is believed is another revision; nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.model import CobId
from cobweb.store import (
    Entry,
    EventWritten,
    Forgotten,
    Generation,
    GrantWritten,
    HostFound,
    HostLost,
    ResultsWritten,
    RunInfo,
    StateWritten,
    Store,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    open_store,
)

A, B = CobId("h1/a"), CobId("h1/b")
UP = StateWritten(cob=A, state="up", reason="check", time=1.0, content="x", applied={"port": 1})
BEGAN = TransitionBegan(cob=A, source="up", dest="down", time=2.0)

CHANGES: list[Entry] = [
    replace(UP, state="down"),
    replace(UP, content="y"),
    replace(UP, applied={"port": 2}),
    replace(UP, applied=None),
    replace(UP, applied={}),
    replace(UP, cob=B),
    BEGAN,
    replace(BEGAN, dest="outdated"),
    HostLost(host="h1", time=2.0),
    Forgotten(cob=A),
    ResultsWritten(host="h1", results={"ip": "10.0.0.1"}),
]


@pytest.fixture
def known(store: Store) -> Store:
    """Return a store that knows one object."""
    store.write([UP])
    return store


@pytest.mark.parametrize("entry", CHANGES, ids=repr)
def test_another_belief_is_another_revision(known: Store, entry: Entry) -> None:
    before = known.revision()
    known.write([entry])
    assert known.revision() != before


def test_changes_do_not_look_like_each_other(store: Store) -> None:
    seen = set()
    for entry in CHANGES:
        store.write([Forgotten(cob=A), Forgotten(cob=B), HostFound(host="h1", time=0.0)])
        store.write([UP])
        store.write([entry])
        seen.add(store.revision())
    assert len(seen) == len(CHANGES)


def test_what_was_undone_is_the_revision_of_before(known: Store) -> None:
    before = known.revision()
    handed = ResultsWritten(host="h1", results={"ip": "10.0.0.1"})
    known.write([BEGAN, HostLost(host="h1", time=3.0), handed])
    ended = TransitionFinished(
        cob=A, source="up", dest="down", state="up", result=TransitionResult.FAILED, time=4.0
    )
    known.write([ended, HostFound(host="h1", time=4.0), replace(handed, results={"ip": None})])
    assert known.revision() == before


def test_when_and_why_something_was_written_is_no_part_of_it(
    known: Store, run_info: RunInfo
) -> None:
    before = known.revision()
    known.begin_run(run_info)
    event = EventWritten(seq=1, time=9.0, type="run.start", data="{}")
    known.write([replace(UP, time=9.0, reason="journal", failed=True), event])
    known.write([GrantWritten(cob=A, holder=B, state="up")])
    assert known.revision() == before


def test_a_new_generation_is_another_revision(known: Store) -> None:
    before = known.revision()
    assert known.current_generation_id() == 0
    generation = Generation(digest="d", author="ann", time=1.0, message="", content="{}")
    known.save_generation(generation)
    assert known.revision() != before
    assert known.current_generation_id() == 1


def test_a_missing_database_has_the_revision_of_an_empty_one(tmp_path: Path) -> None:
    url = "sqlite:///state.db"
    with open_store(url, tmp_path, create=False) as missing:
        before = missing.revision()
    with open_store(url, tmp_path) as empty:
        assert empty.revision() == before
