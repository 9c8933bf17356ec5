"""What an agent is given of a generation: its own objects, and of linked ones what locks need.

A part is plain JSON data. Its `content` is a generation of its own, in the form that a generation
is stored in: the objects of the agent's hosts with their types, files and variables, and those that
these are linked to, or share a unit of a limit with, with the matrix of their types and nothing
else. So an agent learns no spec, no variable and no file of a host that is not its own.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cobweb.model import CobId, PythonAction, fill_in, host_of

COORDINATOR = "coordinator"
"""The name of who lends, and owns what is no agent's."""

FORMAT = 1

_VAULT_MARK = "__ansible_vault"
_FOREIGN = "foreign "
"""What the names of types begin with of which only the matrix is known."""

_BY_OBJECT = ("confirm", "machines", "protected", "trusts", "wants")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one agent is given: canonical JSON `data`, its SHA-256, and what else belongs to it.

    `blobs` are the SHA-256 of files and file trees that the agent may ask for, `cobs` its objects
    with the states that they should be in.
    """

    data: bytes
    digest: str
    blobs: frozenset[str]
    cobs: Mapping[CobId, str]


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of some bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def stand_of(cobs: Iterable[str], records: Mapping[CobId, Any]) -> str:
    """Return a digest of what a journal believes of objects: the states, and of which contents."""
    found = [(cob, records.get(CobId(cob))) for cob in sorted(cobs)]
    return digest_of(canonical([[cob, it and [it.state, it.content]] for cob, it in found]))


# --- whose a host can be


def kept_back(desired: Any) -> dict[str, str]:
    """Return the hosts that stay the coordinator's, whoever may own them, and why.

    `desired` is what `cobweb.api.Site.desired` gives.
    """
    found: dict[str, str] = {}
    for host in desired.graph.hosts():
        if _has_vaulted(desired.hosts[host].variables):
            found[host] = "a variable of it is vaulted"
    for cob in desired.graph.cobs.values():
        if why := _why(cob):
            found.setdefault(cob.host, f"{cob.id} {why}")
        for other, key in fill_in(cob.spec, {})[1]:
            if other != cob.host:
                said = f"waits for {key} of {other}" if other in desired.hosts else "waits"
                found.setdefault(cob.host, f"{cob.id} {said}")
                found.setdefault(other, f"{cob.id} waits for what its tasks hand back")
    return found


def _why(cob: Any) -> str:
    """Return why an object is the coordinator's, "" where it need not be."""
    actions = list(cob.type.actions())
    if any(isinstance(it, PythonAction) for it in actions):
        return "is made by the code of a plugin"
    if cob.machine is not None:
        return f"is on a machine that is an object, {cob.machine}"
    if any(getattr(it, "together", False) for it in actions):
        return "goes together with others"
    return "has a vaulted value" if _has_vaulted([cob.spec, cob.type.shared]) else ""


