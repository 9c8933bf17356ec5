"""A cluster of Grid Engine on hosts of a fabric: its master, its user and its jobs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import ClassVar

from tests.support.fabric import FabricHost
from tests.support.scheduler import Scheduler

__all__ = ["GridEngine"]

# A scheduler that decides soon, and hosts that are missed soon; set before any host reports, for
# one keeps to its old times for a while.
_MASTER = """\
set -e
export LC_ALL=C
cd "$(mktemp -d)"
su -s /bin/sh sgeadmin -c "/usr/share/gridengine/scripts/init_cluster \\
  /var/lib/gridengine default /var/spool/gridengine/spooldb sgeadmin"
/etc/init.d/gridengine-master start
for i in $(seq 200); do qping -info "$(hostname)" 6444 qmaster 1 && break; sleep 0.1; done
qconf -as "$(hostname)"
qconf -sconf | grep -v '^#' | sed '
  s/^max_unheard.*/max_unheard 00:00:20/
  s/^load_report_time.*/load_report_time 00:00:02/' > global
qconf -Mconf global  # which names the configuration
qconf -ssconf | sed '
  s/^schedule_interval.*/schedule_interval 0:0:2/
  s/^flush_submit_sec.*/flush_submit_sec 1/
  s/^flush_finish_sec.*/flush_finish_sec 1/' > scheduler
qconf -Msconf scheduler
printf 'group_name @allhosts\\nhostlist NONE\\n' > group
qconf -Ahgrp group
qconf -sq | sed '
  s/^qname .*/qname all.q/
  s/^hostlist .*/hostlist @allhosts/
  s/^slots .*/slots 2/
  s/^load_thresholds .*/load_thresholds NONE/
  s/^rerun .*/rerun TRUE/
  s/^pe_list .*/pe_list NONE/' > queue
qconf -Aq queue
"""


_ENTRY = r"""printf 'hostname {}\nload_scaling NONE\ncomplex_values NONE\nuser_lists NONE\n\
xuser_lists NONE\nprojects NONE\nxprojects NONE\nusage_scaling NONE\nreport_variables NONE\n' > e"""


@dataclass(frozen=True, slots=True)
class GridEngine(Scheduler):
    """A cluster whose master is `master`; the hosts that may work for it have nothing set up."""

    SHOWS: ClassVar[str] = "qstat -f -u '*'; qhost"
    PATIENCE_S: ClassVar[float] = 150

    def make(self) -> None:
        """Set up the master, a queue of the host group @allhosts, and the user on all hosts."""
        self.make_users()
        self.say(_MASTER)

    def join(self, host: FabricHost) -> None:
        """Have a host work for it, as an administrator does by hand."""
        master = self.say("cat /var/lib/gridengine/default/common/act_qmaster")
        path = "/var/lib/gridengine/default/common/act_qmaster"
        self.say(f"qconf -ah {host.name}; cd $(mktemp -d); {_ENTRY.format(host.name)}; qconf -Ae e")
        self.on(host, f"echo {master} > {path}; /etc/init.d/gridengine-exec start")
        heard = f"qhost -h {host.name} | tail -1 | grep -q ' lx-'"
        self.wait_for(lambda: not self.fails(heard), f"{host.name} is heard")
        self.say(f"qconf -aattr hostgroup hostlist {host.name} @allhosts")
        takes = f"qhost -q -h {host.name} | tail -1 | grep -q 'all.q .*[0-9] *$'"
        self.wait_for(lambda: not self.fails(takes), f"{host.name} takes work")

    def fails(self, script: str) -> bool:
        """Say whether shell text fails on the master."""
        return self.say(f"({script}) || echo failed", check=False).endswith("failed")

    def submit(self, command: str, options: str = "") -> str:
        """Submit a job of shell text that may be begun anew; return its number."""
        asks = f"qsub -terse -r y -N test -j y -o /dev/null {options}"
        line = f"echo {shlex.quote(command)} | {asks} 2>&1"
        # As long as no host is there it warns, and says that it could not run what it has taken.
        said = self.say_as_user(line, check=False)
        found = re.search(r"^(\d+)|Your job (\d+)", said, re.MULTILINE)
        if found is None:
            raise AssertionError(said)
        return str(found[1] or found[2])

    def state(self, job: str) -> str:
        """Return the letters of a job's state, none once it has ended."""
        rows = self.say("qstat -u '*'").splitlines()[2:]
        words = [row.split() for row in rows]
        return " ".join(row[4] for row in words if row[0] == job)

    def wait_running(self, job: str) -> None:
        """Wait until a job is at work."""
        self.wait_for(lambda: self.state(job) == "r", f"job {job} is at work")

    def ends(self, job: str) -> int:
        """Return how often a job has come to an end, by the accounting."""
        said = self.say(f"qacct -j {job}", check=False)
        return len(re.findall(rf"^jobnumber +{job} *$", said, re.MULTILINE))

    def ran_on(self, job: str) -> list[str]:
        """Return the hosts of the runs of a job, by the accounting."""
        said = self.say(f"qacct -j {job}", check=False)
        return re.findall(r"^hostname +(\S+)", said, re.MULTILINE)

    def let_end(self, job: str) -> None:
        """Delete a job and wait until the master knows nothing of it."""
        self.say(f"qdel -f {job}", check=False)
        self.wait_for(lambda: not self.state(job), f"job {job} is gone")
