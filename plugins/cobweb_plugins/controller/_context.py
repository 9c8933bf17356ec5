"""What the parts of a round share: the memory, what was planned, and what people are told."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import Tone
from cobweb_plugins.controller._children import Children, Planned
from cobweb_plugins.controller._clone import CloneError
from cobweb_plugins.controller._desk import Desk, Source, is_relative
from cobweb_plugins.controller._memory import Goal, Memory, Seen, digest_of
from cobweb_plugins.controller._policy import Policy


class RelativeStateError(UsageError):
    """The state database is one of the files of a commit: each commit would have its own."""

    def __init__(self) -> None:
        hint = "with --git it is an absolute path, or postgresql+psycopg://..."
        super().__init__("`state:` of the site is relative", hint=hint)


class EditedError(CobwebError):
    """The site is another one than at the beginning of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the files of a site say of a controller: `serve:`, and a digest of their `state:`."""

    serve: Mapping[str, Any] | None
    database: str

    @property
    def policy(self) -> Policy:
        """The policy that it says."""
        return Policy.of(self.serve)


@dataclass(slots=True, kw_only=True)
class Context:
    """The means of a controller, and what it knows in a round.

    `say` tells people, `work` is a folder for plans, `database` the digest of where the state is.
    `newest` are the newest files, `wakes` the times when a round is due though nothing changes;
    `is_busy` says that a run is at work, `is_locked` that one of ours found the site locked;
    `troubles` counts what did not work and may work soon.
    """

    desk: Desk
    source: Source
    children: Children
    work: Path
    say: Callable[[str, Tone], None]
    database: str
    newest: str = ""
    now_s: float = 0.0
    is_busy: bool = False
    is_locked: bool = False
    troubles: int = 0
    wakes: list[float] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)
    _plans: dict[str, Planned] = field(default_factory=dict)
    _sections: dict[str, Section] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> Memory:
        """What is remembered now."""
        return self.seen.memory

    @property
    def readable(self) -> Goal | None:
        """What is admitted, if its files can be read."""
        goal = self.memory.goal
        return goal if goal is not None and self.source.has(goal.files) else None

    def read(self) -> None:
        """Read the memory anew."""
        self.seen = self.desk.read()

    def keep(self, memory: Memory, reason: str) -> None:
        """Write the memory; ConflictError where somebody else has."""
        self.seen = self.desk.write(self.seen, memory, reason or "controller")

    def forget_plans(self) -> None:
        """Plan anew what is planned from now on: states or files may have changed."""
        for planned in self._plans.values():
            if planned.file is not None:
                planned.file.unlink(missing_ok=True)
        self._plans = {}
        if not self.source.uses_git:
            self._sections = {}

    def tell(self, topic: str, text: str, tone: Tone = Tone.NONE) -> None:
        """Tell people once what goes on in a matter, until it is another thing."""
        if self._told.get(topic) != text:
            self._told[topic] = text
            self.say(text, tone)

    def trouble(self, text: str) -> None:
        """Tell people that something did not work which may work soon, and come back to it."""
        self.troubles += 1
        self.wakes.append(self.now_s)
        self.tell("trouble", text, Tone.BAD)

    def untell(self, topic: str) -> None:
        """Tell people of a matter again, though it be the same thing."""
        self._told.pop(topic, None)

    def policy(self) -> Policy:
        """Return the policy that is admitted."""
        return Policy.of(self.memory.goal.serve if self.memory.goal else None)

    def plan(self, files: str, decisions: Mapping[str, int], *words: str) -> Planned:
        """Plan files with revisions of decisions, once for all of a round."""
        words = (*self.policy().plan_words(), *words)
        key = digest_of([files, sorted(decisions.items()), words])
        if key not in self._plans:
            try:
                folder = self.source.folder(files)
            except CloneError as error:
                return Planned(code=1, said=str(error), lines=(str(error),))
            path = self.work / f"plan-{secrets.token_hex(4)}.json"
            planned = self.children.plan(folder, decisions, *words, "--out", str(path))
            self._plans[key] = replace(planned, file=path)
        return self._plans[key]

    def section(self, files: str) -> Section:
        """Return what files say of a controller; CobwebError where that is wrong."""
        if files not in self._sections:
            folder = self.source.folder(files)
            said = self.children.section(folder)
            if said.code or not isinstance(said.data, Mapping):
                raise CobwebError(f"`serve:` cannot be read: {said.text}")
            url = self.desk.database(folder)
            if self.source.uses_git and is_relative(url):
                raise RelativeStateError
            found = Section(serve=said.data["data"], database=digest_of(url))
            found.policy  # noqa: B018 - raises where it is wrong
            self._sections[files] = found
        return self._sections[files]
