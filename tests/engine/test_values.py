"""Effects and inputs are values: equal by class and content, and never changed."""

from __future__ import annotations

import pytest

from cobweb.engine import CheckEnded, Effect, LockGranted, LockReleased, TransitionEnded
from cobweb.model import CobId

A, B = CobId("h/a"), CobId("h/b")


def test_equal_is_what_has_the_same_class_and_content() -> None:
    """A grant is no release, though it has the same fields."""
    grant: Effect = LockGranted(cob=A, holder=B, state="up")
    assert grant == LockGranted(cob=A, holder=B, state="up")
    assert not grant != LockGranted(cob=A, holder=B, state="up")  # noqa: SIM202 - the other operator
    assert grant != LockGranted(cob=A, holder=B, state="down")
    other: Effect = LockReleased(cob=A, holder=B, state="up")
    assert grant != other
    assert not grant == other  # noqa: SIM201 - the other operator
    assert len({grant, other}) == 2


def test_a_value_is_not_changed() -> None:
    """Neither an effect nor an input."""
    for value, name in (
        (LockGranted(cob=A, holder=B, state="up"), "state"),
        (CheckEnded(cob=A, state="up"), "state"),
        (TransitionEnded(cob=A, ok=True), "ok"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, name, None)
