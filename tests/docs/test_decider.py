"""The page on deciders: its files are those of the package, and its tour goes as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.controller.deciders import _values as deciders
from cobweb_plugins.controller.deciders.kit import decider_checks
from tests.support.example_plugin import PACKAGE
from tests.support.transcript import File, Reader, steady, steps

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "write-a-decider.md"
TEXT = PAGE.read_text(encoding="utf-8")
TOUR = TEXT[TEXT.index("## See it work") : TEXT.index("## Try it")]
BLOCKS = re.findall(r"^```(?:python|yaml)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
YEAR = re.compile(r"\b\d{4}-(?=01-31 )")
HOME = "/home/you"  # of the reader of the page
SOURCE = PACKAGE / "src" / "cobweb_example"


@pytest.mark.parametrize("name", ["_lamplighter.py", "lamplighter/who.yml"])
def test_the_files_of_the_page_are_those_of_the_package(name: str) -> None:
    text = (SOURCE / name).read_text(encoding="utf-8")
    assert text in [block.removeprefix(f"# {name}\n") for block in BLOCKS]


@pytest.mark.usefixtures("example_plugin")
def test_the_case_of_the_page_passes_the_checks_that_the_page_lists() -> None:
    names: dict[str, Any] = {}
    (code,) = [it for it in BLOCKS if "DeciderCase(" in it]
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own
    checks = decider_checks(names["CASE"])
    rows = [f"| `{it}` | {it.claim[0].lower()}{it.claim[1:-1]} |" for it in checks]
    assert re.findall(r"^\| `\w+` \| .* \|$", TEXT[TEXT.index("| check |") :], re.MULTILINE) == rows
    for check in checks:
        check()


def test_the_page_knows_the_limits() -> None:
    words = " ".join(TEXT.split())
    assert f"at most {deciders.MOST_WRITES:,} writes" in words
    assert f"notes of at most {deciders.MOST_NOTE:,} characters" in words
    assert f"may be {deciders.MOST_BYTES // 2**20} MiB of JSON" in words
    assert f"A turn may take {deciders.DECIDER_LIMIT_S:g} seconds" in words


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a `who` that knows of one session."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "who").write_text("#!/bin/sh\necho 'you  tty1  2026-11-29 21:30'\n")
    (folder / "who").chmod(0o755)
    return folder


@pytest.mark.gate("a page of commands, each a process")
@pytest.mark.timeout(300)
def test_each_command_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example_plugin: Path, programs: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE / "src"), str(example_plugin)]))
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    reader = Reader(folder=tmp_path, places={HOME: str(tmp_path)}, path=path)
    for step in steps(TOUR):
        if isinstance(step, File):
            reader.write(step)
        else:
            printed = _letters(reader.run(step)).replace(str(tmp_path), HOME)
            assert printed == _letters(step.output), step.line


def _letters(text: str) -> str:
    """Return an output without spaces: its lines are broken elsewhere where a path is longer."""
    return "".join(YEAR.sub("2025-", steady(text)).split())


@pytest.mark.gate("the program of a page, whose question real tasks of Ansible ask")
def test_the_program_of_the_page_on_embedding_asks_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path
) -> None:
    page = PAGE.with_name("embed-cobweb.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(\"\"\"Tell who .*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "who.py").write_text(code)
    (tmp_path / "who.yml").write_text((SOURCE / "lamplighter" / "who.yml").read_text())
    (site,) = [it.text for it in steps(TOUR) if isinstance(it, File)]
    (tmp_path / "site.yml").write_text(site.partition("\nlamps:")[0])
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    done = subprocess.run(
        [sys.executable, "who.py", str(tmp_path), "n1", "n2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "n1 1\nn2 unreachable the site has no host n2\n", done.stderr
