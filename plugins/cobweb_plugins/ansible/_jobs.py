"""What both executors say of jobs: what cannot be begun, and what an end means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_never

from cobweb.model import (
    Job,
    Missing,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    Role,
    TaskOutput,
    Tasks,
)
from cobweb.plugin import ExecutorSetting


def refusal(job: Job, setting: ExecutorSetting) -> Report | None:
    """Return the report of a job that cannot be begun, or None."""
    if job.host not in setting.hosts:
        return unknown_host(job)
    match job.action:
        case Tasks(path=path):
            if not Path(path).is_file():
                return failed(job, f"no such file: {path}", began=False)
        case Role():
            pass
        case PythonAction() | Nothing() | Missing():
            kind = type(job.action).__name__
            return failed(job, f"Ansible does not carry out a {kind}", began=False)
        case _:
            assert_never(job.action)
    return None


def unknown_host(job: Job) -> Report:
    """Return the report of a job on a host that the executor was not told of."""
    return failed(job, f"the host {job.host} is not in the inventory", began=False)


def failed(job: Job, message: str, *, began: bool = True) -> Report:
    """Return the report of a job that failed without a word from Ansible."""
    return Report(number=job.number, outcome=Outcome.FAILED, message=message, began=began)


def cancelled(job: Job, *, began: bool) -> Report:
    """Return the report of a job that was stopped, or never begun, because we end."""
    message = "stopped" if began else "never begun"
    return Report(number=job.number, outcome=Outcome.CANCELLED, message=message, began=began)


def timed_out(job: Job, seconds: float) -> Report:
    """Return the report of a job that took longer than `seconds`."""
    message = f"took longer than {seconds:g} s and was stopped"
    return Report(number=job.number, outcome=Outcome.TIMEOUT, message=message)


def ended(job: Job, fields: Mapping[str, Any]) -> Report:
    """Return the report made of the fields that a lane sent."""
    return Report(
        number=job.number,
        outcome=Outcome(fields["outcome"]),
        state=fields.get("state", ""),
        message=fields.get("message", ""),
        tasks=tuple(TaskOutput(**task) for task in fields["tasks"]),
        results=fields.get("results", {}),
        in_doubt=fields.get("in_doubt", False),
    )
