"""What follows from the words of nodes: phases in their order, barriers, ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb_plugins.applications._book import (
    DONE,
    DOWN,
    RUNNING,
    Book,
    Ended,
    News,
    Word,
    advanced,
    barrier_ends,
    book_of,
    end_of,
)
from cobweb_plugins.applications._recovery import Trouble
from cobweb_plugins.applications._section import Application, applications_of

PHASES: dict[str, dict[str, Any]] = {
    "prepare": {"run": "a"},
    "fetch": {"run": "b"},
    "compute": {"run": "c", "after": ["prepare", "fetch"], "barrier": {}},
    "push": {"run": "d", "after": ["compute"]},
}
RING = {"on": "all", "phases": PHASES}
WELL, BAD = Word(ended=True), Word(ended=True, reason="ended with exit status 3")
ILL = Word(reason="it is sick", trouble=Trouble.HEALTH)
LOST = Word(reason="its supervisor is gone", trouble=Trouble.LOST)


def application(**changes: Any) -> Application:
    return applications_of({"ring": {**RING, **changes}})["ring"]


def begun(app: Application, hosts: int, missing: int = 0) -> Book:
    empty = Book(
        instance="i1",
        states={f"n{number}": {} for number in range(hosts)},
        missing={f"m{number}": "no answer" for number in range(missing)},
    )
    return advanced(app, empty, News(now=0))


def said(now: float = 0, **words: Mapping[str, Word]) -> News:
    return News(now=now, words=words)


@dataclass(frozen=True)
class Life:
    """An application, its number of members, and news in the order in which they come."""

    app: Application
    hosts: int
    news: list[News]


@st.composite
def lives(draw: st.DrawFn) -> Life:
    names = [f"p{number}" for number in range(draw(st.integers(1, 5)))]
    phases: dict[str, Any] = {}
    otherwise = st.sampled_from([{}, {"else": "continue"}, {"else": "abort"}])
    for at, name in enumerate(names):
        after: list[str] = []
        if at:
            after = draw(st.lists(st.sampled_from(names[:at]), unique=True))
        phases[name] = {"run": "x", "after": after}
        if draw(st.booleans()) and after:
            wait = draw(st.sampled_from([{}, {"wait": "3s"}]))
            phases[name]["barrier"] = {**wait, **draw(otherwise)}
    recover = {
        "on": draw(st.sets(st.sampled_from(["exit", "health", "lost"]))),
        "do": draw(st.sampled_from(["restart", "restart-all", "continue", "abort"])),
        "times": draw(st.integers(1, 3)),
        **draw(otherwise),
    }
    hosts = [f"n{number}" for number in range(draw(st.integers(1, 5)))]
    words = st.builds(
        replace, st.sampled_from([WELL, WELL, Word(), BAD, ILL, LOST]), starts=st.integers(1, 4)
    )
    reasons = st.dictionaries(st.sampled_from(hosts), st.just("why"), max_size=1)
    of_phases = st.dictionaries(st.sampled_from(names), words)
    news = st.builds(
        News,
        now=st.just(0.0),
        words=st.dictionaries(st.sampled_from(hosts), of_phases),
        errors=st.dictionaries(
            st.sampled_from(hosts), st.dictionaries(st.sampled_from(names), st.just("no room"))
        ),
        lost=reasons,
        left=reasons,
    )
    heard = draw(st.lists(news, max_size=20))
    return Life(
        app=application(
            phases=phases,
            members={"at_least": draw(st.sampled_from(["100%", "50%", 1]))},
            recover=recover,
        ),
        hosts=len(hosts),
        news=[replace(it, now=float(at)) for at, it in enumerate(heard)],
    )


def check(app: Application, before: Book, book: Book) -> None:
    """Raise where a step has broken what always holds."""
    times, may_restart = app.recovery.times, app.recovery.do == "restart"
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
            starts = book.started(host, phase)
            assert before.started(host, phase) <= starts
            if starts > max(1, before.started(host, phase)):
                assert may_restart, "what is started again is so by the policy"
                assert host not in before.failed
            if was is None:
                assert host not in book.failed
                assert all(before_is_done(book, host, it) for it in app.phases[phase].after)
                if app.phases[phase].barrier:
                    check_barrier(app, book, phase)
        if host in book.failed:
            assert RUNNING not in {book.wanted(host, it) for it in states}
    assert before.failed.items() <= book.failed.items()
    assert book.left.keys() <= book.failed.keys()
    assert times > 0


def before_is_done(book: Book, host: str, phase: str) -> bool:
    return book.states[host].get(phase) == DONE and host not in book.failed


def check_barrier(app: Application, book: Book, phase: str) -> None:
    """Raise where a barrier has opened for some members and not for all that have not failed."""
    live = book.states.keys() - book.failed.keys()
    assert {it for it in live if phase in book.states[it]} == live
    barrier = app.phases[phase].barrier
    assert barrier is not None
    enough = app.fewest(len(book.states) + len(book.missing))
    assert len(live) >= enough or barrier.otherwise == "continue"


@pytest.mark.gate("a hundred lives of applications, which take long to draw")
@given(lives())
def test_a_book_goes_forward_in_the_order_of_phases(life: Life) -> None:
    """Never does a phase begin too early, or is taken back; a new controller does the same."""
    book = begun(life.app, life.hosts)
    for news in life.news:
        found = advanced(life.app, book, news)
        check(life.app, book, found)
        assert advanced(life.app, book_of(book.body()), news) == found
        if found.ended:
            return
        if not news.errors:  # which are told once
            again = advanced(life.app, found, news)
            assert (again.states, again.starts) == (found.states, found.starts)
            assert again.failed == found.failed, "the same news says nothing new"
        book = found


@given(lives())
def test_in_the_end_every_application_ends(life: Life) -> None:
    book, names = begun(life.app, life.hosts), list(life.app.phases)
    for news in life.news:
        if not book.ended:
            book = advanced(life.app, book, news)
    most = Word(ended=True, starts=10)
    words = {host: dict.fromkeys(names, most) for host in book.states}
    for _ in names:
        if not book.ended:
            book = advanced(life.app, book, News(now=1000, words=words))
    if book.ended:
        assert book.why
        assert RUNNING not in {book.wanted(host, it) for host in book.states for it in names}
        return
    end = end_of(life.app, book)
    assert end is not None
    is_whole = all(set(its) == set(names) for its in book.states.values())
    assert (end is Ended.DONE) == (not book.failed and is_whole)


@given(lives())
def test_nobody_waits_for_longer_than_all_barriers_say(life: Life) -> None:
    """Whatever members say, a barrier with a time is open, or its application over, by then."""
    book = begun(life.app, life.hosts)
    for news in [*life.news, *(News(now=1000.0 + 10 * it) for it in range(20))]:
        if not book.ended:
            book = advanced(life.app, book, news)
    waiting = barrier_ends(life.app, book)
    is_over = book.ended or end_of(life.app, book)
    assert is_over or not waiting or max(waiting.values()) > 1190.0


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


def with_barrier(**barrier: Any) -> dict[str, Any]:
    return {**PHASES, "compute": {**PHASES["compute"], "barrier": barrier}}


def test_the_time_of_a_barrier_is_over_for_who_is_late() -> None:
    """It counts from the first look after what comes before it was started."""
    app = application(members={"at_least": "60%"}, phases=with_barrier(wait="10s"))
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 4), said(now=100))
    assert barrier_ends(app, book) == {"compute": 110}
    book = advanced(app, book, said(now=109.9, n0=done, n1=done, n2=done))
    assert "compute" not in book.phases()
    book = advanced(app, book_of(book.body()), said(now=110))
    assert book.failed == {"n3": "compute: not arrived within 10s"}
    assert [book.wanted("n3", it) for it in app.phases] == [DOWN] * 4
    assert book.states["n2"]["compute"] == RUNNING
    assert not barrier_ends(app, book)


def test_nobody_is_late_before_all_were_asked() -> None:
    """A controller that comes back after the time hears first who has arrived meanwhile."""
    app = application(members={"at_least": 1}, phases=with_barrier(wait="10s"))
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 2), said(now=100))
    news = said(now=200, n0=done)
    book = advanced(app, book, replace(news, is_whole=False))
    assert (book.failed, book.ended, "compute" in book.phases()) == ({}, None, False)
    book = advanced(app, book, said(now=201, n0=done, n1=done))
    assert [its.get("compute") for its in book.states.values()] == [RUNNING, RUNNING]


def test_a_second_barrier_counts_from_the_first_one() -> None:
    phases = with_barrier(wait="10s")
    phases["push"] = {**phases["push"], "barrier": {"wait": "1m"}}
    app = application(phases=phases)
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 1), said(now=100))
    book = advanced(app, book, said(now=105, n0=done))
    assert not barrier_ends(app, book)
    assert barrier_ends(app, advanced(app, book, said(now=107))) == {"push": 167}


@pytest.mark.parametrize(
    ("said_of", "barrier", "recover", "ended"),
    [
        ("none", {}, {}, Ended.ABORTED),
        ("none", {"else": "continue"}, {"else": "abort"}, None),
        ("none", {}, {"else": "continue"}, None),
        ("one", {}, {"else": "abort"}, Ended.ABORTED),
        ("one", {}, {"else": "continue"}, None),
    ],
)
def test_what_is_said_is_done_where_too_few_arrive(
    said_of: str, barrier: dict[str, str], recover: dict[str, str], ended: Ended | None
) -> None:
    phases = with_barrier(wait="10s", **barrier)
    app = application(members={"at_least": 2}, phases=phases, recover=recover)
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 3, missing=1), said(now=0))
    book = advanced(app, book, said(now=10, **({"n0": done} if said_of == "one" else {})))
    assert book.ended is ended
    arrived = 1 if said_of == "one" else 0
    if ended:
        lacking = "m0,n[1-2]" if arrived else "m0,n[0-2]"
        assert book.why == (
            f"the barrier of compute was reached by {arrived} of 4, of 2 that must;"
            f" lacking: {lacking}"
        )
    else:
        assert len(book.failed) == 3 - arrived
        assert (book.wanted("n0", "compute") == RUNNING) == bool(arrived)


@pytest.mark.parametrize(
    ("recover", "word", "answers"),
    [
        ({}, BAD, ["failed"]),
        ({"do": "restart", "times": 2}, BAD, ["restart", "restart", "failed"]),
        ({"do": "restart", "times": 1, "else": "abort"}, ILL, ["restart", "aborted"]),
        ({"do": "restart", "times": 1, "on": ["exit"], "else": "abort"}, ILL, ["aborted"]),
        ({"do": "restart", "on": ["health", "lost"]}, BAD, ["failed"]),
        ({"do": "restart", "times": 1, "on": ["lost"]}, LOST, ["restart", "failed"]),
        ({"do": "restart-all"}, BAD, ["again"]),
        ({"do": "abort"}, LOST, ["aborted"]),
        ({"do": "continue", "else": "abort"}, ILL, ["failed"]),
        ({"do": "restart"}, replace(BAD, is_final=True), ["failed"]),
        ({"do": "restart-all"}, replace(LOST, is_final=True), ["again"]),
    ],
    ids=str,
)
def test_policies(recover: dict[str, Any], word: Word, answers: list[str]) -> None:
    app = application(recover=recover)
    book, found = begun(app, 2), list[str]()
    for at in range(len(answers)):
        book = advanced(app, book, said(n1={"fetch": replace(word, starts=at + 1)}))
        failed = "failed" if "n1" in book.failed else "restart"
        found.append(str(book.ended or failed))
    assert found == answers
    assert "n0" not in book.failed


def test_the_next_attempt_is_the_last_one_of_its_times() -> None:
    app = application(recover={"do": "restart-all", "times": 2})
    books = [replace(begun(app, 2), attempt=it) for it in (1, 2, 3)]
    found = [advanced(app, it, said(n1={"fetch": BAD})) for it in books]
    assert [it.ended for it in found] == [Ended.AGAIN, Ended.AGAIN, None]
    assert found[-1].failed == {"n1": "fetch: ended with exit status 3"}


def test_who_is_lost_or_left_has_failed() -> None:
    app = application(recover={"do": "restart"})
    news = News(now=0, lost={"n0": "no answer for 10m"}, left={"n1": "it was away 3 times"})
    book = advanced(app, begun(app, 3), news)
    assert book.failed == {
        "n0": "prepare: no answer for 10m",
        "n1": "prepare: it was away 3 times",
    }
    assert book.left == {"n1": "it was away 3 times"}


def test_a_barrier_that_too_few_can_reach_ends_the_application() -> None:
    app = application()
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 2), said(n0=done, n1={"prepare": BAD}))
    assert "compute" not in book.phases()
    assert book.ended is Ended.ABORTED


def test_who_has_not_joined_counts_at_a_barrier() -> None:
    app = application(members={"at_least": "60%"})
    done = {"prepare": WELL, "fetch": WELL}
    book = advanced(app, begun(app, 3, missing=2), said(n0=done, n1=done, n2=done))
    assert "compute" in book.phases()
    book = advanced(app, begun(app, 3, missing=2), said(n0=done, n1=done, n2={"fetch": BAD}))
    assert "compute" not in book.phases()


def test_who_was_left_out_before_does_not_count_at_a_barrier() -> None:
    app = application()
    done = {"prepare": WELL, "fetch": WELL}
    book = replace(begun(app, 2, missing=1), left={"m0": "it was away 3 times"})
    assert "compute" in advanced(app, book, said(n0=done, n1=done)).phases()


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
