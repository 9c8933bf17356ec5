"""Generations are kept with their files, and a damaged one is told; on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.errors import LockedError, StoreError
from cobweb.store import CanaryWritten, Generation, Store, open_store, this_process
from tests.support.examples import examples


def generation(content: str) -> Generation:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Generation(
        digest=digest, author="ann", time=1.0, message="why", content=content, commit="c0ffee"
    )


def test_generations_count_from_one_and_know_their_parent(store: Store) -> None:
    content = '{"cobs":"' + "x" * 100_000 + '"}'
    first = store.save_generation(generation(content))
    second = store.save_generation(generation("2"))
    assert (first.id, first.parent, second.id, second.parent) == (1, 0, 2, 1)
    assert store.generation(1) == first
    assert store.generation(1) == replace(generation(content), id=1)
    assert store.current_generation() == second


def test_same_digest_as_the_current_one_adds_no_generation(store: Store) -> None:
    first = store.save_generation(generation("1"))
    assert store.save_generation(replace(generation("1"), author="bob")) == first
    store.save_generation(generation("2"))
    assert store.save_generation(generation("1")).id == 3


def test_generations_are_told_without_their_contents(store: Store) -> None:
    assert store.generations() == ()
    saved = [store.save_generation(generation(str(number))) for number in range(3)]
    told = store.generations()
    assert [info.id for info in told] == [3, 2, 1]
    for info, whole in zip(reversed(told), saved, strict=True):
        parts = {name: getattr(whole, name) for name in ("id", "parent", "digest", "commit")}
        assert {name: getattr(info, name) for name in parts} == parts
        assert (info.author, info.time, info.message, info.reached) == ("ann", 1.0, "why", None)
        assert 0 < info.size < 30


def test_the_first_time_that_a_generation_was_reached_counts(store: Store) -> None:
    first = store.save_generation(generation("1"))
    store.mark_reached(1, 5.0)
    store.mark_reached(1, 6.0)
    store.mark_reached(2, 7.0)
    assert store.generation(1) == replace(first, reached=5.0)
    assert store.save_generation(generation("1")) == replace(first, reached=5.0)
    assert [info.reached for info in store.generations()] == [5.0]


def test_kept_files_are_stored_once(store: Store) -> None:
    one, two = hashlib.sha256(b"one\0").hexdigest(), hashlib.sha256(b"two").hexdigest()
    store.save_generation(generation("1"), {one: b"one\0"})
    store.save_generation(generation("2"), {one: b"one\0", two: b"two"})
    assert (store.file(one), store.file(two), store.file("0" * 64)) == (b"one\0", b"two", None)


def test_a_file_that_is_missing_comes_back_with_the_same_generation(store: Store) -> None:
    two = hashlib.sha256(b"two").hexdigest()
    store.save_generation(generation("1"))
    store.save_generation(generation("1"), {two: b"two"})
    assert store.file(two) == b"two"
    assert len(store.generations()) == 1


def test_deleted_generations_take_the_files_that_only_they_name(store: Store) -> None:
    digests = [hashlib.sha256(text).hexdigest() for text in (b"one", b"two")]
    one, two = digests
    for number, (names, files) in enumerate(
        [(digests, {one: b"one", two: b"two"}), ([two], {two: b"two"}), ([], {})], start=1
    ):
        content = json.dumps({"files": {f"site:{name}": name for name in names}, "number": number})
        store.save_generation(generation(content), files)
    store.delete_history(generations=[1, 7])
    assert [info.id for info in store.generations()] == [3, 2]
    assert (store.file(one), store.file(two)) == (None, b"two")
    store.delete_history(generations=iter([2]))
    assert store.file(two) is None
    assert store.generation(2) is None
    assert store.save_generation(generation("4")).id == 4


def test_deleted_generations_take_their_canaries_but_the_last_of_a_limit(store: Store) -> None:
    """That one may be about what the newest generation has, too."""
    canary = CanaryWritten(limit="a", generation=1, units=("h1",), through=True)
    for number in (1, 2, 3):
        store.save_generation(generation(str(number)))
    store.write([canary, replace(canary, generation=2, contents="y"), replace(canary, limit="b")])
    store.delete_history(generations=[1, 2])
    assert [(it.limit, it.generation) for it in store.canaries()] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("damaged", [b"", b"\0", zlib.compress(b"\xff"), zlib.compress(b"2")])
def test_a_damaged_generation_is_told_and_gets_a_successor(
    store: Store, url: str, damaged: bytes
) -> None:
    store.save_generation(generation("1"))
    overwrite(url, "cobweb_generations", damaged)
    with pytest.raises(StoreError, match=r"generation 1 in .* is damaged") as caught:
        store.generation(1)
    assert "backup" in caught.value.hint
    assert caught.value.exit_code == 1
    with pytest.raises(StoreError, match="is damaged"):
        store.current_generation()
    assert [info.id for info in store.generations()] == [1]
    again = store.save_generation(generation("1"))
    assert (again.id, again.parent) == (2, 1)
    assert store.current_generation() == again


@pytest.mark.parametrize("damaged", [b"", b"\0", zlib.compress(b"other")])
def test_a_damaged_file_is_none(store: Store, url: str, damaged: bytes) -> None:
    one = hashlib.sha256(b"one").hexdigest()
    store.save_generation(generation("1"), {one: b"one"})
    overwrite(url, "cobweb_files", damaged)
    assert store.file(one) is None


def overwrite(url: str, table: str, content: bytes) -> None:
    """Overwrite the contents of a table behind the store's back."""
    change = f"UPDATE {table} SET content = "  # noqa: S608  # no input
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(f"{change} ?", (content,))
        return
    with psycopg.connect(url.replace("+psycopg", "")) as server:
        server.execute(f"{change} %s".encode(), (content,))


