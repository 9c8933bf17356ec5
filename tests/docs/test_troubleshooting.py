"""What the page on troubles shows is what a user in trouble sees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cobweb.cli import ExitCode
from tests.support.pages import Example, Shell, blocks, examples, write_site
from tests.support.transcript import steady

TEXT = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("example", examples(TEXT), ids=lambda example: f"line-{example.line}")
def test_an_example_is_as_the_page_says(
    example: Example,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    folder = tmp_path / "site"
    write_site(example.files, folder)
    monkeypatch.chdir(folder)
    shell = Shell(folder=folder, capsys=capsys)
    assert example.commands
    for command in example.commands:
        assert shell.run(command) == steady(command.output), command.line


def test_every_exit_code_is_explained() -> None:
    codes = re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)
    assert [int(code) for code in codes] == [int(code) for code in ExitCode]


def test_no_block_is_skipped_by_a_mistyped_mark() -> None:
    assert TEXT.count("\n```") == 2 * len(blocks(TEXT))


def test_messages_that_are_quoted_are_those_of_the_code() -> None:
    """What the page quotes without running it stands in the sources."""
    root = Path(__file__).parents[2]
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("toolkit", "plugins", "playbooks")
        for path in sorted((root / folder).rglob("*.py"))
    )
    quoted = (
        "ansible-core and ansible-runner are not installed",
        "the executor ansible is made for ansible-core ",
        "waits for room in a limit",
        "a vaulted value stands inside a longer text",
        "there is no executor",
        "unknown type",
        "no generation says how",
        "stays as it is: before host ",
        "the host could not be reached by a new connection ",
        "has gone back by itself",
        "has taken the change back",
        "could not go back: ",
        "has not said since whether it has gone back: ",
        "is neither confirmed nor taken back",
    )
    for message in quoted:
        assert message.strip() in TEXT
        assert message in sources
