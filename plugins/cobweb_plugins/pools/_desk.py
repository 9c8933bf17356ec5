"""What commands on the pools of a site work on: what is written, decided, known, answered."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError, ConflictError, ModelError, UsageError
from cobweb.model import UNKNOWN, CobId, Decisions, Outcome, State, cob_id
from cobweb.plugin import Answer as Said
from cobweb.plugin import SiteAccess
from cobweb_plugins.pools._adapters import POINT, Adapters, observed_of, question
from cobweb_plugins.pools._commands import policies_of
from cobweb_plugins.pools._holdings import SERVICES, Book, book_of
from cobweb_plugins.pools._section import NAME, Layout, adapter_files, layout_of

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Observed, Policy, Pools, Resource, Service, View

_KNOWN = ("down", "draining", "up")

NOBODY = Book(holding=None)
"""What is decided of a resource of which nothing is."""


def now_s() -> float:
    """Return seconds since the epoch."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a service has answered; where it could not be asked `observed` is None, `said` why."""

    observed: Observed | None = None
    said: str = ""

    @property
    def runs(self) -> bool:
        """Whether the service says that it is running."""
        return self.observed is not None and self.observed.state == "running"

    @property
    def state(self) -> str:
        """The state of the service, which is unknown where it could not be asked."""
        return str(self.observed.state) if self.observed else UNKNOWN

    def has(self, id_: str) -> bool:
        """Return whether the service says that it has a resource."""
        return self.observed is not None and id_ in self.observed.members

    @property
    def why(self) -> str:
        """What is wrong with the service, if something is."""
        return self.said or ("" if self.runs else f"it is {self.state}")


