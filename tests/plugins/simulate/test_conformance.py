"""The simulator keeps the promises of the executor protocol."""

from __future__ import annotations

import pytest

from cobweb.model import CobId, Host, Job, JobKind, Nothing, Tasks
from cobweb.testing import ExecutorCase, NamedCheck, executor_checks
from cobweb_plugins.simulate import SimulateExecutor


def _job(number: int, host: str, name: str = "quick") -> Job:
    return Job(
        number=number,
        kind=JobKind.TRANSITION,
        cob=CobId(f"{host}/{name}"),
        host=host,
        type_name="simple",
        action=Tasks(path="/start.yml"),
        cob_vars={},
        source="down",
        dest="up",
    )


def _check(number: int, host: str) -> Job:
    return Job(
        number=number,
        kind=JobKind.CHECK,
        cob=CobId(f"{host}/quick"),
        host=host,
        type_name="simple",
        action=Nothing(),
        cob_vars={},
    )


CASE = ExecutorCase(
    make=SimulateExecutor,
    hosts={name: Host(name=name) for name in ("a", "b", "c", "gone")},
    transition=_job,
    check=_check,
    failing=lambda number, host: _job(number, host, "bad"),
    slow=lambda number, host: _job(number, host, "slow"),
    unreachable="gone",
    options={
        "initial": "down",
        "fail": ["a/bad"],
        "unreachable": ["gone"],
        "durations": {"slow": 100_000},
    },
)


@pytest.mark.parametrize("check", executor_checks(CASE), ids=str)
def test_simulate_conforms(check: NamedCheck) -> None:
    check()


def test_all_checks_but_one_apply() -> None:
    names = {check.name for check in executor_checks(CASE)}
    assert len(names) == 15
    assert "what_cannot_start_is_a_report" not in names  # nothing cannot start in a simulation
