"""An application over SSH, seen from outside: hosts that stand still, a supervisor that is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator
from tests.support.pool_members import until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(300)]

PLACE = "/var/tmp"  # noqa: S108  # on a host of the test's own
COUNT = f"echo $COBWEB_PHASE of {{{{ hosts }}}} >>{PLACE}/told"
HOSTS = 3
SITE = {
    "cobweb": 1,
    "name": "applications",
    "inventory": "hosts.yml",
    "applications": {
        "ring": {
            "on": "nodes",
            "phases": {
                "first": {"run": COUNT},
                "last": {
                    "run": f"{COUNT}; until [ -e {PLACE}/gate ]; do sleep 0.1; done",
                    "after": ["first"],
                    "barrier": {},
                },
            },
        }
    },
}


@pytest.fixture
def hosts(fabric: Fabric) -> Iterator[list[FabricHost]]:
    """Return hosts on which nothing has begun; what has begun there may end with the test."""
    found = list(fabric.plain[:HOSTS])
    for host in found:
        fabric.run(host, "sh", "-c", f"rm -rf {PLACE}/told {PLACE}/gate")
    yield found
    open_gates(fabric, found)


@pytest.fixture
def operator(fabric: Fabric, hosts: list[FabricHost], tmp_path: Path) -> Operator:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(json.dumps(SITE), encoding="utf-8")
    operator = Operator(fabric, folder)
    operator.write_inventory({"nodes": hosts})
    return operator


def told(fabric: Fabric, host: FabricHost) -> list[str]:
    """Return what the phases of a host have written, a line at each start."""
    file = fabric.root(host) / PLACE[1:] / "told"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def open_gates(fabric: Fabric, hosts: list[FabricHost]) -> None:
    for host in hosts:
        fabric.run(host, "touch", f"{PLACE}/gate")


@pytest.mark.gate("an application over SSH, and a host that stands still: the main path")
def test_a_host_that_stands_still_is_waited_for(
    fabric: Fabric, operator: Operator, hosts: list[FabricHost]
) -> None:
    """It is named meanwhile; each phase is started once on each host, in the end all is done."""
    names = ",".join(it.name for it in hosts)
    with operator.start("app", "run", "ring", "--yes") as started:
        until(lambda: all(len(told(fabric, it)) == 2 for it in hosts))
        fabric.freeze(hosts[0])
        started.await_error_line(f"{hosts[0].name} does not answer, and is waited for")
        status = operator.cobweb("app", "status", "ring", "-o", "json").data()
        assert list(status["silent"]) == [hosts[0].name]
        fabric.thaw(hosts[0])
        open_gates(fabric, hosts)
        run = started.end()
    assert run.code == 0, run.err
    assert f"{hosts[0].name} answers again" in run.err
    assert {tuple(told(fabric, it)) for it in hosts} == {(f"first of {names}", f"last of {names}")}


@pytest.mark.full("an application whose supervisor is killed on one of its hosts")
def test_a_supervisor_that_is_lost_has_its_member_fail(
    fabric: Fabric, operator: Operator, hosts: list[FabricHost]
) -> None:
    with operator.start("app", "run", "ring", "--yes") as started:
        until(lambda: all(len(told(fabric, it)) == 2 for it in hosts))
        fabric.run(hosts[1], "pkill", "-KILL", "-f", "cobweb_phase_supervisor")
        started.await_error_line(f"{hosts[1].name} has failed in last: its supervisor is gone")
        open_gates(fabric, [hosts[0], hosts[2]])
        run = started.end()
    assert run.code == 1
    states = {
        it["id"]: it["state"] for it in operator.cobweb("status", "-o", "json").data()["cobs"]
    }
    assert states[f"{hosts[1].name}/app-ring-last"] == "broken"
    stopped = operator.cobweb("app", "stop", "ring", "--yes")
    assert stopped.code == 0, stopped.err
    assert fabric.run(hosts[1], "pgrep", "-f", f"{PLACE}/gate", check=False).returncode == 1
