"""The provider `static`: nodes out of a pool of given hosts, each lent to one node at a time.

Who has which host stands in a file, written under a lock that other processes respect. A host is
known by its address and port, so that two providers that name it in two pools share it rightly as
long as they share the file.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from cobweb.errors import ProviderError
from cobweb.plugin import Machine, NodeRequest, json_file

_FORMAT = 1
_FILE = Path(".cobweb") / "static.json"
_PROBE_S = 0.2
_CONNECT_S = 5.0
_BANNER = b"SSH-"

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_HOST: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "address": _TEXT | {"description": "Where the coordinator reaches it by SSH."},
        "bind": _TEXT | {"description": "Where its neighbours reach it (default: `address`)."},
        "port": _COUNT | {"maximum": 65535, "description": "Of SSH (default: 22)."},
        "user": _TEXT | {"description": "Who logs in (default: the image type's `user`)."},
        "private_key_file": _TEXT | {"description": "The path of the key for it."},
        "cores": _COUNT | {"description": "It is given to no node that wants more."},
        "memory_mb": _COUNT | {"description": "It is given to no node that wants more."},
        "tenant": _TEXT | {"description": "It is given to this tenant's nodes only."},
        "hardwaretypes": {
            "type": "array",
            "items": _TEXT,
            "description": "It is given to nodes of these hardware types only.",
        },
    },
    "required": ["address"],
    "additionalProperties": False,
}


class Static:
    """Lends the hosts of a pool; the smallest one that is large enough, then by name."""

    name: ClassVar[str] = "static"
    fields: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "hosts": {
                "type": "object",
                "additionalProperties": _HOST,
                "description": "The hosts of the pool, by name.",
            },
            "assignments": _TEXT
            | {
                "description": "The file that says who has which host, relative to the site"
                f" (default: {_FILE}). Coordinators that share the hosts share it."
            },
        },
        "required": ["hosts"],
        "additionalProperties": False,
    }

    def find(self, request: NodeRequest) -> Machine | None:
        """Return the host that a node has."""
        with _assignments(request) as lent:
            found = _entry(lent, request)
            return None if found is None else _machine(lent["hosts"][found])

    def create(self, request: NodeRequest) -> Machine:
        """Lend a host; ProviderError says why none of the pool will do."""
        with _assignments(request, write=True) as lent:
            found = _entry(lent, request)
            if found is None:
                name, host = _choose(request, lent["hosts"])
                found = _place(host)
                lent["serial"] += 1
                lent["hosts"][found] = {
                    "id": f"{name}#{lent['serial']}",
                    "owner": request.owner,
                    "node": request.node,
                    "tenant": request.tenant,
                    "host": {"user": request.image.get("user", "root"), **host},
                }
            return _machine(lent["hosts"][found])

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """Wait until SSH answers there."""
        place = (machine.connection["ansible_host"], machine.connection["ansible_port"])
        end = time.monotonic() + request.timeout_s
        while (problem := _silence(place)) is not None:
            if time.monotonic() > end:
                raise ProviderError(f"no SSH at {place[0]} port {place[1]}: {problem}")
            time.sleep(_PROBE_S)
        return machine

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """Take the host back; what is on it is not touched."""
        with _assignments(request, write=True) as lent:
            found = _entry(lent, request)
            if found is not None and lent["hosts"][found]["id"] == machine.id:
                del lent["hosts"][found]


def _choose(request: NodeRequest, lent: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    pool: Mapping[str, Mapping[str, Any]] = request.fields["hosts"]
    reasons: dict[str, list[str]] = {}
    fit = []
    for name, host in pool.items():
        reason = _unfit(request, host, lent)
        if reason:
            reasons.setdefault(reason, []).append(name)
        else:
            fit.append((host.get("cores", 0), host.get("memory_mb", 0), name))
    if not fit:
        said = "; ".join(f"{', '.join(sorted(names))}: {why}" for why, names in reasons.items())
        raise ProviderError(
            f"the pool has no host for {request.node}: {said or 'it is empty'}",
            hint="add a host to the provider's `hosts`, or delete a cluster that has one",
        )
    name = min(fit)[-1]
    return name, pool[name]


def _unfit(request: NodeRequest, host: Mapping[str, Any], lent: Mapping[str, Any]) -> str:
    """Return why a host is not for this node; "" if it is."""
    taken = lent.get(_place(host))
    if taken is not None:
        return f"lent to {taken['node']}"
    if "tenant" in host and host["tenant"] != request.tenant:
        return f"for the tenant {host['tenant']} only"
    kind = request.hardware.get("name")
    if "hardwaretypes" in host and kind not in host["hardwaretypes"]:
        return f"not of the hardware type {kind}"
    for word in ("cores", "memory_mb"):
        if word in host and host[word] < request.hardware.get(word, 0):
            return f"{word} {host[word]} of {request.hardware[word]}"
    return ""


def _place(host: Mapping[str, Any]) -> str:
    return f"{host['address']}:{host.get('port', 22)}"


def _entry(lent: Mapping[str, Any], request: NodeRequest) -> str | None:
    wanted = (request.owner, request.node)
    entries = lent["hosts"].items()
    return next((key for key, it in entries if (it["owner"], it["node"]) == wanted), None)


def _machine(entry: Mapping[str, Any]) -> Machine:
    host = entry["host"]
    key = {"ansible_ssh_private_key_file": host.get("private_key_file")}
    return Machine(
        id=entry["id"],
        addresses={"access_v4": host["address"], "bind_v4": host.get("bind", host["address"])},
        connection={
            "ansible_host": host["address"],
            "ansible_port": host.get("port", 22),
            "ansible_user": host["user"],
            **{name: value for name, value in key.items() if value},
        },
        ready=True,
    )


def _silence(place: tuple[str, int]) -> str | None:
    """Say why there is no SSH at an address; None if there is."""
    try:
        with socket.create_connection(place, _CONNECT_S) as connection:
            said = connection.recv(len(_BANNER))
    except OSError as error:
        return str(error)
    return None if said == _BANNER else "what answers there is no SSH"


@contextmanager
def _assignments(request: NodeRequest, *, write: bool = False) -> Iterator[dict[str, Any]]:
    """Yield who has which host, alone; with `write` it is on the disk before others see it."""
    path = request.site_dir / request.fields.get("assignments", _FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lent = _read(path)
            yield lent
            if write:
                _write(path, lent)
    except OSError as error:
        raise ProviderError(f"cannot use {path}: {error.strerror}") from error


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"format": _FORMAT, "serial": 0, "hosts": {}}
    try:
        lent: dict[str, Any] = json_file(path)
        known = lent["format"] == _FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise ProviderError(f"{path} is damaged: {error}") from error
    if not known:
        raise ProviderError(f"{path} has the format {lent['format']}, not {_FORMAT}")
    return lent


def _write(path: Path, lent: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(lent, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
