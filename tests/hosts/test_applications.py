"""An application over SSH, seen from outside: hosts that stand still, a supervisor that is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator
from tests.support.pool_members import until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(300)]

PLACE = "/var/tmp"  # noqa: S108  # on a host of the test's own
COUNT = f"echo $COBWEB_PHASE of {{{{ hosts }}}} >>{PLACE}/told"
HOSTS = 3
RING = {
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
SITE = {
    "cobweb": 1,
    "name": "applications",
    "inventory": "hosts.yml",
    "applications": {"ring": RING},
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


def say(operator: Operator, **more: Any) -> None:
    """Say more of the application."""
    site = {**SITE, "applications": {"ring": {**RING, **more}}}
    (operator.folder / "site.yml").write_text(json.dumps(site), encoding="utf-8")


def told(fabric: Fabric, host: FabricHost) -> list[str]:
    """Return what the phases of a host have written, a line at each start."""
    file = fabric.root(host) / PLACE[1:] / "told"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def is_at_work(fabric: Fabric, host: FabricHost) -> bool:
    """Say whether anything of the last phase is at work on a host."""
    return fabric.run(host, "pgrep", "-f", f"{PLACE}/gate", check=False).returncode == 0


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
    assert not is_at_work(fabric, hosts[1]), "what it has left at work was ended"
    states = {
        it["id"]: it["state"] for it in operator.cobweb("status", "-o", "json").data()["cobs"]
    }
    assert states[f"{hosts[1].name}/app-ring-last"] == "down"
    stopped = operator.cobweb("app", "stop", "ring", "--yes")
    assert (stopped.code, stopped.err) == (0, "nothing of ring is at work\n")


@pytest.mark.full("a host goes away three times, and the application is run three times")
@pytest.mark.timeout(900)
def test_a_host_that_goes_away_too_often_is_left_out(
    fabric: Fabric, operator: Operator, hosts: list[FabricHost]
) -> None:
    """Its phase ends once it can be reached; it is invited no more, until it is admitted."""
    flaps, *others = (it.name for it in hosts)
    say(operator, members={"at_least": 2, "flaps": "3 in 30m"})
    with operator.start("app", "run", "ring", "--yes") as started:
        until(lambda: all(len(told(fabric, it)) == 2 for it in hosts))
        for time in range(3):
            fabric.freeze(hosts[0])
            if time < 2:
                started.await_error_line(f"{flaps} does not answer, and is waited for")
                fabric.thaw(hosts[0])
                started.await_error_line(f"{flaps} answers again")
        started.await_error_line(
            f"{flaps} is left out, for it was away 3 times within 30m: "
            f"`cobweb app admit {flaps}` has it invited again"
        )
        fabric.thaw(hosts[0])
        until(lambda: not is_at_work(fabric, hosts[0]))
        open_gates(fabric, hosts)
        run = started.end()
    assert run.code == 1, run.err
    last = f"ring has ended on 2 of 3 nodes; failed: {flaps}"
    assert run.err.splitlines()[-1] == last
    assert list(operator.cobweb("app", "status", "ring", "-o", "json").data()["left"]) == [flaps]

    run = operator.cobweb("app", "run", "ring", "--yes")
    assert run.code == 0, run.err
    assert run.err.splitlines()[-1] == f"ring has ended on 2 of 2 nodes; not joined: {flaps}"
    status = operator.cobweb("app", "status", "ring", "-o", "json").data()
    assert list(status["missing"]) == [flaps]
    assert [len(told(fabric, it)) for it in hosts] == [2, 4, 4]
    assert told(fabric, hosts[1])[-1] == f"last of {','.join(others)}"

    admitted = operator.cobweb("app", "admit", flaps, "--of", "ring")
    assert (admitted.code, admitted.out + admitted.err) == (
        0,
        f"{flaps} is invited again in the next instance of ring\n",
    )
    run = operator.cobweb("app", "run", "ring", "--yes")
    assert run.code == 0, run.err
    assert [len(told(fabric, it)) for it in hosts] == [4, 6, 6]


@pytest.mark.full("a host is away for longer than it may be")
@pytest.mark.timeout(600)
def test_a_host_that_is_away_for_too_long_has_failed(
    fabric: Fabric, operator: Operator, hosts: list[FabricHost]
) -> None:
    """A restart cannot help it; what it has at work is ended once it is back."""
    say(
        operator,
        members={"lost_after": "30s"},
        recover={"on": ["lost"], "do": "restart", "else": "continue"},
    )
    with operator.start("app", "run", "ring", "--yes") as started:
        until(lambda: all(len(told(fabric, it)) == 2 for it in hosts))
        fabric.link_down(hosts[0])
        started.await_error_line(f"{hosts[0].name} has failed in last: ")
        fabric.link_up(hosts[0])
        until(lambda: not is_at_work(fabric, hosts[0]))
        open_gates(fabric, hosts)
        run = started.end()
    assert run.code == 1, run.err
    last = f"ring has ended on 2 of 3 nodes; failed: {hosts[0].name}"
    assert run.err.splitlines()[-1] == last
    assert "started again" not in run.err
    assert [len(told(fabric, it)) for it in hosts] == [2, 2, 2]


@pytest.mark.full("an application whose supervisor is killed on one of its hosts")
def test_a_host_that_has_lost_a_supervisor_is_restarted(
    fabric: Fabric, operator: Operator, hosts: list[FabricHost]
) -> None:
    """What the lost one has left at work is ended before that."""
    say(operator, recover={"on": ["lost"], "do": "restart"})
    name = hosts[1].name
    with operator.start("app", "run", "ring", "--yes") as started:
        until(lambda: all(len(told(fabric, it)) == 2 for it in hosts))
        fabric.run(hosts[1], "pkill", "-KILL", "-f", "cobweb_phase_supervisor")
        started.await_error_line(f"{name} is started again in last, 1 of 3: its supervisor is gone")
        until(lambda: len(told(fabric, hosts[1])) == 3)
        at_work = fabric.run(hosts[1], "pgrep", "-f", "-c", f"^/bin/sh -c.*{PLACE}/gate").stdout
        open_gates(fabric, hosts)
        run = started.end()
    assert run.code == 0, run.err
    assert at_work.strip() == "1"
    assert [len(told(fabric, it)) for it in hosts] == [2, 3, 2]
