# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `ha-node`: this host as a node of a Pacemaker cluster.

`online`: a member, and resources may run here; `standby`: none runs here, so that the host may be
changed; `maintenance`: those that run go on, and the cluster leaves them alone; `outdated`: between
these. Where Pacemaker does not run, nothing of the cluster does: that is standby, too.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ansible.module_utils import cobweb_pacemaker as pacemaker
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_pacemaker import Cluster
from ansible.module_utils.cobweb_tools import attempt

ATTRIBUTES = {"standby": "on", "maintenance": "true"}
AWAY = ("pending", "unclean", "shutdown")


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    del cob
    cluster = pacemaker.look()
    return {"state": "standby" if cluster is None else _state(cluster, _own_name())}


def reach(cob: Dict[str, Any]) -> Answer:
    """Bring the node to the target, and wait until resources are where they belong then."""
    goal, timeout_s = cob["target"], pacemaker.timeout_of(cob["spec"])
    cluster = pacemaker.look()
    if goal == "standby" and (cluster is None or _state(cluster, _own_name()) == goal):
        return {"changed": False}
    with pacemaker.alone():
        cluster = pacemaker.await_ready(timeout_s)
        name = _own_name()
        cluster = pacemaker.await_that(
            timeout_s,
            lambda it: it.is_ready and _is_member(it.nodes.get(name)),
            lambda it: f"{name} did not come online: {_describe(it, name)}",
        )
        changed = [_set(cluster, name, attribute, goal) for attribute in ATTRIBUTES]
        cluster = pacemaker.settle(timeout_s)
        found = _state(cluster, name)
    if found != goal:
        raise Failed(f"{name} is {found}, not {goal}: {_describe(cluster, name)}")
    return {"changed": any(changed)}


def _state(cluster: Cluster, name: str) -> str:
    node = cluster.nodes.get(name)
    idle = node is None or node.get("resources_running") == "0"
    if not cluster.is_ready:
        # Without quorum a node may start nothing; if nothing runs, it is as good as in standby.
        return "standby" if idle else "outdated"
    if node is None or not _is_member(node):
        return "outdated"
    if node.get("maintenance") == "true":
        return "maintenance"
    if node.get("standby") == "true":
        return "standby" if idle else "outdated"
    return "online"


def _is_member(node: Optional[Mapping[str, str]]) -> bool:
    return (
        node is not None
        and node.get("online") == "true"
        and "true" not in [node.get(word) for word in AWAY]
    )


def _set(cluster: Cluster, name: str, attribute: str, goal: str) -> bool:
    """Set or take away a node attribute; return whether it was otherwise."""
    node = cluster.nodes[name]
    if (node.get(attribute) == "true") == (attribute == goal):
        return False
    argv = ["crm_attribute", "--node", name, "--name", attribute, "--lifetime", "forever"]
    argv += ["--update", ATTRIBUTES[attribute]] if attribute == goal else ["--delete"]
    done = attempt(*argv, timeout_s=pacemaker.TOOL_S)
    if done.status != 0:
        raise Failed(f"crm_attribute: {done.message}")
    return True


def _own_name() -> str:
    done = attempt("crm_node", "--name", timeout_s=pacemaker.TOOL_S)
    if done.status != 0:
        raise Failed(f"crm_node --name: {done.message}")
    return done.out.strip()


def _describe(cluster: Cluster, name: str) -> str:
    node = cluster.nodes.get(name)
    if node is None:
        return f"crm_mon does not know it; {cluster.quorum_line()}"
    words = [word for word in ("online", *ATTRIBUTES, *AWAY) if node.get(word) == "true"]
    running = f"{node.get('resources_running')} resources run on it"
    return f"crm_mon calls it {', '.join(words) or 'offline'}, {running}; {cluster.quorum_line()}"


if __name__ == "__main__":
    run({"check": check, "reach": reach})
