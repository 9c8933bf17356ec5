"""What is decided of an application, and what follows from the words of its nodes. Pure.

Theory of operation. An application is started as an instance of it. Its *book*, the body of its
decision, says who its members are, which state each phase is wanted in on each of them (`running`,
then `done`; without a word `down`), how often it is to have been started there, and who has failed.
A node's *word* says how a phase of the instance is there. `advanced` makes the next book of a book
and of news: a phase that has ended well is wanted `done`, and then those that are after it are
wanted `running`; about one in trouble the policy of the application says what is done; a barrier
opens, or its time comes to an end. Of a member that has failed nothing is wanted any more. So a
book only ever goes forward, and who takes over from a controller that has gone makes the same of
the same news.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cobweb.model import State
from cobweb_plugins.applications._groups import folded
from cobweb_plugins.applications._recovery import Do, Phase, Trouble, in_words

if TYPE_CHECKING:
    from cobweb_plugins.applications._section import Application

DOWN, RUNNING, DONE = "down", "running", "done"


class Ended(StrEnum):
    """How an instance has ended; `AGAIN` where the next one is to begin in its place."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    ABORTED = "aborted"
    AGAIN = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a node says of a phase, which was started `starts` times in its instance.

    It is at work, or has ended; `reason` is why it has not well, or what is wrong with it, a
    `trouble` of that kind. Where it `is_final`, it cannot be started again.
    """

    ended: bool = False
    reason: str = ""
    trouble: Trouble = Trouble.EXIT
    starts: int = 1
    is_final: bool = False


Words = Mapping[str, Mapping[str, Word]]
"""Words by host and phase; without those that have said nothing."""

Reasons = Mapping[str, str]
"""Why something is so of hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is known of members `now`, in seconds since the epoch.

    `errors` are those of jobs that have failed, by host and phase; `lost` are members that have not
    answered for too long, and `left` those that are to be left out. It `is_whole` if each member at
    work was asked a moment ago: before that nobody is too late for a barrier.
    """

    now: float
    is_whole: bool = True
    words: Words = field(default_factory=dict)
    errors: Mapping[str, Reasons] = field(default_factory=dict)
    lost: Reasons = field(default_factory=dict)
    left: Reasons = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What is decided of one instance of an application, the `attempt`-th one of `restart-all`.

    `states` has, by member and phase, the states that are wanted, and `starts` how often phases are
    to have been started, where that is more than once. `failed`, `missing` and `left` say why of
    members that have failed, of nodes that did not join, and of those that are left out until they
    are admitted. `since` is from when the time of a phase's barrier counts, in seconds since the
    epoch. `ended` is None while it goes on; `why` is why it was aborted, or begins again.
    """

    instance: str
    states: Mapping[str, Mapping[str, State]] = field(default_factory=dict)
    failed: Reasons = field(default_factory=dict)
    missing: Reasons = field(default_factory=dict)
    left: Reasons = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    attempt: int = 1
    why: str = ""
    ended: Ended | None = None

    @property
    def is_over(self) -> bool:
        """Say whether it has ended, and no other instance is to begin in its place."""
        return self.ended not in (None, Ended.AGAIN)

    def wanted(self, host: str, phase: str) -> State:
        """Return the state that a phase is wanted in on a host."""
        state = self.states.get(host, {}).get(phase, DOWN)
        is_ended = self.ended in (Ended.ABORTED, Ended.AGAIN) or host in self.failed
        return DOWN if self.ended is Ended.STOPPED or (state == RUNNING and is_ended) else state

    def started(self, host: str, phase: str) -> int:
        """Return how often a phase is to have been started on a host."""
        if phase not in self.states.get(host, {}):
            return 0
        return self.starts.get(host, {}).get(phase, 1)

    def phases(self) -> Collection[str]:
        """Return the phases that have begun anywhere."""
        return {phase: None for states in self.states.values() for phase in states}

    def body(self) -> dict[str, Any]:
        """Return the body of its decision: schemas/sections/applications.decision.schema.json."""
        groups = defaultdict[str, list[str]](list)
        found: dict[str, Mapping[str, State]] = {}
        for host, states in sorted(self.states.items()):
            key = repr(sorted(states.items()))
            groups[key].append(host)
            found[key] = states
        more = {
            "left": dict(self.left),
            "starts": {host: dict(it) for host, it in self.starts.items()},
            "since": dict(self.since),
            "attempt": self.attempt,
            "why": self.why,
            "ended": self.ended and str(self.ended),
        }
        return {
            "instance": self.instance,
            "members": [{"hosts": groups[it], "phases": dict(found[it])} for it in groups],
            "failed": dict(self.failed),
            "missing": dict(self.missing),
            **{key: it for key, it in more.items() if it},
        }


def book_of(body: Mapping[str, Any]) -> Book:
    """Return what the body of a decision says."""
    more = {key: body[key] for key in ("left", "starts", "since", "attempt", "why") if key in body}
    return Book(
        instance=body["instance"],
        states={host: it["phases"] for it in body["members"] for host in it["hosts"]},
        failed=body["failed"],
        missing=body["missing"],
        ended=Ended(body["ended"]) if "ended" in body else None,
        **more,
    )


def advanced(application: Application, book: Book, news: News) -> Book:
    """Return the next book; it is the same one where nothing has happened."""
    draft = _Draft(application, book)
    for host in book.states:
        draft.hear(host, news)
    for phase in application.phases.values():
        draft.begin(phase, news)
    return draft.book(news.now)


