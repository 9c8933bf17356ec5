# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `ha-options`: options of a Pacemaker cluster, and defaults.

What a value was before the first change is remembered on this host and put back on removal; one
that was not set is taken away. `up`: all values are as asked; `down`: none of it is ours, or we put
back what was there; `outdated`: ours, and different; `broken`: ours, and the cluster has no quorum
or does not run here.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional
from xml.etree import ElementTree as ET

from ansible.module_utils import cobweb_pacemaker as pacemaker
from ansible.module_utils.cobweb_cib import Patch, text_of
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_pacemaker import Cluster
from ansible.module_utils.cobweb_tools import Record

SECTIONS = {
    "cluster": ("crm_config", "cluster_property_set", "cib-bootstrap-options"),
    "resources": ("rsc_defaults", "meta_attributes", "rsc_defaults-options"),
    "operations": ("op_defaults", "meta_attributes", "op_defaults-options"),
}
Values = Dict[str, Optional[str]]


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    record = _record(cob).read()
    is_moved = any(_record(other).read().get("earlier") for other in _elsewhere(cob))
    cluster = pacemaker.look()
    if cluster is None:
        is_ours = is_moved or record.get("earlier") is not None
        return {"state": "broken" if is_ours else "down"}
    between = "outdated" if cluster.is_ready else "broken"
    if is_moved:
        return {"state": between}
    wanted = _wanted(cob["spec"])
    found = _found(cluster.cib, cob["spec"], wanted)
    if record.get("put_back") == found:
        return {"state": "down"}
    # Names of an earlier spec that are no longer asked for are still to be put back.
    gone = set(record.get("earlier") or {}) - set(wanted)
    if found == wanted and not gone:
        return {"state": "up" if cluster.is_ready else "broken"}
    return {"state": "down" if record.get("earlier") is None else between}


def apply(cob: Dict[str, Any]) -> Answer:
    """Set the values; put back those that are no longer asked for."""
    spec, record = cob["spec"], _record(cob)
    wanted = _wanted(spec)
    with pacemaker.alone():
        cluster = pacemaker.await_ready(pacemaker.timeout_of(spec))
        moved = _put_back_elsewhere(cluster, cob)
        if moved:
            cluster = pacemaker.read_back()
        earlier: Values = record.read().get("earlier") or {}
        gone = {name: value for name, value in earlier.items() if name not in wanted}
        earlier = {**_found(cluster.cib, spec, wanted), **earlier}
        record.write({"earlier": earlier})
        changed = _set(cluster.cib, spec, {**gone, **wanted})
        record.write({"earlier": {name: earlier[name] for name in wanted}})
    return {"changed": changed or moved}


def remove(cob: Dict[str, Any]) -> Answer:
    """Put back what was there before the first change."""
    spec, record = cob["spec"], _record(cob)
    if check(cob)["state"] == "down":
        return {"changed": False}
    with pacemaker.alone():
        cluster = pacemaker.await_ready(pacemaker.timeout_of(spec))
        moved = _put_back_elsewhere(cluster, cob)
        if moved:
            cluster = pacemaker.read_back()
        # Without a record it is not known what was there before: the values stay.
        earlier = record.read().get("earlier") or {}
        changed = _set(cluster.cib, spec, earlier)
        now = _found(pacemaker.read_back().cib, spec, _wanted(spec))
        record.write({"put_back": now})
    return {"changed": changed or moved}


def _elsewhere(cob: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Return the object as it was applied, if that was in another section of the configuration."""
    applied = cob.get("applied") or cob["spec"]
    is_same = applied.get("of", "cluster") == cob["spec"].get("of", "cluster")
    return [] if is_same else [{**cob, "spec": applied}]


def _put_back_elsewhere(cluster: Cluster, cob: Mapping[str, Any]) -> bool:
    """Put back what was there before an earlier spec; say whether anything was otherwise."""
    changed = False
    for other in _elsewhere(cob):
        record = _record(other)
        changed = _set(cluster.cib, other["spec"], record.read().get("earlier") or {})
        record.forget()
    return changed


def _record(cob: Mapping[str, Any]) -> Record:
    return Record("ha-options", f"{cob['spec'].get('of', 'cluster')}-{cob['name']}")


def _wanted(spec: Mapping[str, Any]) -> Values:
    return {name: text_of(value) for name, value in spec["values"].items()}


def _found(cib: ET.Element, spec: Mapping[str, Any], names: Mapping[str, Any]) -> Values:
    """Return the values that the names have now."""
    pairs = {name: pair.get("value") for name, pair in _pairs(cib, spec).items()}
    return {name: pairs.get(name) for name in names}


def _pairs(cib: ET.Element, spec: Mapping[str, Any]) -> Dict[str, ET.Element]:
    element = _set_element(cib, spec)
    return {} if element is None else {str(it.get("name")): it for it in element.findall("nvpair")}


def _set_element(cib: ET.Element, spec: Mapping[str, Any]) -> Optional[ET.Element]:
    """Return the set of values that applies everywhere: the first without a rule."""
    section, tag, _ = SECTIONS[spec.get("of", "cluster")]
    found = cib.findall(f"configuration/{section}/{tag}")
    return next((it for it in found if it.find("rule") is None), None)


def _set(cib: ET.Element, spec: Mapping[str, Any], values: Values) -> bool:
    """Set values, None for none, and see that the DC has them."""
    if _found(cib, spec, values) == values:
        return False
    cluster = pacemaker.apply_patch(_patch(cib, spec, values))
    if _found(cluster.cib, spec, values) != values:
        raise Failed("the cluster took the change of its options and does not have it")
    pacemaker.settle(pacemaker.timeout_of(spec))
    return True


def _patch(cib: ET.Element, spec: Mapping[str, Any], values: Values) -> Patch:
    element = _set_element(cib, spec)
    if element is None:
        return _patch_of_new_set(cib, spec, values)
    patch = Patch()
    section, tag, _ = SECTIONS[spec.get("of", "cluster")]
    identity = element.get("id")
    path = f"/cib/configuration/{section}/{tag}[@id='{identity}']"
    pairs = _pairs(cib, spec)
    for name, value in values.items():
        pair = pairs.get(name)
        if pair is not None and pair.get("value") == value:
            continue
        if pair is not None:
            patch.delete(f"{path}/nvpair[@id='{pair.get('id')}']")
        if value is not None:
            patch.create(path, _pair(identity, name, value))
    return patch


def _patch_of_new_set(cib: ET.Element, spec: Mapping[str, Any], values: Values) -> Patch:
    """Return what makes the set of values; a patch cannot reach into what it makes itself."""
    section, tag, identity = SECTIONS[spec.get("of", "cluster")]
    made = ET.Element(tag, {"id": identity})
    made.extend(_pair(identity, name, it) for name, it in values.items() if it is not None)
    patch = Patch()
    if cib.find(f"configuration/{section}") is not None:
        patch.create(f"/cib/configuration/{section}", made)
    else:
        holder = ET.Element(section)
        holder.append(made)
        patch.create("/cib/configuration", holder)
    return patch


def _pair(identity: Optional[str], name: str, value: str) -> ET.Element:
    return ET.Element("nvpair", {"id": f"{identity}-{name}", "name": name, "value": value})


if __name__ == "__main__":
    run({"check": check, "apply": apply, "remove": remove})