def _has_vaulted(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _VAULT_MARK in value or any(map(_has_vaulted, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_vaulted, value))


# --- parts


class Parts:
    """Makes the parts of one generation, each when it is asked for.

    `content` is the generation as plain data, `owners` says who owns which host; `hosts` and
    `groups` are those of the site. `budgets` are other bounds of limits, by name.
    """

    def __init__(  # noqa: PLR0913  # a generation, and what is not in it
        self,
        content: Mapping[str, Any],
        owners: Mapping[str, str],
        hosts: Mapping[str, Any],
        groups: Mapping[str, Iterable[str]],
        *,
        name: str,
        budgets: Mapping[str, int],
    ) -> None:
        self._content, self._owners, self._name = content, owners, name
        self._hosts, self._bounds = hosts, budgets
        self._hosts_of: dict[str, list[str]] = defaultdict(list)
        for host, owner in sorted(owners.items()):
            self._hosts_of[owner].append(host)
        self._cobs: dict[str, list[str]] = defaultdict(list)
        for cob in content["cobs"]:
            self._cobs[self._owner(cob)].append(cob)
        self._needs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for need in content["needs"]:
            for owner in {self._owner(need["cob"]), self._owner(need["on"])}:
                self._needs[owner].append(need)
        self._units: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for at, budget in enumerate(content["budgets"]):
            for number, unit in enumerate(budget["units"]):
                for owner in {self._owner(it) for it in unit["members"]}:
                    self._units[owner].setdefault(at, []).append(number)
        self._groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for group, members in sorted(groups.items()):
            for host in members:
                self._groups[owners.get(host, COORDINATOR)][group].append(host)

    def _owner(self, cob: str) -> str:
        return self._owners.get(_host(cob), COORDINATOR)

    def of(self, owner: str) -> Part:
        """Return the part of one owner."""
        own = set(self._cobs.get(owner, ()))
        needs, budgets = self._needs.get(owner, []), list(self._budgets(owner))
        linked = {it for need in needs for it in (need["cob"], need["on"])}
        linked |= {it for budget in budgets for unit in budget["units"] for it in unit["members"]}
        linked |= {cob for budget in budgets for cob, _ in budget.get("during", ())}
        content = self._reduced(own, linked - own)
        content |= {"needs": needs, "budgets": budgets, "limits": list(self._limits(own))}
        trees = (self._content["cobs"][cob]["spec"].get("tree") for cob in own)
        blobs = {it["digest"] for it in trees if isinstance(it, Mapping) and "digest" in it}
        blobs |= set(content["files"].values())
        hosts = {it: dict(self._hosts[it].variables) for it in self._hosts_of.get(owner, ())}
        data = {
            "format": FORMAT,
            "name": self._name,
            "owner": owner,
            "owners": {it: self._owner(f"{it}/") for it in sorted(map(_host, linked | own))},
            "content": content,
            "hosts": hosts,
            "groups": self._groups.get(owner, {}),
            "blobs": sorted(blobs),
        }
        text = canonical(data)
        types, wants = self._content["types"], self._content.get("wants", {})
        kinds = {it: types[self._content["cobs"][it]["type"]] for it in own}
        cobs = {CobId(it): wants.get(it, kind["preferred"]) for it, kind in kinds.items()}
        return Part(data=text, digest=digest_of(text), blobs=frozenset(blobs), cobs=cobs)

    def _reduced(self, own: set[str], others: set[str]) -> dict[str, Any]:
        """Return the content without needs and limits: own objects, and what others are."""
        whole = self._content
        cobs = {cob: whole["cobs"][cob] for cob in sorted(own)}
        for cob in sorted(others):
            cobs[cob] = {"type": f"{_FOREIGN}{whole['cobs'][cob]['type']}", "spec": {}}
        types: dict[str, Any] = {}
        for name in sorted({it["type"] for it in cobs.values()}):
            kind = whole["types"][name.removeprefix(_FOREIGN)]
            types[name] = _matrix(kind) if name.startswith(_FOREIGN) else kind
        made: dict[str, Any] = {
            "format": whole["format"],
            "cobs": cobs,
            "types": types,
            "files": dict(_files(types.values(), whole["files"])),
            "hosts": {it: whole["hosts"][it] for it in sorted(set(map(_host, own)))},
        }
        for key in _BY_OBJECT:
            known, asked = whole.get(key, {}), own | others if key == "wants" else own
            found = {cob: known[cob] for cob in sorted(asked) if cob in known}
            if found or key == "confirm":
                made[key] = found
        return made

    def _budgets(self, owner: str) -> Iterator[Mapping[str, Any]]:
        """Yield the limits on what is out that an owner has units of, with these units alone."""
        for at, numbers in self._units.get(owner, {}).items():
            budget = self._content["budgets"][at]
            made = {**budget, "units": [budget["units"][number] for number in numbers]}
            if budget["name"] in self._bounds:
                made["count"] = self._bounds[budget["name"]]
                made.pop("percent", None)
            yield made

    def _limits(self, own: set[str]) -> Iterator[Mapping[str, Any]]:
        """Yield the limits on transitions that bound own objects, with these alone."""
        for limit in self._content["limits"]:
            groups = [
                {**it, "members": sorted(own.intersection(it["members"]))}
                for it in limit["groups"]
                if not own.isdisjoint(it["members"])
            ]
            if groups:
                yield {**limit, "groups": groups}


def canonical(data: Any) -> bytes:
    """Return plain data as the one JSON text of it."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def _host(cob: str) -> str:
    return host_of(CobId(cob))


def _matrix(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Return a type of which nothing can be done: its states and steps alone."""
    steps = [{**it, "action": {}} for it in kind["transitions"]]
    kept = {name: it for name, it in kind.items() if name not in ("inputs", "shared")}
    return kept | {"transitions": steps, "check": {}, "folder": "", "revert": "", "prepare": ""}


def _files(
    types: Iterable[Mapping[str, Any]], files: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the kept files that types work with: their names, and their SHA-256."""
    names: set[str] = set()
    for kind in types:
        for action in (kind["check"], *(it["action"] for it in kind["transitions"])):
            if (role := action.get("role")) is not None:
                names.update(it for it in files if it.startswith(f"{role}/"))
            elif (path := action.get("tasks")) in files:
                folder = f"{path.rpartition('/')[0]}/"
                names.update(it for it in files if it == path or it.startswith(folder))
    yield from ((name, files[name]) for name in sorted(names))
