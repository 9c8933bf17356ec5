"""From the section `metal` to hosts and objects: the boot server, images and machines.

Each machine is a host with the object `machine`; what differs between machines is in variables of
a group that each of them has for itself, so that the site may have these hosts in its own groups
and give them more variables. All of them are of one definition, as are the nodes of clusters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cobweb.errors import ModelError
from cobweb.model import Expansion
from cobweb.plugin import ExpandContext, field_problems, seconds_of
from cobweb_plugins.metal._network import Network, Problem, address_problems, network_of
from cobweb_plugins.metal._power import POINT
from cobweb_plugins.metal.vclusters._expand import (
    NODE,
    PROVIDER,
    chosen_variables,
    node_cob,
    node_inventory,
    releases,
)
from cobweb_plugins.metal.vclusters._grants import MACHINE as DECIDED
from cobweb_plugins.metal.vclusters._grants import Grants, grant_problems, grants_of
from cobweb_plugins.metal.vclusters._written import POINT as FILTERS
from cobweb_plugins.metal.vclusters._written import Place, span_of, written_problems

if TYPE_CHECKING:
    from cobweb.plugin import Extension
    from cobweb_plugins.metal._power import PowerKind
    from cobweb_plugins.metal.vclusters._written import Filters

NAME = "metal"
MACHINE = "machine"
"""The name of the object that is a machine, and of its type."""

IMAGE = "machine-image"
DHCP = "dhcp-server"
SERVER = "boot-server"
"""The name of the boot server's object, and of its host where the section makes that."""

GROUP = "machines"
NOWHERE = "metal_nowhere"
"""A group without hosts: a machine needs those images there that it does not boot."""

LIMITS_S: Mapping[str, float] = {
    "trampoline": 600.0,
    "primed": 3600.0,
    "active": 900.0,
    "off": 300.0,
}
"""How long a machine may take to each state, where the section does not say, in seconds."""

