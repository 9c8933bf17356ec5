"""The state-lock protocol of one pair: lost, doubled, late and stale mail changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import Message, MessageKind, Receive
from cobweb.errors import ProtocolError
from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import graph_of

A, B = CobId("x/a"), CobId("y/b")
GRAPH = graph_of("x/a y/b", "x/a down>up y/b up")
NEEDY = graph_of("x/a y/b y/d", "x/a down>up y/b up", "y/b up y/d up")
LIFE = 1 << 20


def holder(state: str = "down", **options: Any) -> Drive:
    """Return the engine of the holder."""
    return Drive(GRAPH, {"x/a": state}, owned={A}, **options)


def locked(**options: Any) -> Drive:
    """Return the engine of the locked object."""
    return Drive(GRAPH, {"y/b": "up"}, owned={B}, **options)


def post(drive: Drive, message: Message) -> list[str]:
    """Deliver a message."""
    return drive.step(Receive(message=message))


def test_a_request_and_its_grant_cross_the_border() -> None:
    """Two engines that share nothing do what one would."""
    a, b = holder(), locked()
    assert post(b, a.sent[0]) == ["x/a gets y/b up", "y/b sends x/a grant up"]
    assert post(a, b.sent[0]) == ["x/a down -> up [y/b up]"]
    assert a.ended("x/a")[1:] == ["x/a releases y/b up", "x/a sends y/b release"]
    assert post(b, a.sent[1]) == ["x/a releases y/b up"]
    assert b.engine.locks() == ()


def test_a_doubled_request_is_answered_again_and_changes_nothing() -> None:
    """The second answer is for a lost grant."""
    a, b = holder(), locked()
    post(b, a.sent[0])
    assert post(b, a.sent[0]) == ["y/b sends x/a grant up"]
    assert b.engine.locks() == ((B, A, "up"),)


def test_a_late_request_does_not_bring_a_released_lock_back() -> None:
    """The stamp of the release is newer."""
    a, b = holder(), locked()
    post(b, a.sent[0])
    post(a, b.sent[0])
    a.ended("x/a")
    post(b, a.sent[1])
    assert post(b, a.sent[0]) == []
    assert b.engine.locks() == ()


def test_a_release_before_its_request_wins() -> None:
    """Mail may overtake; the newest word counts."""
    a, b = holder(), locked()
    post(b, replace(a.sent[0], kind=MessageKind.RELEASE, state="", seq=2))
    assert post(b, a.sent[0]) == []


def test_a_stale_grant_is_not_believed_and_the_holder_says_where_it_stands() -> None:
    """A grant speaks of one request only."""
    a, b = holder(), locked()
    post(b, a.sent[0])
    stale = replace(b.sent[0], seq=0)
    assert post(a, stale) == ["x/a sends y/b request up"]
    assert post(a, replace(b.sent[0], state="down")) == ["x/a sends y/b request up"]
    assert post(a, replace(b.sent[0], known=1)) == ["x/a sends y/b request up"]


def test_a_grant_that_nobody_asked_for_is_given_back() -> None:
    """What a former life asked for ends when the new one hears of it."""
    a = holder("up")
    gift = Message(
        kind=MessageKind.GRANT,
        sender=B,
        receiver=A,
        state="up",
        incarnation=LIFE,
        seq=4,
        generation=0,
        known=LIFE - 1,
    )
    assert post(a, gift) == ["x/a sends y/b release"]
    assert post(a, gift) == ["x/a sends y/b release"]
    assert a.sent[0] == a.sent[1]


def test_a_holder_that_is_checked_keeps_quiet() -> None:
    """It has nothing to say before it knows its state."""
    a = Drive(GRAPH, owned={A})
    gift = Message(
        kind=MessageKind.GRANT,
        sender=B,
        receiver=A,
        state="up",
        incarnation=LIFE,
        seq=4,
        generation=0,
    )
    assert post(a, gift) == []


def test_another_generation_is_not_heard() -> None:
    """Generations switch in a coordinated way, not by mail."""
    a, b = holder(generation=1), locked(generation=2)
    assert post(b, a.sent[0]) == []


def test_a_recall_is_answered_by_giving_back_and_asking_again() -> None:
    """A holder that is not in its transition yields at once."""
    graph = graph_of(
        "x/a x/w y/b y/c", "x/a down>up y/b up", "x/a down>up x/w up", "y/c down>up y/b down"
    )
    a = Drive(graph, {"x/a": "down", "x/w": "down"}, owned={A, CobId("x/w")})
    b = Drive(graph, {"y/b": "up"}, owned={B, CobId("y/c")})
    post(b, a.sent[0])
    post(a, b.sent[0])
    assert b.checked("y/c", "down")[-1] == "y/b sends x/a recall up"
    assert post(a, b.sent[1]) == [
        "x/a releases y/b up",
        "x/a asks y/b up",
        "x/a sends y/b request up",
    ]
    assert post(a, b.sent[1]) == ["x/a sends y/b request up"]
    assert post(b, a.sent[1]) == ["x/a releases y/b up", "y/b up -> down"]


def test_a_recall_that_overtakes_its_grant_says_both() -> None:
    """A recall means: you have it, please give it back."""
    a, b = holder(), locked()
    post(b, a.sent[0])
    early = replace(b.sent[0], kind=MessageKind.RECALL)
    assert post(a, early)[:2] == ["x/a releases y/b up", "x/a asks y/b up"]
    assert post(a, b.sent[0]) == ["x/a sends y/b request up"]


def test_resend_repeats_the_last_word_of_each_pair() -> None:
    """Lost mail is said again; nothing has to be remembered of what was lost."""
    a, b = holder(), locked()
    assert [send.message for send in a.engine.resend()] == a.sent
    post(b, a.engine.resend()[0].message)
    assert [send.message for send in b.engine.resend()] == b.sent
    post(a, b.engine.resend()[0].message)
    a.ended("x/a")
    assert [send.message.kind for send in a.engine.resend()] == [MessageKind.RELEASE]


def test_a_holder_in_another_life_takes_over_its_lock_and_ends_it() -> None:
    """A lock of an earlier life stays until its holder has been checked, then it goes."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up")
    drive = Drive(graph, {"x/b": "up"}, locks=(("x/b", "x/a", "up"),), incarnation=2)
    assert drive.first == ["x/a gets x/b up", "x/a check", "x/b is up (journal)"]
    assert drive.engine.locks() == (("x/b", "x/a", "up"),)
    assert drive.checked("x/a", "up") == ["x/a is up (check)", "x/a releases x/b up"]
    assert drive.engine.locks() == ()


