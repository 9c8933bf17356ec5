"""Deciders: each takes its turn when its time has come, and what it decides is written at once.

Theory of operation. A turn is to look and to decide, in a process of its own (`_worker`). What is
decided, the decider's memory and its notes are written in one transaction, which relies on the
revision of the section's decisions; where somebody else has decided meanwhile, it decides again by
what it saw. So a turn that was cut off anywhere has done nothing or all, and is taken again. When
the next turn is due, and how the last one went, is written with it: all that a controller knows of
deciders it reads anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError, ConflictError, LockedError, StoreError, UsageError
from cobweb.plugin import Extension, Tone, shortened
from cobweb_plugins.controller._context import Context
from cobweb_plugins.controller._desk import all_of
from cobweb_plugins.controller._memory import Memory
from cobweb_plugins.controller.deciders._calls import CallError, Worker
from cobweb_plugins.controller.deciders._values import DECIDER_LIMIT_S, decider_problem

POINT, KEY = "decider", "decider"
"""The extension point, and the document of a decider in the memory of its section."""

_ATTEMPTS = 10
"""How often a decider decides anew in a turn where others decide at the same time."""

_OPEN_S = 60.0
"""How long it may take to read the site for deciders: nothing else goes on meanwhile."""

_LEAST_AGAIN_S, _MOST_AGAIN_S = 10.0, 3600.0
"""When a decider that has failed is due again, at the earliest and at the latest."""

_MOST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """How the last turn of a decider went, and when the next one is due.

    `memory` and `notes` are of the last one that went well, at `decided_s` (None: none has), and
    `now_s` is the time that it was told. `failures` are those since, the last one with `error`.
    Times are in seconds since the epoch.
    """

    memory: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)
    now_s: float = 0.0
    due_s: float = 0.0
    failures: int = 0
    error: str = ""
    decided_s: float | None = None

    @classmethod
    def of(cls, body: Mapping[str, Any] | None) -> Turn:
        """Return what a document says; StoreError for one of another version of this plugin."""
        try:
            return cls(**(body or {}))
        except TypeError as error:
            message = f"what is remembered of a decider cannot be read: {error}"
            raise StoreError(message, hint="use the Cobweb that wrote it, or newer") from error

    def is_due(self, now_s: float, every_s: float) -> bool:
        """Say whether the next turn is due; it is where the clock was set back far."""
        return not now_s < self.due_s <= now_s + max(every_s, _MOST_AGAIN_S)

    def begun(self, clock_s: float) -> Turn:
        """Return how it is as soon as another turn has begun: time never goes back for it."""
        return replace(self, now_s=max(clock_s, self.now_s))

    def after(self, outcome: Mapping[str, Any], clock_s: float, every_s: float) -> Turn:
        """Return how it is after a turn that went well."""
        return Turn(
            memory=outcome["memory"],
            notes=outcome["notes"],
            now_s=self.now_s,
            due_s=clock_s + every_s,
            decided_s=self.now_s,
        )

    def failed(self, error: str, clock_s: float, every_s: float) -> Turn:
        """Return how it is after a turn that failed; the more of these, the later the next."""
        wait_s = every_s * 2.0 ** min(self.failures + 1, 20)
        due_s = clock_s + min(max(wait_s, _LEAST_AGAIN_S), max(_MOST_AGAIN_S, every_s))
        return replace(self, failures=self.failures + 1, error=error, due_s=due_s)


class Deciders:
    """The deciders of all plugins, of which those have turns whose section the site has.

    `record` is a file for what they are given and decide, None for nowhere.
    """

    def __init__(self, context: Context, beat: Callable[[], None], record: Path | None) -> None:
        self._context = context
        self._record = record
        self._worker = Worker(beat)
        self._known = deciders_of(context.desk.site.plugins.extensions_at(POINT), self._tell)
        self._sections: tuple[str, frozenset[str]] = ("", frozenset())
        self.next_s: float | None = None

    def turn(self) -> bool:
        """Have each decider look and decide whose time has come; say whether any could.

        LockedError where another controller leads, StoreError where the state database fails.
        """
        self.next_s = None
        it, goal = self._context, self._context.readable
        if not self._known or self._rests() or goal is None:
            return False
        now_s, dues = it.desk.clock(), list[float]()
        for name, decider in sorted(self._known.items()):
            if self._sections[0] == goal.files and name not in self._sections[1]:
                continue
            turn, revision = it.desk.turn(name, KEY)
            last = Turn.of(turn)
            if last.is_due(now_s, decider.every_s):
                last = self._taken(name, decider, last, revision) or last
            dues.append(last.due_s)
        self.next_s = min(dues, default=None)
        if not dues:
            self.end()
        return True

    def turn_late(self) -> bool:
        """Have those take turns that could not before something was admitted; tell if none can."""
        it, topic = self._context, "deciders at rest"
        if self.turn():
            it.untell(topic)
            return True
        had_turns = any(it.desk.turn(name, KEY)[0] for name in self._known)
        if had_turns and (why := self._rests()):
            it.tell(topic, f"deciders rest: {why}", Tone.CAREFUL)
        return False

    def _rests(self) -> str:
        """Return why no decider has a turn just now, "" if they have."""
        it = self._context
        gone = "" if it.readable else "the files that are admitted are not there any more"
        return rest_of(it.memory) or gone

    def turn_meanwhile(self) -> None:
        """Have deciders take turns while a run is at work, which nothing of them is to disturb."""
        if self.next_s is None or self._context.desk.clock() < self.next_s:
            return
        try:
            self.turn()
        except LockedError:
            raise
        except (CobwebError, OSError) as error:
            self._context.tell("deciders", f"deciders have no turns: {error}", Tone.BAD)

    def _tell(self, name: str, text: str) -> None:
        self._context.tell(f"decider {name}", f"the decider {name} {text}", Tone.BAD)

    def end(self) -> None:
        """End the process of the deciders."""
        self._worker.end()

    def _taken(self, name: str, decider: Any, last: Turn, revision: int) -> Turn | None:
        """Have a decider take its turn; return how it went, None where it has none in this site."""
        it = self._context
        try:
            if name not in self._opened():
                return None
        except CallError as error:
            it.tell("deciders", f"the site cannot be read for deciders: {error}", Tone.BAD)
            self._worker.end()  # a new one has the plugins that there are then
            return None
        it.untell("deciders")
        last = last.begun(it.desk.clock())
        try:
            turn = self._decided(name, decider, last)
        except (CallError, UsageError) as error:
            text = shortened(" ".join(str(error).split()), _MOST_TEXT)
            self._tell(name, f"has failed: {text}")
            turn = last.failed(text, it.desk.clock(), decider.every_s)
            it.desk.remember(name, revision, {KEY: asdict(turn)}, f"it has failed: {text}")
            return turn
        it.untell(f"decider {name}")
        if last.failures:
            many = f"{last.failures} turn{'s' * (last.failures > 1)}"
            it.say(f"the decider {name} is well again, after {many} that failed", Tone.GOOD)
        return turn

    def _opened(self) -> frozenset[str]:
        """Have the site open in the process; return its sections."""
        it, goal = self._context, self._context.readable
        if goal is None:
            return frozenset()
        request = {
            "do": "open",
            "files": goal.files,
            "at": all_of(goal.decisions, it.desk.revisions()),
            "folder": str(it.source.folder(goal.files)),
            "allow_outside": it.desk.site.allow_outside,
        }
        found = frozenset(self._worker.call(request, _OPEN_S)["sections"])
        self._sections = goal.files, found
        return found

    def _decided(self, name: str, decider: Any, last: Turn) -> Turn:
        it = self._context
        request = {
            "do": "turn",
            "decider": name,
            "memory": last.memory,
            "now_s": last.now_s,
            "is_busy": bool(it.desk.at_work()),
            "executor": it.policy().options.get("executor", "ansible"),
            "record": self._record and str(self._record),
        }
        limit_s = float(getattr(decider, "limit_s", DECIDER_LIMIT_S))
        for attempt in range(_ATTEMPTS):
            outcome = self._worker.call({**request, "again": attempt > 0}, limit_s)
            turn = last.after(outcome, it.desk.clock(), decider.every_s)
            try:
                it.desk.decide(name, outcome, {KEY: asdict(turn)})
                if said := outcome["unrecorded"]:
                    it.tell("record", f"nothing is recorded: {said}", Tone.BAD)
                else:
                    it.untell("record")
            except ConflictError:
                continue
            return turn
        raise CallError("others decided each time that it had decided")


def rest_of(memory: Memory) -> str:
    """Return why deciders rest by what is remembered, "" if they do not."""
    if memory.held is not None:
        return f"generation {memory.held.generation}, applied by hand, is held"
    if memory.pin is not None and not memory.uses_git:
        return f"generation {memory.pin.generation} is pinned"
    return ""


def deciders_of(
    found: Mapping[str, type[Extension]], tell: Callable[[str, str], None]
) -> Mapping[str, Any]:
    """Return the deciders among what is registered at their point; `tell` hears of the others."""
    problems = {name: decider_problem(it) for name, it in found.items()}
    for name, problem in problems.items():
        if problem:
            tell(name, f"is left out: {problem}")
    return {name: it for name, it in found.items() if not problems[name]}
