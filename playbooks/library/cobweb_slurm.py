# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the adapter `slurm`: dynamic nodes of a Slurm cluster.

Some actions are for the host of the controller (`about`, `check`, `admit`, `drain`, `dismiss`,
`observe`, and those of the entry), others for the member's own (`daemon`, `start`, `stop`), which
needs no tools of the controller. A task hands what one found to the next, as `about` and `daemon`
of the variable `cob`. The entry is the record of a node, which there is once slurmd has registered;
a member is `up` while slurmd works for this cluster and is heard, and nobody has it drained; `down`
if no such slurmd runs and the node is drained, or there is none; else `draining`, and the message
says what is not as it should be. A node that slurm.conf names is left where it is: slurmctld dies
at its next reconfiguration once such a one was deleted.
Every step may be repeated and interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_scheduler import (
    observed,
    pids,
    refuse_jobs,
    run_alone,
    seen,
    short,
    until,
)
from ansible.module_utils.cobweb_slurm import Controller, Node, line
from ansible.module_utils.cobweb_tools import Done, attempt, has_systemd, replace_file

REPORT_S = 60.0
END_S = 40.0
DELETE_S = 20.0
START_S = 45.0
DAEMON = "slurmd"
STEP = "slurmstepd"
PATH = "/usr/sbin/slurmd"
LOG = "/var/log/slurm/slurmd.log"
OURS = "cobweb pools: "
CONF = Path("/etc/slurm/slurm.conf")
FETCHED = Path("/run/slurm/conf/slurm.conf")
DROP_IN = Path("/etc/systemd/system/slurmd.service.d/cobweb-pools.conf")

# Debian's unit wants a slurm.conf on the host; one that forks tells whether slurmd could start.
UNIT = """\
# {owner}
[Unit]
ConditionPathExists=
[Service]
Type=forking
PIDFile=
ExecStart=
ExecStart={command}
"""

HINTS = {
    "Munge encode failed": "is munged running there?",
    "Zero Bytes were transmitted": "is its /etc/munge/munge.key the controller's, and its clock?",
    "connect failure": "can it reach the controller, and its port?",
    "Unable to determine this slurmd's NodeName": "no slurm.conf names it",
}

GONE_REASONS = ("Not responding", "Node unexpectedly rebooted", OURS)
"""Why a node is down that is as good as new once slurmd has registered again."""


# --- the entry, on the host of the controller


def entry_check(cob: Dict[str, Any]) -> Answer:
    """Find whether the controller has a node of the host, and whether pools have it drained.

    One that somebody else has drained is as it is to be; the member says what is wrong with it.
    """
    node = _node(cob)
    if node is None:
        return {"state": "down"}
    ours = node.reason.startswith(OURS) or cob.get("target") == "draining"
    return {"state": "draining" if node.drained and ours else "up"}


def entry_add(cob: Dict[str, Any]) -> Answer:
    """See that there is a node, which is slurmd's own doing."""
    if not until(lambda: _node(cob), REPORT_S):
        hint = "has its slurmd ended, or does its host go by another name?"
        raise Failed(f"{cob['spec']['resource']}: the controller has no such node; {hint}")
    return {"changed": False}


def entry_resume(cob: Dict[str, Any]) -> Answer:
    """Give the node new work again, if pools have drained it."""
    node = _node(cob)
    if node is None or not (node.drained and node.reason.startswith(OURS)):
        return {"changed": False}
    # Which leaves one down that is down; `resume` would have jobs begin there.
    done = _scontrol("update", f"nodename={node.name}", "state=undrain")
    after = _node(cob)
    if after is not None and after.drained:
        raise Failed(f"{node.name}: scontrol update state=undrain: {line(done.message)}")
    return {"changed": True}


def entry_remove(cob: Dict[str, Any]) -> Answer:
    """Delete the node, unless jobs are there; those of one that is lost are begun elsewhere."""
    node = _node(cob)
    if node is None:
        return {"changed": False}
    lost = bool(cob["spec"].get("lost"))
    if lost:
        _give_up(cob, node)
    _refuse_static(node, "its jobs were begun elsewhere" if lost else "it stays")
    refuse_jobs(cob, _jobs(cob))
    said: List[str] = []

    def gone() -> bool:
        if _node(cob) is not None:
            said.append(_scontrol("delete", f"nodename={node.name}").message)
        return _node(cob) is None

    if not until(gone, DELETE_S):
        raise Failed(f"{node.name}: scontrol delete: {line(said[-1])}")
    return {"changed": True}