class Desk:
    """The pools of a site as one command sees them."""

    def __init__(self, access: SiteAccess) -> None:
        self.access = access
        self._decisions: Decisions | None = None
        self._before: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}
        self._books: Mapping[str, Book] | None = None

    @cached_property
    def layout(self) -> Layout:
        """What the section says; SiteError with the places of what is wrong."""
        section = self.access.sections().get(NAME)
        if section is None:
            hint = "docs/pools.md; `cobweb init --example pools` makes a site with pools"
            raise UsageError("the site has no section `pools`", hint=hint)
        try:
            files = adapter_files(section, self.access.dir, self.access.read)
            extensions = self.access.plugins.extensions_at(POINT)
            layout = layout_of(section, Adapters(extensions, files))
        except ModelError as error:
            raise self.access.placed(error) from error
        stopped = {
            key.removeprefix(SERVICES)
            for key, it in self.decisions.by_key.items()
            if key.startswith(SERVICES) and it.body.get("stopped")
        }
        services = {
            name: replace(it, registered=it.registered and name not in stopped)
            for name, it in layout.pools.services.items()
        }
        layout.pools = replace(layout.pools, services=services)
        return layout

    @property
    def pools(self) -> Pools:
        """Resources and services; one that was stopped is not registered."""
        return self.layout.pools

    @property
    def decisions(self) -> Decisions:
        """What is decided, as it was when it was read last."""
        if self._decisions is None:
            self._decisions = self.access.decisions(NAME)
        return self._decisions

    def resource(self, id_: str) -> Resource:
        """Return a resource; UsageError where there is none."""
        found = self.pools.resources.get(id_)
        if found is None:
            hint = "`cobweb pool resources` lists them"
            raise UsageError(f"there is no resource `{id_}`", hint=hint)
        return found

    def service(self, name: str) -> Service:
        """Return a service; UsageError where there is none."""
        found = self.pools.services.get(name)
        if found is None:
            hint = f"there are {', '.join(self.pools.services)}"
            raise UsageError(f"there is no service `{name}`", hint=hint)
        return found

    def book(self, id_: str) -> Book:
        """Return what is decided of a resource."""
        return self.books().get(id_, NOBODY)

    def books(self) -> Mapping[str, Book]:
        """Return what is decided of all resources of which anything is, by id, sorted."""
        if self._books is None:
            found = sorted(self.decisions.by_key.items())
            known = self.pools.resources
            self._books = {key: book_of(it.body) for key, it in found if key in known}
        return self._books

    def members(self, service: str) -> list[str]:
        """Return the resources that are in a service, or are leaving it, sorted."""
        return [
            key for key, it in self.books().items() if it.holding and it.holding.service == service
        ]

    def spare(self, resource: Resource) -> str | None:
        """Return the first spare pool that takes a resource; None where there is none."""
        takes = (
            name
            for name, it in self.pools.services.items()
            if it.direct and it.registered and resource.type in it.holds
        )
        return next(takes, None)

    # --- objects and their states

    def objects(self, id_: str, service: str) -> list[CobId]:
        """Return the objects that a resource has in a service, its own first.

        One that is direct has none.
        """
        if service not in self.pools.services or self.pools.services[service].direct:
            return []
        known = self.book(id_).settings.get(service)
        hosts = self.layout.object_hosts(self.layout.service(service, known), self.resource(id_))
        return [cob_id(host, name) for name, host in hosts.items()]

    def state(self, id_: str, service: str, states: Mapping[CobId, State]) -> State:
        """Return the state of a member's object; `down` of what has none, or never had."""
        found = self.objects(id_, service)
        return states.get(found[0], "down") if found else "down"

    def view(self) -> View:
        """Return what a round of decisions is made from, besides answers."""
        from cobweb_plugins.pools.decision import Member, MemberState, View

        states = self.access.states()
        holdings = {
            key: it.holding
            for key, it in self.books().items()
            if it.holding and it.holding.service in self.pools.services
        }
        members = {
            key: Member(state=MemberState(state if state in _KNOWN else "draining"))
            for key, it in holdings.items()
            if (state := self.state(key, it.service, states))
        }
        return View(pools=self.pools, holdings=holdings, members=members)

    def policy(self) -> Policy:
        """Return the policy that the site names."""
        return policies_of(self.access.plugins)[self.pools.policy]

    # --- what is decided, carried out and asked

    def forget(self) -> None:
        """Read anew what is written and decided when it is asked for next."""
        self._decisions = self._books = None
        vars(self).pop("layout", None)

    def decide(self, writes: Mapping[str, Any], reason: str) -> None:
        """Decide on the revision that was read; ConflictError where others have decided since."""
        known = self.decisions.by_key
        try:
            self.access.decide(NAME, self.decisions.revision, writes, reason)
        except ConflictError as error:
            error.add_note("nothing was changed; look again with `cobweb pool status`")
            raise
        self._before = {key: known[key].body if key in known else None for key in writes}
        self._reasons = {key: known[key].reason for key in writes if key in known}
        self._decisions = self._books = None

    def take_back(self) -> None:
        """Decide what was decided before the last decision of this command, if there is one."""
        before, self._before = self._before, {}
        if before:
            reasons = {self._reasons.get(key) or "taken back" for key in before}
            self.decide(before, "; ".join(sorted(reasons)))
            self._before = {}

    def carry_out(self, objects: Collection[CobId], wait: str | None, message: str) -> int:
        """Have what is decided of some objects carried out; return the exit code of the apply.

        What else is pending in the site waits: a move is no reason to do it now.
        """
        if not objects:
            return 0
        only = [word for it in sorted(objects) for word in ("--only", it)]
        waits = ("--wait", wait) if wait else ()
        words = ("--yes", "--message", message, *waits, *only)
        if self.access.output == "text":
            return self.access.run("apply", *words)
        with redirect_stdout(io.StringIO()):
            return self.access.run("apply", *words)

    def quietly(self, command: str, *arguments: str) -> None:
        """Call a command of Cobweb whose words nobody needs."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            self.access.run(command, *arguments)

    def cause(self, objects: Iterable[CobId]) -> str:
        """Return what the last run says of the first of some objects that has failed in it."""
        wanted = set(objects)
        waits = self.access.run_facts()["unsettled"] or ()
        said = (str(it["message"]) for it in waits if it["cob"] in wanted and it["message"])
        return next(said, "")

    def ask(self, services: Iterable[str]) -> dict[str, Answer]:
        """Ask services, all at once, and return what each has answered."""
        names = list(dict.fromkeys(services))
        begun_s = now_s()
        asked = {
            name: found
            for name in names
            if (found := question(self.layout.service(name), self.layout.adapter(name)))
        }
        said = self.access.ask(asked) if asked else {}
        arrived_s = now_s()
        return {name: self._answer(name, said.get(name), begun_s, arrived_s) for name in names}

    def _answer(self, name: str, said: Said | None, begun_s: float, arrived_s: float) -> Answer:
        """Return what a service has said; what cannot be read is an answer as well."""
        if said is not None and said.outcome is not Outcome.OK:
            return Answer(said=said.message or str(said.outcome))
        data = {} if said is None else said.data
        try:
            found = self.layout.adapter(name).read(self.layout.service(name), data)
            return Answer(observed=observed_of(found, begun_s, arrived_s))
        except CobwebError:
            raise
        except Exception as error:  # noqa: BLE001 - a plugin's: it is the answer's to say
            return Answer(said=str(error))
