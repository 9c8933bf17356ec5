"""From what is decided of virtual clusters to hosts and objects: their nodes, and idle machines.

A node is a host whose object `node` needs its machine active, and holds it there until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cobweb.model import Decided
from cobweb_plugins.metal.vclusters._grants import LEAVING, MACHINE, Grants, Member
from cobweb_plugins.metal.vclusters._written import moment_text

NODES, LEFT = "vclusters", "vclusters_leaving"
"""The groups of all nodes, and of those that are to be left by what is on them."""

NODE = "node"
PROVIDER = "metal"

_SSH = 22


def group_of(name: str) -> str:
    """Return the group that has the nodes of a virtual cluster; Ansible knows no `-` there."""
    return f"vcluster_{name.replace('-', '_')}"


def chosen_variables(
    metal: Mapping[str, Any], section: Mapping[str, Any], grants: Grants, name: str
) -> Any:
    """Return the variables of a machine that is pinned to nothing, with the others in `metal`."""
    member = grants.members.get(name)
    if member is None:
        want = "trampoline" if name in _warm(section, grants) else "off"
        return {"metal": {**metal, "image": "", "want": want, "wanted": {}}}
    said = {**metal, **_wanted(section, grants, member)}
    values = {"ansible_host": member.address, "metal": said}
    return Decided(values, grants.by_key[f"{MACHINE}{name}"])


def _wanted(section: Mapping[str, Any], grants: Grants, member: Member) -> dict[str, Any]:
    images = section.get("images") or {}
    names = (key for key, it in images.items() if it["sha256"] == member.image)
    request = grants.requests[member.vcluster]
    wanted = {
        "image": member.image,
        "name": member.host,
        "address": member.address,
        "vcluster": request.tenant,
        **({"domain": request.domain} if request.domain else {}),
    }
    return {"image": next(names, ""), "want": "active", "wanted": wanted}


def _warm(section: Mapping[str, Any], grants: Grants) -> set[str]:
    """Return the idle machines that wait on the trampoline: those let go lately, and `warm`."""
    reserve = section.get("reserve") or {}
    idle = [
        name
        for name, said in (section.get("machines") or {}).items()
        if "template" not in said and name not in {*grants.members, *grants.failed}
    ]
    lately = [it for it in idle if it in grants.freed] if reserve else []
    others = sorted(set(idle) - set(lately))
    return {*lately, *others[: max(0, reserve.get("warm", 0) - len(lately))]}


def node_inventory(
    section: Mapping[str, Any], grants: Grants, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the groups of nodes; `variables` are those of all of them."""
    names = {*(section.get("vclusters") or {}), *grants.requests}
    groups = {group_of(name): dict[str, Any]() for name in sorted(names)}
    leaving = dict[str, Any]()
    for member in grants.members.values():
        is_leaving = grants.requests[member.vcluster].phase == LEAVING
        hosts = leaving if is_leaving else groups[group_of(member.vcluster)]
        said = _host(section, grants, member)
        hosts[member.host] = Decided(said, grants.by_key[f"{MACHINE}{member.machine}"])
    if not groups:
        return {}
    children = {name: {"hosts": hosts} for name, hosts in groups.items()}
    children[LEFT] = {"hosts": leaving}
    return {NODES: {"children": children, "vars": dict(variables)}}


def _host(section: Mapping[str, Any], grants: Grants, member: Member) -> dict[str, Any]:
    request = grants.requests[member.vcluster]
    template = section["templates"][request.parts[member.part].template]
    login = template.get("login")
    connection = {"ansible_host": member.address}
    if login:
        key = login.get("key")
        connection |= {"ansible_user": login.get("user", "root")}
        connection |= {"ansible_ssh_private_key_file": key} if key else {}
    machine = (section.get("machines") or {}).get(member.machine, {})
    return {
        **connection,
        "vcluster": {
            "name": request.name,
            "group": request.group,
            "domain": request.domain,
            "number": member.number,
            "machine": member.machine,
            "template": request.parts[member.part].template,
            "properties": machine.get("properties", {}),
            "until": moment_text(request.ends or request.lease.until) if request.lease else "",
            "owner": request.tenant,
            "want": goal_of(template),
            "place": {
                "machine": member.machine,
                "name": member.host,
                "address": member.address,
                "vcluster": request.tenant,
                "port": _port(template),
                "user": (login or {}).get("user", "root"),
                "key": (login or {}).get("key", ""),
            },
        },
    }


def goal_of(template: Mapping[str, Any]) -> str:
    """Return where a node is to be; without a login nothing can be done on it: it answers."""
    return "bootstrapped" if "login" in template else "confirmed"


def _port(template: Mapping[str, Any]) -> int:
    port: int = (template.get("ready") or {}).get("tcp", _SSH)
    return _SSH if "login" in template else port


def node_cob(machine: str) -> dict[str, Any]:
    """Return the object of all nodes, where `machine` is what that of a machine is called."""
    place = f"{machine}@{{{{ vcluster.machine }}}}"
    there = {"cob": machine, "on": "{{ vcluster.machine }}", "state": "active"}
    return {
        "type": NODE,
        "on": NODES,
        "want": "{{ vcluster.want }}",
        "spec": {
            "provider": {"name": PROVIDER, "type": PROVIDER},
            "owner": "{{ vcluster.owner }}",
            "cluster": "{{ vcluster.name }}",
            "number": "{{ vcluster.number }}",
            "image": "{{ vcluster.place }}",
        },
        "binds": [place],
        "needs": [{"when": f"* -> {it}", **there} for it in ("created", "confirmed")],
        # A machine that was primed anew meanwhile is another one.
        "trust": "10m",
    }


def releases(grants: Grants) -> Iterator[str]:
    """Yield the objects that decisions let go: those of nodes that are to be left, or were."""
    current = {it.host for it in grants.members.values()}
    for hosts in grants.left.values():
        yield from (f"{it}/*" for it in hosts if it not in current)
    for member in grants.members.values():
        if grants.requests[member.vcluster].phase == LEAVING:
            yield f"{member.host}/*"
