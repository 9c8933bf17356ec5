"""The life of an application: `cobweb app run` and `stop`.

Theory of operation. What is wanted is decided, and an ordinary run brings it about: it names the
objects that are to move, and holds the lock of the site for as long as that takes. Between runs
nothing is held; nodes are asked for words, and a word of an end begins the next run. All that must
not be lost is in the state database and on the nodes, so `app run` may be killed at any moment: the
next one finds the decision, the states of the journal and the words, and goes on from there.
"""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime

from cobweb.errors import (
    CobwebError,
    ConflictError,
    LockedError,
    ModelError,
    SiteError,
    UsageError,
)
from cobweb.model import CobId, Decision, cob_id, host_of
from cobweb.plugin import SiteAccess, Tone
from cobweb_plugins.applications._book import (
    DONE,
    DOWN,
    RUNNING,
    Book,
    Ended,
    advanced,
    book_of,
    end_of,
)
from cobweb_plugins.applications._channels import POINT, kinds_of
from cobweb_plugins.applications._files import Put, packed
from cobweb_plugins.applications._groups import folded
from cobweb_plugins.applications._nodes import Heard, Nodes
from cobweb_plugins.applications._run import INTERRUPTED
from cobweb_plugins.applications._section import NAME, Application, applications_of

BROKEN = "broken"
_BEGUN = (RUNNING, DONE, BROKEN)

_LONGEST_WAIT_S = 15.0
"""How long a question for words waits at most on its node for something new."""

_MOST_TRIES = 3
"""How often the last states of an application that has ended are looked for."""


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

    def carry_out(self, cobs: Collection[CobId], message: str, wait: str) -> Mapping[CobId, str]:
        """Have objects brought where they are wanted; return what failed jobs said, by object.

        Nothing else of the site is moved. CobwebError as `cobweb apply` raises.
        """
        if not cobs:
            return {}
        only = [word for it in sorted(cobs) for word in ("--only", it)]
        words = ("--yes", "--on-failure", "stay", "--message", message, "--wait", wait)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            code = self.access.run("apply", *words, *only)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code not in (0, 1):
            raise CobwebError(f"the run has ended with exit code {code}:\n{said.getvalue()}")
        waits = self.access.run_facts()["unsettled"] or () if code else ()
        failed = (it for it in waits if it["chain"] and it["chain"][0]["kind"] == "failed")
        return {CobId(it["cob"]): str(it["message"]) for it in failed}

    @contextmanager
    def nodes(self) -> Iterator[Nodes]:
        """Give the application's nodes, by the command channels that plugins bring."""
        kinds = kinds_of(self.access.plugins.extensions_at(POINT))
        with self.access.site() as site:
            nodes = Nodes(site, kinds, self.application, self.careful)
            if self.book is not None and not self.book.ended:
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


