# SPDX-License-Identifier: GPL-3.0-or-later
"""Talk to a Pacemaker cluster from one of its nodes: read it, change it for sure, wait for it.

A change is made only with quorum and a DC. `cibadmin` itself is content with less: on a node that
has neither it ends well, and what it did is lost when the node joins. So we look first, and after
the change read it back from the DC.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
)
from xml.etree import ElementTree as ET

from ansible.module_utils.cobweb_cib import Patch
from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tools import SYSTEM_PATH, attempt, one_at_a_time

TIMEOUT_S = 60
POLL_S = 0.5
TOOL_S = 30.0
KEPT_CIB = Path("/var/lib/pacemaker/cib/cib.xml")
"""The configuration as Pacemaker keeps it on disk, for when it does not run."""
NOT_INSTALLED = "5"
HARD_ERRORS = ("2", "3", "4", "5", "6")
"""Exit codes of agents after which a node, or the cluster, does not try again."""


class Cluster:
    """What `crm_mon` and `cibadmin` tell; read once, and again after each change."""

    def __init__(self, monitor: ET.Element, cib: ET.Element) -> None:
        self.monitor = monitor
        self.cib = cib

    @property
    def is_ready(self) -> bool:
        """Say whether there is a DC and quorum."""
        found = self.monitor.find("summary/current_dc")
        return (
            found is not None
            and found.get("present") == "true"
            and found.get("with_quorum") == "true"
        )

    @property
    def nodes(self) -> Dict[str, Mapping[str, str]]:
        """Return the nodes with their attributes by name."""
        return {str(it.get("name")): it.attrib for it in self.monitor.findall("nodes/node")}

    def instances(self, name: str) -> List[Mapping[str, str]]:
        """Return the instances of a primitive, or of all in a group or clone."""
        found = []
        for element in self.monitor.findall("resources//*"):
            if element.get("id", "").split(":")[0] != name:
                continue
            found += [it.attrib for it in element.iter("resource")]
        return found

    def failures(self, names: Iterable[str]) -> List[Mapping[str, str]]:
        """Return the failed operations of these resources; a probe that finds no agent is one."""
        wanted = set(names)
        found = [it.attrib for it in self.monitor.findall("failures/failure")]
        found += self._probes_without_agent()
        return [it for it in found if _resource_of(it.get("op_key", "")) in wanted]

    def banned_from(self, names: Iterable[str]) -> Set[str]:
        """Return the nodes where constraints forbid one of these resources."""
        found = self.cib.findall("configuration/constraints/rsc_location[@score='-INFINITY']")
        wanted = set(names)
        return {str(it.get("node")) for it in found if it.get("rsc") in wanted}

    def _probes_without_agent(self) -> Iterator[Mapping[str, str]]:
        """Yield what `crm_mon` leaves out: first looks that ended with `not installed`."""
        for node in self.cib.findall("status/node_state"):
            for operation in node.iter("lrm_rsc_op"):
                if operation.get("rc-code") == NOT_INSTALLED:
                    yield {
                        "op_key": operation.get("operation_key", ""),
                        "node": node.get("uname", ""),
                        "exitstatus": "not installed",
                        "exitcode": NOT_INSTALLED,
                        "exitreason": operation.get("exit-reason", ""),
                        "status": "complete",
                    }

    def quorum_line(self) -> str:
        """Say what is wrong with the cluster, or how it is."""
        online = [name for name, node in self.nodes.items() if node.get("online") == "true"]
        dc = self.monitor.find("summary/current_dc")
        if dc is None or dc.get("present") != "true":
            text = "the cluster has no DC (none elected yet, or this node is alone)"
        elif dc.get("with_quorum") != "true":
            text = f"the cluster has no quorum: crm_mon says {_dc_line()!r}"
        else:
            text = f"the cluster has quorum, the DC is {dc.get('name')}"
        return f"{text}; online: {', '.join(online) or 'no node'}"


def look() -> Optional[Cluster]:
    """Return the cluster as it is; None if it does not run on this host."""
    if shutil.which("crm_mon", path=SYSTEM_PATH) is None:
        return None
    shown = attempt("crm_mon", "-1", "--inactive", "--output-as=xml", timeout_s=TOOL_S)
    if shown.status != 0:
        return None
    queried = attempt("cibadmin", "--query", "--local", timeout_s=TOOL_S)
    if queried.status != 0:
        return None
    return Cluster(_parse(shown.out), _parse(queried.out))


def kept_cib() -> ET.Element:
    """Return the configuration on disk; an empty one if there is none."""
    try:
        return _parse(KEPT_CIB.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return ET.Element("cib")


def alone() -> ContextManager[None]:
    """Keep other changes of the cluster from this host waiting."""
    if shutil.which("crm_mon", path=SYSTEM_PATH) is None:
        raise Failed("this host has no crm_mon; install Pacemaker first")
    return one_at_a_time("ha")


def await_ready(timeout_s: float) -> Cluster:
    """Wait until there are quorum and a DC; Failed with what is missing after the time."""
    cluster = _poll(timeout_s, lambda it: it.is_ready)
    if cluster is None:
        reason = attempt("crm_mon", "-1", timeout_s=TOOL_S).message
        raise Failed(f"the cluster does not run on this host: {reason.splitlines()[0]}")
    if not cluster.is_ready:
        raise Failed(
            f"{cluster.quorum_line()}. Nothing was changed: without quorum and DC a change would "
            "be lost. See `corosync-quorumtool -s` and `crm_mon -1`"
        )
    return cluster


def await_that(
    timeout_s: float, what: Callable[[Cluster], bool], otherwise: Callable[[Cluster], str]
) -> Cluster:
    """Wait until something is so; Failed with the text of `otherwise` after the time."""
    cluster = _poll(timeout_s, what)
    if cluster is None:
        raise Failed("the cluster has ceased to run on this host")
    if not what(cluster):
        raise Failed(otherwise(cluster))
    return cluster


def apply_patch(patch: Patch) -> Cluster:
    """Carry a patch out and return the cluster after it, as the DC has it."""
    if not patch:
        return read_back()
    # What it prints on standard output is the whole configuration, with its secrets.
    done = attempt("cibadmin", "--patch", "--xml-pipe", stdin=patch.text(), timeout_s=TOOL_S)
    if done.status != 0:
        words = [line for line in done.err.splitlines() if line.strip()][-3:]
        said = " ".join(words) or "no message"
        raise Failed(f"cibadmin: {said} (exit status {done.status})")
    return read_back()


def read_back() -> Cluster:
    """Return the cluster with the configuration of the DC; Failed without quorum."""
    queried = attempt("cibadmin", "--query", timeout_s=TOOL_S)
    shown = attempt("crm_mon", "-1", "--inactive", "--output-as=xml", timeout_s=TOOL_S)
    for done, tool in ((queried, "cibadmin"), (shown, "crm_mon")):
        if done.status != 0:
            raise Failed(f"{tool}: {done.err.strip() or f'exit status {done.status}'}")
    cluster = Cluster(_parse(shown.out), _parse(queried.out))
    if not cluster.is_ready:
        raise Failed(
            f"{cluster.quorum_line()}. It was lost during the change, which may be lost with it"
        )
    return cluster


def settle(timeout_s: float) -> Cluster:
    """Wait until the cluster has nothing more to do, and return it."""
    wait = ("crm_resource", "--wait", f"--timeout={int(timeout_s)}s")
    done = attempt(*wait, timeout_s=timeout_s + TOOL_S)
    if done.status != 0:
        raise Failed(f"crm_resource --wait: {done.message}")
    return read_back()


def clean_up(name: str) -> None:
    """Forget the failed operations of a resource, so that the cluster tries again."""
    done = attempt("crm_resource", "--cleanup", "--resource", name, timeout_s=TOOL_S)
    if done.status != 0:
        raise Failed(f"crm_resource --cleanup: {done.message}")


def forget(name: str) -> None:
    """Forget what nodes remember of a resource that is no longer in the configuration."""
    attempt("crm_resource", "--cleanup", "--resource", name, "--force", timeout_s=TOOL_S)


def reasons(cluster: Cluster, names: Iterable[str]) -> str:
    """Say why resources do not run: their failed operations, else what the cluster's tools say."""
    found = [failure_text(it) for it in cluster.failures(names)]
    if not found:
        verified = attempt("crm_verify", "--live-check", "-V", timeout_s=TOOL_S).err
        lines = (line.partition("error:")[2].strip() for line in verified.splitlines())
        found = [line for line in lines if line]
    if not found:
        for name in list(names)[:1]:
            why = attempt("crm_resource", "--why", "--resource", name, timeout_s=TOOL_S)
            found += [line.strip() for line in why.message.splitlines() if line.strip()]
    idle = [name for name, it in cluster.nodes.items() if it.get("standby") == "true"]
    if idle:
        found.append(f"in standby: {', '.join(idle)}")
    return "; ".join(dict.fromkeys(found)) or "crm_mon gives no reason"