_PORT = 7480
_DNS = 53
_READY = {"tcp": 22}
_FOLDER = "/var/lib/cobweb/metal"
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_GROUP_BIT = 1
"""The bit of the first byte of a MAC that says that it is an address of many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootServer:
    """Where the boot server is: its host, what it keeps there, and what it listens on."""

    host: str
    folder: str
    network: Network
    port: int

    @property
    def listen(self) -> str:
        """Address and port, as `10.72.0.1:7480`."""
        return f"{self.network.own.ip}:{self.port}"

    @property
    def url(self) -> str:
        """Where machines and Cobweb find it."""
        return f"http://{self.listen}"


def expand_metal(sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
    """Return boot server, images and machines; ModelError with all that is wrong."""
    section = sections[NAME]
    kinds = cast("Mapping[str, type[PowerKind]]", context.extensions_at(POINT))
    problems = [*_problems(section, kinds), *grant_problems(section, context.decisions)]
    problems += _vcluster_problems(section, place_of(section, context.extensions_at(FILTERS)))
    if problems:
        raise ModelError([((NAME, *keys), message, hint) for keys, message, hint in problems])
    grants = grants_of(context.decisions)
    server = server_of(section, context.site_dir)
    place = {"url": server.url, "folder": server.folder}
    machines = {
        name: {
            "mac": mac_of(said["mac"]),
            "power": said["power"],
            "ready": template.get("ready", _READY),
            "boots": template.get("boots", 1),
            "wipe": template.get("wipe", "discard"),
        }
        for name, said in _part(section, "machines").items()
        for template in [_template(section, grants, name)]
    }
    undecided = [it for it in machines if f"{DECIDED}{it}" not in context.decisions]
    shared = {
        "server": place,
        "limits": limits_of(section),
        "machines": machines,
        "undecided": [it for it in undecided if "template" not in section["machines"][it]],
    }
    power = {name: it["power"] for name, it in _part(section, "machines").items()}
    cobs = dict(_cobs(section, server, place))
    used = sorted({it.image for it in grants.members.values()})
    shares: dict[str, Any] = {MACHINE: shared, IMAGE: {"used": used}}
    if grants.members:
        cobs[NODE] = node_cob(MACHINE)
        shares[NODE] = {"providers": {PROVIDER: {**place, "power": power}}}
    return Expansion(
        inventory=_inventory(section, server, grants),
        cobs=cobs,
        shared=shares,
        releases=list(releases(grants)),
    )


def server_of(section: Mapping[str, Any], site_dir: Path) -> BootServer:
    """Return where the boot server of a sound section is."""
    is_here = "on" not in section
    default = str(site_dir / ".cobweb" / "metal") if is_here else _FOLDER
    network, _ = network_of(section["network"])
    assert network is not None  # the section is sound
    return BootServer(
        host=section.get("on", SERVER),
        folder=section.get("folder", default),
        network=network,
        port=section["network"].get("port", _PORT),
    )


def limits_of(section: Mapping[str, Any]) -> dict[str, float]:
    """Return how long a machine may take to each state, in seconds."""
    said = _part(section, "limits")
    return {**LIMITS_S, **{name: seconds_of(str(it)) for name, it in said.items()}}


def mac_of(text: str) -> str:
    """Return a MAC in small letters with colons; ValueError where it is that of no machine."""
    mac = text.lower().replace("-", ":")
    if not _MAC.fullmatch(mac):
        raise ValueError("is no MAC")
    if int(mac[:2], 16) & _GROUP_BIT or not int(mac.replace(":", ""), 16):
        raise ValueError("is a MAC that no single network card has")
    return mac


# What is wrong with a section.


def _problems(
    section: Mapping[str, Any], kinds: Mapping[str, type[PowerKind]]
) -> Iterator[Problem]:
    yield from _duration_problems(("limits",), _part(section, "limits"), seconds_of)
    yield from _duration_problems((), {"immunity": section.get("immunity", 0)}, span_of)
    waits = {key: it for key, it in _part(section, "reserve").items() if key == "cold_after"}
    yield from _duration_problems(("reserve",), waits, span_of)
    network, found = network_of(section["network"])
    yield from found
    images, templates = _part(section, "images"), _part(section, "templates")
    for name, said in templates.items():
        yield from _missing(("templates", name, "image"), said["image"], "image", images)
    machines = _part(section, "machines")
    for name, said in machines.items():
        if name == section.get("on", SERVER):
            message = f"the machine `{name}` has the name of the boot server's host"
            yield ("machines", name), message, "no machine boots from itself; rename it"
        for keys, message, hint in _machine_problems(said, templates, kinds, network):
            yield ("machines", name, *keys), f"machine `{name}`: {message}", hint
    yield from _doubled(machines)


def _duration_problems(
    keys: tuple[str, ...], said: Mapping[str, Any], read: Callable[[str], float]
) -> Iterator[Problem]:
    for name, text in said.items():
        try:
            read(str(text))
        except ValueError as error:
            what = f"limit `{name}`" if "limits" in keys else f"`{name}`"
            yield (*keys, name), f"{what}: `{text}` {error}", ""


def _missing(
    keys: tuple[str | int, ...], name: str, kind: str, known: Mapping[str, Any]
) -> Iterator[Problem]:
    if name not in known:
        yield (
            keys,
            f"there is no {kind} `{name}`",
            f"known are {', '.join(sorted(known)) or 'none'}",
        )


def _machine_problems(
    said: Mapping[str, Any],
    templates: Mapping[str, Any],
    kinds: Mapping[str, type[PowerKind]],
    network: Network | None,
) -> Iterator[Problem]:
    try:
        mac_of(said["mac"])
    except ValueError as error:
        yield ("mac",), f"`{said['mac']}` {error}", "as in `52:54:00:00:00:01`"
    yield from _power_problems(said["power"], kinds)
    if "template" in said:
        yield from _missing(("template",), said["template"], "template", templates)
        for key in ("name", "address"):
            if key not in said:
                yield ("template",), f"has a template and no `{key}`", f"give it `{key}`"
    else:
        for key in ("name", "address"):
            if key in said:
                yield (key,), f"has `{key}` and no template", "give it `template`, too"
    if network is not None and "address" in said:
        yield from address_problems(said["address"], network)


def _power_problems(
    power: Mapping[str, Any], kinds: Mapping[str, type[PowerKind]]
) -> Iterator[Problem]:
    kind = kinds.get(power["kind"])
    if kind is None:
        known = f"known are {', '.join(sorted(kinds))}"
        yield ("power", "kind"), f"there is no kind of power `{power['kind']}`", known
        return
    settings = {key: it for key, it in power.items() if key != "kind"}
    if "__ansible_vault" in repr(settings):
        hint = "have the program read the password from a file of its own"
        yield ("power",), "a vaulted value is for no power command: it would show it", hint
        return
    for keys, message, hint in field_problems(kind.schema, settings):
        yield ("power", *keys), f"power of the kind `{kind.name}`: {message}", hint


def _doubled(machines: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what two machines have, though it can be only one's."""
    for key in ("mac", "name", "address"):
        first: dict[str, str] = {}
        for name in (name for name, said in machines.items() if key in said):
            value = machines[name][key].lower().replace("-", ":" if key == "mac" else "-")
            other = first.setdefault(value, name)
            if other != name:
                message = f"the machines `{other}` and `{name}` have the same {key} `{value}`"
                yield ("machines", name, key), message, "give each its own"


