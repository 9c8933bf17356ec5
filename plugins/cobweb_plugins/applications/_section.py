"""From the section `applications` and what was decided to objects: a phase of each on each node."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cobweb.errors import ModelError
from cobweb.model import Decided, Expansion, State
from cobweb.plugin import seconds_of
from cobweb_plugins.applications._book import Book, book_of
from cobweb_plugins.applications._recovery import (
    Barrier,
    Do,
    Flaps,
    Phase,
    Recovery,
    Trouble,
)

if TYPE_CHECKING:
    from cobweb.model import Decision
    from cobweb.plugin import ExpandContext

NAME = "applications"
FUNCTION = "application_phase"
"""What templates call for the state that a phase is wanted in on their host."""

HOSTS_MARK = "@cobweb-hosts@"
"""What stands for `{{ hosts }}` in a command until the host starts it: it is no content."""

JOIN_TIMEOUT = "30s"
OUTSTANDING = 50
"""How long an invitation waits for its answer, and how many are out at once, if nobody says it."""

_HOSTS = re.compile(r"\{\{-?\s*hosts\s*-?\}\}")
_COMMANDS = ("run", "health")
_OF_ALL = ("env", "cwd", "state_dir")
"""What an application says for all of its phases."""
_DURATIONS = ("timeout", "every", "stop_timeout")
_FLAPS = re.compile(r"([1-9][0-9]{0,5}) in (\S+)")

Problem = tuple[tuple[str | int, ...], str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A file of the site that is unpacked into the folder `dest` of each member."""

    path: str
    sha256: str
    dest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What the section says of an application; `on` is a host pattern.

    `at_least` turns the number of invited nodes into how many must have joined. A member that
    does not answer for `lost_after_s` is lost, and one that goes away as often as `flaps` say is
    left out; None: never.
    """

    name: str
    on: str
    phases: Mapping[str, Phase]
    files: tuple[Archive, ...]
    at_least: str
    join_timeout_s: float
    outstanding: int
    flaps: Flaps | None = None
    lost_after_s: float | None = None
    recovery: Recovery = field(default_factory=Recovery)

    def fewest(self, invited: int) -> int:
        """Return how many of the invited nodes must join."""
        number, sign, _ = self.at_least.partition("%")
        return -(-invited * int(number) // 100) if sign else int(number)

    def objects(self) -> Mapping[str, str]:
        """Return the name of each phase's object, by phase."""
        return {phase: object_name(self.name, phase) for phase in self.phases}


def object_name(application: str, phase: str) -> str:
    """Return what the objects of a phase are called."""
    return f"app-{application}-{phase}"


def applications_of(section: Mapping[str, Any]) -> dict[str, Application]:
    """Return what a section says, by name; ModelError with all that is wrong."""
    problems = [it for name, body in section.items() for it in _problems(name, body)]
    problems += _doubled(section)
    if problems:
        raise ModelError([((NAME, *keys), message, hint) for keys, message, hint in problems])
    return {name: _application(name, body) for name, body in section.items()}


