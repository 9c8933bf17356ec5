"""The book of budgets outlives runs and generations; on SQLite and PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.errors import LockedError
from cobweb.model import CobId
from cobweb.store import (
    CanaryWritten,
    Entry,
    Forgotten,
    HostForgotten,
    HostFound,
    HostGivenUp,
    HostLost,
    HostSwitched,
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
    this_process,
)

A, B = CobId("h1/a"), CobId("h2/b")
UP = StateWritten(cob=A, state="up", reason="check", time=1.0, failed=True)
SLOT = SlotWritten(limit="rolling", unit="h1", time=1.0)
CANARY = CanaryWritten(limit="rolling", generation=3, units=("h2", "h1"), through=False)


def test_new_database_has_an_empty_book(store: Store, tmp_path: Path) -> None:
    with open_store("sqlite:///none.db", tmp_path, create=False) as missing:
        for each in (store, missing):
            assert each.slots() == frozenset()
            assert each.canaries() == ()
            assert each.given_up() == frozenset()


def test_book_outlives_the_store_and_the_run(url: str, tmp_path: Path, run_info: RunInfo) -> None:
    given_up = HostGivenUp(host="h1", given_up=True)
    with open_store(url, tmp_path) as store:
        store.begin_run(run_info)
        store.write([UP, ServedWritten(cob=A), SLOT, CANARY, given_up])
    with open_store(url, tmp_path) as store:
        store.begin_run(replace(run_info, id="r2", generation=4))
        assert store.states()[A].served
        assert store.slots() == {("rolling", "h1")}
        assert store.canaries() == (replace(CANARY, units=("h1", "h2")),)
        assert store.given_up() == {"h1"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_served_in_any_order_with_the_first_state_loses_neither(
    store: Store, order: Sequence[int]
) -> None:
    began = TransitionBegan(cob=A, source="up", dest="down", time=2.0)
    entries: list[Entry] = [ServedWritten(cob=A), UP, began]
    store.write([entries[place] for place in order])
    record = store.states()[A]
    assert (record.state, record.served, record.failed) == ("up", True, True)


def test_served_stays_whatever_is_written_later(store: Store) -> None:
    store.write([UP, ServedWritten(cob=A)])
    finished = TransitionFinished(
        cob=A, source="up", dest="down", state="unknown", result=TransitionResult.FAILED, time=2.0
    )
    for entry in (finished, replace(UP, state="down"), replace(UP, applied=None)):
        store.write([entry])
        assert store.states()[A].served


def test_served_keeps_the_run_and_the_failure_of_the_record(
    store: Store, run_info: RunInfo
) -> None:
    store.begin_run(run_info)
    store.write([UP])
    store.begin_run(replace(run_info, id="r2"))
    before = store.states()[A]
    store.write([ServedWritten(cob=A)])
    assert store.states()[A] == replace(before, served=True)
    assert (before.run, before.failed) == ("r1", True)


def test_what_served_and_was_never_written_is_unknown(store: Store) -> None:
    store.write([ServedWritten(cob=A)])
    record = store.states()[A]
    assert (record.state, record.served, record.run) == ("unknown", True, "")


def test_forgotten_object_has_not_served(store: Store) -> None:
    store.write([UP, ServedWritten(cob=A)])
    store.write([Forgotten(cob=A), UP])
    assert not store.states()[A].served
    store.write([ServedWritten(cob=A), Forgotten(cob=A)])
    assert store.states() == {}
    store.write([Forgotten(cob=A), ServedWritten(cob=A)])
    assert store.states()[A].served


def test_slot_is_one_per_limit_and_unit(store: Store) -> None:
    other = replace(SLOT, limit="racks")
    store.write([SLOT, replace(SLOT, time=2.0), other, replace(SLOT, unit="h2")])
    assert store.slots() == {("rolling", "h1"), ("racks", "h1"), ("rolling", "h2")}
    store.write([SLOT, SlotGone(limit="rolling", unit="h1"), SlotGone(limit="none", unit="h1")])
    assert store.slots() == {("racks", "h1"), ("rolling", "h2")}
    store.write([SlotGone(limit="racks", unit="h1"), other])
    assert store.slots() == {("racks", "h1"), ("rolling", "h2")}


def test_slots_of_what_is_forgotten_are_given_back(store: Store) -> None:
    """A unit of another name may have other hosts, so its slot stays."""
    of_host = [SLOT, replace(SLOT, limit="racks")]
    of_object = replace(SLOT, unit=A)
    kept = [replace(SLOT, unit=unit) for unit in ("h11", "rack1", B)]
    store.write([*of_host, of_object, *kept])
    store.write([HostForgotten(host="h1")])
    assert store.slots() == {("rolling", unit) for unit in (A, "h11", "rack1", B)}
    store.write([Forgotten(cob=A)])
    assert store.slots() == {("rolling", unit) for unit in ("h11", "rack1", B)}


def test_slot_before_and_after_the_forgetting_in_one_batch(store: Store) -> None:
    of_object = replace(SLOT, unit=A)
    store.write([SLOT, of_object, HostForgotten(host="h1"), Forgotten(cob=A)])
    assert store.slots() == set()
    store.write([HostForgotten(host="h1"), Forgotten(cob=A), SLOT, of_object])
    assert store.slots() == {("rolling", "h1"), ("rolling", A)}


def test_canaries_are_kept_by_limit_and_contents_the_newest_first(store: Store) -> None:
    """What is told of the same contents again replaces what was known."""
    first = replace(CANARY, units=("h1",), contents="y")
    later = replace(first, generation=4, contents="x", units=("h3",))
    racks = replace(first, limit="racks", units=(), through=True, covers="z")
    store.write([first, later, racks])
    assert store.canaries() == (racks, later, first)
    through = replace(first, generation=5, through=True, covers="y")
    store.write([through])
    assert store.canaries() == (racks, through, later)
    store.write([later, through, later])
    assert store.canaries() == (racks, later, through)
    store.write([through, later, through])
    assert store.canaries() == (racks, through, later)


def test_names_of_any_kind_are_kept(store: Store) -> None:
    name = "Müller '\"\\ \n%s :x ?"
    store.write([replace(SLOT, limit=name, unit=name), replace(CANARY, limit=name, units=(name,))])
    assert store.slots() == {(name, name)}
    assert store.canaries() == (replace(CANARY, limit=name, units=(name,)),)


def test_host_is_given_up_until_it_is_undone_or_forgotten(store: Store) -> None:
    given_up = HostGivenUp(host="h1", given_up=True)
    store.write([HostSwitched(host="h1", generation=3), HostLost(host="h1", time=1.0)])
    store.write([given_up, replace(given_up, host="h2")])
    assert store.given_up() == {"h1", "h2"}
    assert store.host_generations() == {"h1": 3}
    assert store.lost_hosts() == {"h1"}
    store.write([HostFound(host="h1", time=2.0), HostSwitched(host="h1", generation=4)])
    assert store.given_up() == {"h1", "h2"}
    store.write([replace(given_up, given_up=False), HostForgotten(host="h2")])
    assert store.given_up() == set()
    assert store.host_generations() == {"h1": 4}
    store.write([given_up, HostForgotten(host="h1")])
    assert store.given_up() == set()
    store.write([HostForgotten(host="h1"), given_up])
    assert store.given_up() == {"h1"}
    assert store.host_generations() == {}


def test_book_is_fenced_by_the_site_lock(store: Store) -> None:
    lock = store.site_lock(clock=lambda: 1.0)
    held = lock.acquire(this_process(run="r1", reason="apply", since=1.0))
    lock.break_lock("r1")
    with pytest.raises(LockedError):
        store.write([SLOT])
    held.release()
    assert store.slots() == set()
