"""A cluster of Slurm on hosts of a fabric: its controller, its user and its jobs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.support.scheduler import Scheduler

__all__ = ["Slurm"]

_MUNGE = "mkdir -p /run/munge && chown munge: /run/munge && runuser -u munge -- /usr/sbin/munged"

# A job that was requeued waits until its credential is over: 120 s, if less than 5 s is said.
_CONTROLLER = """\
ClusterName=test
SlurmctldHost={}
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ReturnToService=2
SlurmdTimeout=30
KillWait=2
MinJobAge=300
MaxNodeCount=64
TreeWidth=65533
SlurmctldParameters=cloud_reg_addrs,enable_configless
SchedulerParameters=sched_interval=1,batch_sched_delay=1
"""


@dataclass(frozen=True, slots=True)
class Slurm(Scheduler):
    """A cluster whose controller is `master`; hosts that may work for it have only munged running.

    slurm.conf names the hosts in `static`, whose slurmd is not started either.
    """

    static: Sequence[str] = ()

    SHOWS: ClassVar[str] = "squeue --states=all; sinfo -N -o '%N %T %E'"
    PATIENCE_S: ClassVar[float] = 60

    def make(self) -> None:
        """Set up munged and the user on all hosts, and the controller with one partition."""
        self.make_users()
        for host in self.fabric.hosts:
            self.on(host, _MUNGE)
        conf = _CONTROLLER.format(self.master.name)
        conf += "".join(f"NodeName={it} CPUs=2 State=UNKNOWN\n" for it in self.static)
        conf += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        # Without this slurmd looks for cgroups that a host of a fabric has not.
        files = {"slurm.conf": conf, "cgroup.conf": "CgroupPlugin=cgroup/v1\n"}
        for name, text in files.items():
            self.say(f"printf %s {shlex.quote(text)} > /etc/slurm/{name}")
        self.say("slurmctld")
        self.wait_for(lambda: "UP" in self.say("scontrol ping", check=False), "slurmctld is there")

    def submit(self, command: str, options: str = "") -> str:
        """Submit a job of shell text that may be begun anew; return its number."""
        asks = f"sbatch --parsable --requeue -J test -D /tmp -o /dev/null {options}"
        line = f"{asks} --wrap {shlex.quote(command)}"
        return self.say_as_user(line)

    def jobs(self) -> list[Any]:
        """Return what the controller says of all jobs."""
        found: list[Any] = json.loads(self.say("squeue --json"))["jobs"]
        return found

    def state(self, job: str) -> str:
        """Return a job's state."""
        (found,) = [it for it in self.jobs() if str(it["job_id"]) == job]
        return str(found["job_state"])

    def nodes(self) -> list[str]:
        """Return the names of all nodes."""
        return [str(it["name"]) for it in json.loads(self.say("sinfo --json"))["nodes"]]

    def wait_state(self, job: str, state: str) -> None:
        """Wait until a job is in a state."""
        self.wait_for(lambda: self.state(job) == state, f"job {job} is {state}")

    def wait_running(self, job: str) -> None:
        """Wait until a job is at work."""
        self.wait_state(job, "RUNNING")

    def let_end(self, job: str) -> None:
        """Cancel a job and wait until it is."""
        self.say(f"scancel {job}")
        self.wait_state(job, "CANCELLED")