def test_what_is_known_of_generations_is_fenced_by_the_site_lock(store: Store) -> None:
    store.save_generation(generation("1"))
    lock = store.site_lock(clock=lambda: 1.0)
    held = lock.acquire(this_process(run="r1", reason="apply", since=1.0))
    lock.break_lock("r1")
    for write in (
        lambda: store.save_generation(generation("2")),
        lambda: store.mark_reached(1, 1.0),
        lambda: store.delete_history(generations=[1]),
    ):
        with pytest.raises(LockedError):
            write()
    held.release()
    assert [(info.id, info.reached) for info in store.generations()] == [(1, None)]


FILES = {hashlib.sha256(text).hexdigest(): text for text in (b"one", b"two", b"three")}
SAVE, REACH, DELETE, REOPEN = "save", "reach", "delete", "reopen"
steps = st.lists(
    st.tuples(st.just(SAVE), st.sets(st.sampled_from(sorted(FILES))))
    | st.tuples(st.just(REACH), st.integers(1, 5))
    | st.tuples(st.just(DELETE), st.sets(st.integers(1, 4), max_size=2))
    | st.tuples(st.just(REOPEN), st.none()),
    max_size=8,
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_generations_are_what_was_saved_reached_and_not_deleted(
    fresh_url: Callable[[], str], tmp_path: Path, steps: list[tuple[str, Any]]
) -> None:
    url = fresh_url()
    store, known = open_store(url, tmp_path), dict[int, Generation]()
    try:
        for number, (step, told) in enumerate(steps):
            if step == SAVE:
                content = json.dumps({"files": sorted(told)})
                saved = store.save_generation(generation(content), {it: FILES[it] for it in told})
                assert saved == after(known, content, saved)
                known[saved.id] = saved
            elif step == REACH:
                store.mark_reached(told, float(number))
                if told in known and known[told].reached is None:
                    known[told] = replace(known[told], reached=float(number))
            elif step == DELETE:
                gone = told - {max(known, default=0)}
                store.delete_history(generations=gone)
                known = {each: it for each, it in known.items() if each not in gone}
            else:
                store.close()
                store = open_store(url, tmp_path)
            infos = store.generations()
            assert [store.generation(info.id) for info in infos] == [*reversed(known.values())]
            assert [info.reached for info in infos] == [
                it.reached for it in reversed(known.values())
            ]
            named = [name for name in FILES if any(name in it.content for it in known.values())]
            assert [store.file(name) for name in named] == [FILES[name] for name in named]
    finally:
        store.close()


def after(known: Mapping[int, Generation], content: str, saved: Generation) -> Generation:
    """Return what saving a content gives: the newest generation if it is that, or a new one."""
    newest = max(known, default=0)
    if newest and known[newest].content == content:
        return known[newest]
    return replace(saved, id=newest + 1, parent=newest, reached=None)
