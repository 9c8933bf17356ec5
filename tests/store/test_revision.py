"""Every change of what is believed is another revision; nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.model import CobId
from cobweb.store import (
    CanaryWritten,
    Entry,
    EventWritten,
    Forgotten,
    Generation,
    GrantWritten,
    HostForgotten,
    HostFound,
    HostGivenUp,
    HostLost,
    ResultsWritten,
    RunInfo,
    ServedWritten,
    SlotGone,
    SlotWritten,
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

SLOT = SlotWritten(limit="rolling", unit="h1", time=2.0)
CANARY = CanaryWritten(limit="rolling", generation=1, units=("h1",), through=False)

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
    ServedWritten(cob=A),
    ServedWritten(cob=B),
    SLOT,
    replace(SLOT, unit="h2"),
    replace(SLOT, limit="h1", unit="rolling"),
    HostGivenUp(host="h1", given_up=True),
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


NO_SLOTS = [
    SlotGone(limit=slot.limit, unit=slot.unit) for slot in CHANGES if isinstance(slot, SlotWritten)
]


def test_changes_do_not_look_like_each_other(store: Store) -> None:
    seen = set()
    for entry in CHANGES:
        store.write([Forgotten(cob=A), Forgotten(cob=B)])
        store.write([HostForgotten(host="h1"), *NO_SLOTS])
        store.write([UP])
        store.write([entry])
        seen.add(store.revision())
    assert len(seen) == len(CHANGES)


def test_what_was_undone_is_the_revision_of_before(known: Store) -> None:
    before = known.revision()
    handed = ResultsWritten(host="h1", results={"ip": "10.0.0.1"})
    given_up = HostGivenUp(host="h1", given_up=True)
    known.write([BEGAN, HostLost(host="h1", time=3.0), handed, SLOT, given_up])
    ended = TransitionFinished(
        cob=A, source="up", dest="down", state="up", result=TransitionResult.FAILED, time=4.0
    )
    known.write([ended, HostFound(host="h1", time=4.0), replace(handed, results={"ip": None})])
    known.write([SlotGone(limit="rolling", unit="h1"), replace(given_up, given_up=False)])
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


def test_what_is_known_of_canaries_is_part_of_it_and_when_it_was_written_is_not(
    known: Store,
) -> None:
    seen = [known.revision()]
    others = ({"through": True}, {"units": ("h2",)}, {"contents": "x"}, {"covers": "y"})
    for canary in (CANARY, *(replace(CANARY, **it) for it in others)):
        known.write([canary])
        seen.append(known.revision())
    assert len(set(seen)) == 6
    known.write([replace(CANARY, covers="y")])
    assert known.revision() == seen[-1]


def test_when_a_slot_was_lent_is_no_part_of_it(known: Store, run_info: RunInfo) -> None:
    known.write([SLOT])
    before = known.revision()
    known.begin_run(run_info)
    known.write([replace(SLOT, time=9.0)])
    assert known.revision() == before


def test_a_missing_database_has_the_revision_of_an_empty_one(tmp_path: Path) -> None:
    url = "sqlite:///state.db"
    with open_store(url, tmp_path, create=False) as missing:
        before = missing.revision()
    with open_store(url, tmp_path) as empty:
        assert empty.revision() == before
