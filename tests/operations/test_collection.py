"""`cobweb gc` keeps what something refers to, and what one would go back to."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.generation import canonical_json, digest
from cobweb.model import CobId
from cobweb.operations import Retention, collect_garbage, to_go_back_to
from cobweb.store import Generation, HostSwitched, StateWritten, Store, open_store
from tests.support.examples import examples


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store("sqlite:///state.db", tmp_path) as opened:
        yield opened


@pytest.fixture
def save(store: Store) -> Callable[..., int]:
    """Save a generation with the objects `host/name` and the ports that they have in it."""

    def call(ports: Mapping[str, int], files: Mapping[str, bytes] | None = None) -> int:
        return save_ports(store, ports, files)

    return call


def save_ports(
    store: Store,
    ports: Mapping[str, int],
    files: Mapping[str, bytes] | None = None,
    time: float = 0.0,
) -> int:
    cobs = {cob: {"spec": {"port": port}, "type": "t"} for cob, port in ports.items()}
    names = {f"site:{number}": each for number, each in enumerate(sorted(files or {}))}
    content: dict[str, Any] = {"cobs": cobs, "format": 4, "files": names}
    generation = Generation(
        digest=digest(content), author="", time=time, message="", content=canonical_json(content)
    )
    return store.save_generation(generation, files).id


def applied(cob: str, port: int) -> StateWritten:
    content = digest({"spec": {"port": port}, "type": "t"})
    return StateWritten(cob=CobId(cob), state="up", reason="check", time=1.0, content=content)


def collected(store: Store, keep: int = Retention().generations) -> list[int]:
    garbage = collect_garbage(store, Retention(generations=keep), 1e9)
    return [info.id for info in garbage.generations]


def left(store: Store) -> list[int]:
    return [info.id for info in store.generations()]


Save = Callable[..., int]


def test_the_newest_are_kept(store: Store, save: Save) -> None:
    for number in range(1, 6):
        save({"h/a": number})
    assert collected(store, 2) == [3, 2, 1]
    assert left(store) == [5, 4]
    assert collected(store, 2) == []


def test_ten_are_kept_where_nobody_says_otherwise(store: Store, save: Save) -> None:
    for number in range(12):
        save({"h/a": number})
    collected(store)
    assert left(store) == list(range(12, 2, -1))


def test_ids_are_never_given_twice(store: Store, save: Save) -> None:
    for number in range(3):
        save({"h/a": number})
    collected(store, 1)
    assert save({"h/a": 9}) == 4


def test_the_last_two_that_were_reached_are_kept(store: Store, save: Save) -> None:
    for number in range(1, 8):
        save({"h/a": number})
    for reached in (1, 2, 4):
        store.mark_reached(reached, float(reached))
    collected(store, 1)
    assert left(store) == [7, 4, 2]


def test_one_to_go_back_to_is_kept_however_often_the_same_was_reached(
    store: Store, save: Save
) -> None:
    for number in (1, 2, 3, 2, 4, 2):
        each = save({"h/a": number})
        if number in (1, 2):
            store.mark_reached(each, float(each))
    assert to_go_back_to(store) == 1
    collected(store, 1)
    assert to_go_back_to(store) == 1
    assert left(store) == [6, 1]


def test_a_damaged_one_is_none_to_go_back_to(store: Store, save: Save, tmp_path: Path) -> None:
    for number in range(1, 6):
        store.mark_reached(save({"h/a": number}), 1.0)
    spoil(tmp_path, 3, 4)
    collected(store, 1)
    assert left(store) == [5, 2]
    assert to_go_back_to(store) == 2


def test_young_generations_are_kept(store: Store) -> None:
    for number in range(1, 6):
        save_ports(store, {"h/a": number}, time=number * 10.0)
    for older_s, deleted in ((1000.0, []), (25.0, [2, 1]), (None, [4, 3])):
        garbage = collect_garbage(store, Retention(generations=1, older_s=older_s), 50.0)
        assert [info.id for info in garbage.generations] == deleted


def test_what_a_host_has_switched_to_is_kept(store: Store, save: Save) -> None:
    for number in range(1, 6):
        save({"h/a": number})
    store.write([HostSwitched(host="h", generation=5), HostSwitched(host="k", generation=2)])
    collected(store, 1)
    assert left(store) == [5, 2]


def test_the_newest_that_has_a_removed_object_is_kept(store: Store, save: Save) -> None:
    save({"h/a": 1, "h/gone": 1})
    save({"h/a": 1, "h/gone": 2})
    save({"h/a": 1, "h/gone": 3})
    save({"h/a": 2})
    save({"h/a": 3})
    store.write([applied("h/a", 3), applied("h/gone", 2)])
    collected(store, 1)
    assert left(store) == [5, 3, 2], "as it was applied, and as its host may know it"


def test_what_an_object_was_applied_with_is_kept_until_it_is_changed(
    store: Store, save: Save
) -> None:
    for number in (1, 2, 1, 3, 4):
        save({"h/a": number, "h/new": number})
    store.write([applied("h/a", 1), applied("h/b", 7)])
    collected(store, 1)
    assert left(store) == [5, 3]
    store.write([applied("h/a", 4)])
    collected(store, 1)
    assert left(store) == [5]


def test_a_damaged_one_goes_however_new_unless_it_is_the_current(
    store: Store, save: Save, tmp_path: Path
) -> None:
    for number in range(1, 5):
        save({"h/a": number})
    store.write([HostSwitched(host="h", generation=2)])
    spoil(tmp_path, 2, 3, 4)
    assert collected(store) == [3, 2]
    assert left(store) == [4, 1]


def spoil(folder: Path, *generations: int) -> None:
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        for generation in generations:
            connection.execute(
                "UPDATE cobweb_generations SET content = x'00' WHERE id = ?", (generation,)
            )


OBJECTS = ("h/a", "h/b", "k/c")
ports = st.dictionaries(st.sampled_from(OBJECTS), st.integers(1, 3))


@pytest.mark.full("a property over whole histories; the rest of the module is in the gate")
@settings(max_examples=examples(60))
@given(
    saved=st.lists(ports, min_size=1, max_size=8),
    journal=ports,
    active=st.dictionaries(st.sampled_from(["h", "k"]), st.integers(1, 8)),
    reached=st.sets(st.integers(1, 8)),
    keep=st.integers(1, 3),
)
def test_what_the_rest_of_cobweb_looks_for_is_found_as_before(
    saved: list[dict[str, int]],
    journal: dict[str, int],
    active: dict[str, int],
    reached: set[int],
    keep: int,
) -> None:
    with open_store("sqlite://", Path()) as store:
        ids = [save_ports(store, ports) for ports in saved]
        history = dict(zip(ids, saved, strict=True))
        for each in reached:
            store.mark_reached(each, 1.0)
        switched = {host: each for host, each in active.items() if each in history}
        store.write([HostSwitched(host=host, generation=each) for host, each in switched.items()])
        store.write([applied(cob, port) for cob, port in journal.items()])
        deleted = collected(store, keep)
        rest = {each: ports for each, ports in history.items() if each not in deleted}
        assert list(rest) == left(store)[::-1]
    assert set(sorted(history)[-keep:]) <= rest.keys()
    newest_of = {str(history[each]): each for each in sorted(reached & history.keys())}
    assert set(sorted(newest_of.values())[-2:]) <= rest.keys()
    assert set(switched.values()) <= rest.keys()
    for cob, port in journal.items():
        if history[max(history)].get(cob) != port:
            assert newest(history, cob, {port}) == newest(rest, cob, {port})
        if cob not in history[max(history)]:
            assert newest(history, cob, {1, 2, 3}) == newest(rest, cob, {1, 2, 3})


def newest(history: Mapping[int, Mapping[str, int]], cob: str, ports: set[int]) -> int:
    """Return the newest generation that has an object with one of these ports, 0 for none."""
    return max((each for each, has in history.items() if has.get(cob) in ports), default=0)


def test_kept_files_go_with_the_last_generation_that_names_them(store: Store, save: Save) -> None:
    files = {digest_of(text): text for text in (b"one", b"two", b"three")}
    one, two, three = files
    save({"h/a": 1}, {one: b"one", two: b"two"})
    save({"h/a": 2}, {two: b"two", three: b"three"})
    save({"h/a": 3}, {three: b"three"})
    collected(store, 2)
    assert [store.file(each) for each in files] == [None, b"two", b"three"]
    collected(store, 1)
    assert [store.file(each) for each in files] == [None, None, b"three"]


def test_no_file_goes_while_a_generation_is_damaged(
    store: Store, save: Save, tmp_path: Path
) -> None:
    one = digest_of(b"one")
    save({"h/a": 1}, {one: b"one"})
    save({"h/a": 2}, {one: b"one"})
    spoil(tmp_path, 2)
    collected(store, 1)
    assert left(store) == [2]
    assert store.file(one) == b"one"


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
