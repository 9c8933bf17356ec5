"""The words of the glossary are the words of the code."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [
    (name, [it[1:-1].strip() for it in re.findall(r"`[^`]*`", where)])
    for name, _, where in ROW.findall(PAGE.read_text())
    if "`cobweb." in where
]


def test_the_table_is_found() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("word", "places"), ROWS, ids=[word for word, _ in ROWS])
def test_a_word_names_its_class(word: str, places: list[str]) -> None:
    for place in places:
        module, _, name = place.rpartition(".")
        found = getattr(import_module(module), name)
        assert found.__module__ == module, f"{word}: {place} only passes on"
        assert found.__doc__, f"{word}: {place} says nothing of itself"


def test_a_word_has_one_place() -> None:
    every = [place for _, places in ROWS for place in places]
    assert len(every) == len(set(every))
