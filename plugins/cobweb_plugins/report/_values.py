"""What a report is made of: the story of a run, its failures, and who waited in the end."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobweb_plugins.report._columns import Steps, Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSaid:
    """One of the last tasks of a failed job."""

    name: str
    status: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A transition or check that failed for good, or drift; `kind` says which.

    `whole` says that no output was left out.
    """

    cob: str
    kind: str
    at_ms: int
    message: str
    source: str = ""
    dest: str = ""
    attempt: int = 1
    seconds: float = 0.0
    tasks: tuple[TaskSaid, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An object that was not where it should be; `chain` is data as the runtime's `chain_data`.

    The last link is the cause; its kind is `untold` where the events do not say what it was.
    """

    cob: str
    state: str
    chain: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """Hosts that switched to another generation at the same moment."""

    at_ms: int
    hosts: tuple[str, ...]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Room in a limit that a unit gave back, and another one took."""

    limit: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One run as its events tell it.

    `cobs` and `states` are the names that the numbers in the columns stand for, `state` the last
    state of each object, `rooms` those that `Steps.room` numbers. `result` is None where the events
    stop before the end. Times in columns are milliseconds after `first`, which is in seconds by the
    clock of the executor.
    """

    cobs: tuple[str, ...]
    states: tuple[str, ...]
    state: array[int]
    steps: Steps
    waits: Waits
    failures: tuple[Failure, ...]
    unreachable: Mapping[str, str]
    switches: tuple[Switched, ...]
    rooms: tuple[Room, ...]
    run: str
    generation: int
    cobweb: str
    first: float
    last_ms: int
    result: str | None
    exit_code: int | None
    counts: Mapping[str, int]
    events: int
    recalls: int

    def state_of(self, cob: int) -> str:
        """Return the last state of an object; `unknown` where none was told."""
        number = self.state[cob]
        return self.states[number] if number >= 0 else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the journal knows of a run besides its events; empty for a file of events.

    `waits` is as in `RunRecord`: with it the report need not work out who waited for what.
    """

    command: str = ""
    user: str = ""
    host: str = ""
    started: float | None = None
    ended: float | None = None
    goes_on: bool = False
    waits: Sequence[Mapping[str, Any]] | None = None
