"""What is done for each command that changes virtual clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cobweb.errors import UsageError
from cobweb.plugin import seconds_of
from cobweb_plugins.metal.vclusters._changes import Writes, counted, fitted, let_go
from cobweb_plugins.metal.vclusters._desk import INTERRUPTED, Desk, machine_of, now_s
from cobweb_plugins.metal.vclusters._grants import (
    GRANTED,
    LABEL,
    MACHINE,
    REQUEST,
    Lease,
    Member,
    Request,
    member_body,
)
from cobweb_plugins.metal.vclusters._round import Said, cold, due, late, mended
from cobweb_plugins.metal.vclusters._written import (
    lease_of,
    moment_text,
    request_of,
    span_of,
    written_problems,
)

Act = tuple[str, Callable[[], int]]
_COLD_AFTER = "30m"


def asked(desk: Desk, name: str, said: Mapping[str, Any]) -> Request:
    """Return what is asked for, by options or else in the site; UsageError where that is wrong."""
    if not LABEL.fullmatch(name):
        hint = "small letters, digits and `-`, 50 at most: its nodes are called NAME-1, ..."
        raise UsageError(f"`{name}` is no name for a virtual cluster", hint=hint)
    if not said:
        return _current(_written(desk, name))
    if "template" not in said:
        hint = f"or write `vclusters: {{{name}: ...}}` into the section `metal`"
        raise UsageError("give it --template", hint=hint)
    count = said.get("count", 1)
    node = {"template": said["template"], "count": count, "min": said.get("least", count)}
    node |= {key: said[old] for key, old in (("max", "most"), ("where", "where")) if old in said}
    words = {key: said[key] for key in ("group", "subnet", "domain", "priority") if key in said}
    body = {**words, "nodes": [node]}
    if lease := _lease_said(said):
        body["lease"] = lease
    for keys, message, hint in written_problems(body, desk.place):
        raise UsageError(f"--{keys[-1]}: {message}", hint=hint)
    return _current(request_of(name, body, now_s()))


def _current(request: Request) -> Request:
    """Return a request; UsageError where its lease is over.

    Where that is shorter than its notice, a quarter of it is notice.
    """
    lease, left_s = request.lease, request.lease.until - now_s() if request.lease else 0.0
    if lease is None or lease.notice_s < left_s:
        return request
    if left_s <= 0:
        raise UsageError(f"{moment_text(lease.until)} is over")
    return replace(request, lease=replace(lease, notice_s=left_s // 4))


def _written(desk: Desk, name: str) -> Request:
    said = (desk.section.get("vclusters") or {}).get(name)
    if said is None:
        known = ", ".join(sorted(desk.section.get("vclusters") or {})) or "none"
        hint = f"written are {known}; or give it --template and --count"
        raise UsageError(f"the site has no virtual cluster `{name}`", hint=hint)
    return request_of(name, said, now_s())


def _lease_said(said: Mapping[str, Any]) -> dict[str, str]:
    """Return a lease as it is written, of options; {} where none of them is there."""
    found = {key: said[f"{key}_"] for key in ("until", "notice", "grace") if f"{key}_" in said}
    if "for_" in said:
        if "until" in found:
            raise UsageError("give --until or --for")
        try:
            end = now_s() + seconds_of(said["for_"])
        except ValueError as error:
            raise UsageError(f"--for {said['for_']} {error}", hint="as in `7d`") from error
        found["until"] = moment_text(end)
    if found and "until" not in found:
        raise UsageError("a lease has an end: give --until or --for")
    return found


def resized(desk: Desk, name: str, count: int | None, part: int) -> Request:
    """Return a request with another count, or as it is written now."""
    request = desk.request(name)
    if count is None:
        new = _written(desk, name)
        if (new.subnet, new.domain) != (request.subnet, request.domain):
            hint = f"`cobweb vcluster release {name}`, then create it"
            raise UsageError("`subnet` and `domain` are for good", hint=hint)
        kept = {key: getattr(request, key) for key in ("created", "lease", "phase", "told")}
        return replace(new, **kept)
    if part >= len(request.parts):
        raise UsageError(f"`{name}` has no kind {part + 1} of nodes")
    most = request.parts[part].max
    if most is not None and count > most:
        raise UsageError(f"`{name}` may have {most} of these nodes at most")
    return counted(request, part, count)


def extended(request: Request, said: Mapping[str, Any]) -> Request:
    """Return a request with another lease."""
    words = _lease_said(said)
    if not words:
        raise UsageError("give --until or --for")
    old = request.lease
    kept = {"notice": f"{old.notice_s:.0f}s", "grace": f"{old.grace_s:.0f}s"} if old else {}
    try:
        lease: Lease = lease_of({**kept, **words})
    except ValueError as error:
        raise UsageError(f"the lease {error}") from error
    return _current(replace(request, lease=lease, phase=GRANTED, told=0.0))


def grant(desk: Desk, name: str, ask: Callable[[], Request], *, exists: bool = False) -> Act:
    """Return how a virtual cluster gets what it asks for; UnmetError where it cannot.

    `ask` is called anew where others have decided meanwhile.
    """

    def change() -> Writes:
        request, known = ask(), desk.grants.requests.get(name)
        wanted = request if known is None else replace(request, created=known.created)
        if known is not None and not exists:
            kept = {key: getattr(known, key) for key in ("lease", "phase", "told")}
            if replace(wanted, **kept) != known:
                hint = f"`cobweb vcluster resize {name}` changes it"
                raise UsageError(f"there is a virtual cluster `{name}` already", hint=hint)
        return fitted(wanted if exists or known is None else known, desk.ground(), desk.grace_s)

    def act() -> int:
        desk.decide(change)
        return desk.carry_out(name)

    return _question(desk, name, change()), act


def _question(desk: Desk, name: str, writes: Writes) -> str:
    """Return what is asked before something is decided."""
    more, less = [], []
    for key, body in writes.items():
        machine = machine_of(key)
        if machine and body and body["vcluster"] == name:
            holder = desk.grants.members.get(machine)
            more.append(f"{machine} ({holder.host})" if holder else machine)
        elif machine:
            less.append(machine)
    parts = [f"gets {', '.join(more)}"] if more else []
    parts += [f"gives back {', '.join(less)}"] if less else []
    return f"{name} {' and '.join(parts) or 'keeps its machines'}: go on?"


def renew(desk: Desk, request: Request, at_once: int) -> Act:
    """Return how the nodes of a virtual cluster get what their templates stand for now."""

    def old() -> list[Member]:
        """Return the nodes that have another image than their template."""
        members = desk.grants.of(request.name)
        return [it for it in members if it.image != desk.images[template_of(it)]]

    def template_of(member: Member) -> str:
        return request.parts[member.part].template

    def change() -> Writes:
        return {
            f"{MACHINE}{it.machine}": member_body(
                replace(it, image=desk.images[template_of(it)]),
                desk.grants.left.get(it.machine, ()),
                desk.grants.cut.get(it.machine, 0.0),
            )
            for it in old()[:at_once]
        }

    def act() -> int:
        code = desk.carry_out(request.name)  # what an earlier call has left on the way
        while code != INTERRUPTED and (left := old()):
            states = desk.access.states()
            broken = [it for it in desk.grants.of(request.name) if not desk.is_ready(it, states)]
            if [it for it in broken if it not in left]:
                break
            desk.decide(change)
            code = desk.carry_out(request.name)
        return code

    hosts = ", ".join(it.host for it in old()) or "no node, all have its image"
    return f"Re-image {hosts}?", act


def release(desk: Desk, name: str) -> Act:
    """Return how a virtual cluster is given back, also one whose request alone was taken back."""
    if not desk.grants.of(name):
        desk.request(name)
    request = desk.grants.requests.get(name)
    grace_s = request.lease.grace_s if request and request.lease else desk.grace_s

    def change() -> Writes:
        writes = let_go(desk.grants.of(name), desk.ground(), grace_s)
        return {f"{REQUEST}{name}": None, **writes} if name in desk.grants.requests else writes

    def act() -> int:
        desk.decide(change)
        return desk.carry_out(name)

    hosts = ", ".join(it.host for it in desk.grants.of(name)) or "nothing"
    return f"Give back {hosts}, with all that is on them?", act


def expire(desk: Desk) -> int:
    """Do a round; return the exit code of what was carried out."""
    said: list[str] = []
    desk.look()
    before = desk.decisions.revision
    for name in sorted(desk.grants.requests):
        _decide(desk, lambda name=name: due(name, desk.ground()), said)  # type: ignore[misc]
    for machine, hosts in late(desk.grants, now_s()).items():
        desk.cut(hosts)
        said.append(f"{', '.join(hosts)}: its time is over, {machine} goes by power")
    reserve = desk.section.get("reserve") or {}
    after_s = span_of(reserve.get("cold_after", _COLD_AFTER)) if reserve else 0.0
    _decide(desk, lambda: (cold(desk.grants, now_s(), after_s), []), said)
    for request in sorted(desk.grants.requests.values(), key=lambda it: (-it.priority, it.created)):
        step = partial(_mended, desk, request.name)
        while _decide(desk, step, said):
            pass
    for line in said:
        desk.access.summary(line)
    if not said and desk.decisions.revision == before and desk.is_settled():
        desk.access.summary("nothing is due")
        return 0
    return desk.carry_out()


def _mended(desk: Desk, name: str) -> Said:
    request = desk.grants.requests.get(name)
    return mended(request, desk.ground(), desk.grace_s) if request else ({}, [])


def _decide(desk: Desk, step: Callable[[], Said], said: list[str]) -> Writes:
    """Decide what a step of a round returns, and keep what people are told of it."""
    lines: list[str] = []

    def change() -> Writes:
        writes, lines[:] = step()
        return writes

    writes = desk.decide(change)
    said += lines
    return writes


def put_back(desk: Desk, machine: str) -> None:
    """Have a machine that was put aside be chosen again; UsageError where it was not."""
    if machine not in desk.grants.failed:
        known = ", ".join(sorted(desk.grants.failed)) or "none"
        raise UsageError(f"{machine} was not put aside", hint=f"these are: {known}")
    desk.clear_failure(machine)
    key = f"{MACHINE}{machine}"
    desk.decide(lambda: {key: None} if machine in desk.grants.failed else {})
    desk.access.summary(f"{machine} can be chosen again")