class Controller:
    """Brings an application to its end: `wait` is how long each run waits for the site's lock."""

    def __init__(self, desk: Desk, nodes: Nodes, *, reason: str, wait: str) -> None:
        self._desk, self._nodes = desk, nodes
        self._reason, self._wait = reason, wait
        self._application = desk.application
        self._away: Mapping[str, str] = {}
        self._wait_s = 0.0
        self._told: Mapping[str, str] = {}
        self._tries = 0

    def run(self) -> int:
        """Start the application, or go on with it; return the exit code."""
        desk, before = self._desk, self._desk.decision
        book = desk.book
        goes_on = book is not None and not book.ended
        if goes_on:
            desk.access.summary(f"{desk.name} goes on: {desk.decision}")
        else:
            book = self._begin(book) or self._others()
        if book is None:
            return INTERRUPTED if self._nodes.was_interrupted else 1
        try:
            return self._bring_to_its_end(book)
        except KeyboardInterrupt:
            return self._leave()
        except UsageError:
            if not goes_on:
                self._take_back(before)
            raise

    def _bring_to_its_end(self, book: Book) -> int:
        """Hear the nodes, decide what follows and carry it out, until nothing is left to do.

        Nodes are heard first: what has ended while nobody was there must not be started again.
        """
        while not self._nodes.was_interrupted:
            heard = self._heard(book)
            try:
                found = self._step(book, heard)
            except SiteError as error:  # somebody is just writing it
                self._desk.careful(f"the site is wrong, and is looked at again: {error}")
                found = book
            if found is None or found.ended:
                return self._over(found)
            self._wait_s = min(_LONGEST_WAIT_S, self._wait_s * 1.5 + 1) if found == book else 0.0
            book = found
        return self._leave()

    def _step(self, book: Book, heard: Heard) -> Book | None:
        """Return what is decided once it follows from words, and is carried out.

        It has ended where nothing is left to do, or somebody else has ended it; None where others
        have decided of another instance.
        """
        desk, now = self._desk, self._desk.look()  # another controller may be further
        if heard.was_interrupted:
            return book
        if now is None or now.instance != book.instance or now.ended:
            return now if now and now.instance == book.instance else None
        found = advanced(self._application, now, heard.words, self._told)
        self._tell(book, found)
        if found != now and not self._has_decided(found):
            return book
        due, end = self._due(found, heard), end_of(self._application, found)
        if end is not None and (not due or self._tries == _MOST_TRIES):
            # Told before it is decided: who is killed here tells it again, and starts nothing.
            self._tell_end(found, end)
            found = replace(found, ended=end)
            desk.decide(found, self._reason)
            self._let_go(found)
            return found
        self._tries += 1 if end else 0
        self._told = self._carry_out(found, due)
        return found

    def _over(self, book: Book | None) -> int:
        """Return the exit code of an application that is over, or was started anew by others."""
        if book is None or book.ended in (None, Ended.STOPPED):
            self._desk.careful(f"it was decided otherwise meanwhile: {self._desk.decision}")
        return 0 if book is not None and book.ended is Ended.DONE else 1

    def _let_go(self, book: Book) -> None:
        """End what failed members have still at work; nothing of the others is protected any more.

        That is so once their hosts stand in a generation which does not say that it is at work.
        """
        desk, words = self._desk, self._nodes.words(book, sorted(book.failed)).words
        names = desk.application.objects()
        cobs = [
            cob_id(host, names[phase])
            for host, its in words.items()
            for phase, word in its.items()
            if not word.ended
        ]
        cobs += [cob for host, _, cob in desk.begun(book) if host not in book.failed]
        said = desk.carry_out(cobs, f"app run {desk.name}: its end", self._wait)
        for cob, message in said.items():
            desk.access.summary(f"{cob} was not ended: {message}", Tone.BAD)

    def _has_decided(self, book: Book) -> bool:
        """Decide; say whether nobody else has decided of the application meanwhile."""
        try:
            self._desk.decide(book, self._reason)
        except ConflictError:
            return False
        return True

    def _heard(self, book: Book) -> Heard:
        """Return what members say of phases at work, once anything is new, within some time."""
        heard = self._nodes.words(book, _listened_to(book), self._wait_s)
        if not heard.was_interrupted:
            self._tell_away(heard.silent)
            if not heard.words:  # nobody has waited for anything
                time.sleep(self._wait_s)
        return heard

    def _take_back(self, before: Decision | None) -> None:
        """Decide what was decided before, where the first run of an instance was refused."""
        book = self._desk.book
        states = self._desk.access.states()
        if book and all(states.get(it, DOWN) in (DOWN, DONE) for it in self._desk.objects(book)):
            self._desk.decide(book_of(before.body) if before else None, "its run was refused")
            self._desk.careful("nothing was started")

    def _leave(self) -> int:
        name = self._desk.name
        told = f"{name} goes on without a controller; `cobweb app run {name}` comes back to it"
        self._desk.careful(told)
        return INTERRUPTED

    def _tell_end(self, book: Book, end: Ended) -> None:
        members, failed = len(book.states), len(book.failed)
        said = [f"{self._desk.name} has ended on {members - failed} of {_nodes(members)}"]
        said += [f"failed: {folded(sorted(book.failed))}"] if failed else []
        said += [f"not joined: {folded(sorted(book.missing))}"] if book.missing else []
        tone = Tone.GOOD if end is Ended.DONE else Tone.BAD
        self._desk.access.summary("; ".join(said), tone)

    # --- the beginning

    def _begin(self, before: Book | None) -> Book | None:
        """Invite the nodes and start an instance; None where too few have joined."""
        desk, nodes, application = self._desk, self._nodes, self._application
        with ExitStack() as stack:
            files = [stack.enter_context(packed(it)) for it in self._puts()]
            if before is not None:
                self._clear(before)
            missing = dict(nodes.invite())
            for it in files:
                joined = [host for host in nodes.hosts if host not in missing]
                missing |= nodes.send(joined, *it)
        if nodes.was_interrupted:
            return None
        joined = [it for it in nodes.hosts if it not in missing]
        for host in sorted(missing):
            desk.access.summary(f"{host} has not joined: {missing[host]}", Tone.BAD)
        fewest = application.fewest(len(nodes.hosts))
        if len(joined) < max(1, fewest):
            told = f"{len(joined)} of {_nodes(len(nodes.hosts))} have joined, of {fewest} that must"
            desk.access.summary(f"{told}; nothing was started", Tone.BAD)
            return None
        instance = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        empty = Book(instance=instance, states={it: {} for it in joined}, missing=missing)
        book = advanced(application, empty, {})
        if not self._has_decided(book):
            return None
        desk.access.summary(f"{desk.name} begins on {_nodes(len(joined))}: instance {instance}")
        self._tell(empty, book)
        return book

    def _others(self) -> Book | None:
        """Return what somebody else has started meanwhile, if anybody has."""
        book = self._desk.look()
        if self._nodes.was_interrupted or book is None or book.ended:
            return None
        self._desk.access.summary(f"it was started meanwhile: {self._desk.decision}")
        return book

    def _puts(self) -> Iterator[Put]:
        for it in self._application.files:
            path = self._desk.access.dir / it.path
            # With a slash the folder is made, with those above it.
            yield Put(source=path, dest=f"{it.dest}/", sha256=it.sha256, is_unpacked=True)

    def _clear(self, before: Book) -> None:
        """End what an earlier instance has left at work."""
        desk = self._desk
        if left := _left(desk, before):
            desk.decide(replace(before, ended=Ended.STOPPED), "what is left of it is ended")
            desk.carry_out(left, f"app run {desk.name}: what is left", self._wait)

    # --- going on

    def _due(self, book: Book, heard: Heard) -> list[CobId]:
        """Return the objects that are not where they are wanted, by the journal and by words.

        What has failed is not tried again, nor what is to begin on a node that does not answer.
        """
        states, found = self._desk.access.states(), []
        for host, phase, cob in self._desk.begun(book):
            wanted, state = book.wanted(host, phase), states.get(cob, DOWN)
            words = heard.words.get(host)
            if wanted == DONE:
                is_due = state != DONE and not (host in book.failed and state == BROKEN)
            else:
                # `done` without a word is that of an earlier instance.
                is_lost = words is not None and (phase not in words or state not in _BEGUN)
                is_due = is_lost and host not in book.failed
            found += [cob] if is_due else []
        return found

    def _carry_out(self, book: Book, due: Sequence[CobId]) -> Mapping[str, str]:
        """Bring about what is decided of objects; return why members have failed."""
        wanted = {cob: book.wanted(host, phase) for host, phase, cob in self._desk.begun(book)}
        begin = {host_of(it) for it in due if wanted[it] == RUNNING}
        away = self._nodes.tell_hosts(book, begin)
        if away:
            self._tell_away({**self._away, **away})
        due = [it for it in due if host_of(it) not in away]
        try:
            said = self._desk.carry_out(due, f"app run {self._desk.name}", self._wait)
        except LockedError as error:
            self._desk.careful(f"{error}; it is tried again")
            return {}
        phases = {cob: phase for _, phase, cob in self._desk.begun(book)}
        return {host_of(it): f"{phases[it]}: {said[it]}" for it in said if it in phases}

    def _tell_away(self, away: Mapping[str, str]) -> None:
        """Tell who does not answer, each once, until it does."""
        for host in sorted(away.keys() - self._away.keys()):
            self._desk.careful(f"{host} does not answer, and is waited for: {away[host]}")
        for host in sorted(self._away.keys() - away.keys()):
            self._desk.access.summary(f"{host} answers again")
        self._away = away

    def _tell(self, before: Book, book: Book) -> None:
        """Tell what has happened since."""
        for host in sorted(book.failed.keys() - before.failed.keys()):
            self._desk.access.summary(f"{host} has failed in {book.failed[host]}", Tone.BAD)
        for phase in self._application.phases:
            now, was = (_counts(it, phase) for it in (book, before))
            if now != was:
                running, done = now
                said = [f"{running} at work"] if running else []
                said += [f"{done} done"] if done else []
                if said:
                    self._desk.access.summary(f"{phase}: {', '.join(said)}, of {len(book.states)}")


