"""Tables fit the terminal and lose nothing."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb._tables import Cell, Column, Tone
from cobweb.cli._output import Output
from cobweb.cli._render import table_lines, write_table
from cobweb.cli._text import cells

COLUMNS = (
    Column(title="COB"),
    Column(title="SPEC", flexible=True),
    Column(title="SECONDS", right=True),
)


def test_a_narrow_table_has_its_natural_width() -> None:
    rows = [("app01/app", "port 80", "1.5"), ("db", "x", "10")]
    assert list(table_lines(Output(), COLUMNS, rows)) == [
        "COB        SPEC     SECONDS",
        "app01/app  port 80      1.5",
        "db         x             10",
    ]


def test_the_flexible_column_is_wrapped() -> None:
    _, first, *more = table_lines(Output(width=40), COLUMNS, [("app01/app", "word " * 10, "1")])
    assert first == "app01/app  word word word word         1"
    assert more == ["           word word word word", "           word word"]


def test_no_word_is_broken_where_another_column_has_spaces() -> None:
    columns = (Column(title="OBJECT", flexible=True), Column(title="SINCE"))
    lines = table_lines(Output(width=28), columns, [("k-1/pgbouncer", "2030-01-31 12:00:00")])
    assert list(lines) == [
        "OBJECT         SINCE",
        "k-1/pgbouncer  2030-01-31",
        "               12:00:00",
    ]


@given(st.lists(st.tuples(*[st.text(max_size=70)] * 3), max_size=4), st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    for line in table_lines(Output(width=width), COLUMNS, rows):
        assert cells(line) <= width


@given(st.lists(st.tuples(*[st.text(max_size=30)] * 3), max_size=4), st.integers(40, 120))
def test_the_short_way_of_a_row_without_colour_gives_the_same(
    rows: list[tuple[str, ...]], width: int
) -> None:
    """A row in colour always goes the long way."""
    plain, colored = (
        table_lines(Output(width=width, color=color), COLUMNS, rows) for color in (False, True)
    )
    assert list(plain) == [click.unstyle(line) for line in colored]


def test_colours_are_there_only_where_asked_for() -> None:
    rows = [(Cell(text="up", tone=Tone.GOOD), "x", "1")]
    assert "\x1b[32m" in list(table_lines(Output(color=True), COLUMNS, rows))[1]
    assert "\x1b" not in "".join(table_lines(Output(), COLUMNS, rows))


def test_foreign_escape_sequences_are_neutralised() -> None:
    rows = [("\x1b[2J", Cell(text="\x1b]0;t\x07"), "")]
    lines = list(table_lines(Output(), COLUMNS, rows))
    assert "\\x1b[2J" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_a_table_without_rows_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(Output(), COLUMNS, [])
    assert capsys.readouterr().out == ""
