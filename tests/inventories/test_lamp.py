"""The site of clusters as a user has it: made, grown, shrunk, upgraded, deleted, all for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.machines import Corner
from tests.support.needed import need_fabric

COBWEB = str(Path(sys.executable).with_name("cobweb"))
STEP_S = 400


class Lamp:
    """The site, made by `cobweb init`, with its machines in a corner of their own."""

    def __init__(self, folder: Path, corner: Corner) -> None:
        self.folder = folder
        self.corner = corner
        self._run("init", "--example", "namespaces", "--ci", "none", str(folder))
        file = folder / "catalog" / "machines.yml"
        catalog = yaml.safe_load(file.read_text(encoding="utf-8"))
        catalog["catalog"]["providers"]["here"]["fields"] |= dict(corner.fields)
        file.write_text(yaml.safe_dump(catalog), encoding="utf-8")

    def cobweb(self, *arguments: str) -> str:
        """Run a command on the site, which must end well."""
        return self._run("-C", str(self.folder), *arguments)

    def nodes(self) -> list[str]:
        """Return the machines that there are, as the provider's own records have them."""
        return sorted(self._records())

    def owner(self) -> str:
        """Return what the machines of the cluster are found again by; "" once it is gone."""
        lock = json.loads((self.folder / "site.lock").read_text(encoding="utf-8"))
        return next((each["id"] for each in lock["clusters"].values()), "")

    def hosts_file(self) -> Path:
        """Return the file with the addresses of all machines."""
        (file,) = self.corner.state.glob("hosts-*")
        return file

    def _records(self) -> dict[str, Any]:
        found = [json.loads(it.read_text()) for it in self.corner.state.glob("*/*/machine.json")]
        return {record["node"]: record for record in found}

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [COBWEB, *arguments], capture_output=True, text=True, timeout=STEP_S, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Probe:
    """The program of the site that asks for its page all the while."""

    def __init__(self, lamp: Lamp) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(lamp.folder / "probe.py"), str(lamp.hosts_file()), "0.2"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "at work\n"

    def end(self) -> dict[str, Any]:
        """End it, and return what it tells."""
        self._process.send_signal(signal.SIGTERM)
        told, _ = self._process.communicate(timeout=30)
        found: dict[str, Any] = json.loads(told)
        return found


@pytest.fixture
def lamp(tmp_path: Path) -> Iterator[Lamp]:
    """Return the site; whatever machines a test leaves go, and it fails for them."""
    need_fabric()
    corner = Corner(tmp_path, number=os.getpid() % 250)
    made = Lamp(tmp_path / "site", corner)
    yield made
    corner.close(owner=made.owner())


@pytest.mark.gate("the story of a cluster from a template")
@pytest.mark.netns
@pytest.mark.timeout(2 * STEP_S)
def test_a_cluster_comes_about_answers_and_goes(lamp: Lamp) -> None:
    lamp.cobweb("cluster", "create", "web1", "--template", "lamp", "--nodes", "3", "--yes")
    assert lamp.nodes() == ["web1-1", "web1-2", "web1-3"]
    told = Probe(lamp).end()
    assert (told["errors"], told["messages"]) == (0, [])
    assert {answer.split()[1] for answer in told["answers"]} == {"1"}
    lamp.cobweb("cluster", "delete", "web1", "--yes")
    assert lamp.corner.traces() == []


@pytest.mark.full("scaled and upgraded while it answers: a minute and more")
@pytest.mark.netns
@pytest.mark.timeout(5 * STEP_S)
def test_a_cluster_lives_from_3_to_6_to_4_nodes_and_answers_all_the_while(lamp: Lamp) -> None:
    lamp.cobweb("cluster", "create", "web1", "--template", "lamp", "--nodes", "3", "--yes")
    assert lamp.nodes() == ["web1-1", "web1-2", "web1-3"]
    probe = Probe(lamp)
    lamp.cobweb("cluster", "scale", "web1", "6", "--yes")
    assert len(lamp.nodes()) == 6
    lamp.cobweb("cluster", "scale", "web1", "4", "--yes")
    assert len(lamp.nodes()) == 4
    lamp.cobweb("cluster", "upgrade", "web1", "site=2", "--yes")
    told = probe.end()
    assert (told["errors"], told["messages"]) == (0, [])
    versions = {answer.split()[1] for answer in told["answers"]}
    assert versions == {"1", "2"}
    lamp.cobweb("cluster", "delete", "web1", "--yes")
    assert lamp.corner.traces() == []
