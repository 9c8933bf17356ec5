"""An apply over SSH that is told to stop, or dies, while a transition runs on a host."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.gates import await_gate, gated_site, is_marked, lift_gate, open_gate
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.full("interrupts over real hosts; the gate has them on local processes"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]


@pytest.fixture
def operator(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Operator]:
    """Return who works on the gated site."""
    with gated_site(fabric, operator_maker("gated")) as operator:
        yield operator


def test_the_first_interrupt_lets_end_what_runs_and_starts_nothing_new(
    fabric: Fabric, operator: Operator, gate: FabricHost
) -> None:
    after = fabric.plain[3]
    with operator.start_apply() as started:
        await_gate(fabric, gate)
        started.process.send_signal(signal.SIGINT)
        started.await_error_line("interrupt again")
        open_gate(fabric, gate)
        run = started.end()
    assert run.code == 130, run.err
    assert (f"{gate.name}/gate", "up") in run.transitions()
    assert not is_marked(fabric, after)
    assert fabric.visitors() == []
    again = operator.apply()
    assert again.code == 0, again.err
    assert is_marked(fabric, after)
    assert operator.broken_promises([run, again]) == []


def test_the_second_interrupt_stops_what_runs_and_the_next_apply_converges(
    fabric: Fabric, operator: Operator, gate: FabricHost
) -> None:
    with operator.start_apply() as started:
        await_gate(fabric, gate)
        started.process.send_signal(signal.SIGINT)
        started.await_error_line("interrupt again")
        started.process.send_signal(signal.SIGINT)
        run = started.end()
    assert run.code == 130, run.err
    assert f"{gate.name}/gate" in run.err
    assert fabric.visitors() == []
    lift_gate(fabric, gate)
    again = operator.apply()
    assert again.code == 0, again.err
    assert all(is_marked(fabric, host) for host in fabric.plain[3:])


def test_after_the_death_of_the_coordinator_the_next_apply_checks_and_converges(
    fabric: Fabric, operator: Operator, gate: FabricHost
) -> None:
    with operator.start_apply() as started:
        await_gate(fabric, gate)
        started.process.kill()
        run = started.end()
    assert run.code == -signal.SIGKILL
    open_gate(fabric, gate)
    again = operator.apply()
    assert again.code == 0, again.err
    found = {
        event["cob"]: event["reason"] for event in again.events if event["type"] == "cob.state"
    }
    assert found[f"{gate.name}/gate"] in {"check", "transition"}
    assert all(is_marked(fabric, host) for host in fabric.plain[3:])
    third = operator.apply("--refresh", "all")
    assert (third.code, third.transitions()) == (0, []), third.err
