"""What is decided of virtual clusters: requests by name, and whose each machine is.

Bodies of decisions are plain JSON data: `request/NAME` is a request, `machine/M` the choice.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobweb.model import Decision

REQUEST, MACHINE = "request/", "machine/"
"""How the keys of decisions begin."""

GRANTED, LEAVING = "granted", "leaving"
"""The phases of a virtual cluster: it is there; its nodes are to be left by what is on them."""

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?")
"""What a virtual cluster may be called: its nodes have a name in DNS."""

NODE, FREE, FAILED = "in", "free", "failed"
"""The phases of a machine: a node, nobody's, put aside until a person says that it is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Nodes of one kind: `count` of a template, on machines that the filter `where` accepts.

    Machines above `min` may be taken for a virtual cluster of a higher priority; there are never
    more than `max` (None: any number).
    """

    template: str
    count: int
    min: int
    max: int | None = None
    where: str = ""

    def __str__(self) -> str:
        where = f", where {self.where}" if self.where else ""
        return f"of {self.template}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Until when a virtual cluster is there, in seconds since the epoch.

    `notice_s` earlier its nodes are to be left; `grace_s` later they go by power.
    """

    until: float
    notice_s: float
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a virtual cluster asks for; times are in seconds since the epoch.

    `subnet` and `domain` may be "". `told` is when notice was given, 0 for not yet.
    """

    name: str
    parts: tuple[Part, ...]
    created: float
    group: str = ""
    subnet: str = ""
    domain: str = ""
    priority: int = 0
    lease: Lease | None = None
    phase: str = GRANTED
    told: float = 0.0

    @property
    def key(self) -> str:
        """The key of its decision."""
        return f"{REQUEST}{self.name}"

    @property
    def tenant(self) -> str:
        """What tells it from an earlier one of its name: whose content a disk has."""
        return f"{self.name}/{self.created:.3f}"

    @property
    def ends(self) -> float:
        """When its nodes go; a lease that ended while nobody looked has its notice first."""
        assert self.lease is not None
        return max(self.lease.until, self.told + self.lease.notice_s) if self.told else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A machine that is a node: which one, of what, under what address, since when.

    `part` is the index of the request's part, `image` the SHA-256 of what it runs.
    """

    machine: str
    vcluster: str
    number: int
    part: int
    image: str
    address: str
    since: float

    @property
    def host(self) -> str:
        """The name of the node."""
        return f"{self.vcluster}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """Requests by name, members by machine; `freed` are machines let go, with when and for whom.

    `left` are the nodes that each machine was and that may not be gone yet, `cut` from when on
    these go by power. `failed` are machines that were put aside, with the image that they have
    failed with.
    """

    requests: Mapping[str, Request] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)
    freed: Mapping[str, float] = field(default_factory=dict)
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cut: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    by_key: Mapping[str, Decision] = field(default_factory=dict)

    def of(self, name: str) -> list[Member]:
        """Return the members of a virtual cluster, by number."""
        found = (it for it in self.members.values() if it.vcluster == name)
        return sorted(found, key=lambda it: it.number)


def grants_of(decisions: Mapping[str, Decision]) -> Grants:
    """Return what sound decisions of a section say."""
    requests, members, freed = dict[str, Request](), dict[str, Member](), dict[str, float]()
    left, cut, failed = dict[str, tuple[str, ...]](), dict[str, float](), dict[str, str]()
    for key, decision in decisions.items():
        kind, _, name = key.partition("/")
        body = decision.body
        if f"{kind}/" == REQUEST:
            requests[name] = _request(name, body)
            continue
        left[name] = tuple(body.get("left", ()))
        cut[name] = body.get("until", 0.0)
        if body["phase"] == FAILED:
            failed[name] = body["image"]
        elif body["vcluster"] is None:
            freed[name] = body["since"]
        else:
            words = ("vcluster", "number", "part", "image", "address", "since")
            members[name] = Member(machine=name, **{it: body[it] for it in words})
    return Grants(
        requests=requests,
        members=members,
        freed=freed,
        left=left,
        cut=cut,
        failed=failed,
        by_key=decisions,
    )


def request_body(request: Request) -> dict[str, Any]:
    """Return a request as it is decided."""
    body = dataclasses.asdict(request)
    body["nodes"] = [_plain(it) for it in body.pop("parts")]
    del body["name"]
    return _plain(body)


def member_body(member: Member, left: Sequence[str] = (), cut: float = 0.0) -> dict[str, Any]:
    """Return a member as it is decided; `left` are nodes that its machine was before."""
    body = {**dataclasses.asdict(member), "phase": NODE, **_left(left, cut)}
    del body["machine"]
    return body


def freed_body(now: float, left: Sequence[str], cut: float) -> dict[str, Any]:
    """Return that a machine is nobody's; from `cut` on the nodes it was go by power."""
    return {"vcluster": None, "phase": FREE, "since": now, **_left(left, cut)}


