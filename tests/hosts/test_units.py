"""Systemd units over SSH: shipped by a file object, changed while down, in order over hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import OPERATOR, Fabric, FabricHost
from tests.support.operator import Operator

pytestmark = [pytest.mark.netns, pytest.mark.timeout(120), pytest.mark.xdist_group("units")]


@pytest.fixture
def operator(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Operator]:
    """Return who works on the site of units, all of them down and unknown to systemd."""
    leader, follower = fabric.systemd
    operator = operator_maker("units")
    operator.write_inventory({"leaders": [leader], "followers": [follower]})
    operator.set_variables(word="one")
    yield operator
    for host in fabric.systemd:
        for unit in ("follower", "ticker"):
            fabric.run(host, "systemctl", "disable", "--now", unit, check=False)
            fabric.run(host, "rm", "-f", f"/etc/systemd/system/{unit}.service")
        fabric.run(host, "systemctl", "daemon-reload")
    assert fabric.visitors() == []


def properties(fabric: Fabric, host: FabricHost, unit: str, *names: str) -> dict[str, str]:
    """Return what systemd says of a unit."""
    wanted = [f"--property={name}" for name in names]
    said = fabric.run(host, "systemctl", "show", unit, *wanted).stdout
    pairs = (line.partition("=") for line in said.splitlines())
    return {name: value for name, _, value in pairs}


def test_units_are_shipped_enabled_and_started_in_order(fabric: Fabric, operator: Operator) -> None:
    leader, follower = fabric.systemd
    run = operator.apply()
    assert run.code == 0, run.err
    done = run.transitions()
    assert done.index((f"{leader.name}/unit-file", "up")) < done.index(
        (f"{leader.name}/ticker", "up")
    )
    assert done.index((f"{leader.name}/ticker", "up")) < done.index(
        (f"{follower.name}/follower", "up")
    )
    wanted = ("ActiveState", "UnitFileState", "Environment")
    for host in fabric.systemd:
        assert properties(fabric, host, "ticker", *wanted) == {
            "ActiveState": "active",
            "UnitFileState": "enabled",
            "Environment": "WORD=one",
        }
    assert properties(fabric, follower, "follower", *wanted[:1]) == {"ActiveState": "active"}
    again = operator.apply("--refresh", "all")
    assert (again.code, again.transitions()) == (0, []), again.err


def test_a_changed_unit_is_loaded_while_its_service_and_what_needs_it_are_down(
    fabric: Fabric, operator: Operator
) -> None:
    leader, follower = fabric.systemd
    first = operator.apply()
    assert first.code == 0, first.err
    ports = {"ticker": (leader, 7010), "follower": (follower, 7011)}
    with fabric.watch(ports) as seen:
        seen.wait_for(lambda up: up == frozenset(ports))
        operator.set_variables(word="two")
        run = operator.apply()
        seen.wait_for(lambda up: up == frozenset(ports))
    assert run.code == 0, run.err
    assert all("ticker" in up or "follower" not in up for up in seen.snapshots)
    assert frozenset() in seen.snapshots
    for host in fabric.systemd:
        found = properties(fabric, host, "ticker", "Environment", "NeedDaemonReload")
        assert found == {"Environment": "WORD=two", "NeedDaemonReload": "no"}
        pid = properties(fabric, host, "ticker", "MainPID")["MainPID"]
        assert "WORD=two" in fabric.run(host, "cat", f"/proc/{pid}/environ").stdout
    assert operator.broken_promises([first, run]) == []


def test_a_service_that_someone_stopped_is_found_and_started_again(
    fabric: Fabric, operator: Operator
) -> None:
    leader, follower = fabric.systemd
    assert operator.apply().code == 0
    fabric.run(follower, "systemctl", "stop", "follower")
    run = operator.apply("--refresh", "all")
    assert run.code == 0, run.err
    assert run.transitions() == [(f"{follower.name}/follower", "up")]
    assert properties(fabric, leader, "ticker", "ActiveState") == {"ActiveState": "active"}


def test_a_unit_edited_by_hand_is_outdated_and_put_right(
    fabric: Fabric, operator: Operator
) -> None:
    leader, _ = fabric.systemd
    assert operator.apply().code == 0
    unit = "/etc/systemd/system/ticker.service"
    fabric.run(leader, "sed", "-i", "s/WORD=one/WORD=mine/", unit)
    run = operator.apply("--refresh", "all")
    assert run.code == 0, run.err
    assert (f"{leader.name}/unit-file", "up") in run.transitions()
    assert (f"{leader.name}/ticker", "up") in run.transitions()
    found = properties(fabric, leader, "ticker", "Environment", "NeedDaemonReload")
    assert found == {"Environment": "WORD=one", "NeedDaemonReload": "no"}


def test_a_user_who_is_not_root_manages_units_by_become(fabric: Fabric, operator: Operator) -> None:
    operator.set_variables(word="one", ansible_user=OPERATOR, ansible_become=True)
    run = operator.apply()
    assert run.code == 0, run.err
    for host in fabric.systemd:
        assert properties(fabric, host, "ticker", "ActiveState") == {"ActiveState": "active"}
        owner = fabric.run(host, "stat", "-c", "%U", "/etc/systemd/system/ticker.service").stdout
        assert owner.strip() == "root"
    fabric.run(fabric.systemd[0], "systemctl", "reset-failed")


def test_without_become_a_user_who_is_not_root_fails_and_nothing_changes(
    fabric: Fabric, operator: Operator
) -> None:
    operator.set_variables(word="one", ansible_user=OPERATOR)
    run = operator.apply()
    assert run.code == 1, run.err
    for host in fabric.systemd:
        unit = "/etc/systemd/system/ticker.service"
        assert fabric.run(host, "test", "-e", unit, check=False).returncode == 1
