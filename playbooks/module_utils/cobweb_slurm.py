# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm says of itself: its tools, and what their answers mean.

Runs on the host of the controller: Python 3.8 or newer, nothing beyond it and Ansible's own
module_utils. Hosts go by their short names, up to the first dot.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_scheduler import count_tasks, plain, short
from ansible.module_utils.cobweb_tools import Done, attempt

TOOL_S = 25.0
PORT = "6817"

AT_WORK = frozenset(
    (
        *("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING"),
        *("RESIZING", "STAGE_OUT"),
    )
)
SILENT = frozenset(
    ("DOWN", "UNKNOWN", "ERROR", "FUTURE", "NOT_RESPONDING", "POWERED_DOWN", "POWERING_DOWN")
)
INVALID = frozenset(("INVALID", "INVAL", "INVALID_REG"))

SOON = frozenset(("None", "Priority", "Resources", "ReqNodeNotAvail", "NodeDown"))
"""Why a pending job waits that begins as soon as there is a member for it."""

TOO_SMALL = frozenset(("PartitionConfig", "PartitionNodeLimit"))
"""Why one waits that asks for more than the members of its partition have all together.

They are also said of one that no member could ever run, and of all where there is no member; those
behind the first one that waits keep them when there are members.
"""

ASKS = ("features", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
"""What a job may ask of a node beside processors and memory."""

_HOSTS = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")


class Job(NamedTuple):
    """A job, or one task of an array, or those that wait; the names are those of `squeue`."""

    number: str
    array: str
    name: str
    owner: str
    states: FrozenSet[str]
    reason: str
    partitions: Tuple[str, ...]
    hosts: Tuple[str, ...]
    named_hosts: str
    nodes: int
    max_nodes: int
    cpus: int
    node_cpus: int
    node_memory: int
    is_choosy: bool
    tasks: int
    at_once: int
    priority: int
    eligible: int

    def __str__(self) -> str:
        return f"{self.number} ({self.owner}: {self.name})"

    @property
    def is_at_work(self) -> bool:
        """Say whether hosts are not rid of it yet."""
        return bool(self.states & AT_WORK)

    @property
    def waits_for_hosts(self) -> bool:
        """Say whether it is neither held nor waits for other jobs or a time.

        Its reason says so, too, but only once the controller has looked at it.
        """
        is_eligible = 0 < self.eligible <= time.time()
        return self.states == {"PENDING"} and self.priority > 0 and is_eligible


class Node(NamedTuple):
    """A node: `states` are its state and all flags."""

    name: str
    states: FrozenSet[str]
    reason: str
    partitions: Tuple[str, ...]
    cpus: int
    used: int
    memory: int

    @property
    def is_static(self) -> bool:
        """Say whether slurm.conf names it."""
        return not any(it.startswith("DYNAMIC") for it in self.states)

    @property
    def silent(self) -> bool:
        """Say whether the controller does not hear it."""
        return bool(self.states & SILENT)

    @property
    def drained(self) -> bool:
        """Say whether somebody, or Slurm itself, has it drained."""
        return "DRAIN" in self.states

    @property
    def state(self) -> str:
        """The state of a member that the service says."""
        return "silent" if self.silent else "up" if self.takes_work else "draining"

    @property
    def takes_work(self) -> bool:
        """Say whether it gets new work."""
        return not (self.silent or self.drained or self.states & INVALID)


class Cluster(NamedTuple):
    """What the configuration of a controller says; hosts that have none get theirs of `server`."""

    name: str
    server: str


class Controller:
    """The tools of a cluster, on the host of its controller."""

    def attempt(self, tool: str, *arguments: str) -> Done:
        """Run a tool, however it ends."""
        os.environ["SLURM_BITSTR_LEN"] = "0"  # all tasks of an array, not the first few
        return attempt(tool, *arguments, timeout_s=TOOL_S)

    def say(self, tool: str, *arguments: str) -> str:
        """Run a tool that has to end well, and return what it printed."""
        done = self.attempt(tool, *arguments)
        if done.status:
            raise Failed(f"{tool} {' '.join(arguments)}: {line(done.message)}")
        return done.out

    def nodes(self) -> Dict[str, Node]:
        """Return all nodes by their short names."""
        return nodes_of(self.say("sinfo", "--all", "--json"))

    def jobs(self) -> List[Job]:
        """Return all jobs, also some that have ended."""
        return jobs_of(self.say("squeue", "--all", "--json"))

    def cluster(self) -> Cluster:
        """Return what the controller's configuration says."""
        return cluster_of(self.say("scontrol", "show", "config"))

    def pending(self, jobs: Iterable[Job], nodes: Iterable[Node]) -> List[Tuple[Job, int]]:
        """Return the jobs that would begin if there were other members, each with its tasks."""
        waiting = [it for it in jobs if it.waits_for_hosts and not it.named_hosts]
        limits: Dict[str, int] = {}
        if any(it.reason == "PartitionNodeLimit" for it in waiting):
            limits = limits_of(self.say("scontrol", "--oneliner", "show", "partition"))
        known = list(nodes)
        rows = [it for it in waiting if it.reason in SOON or could_begin(it, known, limits)]
        running: Dict[str, int] = {}
        for job in jobs:
            running[job.array] = running.get(job.array, 0) + job.is_at_work
        return [(it, _tasks(it, running.get(it.array, 0))) for it in rows]


def _tasks(job: Job, running: int) -> int:
    return max(0, min(job.tasks, job.at_once - running)) if job.at_once else job.tasks


def could_begin(job: Job, nodes: List[Node], limits: Dict[str, int]) -> bool:
    """Say whether a job that was too large for its partition is not with more members."""
    if job.reason not in TOO_SMALL:
        return False
    there = [it for it in nodes if set(it.partitions) & set(job.partitions)]
    most = max((limits.get(it, 0) or job.nodes for it in job.partitions), default=job.nodes)
    if job.nodes > most or (job.max_nodes and job.nodes > job.max_nodes):
        return False
    if not there:
        return True
    fits = any(it.cpus >= job.node_cpus and it.memory >= job.node_memory for it in there)
    is_too_large = job.nodes > len(there) or job.cpus > sum(it.cpus for it in there)
    return fits and (is_too_large or not job.is_choosy)


def line(text: str) -> str:
    """Return what a tool said as one line, each thing once."""
    parts = (re.sub(r"^\w+: (error|fatal): +", "", it.strip()) for it in text.splitlines())
    return "; ".join(dict.fromkeys(it for it in parts if it))


def nodes_of(text: str) -> Dict[str, Node]:
    """Read `sinfo --json`; Failed where that is cut short or something else."""
    nodes = [_node(it) for it in _rows(text, "sinfo", "nodes")]
    return {short(it.name): it for it in nodes}


def _node(row: Any) -> Node:
    it = _Row(row, "sinfo")
    return Node(
        name=it.text("name"),
        states=it.words("state") | it.words("state_flags"),
        reason=it.text("reason", ""),
        partitions=tuple(it.given("partitions", [])),
        cpus=it.whole("cpus"),
        used=it.whole("alloc_cpus"),
        memory=it.whole("real_memory"),
    )


def jobs_of(text: str) -> List[Job]:
    """Read `squeue --json`; Failed where that is cut short or something else."""
    return [_job(it) for it in _rows(text, "squeue", "jobs")]


def _job(row: Any) -> Job:
    it = _Row(row, "squeue")
    number, array, task = (it.whole(key, 0) for key in ("job_id", "array_job_id", "array_task_id"))
    tasks = it.text("array_task_string", "")
    is_one = array and not tasks
    return Job(
        number=f"{array}_{task}" if is_one else str(it.whole("job_id")),
        array=str(array or number),
        name=plain(it.text("name", "")),
        owner=plain(it.text("user_name", "") or str(it.whole("user_id", 0))),
        states=it.words("job_state"),
        reason=it.text("state_reason", "None"),
        partitions=tuple(it.text("partition", "").split(",")),
        hosts=tuple(short(name) for name in hosts_of(it.text("nodes", ""))),
        named_hosts=it.text("required_nodes", ""),
        nodes=it.whole("node_count", 1),
        max_nodes=it.whole("max_nodes", 0),
        cpus=it.whole("cpus", 1),
        node_cpus=it.whole("minimum_cpus_per_node", 1),
        node_memory=it.whole("memory_per_node", 0),
        is_choosy=any(it.text(key, "") for key in ASKS),
        tasks=count_tasks(tasks, "squeue") if tasks else 1,
        at_once=it.whole("array_max_tasks", 0),
        priority=it.whole("priority", 0),
        eligible=it.whole("eligible_time", 0),
    )


def cluster_of(text: str) -> Cluster:
    """Read `scontrol show config`."""
    pairs = (it.partition("=") for it in text.splitlines())
    values = {key.strip(): value.strip() for key, _, value in pairs}
    name = values.get("ClusterName")
    if not name:
        raise Failed("scontrol show config: its answer has no ClusterName or was cut short")
    if "enable_configless" not in values.get("SlurmctldParameters", "").split(","):
        return Cluster(name, "")
    port = values.get("SlurmctldPort", PORT).split("-")[0]
    at = "" if port == PORT else f":{port}"
    hosts = [value for key, value in values.items() if key.startswith("SlurmctldHost[")]
    return Cluster(name, ",".join(f"{host.split('(')[0]}{at}" for host in hosts))


def limits_of(text: str) -> Dict[str, int]:
    """Read of `scontrol --oneliner show partition` how many nodes jobs may have, where limited."""
    found = {}
    for row in text.splitlines():
        values = dict(it.split("=", 1) for it in row.split() if "=" in it)
        if values.get("MaxNodes", "").isdigit() and "PartitionName" in values:
            found[values["PartitionName"]] = int(values["MaxNodes"])
    return found


def hosts_of(text: str) -> List[str]:
    """Return the names of a list like `n[01-03,07],m1`."""
    parts = _HOSTS.findall(text)
    if ",".join(parts) != text:
        raise Failed(f"squeue: {text!r} is no list of hosts")
    return [name for part in parts for name in _expanded(part)]


def _expanded(text: str) -> List[str]:
    before, opened, rest = text.partition("[")
    if not opened:
        return [text]
    inside, _, after = rest.partition("]")
    ends = _expanded(after)
    numbers = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        if not (first + (last or "0")).isdigit():
            raise Failed(f"squeue: {text!r} is no list of hosts")
        wide = len(first)
        numbers += [f"{it:0{wide}}" for it in range(int(first), int(last or first) + 1)]
    return [f"{before}{number}{end}" for number in numbers for end in ends]


class _Row:
    """One thing of an answer, where newer versions say numbers and states in other ways."""

    def __init__(self, row: Any, tool: str) -> None:
        if not isinstance(row, dict):
            raise Failed(f"{tool}: its answer has {row!r} where it should describe one thing")
        self._row, self._tool = row, tool

    def given(self, key: str, instead: Optional[Any] = None) -> Any:
        found = self._row.get(key)
        found = instead if found is None else found
        if found is None:
            raise Failed(f"{self._tool}: a part of its answer has no {key}")
        return found

    def text(self, key: str, instead: Optional[str] = None) -> str:
        found = self.given(key, instead)
        if not isinstance(found, str):
            raise Failed(f"{self._tool}: {found!r} in its answer is no {key}")
        return found

    def words(self, key: str) -> FrozenSet[str]:
        found = self.given(key)
        return frozenset(str(it).upper() for it in ([found] if isinstance(found, str) else found))

    def whole(self, key: str, instead: Optional[int] = None) -> int:
        found = self.given(key, instead)
        if isinstance(found, dict):
            found = found.get("number") if found.get("set") else instead or 0
        if not isinstance(found, int):
            raise Failed(f"{self._tool}: {found!r} in its answer is no {key}")
        return found


def _rows(text: str, tool: str, key: str) -> List[Any]:
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise Failed(f"{tool}: its answer is no JSON or was cut short: {error}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get(key), list):
        raise Failed(f"{tool}: its answer has no {key}")
    if answer.get("errors"):
        # And it ends well, with an empty list.
        said = ", ".join(_said(it) for it in answer["errors"])
        raise Failed(f"{tool}: {said}; does slurmctld run?")
    rows: List[Any] = answer[key]
    return rows


def _said(error: Any) -> str:
    words = error if isinstance(error, dict) else {}
    return plain(f"{words.get('description', error)} ({words.get('error', 'no cause')})")
