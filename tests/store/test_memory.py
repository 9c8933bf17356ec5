"""Memory in the database: written as decisions are, each key only as it was last; and who leads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from cobweb.errors import ConflictError, LockedError, StoreError, UsageError
from cobweb.model import CobId, Decision, Decisions
from cobweb.store import LockOwner, StateWritten, Store, open_store, this_process
from tests.store.conftest import Clock
from tests.support.examples import examples

SECTION = "serve"
ONE, TWO = {"a": [1, None]}, {"a": "ä\0"}
NOW = 1_000.0
UP = StateWritten(cob=CobId("h/a"), state="up", reason="check", time=1.0)


def remember(store: Store, expected: int, section: str = SECTION, **bodies: Any) -> int:
    return store.decide(section, expected, bodies, "ann", "x", is_memory=True)


def bodies(found: Decisions) -> dict[str, Any]:
    return {key: it.body for key, it in found.by_key.items()}


def rows(url: str) -> list[tuple[Any, ...]]:
    """Return kind, section, key and revision of all documents, sorted."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            chosen = text("SELECT kind, section, key, revision FROM cobweb_documents")
            return sorted(tuple(row) for row in connection.execute(chosen))
    finally:
        engine.dispose()


# What is remembered


def test_a_section_remembers_nothing_at_first(store: Store) -> None:
    assert store.memory(SECTION) == Decisions()


def test_what_was_remembered_is_read_back_with_author_reason_and_time(store: Store) -> None:
    written = store.decide(
        SECTION, 0, {"memory": TWO}, "ann", "a round", is_memory=True, clock=lambda: 7.5
    )
    made = Decision(
        section=SECTION,
        key="memory",
        body=TWO,
        revision=written,
        author="ann",
        reason="a round",
        time=7.5,
    )
    assert store.memory(SECTION) == Decisions(revision=1, by_key={"memory": made})


def test_of_each_key_only_the_newest_row_is_there(store: Store, url: str) -> None:
    for revision in range(20):
        new: dict[str, Any] = {"k": revision, f"other{revision % 2}": 0}
        assert remember(store, revision, **new) == revision + 1
    assert rows(url) == [
        ("memory", SECTION, "k", 20),
        ("memory", SECTION, "other0", 19),
        ("memory", SECTION, "other1", 20),
    ]
    assert bodies(store.memory(SECTION)) == {"k": 19, "other0": 0, "other1": 0}


def test_another_revision_than_the_expected_one_stores_nothing(store: Store) -> None:
    remember(store, 0, k=ONE)
    for expected in (0, 2):
        with pytest.raises(ConflictError, match=f"is at revision 1, not {expected}") as found:
            remember(store, expected, k=TWO, more=ONE)
        assert found.value.revision == 1
    assert bodies(store.memory(SECTION)) == {"k": ONE}


def test_what_is_decided_and_what_is_remembered_are_stored_at_once(store: Store) -> None:
    remember(store, 0, k=ONE, other=ONE)
    assert store.decide("lamps", 0, {"n1": 1}, "ann", "x", remembers={"decider": 1}) == 1
    assert store.decide("lamps", 1, {}, "ann", "x", remembers={"decider": 2}) == 1
    assert bodies(store.memory("lamps")) == {"decider": 2}
    with pytest.raises(ConflictError):
        store.decide("lamps", 0, {"n1": 2}, "ann", "x", remembers={"decider": 3})
    assert bodies(store.memory("lamps")) == {"decider": 2}
    assert bodies(store.decisions("lamps")) == {"n1": 1}
    assert bodies(store.memory(SECTION)) == {"k": ONE, "other": ONE}


def test_what_is_forgotten_leaves_the_revision(store: Store, url: str) -> None:
    remember(store, 0, k=ONE)
    assert remember(store, 1, k=None) == 2
    assert (store.memory(SECTION).revision, bodies(store.memory(SECTION))) == (2, {})
    with pytest.raises(ConflictError):
        remember(store, 0, k=TWO)
    assert remember(store, 2, k=TWO) == 3
    assert len(rows(url)) == 1


