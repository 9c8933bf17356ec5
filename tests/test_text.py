"""A text that is too long keeps its beginning and its end."""

from __future__ import annotations

import pytest

from cobweb._text import shortened


@pytest.mark.parametrize(
    ("text", "longest", "told"),
    [
        ("", 7, ""),
        ("a" * 7, 7, "a" * 7),
        ("abcdefgh", 7, "a ... h"),
        ("abcdefghi", 8, "a ... hi"),
        (f"begin{'x' * 5000}end", 13, "begi ... xend"),
    ],
)
def test_the_middle_goes(text: str, longest: int, told: str) -> None:
    assert shortened(text, longest) == told
    assert len(shortened(text, longest)) <= longest
