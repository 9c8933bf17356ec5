"""A round of decisions on a site: from what is written, decided and known to bodies of decisions.

Pure, as `decision` is, which it calls: it asks nobody, and looks at no clock.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cobweb.model import CobId, Decision
from cobweb_plugins.pools._holdings import SERVICES, Book, body_of, book_of

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Holding, Member, Outcome, Pools, View

NOBODY = Book(holding=None)
"""What is decided of a resource of which nothing is."""

_KNOWN = ("down", "draining", "up")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Objects that the last run, begun at `begun_s`, has left where they should not be, and why.

    `failed` are those with a step or a check that failed, `unreachable` those of a host that was
    out of reach.
    """

    begun_s: float = 0.0
    failed: Mapping[CobId, str] = field(default_factory=dict)
    unreachable: Mapping[CobId, str] = field(default_factory=dict)

    @classmethod
    def of(cls, begun_s: float, unsettled: Sequence[Mapping[str, Any]]) -> Failures:
        """Return what the facts of a run say."""
        found: dict[str, dict[CobId, str]] = {"failed": {}, "unreachable": {}}
        for it in unsettled:
            kind = it["chain"][0]["kind"] if it["chain"] else ""
            if kind in found:
                found[kind][CobId(it["cob"])] = it["message"] or it["chain"][0].get("detail", "")
        return cls(begun_s=begun_s, **found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a round is made from, besides answers.

    `books` are what is decided of resources. `objects` are those of a resource in a service, its
    own first, by both; `states` are the state of an object and since when. `settings` is what
    the site says of a service to its adapter, by service. `strangers` are resources that are to be
    hosts and that the inventory has not: they take no part.
    """

    pools: Pools
    books: Mapping[str, Book]
    objects: Mapping[str, Mapping[str, Sequence[CobId]]]
    states: Mapping[CobId, tuple[str, float]]
    failures: Failures
    settings: Mapping[str, Mapping[str, Any]]
    strangers: Collection[str] = ()

    def view(self, now_s: float) -> View:
        """Return what the decision is made from; what was given up takes no part in it."""
        from cobweb_plugins.pools.decision import View

        lost = {id_ for id_, book in self.books.items() if book.lost}.union(self.strangers)
        resources = {id_: it for id_, it in self.pools.resources.items() if id_ not in lost}
        pools = self.pools
        holdings = {
            id_: book.holding
            for id_, book in self.books.items()
            if book.holding and book.holding.service in pools.services and id_ not in lost
        }
        members = {
            id_: found
            for id_, holding in holdings.items()
            if not pools.services[holding.service].direct
            and (found := self._member(id_, holding, now_s))
        }
        return View(
            pools=replace(pools, resources=resources) if lost else pools,
            holdings=holdings,
            members=members,
            left={id_: book.was for id_, book in self.books.items() if book.was},
        )

    def _member(self, id_: str, holding: Holding, now_s: float) -> Member | None:
        """Return how a member is; one of which nothing is known drains without an end."""
        from cobweb_plugins.pools.decision import Member, MemberState, Phase

        objects = self.objects.get(id_, {}).get(holding.service)
        if objects is None:
            return Member(state=MemberState.DRAINING, since_s=math.inf)
        state, since_s = self.states.get(objects[0], ("down", 0.0))
        if state not in _KNOWN:  # nor is it known that it gets no new work
            state, since_s = "draining", math.inf
        found = MemberState(state)
        is_settled = found is MemberState.UP and holding.phase is Phase.IN
        why = "" if is_settled else self._failure(id_, holding, now_s)
        if why:
            return Member(state=MemberState.FAILED, since_s=since_s, reason=why)
        return Member(state=found, since_s=since_s)

    def _failure(self, id_: str, holding: Holding, now_s: float) -> str:
        """Return why a resource has failed on its way, "" if it has not.

        A host that is out of reach may come back: who joins is waited for as long as an order is,
        who leaves for `leave_within`, which the decision looks at.
        """
        from cobweb_plugins.pools.decision import Phase

        found = self.failures
        if found.begun_s <= holding.since_s:  # that run was before this was decided
            return ""
        for service in (holding.service, *self.books[id_].was):
            for cob in self.objects.get(id_, {}).get(service, ()):
                if cob in found.failed:
                    return f"{cob}: {found.failed[cob]}"
        is_late = now_s - holding.since_s > self.pools.order_after_s
        for cob in self.objects.get(id_, {}).get(holding.service, ()):
            if is_late and cob in found.unreachable and holding.phase is Phase.IN:
                return f"{cob}: {found.unreachable[cob] or 'its host cannot be reached'}"
        return ""

    def bodies(self, writes: Mapping[str, Holding | None], now_s: float) -> dict[str, Any]:
        """Return the bodies of decisions that holdings are, and those of what has arrived."""
        found: dict[str, Any] = {
            id_: self._body(id_, holding, now_s) for id_, holding in writes.items()
        }
        for id_, book in self.books.items():
            if id_ not in writes and book.was and not book.lost and self._has_arrived(id_, book):
                it, kept = book.holding, book.settings
                found[id_] = _written(it, (), kept) if it else body_of(None, "in", since_s=now_s)
        return found

    def _body(self, id_: str, holding: Holding | None, now_s: float) -> dict[str, Any]:
        book = self.books.get(id_, NOBODY)
        before, settings = book.holding, dict(book.settings)
        if before is not None and holding is not None and before.service == holding.service:
            return _written(holding, book.was, settings)
        was = (*([before.service] if before else []), *book.was)
        if holding is None:
            return body_of(None, "in", since_s=now_s, was=was, settings=settings)
        if not self.pools.services[holding.service].direct:
            settings[holding.service] = self.settings[holding.service]
        return _written(holding, was, settings)

    def _has_arrived(self, id_: str, book: Book) -> bool:
        """Say whether a resource has left what it was to leave, and joined where it was to."""
        places, holding = self.objects.get(id_, {}), book.holding
        left = [places.get(it) for it in book.was if it in self.pools.services]
        if any(it is None or set(map(self._state, it)) - {"down"} for it in left):
            return False
        if holding is None or self.pools.services[holding.service].direct:
            return True
        objects = places.get(holding.service) or [CobId("")]
        return self._state(objects[0]) == "up"

    def _state(self, cob: CobId) -> str:
        return self.states.get(cob, ("down", 0.0))[0]


def _written(
    it: Holding, was: Sequence[str], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the body of the decision that a holding is."""
    return body_of(
        it.service,
        str(it.phase),
        since_s=it.since_s,
        was=was,
        settings=settings,
        to=it.to,
        order=it.order and {"slo": it.order.slo, "weight": it.order.weight, "at": it.order.at_s},
        held_until=it.held_until_s,
        reason=it.reason,
    )


def books_of(pools: Pools, decisions: Mapping[str, Decision]) -> dict[str, Book]:
    """Return what is decided of all resources of which anything is, by id, sorted."""
    known = pools.resources
    return {key: book_of(it.body) for key, it in sorted(decisions.items()) if key in known}


def strangers_of(pools: Pools, hosts: Collection[str]) -> list[str]:
    """Return the resources that are to be hosts and are none of these."""
    found = pools.resources.items()
    return [id_ for id_, it in found if it.type == "host" and id_ not in hosts]


def with_stopped(pools: Pools, decisions: Mapping[str, Decision]) -> Pools:
    """Return pools in which services that were stopped take no part."""
    stopped = {
        key.removeprefix(SERVICES)
        for key, it in decisions.items()
        if key.startswith(SERVICES) and it.body.get("stopped")
    }
    services = {
        name: replace(it, registered=it.registered and name not in stopped)
        for name, it in pools.services.items()
    }
    return replace(pools, services=services)


def notes_of(outcome: Outcome) -> dict[str, str]:
    """Return the notes of a round by their subject: a resource or a service."""
    found: dict[str, list[str]] = {}
    for note in outcome.notes:
        found.setdefault(note.subject, []).append(f"{note.kind}: {note.text}")
    return {subject: "; ".join(texts) for subject, texts in sorted(found.items())}
