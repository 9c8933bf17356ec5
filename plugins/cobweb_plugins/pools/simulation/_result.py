"""What a simulation has counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResult:
    """What became of a service: its jobs, their waits, and its machine hours as parts of a whole.

    `unmet_h` are the hours in which one of its objectives was not fulfilled. Jobs that wait at the
    end count with what they have waited; the 95th percentile is that of the nearest rank.
    """

    jobs: int
    finished: int
    waiting: int
    busy_h: float
    idle_h: float
    transit_h: float
    unmet_h: float
    wait_mean_s: float
    wait_p95_s: float
    wait_max_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers by round: when it was, and by service its members and its waiting work."""

    times_s: list[float]
    members: dict[str, list[int]]
    waiting: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a service got nothing, or was not asked: how often, and what was said at last."""

    service: str
    kind: str
    count: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a trace under one way to decide.

    `moves` are changes of a resource's service. `swings` are moves back into a service, spare pools
    apart, that the resource had left less than `circle` ago. `violations` count broken promises.
    """

    rounds: int
    moves: int
    swings: int
    violations: Mapping[str, int]
    services: Mapping[str, ServiceResult]
    unowned_h: float
    notes: Mapping[str, int]
    reasons: Sequence[Reason]
    series: Series
