"""The page on agents: its sections are valid, and its tour goes as it is written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cobweb.plugin import field_problems
from cobweb_plugins.agents import AgentsSection
from cobweb_plugins.agents._section import expand_agents, servers_of
from tests.support.nats_server import free_port
from tests.support.shared_site import end, line_of, program

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "agents.md").read_text(encoding="utf-8")
PLAIN = re.sub(r"(on): (?=n1|\")", r'"\1": ', PAGE)  # PyYAML takes it for true
SECTIONS = [
    yaml.safe_load(it)["agents"]
    for it in re.findall(r"^```yaml\n(.*?)^```$", PLAIN, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("section", SECTIONS, ids=str)
def test_sections_of_the_page_are_valid(section: dict[str, Any]) -> None:
    assert list(field_problems(AgentsSection.schema, section)) == []
    context: Any = SimpleNamespace(site_dir=Path("/site"), decisions={})
    assert not expand_agents({"agents": section}, context).cobs
    assert len(servers_of(section)) == len(section["nats"])


@pytest.mark.full("a real server by real tasks and two programs; each of these is in the gate")
def test_the_tour_goes_as_it_is_written(tmp_path: Path) -> None:
    port, site = str(free_port()), tmp_path / "site"
    text = PAGE.replace("/home/you/two", str(tmp_path)).replace("4222", port)
    written = re.search(r"^```yaml\n# site.yml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert written is not None
    for folder in (site, site / "east", site / "west"):
        folder.mkdir()
        (folder / "site.yml").write_text(written.group(1), encoding="utf-8")
    (site / "part.py").write_text(program({"db1": "east", "web1": "west"}), encoding="utf-8")

    def cobweb(*words: str) -> str:
        call = [sys.executable, "-m", "cobweb", *words]
        return subprocess.run(call, cwd=site, capture_output=True, text=True, check=True).stdout

    address = json.loads(cobweb("agents", "up", "--yes", "-o", "json"))["address"]
    assert f"address: {address}" in text
    assert f"ADDRESS='{address}'" in text

    def part(owner: str) -> subprocess.Popen[str]:
        call = [sys.executable, "part.py", owner, owner, address]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        return subprocess.Popen(call, cwd=site, text=True, **pipes)

    try:
        with part("west") as west, part("east") as east:
            assert [line_of(east), line_of(west)] == ["settled", "settled"]
            assert (tmp_path / "page").read_text(encoding="utf-8") == "one"
            assert [end(west), end(east)] == [0, 0]
    finally:
        left = written.group(1).partition("agents:")[0]
        (site / "site.yml").write_text(left, encoding="utf-8")
        cobweb("apply", "--yes", "--max-removals", "100%")
