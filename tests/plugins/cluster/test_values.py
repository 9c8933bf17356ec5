"""Values of the command line mean what they mean in the files of a site."""

from __future__ import annotations

import pytest

from cobweb_plugins.cluster._values import value_of

TEXTS = (
    "NO",
    "on",
    "y",
    "0644",
    "22:22",
    "2030-01-31",
    "1.10",
    "1_000",
    "1e5",
    ".inf",
    ".nan",
    "0x1f",
)


@pytest.mark.parametrize("text", TEXTS)
def test_what_looks_like_something_else_stays_a_text(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0.5", 0.5),
        ("true", True),
        ("null", None),
        ("", None),
        ("'5'", "5"),
        ("[a, 1]", ["a", 1]),
        ("{a: {b: NO}}", {"a": {"b": "NO"}}),
    ],
)
def test_numbers_truths_and_collections_are_such(text: str, value: object) -> None:
    assert value_of(text) == value
