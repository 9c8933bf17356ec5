# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the adapter `gridengine`: execution hosts of a Grid Engine.

Some actions are for the host of the master (`about`, `check`, `admit`, `drain`, `dismiss`,
`observe`, and those of the entry), others for the member's own (`daemon`, `start`, `stop`), which
needs no tools of the master. A task hands what one found to the next, as `about` and `daemon` of
the variable `cob`. The entry is the record of an execution host; a member is `up` while its
execution daemon works for this master and is heard, and it has queue instances that take work, by
the host group; `down` if it has none and no such daemon runs; else `draining`, and the message says
what is not as it should be. Join and resume make of each of these what the spec says.
Every step may be repeated and interrupted anywhere.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from ansible.module_utils import cobweb_supervisor as supervision
from ansible.module_utils.cobweb_gridengine import Master, Node, line
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
from ansible.module_utils.cobweb_tools import Record, replace_file

REPORT_S = 60.0
END_S = 40.0
REQUEUE_S = 60.0
SCRIPT = "/etc/init.d/gridengine-exec"
DAEMON = "sge_execd"
SHEPHERD = "sge_shepherd"
LOGS = "/tmp/execd_messages.*"  # noqa: S108 - where the daemon writes before it has a spool
ENTRY = """\
hostname {}
load_scaling NONE
complex_values NONE
user_lists NONE
xuser_lists NONE
projects NONE
xprojects NONE
usage_scaling NONE
report_variables NONE
"""


# --- the entry, on the host of the master


def entry_check(cob: Dict[str, Any]) -> Answer:
    """Find whether the master has the host as an execution host, and gives it new work."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    if host not in master.entries():
        return {"state": "down"}
    node = master.nodes().get(host)
    # One in no queue gets no work, and there is nothing to disable: it is as it is to be.
    drains = node.disabled if node and node.queued else cob.get("target") == "draining"
    return {"state": "draining" if drains else "up"}


def entry_add(cob: Dict[str, Any]) -> Answer:
    """Make the host an execution host."""
    master, host = _master(cob), cob["spec"]["resource"]
    if short(host) in master.entries():
        return {"changed": False}
    with tempfile.NamedTemporaryFile("w", suffix=".host") as file:
        file.write(ENTRY.format(host))
        file.flush()
        done = master.attempt("qconf", "-Ae", file.name)
    if short(host) not in master.entries():
        hint = "its name has to be known here, by DNS or /etc/hosts"
        raise Failed(f"{host}: qconf -Ae: {line(done.message)}; {hint}")
    return {"changed": True}


def entry_resume(cob: Dict[str, Any]) -> Answer:
    """Give the host new work again."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    return {"changed": _enable(master, master.nodes().get(host))}