def place_of(section: Mapping[str, Any], readers: Mapping[str, type[Extension]]) -> Place | None:
    """Return what requests are looked at in; None where the network is none."""
    network, _ = network_of(section["network"])
    reader = cast("type[Filters] | None", readers.get("where"))
    filters = reader() if reader else None
    templates = _part(section, "templates")
    if network is None:
        return None
    return Place(templates=templates, network=network, filters=filters)


def _vcluster_problems(section: Mapping[str, Any], place: Place | None) -> Iterator[Problem]:
    for name, said in _part(section, "vclusters").items():
        for keys, message, hint in written_problems(said, place) if place else ():
            yield ("vclusters", name, *keys), f"virtual cluster `{name}`: {message}", hint


# What a section stands for.


def _part(section: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = section.get(key) or {}
    return found


def _template(section: Mapping[str, Any], grants: Grants, machine: str) -> Mapping[str, Any]:
    """Return the template of a machine: what it is pinned to, or was chosen for."""
    name, member = section["machines"][machine].get("template", ""), grants.members.get(machine)
    if member is not None:
        name = grants.requests[member.vcluster].parts[member.part].template
    found: Mapping[str, Any] = _part(section, "templates").get(name, {})
    return found


def _inventory(section: Mapping[str, Any], server: BootServer, grants: Grants) -> dict[str, Any]:
    groups: dict[str, Any] = {
        f"machine_{name.replace('-', '_')}": {
            "hosts": {name: {}},
            "vars": _variables(name, section, grants),
        }
        for name in _part(section, "machines")
    }
    machines: dict[str, Any] = {"children": groups}
    if server.network.interface:
        # Beside what the user has himself: the keys that the boot server saw first.
        known = f"-o GlobalKnownHostsFile={server.folder}/known_hosts"
        machines["vars"] = {"ansible_ssh_common_args": known}
    found: dict[str, Any] = {GROUP: machines, NOWHERE: {}}
    found |= node_inventory(section, grants, machines.get("vars", {}))
    for name, said in _part(section, "machines").items():
        if "template" in said:
            group = f"{GROUP}_{said['template'].replace('-', '_')}"
            found.setdefault(group, {"hosts": {}})["hosts"][name] = {}
    if "on" not in section:
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        found[SERVER.replace("-", "_")] = {"hosts": {server.host: here}}
    return found


def _variables(name: str, section: Mapping[str, Any], grants: Grants) -> Any:
    """Return what the definition of all machines, and templates of the site, ask for."""
    said = section["machines"][name]
    metal: dict[str, Any] = {"properties": said.get("properties", {})}
    if "template" not in said:
        return chosen_variables(metal, section, grants, name)
    image = _template(section, grants, name)["image"]
    wanted = {
        "image": section["images"][image]["sha256"],
        "name": said["name"],
        "address": said["address"],
    }
    metal |= {"image": image, "want": "active", "wanted": wanted}
    return {"ansible_host": said["address"], "metal": metal}


def _cobs(
    section: Mapping[str, Any], server: BootServer, place: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects by name: what goes, goes while the boot server is there."""
    images, machines = _part(section, "images"), _part(section, "machines")
    up = {"when": "* -> *", "cob": SERVER, "on": server.host, "state": "up"}
    served = [
        {"when": f"* -> {state}", "cob": DHCP, "on": server.host, "state": "up"}
        for state in ("trampoline", "active")
        if server.network.interface
    ]
    gone = []
    for name, said in images.items():
        spec = {**said, **place}
        # As the server, it is looked at before machines move: it may be gone, or damaged.
        cob = {"type": IMAGE, "on": server.host, "spec": spec, "needs": [up], "trust": "10m"}
        yield image_name(name), cob
        gone.append({"when": "* -> down", "cob": image_name(name), "state": "absent"})
    off = {"when": "* -> down", "cob": MACHINE, "on": GROUP, "state": "off"}
    if machines:
        stored = [it for name in images for it in _image_needs(name, server.host)]
        yield (
            MACHINE,
            {
                "type": MACHINE,
                "on": GROUP,
                "want": "{{ metal.want }}",
                "spec": {"wanted": "{{ metal.wanted }}"},
                "needs": [up, *served, *stored],
            },
        )
        gone.append(off)
    if server.network.interface:
        words = ("dhcp-server", "--folder", server.folder, "--url", server.url)
        process = _process(section, server, (*words, *server.network.words))
        process["spec"]["listen"] = f"{server.network.own.ip}:{_DNS}"
        yield DHCP, {**process, "needs": [off] if machines else []}
    yield SERVER, {**_server(section, server), "needs": gone}


def image_name(name: str) -> str:
    """Return what the object of an image is called."""
    return f"image-{name}"


def _image_needs(name: str, host: str) -> Iterator[dict[str, Any]]:
    """Yield that a machine moves only when its image is there: none goes down for a bad one."""
    on = f"{{{{ '{host}' if metal.image == '{name}' else '{NOWHERE}' }}}}"
    need = {"cob": image_name(name), "on": on, "state": "stored", "optional": True}
    for state in ("trampoline", "primed"):
        yield {"when": f"* -> {state}", **need}


def _server(section: Mapping[str, Any], server: BootServer) -> dict[str, Any]:
    words: tuple[str, ...] = ("--folder", server.folder, "--listen", server.listen)
    if server.network.interface:
        words += ("--dhcp",)
        words += ("--domain", server.network.domain) if server.network.domain else ()
    process = _process(section, server, ("boot-server", *words))
    process["spec"]["listen"] = server.listen
    return process


def _process(
    section: Mapping[str, Any], server: BootServer, words: Sequence[str]
) -> dict[str, Any]:
    """Return the object that runs a command of the group `metal`."""
    python = "python3" if "on" in section else sys.executable
    spec: dict[str, Any] = {"command": [python, "-m", "cobweb", NAME, *words]}
    if "on" not in section:
        spec["state_dir"] = f"{server.folder}/process"
    # It is looked at before a machine moves, whatever is believed: nobody tells when it is gone.
    return {"type": "process", "on": server.host, "spec": spec, "trust": "10m"}
