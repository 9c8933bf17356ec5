# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `ha-constraint`: where and in which order resources run.

`up`: it is as asked; `outdated`: it is there, and otherwise; `broken`: it is there, and the cluster
cannot act on it, for it has no quorum or does not run here; `down`: it is not there.
"""

from __future__ import annotations

from typing import Any, Dict, List
from xml.etree import ElementTree as ET

from ansible.module_utils import cobweb_pacemaker as pacemaker
from ansible.module_utils.cobweb_cib import (
    Patch,
    build_constraint,
    canonical,
    find_constraint,
    find_resource,
    named_in,
)
from ansible.module_utils.cobweb_host import Answer, Failed, run


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    cluster = pacemaker.look()
    cib = pacemaker.kept_cib() if cluster is None else cluster.cib
    name, *earlier = _names(cob)
    is_moved = any(find_constraint(cib, other) is not None for other in earlier)
    found = find_constraint(cib, name)
    if found is None and not is_moved:
        return {"state": "down"}
    if cluster is None or not cluster.is_ready:
        return {"state": "broken"}
    wanted = canonical(build_constraint(name, cob["spec"]))
    is_same = found is not None and canonical(found) == wanted
    return {"state": "up" if is_same and not is_moved else "outdated"}


def apply(cob: Dict[str, Any]) -> Answer:
    """Make the constraint as asked, and wait until resources are where it wants them."""
    return _change(cob, [build_constraint(_names(cob)[0], cob["spec"])])


def remove(cob: Dict[str, Any]) -> Answer:
    """Take the constraint away, and wait until the cluster is at rest."""
    if check(cob)["state"] == "down":
        return {"changed": False}
    return _change(cob, [])


def _change(cob: Dict[str, Any], wanted: List[ET.Element]) -> Answer:
    timeout_s = pacemaker.timeout_of(cob["spec"])
    names = _names(cob)
    with pacemaker.alone():
        cluster = pacemaker.await_ready(timeout_s)
        for resource in (name for element in wanted for name in named_in(element)):
            if find_resource(cluster.cib, resource) is None:
                raise Failed(f"{names[0]} names {resource}, which is no resource of the cluster")
        patch = _patch(cluster.cib, names, wanted)
        cluster = pacemaker.apply_patch(patch)
        if _patch(cluster.cib, names, wanted):
            raise Failed(f"the cluster took the change of {names[0]} and does not have it")
        pacemaker.settle(timeout_s)
    return {"changed": bool(patch)}


def _patch(cib: ET.Element, names: List[str], wanted: List[ET.Element]) -> Patch:
    patch = Patch()
    found = [find_constraint(cib, name) for name in names]
    patch.set_constraints([it for it in found if it is not None], wanted)
    return patch


def _names(cob: Dict[str, Any]) -> List[str]:
    """Return the id in the cluster, then that of the applied spec if it is another."""
    specs = [cob["spec"], *([cob["applied"]] if cob.get("applied") else [])]
    return list(dict.fromkeys(spec.get("id") or cob["name"] for spec in specs))


if __name__ == "__main__":
    run({"check": check, "apply": apply, "remove": remove})
