"""A report of an agent, read as what anybody may have written who has its key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from cobweb.model import CobId, host_of
from cobweb_plugins.agents._wire import Mark, Marks

EventBody = tuple[str, dict[str, Any]]
"""The type of an event, and what belongs to it."""

_TEXTS: Mapping[str, Sequence[str]] = {
    "cob.gave_up": ("cob",),
    "cob.state": ("cob", "state", "reason"),
    "check.end": ("cob", "state", "result"),
    "transition.start": ("cob", "from", "to"),
    "transition.end": ("cob", "from", "to", "state", "result"),
    "lock.request": ("cob", "holder", "state"),
    "lock.grant": ("cob", "holder", "state"),
    "lock.release": ("cob", "holder", "state"),
    "lock.recall": ("cob", "holder", "state"),
    "slot.take": ("limit", "unit"),
    "slot.return": ("limit", "unit"),
    "limit.pause": ("limit",),
    "limit.resume": ("limit",),
    "host.unreachable": ("host",),
    "host.returned": ("host",),
}
"""The events that an agent may tell, and which texts each has."""

_MORE = ("attempt", "locks", "message", "seconds", "tasks", "units", "unreachable")
"""What else belongs to events; all else is left out."""

STAGES = ("fetch", "work", "ended", "refused")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How an agent stands: `stage`, whether it is `idle` and `settled`, and why objects wait.

    `at` is the last event that it has told, `acked` the last one that it knows to be taken; `said`
    and `heard` have digests of words, by owner. `message` says why it refuses.
    """

    epoch: int
    stage: str
    idle: bool
    settled: bool
    waits: Sequence[Mapping[str, Any]]
    said: Mapping[str, str]
    heard: Mapping[str, str]
    message: str
    at: Mark
    acked: Mark
    events: Sequence[tuple[Mark, EventBody, Marks]]


def report_of(paper: Mapping[str, Any], own: AbstractSet[str]) -> Report:
    """Return the report that a paper is, by the agent of the objects `own`.

    Waits of others' objects are left out. One of NONSENSE is raised for what is none.
    """
    if paper["stage"] not in STAGES:
        raise ValueError(paper["stage"])
    return Report(
        epoch=int(paper["epoch"]),
        stage=paper["stage"],
        idle=paper["idle"] is True,
        settled=paper["settled"] is True,
        waits=list(_waits(paper["waits"], own)),
        said={str(owner): str(it) for owner, it in dict(paper["said"]).items()},
        heard={str(owner): str(it) for owner, it in dict(paper["heard"]).items()},
        message=str(paper["message"]),
        at=_mark(paper["at"]),
        acked=_mark(paper["acked"]),
        events=[_event(it, own) for it in paper["events"]],
    )


def _mark(value: Sequence[int]) -> Mark:
    life, number = value
    return int(life), int(number)


def _event(value: Sequence[Any], own: AbstractSet[str]) -> tuple[Mark, EventBody, Marks]:
    life, number, kind, data, marks = value
    body = {name: data[name] for name in _TEXTS[kind]}
    if not all(isinstance(it, str) for it in body.values()):
        raise TypeError(body)
    if body.get("result", "ok") not in ("ok", "failed"):
        raise ValueError(body)
    about = [body[name] for name in ("cob", "holder") if name in body]
    hosts = {host_of(CobId(it)) for it in own}
    if (about and own.isdisjoint(about)) or body.get("host", min(hosts)) not in hosts:
        raise ValueError(body)
    body |= {name: data[name] for name in _MORE if name in data}
    return _mark((life, number)), (kind, body), {it: _mark(marks[it]) for it in marks}


def _waits(found: Sequence[Any], own: AbstractSet[str]) -> Iterator[Mapping[str, Any]]:
    from cobweb.operations import link_of

    for each in found:
        chain = each["chain"]
        for link in chain:
            link_of(link)
        if each["cob"] in own:
            kept = {"cob": each["cob"], "state": str(each["state"])}
            yield {**kept, "message": str(each["message"]), "chain": list(chain)}
