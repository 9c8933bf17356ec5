"""The tools that carry out the same work: Cobweb, ansible-playbook, pyinfra, clush.

A tool gets a folder with a site, a playbook, ... that say the same, and a tag: it writes below
ROOT/TAG on the hosts, so that each tool meets hosts where nothing is done yet.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._tasks_cost import Spent
from benchmarks._tasks_places import HERE, Place, tool

FORKS = 20
RECAP = re.compile(r"changed=(\d+)")
EXPERT = """[defaults]
host_key_checking = True
internal_poll_interval = 0.001
[ssh_connection]
pipelining = True
ssh_args = -C -o ControlMaster=auto -o ControlPersist=60s
[connection]
pipelining = True
"""
TAKE_OVER = ("--adopt", "all")
"""Each row is a site of its own, which takes the hosts over from that of the row before."""
PYINFRA = HERE / "build" / "pyinfra" / "bin" / "pyinfra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of a tool: what it cost, how many tasks changed something, its events (Cobweb)."""

    spent: Spent
    changed: int
    checks: int = 0
    events: tuple[Mapping[str, Any], ...] = ()


def write_json(path: Path, data: object) -> Path:
    """Write data as JSON, which is YAML as well; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def cobweb(place: Place, site: Path, *options: str, parallel: int = FORKS) -> Ran:
    """Apply a site, and hold the run to the promises."""
    events = site / "events.jsonl"
    command = [tool("cobweb"), "-C", str(site)]
    apply = ["apply", "--yes", "--parallel", str(parallel), "--events", str(events), *options]
    spent = place.run([*command, *apply], cwd=site)
    told = tuple(map(json.loads, events.read_text(encoding="utf-8").splitlines()))
    graph = site / "graph.json"
    place.run(["sh", "-c", '"$@" > "$0"', str(graph), *command, "graph", "-o", "json"], cwd=site)
    _hold_to_promises(told, json.loads(graph.read_text(encoding="utf-8")))
    counts = told[-1]["counts"]
    return Ran(spent=spent, changed=counts["transitions"], checks=counts["checks"], events=told)


def _hold_to_promises(events: Sequence[Mapping[str, Any]], graph: Mapping[str, Any]) -> None:
    from cobweb.testing.promises import check_promises

    if broken := check_promises(events, graph):
        raise RuntimeError(f"the run broke its promises: {broken[:3]}")


def playbook(
    place: Place, folder: Path, *options: str, strategy: str = "linear", expert: bool = True
) -> Ran:
    """Run the folder's playbook with 20 forks; an expert has pipelining and a quicker poll."""
    config = folder / ("expert.cfg" if expert else "default.cfg")
    config.write_text(EXPERT if expert else "", encoding="utf-8")
    spent = place.run(
        [
            tool("ansible-playbook"),
            "-f",
            str(FORKS),
            "-i",
            str(folder / "hosts.yml"),
            *options,
            str(folder / "play.yml"),
        ],
        cwd=folder,
        ANSIBLE_CONFIG=str(config),
        ANSIBLE_STRATEGY=strategy,
        ANSIBLE_NOCOLOR="1",
    )
    recap = spent.output.rpartition("PLAY RECAP")[2]
    return Ran(spent=spent, changed=sum(map(int, RECAP.findall(recap))))


def pyinfra(place: Place, folder: Path) -> Ran | None:
    """Run the folder's deploy over SSH; None where pyinfra is missing."""
    if not PYINFRA.exists() or place.fabric is None:
        return None
    ssh = {
        "ssh_user": "root",
        "ssh_key": str(place.fabric.key),
        "ssh_known_hosts_file": str(place.fabric.known_hosts),
    }
    hosts = [(values["ansible_host"], ssh) for values in place.hosts.values()]
    (folder / "inventory.py").write_text(f"hosts = {hosts!r}\n", encoding="utf-8")
    command = [str(PYINFRA), "-y", "--parallel", str(FORKS), "inventory.py", "deploy.py"]
    spent = place.run(command, cwd=folder)
    return Ran(spent=spent, changed=0)


def clush(place: Place, folder: Path) -> Ran | None:
    """Run the folder's shell script on all hosts by clush; None where it is missing."""
    program = shutil.which("clush")
    if program is None:
        return None
    script = (folder / "work.sh").read_text(encoding="utf-8")
    if place.fabric is None:
        where = ["-R", "exec", "-w", ",".join(place.hosts)]
    else:
        addresses = [values["ansible_host"] for values in place.hosts.values()]
        options = place.variables["ansible_ssh_common_args"]
        ssh = f"-i {place.fabric.key} {options}"
        where = ["-l", "root", "-o", ssh, "-w", ",".join(addresses)]
    spent = place.run([program, "-f", str(FORKS), "-S", *where, script], cwd=folder)
    return Ran(spent=spent, changed=0)
