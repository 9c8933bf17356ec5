"""Removals that a host refuses or cannot be asked for: known, told, tried again, given up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full("hosts that are lost in a removal; the gate has lost hosts in a change"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

WARD = "var/lib/ward"
KEEP = "etc/keep"


@pytest.fixture
def hosts(fabric: Fabric) -> Iterator[tuple[FabricHost, ...]]:
    """Return three hosts; they are up, reachable and as before in the end."""
    chosen = fabric.plain[:3]
    yield chosen
    for host in chosen:
        fabric.link_up(host)
        fabric.run(host, "rm", "-rf", "/run/refuse", f"/{WARD}", f"/{KEEP}")


@pytest.fixture
def operator(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator_maker: OperatorMaker
) -> Iterator[Operator]:
    """Return who works on the site of wards, which is applied."""
    operator = operator_maker("removals")
    operator.write_inventory({"base": hosts, "wards": hosts[:2]})
    operator.set_variables(text="one")
    run = operator.apply()
    assert run.code == 0, run.err
    yield operator
    assert fabric.visitors() == []


def drop_wards(operator: Operator) -> None:
    """Take the wards, their type and its tasks out of the site, and change what is beside them."""
    site = operator.folder / "site.yml"
    site.write_text(site.read_text().replace("imports:\n  - wards.yml\n", ""))
    (operator.folder / "wards.yml").unlink()
    shutil.rmtree(operator.folder / "playbooks")
    operator.set_variables(text="two")


def waiting(operator: Operator) -> dict[str, str]:
    """Return the objects that are known and not in the site, with their states."""
    cobs = operator.cobweb("status", "-o", "json").data()["cobs"]
    return {cob["id"]: cob["state"] for cob in cobs if cob["type"] is None}


def behind(operator: Operator) -> dict[str, int]:
    """Return the hosts that have not switched, with the generation that they have."""
    found: dict[str, int] = operator.cobweb("status", "-o", "json").data()["generation"]["behind"]
    return found


def text_of(fabric: Fabric, host: FabricHost) -> str:
    """Return what the file beside the wards holds."""
    return (fabric.root(host) / KEEP).read_text()


def has_ward(fabric: Fabric, host: FabricHost) -> bool:
    """Say whether the ward is there."""
    return (fabric.root(host) / WARD).exists()


def switched(run: Run) -> list[str]:
    """Return the hosts that switched in a run, in their order."""
    events = (event for event in run.events if event["type"] == "generation.switch")
    return [host for event in events for host in event["hosts"]]


def test_a_removal_that_fails_stays_known_and_is_tried_again_while_the_rest_goes_on(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator: Operator
) -> None:
    refusing, other, third = hosts
    fabric.run(refusing, "touch", "/run/refuse")
    drop_wards(operator)
    for number in range(2):
        run = operator.apply()
        assert run.code == 1, run.err
        assert "h01/ward failed in this run: see whether the host lets it go" in run.err
        assert switched(run) == ([] if number else [third.name, other.name])
        assert waiting(operator) == {"h01/ward": "up"}
        assert behind(operator) == {refusing.name: 1}
    assert [has_ward(fabric, host) for host in hosts[:2]] == [True, False]
    assert [text_of(fabric, host) for host in hosts] == ["one\n", "two\n", "two\n"]
    told = operator.cobweb("why", "h01/keep").out
    assert "before host h01 goes on, h01/ward must be removed" in " ".join(told.split())

    fabric.run(refusing, "rm", "/run/refuse")
    again = operator.apply()
    assert again.code == 0, again.err
    assert switched(again) == [refusing.name]
    assert (waiting(operator), behind(operator)) == ({}, {})
    assert not has_ward(fabric, refusing)
    assert text_of(fabric, refusing) == "two\n"


def test_what_cannot_be_removed_is_given_up_by_a_person_and_left_as_it_is(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator: Operator
) -> None:
    fabric.run(hosts[0], "touch", "/run/refuse")
    drop_wards(operator)
    assert operator.apply().code == 1
    assert operator.cobweb("forget", "h01/ward").code == 64
    forgotten = operator.cobweb("forget", "h01/ward", "--yes")
    assert forgotten.code == 0, forgotten.err
    run = operator.apply()
    assert run.code == 0, run.err
    assert (waiting(operator), behind(operator)) == ({}, {})
    assert has_ward(fabric, hosts[0])
    assert text_of(fabric, hosts[0]) == "two\n"


def test_on_a_host_that_cannot_be_reached_it_is_removed_when_that_is_back(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator: Operator
) -> None:
    cut, other, third = hosts
    drop_wards(operator)
    fabric.link_down(cut)
    run = operator.apply()
    assert run.code == 1, run.err
    assert "host h01 cannot be reached" in " ".join(run.err.split())
    assert switched(run) == [third.name, other.name]
    assert waiting(operator).keys() == {"h01/ward"}
    assert [text_of(fabric, host) for host in hosts] == ["one\n", "two\n", "two\n"]
    fabric.link_up(cut)
    again = operator.apply()
    assert again.code == 0, again.err
    assert [cob for cob, _ in again.transitions()] == ["h01/ward", "h01/keep"]
    assert not has_ward(fabric, cut)


def test_a_host_that_left_the_inventory_while_it_was_off_is_cleared_when_it_is_back(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator: Operator
) -> None:
    cut, *rest = hosts
    fabric.link_down(cut)
    operator.write_inventory({"base": rest, "wards": rest[:1]})
    run = operator.apply()
    assert run.code == 1, run.err
    assert waiting(operator).keys() == {"h01/keep", "h01/ward"}
    assert has_ward(fabric, cut)
    fabric.link_up(cut)
    again = operator.apply()
    assert again.code == 0, again.err
    assert waiting(operator) == {}
    assert not has_ward(fabric, cut)
    assert not (fabric.root(cut) / KEEP).exists()
    drift = operator.cobweb("drift")
    assert drift.code == 0, drift.err


def test_a_change_that_fails_is_undone_at_once_where_that_was_asked_for(
    fabric: Fabric, hosts: tuple[FabricHost, ...], operator: Operator
) -> None:
    fabric.run(hosts[0], "touch", "/run/refuse")
    drop_wards(operator)
    run = operator.apply("--on-failure", "rollback")
    assert run.code == 1, run.err
    assert "going back to generation 1" in run.err
    assert [has_ward(fabric, host) for host in hosts[:2]] == [True, True]
    assert [text_of(fabric, host) for host in hosts] == ["one\n"] * 3
    assert behind(operator) == {}
