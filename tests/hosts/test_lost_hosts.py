"""Hosts that are lost while a transition runs on them, and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric
from tests.support.gates import await_gate, gated_site, is_marked, open_gate, set_gate
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full(
        "hosts that freeze or die; the gate has one that is cut off and one that is killed"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]


@pytest.fixture
def operator(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Operator]:
    """Return who works on the gated site."""
    with gated_site(fabric, operator_maker("gated")) as operator:
        yield operator


def apply_and_lose(fabric: Fabric, operator: Operator) -> Run:
    """Apply; cut one host off and kill another while their gates are at work; open the third."""
    cut, killed, free, *_ = fabric.plain
    for host in (cut, killed, free):
        set_gate(fabric, host)
    with operator.start_apply() as started:
        for host in (cut, killed, free):
            await_gate(fabric, host)
        fabric.link_down(cut)
        fabric.kill(killed)
        open_gate(fabric, free)
        return started.end()


@pytest.mark.gate("the story of lost hosts")
def test_lost_hosts_block_only_what_needs_them_and_a_second_apply_converges(
    fabric: Fabric, operator: Operator
) -> None:
    cut, killed, _, after_cut, after_killed, after_free = fabric.plain
    try:
        first = apply_and_lose(fabric, operator)
        marked = [is_marked(fabric, host) for host in (after_cut, after_killed, after_free)]
        status = operator.cobweb("status", "-o", "json")
    finally:
        fabric.link_up(cut)
        fabric.start(killed)
    assert first.code == 1, first.err
    assert marked == [False, False, True]
    assert {(f"{free}/gate", "up") for free in ("h03",)} <= set(first.transitions())
    for name in (cut.name, killed.name):
        assert f"host {name} cannot be reached" in " ".join(first.err.split())
    assert status.code == 0

    open_gate(fabric, cut)
    second = operator.apply()
    assert second.code == 0, second.err
    assert all(is_marked(fabric, host) for host in (after_cut, after_killed, after_free))
    third = operator.apply("--refresh", "all")
    assert (third.code, third.transitions()) == (0, []), third.err
    assert operator.broken_promises([first, second, third]) == []


def test_what_was_begun_on_a_lost_host_is_unknown_and_said_so(
    fabric: Fabric, operator: Operator
) -> None:
    cut, killed, free, *_ = fabric.plain
    try:
        run = apply_and_lose(fabric, operator)
    finally:
        fabric.link_up(cut)
        fabric.start(killed)
    open_gate(fabric, cut)
    ends = {
        event["cob"]: (event["result"], event["state"])
        for event in run.events
        if event["type"] == "transition.end" and event["cob"].endswith("/gate")
    }
    assert ends == {
        f"{cut.name}/gate": ("failed", "unknown"),
        f"{killed.name}/gate": ("failed", "unknown"),
        f"{free.name}/gate": ("ok", "up"),
    }
    last = run.events[-1]
    assert (last["type"], last["result"], last["exit_code"]) == ("run.end", "failed", 1)


def test_a_frozen_host_hangs_itself_only_and_is_told_as_unreachable(
    fabric: Fabric, operator: Operator
) -> None:
    cut, killed, free, *after = fabric.plain
    fabric.freeze(cut)
    try:
        run = operator.apply()
        marked = [is_marked(fabric, host) for host in after]
    finally:
        fabric.thaw(cut)
    assert run.code == 1, run.err
    assert marked == [False, True, True]
    assert f"host {cut.name} cannot be reached" in " ".join(run.err.split())
    assert {cob for cob, _ in run.transitions() if cob.endswith("/gate")} == {
        f"{killed.name}/gate",
        f"{free.name}/gate",
    }
    again = operator.apply()
    assert again.code == 0, again.err
    assert operator.broken_promises([run, again]) == []