def failed_body(now: float, image: str, left: Sequence[str]) -> dict[str, Any]:
    """Return that a machine has failed with an image, and is chosen by nobody."""
    return {"vcluster": None, "phase": FAILED, "image": image, "since": now, **_left(left, now)}


def _left(left: Sequence[str], cut: float) -> dict[str, Any]:
    return {"left": sorted(set(left)), "until": cut} if left else {}


def _request(name: str, body: Mapping[str, Any]) -> Request:
    said = dict(body)
    parts = tuple(Part(**it) for it in said.pop("nodes"))
    lease = said.pop("lease", None)
    return Request(name=name, parts=parts, lease=lease and Lease(**lease), **said)


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: it for key, it in body.items() if it is not None}


# What is wrong with decisions, in the section as it is.

Problem = tuple[tuple[str | int, ...], str, str]


def grant_problems(
    section: Mapping[str, Any], decisions: Mapping[str, Decision]
) -> Iterator[Problem]:
    """Yield why decisions cannot hold in the section as it is."""
    machines = section.get("machines") or {}
    users = {it["address"]: name for name, it in machines.items() if "address" in it}
    for key, decision in sorted(decisions.items()):
        found = list(_problems(section, decisions, decision))
        if not found and decision.body.get("number"):
            for what in (decision.body["address"], _host(decision.body)):
                other = users.setdefault(what, key.removeprefix(MACHINE))
                if f"{MACHINE}{other}" != key:
                    found.append((("machines",), f"`{what}` is of `{other}` as well"))
        for keys, message in found:
            hint = f"write it back, or: cobweb decide metal {key} null"
            if "nodes" in decision.body and key.startswith(REQUEST):
                hint = f"write it back, or: cobweb vcluster release {key.removeprefix(REQUEST)}"
            yield keys, f"{message} ({decision})", hint


def _host(body: Mapping[str, Any]) -> str:
    return f"{body['vcluster']}-{body['number']}"


def _problems(
    section: Mapping[str, Any], decisions: Mapping[str, Decision], decision: Decision
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    kind, _, name = decision.key.partition("/")
    body, is_request = decision.body, "nodes" in decision.body
    is_name = LABEL.fullmatch(name) if is_request else name
    if f"{kind}/" != (REQUEST if is_request else MACHINE) or not is_name:
        yield ("vclusters",), f"`{decision.key}` is no key of what is decided there"
    elif is_request:
        for part in body["nodes"]:
            if part["template"] not in (section.get("templates") or {}):
                yield ("templates",), f"`{name}` is of the template `{part['template']}`"
    elif body["vcluster"] is not None:
        request = decisions.get(f"{REQUEST}{body['vcluster']}")
        machines = section.get("machines") or {}
        if request is None or body["part"] >= len(request.body["nodes"]):
            yield ("vclusters",), f"`{name}` is of `{body['vcluster']}`, which nobody asks for"
        if name not in machines:
            yield ("machines",), f"the machine `{name}`, which is {_host(body)}, is not there"
        elif "template" in machines[name]:
            keys = ("machines", name, "template")
            yield keys, f"`{name}` has a template, and was chosen to be {_host(body)}"
