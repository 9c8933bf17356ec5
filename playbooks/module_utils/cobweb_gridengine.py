# SPDX-License-Identifier: GPL-3.0-or-later
"""What Grid Engine says of itself: its tools, and what their answers mean.

Runs on the host of the master: Python 3.8 or newer, nothing beyond it and Ansible's own
module_utils. Hosts go by their short names, up to the first dot.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple
from xml.etree import ElementTree as ET

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_scheduler import count_tasks, plain, short
from ansible.module_utils.cobweb_tools import SYSTEM_PATH, Done, attempt

TOOL_S = 25.0
ASKED_JOBS = 20
"""Of how many kinds of pending jobs, and how many arrays, the master is asked in detail."""

GONE = "o"
"""The letter of a queue instance that is only there until its jobs have ended."""

_CONCURRENCY = re.compile(r"^maximum concurrency: +(\d+)", re.MULTILINE)
_TOO_FEW_SLOTS = re.compile(r"cannot run in PE .* because it only offers \d+ slots")


class Job(NamedTuple):
    """A job at work on a host, or one task of an array."""

    number: str
    task: str
    name: str
    owner: str

    def __str__(self) -> str:
        number = f"{self.number}.{self.task}" if self.task else self.number
        return f"{number} ({self.owner}: {self.name})"


class Node(NamedTuple):
    """An execution host: `states` are the letters of each of its queue instances.

    `name` is as the master says it; one that `reports` has said lately how it is.
    """

    name: str
    reports: bool
    states: Tuple[str, ...]
    used: int
    slots: int
    jobs: Tuple[Job, ...]

    @property
    def queued(self) -> bool:
        """Say whether it has a queue instance that is there to stay."""
        return any(GONE not in letters for letters in self.states)

    @property
    def silent(self) -> bool:
        """Say whether the master does not hear it."""
        return not self.reports or any("u" in letters for letters in self.states)

    @property
    def disabled(self) -> bool:
        """Say whether no queue instance takes new work."""
        return all("d" in letters or GONE in letters for letters in self.states)


class Waiting(NamedTuple):
    """A pending job, or some tasks of one; jobs of one `kind` ask for the same."""

    number: str
    state: str
    slots: int
    tasks: int
    is_array: bool
    kind: Tuple[str, ...]


class Master:
    """The tools of a cell; `root` and `cell` are as in SGE_ROOT and SGE_CELL."""

    def __init__(self, given: Dict[str, Any]) -> None:
        self.root = Path(given.get("root", "/var/lib/gridengine"))
        self.cell = str(given.get("cell", "default"))
        self.group = str(given.get("hostgroup", "@allhosts"))

    @property
    def common(self) -> Path:
        """Return the folder that says where the master is."""
        return self.root / self.cell / "common"

    def attempt(self, tool: str, *arguments: str) -> Done:
        """Run a tool, however it ends."""
        os.environ.update(SGE_ROOT=str(self.root), SGE_CELL=self.cell)
        return attempt(self._path(tool), *arguments, timeout_s=TOOL_S)

    def say(self, tool: str, *arguments: str) -> str:
        """Run a tool that has to end well, and return what it printed."""
        done = self.attempt(tool, *arguments)
        if done.status:
            raise Failed(f"{tool} {' '.join(arguments)}: {line(done.message)}")
        return done.out

    def nodes(self) -> Dict[str, Node]:
        """Return all execution hosts by their short names."""
        return nodes_of(self.say("qhost", "-q", "-j", "-xml"))

    def members(self) -> Set[str]:
        """Return the short names of all hosts in the host group, or in groups in it."""
        return {short(name) for name in self.say("qconf", "-shgrp_resolved", self.group).split()}

    def entries(self) -> Dict[str, str]:
        """Return the execution hosts as the master says them, by their short names."""
        done = self.attempt("qconf", "-sel")
        if done.status and "no execution host defined" not in done.message:
            raise Failed(f"qconf -sel: {line(done.message)}")
        return {short(name): name for name in ([] if done.status else done.out.split())}

    def pending(self, nodes: Iterable[Node]) -> Tuple[int, int]:
        """Return how many jobs would begin if there were another member, and their slots."""
        rows = pending_of(self.say("qstat", "-u", "*", "-s", "p", "-r", "-xml"))
        if not rows:
            return 0, 0
        # Their state is that of others, and their time may just have come: both are asked for.
        late = {it.number for it in pending_of(self.say("qstat", "-u", "*", "-s", "ha", "-xml"))}
        rows = [it for it in rows if it.number not in late]
        if any(node.queued for node in nodes):
            rows = self._suitable(rows)
        at_work = [job for node in nodes for job in node.jobs]
        counts = self._tasks(rows, at_work)
        return sum(counts), sum(count * it.slots for count, it in zip(counts, rows))  # noqa: B905 - Python 3.8

    def _suitable(self, rows: List[Waiting]) -> List[Waiting]:
        """Return those that a host like ours could run; of each kind one is asked for."""
        never = set()
        for number, kind in enumerate(dict.fromkeys(it.kind for it in rows)):
            if number == ASKED_JOBS:
                break
            job = next(it.number for it in rows if it.kind == kind)
            said = self.attempt("qalter", "-w", "v", job)
            text = said.out + said.err
            if "no suitable queues" in text and not _TOO_FEW_SLOTS.search(text):
                never.add(kind)
        return [it for it in rows if it.kind not in never]

    def _tasks(self, rows: List[Waiting], at_work: List[Job]) -> List[int]:
        """Return how many tasks of each row could begin; arrays may limit them (`-tc`)."""
        left: Dict[str, int] = {}
        for number in list(dict.fromkeys(it.number for it in rows if it.is_array))[:ASKED_JOBS]:
            found = _CONCURRENCY.search(self.attempt("qstat", "-j", number).out)
            if found:
                running = len({job.task for job in at_work if job.number == number})
                left[number] = max(0, int(found[1]) - running)
        counts = []
        for it in rows:
            count = min(it.tasks, left.get(it.number, it.tasks))
            if it.number in left:
                left[it.number] -= count
            counts.append(count)
        return counts

    def _path(self, tool: str) -> str:
        found = shutil.which(tool, path=SYSTEM_PATH)
        if found:
            return found
        return next(map(str, sorted(self.root.glob(f"bin/*/{tool}"))), tool)


def line(text: str) -> str:
    """Return what a tool said as one line."""
    return "; ".join(part.strip() for part in text.splitlines() if part.strip())


def nodes_of(text: str) -> Dict[str, Node]:
    """Read `qhost -q -j -xml`; Failed where that is cut short or something else."""
    found = {}
    for host in _root(text, "qhost").iter("host"):
        name = _named(host, "name", "qhost")
        if name != "global":
            found[short(name)] = _node(host, name)
    return found


def _node(host: ET.Element, name: str) -> Node:
    values = {it.get("name"): it.text or "" for it in host.iter("hostvalue")}
    if "arch_string" not in values:
        raise Failed(f"qhost: what it says of {name} is not whole")
    queues = [
        {it.get("name"): (it.text or "").strip() for it in queue.iter("queuevalue")}
        for queue in host.iter("queue")
    ]
    return Node(
        name=name,
        reports=values["arch_string"] not in ("", "-"),
        states=tuple(queue.get("state_string", "") for queue in queues),
        used=sum(_whole(queue.get("slots_used"), "qhost") for queue in queues),
        slots=sum(_whole(queue.get("slots"), "qhost") for queue in queues),
        jobs=tuple(dict.fromkeys(_job(job) for job in host.iter("job"))),
    )


def _job(job: ET.Element) -> Job:
    values = {it.get("name"): it.text or "" for it in job.iter("jobvalue")}
    return Job(
        number=_named(job, "name", "qhost"),
        task=values.get("taskid", ""),
        name=plain(values.get("job_name", "")),
        owner=plain(values.get("job_owner", "")),
    )


def pending_of(text: str) -> List[Waiting]:
    """Read `qstat -s p -r -xml`, less what is held or in error; Failed where that is broken."""
    rows = [_waiting(it) for it in _root(text, "job_info").iter("job_list")]
    return [it for it in rows if not set("hE") & set(it.state)]


def _waiting(row: ET.Element) -> Waiting:
    tasks = row.findtext("tasks")
    asks = (
        f"{it.tag} {sorted(it.items())} {it.text}"
        for it in row
        if it.tag in ("hard_request", "hard_req_queue", "master_hard_req_queue", "requested_pe")
    )
    slots = _whole(row.findtext("slots"), "qstat")
    owner = row.findtext("JB_owner") or ""
    return Waiting(
        number=str(_whole(row.findtext("JB_job_number"), "qstat")),
        state=row.findtext("state") or "",
        slots=slots,
        tasks=1 if tasks is None else count_tasks(tasks, "qstat"),
        is_array=tasks is not None,
        kind=(owner, str(slots), *sorted(asks)),
    )


def _root(text: str, tag: str) -> ET.Element:
    tool = {"qhost": "qhost", "job_info": "qstat"}[tag]
    try:
        root = ET.fromstring(text)  # noqa: S314 - it is the answer of the master's own tools
    except ET.ParseError as error:
        raise Failed(f"{tool}: its answer is no XML or was cut short: {error}") from None
    if root.tag != tag:
        raise Failed(f"{tool}: its answer is <{root.tag}>, not <{tag}>")
    return root


def _named(element: ET.Element, attribute: str, tool: str) -> str:
    name = element.get(attribute)
    if not name:
        raise Failed(f"{tool}: a {element.tag} in its answer has no name")
    return name


def _whole(text: Optional[str], tool: str) -> int:
    try:
        return int(text or "")
    except ValueError:
        raise Failed(f"{tool}: {text!r} in its answer is no number") from None
