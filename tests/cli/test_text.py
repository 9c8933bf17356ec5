"""Text that is shown is safe for a terminal and fits its width."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb._text import plain
from cobweb.cli._output import as_json, as_yaml
from cobweb.cli._text import cells, count, wrap

TEXTS = st.text(max_size=60)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("web01", "web01"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x9b2J", "\\x9b2J"),
        ("\x7f", "\\x7f"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("größe 日本", "größe 日本"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_written_out(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@given(TEXTS)
def test_plain_text_never_holds_a_control_character(text: str) -> None:
    assert not [c for c in plain(text) if unicodedata.category(c) in {"Cc", "Cs"}]


@given(st.lists(TEXTS))
def test_json_is_the_same_data_without_raw_control_characters(values: list[str]) -> None:
    text = as_json(values)
    assert json.loads(text) == values
    assert not [c for c in text if unicodedata.category(c) == "Cc" and c != "\n"]
    assert "\u202e" not in text


def test_yaml_escapes_what_could_fool_a_reader() -> None:
    text = as_yaml({"name": "\x1b[2J", "bidi": "\u202e"})
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_yaml_keeps_letters_of_all_languages_and_the_order() -> None:
    assert as_yaml({"z": "größe", "a": 1}) == "z: größe\na: 1\n"


@given(TEXTS.map(plain), st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short", ["short"]),
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("/srv/data/file", ["/srv/", "data/file"]),
        ("abcdefghijklm", ["abcdefghi", "jklm"]),
    ],
)
def test_wrapping_breaks_where_it_reads_well(text: str, lines: list[str]) -> None:
    assert wrap(text, 9) == lines


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [(1, "host", "", "1 host"), (0, "host", "", "0 hosts"), (2, "way", "ways", "2 ways")],
)
def test_counts_have_the_right_form(number: int, noun: str, plural: str, text: str) -> None:
    assert count(number, noun, plural) == text
