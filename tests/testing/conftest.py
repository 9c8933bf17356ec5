"""Run checks of the conformance kit and collect those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from cobweb.testing import NamedCheck

Failing = Callable[[Iterable[NamedCheck]], set[str]]


@pytest.fixture
def failing() -> Failing:
    """Return a function that names the failing checks, and sees to it that each says something."""
    return _failing


def _failing(checks: Iterable[NamedCheck]) -> set[str]:
    texts: dict[str, str] = {}
    for check in checks:
        try:
            check()
        except AssertionError as error:
            texts[check.name] = str(error)
    assert all(texts.values()), f"a check fails without a word: {texts}"
    return set(texts)
