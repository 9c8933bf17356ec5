"""What follows from the words of nodes: phases in their order, barriers, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb_plugins.applications._book import (
    DONE,
    RUNNING,
    Book,
    Ended,
    Word,
    advanced,
    book_of,
    end_of,
)
from cobweb_plugins.applications._section import Application, applications_of

RING = {
    "on": "all",
    "phases": {
        "prepare": {"run": "a"},
        "fetch": {"run": "b"},
        "compute": {"run": "c", "after": ["prepare", "fetch"], "barrier": {}},
        "push": {"run": "d", "after": ["compute"]},
    },
}
WELL, BAD = Word(ended=True), Word(ended=True, reason="ended with exit status 3")


def application(**changes: Any) -> Application:
    return applications_of({"ring": {**RING, **changes}})["ring"]


def begun(app: Application, hosts: int, missing: int = 0) -> Book:
    empty = Book(
        instance="i1",
        states={f"n{number}": {} for number in range(hosts)},
        missing={f"m{number}": "no answer" for number in range(missing)},
    )
    return advanced(app, empty, {})


def said(**words: Mapping[str, Word]) -> dict[str, Mapping[str, Word]]:
    return dict(words)


@st.composite
def lives(draw: st.DrawFn) -> tuple[Application, int, list[tuple[int, int, Word]]]:
    """Return an application, its number of members, and words in the order in which they come."""
    names = [f"p{number}" for number in range(draw(st.integers(1, 5)))]
    phases: dict[str, Any] = {}
    barriers = st.booleans()
    for at, name in enumerate(names):
        after: list[str] = []
        if at:
            after = draw(st.lists(st.sampled_from(names[:at]), unique=True))
        phases[name] = {"run": "x", "after": after}
        if draw(barriers) and after:
            phases[name]["barrier"] = {}
    hosts = draw(st.integers(1, 5))
    words = st.tuples(
        st.integers(0, hosts - 1),
        st.integers(0, len(names) - 1),
        st.sampled_from([WELL, WELL, WELL, Word(), BAD, Word(healthy=False, reason="it is sick")]),
    )
    share = draw(st.sampled_from(["100%", "50%", 1]))
    app = application(phases=phases, members={"at_least": share})
    return app, hosts, draw(st.lists(words, max_size=40))


def check(app: Application, before: Book, book: Book) -> None:
    """Raise where a step has broken what always holds."""
    for host, states in book.states.items():
        assert before.states[host].keys() <= states.keys()
        for phase, state in states.items():
            was = before.states[host].get(phase)
            assert (was, state) in {
                (None, RUNNING),
                (RUNNING, RUNNING),
                (RUNNING, DONE),
                (DONE, DONE),
            }
            if was is None:
                assert host not in book.failed
                assert all(before_is_done(book, host, it) for it in app.phases[phase].after)
                if app.phases[phase].barrier:
                    check_barrier(app, book, phase)
    assert before.failed.items() <= book.failed.items()


def before_is_done(book: Book, host: str, phase: str) -> bool:
    return book.states[host].get(phase) == DONE and host not in book.failed


def check_barrier(app: Application, book: Book, phase: str) -> None:
    for host in book.states.keys() - book.failed.keys():
        assert all(before_is_done(book, host, it) for it in app.phases[phase].after)
    arrived = len(book.states) - len(book.failed)
    assert arrived >= app.fewest(len(book.states) + len(book.missing))


@given(lives())
def test_a_book_goes_forward_in_the_order_of_phases(
    life: tuple[Application, int, list[tuple[int, int, Word]]],
) -> None:
    """Never does a phase begin too early, or is taken back; a new controller does the same."""
    app, hosts, words = life
    book, names = begun(app, hosts), list(app.phases)
    for at, phase, word in words:
        heard = {f"n{at}": {names[phase]: word}}
        found = advanced(app, book, heard)
        check(app, book, found)
        assert advanced(app, book_of(book.body()), heard) == found
        assert advanced(app, found, heard) == found, "the same word says nothing new"
        book = found


@given(lives())
def test_in_the_end_every_application_ends(
    life: tuple[Application, int, list[tuple[int, int, Word]]],
) -> None:
    app, hosts, words = life
    book, names = begun(app, hosts), list(app.phases)
    for at, phase, word in words:
        book = advanced(app, book, {f"n{at}": {names[phase]: word}})
    for _ in names:
        book = advanced(app, book, {host: dict.fromkeys(names, WELL) for host in book.states})
    end = end_of(app, book)
    assert end is not None
    is_whole = all(set(its) == set(names) for its in book.states.values())
    assert (end is Ended.DONE) == (not book.failed and is_whole)


def test_a_barrier_waits_for_all_and_opens_for_those_that_are_enough() -> None:
    app = application(members={"at_least": "60%"})
    book = begun(app, 4)
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, book, said(n0=done, n1=done, n2=done))
    assert "compute" not in book.phases()
    book = advanced(app, book, said(n3={"prepare": WELL, "fetch": BAD}))
    assert book.failed == {"n3": "fetch: ended with exit status 3"}
    assert [it for it, its in book.states.items() if its.get("compute") == RUNNING] == [
        "n0",
        "n1",
        "n2",
    ]


def test_a_barrier_that_too_few_can_reach_ends_the_application() -> None:
    app = application()
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 2), said(n0=done, n1={"prepare": BAD}))
    assert "compute" not in book.phases()
    assert end_of(app, book) is Ended.FAILED


def test_who_has_not_joined_counts_at_a_barrier() -> None:
    app = application(members={"at_least": "60%"})
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 3, missing=2), said(n0=done, n1=done, n2=done))
    assert "compute" in book.phases()
    book = advanced(app, begun(app, 3, missing=2), said(n0=done, n1=done, n2={"fetch": BAD}))
    assert "compute" not in book.phases()


def test_what_was_stopped_is_wanted_nowhere() -> None:
    book = begun(application(), 1)
    assert book.wanted("n0", "prepare") == RUNNING
    assert book.wanted("n0", "push") == "down"
    assert replace(book, ended=Ended.STOPPED).wanted("n0", "prepare") == "down"


@pytest.mark.parametrize(
    ("at_least", "invited", "fewest"),
    [("100%", 7, 7), ("95%", 50, 48), ("95%", 20, 19), ("1%", 3, 1), (3, 10, 3)],
)
def test_so_many_must_join(at_least: str | int, invited: int, fewest: int) -> None:
    assert application(members={"at_least": at_least}).fewest(invited) == fewest


@pytest.mark.parametrize(
    ("phases", "place", "message"),
    [
        pytest.param(
            {"a": {"run": "x", "after": ["b"]}, "b": {"run": "x", "after": ["a"]}},
            ("phases", "a", "after"),
            "phases wait for each other in a circle: a after b after a",
            id="circle",
        ),
        pytest.param(
            {"a": {"run": "x", "after": ["a"]}},
            ("phases", "a", "after"),
            "phases wait for each other in a circle: a after a",
            id="itself",
        ),
        pytest.param(
            {"a": {"run": "x", "after": ["c"]}, "b": {"run": "x", "after": ["a"]}},
            ("phases", "a", "after", 0),
            "there is no phase `c`",
            id="unknown",
        ),
        pytest.param(
            {"a": {"run": "x", "barrier": {}}},
            ("phases", "a", "barrier"),
            "the phase `a` has a barrier, and is after no other one",
            id="barrier",
        ),
        pytest.param(
            {"a": {"run": "x", "timeout": "soon"}},
            ("phases", "a", "timeout"),
            "`soon` is no duration; write 90, 90s, 10m, 1h30m or 2d",
            id="duration",
        ),
    ],
)
def test_phases_that_cannot_be_are_told(
    phases: dict[str, Any], place: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        application(phases=phases)
    assert [(keys, said) for keys, said, _ in caught.value.problems] == [
        (("applications", "ring", *place), message)
    ]
