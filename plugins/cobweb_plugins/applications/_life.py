"""The life of an application: `cobweb app run`, `stop` and `admit`.

Theory of operation. What is wanted is decided, and an ordinary run brings it about: it names the
objects that are to move, and holds the lock of the site for as long as that takes. Between runs
nothing is held; nodes are asked for words, and a word of an end begins the next run. All that must
not be lost is in the state database and on the nodes, so `app run` may be killed at any moment: the
next one finds the decision, the states of the journal and the words, and goes on from there. Only
how often members have gone away is known to the one that has seen it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cobweb.errors import ConflictError, LockedError, SiteError, UsageError
from cobweb.model import CobId, Decision, host_of
from cobweb.plugin import SiteAccess, Tone, seconds_of
from cobweb_plugins.applications._book import (
    DONE,
    DOWN,
    RUNNING,
    Book,
    Ended,
    News,
    Word,
    advanced,
    barrier_ends,
    book_of,
    end_of,
)
from cobweb_plugins.applications._desk import Desk, nodes_in_words
from cobweb_plugins.applications._files import Put, packed
from cobweb_plugins.applications._listener import Listener
from cobweb_plugins.applications._nodes import Nodes
from cobweb_plugins.applications._progress import tell_end, tell_progress
from cobweb_plugins.applications._recovery import Presence
from cobweb_plugins.applications._run import INTERRUPTED
from cobweb_plugins.applications._section import NAME, applications_of

_BEGUN = (RUNNING, DONE, "broken")

_LOOK_S = 5.0
"""After how long it is looked at what others have decided, where no node has anything new."""

_MOST_TRIES = 3
"""How often the last states of an application that has ended are looked for."""

_VAIN_AGAIN_S = (2.0, 300.0)
"""After how long what was in vain is tried again, at first and at last."""

_LOCK_S = 10.0
"""How long a run waits for the site at once: nodes are heard in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vain:
    """How often something was tried in vain, and until when it is not tried again."""

    tries: int
    until_s: float