def _give_up(cob: Dict[str, Any], node: Node) -> None:
    """Have the jobs of a host that is lost begun elsewhere; Slurm does that where one is down."""
    reason = f"reason={OURS}{node.name} is lost"
    done = _scontrol("update", f"nodename={node.name}", "state=down", reason)
    if done.status and _node(cob):
        raise Failed(f"{node.name}: scontrol update state=down: {line(done.message)}")
    until(lambda: not _jobs(cob), END_S)


# --- a member, on the host of the controller


def about(cob: Dict[str, Any]) -> Answer:
    """Return what the host of a member needs to know of its cluster."""
    cluster, node = Controller().cluster(), _node(cob)
    server = cob["spec"]["with"].get("server", cluster.server)
    heard = node is not None and not node.silent
    static = node is not None and node.is_static
    named = {"cluster": cluster.name, "server": server}
    return {"about": {**named, "heard": heard, "static": static}}


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state of a member, by the controller's node and what its own host has said."""
    node, ours = _node(cob), _is_ours(Controller().cluster().name, cob["daemon"])
    if not ours and (node is None or (node.drained and not node.used and not node.is_static)):
        other = cob["daemon"]["alive"] and f"{DAEMON} works for {cob['daemon']['cluster']}"
        return {"state": "down", "message": other or ""}
    problem = _problem(cob, node, ours=ours)
    is_up = not problem and node is not None and node.takes_work
    return {"state": "up" if is_up else "draining", "message": problem}


def _problem(cob: Dict[str, Any], node: Optional[Node], *, ours: bool) -> str:
    """Return why a member is not as it should be, nothing if it is."""
    if not ours:
        return f"{DAEMON} does not run there, or for another cluster"
    if node is None:
        return "the controller has no such node"
    if node.silent:
        return "the controller does not hear it"
    if not node.takes_work and not node.reason.startswith(OURS):
        return f"it is drained: {line(node.reason)}"
    return _unused(cob, node)


def _unused(cob: Dict[str, Any], node: Node) -> str:
    wanted = cob["spec"]["with"].get("partition")
    if wanted and wanted not in node.partitions:
        return f"it is not in the partition {wanted}, whose nodes have to be ALL or a node set"
    return "" if node.partitions else "it is in no partition, the nodes of one have to be ALL"


def admit(cob: Dict[str, Any]) -> Answer:
    """Wait until the node is heard, and have it take work."""
    host, changed = cob["spec"]["resource"], False
    if not until(lambda: _is_heard(_node(cob)), REPORT_S):
        node = _node(cob)
        if node is None or node.silent:
            hint = f"is port 6818 of it open, and its host name {short(host)}? see {LOG} there"
            raise Failed(f"{host}: {DAEMON} did not register within {REPORT_S:g} s: {hint}")
    node = _node(cob)
    if node and not node.takes_work and node.reason.startswith(GONE_REASONS):
        done = _scontrol("update", f"nodename={node.name}", "state=resume")
        changed = True
        until(lambda: _takes_work(_node(cob)), END_S)
        if done.status and not _takes_work(_node(cob)):
            raise Failed(f"{host}: scontrol update state=resume: {line(done.message)}")
        node = _node(cob)
    if node is None or not node.takes_work:
        reason = line(node.reason) if node else "it is gone"
        hint = "see `with.conf` of the service, or resume it by hand"
        raise Failed(f"{host} gets no work: {reason or 'for no reason'}; {hint}")
    unused = _unused(cob, node)
    if unused:
        raise Failed(f"{host} gets no work: {unused}")
    return {"changed": changed}


def drain(cob: Dict[str, Any]) -> Answer:
    """Give the node no new work."""
    return {"changed": _drain(cob)}


