"""A round of decisions by hand: what services need, who gets what, and its carrying out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cobweb.errors import ConflictError, StoreError
from cobweb.plugin import Column, SiteAccess, Tone
from cobweb_plugins.pools._answers import Answer, now_s
from cobweb_plugins.pools._desk import MEMORY, Desk
from cobweb_plugins.pools._section import NAME
from cobweb_plugins.pools._views import moment, resource_data

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Outcome

_ON_ITS_WAY = ("assigning", "unassigning")
_NEEDS = (
    *(Column(title=it) for it in ("SERVICE", "OBJECTIVE")),
    *(Column(title=it, right=True) for it in ("URGENCY", "WANTS")),
    Column(title="SINCE"),
    Column(title="WHY", flexible=True),
)
_ORDERS = tuple(Column(title=it) for it in ("RESOURCE", "FROM", "TO", "FOR", "SINCE", "STATE"))


class Round:
    """A round of decisions on what services have answered; with `hurry` nothing waits."""

    def __init__(self, desk: Desk, answers: Mapping[str, Answer], *, hurry: bool = False) -> None:
        from cobweb_plugins.pools.decision import decide

        self.desk = desk
        self.now_s = now_s()
        self.memory, self._revision = desk.memory()
        self._ground = desk.ground()
        self._observed = {name: it.observed for name, it in answers.items() if it.observed}
        self.view = self._ground.view(self.now_s)
        given = (self.view, self._observed, self.memory, self.now_s, desk.policy())
        self.outcome: Outcome = decide(*given, hurry=hurry)
        self.bodies = self._ground.bodies(self.outcome.writes, self.now_s)

    @property
    def notes(self) -> list[dict[str, str]]:
        """What was done or not, and why, as plain data."""
        return [
            {"kind": str(it.kind), "subject": it.subject, "text": it.text}
            for it in self.outcome.notes
        ]

    def needs(self) -> list[dict[str, Any]]:
        """Return what services ask for, as plain data."""
        from cobweb_plugins.pools.decision import needs

        found = needs(self.view, self._observed, self.memory, self.now_s)
        said = [(it.subject, it.text) for it in self.outcome.notes]
        return [
            {
                **asdict(it),
                "urgency": it.urgency if math.isfinite(it.urgency) else None,
                "wanted": it.wanted if math.isfinite(it.wanted) else None,
                "why": next((t for name, t in said if name == it.service and it.slo in t), ""),
            }
            for it in needs_first(found)
        ]

    def write(self, reason: str) -> None:
        """Write what was decided, and what is to be remembered of it."""
        texts = {it["subject"]: f"{it['kind']}: {it['text']}" for it in self.notes}
        for id_, body in self.bodies.items():
            if body is not None and id_ in texts:
                body.setdefault("reason", texts[id_])
        if self.bodies:
            self.desk.decide(self.bodies, reason)
        for id_ in self.bodies:
            self.desk.forget_left(id_)
        kept = {MEMORY: {"memory": self.outcome.memory}}
        with self.desk.access.site() as site:
            try:
                site.remember(NAME, self._revision, kept, "pool balance", reason)
            except (ConflictError, StoreError) as error:  # a controller's turn, which remembers
                self.desk.access.summary(f"not remembered: {error}", Tone.CAREFUL)


def needs_first(found: Sequence[Any]) -> list[Any]:
    """Return needs, those that are most urgent first."""
    return sorted(found, key=lambda it: (-it.urgency, it.service, it.slo))


def balance(desk: Desk, found: Round, reason: str, wait: str | None) -> int:
    """Write and carry out a round; return its exit code: 1 failed, 2 something is on its way."""
    found.write(reason)
    code = 0
    if moving := unsettled(desk):
        objects = [cob for id_ in moving for it in moving[id_] for cob in desk.objects(id_, it)]
        code = desk.bring_about(objects, wait, f"{NAME}: {reason}")
    left = unsettled(desk)
    return code if code not in (0, 2) else 2 if left else 0


def unsettled(desk: Desk) -> dict[str, list[str]]:
    """Return the services of each resource that is not where it was decided to be."""
    states = desk.access.states()
    found = {}
    for id_, book in desk.books().items():
        services = [*([book.holding.service] if book.holding else []), *book.was]
        data = resource_data(desk, id_, {}, states)
        wants = "down" if book.holding and book.holding.phase == "failed" else None
        is_broken = wants and desk.state(id_, services[0], states) != wants
        if data["state"] in _ON_ITS_WAY or is_broken:
            found[id_] = [it for it in services if it in desk.pools.services]
    return found


def tell_round(access: SiteAccess, found: Round) -> None:
    """Write what a round has decided and noted."""
    for it in found.notes:
        access.line(f"{it['kind']}: {it['subject']}: {it['text']}")
    if not found.bodies:
        access.summary("nothing is decided otherwise")


def tell_needs(access: SiteAccess, needs: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of what services ask for."""
    rows = []
    for it in needs:
        urgency = "min" if it["urgency"] is None else f"{it['urgency']:g}"
        wanted = "all" if it["wanted"] is None else f"{it['wanted']:g}"
        rows.append((it["service"], it["slo"], urgency, wanted, moment(it["since_s"]), it["why"]))
    access.table(_NEEDS, rows)
    if not rows:
        access.summary("no service asks for more than it has, or is about to get")


def orders(desk: Desk) -> list[dict[str, Any]]:
    """Return who gets what is being freed, as plain data."""
    states = desk.access.states()
    return [
        {
            "resource": id_,
            "service": it.service,
            "to": it.to,
            "slo": it.order.slo if it.order else None,
            "weight": it.order.weight if it.order else None,
            "since": it.order.at_s if it.order else it.since_s,
            "state": desk.state(id_, it.service, states),
        }
        for id_, book in desk.books().items()
        if (it := book.holding) and it.phase == "leaving"
    ]


def tell_orders(access: SiteAccess, found: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of orders."""
    rows = [
        (
            it["resource"],
            it["service"],
            it["to"] or "",
            it["slo"] or "by hand",
            moment(it["since"]),
            it["state"],
        )
        for it in found
    ]
    access.table(_ORDERS, rows)
    if not rows:
        access.summary("nothing is being freed")
