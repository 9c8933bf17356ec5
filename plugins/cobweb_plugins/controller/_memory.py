"""What a controller remembers between rounds, as values: one document in the state database.

Pure. `Memory` is read, changed to another value and written by compare-and-set, so of two who
change it at once one looks again. What it does not have is read anew from the site, the journal and
the repository.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from cobweb.errors import StoreError

SECTION, KEY = "serve", "memory"
"""Where the document is."""

GIT, DRIFT = "git", "drift"
"""The sources that are no section: the files of the site, and what is not as admitted."""

_MOST_OVER = 50
"""How many inputs that are over are remembered, besides the last of each source that was rejected:
it may be the newest still."""

_MOST_TOKENS = 20

_FIRST_AGAIN_S, LAST_AGAIN_S = 60.0, 3600.0
"""After how long a goal that failed is tried again, at first and at last."""

_DIGITS = 8


class Fate(StrEnum):
    """What has become of an input."""

    WAITING = "waiting"
    APPROVED = "approved"
    INVALID = "invalid"
    NEVER = "never"
    WINDOW = "window"
    REJECTED = "rejected"
    LAPSED = "lapsed"
    ADMITTED = "admitted"


OPEN = frozenset({Fate.WAITING, Fate.APPROVED, Fate.INVALID, Fate.NEVER, Fate.WINDOW})
"""The fates of inputs that may still be admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A commit or a revision that was not admitted at once: what it would do, and who said what.

    `outages` and `removals` are ids of objects, as they were shown; `more` are those that were not
    shown when it was approved. Times are in seconds since the epoch; `by`, `said` and `at` tell of
    a person.
    """

    id: str
    source: str
    input: str
    what: str
    state: str
    reason: str
    since: float
    outages: tuple[str, ...] = ()
    removals: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    by: str | None = None
    said: str | None = None
    at: float | None = None

    @property
    def shown(self) -> frozenset[str]:
        """All objects that a person was shown to go out or away."""
        return frozenset((*self.outages, *self.removals))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is admitted: a commit (or the look of a folder's files), and revisions of decisions.

    `site` is the digest of the site that it is evaluated to. `pending` are, by source, the inputs
    that were admitted since it was last brought about, and `covered` the objects that a person let
    go out for it; with `is_free` all of them. `serve` is the section of that name, None if there is
    none, and `database` where its state is.
    """

    files: str
    site: str
    decisions: Mapping[str, int]
    serve: Mapping[str, Any] | None
    database: str
    pending: Mapping[str, str] = field(default_factory=dict)
    covered: tuple[str, ...] = ()
    is_free: bool = False

    @property
    def key(self) -> str:
        """A digest of what is admitted."""
        return digest_of([self.files, sorted(self.decisions.items())])

    def covering(self, cobs: Iterable[str]) -> Goal:
        """Return the goal with objects that a person let go out."""
        return replace(self, covered=tuple(sorted({*self.covered, *cobs})))

    def reached(self) -> Goal:
        """Return the goal after it was brought about."""
        return replace(self, pending={}, covered=(), is_free=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run that is begun for a goal: `token` is in its generation's message, `after` the last run.

    It is remembered before the run begins.
    """

    key: str
    token: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How the last attempt at a goal ended.

    `state` is `reached`, `failed` or `refused`; `basis` is what the refusal relied on, `again_s`
    when a goal that failed is tried again.
    """

    key: str
    state: str
    reason: str = ""
    run: str | None = None
    exit_code: int | None = None
    failures: int = 0
    again_s: float | None = None
    basis: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A generation that a person wants held."""

    generation: int
    commit: str
    by: str
    reason: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A generation that somebody applied by hand, held while the newest files are these."""

    generation: int
    since: float
    newest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """How far drift was looked for: up to this host, at this time."""

    host: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All that a controller remembers.

    `seen` is the current generation when it last looked, `tokens` are those of the last attempts: a
    run whose controller was killed may make its generation late.
    """

    uses_git: bool = False
    newest: str = ""
    goal: Goal | None = None
    inputs: tuple[Input, ...] = ()
    attempt: Attempt | None = None
    tried: Tried | None = None
    pin: Pin | None = None
    held: Held | None = None
    slices: Slices | None = None
    seen: int = 0
    tokens: tuple[str, ...] = ()

    def with_attempt(self, attempt: Attempt) -> Memory:
        """Return the memory with an attempt at the goal that is about to begin."""
        tokens = (attempt.token, *self.tokens[: _MOST_TOKENS - 1])
        return replace(self, attempt=attempt, tokens=tokens)

    def input(self, source: str, value: str) -> Input | None:
        """Return what is remembered of an input, None if that is nothing."""
        return next((it for it in self.inputs if (it.source, it.input) == (source, value)), None)

    def open(self) -> tuple[Input, ...]:
        """Return the inputs that may still be admitted."""
        return tuple(it for it in self.inputs if it.state in OPEN)

    def left_out(self, source: str) -> Input | None:
        """Return what became of the newest decisions of a section that are not admitted, if any."""
        admitted = self.goal.decisions.get(source, 0) if self.goal else 0
        found = [it for it in self.inputs if it.source == source and it.input.isdigit()]
        newest = max(found, key=lambda it: int(it.input), default=None)
        return newest if newest is not None and int(newest.input) > admitted else None

    def with_input(self, new: Input) -> Memory:
        """Return the memory with an input in the place of what it had of it."""
        others = [it for it in self.inputs if (it.source, it.input) != (new.source, new.input)]
        over = [it for it in others if it.state not in OPEN]
        last = {it.source: it for it in reversed(over) if it.state == Fate.REJECTED}
        most = _MOST_OVER - (new.state not in OPEN)
        kept = [it for n, it in enumerate(over) if n < most or it is last.get(it.source)]
        return replace(self, inputs=(new, *(it for it in others if it.state in OPEN), *kept))

    def without_repairs(self, now_s: float, but: str = "") -> Memory:
        """Return the memory where repairs wait for nobody any more, but for these."""
        kept = {(it.source, it.input) for it in self.open() if it.source != DRIFT}
        return self.lapsed({*kept, (DRIFT, but)}, now_s)

    def lapsed(self, current: Collection[tuple[str, str]], now_s: float) -> Memory:
        """Return the memory where only these inputs, by source and value, may be admitted."""
        found = self
        for it in self.open():
            if (it.source, it.input) not in current:
                reason = "a newer one has taken its place"
                gone = replace(it, state=Fate.LAPSED, reason=reason, at=now_s, more=())
                found = found.with_input(gone)
        return found

    def waiting(self, reason: str) -> Memory:
        """Return the memory where the goal is not brought about now, for a reason."""
        key = self.goal.key if self.goal else ""
        same = self.tried if self.tried and self.tried.key == key else None
        run, code = (same.run, same.exit_code) if same else (None, None)
        tried = Tried(key=key, state="pending", reason=reason, run=run, exit_code=code)
        return replace(self, tried=tried)

    def after(  # noqa: PLR0913  # how an attempt ended, and on what ground
        self,
        state: str,
        reason: str,
        *,
        now_s: float,
        code: int,
        run: str | None = None,
        basis: str = "",
    ) -> Memory:
        """Return the memory after an attempt at the goal that failed or was refused."""
        key = self.goal.key if self.goal else ""
        again_s = None
        failures = self.tried.failures if self.tried and self.tried.key == key else 0
        if state == "failed":
            again_s = now_s + min(_FIRST_AGAIN_S * 2.0 ** min(failures, 10), LAST_AGAIN_S)
            failures += 1
        tried = Tried(
            key=key,
            state=state,
            reason=reason,
            run=run,
            exit_code=code,
            failures=failures,
            again_s=again_s,
            basis=basis,
        )
        return replace(self, tried=tried, attempt=None)

    def reached(self, run: str | None, now_s: float) -> Memory:
        """Return the memory after the goal was brought about, by a run or because it was so."""
        if self.goal is None:
            return self
        same = self.tried if self.tried and self.tried.key == self.goal.key else None
        run = run or (same.run if same else None)
        tried = Tried(key=self.goal.key, state="reached", run=run, exit_code=0 if run else None)
        done = replace(self, goal=self.goal.reached(), tried=tried, attempt=None)
        return done.without_repairs(now_s)

    def as_data(self) -> dict[str, Any]:
        """Return the memory as plain JSON data."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> Memory:
        """Return the memory that such data are of; an empty one of None.

        StoreError for data of another version of this plugin.
        """
        if data is None:
            return cls()
        try:
            return cls._of(data)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            message = f"what the controller remembers cannot be read: {error}"
            raise StoreError(
                message, hint="use the Cobweb that wrote it, or a newer one"
            ) from error

    @classmethod
    def _of(cls, data: Mapping[str, Any]) -> Memory:
        parts = {name: _part(kind, data.get(name)) for name, kind in _PARTS.items()}
        inputs = tuple(Input(**_tuples(it)) for it in data["inputs"])
        return cls(**{**_tuples(data), **parts, "inputs": inputs})


_PARTS: Mapping[str, type[Any]] = {
    "goal": Goal,
    "attempt": Attempt,
    "tried": Tried,
    "pin": Pin,
    "held": Held,
    "slices": Slices,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The memory as it was read, with the revision that writing it relies on."""

    memory: Memory = field(default_factory=Memory)
    revision: int = 0


def _part(kind: type[Any], data: Mapping[str, Any] | None) -> Any:
    return None if data is None else kind(**_tuples(data))


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(it) if isinstance(it, list) else it for name, it in data.items()}


def digest_of(data: Any) -> str:
    """Return a digest of plain JSON data: 64 hexadecimal digits."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def id_of(source: str, value: str) -> str:
    """Return what people call an input by: `git-1f2e3d4c`, `pools-7`."""
    return f"{source}-{value[:_DIGITS] if source in (GIT, DRIFT) else value}"