def test_of_two_grants_of_one_pair_the_last_one_stands() -> None:
    """Whoever wrote the journal: an object has one lock on another."""
    drive = Drive(GRAPH, {B: "up"}, locks=((B, A, "down"), (B, A, "up")))
    assert drive.engine.locks() == ((B, A, "up"),)


def test_a_holder_in_another_life_that_wants_its_lock_uses_it() -> None:
    """What is wanted again is not asked for again."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up")
    drive = Drive(graph, {"x/b": "up"}, locks=(("x/b", "x/a", "up"),), incarnation=2)
    assert drive.checked("x/a", "down")[1:] == ["x/a down -> up [x/b up]"]


def test_a_restored_lock_is_not_ended_by_mail_of_before() -> None:
    """Only a word that was said to this life ends a grant of the last one."""
    a = holder()
    b = locked(locks=((B, A, "up"),), incarnation=2)
    assert post(b, a.sent[0]) == []
    stale = replace(a.sent[0], kind=MessageKind.RELEASE, state="", seq=9)
    assert post(b, stale) == []
    told = b.engine.resend()[0].message
    assert post(a, told) == ["x/a sends y/b request up"]
    assert post(b, a.sent[1]) == ["x/a gets y/b up", "y/b sends x/a grant up"]
    assert post(a, b.sent[0]) == ["x/a down -> up [y/b up]"]


def test_a_restored_lock_is_ended_by_a_word_to_this_life() -> None:
    """The holder has heard of the new incarnation and does not want it any more."""
    a, b = holder("up"), locked(locks=((B, A, "up"),), incarnation=2)
    post(a, b.engine.resend()[0].message)
    assert post(b, a.sent[0]) == ["x/a releases y/b up"]
    assert b.engine.locks() == ()


def test_a_restored_wish_hears_a_recall_of_any_stamp() -> None:
    """The number under which an earlier life asked is not known any more."""
    graph = graph_of("x/a x/w y/b", "x/a down>up y/b up", "x/a down>up x/w up")
    owned = {A, CobId("x/w")}
    drive = Drive(graph, {"x/a": "down"}, owned=owned, locks=((B, A, "up"),), incarnation=2)
    assert drive.engine.resend() == ()
    recall = Message(
        kind=MessageKind.RECALL,
        sender=B,
        receiver=A,
        state="up",
        incarnation=LIFE,
        seq=7,
        generation=0,
        known=LIFE,
    )
    assert post(drive, recall)[:2] == ["x/a releases y/b up", "x/a asks y/b up"]


def test_mail_from_elsewhere_in_the_name_of_an_own_object_is_not_heard() -> None:
    """What was sent before the object changed hands comes late: it speaks from here alone now."""
    a = holder()
    both = Drive(GRAPH, {"x/a": "up", "y/b": "up"})
    assert post(both, a.sent[0]) == []
    assert both.engine.locks() == ()


def test_a_request_for_a_state_that_the_type_lacks_moves_nobody() -> None:
    """The locked object keeps its goal; the requester waits."""
    a, b = holder(), locked()
    assert post(b, replace(a.sent[0], state="odd")) == []
    assert b.engine.target(B) == "up"


def test_mail_for_somebody_else_is_refused() -> None:
    """The transport's mistake is told and nothing changes."""
    a, b = holder(), locked()
    before = a.engine.states()
    with pytest.raises(ProtocolError, match="y/b is not owned"):
        post(a, a.sent[0])
    assert a.engine.states() == before
    assert b.engine.idle()


def test_a_lock_lent_on_top_is_recalled_first() -> None:
    """A holder that has granted on top of a lock recalls that, then gives the lock back (P3)."""
    graph = graph_of(
        "x/a x/b x/d x/w x/z",
        "x/a down>up x/b up",
        "x/a down>up x/w up",
        "x/b up x/d up",
        "x/z down>up x/d down",
    )
    drive = Drive(graph, {"x/a": "down", "x/b": "up", "x/d": "up", "x/w": "down"})
    assert drive.engine.locks() == (("x/b", "x/a", "up"), ("x/d", "x/b", "up"))
    assert drive.checked("x/z", "down")[1:] == [
        "x/z asks x/d down",
        "x/b is recalled from x/d up",
        "x/a is recalled from x/b up",
        "x/a releases x/b up",
        "x/a asks x/b up",
        "x/b releases x/d up",
        "x/b asks x/d up",
        "x/d up -> down",
    ]
