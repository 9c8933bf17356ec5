"""One lane as the coordinator sees it: a connection, the job on it, and the end of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobweb.model import Action, Job, JobKind, Role, Tasks
from cobweb_plugins.ansible._direct import DirectTasks
from cobweb_plugins.ansible._facts import subsets_of
from cobweb_plugins.ansible._hub import Connection
from cobweb_plugins.ansible._sweep import Place, Sweep


class Lane:
    """A lane; `job` is what it was given, `began` whether it said that it began.

    `place` is where its task is at work, if that is a remote host; `host_vars` are the job's.
    """

    def __init__(self, connection: Connection, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.job: Job | Sweep | None = None
        self.began = False
        self.place: Place | None = None
        self.deadline = 0.0
        self.last_host = ""
        self.host_vars: Mapping[str, Any] = {}
        self._known: set[str] = set()

    def give(  # noqa: PLR0913  # what a lane has to know of a job
        self,
        job: Job,
        *,
        deadline: float,
        basedir: str,
        facts_folder: str,
        mark: str,
        first: str,
        end: str,
        direct: DirectTasks | None,
        met: Mapping[str, Any] | None,
    ) -> None:
        """Send a job to this idle lane; `mark` marks what it starts.

        The script `first` comes before its tasks; `end` stands for them if it is not empty. Those
        of a `direct` job go past Ansible where somebody has `met` its host's module server.
        """
        self._take_on(job, deadline)
        more: dict[str, Any] = {"basedir": basedir, "mark": mark, "first": first, "end": end}
        more["facts_folder"] = facts_folder
        if direct is not None:
            more |= {"direct": direct.message(), "met": met}
            if direct.digest not in self._known:
                self._known.add(direct.digest)
                more["code"] = direct.code.decode()
        self.connection.send({**job_message(job), **more})

    def give_sweep(self, sweep: Sweep, *, basedir: str) -> None:
        """Let this idle lane end what another has left on a host."""
        self._take_on(sweep, sweep.deadline)
        self.connection.send({**sweep.message(), "basedir": basedir})

    def _take_on(self, job: Job | Sweep, deadline: float) -> None:
        assert self.job is None
        self.job, self.began, self.deadline, self.place = job, False, deadline, None
        self.last_host, self.host_vars = job.host, job.host_vars

    def note(self, message: Mapping[str, Any]) -> bool:
        """Take a message on how the job goes; say whether it is of that kind and not its end."""
        match message["op"]:
            case "begin":
                self.began = True
            case "at":
                self.place = message["place"]
            case _:
                return False
        return True

    def take(self) -> Job | Sweep | None:
        """Return the job and forget it."""
        job, self.job = self.job, None
        return job


def job_message(job: Job) -> dict[str, Any]:
    """Return the message that asks a lane to run `job`."""
    return {
        "op": "run",
        "number": job.number,
        "host": job.host,
        "check": job.kind is JobKind.CHECK,
        "asks": job.kind is JobKind.QUESTION,
        "fresh": job.fresh,
        "cob": job.cob_vars,
        "host_vars": job.host_vars,
        **_action(job.action),
    }


def _action(action: Action) -> dict[str, Any]:
    match action:
        case Tasks(path=path, facts=facts, finds=finds):
            return {"tasks": path, "facts": subsets_of(facts), "finds": finds}
        case Role(name=name, vars=more, facts=facts, finds=finds):
            return {"role": name, "vars": more, "facts": subsets_of(facts), "finds": finds}
        case _:
            return {}
