# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `ha-resource`: a primitive, group or clone under Pacemaker.

Ours is one element below `resources`, and the constraints whose ids are made as ours are. `up`: it
is in the configuration as asked, and runs; `stopped` and `maintenance`: it is there, with that
switch; `down`: nothing of it is there; `outdated`: it runs, and something differs; `broken`: it is
there and does not run, be it for a failure or since the cluster has no quorum.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional
from xml.etree import ElementTree as ET

from ansible.module_utils import cobweb_pacemaker as pacemaker
from ansible.module_utils.cobweb_cib import (
    RESOURCES,
    Patch,
    Place,
    build_constraints,
    build_resource,
    canonical,
    constraints_naming,
    find_resource,
    is_by_hand,
    own_constraints,
    switched,
    switches_of,
    without_switches,
)
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_pacemaker import Cluster

STOPPED = {"target-role": "Stopped"}
MAINTENANCE = {"maintenance": "true"}
SWITCHES = {"up": {}, "stopped": STOPPED, "maintenance": MAINTENANCE}
RUNNING = ("Started", "Promoted", "Unpromoted", "Master", "Slave")
PRIVATE = re.compile(r"passw|secret|token|_key$|^key$", re.IGNORECASE)
MASK = "********"


class Wanted(NamedTuple):
    """A resource as it is asked for, and as it was applied last under the same id."""

    name: str
    spec: Mapping[str, Any]
    applied: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return the meta attributes that are asked for."""
        return dict(self.spec.get("meta") or {})

    @property
    def members_by_name(self) -> List[str]:
        """Return the members that are objects of their own."""
        return [it for it in self.spec.get("members") or [] if isinstance(it, str)]

    @property
    def own_names(self) -> List[str]:
        """Return the id and those of the members that are defined here, or were."""
        members = [*(self.spec.get("members") or []), *(self.applied.get("members") or [])]
        return [self.name, *(it["id"] for it in members if not isinstance(it, str))]

    def build(self, cib: ET.Element) -> ET.Element:
        """Return its element."""
        return build_resource(self.name, self.spec, cib)


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    cluster = pacemaker.look()
    if cluster is None:
        cib = pacemaker.kept_cib()
        known = any(_is_there(cib, it.name) for it in _resources(cob))
        return {"state": "broken" if known else "down"}
    return {"state": _state(cluster, cob)}


def reach(cob: Dict[str, Any]) -> Answer:
    """Bring it to the target: `up`, `stopped` or `maintenance`."""
    goal = cob["target"]
    wanted, *earlier = _resources(cob)
    timeout_s = pacemaker.timeout_of(wanted.spec)
    with pacemaker.alone():
        cluster = pacemaker.await_ready(timeout_s)
        for other in earlier:
            cluster = _remove(cluster, other, timeout_s)
        cluster = _make_way(cluster, wanted, timeout_s)
        patch = _patch(cluster, wanted, SWITCHES[goal])
        cluster = pacemaker.apply_patch(patch)
        if _patch(cluster, wanted, SWITCHES[goal]):
            raise Failed(
                f"the cluster took the change of {wanted.name} and does not have it; did somebody "
                "else change it at the same time?"
            )
        failed = bool(cluster.failures(_primitives(cluster, wanted.name)))
        if goal == "up" and failed:
            pacemaker.clean_up(wanted.name)
        cluster = pacemaker.settle(timeout_s)
        if _state(cluster, cob) != goal:  # --wait may find the cluster at rest before it begins
            cluster = pacemaker.settle(timeout_s)
    found = _state(cluster, cob)
    if found != goal:
        raise Failed(_trouble(cluster, wanted, goal, found))
    return {"changed": bool(patch or earlier or failed)}


def remove(cob: Dict[str, Any]) -> Answer:
    """Stop it, and take it out of the configuration with what it brought along."""
    if check(cob)["state"] == "down":
        return {"changed": False}
    timeout_s = pacemaker.timeout_of(cob["spec"])
    with pacemaker.alone():
        cluster = pacemaker.await_ready(timeout_s)
        for resource in _resources(cob):
            cluster = _remove(cluster, resource, timeout_s)
    return {"changed": True}


def _resources(cob: Mapping[str, Any]) -> List[Wanted]:
    """Return the resource of the spec, then that of the applied spec if its id is another."""
    spec, applied = cob["spec"], cob.get("applied") or {}
    name, earlier = (it.get("id") or cob["name"] for it in (spec, applied))
    if not applied or name == earlier:
        return [Wanted(name, spec, applied)]
    return [Wanted(name, spec, {}), Wanted(earlier, applied, applied)]


# --- look


def _is_there(cib: ET.Element, name: str) -> bool:
    return find_resource(cib, name) is not None or bool(own_constraints(cib, name))


def _state(cluster: Cluster, cob: Mapping[str, Any]) -> str:
    wanted, *earlier = _resources(cob)
    there = [other.name for other in earlier if _is_there(cluster.cib, other.name)]
    if there:
        return "outdated" if _works(cluster, there[0]) else "broken"
    place = find_resource(cluster.cib, wanted.name)
    if place is None:
        left = cluster.instances(wanted.name) or own_constraints(cluster.cib, wanted.name)
        return "broken" if left else "down"
    if not cluster.is_ready:
        return "broken"
    if not _is_as_asked(cluster.cib, place, wanted):
        return "outdated" if _works(cluster, wanted.name) else "broken"
    found = switches_of(place.element).items()
    return _running_state(
        cluster, wanted, {key: value for key, value in found if key not in wanted.meta}
    )


def _is_as_asked(cib: ET.Element, place: Place, wanted: Wanted) -> bool:
    try:
        element = wanted.build(cib)
    except Failed:  # a member is missing
        return False
    plain = without_switches(place.element, wanted.meta)
    names = wanted.members_by_name
    asked = sorted(map(canonical, build_constraints(wanted.name, wanted.spec)))
    return (
        canonical(plain, names) == canonical(element, names)
        and sorted(map(canonical, own_constraints(cib, wanted.name))) == asked
    )


def _running_state(cluster: Cluster, wanted: Wanted, switches: Mapping[str, str]) -> str:
    if switches.get("maintenance") == "true" or switches.get("is-managed") == "false":
        return "maintenance"
    is_active = any(it.get("active") == "true" for it in cluster.instances(wanted.name))
    if switches.get("target-role") == "Stopped":
        return "broken" if is_active else "stopped"
    if wanted.meta.get("target-role") == "Stopped":
        return "broken" if is_active else "up"
    if not _works(cluster, wanted.name):
        return "broken"
    return "outdated" if _cannot_run_somewhere(cluster, wanted) else "up"


def _works(cluster: Cluster, name: str) -> bool:
    """Say whether a resource runs, and no instance of it is in trouble."""
    place = find_resource(cluster.cib, name)
    is_clone = place is not None and place.element.tag == "clone"
    instances = cluster.instances(name)
    is_active = any(it.get("active") == "true" for it in instances)
    return (
        cluster.is_ready and is_active and all(_is_well(it, is_clone=is_clone) for it in instances)
    )


def _is_well(instance: Mapping[str, str], *, is_clone: bool) -> bool:
    if "true" in (instance.get("blocked"), instance.get("orphaned"), instance.get("failed")):
        return False
    # A clone has no instance where its node is away or it may not run. One that is being looked at
    # runs, as far as anybody knows.
    is_at_rest = instance.get("pending") in (None, "", "Monitoring")
    return is_at_rest and (is_clone or instance.get("role") in RUNNING)


def _cannot_run_somewhere(cluster: Cluster, wanted: Wanted) -> bool:
    """Say whether some node where it may run will not try: it has no agent, say."""
    banned = cluster.banned_from(wanted.own_names)
    return any(
        it.get("exitcode") in pacemaker.HARD_ERRORS and it.get("node") not in banned
        for it in cluster.failures(_primitives(cluster, wanted.name))
    )


def _primitives(cluster: Cluster, name: str) -> List[str]:
    """Return the names of the primitives in a resource."""
    place = find_resource(cluster.cib, name)
    if place is None:
        return [name]
    return [str(it.get("id")) for it in place.element.iter("primitive")]


# --- change


def _make_way(cluster: Cluster, wanted: Wanted, timeout_s: float) -> Cluster:
    """Stop the resource before it gets another agent or kind: that cannot be changed in place."""
    place = find_resource(cluster.cib, wanted.name)
    if place is None or _kind_of(place.element) == _kind_of(wanted.build(cluster.cib)):
        return cluster
    return _stop(cluster, place, timeout_s)


def _kind_of(element: ET.Element) -> List[Optional[str]]:
    return [element.tag, *(element.get(key) for key in ("class", "provider", "type"))]


def _patch(cluster: Cluster, wanted: Wanted, switches: Mapping[str, str]) -> Patch:
    """Return what makes the configuration as asked; empty if it is."""
    cib, name = cluster.cib, wanted.name
    patch = Patch()
    place = find_resource(cib, name)
    element = wanted.build(cib)
    full = switched(element, {**switches_of(element), **switches})
    if place is None or canonical(place.element) != canonical(full):
        for member in wanted.members_by_name:
            found = find_resource(cib, member)
            if found is not None and (place is None or found.parent != place.path):
                patch.delete(found.path)
        if place is None:
            patch.create(RESOURCES, full)
        else:
            patch.delete(place.path)
            patch.create(place.parent, full, place.position)
            _release(patch, place, [*wanted.own_names, *wanted.members_by_name])
    patch.set_constraints(own_constraints(cib, name), build_constraints(name, wanted.spec))
    return patch


def _release(patch: Patch, place: Place, kept: List[str]) -> None:
    """Let members that are not ours stand alone again."""
    if place.element.tag == "primitive":
        return
    for member in place.element:
        if member.tag in ("primitive", "group") and member.get("id") not in kept:
            patch.create(RESOURCES, member)


def _stop(cluster: Cluster, place: Place, timeout_s: float) -> Cluster:
    """Stop a resource and wait for it; what cannot be stopped stays in the configuration."""
    name = str(place.element.get("id"))
    stopped = switched(place.element, STOPPED)
    patch = Patch()
    if canonical(stopped) != canonical(place.element):
        patch.delete(place.path)
        patch.create(place.parent, stopped, place.position)
    names = _primitives(cluster, name)
    if cluster.failures(names):
        pacemaker.clean_up(name)
    pacemaker.apply_patch(patch)
    cluster = pacemaker.settle(timeout_s)
    if any(it.get("active") == "true" for it in cluster.instances(name)):
        raise Failed(f"{name} does not stop: {pacemaker.reasons(cluster, names)}")
    return cluster


def _remove(cluster: Cluster, resource: Wanted, timeout_s: float) -> Cluster:
    name = resource.name
    place = find_resource(cluster.cib, name)
    if place is not None:
        _refuse_what_others_need(cluster.cib, place, resource)
        cluster = _stop(cluster, place, timeout_s)
        place = find_resource(cluster.cib, name)
    patch = Patch()
    for constraint in constraints_naming(cluster.cib, resource.own_names):
        patch.delete_constraint(constraint)
    if place is not None:
        patch.delete(place.path)
        _release(patch, place, resource.own_names)
    cluster = pacemaker.apply_patch(patch)
    if _is_there(cluster.cib, name):
        raise Failed(f"the cluster took the removal of {name} and still has it")
    if cluster.instances(name) or cluster.failures(resource.own_names):
        pacemaker.forget(name)
        cluster = pacemaker.settle(timeout_s)
    return cluster


def _refuse_what_others_need(cib: ET.Element, place: Place, resource: Wanted) -> None:
    """Fail if a constraint or group of somebody else names the resource."""
    own = {it.get("id") for it in own_constraints(cib, resource.name)}
    named = constraints_naming(cib, resource.own_names)
    others = [str(it.get("id")) for it in named if it.get("id") not in own and not is_by_hand(it)]
    if others:
        raise Failed(
            f"{resource.name} is named by {', '.join(others)} (constraints of others, cibadmin "
            "would refuse with exit status 78); take these away first. Nothing was changed"
        )
    if place.parent != RESOURCES:
        holder = place.parent.rpartition("@id=")[2].strip("']")
        raise Failed(f"{resource.name} is a member of {holder}; take that away first")


def _trouble(cluster: Cluster, wanted: Wanted, goal: str, found: str) -> str:
    """Say why it is not as it should be, without values of private parameters."""
    names = _primitives(cluster, wanted.name)
    text = pacemaker.reasons(cluster, names)
    for spec in (wanted.spec, *(it for it in wanted.spec.get("members") or [])):
        for key, value in ((spec.get("params") if isinstance(spec, dict) else None) or {}).items():
            if PRIVATE.search(key) and str(value):
                text = text.replace(str(value), MASK)
    return f"{wanted.name} is {found}, not {goal}: {text}"


if __name__ == "__main__":
    run({"check": check, "reach": reach, "remove": remove})
