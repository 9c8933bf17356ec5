"""Systemd units over SSH: shipped by a file object, changed while down, in order over hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import OPERATOR, Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full("jobs in units of systemd; tests/plugins/ansible has the rest"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]


@contextmanager
def units_site(fabric: Fabric, operator: Operator, **variables: object) -> Iterator[Operator]:
    """Give the site `units` a leader and a follower, and leave them as they were before."""
    leader, follower = fabric.systemd
    operator.write_inventory({"leaders": [leader], "followers": [follower]})
    operator.set_variables(word="one", **variables)
    yield operator
    for host in fabric.systemd:
        for unit in ("follower", "ticker"):
            fabric.run(host, "systemctl", "disable", "--now", unit, check=False)
            fabric.run(host, "rm", "-f", f"/etc/systemd/system/{unit}.service")
        fabric.run(host, "systemctl", "daemon-reload")
    assert fabric.visitors() == []


@pytest.fixture(scope="class")
def applied(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[tuple[Operator, Run]]:
    """Return who works on the site of units after the first apply, and that apply."""
    with units_site(fabric, operator_maker("units")) as operator:
        run = operator.apply()
        assert run.code == 0, run.err
        yield operator, run


def properties(fabric: Fabric, host: FabricHost, unit: str, *names: str) -> dict[str, str]:
    """Return what systemd says of a unit."""
    wanted = [f"--property={name}" for name in names]
    said = fabric.run(host, "systemctl", "show", unit, *wanted).stdout
    pairs = (line.partition("=") for line in said.splitlines())
    return {name: value for name, _, value in pairs}


class TestAppliedUnits:
    """What systemd then says; each test ends with the units up by their content in the site."""

    def test_units_are_shipped_enabled_and_started_in_order(
        self, fabric: Fabric, applied: tuple[Operator, Run]
    ) -> None:
        operator, run = applied
        leader, follower = fabric.systemd
        done = [cob for cob, state in run.transitions() if state == "up"]
        order = (f"{leader.name}/unit-file", f"{leader.name}/ticker", f"{follower.name}/follower")
        assert [cob for cob in done if cob in order] == list(order)
        for host in fabric.systemd:
            found = properties(fabric, host, "ticker", "ActiveState", "UnitFileState")
            assert found == {"ActiveState": "active", "UnitFileState": "enabled"}
        assert properties(fabric, follower, "follower", "ActiveState", "UnitFileState") == {
            "ActiveState": "active",
            "UnitFileState": "static",
        }
        again = operator.apply("--refresh", "all")
        assert (again.code, again.transitions()) == (0, []), again.err

    def test_a_changed_unit_is_loaded_while_its_service_and_what_needs_it_are_down(
        self, fabric: Fabric, applied: tuple[Operator, Run]
    ) -> None:
        operator, first = applied
        leader, follower = fabric.systemd
        ports = {"ticker": (leader, 7010), "follower": (follower, 7011)}
        with fabric.watch(ports) as seen:
            seen.wait_for(lambda up: up == frozenset(ports))
            operator.set_variables(word="two")
            run = operator.apply()
            assert run.code == 0, run.err
            seen.wait_for(lambda up: up == frozenset(ports))
        assert all("ticker" in up or "follower" not in up for up in seen.snapshots)
        assert frozenset() in seen.snapshots
        for host in fabric.systemd:
            found = properties(fabric, host, "ticker", "Environment", "NeedDaemonReload")
            assert found == {"Environment": "WORD=two", "NeedDaemonReload": "no"}
            pid = properties(fabric, host, "ticker", "MainPID")["MainPID"]
            assert "WORD=two" in fabric.run(host, "cat", f"/proc/{pid}/environ").stdout
        assert operator.broken_promises([first, run]) == []

    def test_a_service_that_someone_stopped_is_found_and_started_again(
        self, fabric: Fabric, applied: tuple[Operator, Run]
    ) -> None:
        operator, _ = applied
        leader, follower = fabric.systemd
        started = properties(fabric, leader, "ticker", "ActiveEnterTimestampMonotonic")
        fabric.run(follower, "systemctl", "stop", "follower")
        run = operator.apply("--refresh", "all")
        assert run.code == 0, run.err
        assert run.transitions() == [(f"{follower.name}/follower", "up")]
        assert properties(fabric, leader, "ticker", "ActiveEnterTimestampMonotonic") == started

    def test_a_unit_edited_by_hand_is_outdated_and_put_right(
        self, fabric: Fabric, applied: tuple[Operator, Run]
    ) -> None:
        operator, _ = applied
        leader, _ = fabric.systemd
        word = properties(fabric, leader, "ticker", "Environment")
        unit = "/etc/systemd/system/ticker.service"
        fabric.run(leader, "sed", "-i", "s/WORD=.*/WORD=mine/", unit)
        run = operator.apply("--refresh", "all")
        assert run.code == 0, run.err
        done = run.transitions()
        assert done.index((f"{leader.name}/ticker", "down")) < done.index(
            (f"{leader.name}/unit-file", "up")
        )
        assert properties(fabric, leader, "ticker", "Environment") == word
        found = properties(fabric, leader, "ticker", "ActiveState", "NeedDaemonReload")
        assert found == {"ActiveState": "active", "NeedDaemonReload": "no"}


def test_a_user_who_is_not_root_manages_units_by_become(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    settings = {"ansible_user": OPERATOR, "ansible_become": True}
    with units_site(fabric, operator_maker("units"), **settings) as operator:
        run = operator.apply()
        assert run.code == 0, run.err
        for host in fabric.systemd:
            found = properties(fabric, host, "ticker", "ActiveState")
            assert found == {"ActiveState": "active"}
            owner = fabric.run(host, "stat", "-c", "%U", "/etc/systemd/system/ticker.service")
            assert owner.stdout.strip() == "root"


def test_without_become_a_user_who_is_not_root_fails_and_nothing_changes(
    fabric: Fabric, operator_maker: OperatorMaker
) -> None:
    with units_site(fabric, operator_maker("units"), ansible_user=OPERATOR) as operator:
        run = operator.apply()
        assert run.code == 1, run.err
        for host in fabric.systemd:
            unit = "/etc/systemd/system/ticker.service"
            assert fabric.run(host, "test", "-e", unit, check=False).returncode == 1