def expand_applications(sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
    """Return an object for each phase of each application; ModelError with all that is wrong."""
    section, decisions = sections[NAME], context.decisions
    known = applications_of(section)
    books = {key: book_of(it.body) for key, it in decisions.items()}
    problems = [
        problem
        for key, book in books.items()
        for problem in _decision_problems(known, decisions[key], book)
    ]
    if problems:
        raise ModelError(problems)

    def wanted(host: str, application: str, phase: str) -> State:
        book = books.get(application)
        return book.wanted(host, phase) if book else "down"

    return Expansion(
        cobs={
            name: _object(section[it.name], it, phase, decisions.get(it.name), books.get(it.name))
            for it in known.values()
            for phase, name in it.objects().items()
        },
        functions={FUNCTION: wanted},
    )


def _object(
    body: Mapping[str, Any],
    application: Application,
    phase: str,
    decision: Decision | None,
    book: Book | None,
) -> Mapping[str, Any] | Decided:
    own = {key: it for key, it in body["phases"][phase].items() if key not in ("after", "barrier")}
    spec = {key: body[key] for key in _OF_ALL if key in body} | own
    spec |= {key: _with_mark(spec[key]) for key in _COMMANDS if key in spec}
    spec |= {key: seconds_of(str(spec[key])) for key in _DURATIONS if key in spec}
    if (orphan := body.get("members", {}).get("orphan")) is not None:
        spec["orphan"] = seconds_of(str(orphan), zero=True)
    spec["env"] = {key: str(it) for key, it in (body.get("env", {}) | own.get("env", {})).items()}
    instance = book.instance if book else ""
    cob = {
        "type": "phase",
        "on": application.on,
        "want": f"{{{{ {FUNCTION}('{application.name}', '{phase}') }}}}",
        "spec": {"application": application.name, "phase": phase, "instance": instance, **spec},
        "needs": [
            {"when": "down -> running", "cob": object_name(application.name, it), "state": "done"}
            for it in application.phases[phase].after
        ],
        # Who is dropped from the section while it is at work would be ended by the next apply.
        "protect": book is not None and not book.ended and phase in book.phases(),
    }
    return Decided(cob, decision) if decision else cob


def _with_mark(command: Any) -> Any:
    if isinstance(command, str):
        return _HOSTS.sub(HOSTS_MARK, command)
    return [_HOSTS.sub(HOSTS_MARK, str(word)) for word in command]


def _application(name: str, body: Mapping[str, Any]) -> Application:
    members, recover = body.get("members", {}), body.get("recover", {})
    lost_after = members.get("lost_after")
    return Application(
        name=name,
        on=body["on"],
        phases={
            phase: Phase(
                name=phase,
                after=tuple(it.get("after", ())),
                barrier=_barrier(it["barrier"], recover) if "barrier" in it else None,
            )
            for phase, it in body["phases"].items()
        },
        files=tuple(
            Archive(path=it["archive"], sha256=it["sha256"], dest=it["dest"])
            for it in body.get("files", ())
        ),
        at_least=str(members.get("at_least", "100%")),
        join_timeout_s=seconds_of(str(members.get("join_timeout", JOIN_TIMEOUT))),
        outstanding=members.get("outstanding", OUTSTANDING),
        flaps=_flaps(members["flaps"]) if "flaps" in members else None,
        lost_after_s=None if lost_after is None else seconds_of(str(lost_after)),
        recovery=_recovery(recover),
    )


def _barrier(said: Mapping[str, Any], recover: Mapping[str, Any]) -> Barrier:
    otherwise = said.get("else", recover.get("else", Do.ABORT))
    wait = said.get("wait")
    return Barrier(wait_s=None if wait is None else seconds_of(str(wait)), otherwise=Do(otherwise))


def _recovery(said: Mapping[str, Any]) -> Recovery:
    default = Recovery()
    return Recovery(
        on=frozenset(Trouble(it) for it in said.get("on", default.on)),
        do=Do(said.get("do", default.do)),
        times=said.get("times", default.times),
        otherwise=Do(said.get("else", default.otherwise)),
    )


def _flaps(said: str) -> Flaps:
    """Return what `3 in 10m` says; ValueError with what is wrong."""
    if not (match := _FLAPS.fullmatch(said)):
        raise ValueError("is no number of times in some time")
    return Flaps(times=int(match[1]), within_s=seconds_of(match[2]))


def _problems(name: str, body: Mapping[str, Any]) -> Iterator[Problem]:
    phases = body["phases"]
    for phase, it in phases.items():
        for place, other in enumerate(it.get("after", ())):
            if other not in phases:
                keys = (name, "phases", phase, "after", place)
                yield keys, f"there is no phase `{other}`", f"there are {', '.join(phases)}"
        if "barrier" in it and not it.get("after"):
            message = f"the phase `{phase}` has a barrier, and is after no other one"
            yield (name, "phases", phase, "barrier"), message, "say `after`, or take it out"
        if (number := it.get("stop_signal", "SIGTERM")) not in signal.Signals.__members__:
            message = f"there is no signal `{number}`"
            yield (name, "phases", phase, "stop_signal"), message, "as in `SIGINT`"
        for key in _DURATIONS:
            yield from _duration_problems((name, "phases", phase, key), it.get(key))
        wait = it.get("barrier", {}).get("wait")
        yield from _duration_problems((name, "phases", phase, "barrier", "wait"), wait)
    yield from _member_problems((name, "members"), body.get("members", {}))
    if circle := _circle({phase: it.get("after", ()) for phase, it in phases.items()}):
        message = f"phases wait for each other in a circle: {' after '.join(circle)}"
        yield (name, "phases", circle[0], "after"), message, "take one of them out"


def _member_problems(keys: tuple[str, str], members: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ("join_timeout", "lost_after"):
        yield from _duration_problems((*keys, key), members.get(key))
    yield from _duration_problems((*keys, "orphan"), members.get("orphan"), zero=True)
    if (said := members.get("flaps")) is not None:
        try:
            _flaps(said)
        except ValueError as error:
            yield (*keys, "flaps"), f"`{said}` {error}", "as in `3 in 10m`"


def _doubled(section: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield phases whose objects would have the name of another one's."""
    seen: dict[str, str] = {}
    for name, body in section.items():
        for phase in body["phases"]:
            said = f"the phase `{phase}` of `{name}`"
            other = seen.setdefault(object_name(name, phase), said)
            if other != said:
                message = f"{said} and {other} have one name: `{object_name(name, phase)}`"
                yield (name, "phases", phase), message, "rename one of them"


def _duration_problems(
    keys: tuple[str | int, ...], value: Any, *, zero: bool = False
) -> Iterator[Problem]:
    if value is not None:
        try:
            seconds_of(str(value), zero=zero)
        except ValueError as error:
            yield keys, f"`{value}` {error}", "as in `60s`"


def _circle(after: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return phases each of which is after the next one, the first one again at the end."""
    over: set[str] = set()
    while len(over) < len(after):
        free = [it for it in after if it not in over and over.issuperset(after[it])]
        if not free:
            path = [next(it for it in after if it not in over)]
            while path[-1] not in path[:-1]:
                left = [it for it in after[path[-1]] if it in after and it not in over]
                if not left:  # it is after a phase that there is not, which is told already
                    return ()
                path.append(left[0])
            return path[path.index(path[-1]) :]
        over.update(free)
    return ()


def _decision_problems(
    known: Mapping[str, Application], decision: Decision, book: Book
) -> Iterator[Problem]:
    """Yield why a decision cannot hold in the section as it is: what is at work must be there."""
    if book.ended:
        return
    name, hint = decision.key, f"write it back, then `cobweb app stop {decision.key}`"
    if name not in known:
        yield (NAME,), f"the application `{name}` is at work ({decision}), and not here", hint
        return
    for phase in book.phases():
        if phase not in known[name].phases:
            message = f"the phase `{phase}` of `{name}` has begun ({decision}), and is not here"
            yield (NAME, name, "phases"), message, hint