def end_of(application: Application, book: Book) -> Ended | None:
    """Return how an instance ends, if nothing is at work or can begin any more; else None."""
    going = {host: it for host, it in book.states.items() if host not in book.failed}
    if any(state == RUNNING for it in going.values() for state in it.values()):
        return None
    is_whole = all(len(it) == len(application.phases) for it in going.values())
    return Ended.DONE if is_whole and not book.failed else Ended.FAILED


def barrier_ends(application: Application, book: Book) -> Mapping[str, float]:
    """Return when the time of closed barriers is over, by phase, in seconds since the epoch."""
    over = application.phases.keys() if book.states.keys() <= book.failed.keys() else book.phases()
    return {
        name: book.since[name] + it.barrier.wait_s
        for name, it in application.phases.items()
        if name in book.since and name not in over and it.barrier and it.barrier.wait_s
    }


class _Draft:
    """The next book of a book, while it is made."""

    def __init__(self, application: Application, book: Book) -> None:
        self._application, self._before = application, book
        self._states = {host: dict(it) for host, it in book.states.items()}
        self._failed, self._left = dict(book.failed), dict(book.left)
        self._starts = {host: dict(it) for host, it in book.starts.items()}
        self._again = self._aborted = ""

    def hear(self, host: str, news: News) -> None:
        """Take in what is known of a member."""
        errors, words = news.errors.get(host, {}), news.words.get(host, {})
        lost, left = news.lost.get(host), news.left.get(host)
        for phase, state in list(self._states[host].items()):
            if host in self._failed:
                return
            starts = self._before.started(host, phase)
            word = words.get(phase, Word())
            if phase in errors:
                word = Word(ended=True, reason=errors[phase], starts=starts)
            elif lost:
                word = Word(reason=lost, trouble=Trouble.LOST, starts=starts, is_final=True)
            if left and state == RUNNING:
                self._failed[host], self._left[host] = f"{phase}: {left}", left
            elif state == RUNNING:
                self._take(host, phase, word)
            elif phase in errors:
                self._failed[host] = f"{phase}: {errors[phase]}"

    def _take(self, host: str, phase: str, word: Word) -> None:
        """Take in the word of a phase that is at work by the book."""
        starts = max(word.starts, self._before.started(host, phase))
        if word.reason and word.starts < starts:  # it is about to be started again for that
            return
        if not word.reason:
            self._states[host][phase] = DONE if word.ended else RUNNING
            return
        what = f"{host} has failed in {phase}: {word.reason}"
        recovery, attempt = self._application.recovery, self._before.attempt
        answer = recovery.answer(word.trouble, starts, attempt, is_final=word.is_final)
        if answer is Do.RESTART:
            self._starts.setdefault(host, {})[phase] = starts + 1
        elif answer is Do.RESTART_ALL:
            self._again = self._again or what
        else:
            self._failed[host] = f"{phase}: {word.reason}"
            self._aborted = self._aborted or (what if answer is Do.ABORT else "")

    def begin(self, phase: Phase, news: News) -> None:
        """Have a phase begin on the members that are so far."""
        arrived = [
            host
            for host, its in self._states.items()
            if host not in self._failed
            and phase.name not in its
            and all(its.get(it) == DONE for it in phase.after)
        ]
        if phase.barrier and phase.name not in self._before.phases():
            arrived = self._through(phase, arrived, news)
        for host in arrived:
            self._states[host][phase.name] = RUNNING

    def _through(self, phase: Phase, arrived: list[str], news: News) -> list[str]:
        """Return the members that a closed barrier lets through now."""
        barrier = phase.barrier
        assert barrier is not None
        late = self._states.keys() - self._failed.keys() - set(arrived)
        end = barrier_ends(self._application, self._before).get(phase.name, math.inf)
        is_time = news.is_whole and news.now >= end
        if self._aborted or self._again or (late and not is_time):
            return []
        not_invited = self._before.left.keys() - self._states.keys()
        invited = (self._states.keys() | self._before.missing.keys()) - not_invited
        fewest = self._application.fewest(len(invited))
        if len(arrived) < fewest and barrier.otherwise is Do.ABORT:
            reached = f"{len(arrived)} of {len(invited)}, of {fewest} that must"
            lacking = folded(sorted(invited - set(arrived)))
            self._aborted = (
                f"the barrier of {phase.name} was reached by {reached}; lacking: {lacking}"
            )
            return []
        for host in late:
            self._failed[host] = f"{phase.name}: not arrived within {in_words(barrier.wait_s or 0)}"
        return arrived

    def book(self, now: float) -> Book:
        """Return what it is by now."""
        before = self._before
        ended = Ended.ABORTED if self._aborted else Ended.AGAIN if self._again else before.ended
        begun = {it: now for it in self._waiting() if it not in before.since}
        return replace(
            before,
            states=self._states,
            failed=self._failed,
            left=self._left,
            starts=self._starts,
            since={**before.since, **begun},
            why=self._aborted or self._again or before.why,
            ended=ended,
        )

    def _waiting(self) -> Iterator[str]:
        """Yield the phases with barriers whose time runs: those that they stand behind are open.

        What has begun is that which had before, for who makes the next book has started it by now.
        """
        begun, phases = set(self._before.phases()), self._application.phases
        barriers = {it: phase.barrier for it, phase in phases.items() if phase.barrier}
        for name, barrier in barriers.items():
            is_next = begun and name not in begun
            if is_next and barrier.wait_s and _above(phases, name) & barriers.keys() <= begun:
                yield name


def _above(phases: Mapping[str, Phase], name: str) -> set[str]:
    """Return the phases that must be done before one begins."""
    found, left = set[str](), list(phases[name].after)
    while left:
        if (it := left.pop()) not in found:
            found.add(it)
            left += phases[it].after
    return found
