"""The page on controllers: its tour goes as it is written, and it knows all that a policy says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cobweb.plugin import field_problems
from cobweb_plugins.controller import ServeSection
from tests.support.supervised import end_supervised, supervisors
from tests.support.transcript import File, Reader, steady, steps

PAGE = (Path(__file__).parents[2] / "docs" / "keeping-a-site.md").read_text(encoding="utf-8")
TOUR, SERVICE, REST = PAGE.partition("## As a service")
BASE = "/tmp/cobweb-kept"  # noqa: S108  the page's own words; the test puts another folder there
COMMIT = re.compile(r"(?<=git-)[0-9a-f]{8}|(?<=commit )[0-9a-f]{8}|\b[0-9a-f]{8}(?=,)")


def _words(text: str) -> list[str]:
    """Return the words of lines, which are broken elsewhere for users of longer names."""
    return COMMIT.sub("1a2b3c4d", steady(text)).split()


@pytest.fixture
def reader(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Reader]:
    """Make a reader whose site is at `tmp_path`; end what the site started."""
    base = tmp_path_factory.mktemp("kept")
    yield Reader(
        folder=tmp_path,
        places={BASE: str(base)},
        path=f"{Path(sys.executable).parent}:/usr/bin:/bin",
    )
    end_supervised(base)


@pytest.mark.full("a page of commands on real processes; the gate has tests of each of its parts")
@pytest.mark.timeout(600)
def test_each_command_prints_what_the_page_says(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)  # then it is below the reader's home
    for step in steps(TOUR):
        if isinstance(step, File):
            reader.write(step)
            continue
        printed, said = _words(reader.run(step)), _words(step.output)
        if " cobweb apply" in step.line:  # what goes on at the same time ends in any order
            printed, said = sorted(printed), sorted(said)
        assert printed == said, f"$ {step.line}"
    assert supervisors(Path(reader.places[BASE])) == []


def test_the_policy_of_the_page_is_sound() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", REST, re.MULTILINE | re.DOTALL)
    sections = {**yaml.safe_load(text), "pools": {}}
    context: Any = SimpleNamespace(site_dir=Path("/site"), decisions={})
    assert list(field_problems(ServeSection.schema, sections["serve"])) == []
    assert not ServeSection().expand(sections, context).cobs


def test_the_page_names_all_that_a_policy_may_say() -> None:
    named = set(re.findall(r"`([a-z_.]+)`", REST))
    fields = ServeSection.schema["properties"]
    assert {"apply", "outages", "windows", "drift.every", "drift.repair", "run"} <= named
    assert set(fields) == {it.partition(".")[0] for it in named} & set(fields)
    assert set(fields["run"]["properties"]) <= named