def failure_text(failure: Mapping[str, str]) -> str:
    """Say what failed, as `crm_mon` does."""
    operation = failure.get("op_key") or failure.get("id") or "an operation"
    reason = failure.get("exitreason") or "no exit reason given"
    return (
        f"{operation} on {failure.get('node')}: {failure.get('exitstatus')} "
        f"(rc={failure.get('exitcode')}, {failure.get('status')}): {reason}"
    )


def timeout_of(spec: Optional[Mapping[str, Any]]) -> float:
    """Return how long the cluster may take, for each wait."""
    return float((spec or {}).get("timeout", TIMEOUT_S))


def _poll(timeout_s: float, what: Callable[[Cluster], bool]) -> Optional[Cluster]:
    deadline = time.monotonic() + timeout_s
    cluster = look()
    while (cluster is None or not what(cluster)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
        cluster = look()
    return cluster


def _resource_of(operation: str) -> str:
    """Return the resource of an operation such as `vip_start_0` or `web:1_migrate_to_0`."""
    head = operation.rsplit("_", 2)[0].split(":", maxsplit=1)[0]
    return re.sub("_migrate$", "", head)


def _dc_line() -> str:
    shown = attempt("crm_mon", "-1", timeout_s=TOOL_S).out
    lines = (line.strip(" *") for line in shown.splitlines())
    return next((line for line in lines if line.startswith("Current DC")), "nothing")


def _parse(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - what the cluster's own tools wrote