def entry_remove(cob: Dict[str, Any]) -> Answer:
    """Forget the host, unless jobs are there; those of one that is lost are begun elsewhere."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    name = master.entries().get(host)
    if name is None:
        return {"changed": False}
    if cob["spec"].get("lost"):
        _give_up(master, name)
    refuse_jobs(cob, _jobs(master.nodes().get(host)))

    def gone() -> bool:
        said.append(master.attempt("qconf", "-de", name).message)
        return host not in master.entries()

    said: List[str] = []
    if not until(gone, END_S / 4):
        hint = "take it out of what names it"
        raise Failed(f"{name}: qconf -de: {line(said[-1])}; {hint}")
    return {"changed": True}


def _give_up(master: Master, name: str) -> None:
    """Have the jobs of a host that is lost begun elsewhere, and give it no new ones."""
    node = master.nodes().get(short(name))
    if node and node.states:
        master.attempt("qmod", "-d", f"*@{name}")
    _remove_from_group(master, name)
    for number in sorted({job.number for job in node.jobs} if node else ()):
        master.attempt("qmod", "-f", "-rj", number)
    until(lambda: not _jobs(master.nodes().get(short(name))), REQUEUE_S)


# --- a member, on the host of the master


def about(cob: Dict[str, Any]) -> Answer:
    """Return where the master is, as hosts have to have it."""
    path = _master(cob).common / "act_qmaster"
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}; is the master of the cell here?") from None
    if not text:
        raise Failed(f"{path} is empty; it has to name the host of the master")
    return {"about": {"qmaster": text}}


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state of a member, by the master's lists and what its own host has said."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    daemon = cob["daemon"]
    ours = daemon["alive"] and daemon["qmaster"] == cob["about"]["qmaster"]
    node = master.nodes().get(host)
    named = host in master.members()
    if not (named or (node and node.states) or ours):
        other = daemon["alive"] and f"{DAEMON} works for the master {daemon['qmaster']}"
        return {"state": "down", "message": other or ""}
    problem = _problem(master, node, named=named, ours=ours)
    disabled = node is None or node.disabled
    return {"state": "draining" if problem or disabled else "up", "message": problem}


def _problem(master: Master, node: Optional[Node], *, named: bool, ours: bool) -> str:
    """Return why a member is not as it should be, nothing if it is."""
    if not ours:
        return f"{DAEMON} does not run there, or for another master"
    if node is None:
        return "it is no execution host of the master"
    if not node.queued:
        group = master.group
        return f"no queue uses the host group {group}" if named else f"it is not in {group}"
    return "the master does not hear it" if node.silent else ""


def admit(cob: Dict[str, Any]) -> Answer:
    """Wait until the daemon of the host is heard, and give it work."""
    master, host = _master(cob), short(cob["spec"]["resource"])

    def node() -> Optional[Node]:
        return master.nodes().get(host)

    def heard() -> bool:
        found = node()
        return found is not None and found.reports

    name = _name(master, cob)
    if not until(heard, REPORT_S):
        where = cob["about"]["qmaster"]
        hint = f"is port 6445 open? see {LOGS} there, and its `messages`"
        raise Failed(f"{name}: {DAEMON} did not report to {where} within {REPORT_S:g} s: {hint}")
    before = node()
    if host not in master.members() and not (before and before.queued):
        master.say("qconf", "-aattr", "hostgroup", "hostlist", name, master.group)
    _enable(master, node())
    # A queue instance that is new is not heard for a moment.
    if not until(lambda: _takes_work(node()), REPORT_S):
        hint = f"is there a queue with {master.group} in its `hostlist`?"
        raise Failed(f"{name} has no queue instance that takes work; {hint}")
    return {"changed": before != node()}


def drain(cob: Dict[str, Any]) -> Answer:
    """Give the host no new work."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    return {"changed": _disable(master, master.nodes().get(host))}


def dismiss(cob: Dict[str, Any]) -> Answer:
    """Take the host out of the host group, unless jobs are there."""
    master, host = _master(cob), short(cob["spec"]["resource"])
    node = master.nodes().get(host)
    changed = _disable(master, node)
    refuse_jobs(cob, _jobs(master.nodes().get(host)))
    if node is not None:
        changed = _remove_from_group(master, node.name) or changed
    return {"changed": changed}


def _takes_work(node: Optional[Node]) -> bool:
    return node is not None and node.queued and not node.silent and not node.disabled


def _disable(master: Master, node: Optional[Node]) -> bool:
    if node is None or node.disabled:
        return False
    done = master.attempt("qmod", "-d", f"*@{node.name}")
    after = master.nodes().get(short(node.name))
    if after is not None and not after.disabled:
        raise Failed(f"{node.name}: qmod -d: {line(done.message)}")
    return True


def _enable(master: Master, node: Optional[Node]) -> bool:
    if node is None or not (node.queued and node.disabled):
        return False
    done = master.attempt("qmod", "-e", f"*@{node.name}")
    after = master.nodes().get(short(node.name))
    if after is not None and after.queued and after.disabled:
        raise Failed(f"{node.name}: qmod -e: {line(done.message)}")
    return True


def _remove_from_group(master: Master, name: str) -> bool:
    """Take a host out of the host group, and see that it has no queue instance any more."""
    host, group = short(name), master.group
    inside = host in master.members()
    if inside:
        master.attempt("qconf", "-dattr", "hostgroup", "hostlist", name, group)
    if host in master.members():
        raise Failed(f"{name} is in a group within {group}; take it out of that")

    def gone() -> bool:
        node = master.nodes().get(host)
        return node is None or not node.queued

    if not until(gone, END_S / 4):
        hint = f"take it out of their `hostlist`, where it is not by {group}"
        raise Failed(f"{name} still has queue instances; {hint}")
    return inside


def _jobs(node: Optional[Node]) -> List[str]:
    return [str(job) for job in node.jobs] if node else []


def _name(master: Master, cob: Dict[str, Any]) -> str:
    resource = cob["spec"]["resource"]
    name = master.entries().get(short(resource))
    if name is None:
        raise Failed(f"{resource} is no execution host of the master; its entry comes first")
    return name


# --- the service


