# SPDX-License-Identifier: GPL-3.0-or-later
"""Pacemaker's configuration (CIB) as XML: build our part, compare it, and say how to change it.

Pure: elements in, elements and patches out. Identifiers below an object's own are made from it, so
that the same spec always gives the same XML. Two elements are equal if they say the same: the
identifiers of attribute sets and operations, their order and empty sets make no difference.

A patch (`cibadmin --patch`) is one step for the cluster: all of it is carried out, or nothing.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple
from xml.etree import ElementTree as ET

from ansible.module_utils.cobweb_host import Failed

RESOURCES = "/cib/configuration/resources"
CONSTRAINTS = "/cib/configuration/constraints"
LAST = 9999
RESOURCE_TAGS = ("primitive", "group", "clone", "master", "bundle")
CONSTRAINT_TAGS = {"location": "rsc_location", "colocation": "rsc_colocation", "order": "rsc_order"}
NAMING = ("rsc", "with-rsc", "first", "then")
BY_HAND = ("cli-ban-", "cli-prefer-", "cli-standby-")
"""What `crm_resource --move` and `--ban` leave behind."""
SWITCHES = ("target-role", "maintenance", "is-managed")
"""Meta attributes that say whether a resource is to run, not what it is."""

Canonical = Tuple[str, Any, Any]


class Place(NamedTuple):
    """An element, and where it stands: the path of what holds it, and its position there."""

    element: ET.Element
    parent: str
    position: int

    @property
    def path(self) -> str:
        """Return the path of the element."""
        return f"{self.parent}/{self.element.tag}[@id='{self.element.get('id')}']"


# --- build


def build_resource(name: str, spec: Mapping[str, Any], cib: ET.Element) -> ET.Element:
    """Return the element of a primitive, group or clone; members by name are those of the CIB."""
    kind = spec.get("kind", "primitive")
    if kind == "primitive":
        return _primitive(name, spec)
    element = ET.Element(kind, {"id": name})
    for member in spec["members"]:
        element.append(_member(member, cib))
    # The schema of the CIB wants the attributes of a clone before its member, not so of a group.
    meta = _attribute_set("meta_attributes", f"{name}-meta", spec.get("meta"))
    if meta is not None:
        element.insert(0, meta)
    return element


def build_constraints(name: str, spec: Mapping[str, Any]) -> List[ET.Element]:
    """Return the constraints that a resource brings along."""
    found = [
        ET.Element(
            "rsc_location",
            {"id": f"{name}-on-{node}", "rsc": name, "node": node, "score": text_of(score)},
        )
        for node, score in sorted((spec.get("locations") or {}).items())
    ]
    for other in spec.get("with") or []:
        attributes = {"id": f"{name}-with-{other}", "rsc": name, "with-rsc": other}
        found.append(ET.Element("rsc_colocation", {**attributes, "score": "INFINITY"}))
    for other in spec.get("after") or []:
        attributes = {"id": f"{name}-after-{other}", "first": other, "then": name}
        found.append(ET.Element("rsc_order", {**attributes, "kind": "Mandatory"}))
    return found


def build_constraint(name: str, spec: Mapping[str, Any]) -> ET.Element:
    """Return a constraint that is an object of its own."""
    words = {"resource": "rsc", "with": "with-rsc", "node": "node", "first": "first"}
    words.update({"then": "then", "score": "score"})
    attributes = {words[key]: text_of(spec[key]) for key in words if key in spec}
    attributes.update({key: text_of(value) for key, value in (spec.get("options") or {}).items()})
    return ET.Element(CONSTRAINT_TAGS[spec["kind"]], {"id": name, **attributes})


def switched(element: ET.Element, values: Mapping[str, str]) -> ET.Element:
    """Return a copy of a resource with these switches in its meta attributes, and no others."""
    made = copy.deepcopy(element)
    for meta in made.findall("meta_attributes"):
        for pair in [it for it in meta if it.get("name") in SWITCHES]:
            meta.remove(pair)
        if not len(meta):
            made.remove(meta)
    if values:
        meta = made.find("meta_attributes")
        identity = f"{made.get('id')}-meta"
        if meta is None:
            meta = ET.Element("meta_attributes", {"id": identity})
            made.insert(0, meta)
        meta.extend(_pairs(identity, values))
    return made


def text_of(value: Any) -> str:
    """Return a value as Pacemaker writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _primitive(name: str, spec: Mapping[str, Any]) -> ET.Element:
    element = ET.Element("primitive", {"id": name, **agent_attributes(spec["agent"])})
    for tag, word, key in (
        ("instance_attributes", "params", "params"),
        ("meta_attributes", "meta", "meta"),
    ):
        made = _attribute_set(tag, f"{name}-{word}", spec.get(key))
        if made is not None:
            element.append(made)
    if spec.get("operations"):
        operations = ET.SubElement(element, "operations")
        operations.extend(_operation(name, it) for it in spec["operations"])
    return element