class Controller:
    """Brings an application to its end: `wait` is how long each run waits for the site's lock."""

    def __init__(self, desk: Desk, nodes: Nodes, *, reason: str, wait: str) -> None:
        self._desk, self._nodes = desk, nodes
        self._reason, self._wait = reason, wait
        try:
            self._wait_s = seconds_of(wait)
        except ValueError as error:
            raise UsageError(f"`{wait}` {error}", hint="as in `--wait 1h`") from error
        self._application = desk.application
        self._listener = Listener(nodes)
        self._presence = Presence(desk.application.flaps, desk.application.lost_after_s)
        self._words: dict[str, Mapping[str, Word]] = {}
        self._heard = set[str]()
        self._errors: Mapping[str, Mapping[str, str]] = {}
        self._silent = set[str]()
        self._vain: dict[CobId, _Vain] = {}
        self._locked_s: float | None = None

    def run(self) -> int:
        """Start the application, or go on with it; return the exit code."""
        desk, before = self._desk, self._desk.decision
        book = desk.book
        goes_on = book is not None and not book.is_over
        try:
            with self._listener:
                if goes_on:
                    desk.access.summary(f"{desk.name} goes on: {desk.decision}")
                elif (book := self._begin(book) or self._others()) is None:
                    return INTERRUPTED if self._nodes.was_interrupted else 1
                while book is not None and not book.is_over:
                    if book.ended:
                        book = self._begin(book) or self._others()
                    else:
                        book = self._brought_to_its_end(book)
                return self._over(book)
        except KeyboardInterrupt:
            return self._leave()
        except UsageError:
            if not goes_on:
                self._take_back(before)
            raise

    def _brought_to_its_end(self, book: Book) -> Book | None:
        """Hear the nodes, decide what follows and carry it out, until nothing is left to do.

        Nodes are heard first: what has ended while nobody was there must not be started again.
        Return how it has ended; None where others have decided of another instance.
        """
        while True:
            self._hear(book)
            try:
                found = self._step(book)
            except SiteError as error:  # somebody is just writing it
                self._desk.careful(f"the site is wrong, and is looked at again: {error}")
                time.sleep(1)
                continue
            if found is None or found.ended:
                return found
            book = found

    def _hear(self, book: Book) -> None:
        """Take in what is new at members, once anything is, within some time."""
        now = time.monotonic()
        hosts = self._listened_to(book)
        waits = [_LOOK_S if hosts else 0.0, self._presence.next_loss(now) - now]
        if self._has_heard_all(book):
            ends = barrier_ends(self._application, book).values()
            waits += [it - time.time() for it in ends]
        heard = self._listener.hear(book, hosts, max(0.0, min(waits)))
        if self._nodes.was_interrupted:
            raise KeyboardInterrupt
        self._words |= heard.words
        self._heard |= heard.words.keys() | heard.silent.keys()
        self._silent = (self._silent - heard.words.keys()) | heard.silent.keys()
        for host in sorted(heard.words):
            if self._presence.back(host) and host not in book.failed:
                self._desk.access.summary(f"{host} answers again")
        for host, why in sorted(heard.silent.items()):
            self._words.pop(host, None)
            if host not in book.failed and self._presence.gone(host, why, time.monotonic()):
                self._desk.careful(f"{host} does not answer, and is waited for: {why}")

    def _step(self, book: Book) -> Book | None:
        """Return what is decided once it follows from news, and is carried out.

        It has ended where nothing is left to do, or somebody else has ended it; None where others
        have decided of another instance.
        """
        desk, now = self._desk, self._desk.look()  # another controller may be further
        if now is None or now.instance != book.instance or now.ended:
            return now if now and now.instance == book.instance else None
        found = advanced(self._application, now, self._news(now))
        tell_progress(desk, book, found, self._wrong)
        if found != now and not self._has_decided(found):
            return book
        self._errors = {}
        if found.ended:
            self._clear(found)
            if found.is_over:
                tell_end(desk, found, self._left_alone(found))
            return found
        left, end = self._unsettled(found), end_of(self._application, found)
        if end is not None and all(self._tries(it) >= _MOST_TRIES for it in left):
            # Told before it is decided: who is killed here tells it again, and starts nothing.
            found = replace(found, ended=end)
            tell_end(desk, found, self._left_alone(found))
            desk.decide(found, self._reason)
            self._let_go(found)
            return found
        if due := [it for it in left if host_of(it) in self._words and not self._waits(it)]:
            self._errors = self._carry_out(found, due)
        return found

    def _has_heard_all(self, book: Book) -> bool:
        """Say whether each member at work has answered, or has not, since the last run."""
        return all(
            host in self._heard or host in book.failed or RUNNING not in its.values()
            for host, its in book.states.items()
        )

    def _listened_to(self, book: Book) -> list[str]:
        """Return the members whose words count: something is at work there, or not taken down."""
        states = self._desk.access.states()
        return sorted(
            {
                host
                for host, phase, cob in self._desk.begun(book)
                if book.wanted(host, phase) == RUNNING
                or not self._is_settled(book, host, phase, states.get(cob, DOWN))
            }
        )

    def _news(self, book: Book) -> News:
        return News(
            now=time.time(),
            is_whole=self._has_heard_all(book),
            words=self._words,
            errors=self._errors,
            lost=self._presence.lost(time.monotonic()),
            left=self._presence.flapping(),
        )

    def _wrong(self, host: str, phase: str) -> str:
        """Return what was wrong with a phase that is started again."""
        error = self._errors.get(host, {}).get(phase)
        return error or self._words.get(host, {}).get(phase, Word()).reason

    def _over(self, book: Book | None) -> int:
        """Return the exit code of an application that is over, or was started anew by others."""
        if self._nodes.was_interrupted:
            return INTERRUPTED
        if book is None or book.ended is Ended.STOPPED:
            self._desk.careful(f"it was decided otherwise meanwhile: {self._desk.decision}")
        return 0 if book is not None and book.ended is Ended.DONE else 1

    def _left_alone(self, book: Book) -> list[str]:
        """Return members that have failed, where phases may be at work that could not be ended."""
        states = self._desk.access.states()
        stays = {
            host
            for host, _, cob in self._desk.begun(book)
            if host in book.failed and states.get(cob) in (RUNNING, "broken")
        }
        return sorted(stays)

    def _let_go(self, book: Book) -> None:
        """Have nothing protected any more of the members that answer.

        That is so once their hosts stand in a generation which does not say that it is at work.
        """
        self._listener.rest()
        begun = self._desk.begun(book)
        cobs = [cob for host, _, cob in begun if host not in self._silent]
        self._desk.carry_out(cobs, f"app run {self._desk.name}: its end", self._wait)

    def _has_decided(self, book: Book) -> bool:
        """Decide; say whether nobody else has decided of the application meanwhile."""
        try:
            self._desk.decide(book, self._reason)
        except ConflictError:
            return False
        return True

    def _take_back(self, before: Decision | None) -> None:
        """Decide what was decided before, where the first run of an instance was refused."""
        book = self._desk.book
        states = self._desk.access.states()
        if book and all(states.get(it, DOWN) in (DOWN, DONE) for it in self._desk.objects(book)):
            self._desk.decide(book_of(before.body) if before else None, "its run was refused")
            self._desk.careful("nothing was started")

    def _leave(self) -> int:
        name, book = self._desk.name, self._desk.look()
        told = f"{name} goes on without a controller; `cobweb app run {name}` comes back to it"
        if book is not None and book.is_over:
            told = f"{name} is over; `cobweb app stop {name}` ends what may be left at work of it"
        self._desk.careful(told)
        return INTERRUPTED

    # --- the beginning

    def _begin(self, before: Book | None) -> Book | None:
        """Invite the nodes and start an instance; None where too few have joined.

        It is the next attempt of one that begins again, which is over where too few have.
        """
        desk, nodes, application = self._desk, self._nodes, self._application
        self._listener.rest()
        left = before.left if before else {}
        invited = [it for it in nodes.hosts if it not in left]
        with ExitStack() as stack:
            files = [stack.enter_context(packed(it)) for it in self._puts()]
            if before is not None:
                self._clear(before)
            missing = {it: f"it is left out, for {left[it]}" for it in nodes.hosts if it in left}
            missing |= nodes.invite(invited)
            for it in files:
                joined = [host for host in invited if host not in missing]
                missing |= nodes.send(joined, *it)
        if nodes.was_interrupted:
            return None
        joined = [it for it in invited if it not in missing]
        for host in sorted(missing):
            desk.access.summary(f"{host} has not joined: {missing[host]}", Tone.BAD)
        fewest = application.fewest(len(invited))
        if len(joined) < max(1, fewest):
            told = f"{len(joined)} of {nodes_in_words(len(invited))} have joined"
            return self._not_begun(before, f"{told}, of {fewest} that must; nothing was started")
        again = before is not None and before.ended is Ended.AGAIN
        return self._begun(
            Book(
                instance=f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
                states={it: {} for it in joined},
                missing=missing,
                left=left,
                attempt=before.attempt + 1 if before is not None and again else 1,
            )
        )

    def _begun(self, empty: Book) -> Book | None:
        """Decide that an instance begins; None where others have decided meanwhile."""
        desk, application = self._desk, self._application
        book = advanced(application, empty, News(now=time.time()))
        if not self._has_decided(book):
            return None
        self._presence = Presence(application.flaps, application.lost_after_s)
        self._words, self._errors, self._vain = {}, {}, {}
        self._heard.clear()
        self._silent.clear()
        members = nodes_in_words(len(book.states))
        desk.access.summary(f"{desk.name} begins on {members}: instance {book.instance}")
        tell_progress(desk, empty, book, self._wrong)
        return book

    def _not_begun(self, before: Book | None, told: str) -> Book | None:
        """Tell that nothing was started; return the end of an instance that was to begin again."""
        self._desk.access.summary(told, Tone.BAD)
        if before is None or before.ended is not Ended.AGAIN:
            return None
        self._desk.decide(replace(before, ended=Ended.ABORTED, why=told), self._reason)
        return self._desk.book

    def _others(self) -> Book | None:
        """Return what somebody else has started meanwhile, if anybody has."""
        book = self._desk.look()
        if self._nodes.was_interrupted or book is None or book.is_over:
            return None
        self._desk.access.summary(f"it was started meanwhile: {self._desk.decision}")
        return book

    def _puts(self) -> Iterator[Put]:
        for it in self._application.files:
            path = self._desk.access.dir / it.path
            # With a slash the folder is made, with those above it.
            yield Put(source=path, dest=f"{it.dest}/", sha256=it.sha256, is_unpacked=True)

    def _clear(self, book: Book) -> None:
        """End what an instance has left at work."""
        desk, left = self._desk, set(self._desk.left(book))
        if book.ended in (Ended.ABORTED, Ended.AGAIN):
            begun = desk.begun(book)  # the journal need not know yet what others have started
            left |= {cob for host, phase, cob in begun if book.states[host][phase] == RUNNING}
        elif left and book.ended is not Ended.STOPPED:
            desk.decide(replace(book, ended=Ended.STOPPED), "what is left of it is ended")
        left &= desk.access.graph().cobs.keys()
        if left:
            self._listener.rest()
            message = f"app run {desk.name}: what is left of it"
            said = desk.carry_out(left, message, self._wait, is_in_doubt=True)
            now = desk.look()
            is_others = now is None or now.instance != book.instance
            for cob in () if is_others else desk.left(book):
                why = said.get(cob) or "see `cobweb why`"
                desk.access.summary(f"{cob} was not ended: {why}", Tone.BAD)

    # --- going on

    def _unsettled(self, book: Book) -> list[CobId]:
        """Return the objects that are not where they are wanted, by the journal and by words.

        Nothing is asked of a node that does not answer.
        """
        states = self._desk.access.states()
        return [
            cob
            for host, phase, cob in self._desk.begun(book)
            if host not in self._silent
            and not self._is_settled(book, host, phase, states.get(cob, DOWN))
        ]

    def _is_settled(self, book: Book, host: str, phase: str, state: str) -> bool:
        wanted, words = book.wanted(host, phase), self._words.get(host)
        word = words.get(phase) if words else None
        if wanted == DONE:
            return state == DONE or host in book.failed
        if wanted == DOWN:
            return state == DOWN and (word is None or word.ended)
        if word is None:  # `done` without a word is that of an earlier instance
            return words is None and state in _BEGUN
        is_old = bool(word.reason) and word.starts < book.started(host, phase)
        return state in _BEGUN and not is_old

    def _tries(self, cob: CobId) -> int:
        """Return how often it was tried in vain to bring an object where it is wanted."""
        return self._vain[cob].tries if cob in self._vain else 0

    def _waits(self, cob: CobId) -> bool:
        """Say whether it is too early to try again what was in vain."""
        return cob in self._vain and time.monotonic() < self._vain[cob].until_s

    def _carry_out(self, book: Book, due: Sequence[CobId]) -> Mapping[str, Mapping[str, str]]:
        """Bring about what is decided; return what failed jobs said, by member and phase."""
        desk = self._desk
        self._listener.rest()
        self._heard.clear()
        about = {cob: (host, phase) for host, phase, cob in desk.begun(book)}
        wanted = {cob: book.wanted(*about[cob]) for cob in due}
        away = self._nodes.tell_hosts(book, {host_of(it) for it in due if wanted[it] == RUNNING})
        if self._nodes.was_interrupted:
            raise KeyboardInterrupt
        for host in away:
            self._words.pop(host, None)
        due = [it for it in due if host_of(it) not in away]
        is_in_doubt = any(wanted[it] == DOWN or book.started(*about[it]) > 1 for it in due)
        message, wait = f"app run {desk.name}", f"{min(self._wait_s, _LOCK_S):g}s"
        try:
            said = desk.carry_out(due, message, wait, is_in_doubt=is_in_doubt)
        except LockedError as error:
            self._tell_locked(error)
            return {}
        self._locked_s = None
        for host in {host_of(it) for it in due}:
            self._words.pop(host, None)  # it is asked anew before anything else is done there
        # About a start that has failed the policy says what is done.
        self._note_vain([it for it in due if not (it in said and wanted[it] == RUNNING)], wanted)
        errors: dict[str, dict[str, str]] = {}
        for cob in said.keys() & about.keys():
            host, phase = about[cob]
            errors.setdefault(host, {})[phase] = said[cob]
        return errors

    def _note_vain(self, due: Sequence[CobId], wanted: Mapping[CobId, str]) -> None:
        """Take down, and tell, what a run was to bring about and has not."""
        states = self._desk.access.states()
        for cob in due:
            if states.get(cob, DOWN) == wanted[cob]:
                self._vain.pop(cob, None)
                continue
            tries = self._tries(cob) + 1
            pause_s = min(_VAIN_AGAIN_S[0] * 2 ** (tries - 1), _VAIN_AGAIN_S[1])
            self._vain[cob] = _Vain(tries=tries, until_s=time.monotonic() + pause_s)
            if tries > 1:
                why = self._desk.waits.get(cob) or "see `cobweb why`"
                self._desk.careful(f"{cob} is not {wanted[cob]}, and is tried again: {why}")

    def _tell_locked(self, error: LockedError) -> None:
        """Tell once that the site is held; LockedError where that has taken too long."""
        if self._locked_s is None:
            self._locked_s = time.monotonic()
            self._desk.careful(f"{error}; it is tried again")
        elif time.monotonic() - self._locked_s > self._wait_s:
            raise error


