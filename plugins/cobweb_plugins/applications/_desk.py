"""An application of a site, what is decided of it, and what brings that about."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from cobweb.errors import CobwebError, ConflictError, ModelError, UsageError
from cobweb.model import CobId, Decision, cob_id
from cobweb.plugin import SiteAccess, Tone
from cobweb_plugins.applications._book import DONE, DOWN, Book, book_of
from cobweb_plugins.applications._channels import POINT, kinds_of
from cobweb_plugins.applications._nodes import Nodes
from cobweb_plugins.applications._run import INTERRUPTED
from cobweb_plugins.applications._section import NAME, Application, applications_of


class Desk:
    """An application of a site, and what is decided of it, as one command sees it."""

    def __init__(self, access: SiteAccess, name: str) -> None:
        self.access, self.name = access, name
        section = access.sections().get(NAME)
        if section is None:
            hint = "docs/applications.md; `cobweb init --example ring` makes a site with one"
            raise UsageError("the site has no section `applications`", hint=hint)
        try:
            known = applications_of(section)
        except ModelError as error:
            raise access.placed(error) from error
        if name not in known:
            raise UsageError(f"there is no application `{name}`", hint=f"there are {_and(known)}")
        self.application: Application = known[name]
        self.revision = 0
        self.decision: Decision | None = None
        self.waits: Mapping[CobId, str] = {}
        """Why objects are not where they are wanted, by the last run."""
        self.look()

    def look(self) -> Book | None:
        """Read what is decided; None if nothing is."""
        found = self.access.decisions(NAME)
        self.revision, self.decision = found.revision, found.by_key.get(self.name)
        return self.book

    @property
    def book(self) -> Book | None:
        """What was decided when it was read last."""
        return book_of(self.decision.body) if self.decision else None

    def decide(self, book: Book | None, reason: str) -> None:
        """Decide on what was read last; ConflictError where others have decided of it since."""
        body, seen = book.body() if book else None, self.decision
        while True:
            try:
                self.access.decide(NAME, self.revision, {self.name: body}, reason)
            except ConflictError:
                self.look()  # the revision is that of the section: it may be of another one
                if self.decision != seen:
                    raise
            else:
                self.look()
                return

    def objects(self, book: Book) -> Iterator[CobId]:
        """Yield the objects of an instance, those of phases that have not begun among them."""
        for host in sorted(book.states):
            for name in self.application.objects().values():
                yield cob_id(host, name)

    def begun(self, book: Book) -> Iterator[tuple[str, str, CobId]]:
        """Yield member, phase and object of each phase of an instance that has begun."""
        names = self.application.objects()
        for host, states in sorted(book.states.items()):
            for phase in states:
                yield host, phase, cob_id(host, names[phase])

    def left(self, book: Book) -> list[CobId]:
        """Return the objects of an instance that are neither down nor done, by the journal."""
        states, known = self.access.states(), self.access.graph().cobs
        objects = (cob for cob in self.objects(book) if cob in known)
        return [cob for cob in objects if states.get(cob, DOWN) not in (DOWN, DONE)]

    def carry_out(
        self, cobs: Collection[CobId], message: str, wait: str, *, is_in_doubt: bool = False
    ) -> Mapping[CobId, str]:
        """Have objects brought where they are wanted; return what failed jobs said, by object.

        Nothing else of the site is moved. Where it `is_in_doubt` how they are, all are looked at
        first. CobwebError as `cobweb apply` raises.
        """
        if not cobs:
            return {}
        only = [word for it in sorted(cobs) for word in ("--only", it)]
        words = ["--yes", "--on-failure", "stay", "--message", message, "--wait", wait]
        # Who does not answer is the business of `recover` and `at_least`.
        words += ["--max-unreachable", "100%", *(["--refresh", "all"] if is_in_doubt else [])]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            code = self.access.run("apply", *words, *only)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code not in (0, 1):
            raise CobwebError(f"the run has ended with exit code {code}:\n{said.getvalue()}")
        waits = self.access.run_facts()["unsettled"] or () if code else ()
        self.waits = {CobId(it["cob"]): str(it["message"]) for it in waits}
        failed = (it for it in waits if it["chain"] and it["chain"][0]["kind"] == "failed")
        return {CobId(it["cob"]): str(it["message"]) for it in failed}

    @contextmanager
    def nodes(self) -> Iterator[Nodes]:
        """Give the application's nodes, by the command channels that plugins bring."""
        kinds = kinds_of(self.access.plugins.extensions_at(POINT))
        with self.access.site() as site:
            nodes = Nodes(site, kinds, self.application, self.careful)
            if self.book is not None and not self.book.is_over:
                self._refuse_lost(self.book, nodes)
            yield nodes

    def _refuse_lost(self, book: Book, nodes: Nodes) -> None:
        """Raise UsageError where what is at work is not in the site any more."""
        hint = f"write it back, then `cobweb app stop {self.name}`"
        if phases := [it for it in book.phases() if it not in self.application.phases]:
            message = f"the phase `{phases[0]}` of {self.name} has begun, and is not in the site"
            raise UsageError(message, hint=hint)
        if hosts := sorted(book.states.keys() - set(nodes.hosts)):
            message = f"{hosts[0]} is a member of {self.name}, which is at work, and not in `on`"
            raise UsageError(message, hint=hint)

    def careful(self, text: str) -> None:
        """Tell people of what they should know."""
        self.access.summary(text, Tone.CAREFUL)


def nodes_in_words(number: int) -> str:
    """Return a number of nodes as people are told it."""
    return f"{number} node{'' if number == 1 else 's'}"


def _and(names: Collection[str]) -> str:
    return ", ".join(f"`{it}`" for it in names) or "none"
