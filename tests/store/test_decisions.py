"""Decisions are kept by section and revision, and written by compare-and-set; on both databases."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.errors import ConflictError, StoreError
from cobweb.model import Decision, Decisions
from cobweb.store import Generation, Store, open_store
from tests.support.examples import examples

ON, OFF = {"on": True}, {"on": False}


def bodies(found: Decisions) -> dict[str, Any]:
    return {key: it.body for key, it in found.by_key.items()}


def test_a_section_begins_with_nothing_at_revision_0(store: Store) -> None:
    assert store.decisions("lamps") == Decisions()
    assert store.decision_history("lamps") == ()


def test_what_was_decided_is_read_back_with_author_reason_and_time(store: Store) -> None:
    body = {"on": True, "text": 'ä " \\ \n \0', "list": [1, 2.5, None, {"a": "b"}]}
    assert store.decide("lamps", 0, {"n1": body}, "ann", "it is dark", clock=lambda: 7.5) == 1
    made = Decision(
        section="lamps",
        key="n1",
        body=body,
        revision=1,
        author="ann",
        reason="it is dark",
        time=7.5,
    )
    assert store.decisions("lamps") == Decisions(revision=1, by_key={"n1": made})
    assert store.decision_history("lamps") == (made,)


def test_all_keys_of_one_write_have_one_revision(store: Store) -> None:
    assert store.decide("lamps", 0, {"n2": ON, "n1": OFF}, "ann", "x") == 1
    assert store.decide("lamps", 1, {"n1": None, "n3": ON}, "ann", "y") == 2
    assert bodies(store.decisions("lamps")) == {"n2": ON, "n3": ON}
    assert [(it.key, it.revision) for it in store.decision_history("lamps")] == [
        ("n1", 2),
        ("n3", 2),
        ("n1", 1),
        ("n2", 1),
    ]


def test_an_earlier_revision_can_be_read_again(store: Store) -> None:
    for revision, body in enumerate([ON, OFF, None, ON]):
        store.decide("lamps", revision, {"n1": body}, "ann", "x")
    found = [bodies(store.decisions("lamps", at)) for at in range(6)]
    assert found == [{}, {"n1": ON}, {"n1": OFF}, {}, {"n1": ON}, {"n1": ON}]
    assert [store.decisions("lamps", at).revision for at in (0, 2, 9)] == [0, 2, 4]


def test_another_revision_than_the_expected_one_stores_nothing(store: Store) -> None:
    store.decide("lamps", 0, {"n1": ON}, "ann", "x")
    for expected in (0, 2):
        with pytest.raises(ConflictError, match=f"lamps is at revision 1, not {expected}") as found:
            store.decide("lamps", expected, {"n1": OFF, "n2": ON}, "bob", "y")
        assert found.value.revision == 1
    assert bodies(store.decisions("lamps")) == {"n1": ON}


def test_sections_have_revisions_of_their_own(store: Store) -> None:
    store.decide("lamps", 0, {"n1": ON}, "ann", "x")
    store.decide("pools", 0, {"n1": {"service": "batch"}}, "ann", "x")
    found = store.decisions_of({"pools": None, "lamps": 0, "metal": None})
    assert {name: it.revision for name, it in found.items()} == {"pools": 1, "lamps": 0, "metal": 0}


def test_no_keys_make_no_revision(store: Store) -> None:
    assert store.decide("lamps", 0, {}, "ann", "x") == 0
    with pytest.raises(ConflictError):
        store.decide("lamps", 3, {}, "ann", "x")


def test_of_two_who_have_seen_the_same_one_decides(url: str, tmp_path: Path) -> None:
    start, won, lost = threading.Barrier(4), list[str](), list[str]()

    def decide(name: str) -> None:
        with open_store(url, tmp_path) as store:
            for expected in range(20):
                start.wait()
                try:
                    store.decide("lamps", expected, {f"{name}{expected}": ON}, name, "x")
                    won.append(name)
                except ConflictError:
                    lost.append(name)

    open_store(url, tmp_path).close()
    people = [threading.Thread(target=decide, args=(name,)) for name in "abcd"]
    for each in people:
        each.start()
    for each in people:
        each.join()
    with open_store(url, tmp_path) as store:
        assert store.decisions("lamps").revision == len(won) == 20
        assert len(store.decision_history("lamps")) == 20
    assert len(lost) == 60


def test_who_reads_only_cannot_decide(url: str, tmp_path: Path) -> None:
    open_store(url, tmp_path).close()
    with open_store(url, tmp_path, create=False) as store, pytest.raises(StoreError):
        store.decide("lamps", 0, {"n1": ON}, "ann", "x")


def test_a_missing_database_has_decided_nothing(url: str, tmp_path: Path) -> None:
    with open_store(url, tmp_path, create=False) as store:
        assert store.decisions("lamps") == Decisions()


def generation(content: str, decisions: Mapping[str, int]) -> Generation:
    digest = hashlib.sha256(content.encode()).hexdigest()
    return Generation(
        digest=digest, author="a", time=1.0, message="", content=content, decisions=decisions
    )


def test_a_generation_names_the_revisions_that_it_was_made_from(store: Store) -> None:
    saved = store.save_generation(generation("1", {"lamps": 3}))
    assert store.generation(saved.id) == saved
    assert store.generations()[0].decisions == saved.decisions == {"lamps": 3}


def test_the_same_site_by_newer_decisions_is_the_same_generation(store: Store) -> None:
    first = store.save_generation(generation("1", {"lamps": 3}))
    again = store.save_generation(generation("1", {"lamps": 5}))
    assert (again.id, again.decisions) == (first.id, {"lamps": 5})
    assert store.generations()[0].decisions == {"lamps": 5}


WRITES = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from([ON, OFF, None]), min_size=1),
    min_size=1,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(80))
@given(writes=WRITES, data=st.data())
def test_gc_keeps_what_generations_were_made_from_and_all_after_it(
    fresh_url: Callable[[], str], tmp_path: Path, writes: list[dict[str, Any]], data: st.DataObject
) -> None:
    named = data.draw(st.lists(st.integers(0, len(writes)), min_size=2, max_size=4).map(sorted))
    with open_store(fresh_url(), tmp_path) as store:
        for revision, each in enumerate(writes):
            store.decide("lamps", revision, each, "ann", "x")
        for number, revision in enumerate(named):
            store.save_generation(generation(str(number), {"lamps": revision}))
        kept = {*named[1:], *range(named[-1], len(writes) + 1)}
        before = {at: bodies(store.decisions("lamps", at)) for at in kept}
        rows = len(store.decision_history("lamps"))
        store.delete_history(generations=[1])
        assert {at: bodies(store.decisions("lamps", at)) for at in kept} == before
        assert store.decisions("lamps").revision == len(writes)
        seen = {
            (key, it.revision)
            for at in kept
            for key, it in store.decisions("lamps", at).by_key.items()
        }
        left = store.decision_history("lamps")
        newest = {
            key: max(it.revision for it in left if it.key == key)
            for key in "abc"
            for it in left
            if it.key == key
        }
        needless = [
            it
            for it in left
            if it.body is not None
            and (it.key, it.revision) not in seen
            and it.revision != newest[it.key]
        ]
        assert not needless
        assert len(left) <= rows
