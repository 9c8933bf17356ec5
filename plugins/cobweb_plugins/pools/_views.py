"""What the pools of a site are like now, as plain data and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cobweb.model import CobId, Decision, State
from cobweb.plugin import Cell, Column, SiteAccess, Tone
from cobweb_plugins.pools._answers import Answer, now_s
from cobweb_plugins.pools._desk import Desk
from cobweb_plugins.pools._holdings import Book
from cobweb_plugins.pools._section import NAME

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Holding

_AT_REST = ("assigned", "unassigned")
_MOST_SHOWN = 3
"""How many KPIs of a service a table has."""

_TONES = {"error": Tone.BAD, "ambiguous": Tone.BAD, "unknown": Tone.BAD}
_TONES |= dict.fromkeys(("assigning", "unassigning", "stopped"), Tone.CAREFUL)

_OF_SERVICES = (
    Column(title="SERVICE"),
    Column(title="STATE"),
    Column(title="ADAPTER"),
    Column(title="ON"),
    Column(title="MEMBERS", right=True),
    Column(title="MIN", right=True),
    Column(title="MAX", right=True),
    Column(title="SAYS", flexible=True),
)
_OF_RESOURCES = (
    Column(title="RESOURCE"),
    Column(title="TYPE"),
    Column(title="STATE"),
    Column(title="SERVICE"),
    Column(title="TO"),
    Column(title="JOBS", right=True),
    Column(title="SINCE"),
    Column(title="WHY", flexible=True),
)


_OF_HISTORY = (
    Column(title="OF"),
    Column(title="REV", right=True),
    Column(title="DECIDED", flexible=True),
    Column(title="BY"),
    Column(title="SINCE"),
    Column(title="REASON", flexible=True),
)


def pool_data(
    desk: Desk, answers: Mapping[str, Answer], only: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return what the pools are like: schemas/pool.schema.json; of `only` these resources."""
    states = desk.access.states()
    resources = desk.pools.resources if only is None else list(only)
    return {
        "format": 1,
        "revision": desk.decisions.revision,
        "services": [service_data(desk, name, answers) for name in desk.pools.services],
        "resources": [resource_data(desk, it, answers, states) for it in resources],
    }


def service_data(desk: Desk, name: str, answers: Mapping[str, Answer]) -> dict[str, Any]:
    """Return what a service is like."""
    service, answer = desk.pools.services[name], answers.get(name, Answer(said="it was not asked"))
    observed = answer.observed
    return {
        "name": name,
        "state": answer.state if service.registered else "stopped",
        "adapter": service.adapter,
        "on": desk.layout.service(name).host,
        "members": desk.members(name),
        "min": service.min,
        "max": service.max,
        "priority": service.priority,
        "registered": service.registered,
        "kpis": [
            {
                "name": it.name,
                "value": it.value if math.isfinite(it.value) else None,
                "properties": dict(it.properties),
            }
            for it in (observed.kpis if observed else ())
        ],
        "message": "it takes no part" if not service.registered else answer.why,
    }


def resource_data(
    desk: Desk, id_: str, answers: Mapping[str, Answer], states: Mapping[CobId, State]
) -> dict[str, Any]:
    """Return what a resource is like, with the state that it has in Hedeby (1.1.1.2)."""
    resource, book = desk.pools.resources[id_], desk.book(id_)
    holding = book.holding
    claims = sorted(
        name for name, it in answers.items() if it.observed and id_ in it.observed.members
    )
    # What has not left yet is known to be there.
    mine = {it for it in _services_of(book) if desk.state(id_, it, states) != "down"}
    foreign = [it for it in claims if it not in mine]
    service, to = _where(desk, id_, book, states)
    seen = answers[service].observed if service and service in answers else None
    member = seen.members.get(id_) if seen else None
    decision = desk.decisions.by_key.get(id_)
    reason = book.reason or (decision.reason if decision else "")
    if seen is not None and member is None and desk.state(id_, str(service), states) == "up":
        reason = f"{service} says that it does not have it: `cobweb drift` looks"
    return {
        "id": id_,
        "type": resource.type,
        "state": _state(desk, id_, book, states),
        "service": service,
        "to": to,
        "jobs": member.jobs if member else 0,
        "since": holding.since_s if holding else None,
        "static": resource.static,
        "ambiguous": len({*claims, *mine}) > 1 and bool(foreign),
        "claimed": foreign,
        "properties": dict(resource.properties),
        "reason": reason,
        "held_until": holding.held_until_s if holding else None,
        "author": decision.author if decision else "",
        "objects": {
            it: states.get(it, "absent")
            for name in _services_of(book)
            for it in desk.objects(id_, name)
        },
    }


def _where(
    desk: Desk, id_: str, book: Book, states: Mapping[CobId, State]
) -> tuple[str | None, str | None]:
    """Return the service that has a resource, and who gets it: until it has left it is there."""
    holding = book.holding
    stays = [it for it in book.was if not book.lost and desk.state(id_, it, states) != "down"]
    if stays:
        return stays[0], holding.service if holding else None
    return (holding.service, holding.to) if holding else (None, None)


def _services_of(book: Book) -> Sequence[str]:
    return (*([book.holding.service] if book.holding else []), *book.was)


