"""In which order servers come to the storage site's Pacemaker and leave it; without hosts.

Only its own part of the site: types/ha.yml and modules/ha.yml, with what they need of the rest.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb.cli import main

SITE = Path(__file__).parents[2] / "inventories" / "storage"
AGREED = ("--yes", "--max-removals", "100%")
SERVERS = ("st1", "st2", "st3", "st4")
HEAD = "cobweb: 1\nname: ha\ninventory: hosts.yml\n"
PARTS = "imports: [types/ha.yml, modules/ha.yml]\n"
REST = """\
cobs:
  packages-ha: {type: script, on: servers, spec: {creates: /nowhere, do: "true", undo: "true"}}
  hosts: {type: file, on: servers, spec: {path: /etc/hosts, content: ""}}
"""


class Site:
    """A copy of the part, and what each apply did."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0
        for name in ("types", "modules", "files", "library"):
            shutil.copytree(SITE / name, folder / name)
        (folder / "site.yml").write_text(HEAD + PARTS + REST)

    def apply(self, servers: Sequence[str], parts: str = PARTS + REST) -> list[str]:
        """Apply the site with these servers; return the transitions in the order of their ends."""
        self._runs += 1
        events = self._folder / f"events-{self._runs}.jsonl"
        (self._folder / "hosts.yml").write_text(json.dumps(_inventory(servers)))
        (self._folder / "site.yml").write_text(HEAD + parts)
        options = ("apply", *AGREED, "--executor", "simulate", "--events", str(events))
        assert main(["-C", str(self._folder), *options]) == 0
        found: list[dict[str, Any]] = [json.loads(line) for line in events.read_text().splitlines()]
        return [f"{it['cob']} {it['to']}" for it in found if it["type"] == "transition.end"]


def _inventory(servers: Sequence[str]) -> dict[str, Any]:
    model = yaml.safe_load((SITE / "generated" / "hosts.yml").read_text())["all"]
    hosts = {name: model["hosts"][name] for name in SERVERS}
    members = [it for it in model["vars"]["members"] if it["name"] in servers]
    groups = {"servers": servers, "first_server": servers[:1]}
    return {
        "all": {
            "vars": {**model["vars"], "members": members},
            "hosts": hosts,
            "children": {name: {"hosts": dict.fromkeys(group)} for name, group in groups.items()},
        }
    }


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the orders of one life of a cluster."""
    site = Site(tmp_path_factory.mktemp("ha"))
    return {
        "set up": site.apply(SERVERS[:3]),
        "st4 comes": site.apply(SERVERS),
        "st4 goes": site.apply(SERVERS[:3]),
        "all goes": site.apply(SERVERS[:3], "imports: [types/ha.yml]\n"),
    }


@pytest.mark.parametrize(
    ("run", "first", "then"),
    [
        ("set up", "corosync-conf up", "corosync up"),
        ("set up", "fence up", "monitoring up"),
        ("st4 comes", "corosync-conf up", "corosync-members up"),
        ("st4 comes", "corosync-members up", "st4/corosync up"),
        ("st4 goes", "st4/node standby", "st4/pacemaker down"),
        ("st4 goes", "st4/fence down", "st4/pacemaker down"),
        ("st4 goes", "st4/corosync down", "corosync-conf up"),
        ("st4 goes", "corosync-conf up", "corosync-members up"),
        ("all goes", "monitoring down", "fence down"),
        ("all goes", "fence down", "pacemaker down"),
        ("all goes", "node standby", "pacemaker down"),
        ("all goes", "cluster-options down", "pacemaker down"),
        ("all goes", "pacemaker down", "fence-agent down"),
    ],
)
def test_all_of_one_kind_come_before_all_of_another(
    orders: dict[str, list[str]], run: str, first: str, then: str
) -> None:
    """Over all servers, not only on one."""
    places = {
        words: [number for number, done in enumerate(orders[run]) if _is(done, words)]
        for words in (first, then)
    }
    assert max(places[first]) < min(places[then]), orders[run]


def test_one_server_that_goes_leaves_the_resources_alone(orders: dict[str, list[str]]) -> None:
    """Nobody else's node, device or daemon is moved."""
    touched = {done.split()[0] for done in orders["st4 goes"] if not done.startswith("st4/")}
    kept = {f"{name}/{cob}" for name in SERVERS for cob in ("node", "fence", "corosync")}
    assert not touched & (kept | {"st1/monitoring"})


def _is(done: str, words: str) -> bool:
    return done == words if "/" in words else done.split("/", 1)[1] == words
