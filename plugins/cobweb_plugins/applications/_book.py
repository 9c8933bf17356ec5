"""What is decided of an application, and what follows from the words of its nodes. Pure.

Theory of operation. An application is started as an instance of it. Its *book*, the body of its
decision, says who its members are, which state each phase is wanted in on each of them (`running`,
then `done`; without a word `down`), and who has failed. A node's *word* says how a phase of the
instance is there. `advanced` makes the next book of a book and words: a phase that has ended well
is wanted `done`, and then those that are after it are wanted `running`; where one has ended badly
its member has failed, and nothing begins there any more. So a book only ever goes forward, and who
takes over from a controller that has gone makes the same of the same words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cobweb.model import State

if TYPE_CHECKING:
    from cobweb_plugins.applications._section import Application

DOWN, RUNNING, DONE = "down", "running", "done"


class Ended(StrEnum):
    """How an instance has ended."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a node says of a phase: it is at work, or has ended; `reason` is why it has not well.

    `healthy` is what its health command has said last.
    """

    ended: bool = False
    healthy: bool = True
    reason: str = ""


Words = Mapping[str, Mapping[str, Word]]
"""Words by host and phase; without those that have said nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What is decided of one instance of an application.

    `states` has, by member and phase, the states that are wanted; `failed` and `missing` say why
    of members that have failed, and of nodes that did not join. `ended` is None while it goes on;
    then it can be ended no more.
    """

    instance: str
    states: Mapping[str, Mapping[str, State]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    ended: Ended | None = None

    def wanted(self, host: str, phase: str) -> State:
        """Return the state that a phase is wanted in on a host."""
        if self.ended is Ended.STOPPED or (self.ended and host in self.failed):
            return DOWN
        return self.states.get(host, {}).get(phase, DOWN)

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
        return {
            "instance": self.instance,
            "members": [{"hosts": groups[it], "phases": dict(found[it])} for it in groups],
            "failed": dict(self.failed),
            "missing": dict(self.missing),
            **({"ended": str(self.ended)} if self.ended else {}),
        }


def book_of(body: Mapping[str, Any]) -> Book:
    """Return what the body of a decision says."""
    return Book(
        instance=body["instance"],
        states={host: it["phases"] for it in body["members"] for host in it["hosts"]},
        failed=body["failed"],
        missing=body["missing"],
        ended=Ended(body["ended"]) if "ended" in body else None,
    )


def advanced(
    application: Application,
    book: Book,
    words: Words,
    told: Mapping[str, str] = MappingProxyType({}),
) -> Book:
    """Return the next book; `told` is why members have failed besides what words say.

    It is the same book where nothing has happened.
    """
    failed = {**told, **book.failed}
    states = {host: dict(it) for host, it in book.states.items()}
    for host, its in states.items():
        for phase, word in words.get(host, {}).items():
            if its.get(phase) == RUNNING and word.ended and not word.reason:
                its[phase] = DONE
            elif its.get(phase) == RUNNING and word.reason:
                its[phase] = DONE  # in vain: so its check is asked, and the journal knows how it is
                failed.setdefault(host, f"{phase}: {word.reason}")
    for phase in application.phases:
        for host in _to_begin(application, phase, states, failed, book.missing):
            states[host][phase] = RUNNING
    return replace(book, states=states, failed=failed)


def end_of(application: Application, book: Book) -> Ended | None:
    """Return how an instance ends, if nothing is at work or can begin any more; else None."""
    going = {host: it for host, it in book.states.items() if host not in book.failed}
    if any(state == RUNNING for it in going.values() for state in it.values()):
        return None
    is_whole = all(len(it) == len(application.phases) for it in going.values())
    return Ended.DONE if is_whole and not book.failed else Ended.FAILED


def _to_begin(
    application: Application,
    name: str,
    states: Mapping[str, Mapping[str, State]],
    failed: Collection[str],
    missing: Collection[str],
) -> Iterable[str]:
    """Return the members on which a phase begins now."""
    phase = application.phases[name]
    arrived = [
        host
        for host, its in states.items()
        if host not in failed and all(its.get(it) == DONE for it in phase.after)
    ]
    if phase.barrier:
        fewest = application.fewest(len(states) + len(missing))
        if len(arrived) + len(failed) < len(states) or len(arrived) < fewest:
            return []
    return [host for host in arrived if name not in states[host]]