def _parties(holding: Holding | None) -> Sequence[str | None]:
    return () if holding is None else (holding.service, holding.to)


def _state(desk: Desk, id_: str, book: Book, states: Mapping[CobId, State]) -> str:
    """Return the state of a resource."""
    holding = book.holding
    is_gone = holding is not None and holding.service not in desk.pools.services
    if book.lost or is_gone or (holding and holding.phase == "failed"):
        return "error"
    stays = any(desk.state(id_, name, states) != "down" for name in book.was)
    if stays or (holding and holding.phase == "leaving"):
        return "unassigning"
    if holding is None:
        return "unassigned"
    objects = desk.objects(id_, holding.service)
    return "assigned" if not objects or states.get(objects[0]) == "up" else "assigning"


def comparison(desk: Desk, answers: Mapping[str, Answer], name: str) -> dict[str, Any]:
    """Return how much a resource, or each member of a service, is needed, and notes on it.

    These are of a round of decisions that waits for nothing, and writes nothing.
    """
    from cobweb_plugins.pools.decision import decide, usages

    observed = {name: it.observed for name, it in answers.items() if it.observed}
    moment_s, memory = now_s(), desk.memory()[0]
    view = desk.ground().view(moment_s)
    outcome = decide(view, observed, memory, moment_s, desk.policy(), hurry=True)
    found = usages(view, observed, memory, moment_s)
    return {
        "usages": [
            {"resource": id_, "service": view.holdings[id_].service, "usage": usage}
            for id_, usage in sorted(found.items())
            if name in (id_, view.holdings[id_].service)
        ],
        "notes": [
            {"kind": str(it.kind), "subject": it.subject, "text": it.text}
            for it in outcome.notes
            if it.subject == name or name in _parties(outcome.writes.get(it.subject))
        ],
    }


def tell_status(access: SiteAccess, data: Mapping[str, Any]) -> None:
    """Write tables of services, and of resources that are not at rest."""
    tell_services(access, data)
    found = data["resources"]
    moving = [it for it in found if it["state"] not in _AT_REST or it["claimed"]]
    if moving:
        access.line()
        tell_resources(access, {"resources": moving})
    free = sum(it["state"] == "unassigned" for it in found)
    access.summary(f"{len(found)} resources, {free} nobody's, {len(moving)} not at rest")


def tell_services(access: SiteAccess, data: Mapping[str, Any]) -> None:
    """Write a table of services."""
    rows = []
    for it in data["services"]:
        known = [kpi for kpi in it["kpis"] if kpi["value"] is not None][:_MOST_SHOWN]
        kpis = [f"{kpi['name']} {kpi['value']:g}" for kpi in known]
        most = "" if it["max"] is None else str(it["max"])
        state = Cell(text=it["state"], tone=_TONES.get(it["state"], Tone.NONE))
        says = it["message"] or ", ".join(kpis)
        members, least = str(len(it["members"])), str(it["min"])
        rows.append((it["name"], state, it["adapter"], it["on"], members, least, most, says))
    access.table(_OF_SERVICES, rows)


def tell_resources(access: SiteAccess, data: Mapping[str, Any]) -> None:
    """Write a table of resources."""
    rows = []
    for it in data["resources"]:
        state = "ambiguous" if it["ambiguous"] else it["state"]
        why = it["reason"]
        if it["ambiguous"] or it["claimed"]:
            why = f"claimed by {', '.join(it['claimed'])}"
        elif it["static"]:
            why = f"static{'; ' if why else ''}{why}"
        since = "" if it["since"] is None else moment(it["since"])
        service, to, jobs = it["service"] or "", it["to"] or "", str(it["jobs"] or "")
        shown = Cell(text=state, tone=_TONES.get(state, Tone.NONE))
        rows.append((it["id"], it["type"], shown, service, to, jobs, since, why))
    access.table(_OF_RESOURCES, rows)


def tell_history(access: SiteAccess, key: str | None) -> None:
    """Write a table of what was decided of a resource, or of all, the newest first."""
    found = [it for it in access.decision_history(NAME) if key in (None, it.key)]
    rows = [
        (it.key, str(it.revision), said(it.body), it.author, moment(it.time), why(it))
        for it in found
    ]
    access.table(_OF_HISTORY, rows)
    if not rows:
        access.summary("nothing was decided")


def why(it: Decision) -> str:
    return (it.body or {}).get("reason") or it.reason


def told(it: Decision) -> str:
    """Return a decision on a resource in a line, with the reason that is its own."""
    return f"{it.key} {said(it.body)} (revision {it.revision}, by {it.author}): {why(it)}"


def said(body: Mapping[str, Any] | None) -> str:
    """Return what the body of a decision says, in few words."""
    if body is None or "stopped" in body:
        return "takes no part" if body else "as the site says"
    if body.get("lost") or not body["service"]:
        return "given up" if body.get("lost") else "nobody's"
    service, to = body["service"], body.get("to") or "nobody"
    comes = "comes to" if body.get("was") else "in"
    words = {"in": f"{comes} {service}", "leaving": f"leaves {service}, to {to}"}
    return words.get(body["phase"], f"failed in {service}")


def moment(seconds: float) -> str:
    """Return a time as people read it."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")
