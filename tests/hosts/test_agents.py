"""`agents up` over SSH: three servers on hosts of their own, and two owners of other hosts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator
from tests.support.shared_site import end, line_of, program

pytestmark = [
    pytest.mark.full("servers and owners over SSH; the gate has them on the local connection"),
    pytest.mark.netns,
    pytest.mark.timeout(300),
]

SITE = """\
cobweb: 1
name: agents
inventory: hosts.yml
agents: {{owners: [east, west], nats: [{servers}]}}
cobs:
  conf: {{type: file, on: {east}, spec: {{path: /tmp/db.conf, content: "one"}}}}
  page:
    {{type: file, on: {west}, requires: [conf@{east}], spec: {{path: /tmp/page, content: "one"}}}}
"""


def test_servers_on_hosts_carry_the_words_of_owners(fabric: Fabric, tmp_path: Path) -> None:
    east, west, *servers = fabric.plain[:5]
    folder = tmp_path / "site"
    folder.mkdir()
    nats = ", ".join(f'{{url: "nats://{it.address}:4222", on: {it.name}}}' for it in servers)
    text = SITE.format(servers=nats, east=east.name, west=west.name)
    (folder / "site.yml").write_text(text, encoding="utf-8")
    operator = Operator(fabric, folder)
    operator.write_inventory({"app": [east, west, *servers]})
    owners = {east.name: "east", west.name: "west"}
    (folder / "part.py").write_text(program(owners), encoding="utf-8")
    up = operator.cobweb("agents", "up", "--yes", "-o", "json")
    assert up.code == 0, up.err
    assert [it["state"] for it in up.data()["servers"]] == ["up"] * 3
    for name in ("east", "west"):
        shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns(".cobweb"))
    with ExitStack() as stack:
        parts = {
            name: stack.enter_context(part(fabric, tmp_path / name, name, up.data()["address"]))
            for name in ("west", "east")
        }
        assert [line_of(it) for it in parts.values()] == ["settled", "settled"]
        assert [end(it) for it in parts.values()] == [0, 0]
    for host, file in ((east, "db.conf"), (west, "page")):
        made = fabric.root(host) / "tmp" / file
        assert made.read_text(encoding="utf-8") == "one"
        made.unlink()
    left = text.partition("agents:")[0]
    (folder / "site.yml").write_text(left, encoding="utf-8")
    gone = operator.apply()
    assert gone.code == 0, gone.err
    for host in servers:
        assert not (fabric.root(host) / "var/lib/cobweb/nats").exists()
    for host in (east, west):
        forget(fabric, host)


def part(fabric: Fabric, site: Path, owner: str, address: str) -> subprocess.Popen[str]:
    """Start the program of the page for one owner, in the network of the hosts."""
    argv = fabric.inside(sys.executable, str(site / "part.py"), str(site), owner, address)
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    return subprocess.Popen(argv, text=True, **pipes)


def forget(fabric: Fabric, host: FabricHost) -> None:
    """Take away what an owner has kept on a host: nobody removes it, as yet."""
    shutil.rmtree(fabric.root(host) / "var/lib/cobweb", ignore_errors=True)
