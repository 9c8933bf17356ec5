"""The configuration of a NATS server: who may say what, and over what it listens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobweb_plugins.agents._address import subject, token

ROUTES = 2000
"""How far the port for other servers is from that for owners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server: its host, where owners find it, what it listens on, and other servers."""

    host: str
    address: str
    port: int
    folder: str
    listen: str = "0.0.0.0"  # noqa: S104 - who has no key is refused
    routes: Sequence[str] = field(default_factory=tuple)


def config_text(server: Server, owners: Mapping[str, str]) -> str:
    """Return the configuration of a server that knows the owners by their public keys."""
    tls = {
        "cert_file": f"{server.folder}/server.pem",
        "key_file": f"{server.folder}/server.key",
        "ca_file": f"{server.folder}/ca.pem",
    }
    made: dict[str, Any] = {
        "server_name": server.host,
        "listen": f"{server.listen}:{server.port}",
        "max_payload": 2 * 2**20,
        "max_connections": 64 + 4 * len(owners),
        "ping_interval": "15s",
        "ping_max": 3,
        "write_deadline": "10s",
        # The handshake comes first: nobody between can have a client speak in the clear.
        "tls": {**tls, "handshake_first": True, "timeout": 10},
        "authorization": {"timeout": 20, "users": [_user(*it) for it in sorted(owners.items())]},
    }
    if server.routes:
        made["cluster"] = {
            "name": "cobweb",
            "listen": f"{server.listen}:{server.port + ROUTES}",
            "routes": [f"nats://{each}" for each in server.routes],
            # Only servers have a certificate of this CA, so nobody else speaks here.
            "tls": {**tls, "verify": True, "timeout": 10},
        }
    return json.dumps(made, indent=2) + "\n"


def _user(owner: str, key: str) -> dict[str, Any]:
    """Return what an owner may: speak under its own name, and hear what is meant for it."""
    name = token(owner)
    allowed = {"publish": [subject("*", "*", name)], "subscribe": [subject("*", name, "*")]}
    return {"nkey": key, "permissions": allowed}
