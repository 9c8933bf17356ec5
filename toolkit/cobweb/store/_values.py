"""What the journal is told and what it answers: frozen values, no database in them.

All times are seconds since the epoch and come from the caller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from types import EllipsisType
from typing import Any, NamedTuple

from cobweb.errors import StoreError
from cobweb.model import UNKNOWN, CobId, State

STOPPED = "stopped"
"""The reason of a state that nobody knows since an interrupt has stopped a transition."""


class TransitionResult(StrEnum):
    """How a transition ended, as events say it (design, section 7)."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CobRecord:
    """What the journal knows of one object.

    `state` was written at `since` by the run `run` under `generation`, for `reason`, and was found
    against the content digest `content` (empty: not told). `in_transition` is the (source, dest) of
    a transition that began and whose end was never written: its state is unknown. `attempt` counts,
    from 1, the attempts of the transition that began last (0: none), in its run,
    and `executor` is who carried them out, empty for the coordinator itself. `known` is the last
    state that was none of doubt, empty where no such was written. `failed` says
    that a transition or check failed in the run `run`. `reachable` is that of the host. `served`
    says that the object was once told to have served, and stays true until it is forgotten.
    `at_work` says that a transition of it may still be at work on the host, whoever began it.
    """

    cob: CobId
    state: State
    content: str
    applied_json: str | None
    in_transition: tuple[State, State] | None
    reachable: bool
    since: float
    run: str
    generation: int
    failed: bool
    reason: str
    attempt: int = 0
    executor: str = ""
    known: State = ""
    served: bool = False
    at_work: bool = False

    @property
    def recorded(self) -> State | None:
        """The state that was known for certain last: the source of what was stopped or failed."""
        if self.in_transition is not None:
            return self.in_transition[0]
        return (self.known or None) if self.state == UNKNOWN else self.state

    @property
    def stopped(self) -> bool:
        """Whether what has failed was stopped by an interrupt."""
        return self.failed and self.reason == STOPPED

    @property
    def applied(self) -> Mapping[str, Any] | None:
        """The redacted spec that was applied last, or None; decoded on each access.

        StoreError where the journal is damaged.
        """
        try:
            return None if self.applied_json is None else json.loads(self.applied_json)
        except ValueError as error:
            raise StoreError(f"the state database has a damaged record of {self.cob}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as it begins; `id` is unique in the database, `site` the digest of the site.

    `generation` is that under which states are written by default, 0 for none.
    """

    id: str
    command: str
    started: float
    user: str
    host: str
    pid: int
    site: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as it is known; what describes its end is None (`counts`: empty) until it is told.

    A run without an end that is not going on any more was killed, or could not write it. `waits`
    says of each object that was not where it should be at the end why, as plain data of the
    runtime.
    """

    info: RunInfo
    result: str | None = None
    exit_code: int | None = None
    counts: Mapping[str, Any] = field(default_factory=dict)
    waits: Sequence[Mapping[str, Any]] = ()
    ended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationFacts:
    """What is known of a generation, an evaluated site that was desired once, besides its content.

    `digest` is the SHA-256 of the content, `commit` the Git commit of the site's repository, empty
    where there is none. The store gives `id`, from 1, and `parent`, 0 for the first. `reached` is
    when a whole run first ended with nothing left to do, if ever. `decisions` are the revisions of
    sections that the site was evaluated with.
    """

    digest: str
    author: str
    time: float
    message: str
    commit: str = ""
    reached: float | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)
    id: int = 0
    parent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation(GenerationFacts):
    """A generation; `content` is canonical JSON without secrets."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationInfo(GenerationFacts):
    """A generation without its content, which takes `size` bytes in the database."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """Who holds the site lock: the process of a run, or a hold until `until` without a process.

    `process_start`, `boot_id`, `machine_id` and `pid_space` tell the process from a later one with
    the same pid; empty where the system does not say. `run` names the lock to `break_lock`.
    """

    run: str
    user: str
    host: str
    pid: int
    reason: str
    since: float
    heartbeat: float
    process_start: str = ""
    boot_id: str = ""
    machine_id: str = ""
    pid_space: str = ""
    until: float | None = None

    def line(self, now: float) -> str:
        """Return the owner in one line for people; `now` gives the age of the heartbeat."""
        reason = " ".join(self.reason.split())
        who = f"{self.user}@{self.host}"
        if self.until is not None:
            return f"{who} hold {self.run} until {_utc(self.until)} ({reason})"
        age = max(0, round(now - self.heartbeat))
        since = _utc(self.since)
        return f"{who} pid {self.pid} run {self.run} since {since} ({reason}), seen {age} s ago"


# --- entries of the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWritten:
    """The state of `cob` is `state`; a transition that was open is so no longer.

    `content`, `failed` and `generation` None keep what is known (`failed`: of this run; the run's
    generation). `applied` is as that of `TransitionFinished`: a check can find it out as well.
    """

    cob: CobId
    state: State
    reason: str
    time: float
    applied: Mapping[str, Any] | EllipsisType | None = ...
    content: str | None = None
    failed: bool | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionBegan:
    """An attempt of the transition of `cob` is about to begin; to be durable before it does.

    With `at_work` it counts as at work until it is told that it is not.
    """

    cob: CobId
    source: State
    dest: State
    time: float
    attempt: int = 1
    executor: str = ""
    at_work: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionFinished:
    """The transition of `cob` has ended in `state` (`unknown` where it failed).

    `applied` is the spec that is applied now, None for nothing; `...` keeps what is known, as None
    does for `content` and the run's generation for `generation`. Vaulted values are redacted here.
    `at_work` says that it may go on all the same, `stopped` that an interrupt has ended it.
    """

    cob: CobId
    source: State
    dest: State
    state: State
    result: TransitionResult
    time: float
    applied: Mapping[str, Any] | EllipsisType | None = ...
    content: str | None = None
    generation: int | None = None
    at_work: bool = False
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnded:
    """Nothing of the transitions of `cob` is at work any more; what they did is not known by it."""

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantWritten:
    """`cob` is locked in `state` for `holder`."""

    cob: CobId
    holder: CobId
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantGone:
    """`cob` is not locked for `holder` any more; nothing happens if it was not."""

    cob: CobId
    holder: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLost:
    """`host` cannot be reached."""

    host: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFound:
    """`host` answers again."""

    host: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSwitched:
    """`host` has switched to `generation`: from now on its objects are what that one says."""

    host: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostForgotten:
    """`host` is known no more: whether it is reachable or given up, its generation and results go.

    So do the slots of the unit of this name. Those of a unit that has another name (the value of a
    host variable) stay: it may have other hosts.
    """

    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGivenUp:
    """A host of the site is given up (neither counted nor contacted), or not any more."""

    host: str
    given_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsWritten:
    """Tasks of `host` handed back `results`, plain JSON data by key; None deletes a key."""

    host: str
    results: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """`cob` is known no more: its record goes, all locks on it and of it, and its slots.

    Its slots are those of the unit of its name, where a limit counts objects.
    """

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWritten:
    """`cob` has served: `CobRecord.served` stays true until it is forgotten.

    Who wrote the rest of the record, and whether something failed, stays as it is known.
    """

    cob: CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWritten:
    """`unit` has a slot of `limit` since `time`; to be durable before a member goes out."""

    limit: str
    unit: str
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotGone:
    """`unit` has given its slot of `limit` back; nothing happens if it had none."""

    limit: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryWritten:
    """`units` are the canary of `limit` for `generation`; `through` is whether it went well.

    It is about `contents`, a digest of what these units were to get; `covers` is one of what all
    units were to get that it lets through. It replaces what was known of the same contents.
    """

    limit: str
    generation: int
    units: tuple[str, ...]
    through: bool
    contents: str = ""
    covers: str = ""


class EventWritten(NamedTuple):
    """An event of the run; `seq` is unique in it, `data` the rest besides `time` and `type`.

    `data` is the text of a JSON object in ASCII, since the same text goes into files as well. There
    are more of these than of all other entries, so this is a row and no more.
    """

    seq: int
    time: float
    type: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CobRenamed:
    """The object `old` is `new` from `generation` on: its record, locks and slots are that one's.

    `new` has no record yet. In generations before that one it keeps its old name.
    """

    old: CobId
    new: CobId
    generation: int


TransitionEntry = TransitionBegan | TransitionFinished | WorkEnded
CobEntry = StateWritten | TransitionEntry | ServedWritten | Forgotten
HostEntry = HostLost | HostFound | HostSwitched | HostForgotten | HostGivenUp | ResultsWritten
LockEntry = GrantWritten | GrantGone | SlotWritten | SlotGone
Entry = CobEntry | HostEntry | LockEntry | CobRenamed | CanaryWritten | EventWritten


def _utc(time: float) -> str:
    return datetime.fromtimestamp(time, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
