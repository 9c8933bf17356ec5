"""What commands on the pools of a site work on: what is written, decided, known, answered."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

from cobweb.errors import CobwebError, ConflictError, ModelError, RefusedError, UsageError
from cobweb.model import CobId, Decisions, State, cob_id
from cobweb.plugin import SiteAccess
from cobweb_plugins.pools._adapters import POINT, Adapters
from cobweb_plugins.pools._answers import Answer, asked
from cobweb_plugins.pools._commands import policies_of
from cobweb_plugins.pools._decider import last_run, objects_of
from cobweb_plugins.pools._holdings import Book
from cobweb_plugins.pools._round import (
    NOBODY,
    Failures,
    Ground,
    books_of,
    strangers_of,
    with_stopped,
)
from cobweb_plugins.pools._section import NAME, Layout, adapter_files, layout_of

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Policy, Pools, Resource, Service


MEMORY, _DECIDER = "balance", "decider"
"""The documents of what rounds by hand, and those of a controller, remember."""

_INTERRUPTED = 130
"""The exit code of an apply that was interrupted."""


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
        layout.pools = with_stopped(layout.pools, self.decisions.by_key)
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

    def registered(self) -> list[str]:
        """Return the services that take part."""
        return [name for name, it in self.pools.services.items() if it.registered]

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
            self._books = books_of(self.pools, self.decisions.by_key)
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

    def ground(self) -> Ground:
        """Return what a round of decisions is made from, besides answers."""
        with self.access.site() as site:
            states = {cob: (str(it.state), it.since) for cob, it in site.history().states().items()}
            run = last_run(site)
            strangers = strangers_of(self.pools, site.evaluated.hosts)
        books = self.books()
        return Ground(
            pools=self.pools,
            books=books,
            objects={id_: objects_of(self.layout, id_, book) for id_, book in books.items()},
            states=states,
            failures=Failures.of(run["begun"], run["unsettled"]),
            settings={name: self.layout.settings(name) for name in self.pools.services},
            strangers=strangers,
        )

    def memory(self) -> tuple[Mapping[str, Any], int]:
        """Return what the last round remembered, by hand or of a controller, and the revision.

        The revision is that of all that is remembered for the section.
        """
        with self.access.site() as site:
            found = site.memory(NAME)
        bodies = [found.by_key[it].body for it in (_DECIDER, MEMORY) if it in found.by_key]
        memories = [it["memory"] or {} for it in bodies]
        last = max(memories, key=lambda it: it.get("now_s", 0.0), default={})
        return last, found.revision

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

    def bring_about(self, objects: Collection[CobId], wait: str | None, message: str) -> int:
        """Have what is decided of some objects carried out; return the exit code of the apply.

        Where that is refused it was not decided; where it cannot begin yet, or is cut off, it was.
        """
        try:
            code = self.carry_out(objects, wait, message)
        except (RefusedError, UsageError) as error:
            self.take_back()
            error.add_note("nothing was changed; `cobweb apply` does what is pending in the site")
            raise
        except CobwebError as error:
            error.add_note("what was decided stays: the same command again carries it out")
            raise
        if code == _INTERRUPTED:
            raise click.exceptions.Exit(code)
        return code

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

    def forget_left(self, id_: str) -> None:
        """Have the journal forget the objects of a resource that are down, and in no site any more.

        Where that cannot be now the next apply takes them away; until then nothing else is done by
        itself on their hosts.
        """
        states, book = self.access.states(), self.book(id_)
        kept = {*([book.holding.service] if book.holding else []), *book.was}
        gone = [
            cob
            for name in self.pools.services.keys() - kept
            for cob in self.objects(id_, name)
            if states.get(cob) == "down"
        ]
        if gone:
            with suppress(CobwebError):
                self.quietly("forget", "--yes", *sorted(gone))

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
        return asked(self.layout, services, self.access.ask)
