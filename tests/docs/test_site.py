"""The page on the site format is true: each example loads, or prints the error that it shows.

An example begins with a block `yaml site.yml`; further blocks with a name are its other files, and
a `console` block has commands with what they print. What examples leave out is added below them, so
that lines keep their numbers: the format version, the inventory and the type of the page's first
example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cobweb.cli import main
from tests.support.transcript import Command, steps

PAGE = Path(__file__).parents[2] / "docs" / "site.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
ADDED = {
    "cobweb": "cobweb: 1\n",
    "inventory": "inventory: hosts.yml\n",
    "types": "types:\n" + FIRST["site.yml"].partition("\ntypes:\n")[2],
}
TASKS = "- ansible.builtin.set_fact: {cob_state: up}\n"


@dataclass(slots=True, kw_only=True)
class Example:
    """A site of the page, and the commands that the page runs on it."""

    line: int
    files: dict[str, str] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)


def examples() -> list[Example]:
    """Return the examples of the page in their order."""
    found: list[Example] = []
    for match in BLOCK.finditer(TEXT):
        kind, name, body = match.groups()
        if name == "site.yml":
            found.append(Example(line=TEXT.count("\n", 0, match.start()) + 1))
        if name:
            found[-1].files[name] = body
        elif kind == "console":
            found[-1].commands += [step for step in steps(match[0]) if isinstance(step, Command)]
    return found


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Write the files of an example and what all examples share; return the site's folder."""

    def write(files: Mapping[str, str]) -> Path:
        site = files["site.yml"]
        added = [text for key, text in ADDED.items() if not re.search(rf"(?m)^{key}:", site)]
        shared = {"hosts.yml": FIRST["hosts.yml"]}
        shared |= {f"stage/{name}.yml": TASKS for name in ("check", "start", "stop")}
        folder = tmp_path / "site"
        for name, text in {**shared, **files, "site.yml": site + "".join(added)}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    return write


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line-{example.line}")
def test_an_example_is_as_the_page_says(
    example: Example,
    make: Callable[[Mapping[str, str]], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    site = make(example.files)
    if not example.commands:
        assert main(["-C", str(site), "validate"]) == 0, capsys.readouterr().err
    for command in example.commands:
        capsys.readouterr()
        main(["-C", str(site), *command.line.split()[1:]])
        printed = capsys.readouterr()
        assert printed.out + printed.err == command.output


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
    found = examples()
    assert len(found) >= 15
    assert len([example for example in found if _shows_findings(example)]) >= 8
    assert TEXT.count("\n```") == 2 * len(BLOCK.findall(TEXT))


def _shows_findings(example: Example) -> bool:
    printed = "".join(command.output for command in example.commands)
    return re.search(r"^\d+ findings?$", printed, re.MULTILINE) is not None
