"""Both executors and the adapter pass the conformance kit that is shipped to plugin authors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Host, Job, JobKind, Tasks, cob_id
from cobweb.plugin import Executor
from cobweb.testing import (
    AdapterCase,
    ExecutorCase,
    NamedCheck,
    adapter_checks,
    executor_checks,
)
from cobweb_plugins.ansible._adapter import AnsibleInventory
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._plain import AnsiblePlainExecutor

HERE = Path(__file__).parent
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
CLOSED = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-F none"}
HOSTS = {name: Host(name=name, variables=LOCAL) for name in ("a", "b", "c")}


def _job(number: int, host: str, tasks: str = "quick", kind: JobKind = JobKind.TRANSITION) -> Job:
    return Job(
        number=number,
        kind=kind,
        cob=cob_id(host, "x"),
        host=host,
        type_name="simple",
        action=Tasks(path=str(HERE / "tasks" / f"{tasks}.yml")),
        cob_vars={},
    )


def _case(make: type[Executor]) -> ExecutorCase:
    return ExecutorCase(
        make=make,
        hosts={**HOSTS, "closed": Host(name="closed", variables=CLOSED)},
        transition=_job,
        check=lambda number, host: _job(number, host, "check", JobKind.CHECK),
        failing=lambda number, host: _job(number, host, "fail"),
        slow=lambda number, host: _job(number, host, "slow"),
        broken=lambda number, host: _job(number, host, "none"),
        told=lambda number, host: _job(number, host, "told", JobKind.CHECK),
        unreachable="closed",
        parallel=4,
    )


GATE = pytest.mark.gate("by Ansible itself; tests/testing has all checks on the fake executor")
FULL = pytest.mark.full("each with processes of its own; the gate has some")
IN_THE_GATE: dict[type[Executor], tuple[str, ...]] = {
    AnsibleExecutor: ("each_job_has_exactly_one_report", "timeout_ends_one_job_only"),
    AnsiblePlainExecutor: ("failure_is_a_report_with_one_line",),
}


def _checks(kind: type[Executor]) -> list[Any]:
    chosen = IN_THE_GATE[kind]
    return [
        pytest.param(check, marks=GATE if check.name in chosen else FULL)
        for check in executor_checks(_case(kind))
    ]


@pytest.mark.parametrize("check", _checks(AnsibleExecutor), ids=str)
def test_ansible_conforms(check: NamedCheck) -> None:
    """The executor `ansible` keeps the promises of its protocol."""
    check()


@pytest.mark.parametrize("check", _checks(AnsiblePlainExecutor), ids=str)
def test_ansible_plain_conforms(check: NamedCheck) -> None:
    """The executor `ansible-plain` keeps the promises of its protocol."""
    check()


@pytest.mark.gate("one reads an inventory by Ansible itself")
@pytest.mark.parametrize(
    "check",
    adapter_checks(
        AdapterCase(
            make=AnsibleInventory,
            source=HERE / "sources" / "hosts.ini",
            foreign=HERE / "sources" / "plain.yml",
            damaged=HERE / "sources" / "damaged.ini",
        )
    ),
    ids=str,
)
def test_ansible_inventory_conforms(check: NamedCheck) -> None:
    """The adapter `ansible-inventory` keeps the promises of its protocol."""
    check()
