"""Jobs that are stopped over SSH: nothing of them stays on their hosts, but for daemons."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import OPERATOR, Fabric, FabricHost
from tests.support.gates import await_gate
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full(
        "jobs that outlive their time over SSH; the gate has them on the local connection"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

DAEMONS = ["sleep 4001", "sleep 4002"]
"""What an earlier job, and an earlier task of the same job, have handed over to init."""
DAEMON_MARK = "/var/tmp/daemon"  # noqa: S108  # on a host of the test's own
WORK = ["sleep 4003", "sleep 4004", "sleep 4006"]
LIST = r"for one in /proc/[0-9]*/cmdline; do tr '\0\n' '  ' < $one; echo; done 2> /dev/null"
AS_USERS = pytest.mark.parametrize("user", ["root", OPERATOR])


@pytest.fixture
def host(fabric: Fabric) -> Iterator[FabricHost]:
    """Return the host at work; what the test leaves there ends with a reboot."""
    host = fabric.plain[0]
    fabric.kill(host)  # and with it what other tests have left to run
    fabric.start(host)
    fabric.run(host, "mkfifo", "/run/begun")
    yield host
    fabric.kill(host)
    fabric.start(host)
    fabric.run(host, "rm", "-f", "/run/begun", DAEMON_MARK)
    assert running(fabric, host) == []
    assert fabric.visitors() == []


@pytest.fixture
def operator(operator_maker: OperatorMaker, host: FabricHost) -> Operator:
    """Return who works on the site `stopped`."""
    operator = operator_maker("stopped")
    operator.write_inventory({"workers": [host]})
    return operator


def running(fabric: Fabric, host: FabricHost) -> list[str]:
    """Return the commands on a host that a job may have started, sorted."""
    found = fabric.run(host, "sh", "-c", LIST, check=False).stdout.splitlines()
    kinds = ("sleep", "sudo", "/usr/bin/python", "/bin/sh")
    return sorted(line.strip() for line in found if line.startswith(kinds))


def interrupt_twice(fabric: Fabric, operator: Operator, host: FabricHost, *, freeze: bool) -> Run:
    """Interrupt an apply at work, a second time once it has said how; freeze the host before."""
    with operator.start_apply() as started:
        await_gate(fabric, host)
        found = running(fabric, host)
        assert [one for one in found if one in WORK + DAEMONS] == DAEMONS + WORK
        if freeze:
            fabric.freeze(host)
        started.process.send_signal(signal.SIGINT)
        started.await_error_line("interrupt again")
        started.process.send_signal(signal.SIGINT)
        return started.end()


@AS_USERS
def test_after_the_second_interrupt_nothing_runs_on_the_host_but_daemons(
    fabric: Fabric, operator: Operator, host: FabricHost, user: str
) -> None:
    operator.set_variables(ansible_user=user)
    run = interrupt_twice(fabric, operator, host, freeze=False)
    assert run.code == 130, run.err
    assert running(fabric, host) == DAEMONS
    assert "may still run" not in run.err


@AS_USERS
def test_after_a_timeout_nothing_runs_on_the_host_but_daemons(
    fabric: Fabric, operator: Operator, host: FabricHost, user: str
) -> None:
    operator.set_variables(ansible_user=user)
    with operator.start_apply("--timeout", "15") as started:
        await_gate(fabric, host)
        run = started.end()
    assert run.code == 1, run.err
    assert "took longer than 15 s and was stopped" in run.err
    assert "may still run" not in run.err
    assert running(fabric, host) == DAEMONS


def test_a_host_that_does_not_answer_is_said_to_run_on(
    fabric: Fabric, operator: Operator, host: FabricHost
) -> None:
    try:
        run = interrupt_twice(fabric, operator, host, freeze=True)
    finally:
        fabric.thaw(host)
    assert run.code == 130, run.err
    assert f"what it started on {host.name} may still run there" in run.err