def stop(desk: Desk, reason: str, wait: str) -> int:
    """End all that is at work of an application; return the exit code."""
    book = desk.book
    left = set() if book is None else set(desk.left(book))
    with desk.nodes():  # which refuses where what is at work is not in the site any more
        pass
    if book is not None and not book.is_over:
        left.update(cob for _, _, cob in desk.begun(book))  # a run may be about to start them
        desk.decide(replace(book, ended=Ended.STOPPED), reason)
    if book is None or not left:
        desk.access.summary(f"nothing of {desk.name} is at work")
        return 0
    said = desk.carry_out(left, f"app stop {desk.name}", wait, is_in_doubt=True)
    stays = desk.left(book)
    for cob in stays:
        desk.access.summary(f"{cob} was not ended: {said.get(cob) or 'see `cobweb why`'}", Tone.BAD)
    if not stays:
        desk.access.summary(f"{desk.name} is stopped", Tone.GOOD)
    return 1 if stays else 0


def admit(access: SiteAccess, host: str, name: str | None, reason: str) -> None:
    """Have a node that was left out invited again; UsageError where nobody has left it out."""
    is_found = False
    for it in [name] if name else applications_of(access.sections().get(NAME, {})):
        desk = Desk(access, it)
        book = desk.book
        if book is not None and host in book.left:
            left = {other: why for other, why in book.left.items() if other != host}
            desk.decide(replace(book, left=left), reason)
            access.summary(f"{host} is invited again in the next instance of {it}", Tone.GOOD)
            is_found = True
    if not is_found:
        hint = "`cobweb app status NAME` names who is left out"
        raise UsageError(f"{host} is left out of {name or 'no application'}", hint=hint)