def dismiss(cob: Dict[str, Any]) -> Answer:
    """See that no jobs are there, and that none will be."""
    changed = _drain(cob)
    refuse_jobs(cob, _jobs(cob))
    return {"changed": changed, **about(cob)}


def _drain(cob: Dict[str, Any]) -> bool:
    node = _node(cob)
    if node is None:
        return False
    _refuse_static(node, "it stays as it is")
    if node.drained:
        return False
    reason = f"reason={OURS}leaves {cob['spec']['service']}"
    done = _scontrol("update", f"nodename={node.name}", "state=drain", reason)
    after = _node(cob)
    if after is not None and not after.drained:
        raise Failed(f"{node.name}: scontrol update state=drain: {line(done.message)}")
    return True


def _refuse_static(node: Node, so: str) -> None:
    if node.is_static:
        hint = "mark it `static: true` in the site, or take it out of there and make it dynamic"
        raise Failed(f"{node.name} cannot leave, slurm.conf names it, {so}; {hint}")


def _jobs(cob: Dict[str, Any]) -> List[str]:
    host = short(cob["spec"]["resource"])
    return [str(job) for job in Controller().jobs() if job.is_at_work and host in job.hosts]


def _node(cob: Dict[str, Any]) -> Optional[Node]:
    return Controller().nodes().get(short(cob["spec"]["resource"]))


def _is_heard(node: Optional[Node]) -> bool:
    return node is not None and not node.silent


def _takes_work(node: Optional[Node]) -> bool:
    return node is not None and node.takes_work


def _scontrol(*arguments: str) -> Done:
    return Controller().attempt("scontrol", *arguments)


# --- the service


def observe(cob: Dict[str, Any]) -> Answer:
    """Say what the service has."""
    controller, partition = Controller(), cob["spec"]["with"].get("partition")
    jobs, nodes = controller.jobs(), controller.nodes()
    if partition:
        nodes = {key: it for key, it in nodes.items() if partition in it.partitions}
        jobs = [it for it in jobs if it.is_at_work or partition in it.partitions]
    at_work = {key: [it for it in jobs if it.is_at_work and key in it.hosts] for key in nodes}
    pending = controller.pending(jobs, nodes.values())
    up = [node for node in nodes.values() if node.takes_work]
    total = sum(node.cpus for node in up)
    waits = sum(tasks for _, tasks in pending)
    used = sum(node.used for node in up) / total if total else float(waits > 0)
    kpis = {
        "pending": waits,
        "pending_slots": sum(tasks * job.cpus for job, tasks in pending),
        "running": len({job.number for many in at_work.values() for job in many}),
        "utilisation": min(1.0, used),
    }
    members = {
        key: seen(node.state, len(at_work[key]), node.used, node.cpus)
        for key, node in sorted(nodes.items())
    }
    return observed(kpis, members)


# --- a member, on its own host


def daemon(cob: Dict[str, Any]) -> Answer:
    """Find whether slurmd runs, and for which cluster."""
    return {"daemon": _found(), "resource": cob["spec"]["resource"]}


def start(cob: Dict[str, Any]) -> Answer:
    """Have slurmd run, and register with the controller of the service."""
    host, of = cob["spec"]["resource"], cob["about"]
    found = _found()
    if found["alive"]:
        if not _is_ours(cob["about"]["cluster"], found):
            hint = "end it if that is over"
            raise Failed(f"{host}: {DAEMON} works for {found['cluster'] or 'nobody'}; {hint}")
        if of["heard"]:
            return {"changed": False}
        _end(cob)  # which does not register anew once its node was deleted
    command = [PATH] if of["static"] else [PATH, *_options(cob)]
    said = _start_unit(cob, command) if has_systemd() else _run(command)
    if not until(lambda: pids(DAEMON), END_S / 4):
        hint = next((HINTS[it] for it in HINTS if it in said), f"see {LOG} there")
        raise Failed(f"{host}: {DAEMON} does not start: {said or 'it says nothing'}; {hint}")
    return {"changed": True}


