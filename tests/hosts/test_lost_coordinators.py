"""Coordinators that are killed in the middle of a long transition, and the next run (P11).

Watched from the host: each step notes in a ledger there what it meets (`sites/long`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import OPERATOR, Fabric, FabricHost, in_namespace
from tests.support.operator import Operator, StartedRun

pytestmark = [
    pytest.mark.full("a coordinator that dies at each step of a job, by both executors"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

PLACE = "/var/tmp"  # noqa: S108  # on a host of the test's own
STEP = f"""\
#!/bin/sh
umask 0
cd {PLACE}
note() {{ echo "$*" >>long.ledger; }}
exec 9>>long.lock
flock -n 9 || note "overlap $1"
note "begin $1"
if [ -e "hold-$1" ]; then
  rm -f "hold-$1"
  trap '' HUP TERM
  cp long.conf held.conf
  echo begun >begun
  while sleep 0.05; do
    cmp -s long.conf held.conf || note "rewritten during $1"
  done
fi
note "end $1"
"""
STEPS = ["prepare", "begin", "finish"]
START = [f"{word} {step}" for step in STEPS for word in ("begin", "end")]
STOP = ["begin stop", "end stop"]
Lose = Callable[["Long", StartedRun], None]
EXECUTORS = ["ansible", "ansible-plain"]
NOBODY_ELSE = {"becomes": False, "begins_as": "", "sudo": ""}
"""All is done by the user of the connection."""


@dataclass
class Long:
    """The site, with one host."""

    fabric: Fabric
    operator: Operator

    @property
    def host(self) -> FabricHost:
        return self.fabric.plain[0]

    def write(self, text: str, **variables: Any) -> None:
        """Want this configuration."""
        self.operator.set_variables(text=text, **{**NOBODY_ELSE, **variables})

    def hold(self, step: str) -> None:
        """Have the next step of this name never end by itself."""
        self.fabric.run(
            self.host,
            "sh",
            "-c",
            f"cd {PLACE} && mkfifo -m 666 begun && touch hold-{step} && chmod 777 .",
        )

    def await_step(self) -> None:
        """Wait until the step that is held is at work."""
        assert self.fabric.run(self.host, "cat", f"{PLACE}/begun").stdout == "begun\n"
        self.fabric.run(self.host, "rm", f"{PLACE}/begun")

    def ledger(self) -> list[str]:
        """Return what the steps have noted since the last time."""
        said = self.fabric.run(self.host, "cat", f"{PLACE}/long.ledger").stdout
        self.fabric.run(self.host, "rm", f"{PLACE}/long.ledger")
        return said.splitlines()

    def apply(self, executor: str) -> None:
        run = self.operator.apply("--executor", executor)
        assert run.code == 0, run.err


@pytest.fixture
def long(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Long]:
    """Make the site; its host has nothing of it in the end."""
    it = Long(fabric, operator_maker("long"))
    it.operator.write_inventory({"long": [it.host]})
    it.write("one")
    step = fabric.root(it.host) / "usr/local/bin/step"
    step.write_text(STEP, encoding="utf-8")
    step.chmod(0o755)
    yield it
    files = f"{PLACE}/* /home/*/.local /usr/local/bin/step /var/lib/cobweb"
    fabric.run(it.host, "sh", "-c", f"rm -rf {files}")
    assert fabric.visitors() == []


def kill_coordinator(long: Long, started: StartedRun) -> None:
    """Kill Cobweb alone; what it had started here ends by that, what it had there does not."""
    del long
    os.kill(started.process.pid, signal.SIGKILL)


def lose_machine(long: Long, started: StartedRun) -> None:
    """Have all of Cobweb gone at once, and nothing of it get to the host, as by a loss of power."""
    del started
    ours = long.fabric.keeper_pid
    long.fabric.link_down(long.host)
    try:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in in_namespace("net", long.fabric.network.stat().st_ino):
                with suppress(ProcessLookupError):
                    if int(process.name) != ours:
                        os.kill(int(process.name), number)
    finally:
        long.fabric.link_up(long.host)


@pytest.mark.parametrize(
    ("lose", "step", "executor"),
    [
        (kill_coordinator, "prepare", "ansible"),
        pytest.param(
            *(kill_coordinator, "begin", "ansible"),
            marks=pytest.mark.gate("the story of kill -9 on a real host"),
        ),
        (kill_coordinator, "finish", "ansible"),
        (kill_coordinator, "begin", "ansible-plain"),
        (lose_machine, "prepare", "ansible"),
        (lose_machine, "begin", "ansible"),
        (lose_machine, "prepare", "ansible-plain"),
    ],
)
def test_a_start_is_never_at_work_twice(long: Long, lose: Lose, step: str, executor: str) -> None:
    long.hold(step)
    with long.operator.start_apply("--executor", executor) as started:
        long.await_step()
        lose(long, started)
    long.apply(executor)
    assert long.ledger() == [*START[: START.index(f"begin {step}") + 1], *START]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_stop_is_never_at_work_twice(long: Long, executor: str) -> None:
    long.apply(executor)
    long.ledger()
    long.write("two")
    long.hold("stop")
    with long.operator.start_apply("--executor", executor) as started:
        long.await_step()
        kill_coordinator(long, started)
    long.apply(executor)
    assert long.ledger() == ["begin stop", *STOP, *START]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_no_configuration_is_rewritten_under_a_start(long: Long, executor: str) -> None:
    long.hold("finish")
    with long.operator.start_apply("--executor", executor) as started:
        long.await_step()
        kill_coordinator(long, started)
    long.write("two")
    long.apply(executor)
    assert long.ledger() == [*START[:-1], *START]
    assert (long.fabric.root(long.host) / PLACE[1:] / "long.conf").read_text() == "two\n"


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("step", "who"),
    [
        pytest.param("finish", {"becomes": True}, id="the task becomes root"),
        pytest.param("finish", {"sudo": "sudo -n"}, id="its command calls sudo"),
        pytest.param("begin", {"begins_as": "nobody"}, id="a user who may not log in, raw"),
    ],
)
def test_what_became_another_user_is_found_as_well(
    long: Long, executor: str, step: str, who: dict[str, Any]
) -> None:
    """The user of the connection is no root, and only one task of three becomes somebody else."""
    assert long.fabric.run(long.host, "getent", "passwd", "nobody").stdout.endswith("nologin\n")
    long.write("one", ansible_user=OPERATOR, **who)
    long.hold(step)
    with long.operator.start_apply("--executor", executor) as started:
        long.await_step()
        lose_machine(long, started)
    long.apply(executor)
    assert long.ledger() == [*START[: START.index(f"begin {step}") + 1], *START]


def test_a_host_that_was_lost_in_the_middle_is_cleaned_up_when_it_is_back(long: Long) -> None:
    """The run that lost it has ended by itself, and knows that it has."""
    long.hold("begin")
    with long.operator.start_apply() as started:
        long.await_step()
        long.fabric.link_down(long.host)
        try:
            lost = started.end()
        finally:
            long.fabric.link_up(long.host)
    assert lost.code == 1, lost.err
    long.apply("ansible")
    assert long.ledger() == [*START[:3], *START]
