"""One lane as the coordinator sees it: a connection, the job on it, and the end of both."""

from __future__ import annotations

from typing import Any

from cobweb.model import Job, JobKind, Role, Tasks
from cobweb_plugins.ansible._hub import Connection

__all__ = ["Lane", "job_message"]


class Lane:
    """A lane; `job` is what it was given, `began` whether it said that it began."""

    def __init__(self, connection: Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.job: Job | None = None
        self.began = False
        self.deadline = 0.0
        self.last_host = ""

    def give(self, job: Job, *, deadline: float, basedir: str) -> None:
        """Send a job to this idle lane."""
        assert self.job is None
        self.job, self.began, self.deadline = job, False, deadline
        self.last_host = job.host
        self.connection.send({**job_message(job), "basedir": basedir})

    def take(self) -> Job | None:
        """Return the job and forget it."""
        job, self.job = self.job, None
        return job


def job_message(job: Job) -> dict[str, Any]:
    """Return the message that asks a lane to run `job`."""
    assert isinstance(job.action, Tasks | Role)
    action = (
        {"role": job.action.name} if isinstance(job.action, Role) else {"tasks": job.action.path}
    )
    return {
        "op": "run",
        "number": job.number,
        "host": job.host,
        "check": job.kind is JobKind.CHECK,
        "cob": job.cob_vars,
        **action,
    }