def agent_attributes(agent: str) -> Dict[str, str]:
    """Return class, provider and type of an agent such as `ocf:heartbeat:IPaddr2`."""
    parts = agent.split(":")
    if parts[0] == "ocf" and len(parts) == 3:  # noqa: PLR2004 - the three have names below
        return {"class": parts[0], "provider": parts[1], "type": parts[2]}
    if parts[0] != "ocf" and len(parts) == 2 and parts[1]:  # noqa: PLR2004 - as above
        return {"class": parts[0], "type": parts[1]}
    raise Failed(f"{agent} is no agent; write ocf:PROVIDER:NAME, systemd:UNIT or stonith:NAME")


def _operation(name: str, spec: Mapping[str, Any]) -> ET.Element:
    texts = {key: text_of(value) for key, value in spec.items()}
    texts.setdefault("interval", "0s")
    parts = [name, texts["name"], texts["interval"], texts.get("role", "")]
    return ET.Element("op", {"id": "-".join(part for part in parts if part), **texts})


def _member(member: Any, cib: ET.Element) -> ET.Element:
    if isinstance(member, Mapping):
        return _primitive(member["id"], member)
    found = find_resource(cib, member)
    if found is None:
        raise Failed(f"the cluster has no resource {member}, which is to be a member")
    return copy.deepcopy(found.element)


def _attribute_set(
    tag: str, identity: str, values: Optional[Mapping[str, Any]]
) -> Optional[ET.Element]:
    if not values:
        return None
    element = ET.Element(tag, {"id": identity})
    element.extend(_pairs(identity, values))
    return element


def _pairs(identity: str, values: Mapping[str, Any]) -> Iterator[ET.Element]:
    for name, value in sorted(values.items()):
        attributes = {"id": f"{identity}-{name}", "name": name, "value": text_of(value)}
        yield ET.Element("nvpair", attributes)


# --- find


def find_resource(cib: ET.Element, name: str) -> Optional[Place]:
    """Return where a resource stands, at the top or as a member; None if there is none."""
    top = cib.find("configuration/resources")
    return None if top is None else _find_below(top, RESOURCES, name)


def _find_below(parent: ET.Element, path: str, name: str) -> Optional[Place]:
    for position, child in enumerate(parent):
        if child.tag not in RESOURCE_TAGS:
            continue
        place = Place(child, path, position)
        if child.get("id") == name:
            return place
        below = _find_below(child, place.path, name)
        if below is not None:
            return below
    return None


def constraints(cib: ET.Element) -> List[ET.Element]:
    """Return all constraints."""
    return cib.findall("configuration/constraints/*")


def find_constraint(cib: ET.Element, name: str) -> Optional[ET.Element]:
    """Return a constraint by its id."""
    return next((it for it in constraints(cib) if it.get("id") == name), None)


def own_constraints(cib: ET.Element, name: str) -> List[ET.Element]:
    """Return the constraints that a resource brought along: their ids are made as ours are."""
    return [it for it in constraints(cib) if it.get("id") == _own_id(it, name)]