WRITES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([ONE, TWO, None])), max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(writes=WRITES, gc_after=st.integers(0, 8))
def test_the_revision_never_goes_back(
    fresh_url: Callable[[], str], tmp_path: Path, writes: list[dict[str, Any]], gc_after: int
) -> None:
    url, revision, wanted = fresh_url(), 0, dict[str, Any]()
    with open_store(url, tmp_path) as store:
        for number, each in enumerate(writes):
            made = remember(store, revision, **each)
            assert made == revision + bool(each)
            revision, wanted = made, wanted | each
            if number == gc_after:
                store.delete_history(generations=[])
            assert store.memory(SECTION).revision == revision
    with open_store(url, tmp_path) as store:
        assert store.memory(SECTION).revision == revision
        assert bodies(store.memory(SECTION)) == {
            key: it for key, it in wanted.items() if it is not None
        }
    assert len(rows(url)) == len(wanted)


def test_decisions_and_memory_of_a_section_do_not_see_each_other(store: Store) -> None:
    assert remember(store, 0, k=ONE) == 1
    assert store.decisions(SECTION) == Decisions()
    assert store.decision_history() == ()
    assert store.decide(SECTION, 0, {"k": TWO}, "ann", "x") == 1
    assert store.decide(SECTION, 1, {"k": None}, "ann", "x") == 2
    assert remember(store, 1, k=TWO) == 2
    assert bodies(store.memory(SECTION)) == {"k": TWO}
    assert bodies(store.decisions(SECTION, 1)) == {"k": TWO}
    assert (bodies(store.decisions(SECTION)), store.decisions(SECTION).revision) == ({}, 2)
    assert [it.revision for it in store.decision_history(SECTION)] == [2, 1]


def test_sections_remember_for_themselves(store: Store) -> None:
    remember(store, 0, k=ONE)
    assert remember(store, 0, section="pools", k=TWO) == 1
    assert bodies(store.memory(SECTION)) == {"k": ONE}
    assert bodies(store.memory("pools")) == {"k": TWO}


def test_gc_of_old_history_leaves_what_is_remembered(store: Store) -> None:
    remember(store, 0, k=ONE)
    before = store.memory(SECTION)
    store.delete_history(generations=[])
    assert store.memory(SECTION) == before


def test_memory_is_no_part_of_what_a_plan_relies_on(store: Store) -> None:
    before = store.revision()
    remember(store, 0, k=ONE)
    assert store.revision() == before


def test_of_two_who_have_seen_the_same_one_remembers(url: str, tmp_path: Path) -> None:
    start, won = threading.Barrier(3), list[str]()

    def work(name: str) -> None:
        with open_store(url, tmp_path) as store:
            for expected in range(15):
                start.wait()
                try:
                    remember(store, expected, k=name)
                    won.append(name)
                except ConflictError:
                    pass

    open_store(url, tmp_path).close()
    people = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for each in people:
        each.start()
    for each in people:
        each.join()
    with open_store(url, tmp_path) as store:
        assert store.memory(SECTION).revision == len(won) == 15
    assert len(rows(url)) == 1


def test_who_reads_only_cannot_remember(url: str, tmp_path: Path) -> None:
    open_store(url, tmp_path).close()
    with open_store(url, tmp_path, create=False) as store, pytest.raises(StoreError):
        remember(store, 0, k=ONE)


def test_a_missing_database_remembers_nothing(url: str, tmp_path: Path) -> None:
    with open_store(url, tmp_path, create=False) as store:
        assert store.memory(SECTION) == Decisions()


# Who leads, and who runs


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def other(url: str, tmp_path: Path, store: Store) -> Iterator[Store]:
    """Return a second store on the same database."""
    del store  # it comes first and makes the tables
    with open_store(url, tmp_path) as opened:
        yield opened


def me(run: str, reason: str = "apply") -> LockOwner:
    return this_process(run=run, reason=reason, since=NOW)


def test_one_leads_while_another_runs(store: Store, other: Store, clock: Clock) -> None:
    led, locked = store.site_lock(clock=clock, leads=True), other.site_lock(clock=clock)
    with led.acquire(me("l1", "serve")) as leading, locked.acquire(me("r1")) as running:
        assert (leading.notices, running.notices) == ((), ())
        assert led.show() == leading.owner == me("l1", "serve")
        assert locked.show() == running.owner == me("r1")
        assert remember(store, 0, k=ONE) == 1
        other.write([UP])
        clock.time += 60
        leading.heartbeat()
        running.heartbeat()
        assert [it and it.heartbeat for it in (led.show(), locked.show())] == [clock.time] * 2
    assert (led.show(), locked.show()) == (None, None)


