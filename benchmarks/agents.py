"""Runs over agents: what they cost, beside Cobweb without agents, ansible-playbook and clush.

All hosts are this machine, with one file each. A cost is that of all processes: coordinator,
server, and agents until they are at rest again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._agents_company import Agents, company
from benchmarks._agents_proc import Memory
from benchmarks._agents_work import Work
from benchmarks._row import Row
from benchmarks._tasks_cost import Spent
from benchmarks._tasks_places import Place, local_place
from benchmarks._tasks_tools import Ran, clush, cobweb, playbook

__all__ = ["measure"]

IDLE_TARGET_MIB = 60e6 / 2**20
"""What an idle agent may keep: 60 MB."""

HOST_TARGET_MS = 5.0
"""What a further host may cost the coordinator of a run in which there is nothing to do."""

NOTHING, SAME = "nothing to do, all checked", "nothing to do, nothing in doubt"
CHANGED = "one file changed on each"
ALL = ("--refresh", "all")
AGENTLESS = "Cobweb without agents"
Run = Callable[[Place, Path], Ran | None]
_PEERS: Mapping[str, Run] = {
    AGENTLESS: cobweb,
    "ansible-playbook": playbook,
    "clush": clush,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took; `agents` and `server` are apart, and those of agents after its end."""

    run: Spent
    agents_s: float = 0.0
    server_s: float = 0.0
    after_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """CPU of all processes."""
        return self.run.cpu_s + self.agents_s + self.server_s + self.after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured with agents.

    `runs` are by name, each from rest to rest; `few_s` and `all_s` are the coordinator's CPU in
    runs with nothing to do, over those agents and over all; `problem` says why there is no such
    run of all.
    """

    runs: Mapping[str, Cost]
    idle: Memory
    loaded: Memory
    few_s: float
    all_s: float
    problem: str = ""


def measure(size: str) -> Iterator[Row]:
    """Yield CPU and time of each run for each peer, then what only agents have."""
    hosts, few = (50, 10) if size == "full" else (3, 2)
    with local_place(hosts) as place:
        found = _with_agents(place, few, rests=size == "full")
        for peer, run in _PEERS.items():
            yield from _compare(found, peer, _without(place, peer, run, few), few)
    yield from _own(found, hosts, few)


def _with_agents(place: Place, few: int, *, rests: bool) -> Found:
    """Measure Cobweb with an agent for each host; without `rests` not each run begins at rest."""
    work = Work(place, "agents", has_agents=True)
    names = sorted(place.hosts)
    work.write("one", few)
    with company(place, work.folder) as agents:
        idle = agents.memory(names)
        agents.forget()
        cobweb(place, work.folder)
        loaded = agents.memory(names[:few])
        between = names[:few] if rests else ()
        agents.wait(between)
        nothing = _from_rest(agents, lambda: _nothing(place, work, few, *ALL), between)
        same = _from_rest(agents, lambda: _nothing(place, work, 0), between)
        work.write("two", few)
        changed = _from_rest(agents, lambda: cobweb(place, work.folder), names[:few])
        work.hold("two", few)
        few_s, all_s, problem = 0.0, 0.0, ""
        try:
            few_s = _nothing(place, work, 0).spent.cpu_s
            for hosts in range(2 * few, len(names) + few, few):
                work.write("two", hosts)  # so many begin at once as these cores can take
                cobweb(place, work.folder)
            work.hold("two", len(names))
            all_s = _nothing(place, work, 0).spent.cpu_s
        except RuntimeError as error:
            problem = f"{error}".splitlines()[-1]
    return Found(
        runs={NOTHING: nothing, SAME: same, CHANGED: changed},
        idle=idle,
        loaded=loaded,
        few_s=few_s,
        all_s=all_s,
        problem=problem,
    )


def _nothing(place: Place, work: Work, checks: int, *options: str) -> Ran:
    """Apply again, with at least so many checks; RuntimeError where anything changes."""
    ran = cobweb(place, work.folder, *options)
    if ran.changed or ran.checks < checks:
        raise RuntimeError(f"nothing was to do: {ran.changed} changed, {ran.checks} checked")
    return ran


def _from_rest(agents: Agents, run: Callable[[], Ran], hosts: Sequence[str]) -> Cost:
    """Measure a run of agents that are at rest, until they are at rest again."""
    agents.forget()
    before = agents.used()
    ran = run()
    at_end = agents.used()
    agents.wait(hosts)
    during, after = at_end.since(before), agents.used().since(at_end)
    return Cost(
        run=ran.spent,
        agents_s=during.agents_s,
        after_s=after.agents_s,
        server_s=during.server_s + after.server_s,
    )


def _without(place: Place, peer: str, run: Run, hosts: int) -> Mapping[str, Cost]:
    """Measure the same runs of a peer; empty where it is missing."""
    tag = peer.replace(" ", "-")
    work = Work(place, tag)
    work.write("one", hosts)
    if run(place, work.folder) is None:
        return {}
    work.hold("one", hosts)
    found = {}
    if peer == AGENTLESS:
        found[NOTHING] = Cost(run=_nothing(place, work, hosts, *ALL).spent)
        found[SAME] = Cost(run=_nothing(place, work, 0).spent)
    elif again := run(place, work.folder):
        if again.changed:
            raise RuntimeError(f"nothing was to do, but {peer} changed {again.changed}")
        found[NOTHING] = Cost(run=again.spent)
    work.write("two", hosts)
    if changed := run(place, work.folder):
        found[CHANGED] = Cost(run=changed.spent)
    work.hold("two", hosts)
    return found


def _compare(found: Found, peer: str, runs: Mapping[str, Cost], hosts: int) -> Iterator[Row]:
    """Yield the rows of one peer: CPU and time of each run."""
    for name, ours in found.runs.items():
        what = f"{hosts} hosts, {name}"
        if name == SAME and peer != AGENTLESS:
            continue  # others look at everything each time
        if name not in runs:
            yield Row(what=f"{what}, {peer}", missing="run benchmarks/install-peers")
            continue
        theirs = runs[name]
        yield Row(
            what=f"{what}, CPU of all",
            value=ours.cpu_s,
            peer=peer,
            peer_value=theirs.cpu_s,
            note=(
                f"coordinator {ours.run.cpu_s:.2f} s, agents {ours.agents_s:.1f} s and then "
                f"{ours.after_s:.1f} s until they are at rest again, server {ours.server_s:.2f} s"
            ),
        )
        yield Row(
            what=f"{what}, wall",
            value=ours.run.wall_s,
            peer=peer,
            peer_value=theirs.run.wall_s,
            note="agents and hosts share the cores of this machine, so it is no time of a cluster",
        )


def _own(found: Found, hosts: int, few: int) -> Iterator[Row]:
    """Yield what has no peer: the coordinator's cost of a host, and memory."""
    what = f"{hosts} hosts, `apply` again, coordinator's CPU per host"
    if found.problem:
        yield Row(what=what, missing=found.problem)
    else:
        yield Row(
            what=what,
            value=found.all_s / hosts * 1e3,
            unit="ms",
            note="start and site are in it, and nothing is checked that nobody has changed",
        )
        further_s = found.all_s - found.few_s
        yield Row(
            what=f"coordinator's CPU for each host above {few}",
            value=further_s / (hosts - few) * 1e3,
            unit="ms",
            target=HOST_TARGET_MS,
            missing="" if further_s > 0 else "less than by how much runs differ",
            note=f"{found.few_s:.2f} s with {few} hosts, {found.all_s:.2f} s with {hosts}",
        )
    yield Row(
        what="an idle agent before its first order, resident memory, median",
        value=found.idle.resident,
        unit="MiB",
        target=IDLE_TARGET_MIB,
        note=f"{found.idle.shared_out:.1f} MiB where {hosts} of one machine share their libraries",
    )
    yield Row(
        what="an agent after an order, resident memory, median",
        value=found.loaded.resident,
        unit="MiB",
        note="half a minute later it becomes a new process, which keeps no more than at first",
    )
