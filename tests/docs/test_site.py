"""The page on the site format is true: each example loads, or prints the error that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import Example, Shell, blocks, examples, write_site
from tests.support.transcript import steady

TEXT = (Path(__file__).parents[2] / "docs" / "site.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", examples(TEXT), ids=lambda example: f"line-{example.line}")
def test_an_example_is_as_the_page_says(
    example: Example,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An example without a command is valid."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    write_site(example.files, tmp_path / "site")
    shell = Shell(folder=tmp_path / "site", capsys=capsys)
    if not example.commands:
        assert shell.check("validate") == 0
    for command in example.commands:
        assert shell.run(command) == steady(command.output), command.line


def test_the_tables_have_every_key() -> None:
    """Each key that the site's schema knows, at any level, stands on the page."""
    from cobweb.cli.schema import read_schema

    schema = read_schema("site")
    keys = set(schema["properties"])
    for part in schema["$defs"].values():
        keys |= set(part.get("properties", {}))
    assert {key for key in keys if f"`{key}" not in TEXT} == set()
    assert len(keys) > 25


def test_there_are_enough_examples() -> None:
    """More than a handful show an error, and none is skipped by a mistyped mark."""
    found = examples(TEXT)
    assert len(found) >= 15
    assert len([example for example in found if _shows_findings(example)]) >= 8
    assert TEXT.count("\n```") == 2 * len(blocks(TEXT))


def _shows_findings(example: Example) -> bool:
    printed = "".join(command.output for command in example.commands)
    return re.search(r"^\d+ findings?$", printed, re.MULTILINE) is not None