def stop(cob: Dict[str, Any]) -> Answer:
    """End slurmd, unless jobs are at work by its own host, and see it gone."""
    host, changed = cob["spec"]["resource"], False
    found = _found()
    if found["alive"] and _is_ours(cob["about"]["cluster"], found):
        steps = ", ".join(map(str, pids(STEP)))
        if steps:
            raise Failed(f"{host} cannot leave, jobs are at work by {STEP}: {steps}")
        if has_systemd():
            attempt("systemctl", "disable", f"{DAEMON}.service")
        _end(cob)
        changed = True
    if _owner(DROP_IN) == _owned(cob):
        attempt("systemctl", "disable", f"{DAEMON}.service")
        DROP_IN.unlink()
        attempt("systemctl", "daemon-reload")
        changed = True
    return {"changed": changed}


def _found() -> Dict[str, Any]:
    found = pids(DAEMON)
    return {"alive": bool(found), "cluster": _cluster_of(found[0]) if found else ""}


def _is_ours(cluster: str, found: Dict[str, Any]) -> bool:
    return bool(found["alive"]) and found["cluster"] == cluster


def _cluster_of(pid: int) -> str:
    """Return the name of the cluster that a slurmd works for, by the configuration it has."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        fetched = any(it.startswith("--conf-server") for it in words) or not CONF.exists()
        path = Path(words[words.index("-f") + 1]) if "-f" in words else CONF
        text = (FETCHED if fetched else path).read_text(encoding="utf-8", errors="replace")
        named = re.search(r"^\s*ClusterName\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE)
        return named[1] if named else ""
    return ""


def _options(cob: Dict[str, Any]) -> List[str]:
    conf, server = cob["spec"]["with"].get("conf"), cob["about"]["server"]
    return [
        *("-Z", *(("--conf", conf) if conf else ())),
        *(("--conf-server", server) if server else ()),
    ]


def _start_unit(cob: Dict[str, Any], command: List[str]) -> str:
    """Start the unit so that it also comes back with the host; return what went wrong."""
    if not cob["about"]["static"]:
        DROP_IN.parent.mkdir(mode=0o755, exist_ok=True)
        quoted = " ".join(f'"{it}"' for it in command)
        replace_file(DROP_IN, UNIT.format(owner=_owned(cob), command=quoted), mode=0o644)
        attempt("systemctl", "daemon-reload")
    attempt("systemctl", "enable", f"{DAEMON}.service")
    began = str(int(time.time()))
    done = attempt("systemctl", "restart", f"{DAEMON}.service", timeout_s=2 * START_S)
    if not done.status:
        return ""
    log = attempt("journalctl", "-u", DAEMON, "-o", "cat", f"--since=@{began}")
    wrong = [it for it in log.out.splitlines() if re.search(r": (error|fatal): ", it)]
    return _short("\n".join(wrong)) or line(done.message)


def _run(command: List[str]) -> str:
    """Start slurmd; return what went wrong."""
    status, said = run_alone(command, "slurmd", START_S)
    if status is None:
        return f"it was not ready within {START_S:g} s"
    return _short(said) if status else ""


def _short(text: str) -> str:
    """Return errors of slurmd as one line, less those that all have."""
    return line("\n".join(it for it in text.splitlines() if "mpi" not in it.lower()))


def _end(cob: Dict[str, Any]) -> None:
    if has_systemd():
        attempt("systemctl", "stop", f"{DAEMON}.service", timeout_s=2 * START_S)
    if not until(lambda: not pids(DAEMON), 0.0):
        supervision.signal_all(pids(DAEMON), signal.SIGTERM)
    if not until(lambda: not pids(DAEMON), END_S):
        raise Failed(f"{cob['spec']['resource']}: {DAEMON} does not end: it ignores SIGTERM")


def _owned(cob: Dict[str, Any]) -> str:
    return f"Of the service {cob['spec']['service']}, by `cobweb pool`"


def _owner(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0][2:]
    except (OSError, IndexError):
        return ""


if __name__ == "__main__":
    of_entry = {
        "entry-check": entry_check,
        "entry-add": entry_add,
        "entry-resume": entry_resume,
        "entry-remove": entry_remove,
    }
    of_control = {"about": about, "check": check, "admit": admit, "drain": drain}
    of_host = {"daemon": daemon, "start": start, "stop": stop}
    run({"observe": observe, "dismiss": dismiss, **of_entry, **of_control, **of_host})
