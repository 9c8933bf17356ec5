"""A run that is killed while it makes machines leaks none, and the next one goes on with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.support.machines import Corner
from tests.support.needed import need_fabric

pytestmark = [
    pytest.mark.full("killed runs with real machines; the gate has a cluster that comes about"),
    pytest.mark.netns,
    pytest.mark.timeout(300),
]

COBWEB = str(Path(sys.executable).with_name("cobweb"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site whose clusters are machines with nothing on them."""
    need_fabric()
    corner = Corner(tmp_path, number=os.getpid() % 250)
    template = {
        "defaults": {
            "services": ["nothing"],
            "provider": "here",
            "hardwaretype": "small",
            "imagetype": "plain",
        }
    }
    catalog = {
        "providers": {"here": {"type": "namespaces", "fields": dict(corner.fields)}},
        "hardwaretypes": {"small": {"cores": 1}},
        "imagetypes": {"plain": {"user": "root", "providers": {"here": {"image": "plain"}}}},
        "services": {"nothing": {}},
        "templates": {"bare": template},
    }
    folder = tmp_path / "site"
    folder.mkdir()
    content = {"cobweb": 1, "name": "bare", "catalog": catalog, "clusters": {}}
    (folder / "site.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def cobweb(site: Path, *arguments: str) -> None:
    argv = [COBWEB, "-C", str(site), *arguments, "--yes"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def records(site: Path) -> dict[str, str]:
    """Return the ids of the machines that there are, by node."""
    files = (site.parent / "machines").glob("machines/*/machine.json")
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return {record["node"]: record["id"] for record in found}


def test_what_a_killed_run_has_made_is_used_and_goes(site: Path) -> None:
    corner = Corner(site.parent, number=os.getpid() % 250)
    argv = [COBWEB, "-C", str(site), "cluster", "create", "c", "--template", "bare"]
    run = subprocess.Popen([*argv, "--nodes", "2", "--yes"], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 100
        while not records(site):
            assert time.monotonic() < end
            assert run.poll() is None
            time.sleep(0.01)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    cobweb(site, "apply")
    made = records(site)
    assert sorted(made) == ["c-1", "c-2"]
    cobweb(site, "apply")
    assert records(site) == made
    cobweb(site, "cluster", "delete", "c")
    assert corner.traces() == []
