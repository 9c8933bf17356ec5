"""The page on the command line names all commands, schemas and exit codes, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobweb.cli import ExitCode
from cobweb.cli._draw import MOST_BOXES
from cobweb.cli._group import COMMANDS
from cobweb.cli.schema import schema_files

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
READ_BY_PEOPLE = {"site", "inventory", "pool-trace", "service-adapter"}


@pytest.fixture(scope="module")
def page() -> str:
    """Return the text of the page."""
    return PAGE.read_text(encoding="utf-8")


def _table(page: str, head: str) -> list[list[str]]:
    """Return the rows of the table whose first head cell is `head`, as cells."""
    rows = page[page.index(f"| {head} |") :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_page_lists_the_commands_in_their_order(page: str) -> None:
    assert [row[0].strip("`") for row in _table(page, "command")] == [*COMMANDS]


def test_the_page_lists_the_exit_codes(page: str) -> None:
    assert [int(row[0]) for row in _table(page, "code")] == [int(code) for code in ExitCode]


def test_the_page_names_the_schema_of_each_output(page: str) -> None:
    named = {row[1].strip("`") for row in _table(page, "output")}
    shipped = {name for name in schema_files() if "/" not in name}
    assert named == shipped - READ_BY_PEOPLE
    commands = re.findall(r"`(\w+)[^`]*`", "".join(row[0] for row in _table(page, "output")))
    assert set(commands) <= {*COMMANDS}


def test_the_page_knows_the_limit_of_drawings(page: str) -> None:
    assert f"more than {MOST_BOXES:,} objects" in page
