"""Ansible roles over SSH: their state by check mode, and what they do over several hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.gate("roles on hosts with systemd: units, handlers and files are real there only"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def applied(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[tuple[Operator, Run]]:
    """Return who works on the site of roles after the first apply, and that apply."""
    operator = operator_maker("roles")
    operator.write_inventory({"servers": list(reversed(fabric.systemd))})
    operator.set_variables(ticker_word="one", ansible_managed="by Cobweb")
    run = operator.apply()
    assert run.code == 0, run.err
    yield operator, run
    for host in fabric.systemd:
        fabric.run(host, "systemctl", "disable", "--now", "ticker", check=False)
        fabric.run(host, "rm", "-rf", "/etc/systemd/system/ticker.service")
        fabric.run(host, "systemctl", "daemon-reload")


def drifted(operator: Operator) -> dict[str, str]:
    """Return what has drifted, with what was said of it."""
    run = operator.cobweb("drift", "-o", "json")
    found = {it["cob"]: it["message"] for it in run.data()["drifted"]}
    assert run.code == (2 if found else 0), run.err
    return found


def overlaps(run: Run, name: str) -> int:
    """Return how many steps of a COB were at work at the most at one time."""
    most = now = 0
    for event in run.events:
        if event.get("cob", "").endswith(f"/{name}"):
            now += {"transition.start": 1, "transition.end": -1}.get(event["type"], 0)
            most = max(most, now)
    return most


def contents(fabric: Fabric, path: str) -> list[str]:
    """Return a file of each host."""
    return [fabric.run(host, "cat", path).stdout for host in fabric.systemd]


def test_a_role_is_applied_and_then_idle(applied: tuple[Operator, Run]) -> None:
    """What would change nothing is up; a check by check mode has changed nothing."""
    operator, first = applied
    assert {state for _, state in first.transitions()} == {"up"}
    assert len(first.transitions()) == 2
    again = operator.apply("--refresh", "all")
    assert (again.code, again.transitions()) == (0, []), again.err
    assert drifted(operator) == {}
    assert operator.broken_promises([first, again]) == []


def test_what_is_done_once_is_done_once(fabric: Fabric, operator_maker: OperatorMaker) -> None:
    """By the first host of the group; all have what it made, and know of each other."""
    operator = operator_maker("ring")
    first, second = reversed(fabric.systemd)
    operator.write_inventory({"servers": [first, second]})
    try:
        run = operator.apply()
        assert (run.code, len(run.transitions())) == (0, 2), run.err
        keys = contents(fabric, "/etc/ring/key")
        assert keys[0] == keys[1] != ""
        assert len(fabric.run(first, "cat", "/etc/ring/made").stdout.splitlines()) == 1
        assert fabric.run(second, "test", "-e", "/etc/ring/made", check=False).returncode
        assert contents(fabric, "/etc/ring/members") == [f"{first.name} {second.name}"] * 2
        assert drifted(operator) == {}
    finally:
        for host in fabric.systemd:
            fabric.run(host, "rm", "-rf", "/etc/ring")


def test_a_change_by_hand_is_found_and_mended(
    fabric: Fabric, applied: tuple[Operator, Run]
) -> None:
    """The tasks that would change something are named."""
    operator, _ = applied
    one, other = fabric.systemd
    fabric.run(one, "systemctl", "stop", "ticker")
    fabric.run(other, "sh", "-c", "echo by hand >> /etc/ticker.conf")
    found = drifted(operator)
    assert found == {
        f"{one.name}/server": "would change: service",
        f"{other.name}/server": "would change: configuration, restart ticker",
    }
    run = operator.apply()
    assert (run.code, len(run.transitions())) == (0, 2), run.err
    assert overlaps(run, "server") == 1
    assert drifted(operator) == {}
    assert fabric.run(one, "systemctl", "is-active", "ticker").stdout == "active\n"


def test_a_changed_variable_is_rolled_out_one_by_one(
    fabric: Fabric, applied: tuple[Operator, Run]
) -> None:
    """A variable with the role's prefix is content, though no spec names it."""
    operator, _ = applied
    operator.set_variables(ticker_word="two", ansible_managed="by Cobweb")
    plan = operator.cobweb("plan", "--detailed-exitcode")
    assert plan.code == 2, plan.err
    assert "ticker_word" in plan.out
    run = operator.apply()
    assert run.code == 0, run.err
    assert len(run.transitions()) == 2
    assert overlaps(run, "server") == 1
    assert all("word=two\n" in text for text in contents(fabric, "/etc/ticker.conf"))
    assert operator.broken_promises([run]) == []
    back = operator.apply(command="rollback")
    assert (back.code, len(back.transitions())) == (0, 2), back.err
    assert all("word=one\n" in text for text in contents(fabric, "/etc/ticker.conf"))
    operator.set_variables(ticker_word="one", ansible_managed="by Cobweb")
    assert operator.apply().code == 0