def observe(cob: Dict[str, Any]) -> Answer:
    """Say what the service has; hosts that are in no queue and no group are not its members."""
    master = _master(cob)
    nodes, named = master.nodes(), master.members()
    found = {it: node for it, node in nodes.items() if node.states or node.jobs or it in named}
    pending, slots = master.pending(found.values())
    up = [node for node in found.values() if _state(node) == "up"]
    total = sum(node.slots for node in up)
    used = sum(node.used for node in up) / total if total else float(pending > 0)
    kpis = {
        "pending": pending,
        "pending_slots": slots,
        "running": len({job for node in found.values() for job in node.jobs}),
        "utilisation": min(1.0, used),
    }
    members = {
        it: seen(_state(node), len(node.jobs), node.used, node.slots)
        for it, node in sorted(found.items())
    }
    return observed(kpis, members)


def _state(node: Node) -> str:
    if node.silent:
        return "silent"
    return "draining" if node.disabled else "up"


# --- a member, on its own host


def daemon(cob: Dict[str, Any]) -> Answer:
    """Find whether an execution daemon runs, and for which master."""
    return {"daemon": {"alive": bool(pids(DAEMON)), "qmaster": _qmaster(cob)}}


def start(cob: Dict[str, Any]) -> Answer:
    """Have the execution daemon run, for the master of the service."""
    master, wanted = _master(cob), cob["about"]["qmaster"]
    path, known = master.common / "act_qmaster", _qmaster(cob)
    alive = bool(pids(DAEMON))
    host = cob["spec"]["resource"]
    if alive and known != wanted:
        hint = "end it if that is over"
        raise Failed(f"{host}: {DAEMON} works for the master {known or 'of nobody'}; {hint}")
    if known != wanted:
        if not path.parent.is_dir():
            raise Failed(f"{host} has no {path.parent}; install gridengine-exec, or mount it")
        record = _record(cob)
        if not record.read():
            record.write({"path": str(path), "before": known})
        replace_file(path, f"{wanted}\n", mode=0o644)
    if alive:
        return {"changed": known != wanted}
    done = _script("restart")  # which is also for one that systemd believes to be there
    if not until(lambda: bool(pids(DAEMON)), END_S / 4):
        raise Failed(f"{host}: {DAEMON} does not start: {done or f'see {LOGS}'}")
    return {"changed": True}


def stop(cob: Dict[str, Any]) -> Answer:
    """End the execution daemon, unless jobs are at work by its own host, and see it gone."""
    host, changed = cob["spec"]["resource"], False
    if pids(DAEMON) and _qmaster(cob) == cob["about"]["qmaster"]:
        shepherds = ", ".join(map(str, pids(SHEPHERD)))
        if shepherds:
            raise Failed(f"{host} cannot leave, jobs are at work by {SHEPHERD}: {shepherds}")
        said, changed = _script("stop"), True
        if not until(lambda: not pids(DAEMON), 1.0):
            supervision.signal_all(pids(DAEMON), signal.SIGTERM)
        if not until(lambda: not pids(DAEMON), END_S):
            raise Failed(f"{host}: {DAEMON} does not end: {said or 'it ignores SIGTERM'}")
    record = _record(cob)
    kept = record.read()
    if kept:
        if _qmaster(cob) == cob["about"]["qmaster"]:  # else somebody has moved it since
            _put_back(Path(kept["path"]), kept["before"])
        record.forget()
    return {"changed": changed or bool(kept)}


def _put_back(path: Path, before: str) -> None:
    """Have a file as it was before the host joined, or not at all."""
    if before:
        replace_file(path, f"{before}\n", mode=0o644)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _record(cob: Dict[str, Any]) -> Record:
    return Record("pool-gridengine", str(_master(cob).common))


def _qmaster(cob: Dict[str, Any]) -> str:
    try:
        return (_master(cob).common / "act_qmaster").read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _script(action: str) -> str:
    """Run the script of the daemon; return its errors."""
    status, said = run_alone([SCRIPT, action], "gridengine-exec", 2 * END_S)
    if status is None:
        return f"{SCRIPT} {action} did not end"
    return line(said) if status else ""


def _master(cob: Dict[str, Any]) -> Master:
    return Master(cob["spec"]["with"])


if __name__ == "__main__":
    of_entry = {
        "entry-check": entry_check,
        "entry-add": entry_add,
        "entry-resume": entry_resume,
        "entry-remove": entry_remove,
    }
    of_master = {"about": about, "check": check, "admit": admit, "drain": drain, "dismiss": dismiss}
    of_host = {"daemon": daemon, "start": start, "stop": stop}
    run({"observe": observe, **of_entry, **of_master, **of_host})