def stop(desk: Desk, reason: str, wait: str) -> int:
    """End all that is at work of an application; return the exit code."""
    book = desk.book
    left = set() if book is None else set(_left(desk, book))
    with desk.nodes():  # which refuses where what is at work is not in the site any more
        pass
    if book is not None and not book.ended:
        left.update(cob for _, _, cob in desk.begun(book))  # a run may be about to start them
        desk.decide(replace(book, ended=Ended.STOPPED), reason)
    if book is None or not left:
        desk.access.summary(f"nothing of {desk.name} is at work")
        return 0
    said = desk.carry_out(left, f"app stop {desk.name}", wait)
    stays = _left(desk, book)
    for cob in stays:
        desk.access.summary(f"{cob} was not ended: {said.get(cob) or 'see `cobweb why`'}", Tone.BAD)
    if not stays:
        desk.access.summary(f"{desk.name} is stopped", Tone.GOOD)
    return 1 if stays else 0


def _left(desk: Desk, book: Book) -> list[CobId]:
    """Return the objects of an instance that are neither down nor done, by the journal."""
    states, known = desk.access.states(), desk.access.graph().cobs
    objects = (cob for cob in desk.objects(book) if cob in known)
    return [cob for cob in objects if states.get(cob, DOWN) not in (DOWN, DONE)]


def _listened_to(book: Book) -> list[str]:
    """Return the members that have a phase at work, and have not failed."""
    return [
        host
        for host, states in sorted(book.states.items())
        if RUNNING in states.values() and host not in book.failed
    ]


def _counts(book: Book, phase: str) -> tuple[int, int]:
    states = [its.get(phase) for host, its in book.states.items() if host not in book.failed]
    return states.count(RUNNING), states.count(DONE)


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def _and(names: Collection[str]) -> str:
    return ", ".join(f"`{it}`" for it in names) or "none"
