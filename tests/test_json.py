"""Indented JSON is that of the standard library, byte for byte."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb._json import indented

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none())
DATA = st.recursive(
    SCALARS,
    lambda some: st.one_of(
        st.lists(some, max_size=4),
        st.tuples(some, some),
        st.dictionaries(KEYS, some, max_size=4),
    ),
    max_leaves=20,
)


@given(data=DATA, indent=st.integers(0, 4), ascii_only=st.booleans())
def test_the_bytes_are_those_of_the_standard_library(
    *, data: Any, indent: int, ascii_only: bool
) -> None:
    text = "".join(indented(data, indent=indent, ascii_only=ascii_only))
    assert text == json.dumps(data, indent=indent, ensure_ascii=ascii_only)


def test_subclasses_are_what_they_are() -> None:
    text, number = type("Text", (str,), {}), type("Number", (float,), {})
    data = {"a": text("é"), text("b"): number(1.5), "c": [number(math.inf)]}
    assert "".join(indented(data, indent=1, ascii_only=True)) == json.dumps(data, indent=1)


@pytest.mark.parametrize("data", [{("a",): 1}, [object()], {"a": {"b": {"c": {"d": {1}}}}}])
def test_what_is_no_json_is_refused(data: Any) -> None:
    with pytest.raises(TypeError):
        list(indented(data, indent=2, ascii_only=False))


def test_a_long_text_comes_in_pieces() -> None:
    data = {"stages": [[{"cob": f"h/{number}"} for number in range(100)]]}
    assert max(map(len, indented(data, indent=2, ascii_only=False))) < 50
