"""The pages on metal: their sections are valid, and the kind of power that is written works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cobweb.errors import ModelError
from cobweb.plugin import field_problems
from cobweb_plugins.metal import MetalSection
from cobweb_plugins.metal._power import BUILT_IN
from cobweb_plugins.metal._section import expand_metal
from tests.support.supervised import end_supervised
from tests.support.transcript import steady

DOCS = Path(__file__).parents[2] / "docs"
METAL = (DOCS / "metal.md").read_text(encoding="utf-8")
KIND = (DOCS / "plugins" / "write-a-power-kind.md").read_text(encoding="utf-8")
PLAIN = re.sub(r"^( *)on: ", r'\1"on": ', METAL, flags=re.MULTILINE)  # PyYAML takes it for true
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PLAIN, re.MULTILINE | re.DOTALL)
YAML = [yaml.safe_load(it) for it in BLOCKS]
SECTIONS = [it["metal"] for it in YAML if "metal" in it]
SECTION = SECTIONS[0]
POWERS = [it["power"] for it in YAML if "power" in it]
TOUR = METAL[METAL.index("### One in five minutes") : METAL.index("### The commands")]
END = "-- end of"


def outlet() -> Any:
    """Return the kind of power of the page."""
    names: dict[str, Any] = {}
    code = re.findall(r"^```python\n(.*?)^```$", KIND, re.MULTILINE | re.DOTALL)[0]
    exec(compile(code, "page", "exec"), names)  # noqa: S102 - the page's own
    (found,) = names["cobweb_register_extensions"]()
    return found


def expanded(section: dict[str, Any]) -> Any:
    """Return what a section stands for, with the page's kind of power beside those built in."""
    assert list(field_problems(MetalSection.schema, section)) == []
    kinds = {it.name: it for it in (*BUILT_IN, outlet())}
    context: Any = SimpleNamespace(
        site_dir=Path("/site"), extensions_at=lambda _point: kinds, decisions={}
    )
    return expand_metal({"metal": section}, context)


@pytest.mark.parametrize("power", [{"kind": "manual"}, *POWERS], ids=str)
def test_sections_and_recipes_of_the_page_are_valid(power: dict[str, Any]) -> None:
    machines = {**SECTION["machines"], "m02": {**SECTION["machines"]["m02"], "power": power}}
    assert "image-web" in expanded({**SECTION, "machines": machines}).cobs


@pytest.mark.parametrize("section", SECTIONS, ids=",".join)
def test_each_section_of_the_page_is_valid(section: dict[str, Any]) -> None:
    assert "boot-server" in expanded(section).cobs


def test_there_are_recipes() -> None:
    assert len(POWERS) >= 4


def test_the_kind_of_power_of_the_page_checks_its_settings_and_switches() -> None:
    power = {"kind": "outlet", "pdu": "pdu1", "number": 7}
    machine = {"mac": "52:54:00:00:00:07", "power": power}
    expanded({**SECTION, "machines": {"m07": machine}})
    with pytest.raises(ModelError, match="outlet"):
        expanded({**SECTION, "machines": {"m07": {**machine, "power": {**power, "number": 25}}}})
    values = {"name": "m07", "mac": machine["mac"], "server": "http://10.72.0.1:7480"}
    assert outlet().can(power) == {"status", "on", "off"}
    command = outlet().command(power, "off", values)
    assert command == ["/usr/local/sbin/outlet", "pdu1", "7", "off"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for the site of the tour, whose processes are ended afterwards."""
    yield tmp_path
    end_supervised(tmp_path / "rack")


@pytest.mark.full("a page of commands on simulated machines; the gate has those of metal")
@pytest.mark.timeout(600)
def test_the_tour_of_virtual_clusters_prints_what_the_page_says(folder: Path) -> None:
    blocks = re.findall(r"^```(yaml|console)\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)
    script, said = list[str](), dict[str, str]()
    for kind, text in blocks:
        if kind == "yaml":
            script.append(f"printf %s {shlex.quote(text)} >> site.yml")
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            said[f"{len(said)} {line}"] = output
            script += [line, f"echo {shlex.quote(END)} {len(said) - 1}"]
    typed = "\n".join(script).replace("/tmp/", f"{folder}/")  # noqa: S108  the page's own
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", typed],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = re.split(rf"{END} \d+\n", done.stdout)
    for (line, output), real in zip(said.items(), printed, strict=False):
        known = {_plain(it) for it in real.splitlines()}
        missing = {_plain(it) for it in output.splitlines()} - known - {"..."}
        assert not missing, f"$ {line}\n{real}"
    assert len(printed) == len(said) + 1


def _plain(line: str) -> str:
    """Return a line without what differs from run to run: times, users, addresses, columns."""
    return re.sub(r"\s+", " ", re.sub(r"\b127\.[\d.]+", "127.0.0.1", steady(line))).strip()