@pytest.mark.parametrize("leads", [False, True])
def test_each_lock_has_one_owner(store: Store, other: Store, clock: Clock, *, leads: bool) -> None:
    store.site_lock(clock=clock, leads=leads).acquire(me("one"))
    with pytest.raises(LockedError, match="run one"):
        other.site_lock(clock=clock, leads=leads).acquire(me("two"))
    other.site_lock(clock=clock, leads=not leads).acquire(me("two"))


@pytest.mark.parametrize("leads", [False, True])
def test_the_end_of_one_leaves_the_other(
    store: Store, other: Store, clock: Clock, *, leads: bool
) -> None:
    ended = store.site_lock(clock=clock, leads=leads)
    left = other.site_lock(clock=clock, leads=not leads)
    with ended.acquire(me("one")):
        left.acquire(me("two"))
    assert (ended.show(), left.show()) == (None, me("two"))
    with pytest.raises(UsageError):
        ended.break_lock("two")
    assert left.show() == me("two")


@pytest.mark.parametrize("leads", [False, True])
def test_breaking_one_leaves_the_other_and_its_owner_writes_nothing(
    store: Store, other: Store, clock: Clock, *, leads: bool
) -> None:
    broken = store.site_lock(clock=clock, leads=leads)
    held = broken.acquire(me("one"))
    left = other.site_lock(clock=clock, leads=not leads)
    still = left.acquire(me("two"))
    remember(store, 0, k=ONE)
    assert other.site_lock(clock=clock, leads=leads).break_lock("one") == me("one")
    assert (broken.show(), left.show()) == (None, me("two"))
    with pytest.raises(LockedError, match="broke"):
        remember(store, 1, k=TWO)
    with pytest.raises(LockedError):
        store.decide("pools", 0, {"k": TWO}, "ann", "x")
    clock.time += 60
    with pytest.raises(LockedError):
        held.heartbeat()
    still.heartbeat()
    assert bodies(other.memory(SECTION)) == {"k": ONE}
    assert other.decisions("pools") == Decisions()
    assert remember(other, 1, k=TWO) == 2


def test_who_lost_the_lead_to_another_writes_nothing(
    store: Store, other: Store, clock: Clock
) -> None:
    held = store.site_lock(clock=clock, leads=True).acquire(me("l1"))
    lock = other.site_lock(clock=clock, leads=True)
    lock.break_lock("l1")
    lock.acquire(replace(me("l2"), user="ann", host="admin9"))
    with pytest.raises(LockedError, match="ann@admin9"):
        remember(store, 0, k=ONE)
    held.release()
    standing = lock.show()
    assert standing is not None
    assert standing.run == "l2"
    assert remember(other, 0, k=TWO) == 1


def test_who_leads_does_not_keep_runs_from_writing(
    store: Store, other: Store, clock: Clock
) -> None:
    with store.site_lock(clock=clock, leads=True).acquire(me("l1")):
        other.site_lock(clock=clock).acquire(me("r1"))
        other.write([UP])
        assert store.states()[UP.cob].state == "up"


def test_after_it_led_a_store_writes_freely(store: Store, other: Store, clock: Clock) -> None:
    with store.site_lock(clock=clock, leads=True).acquire(me("l1")):
        pass
    with other.site_lock(clock=clock, leads=True).acquire(me("l2")):
        assert remember(store, 0, k=ONE) == 1


def test_a_dead_leader_is_replaced_with_a_notice(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock, leads=True).acquire(replace(me("l1"), process_start="1"))
    other.site_lock(clock=clock).acquire(me("r1"))
    held = store.site_lock(clock=clock, leads=True).acquire(me("l2"))
    (notice,) = held.notices
    assert "l1" in notice
    assert "is gone" in notice
    standing = other.site_lock(clock=clock).show()
    assert standing is not None
    assert standing.run == "r1"