def _own_id(element: ET.Element, name: str) -> str:
    if element.tag == "rsc_location" and element.get("rsc") == name:
        return f"{name}-on-{element.get('node')}"
    if element.tag == "rsc_colocation" and element.get("rsc") == name:
        return f"{name}-with-{element.get('with-rsc')}"
    if element.tag == "rsc_order" and element.get("then") == name:
        return f"{name}-after-{element.get('first')}"
    return ""


def constraints_naming(cib: ET.Element, names: Iterable[str]) -> List[ET.Element]:
    """Return the constraints that name one of these resources in any role or set."""
    wanted = set(names)
    return [it for it in constraints(cib) if wanted & set(named_in(it))]


def named_in(constraint: ET.Element) -> List[str]:
    """Return the resources that a constraint names."""
    found = [constraint.get(key) for key in NAMING]
    found += [it.get("id") for it in constraint.iter("resource_ref")]
    return [name for name in found if name]


def is_by_hand(constraint: ET.Element) -> bool:
    """Say whether it is the trace of a `crm_resource --move` or `--ban`."""
    return str(constraint.get("id")).startswith(BY_HAND)


def switches_of(element: ET.Element) -> Dict[str, str]:
    """Return the switches that are set on a resource."""
    pairs = [pair for meta in element.findall("meta_attributes") for pair in meta]
    return {str(it.get("name")): str(it.get("value")) for it in pairs if it.get("name") in SWITCHES}


# --- compare


def canonical(element: ET.Element, by_name: Iterable[str] = ()) -> Canonical:
    """Return what an element says; of the resources in `by_name` only that they stand there."""
    names = set(by_name)
    identity = element.get("id", "")
    if identity in names:
        return ("member", identity, ())
    kept = {key: value for key, value in element.attrib.items() if key != "id"}
    if element.tag in RESOURCE_TAGS:
        kept["id"] = identity
    children = [canonical(it, names) for it in element if len(it) or it.tag not in _SETS]
    members = [it for it in children if it[0] in (*RESOURCE_TAGS, "member")]
    others = sorted((it for it in children if it not in members), key=repr)
    return (element.tag, tuple(sorted(kept.items())), (*others, *members))


_SETS = ("meta_attributes", "instance_attributes", "operations")


def without_switches(element: ET.Element, asked: Mapping[str, Any]) -> ET.Element:
    """Return a copy without the switches, but those that the spec asks for."""
    kept = {key: value for key, value in switches_of(element).items() if key in asked}
    return switched(element, kept)


# --- change


class Patch:
    """Changes that are carried out together."""

    def __init__(self) -> None:
        self._changes: List[ET.Element] = []

    def __bool__(self) -> bool:
        return bool(self._changes)

    def create(self, parent: str, element: ET.Element, position: int = LAST) -> None:
        """Put an element below `parent`."""
        attributes = {"operation": "create", "path": parent, "position": str(position)}
        change = ET.Element("change", attributes)
        change.append(element)
        self._changes.append(change)

    def delete(self, path: str) -> None:
        """Take the element at `path` away."""
        self._changes.append(ET.Element("change", {"operation": "delete", "path": path}))

    def delete_constraint(self, element: ET.Element) -> None:
        """Take a constraint away."""
        self.delete(f"{CONSTRAINTS}/{element.tag}[@id='{element.get('id')}']")

    def set_constraints(self, found: List[ET.Element], wanted: List[ET.Element]) -> None:
        """Make the constraints that are found those that are wanted."""
        kept = {str(it.get("id")): canonical(it) for it in wanted}
        for element in found:
            if kept.get(str(element.get("id"))) != canonical(element):
                self.delete_constraint(element)
        there = {str(it.get("id")): canonical(it) for it in found}
        for element in wanted:
            if there.get(str(element.get("id"))) != canonical(element):
                self.create(CONSTRAINTS, element)

    def text(self) -> str:
        """Return the patch as `cibadmin --patch` reads it."""
        root = ET.Element("diff", {"format": "2"})
        root.extend(self._changes)
        return ET.tostring(root, encoding="unicode")
