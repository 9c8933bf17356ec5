"""From the section `agents` to the NATS servers that it names, once keys were decided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cobweb.errors import ModelError
from cobweb.model import Expansion
from cobweb_plugins.agents._server import ROUTES, Server, config_text

if TYPE_CHECKING:
    from pathlib import Path

    from cobweb.model import Decision
    from cobweb.plugin import ExpandContext

NAME = "agents"
OWNER, SERVER = "owner/", "server/"
"""What the keys of decisions begin with."""

NATS, CONFIG, FILES = "nats", "nats-config", "nats-files"
"""The objects of a server: its process, its configuration, what it is started with."""

FUNCTION = "nats_server"
"""What templates call for what differs between servers."""

FOLDER = "/var/lib/cobweb/nats"
ANY = "0.0.0.0"  # noqa: S104 - who has no key is refused
PROGRAMS = (
    "dd9b8a99f78955e35108355176d2fe61269efb909698eb9fce3d5d81a70e2bda",
    "343009a85281846edd8cf8b31227617b5d9ba068b1b09a4821179ea334345d8f",
)
"""The SHA-256 of nats-server 2.15.1 as it is packed for Linux on x86_64 and aarch64.

Those who pack it are not those who make it, so another one is not run unseen.
"""

_COUNTS = (1, 3)
_MOST_PORT = 65535 - ROUTES

Problem = tuple[tuple[str | int, ...], str, str]
"""Where in the section something is wrong, what, and a hint."""


def expand_agents(sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
    """Return the servers that keys were decided for; ModelError with all that is wrong."""
    section = sections[NAME]
    if problems := list(_problems(section)):
        raise ModelError([((NAME, *keys), message, hint) for keys, message, hint in problems])
    decisions = context.decisions
    owners = {key.removeprefix(OWNER): it for key, it in decisions.items() if key.startswith(OWNER)}
    servers = [it for it in servers_of(section) if SERVER + it.host in decisions]
    if not servers:
        return Expansion()
    known = {it.host: _known(it, owners, decisions) for it in servers}
    return Expansion(
        cobs=dict(_cobs(section, sorted(known), keys_of(context.site_dir))),
        functions={FUNCTION: lambda host, name: known[host][name]},
    )


def keys_of(site_dir: Path) -> Path:
    """Return the folder of keys and certificates of a site."""
    return site_dir / ".cobweb" / NAME


def servers_of(section: Mapping[str, Any]) -> Sequence[Server]:
    """Return the servers of a sound section; each is routed to all others."""
    places = {host: urlsplit(url) for host, url in _written(section)}
    routes = {host: f"{it.hostname}:{(it.port or 0) + ROUTES}" for host, it in places.items()}
    return [
        Server(
            host=host,
            address=it.hostname or "",
            port=it.port or 0,
            folder=section.get("folder", FOLDER),
            listen=section.get("listen", ANY),
            routes=[route for other, route in sorted(routes.items()) if other != host],
        )
        for host, it in places.items()
    ]


def _written(section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the host and the URL of each server, whatever the URL says."""
    for each in section["nats"]:
        if isinstance(each, str):
            yield each.removeprefix("nats://").rpartition(":")[0], each
        else:
            yield each["on"], each["url"]


def _problems(section: Mapping[str, Any]) -> Iterator[Problem]:
    found = list(_written(section))
    if len(found) not in _COUNTS:
        message = f"{len(found)} servers are neither one nor three"
        yield ("nats",), message, "two are lost with either of them: take one, or three"
    hosts: set[str] = set()
    urls: set[str] = set()
    for number, (host, url) in enumerate(found):
        if not _is_url(url):
            hint = "as in `nats://c1:4222`, or `{url: nats://10.0.0.1:4222, on: c1}`"
            yield ("nats", number), f"`{url}` is no URL of a server", hint
        elif host in hosts or url in urls:
            hint = "each is on a host of its own, at an address of its own"
            yield ("nats", number), f"`{url}` on `{host}` is there twice", hint
        hosts.add(host)
        urls.add(url)


def _is_url(url: str) -> bool:
    try:
        found = urlsplit(url)
        port = found.port or 0
    except ValueError:
        return False
    is_bare = url == f"nats://{found.netloc}" and not set(url) & set("@[] \t")
    return bool(is_bare and found.hostname) and 0 < port <= _MOST_PORT


def _known(
    server: Server,
    owners: Mapping[str, Decision],
    decisions: Mapping[str, Decision],
) -> dict[str, str]:
    """Return what is of one server alone, by name."""
    config = config_text(server, {name: it.body["key"] for name, it in owners.items()})
    certificate = decisions[SERVER + server.host].body["certificate"]
    stamp = hashlib.sha256(f"{config}{certificate}".encode()).hexdigest()
    at = str(server.port) if server.listen == ANY else f"{server.listen}:{server.port}"
    return {"config": config, "certificate": certificate, "stamp": stamp, "listen": at}


def _cobs(
    section: Mapping[str, Any], hosts: Sequence[str], keys: Path
) -> Iterable[tuple[str, dict[str, Any]]]:
    folder, program = section.get("folder", FOLDER), section.get("program")
    files = {
        "folder": folder,
        "source": str(keys),
        "certificate": _of("certificate"),
        "programs": [] if program else list(PROGRAMS),
    }
    config = {"path": f"{folder}/nats.conf", "content": _of("config"), "mode": "0600"}
    process = {
        "command": [program or f"{folder}/nats-server", "-c", f"{folder}/nats.conf"],
        "listen": _of("listen"),
        "env": {"COBWEB_CONTENT": _of("stamp")},  # another one is a restart
        "state_dir": f"{folder}/state",  # servers of several sites may be on one machine
    }
    on = ",".join(hosts)
    for name, kind, spec in ((FILES, FILES, files), (CONFIG, "file", config)):
        yield name, {"type": kind, "on": on, "spec": spec}
    yield NATS, {"type": "process", "on": on, "spec": process, "requires": [FILES, CONFIG]}


def _of(name: str) -> str:
    return f"{{{{ {FUNCTION}('{name}') }}}}"
