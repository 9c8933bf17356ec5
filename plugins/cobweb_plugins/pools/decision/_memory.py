"""What a round remembers for the next one: JSON outside, these fields within a round."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from cobweb_plugins.pools.decision._pools import Pools

T = TypeVar("T")

_FORMAT = 1

_FIRST_REST_S = 60.0
_LONGEST_REST_S = 3600.0


@dataclass(slots=True)
class Condition:
    """Whether an SLO is unfulfilled, and since when it is so."""

    unmet: bool
    since_s: float


@dataclass(slots=True)
class Request:
    """What became of a need: when it last got something, and whether its KPI fell by that.

    `value` is the KPI at the first of the `grants` that have not lowered it; after two of them the
    need rests until `rest_s`, each time twice as long.
    """

    since_s: float
    granted_s: float = 0.0
    value: float = 0.0
    grants: int = 0
    rests: int = 0
    rest_s: float = 0.0

    def rest(self, now_s: float) -> float:
        """Let the need rest, longer each time; return for how long."""
        long_s: float = min(_FIRST_REST_S * 2.0**self.rests, _LONGEST_REST_S)
        self.rests, self.grants, self.rest_s = self.rests + 1, 0, now_s + long_s
        return long_s


@dataclass(slots=True)
class Step:
    """A move of a resource, for which SLO, and the SLO that needed it before, "" if none did."""

    at_s: float
    source: str
    target: str
    winner: str
    loser: str


@dataclass(slots=True, kw_only=True)
class Memory:
    """What rounds remember.

    `conditions` is by service, SLO and value of `per` ("" without). `idle` says since when members
    are idle, `heard` when those that leave were last heard of. `requests` is by service and
    the key of a need. `moves` are the times of moves, for the budget; `paths` those of each
    resource, for the circle detector; `resting` until when it has stopped one. `blacklist` has the
    reason why a service cannot use a resource.
    """

    now_s: float = 0.0
    conditions: dict[str, dict[str, dict[str, Condition]]] = field(default_factory=dict)
    idle: dict[str, float] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    requests: dict[str, dict[str, Request]] = field(default_factory=dict)
    moves: list[float] = field(default_factory=list)
    paths: dict[str, list[Step]] = field(default_factory=dict)
    resting: dict[str, float] = field(default_factory=dict)
    blacklist: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any], now_s: float) -> Memory:
        """Return a copy of what the last round remembered, with the later of the two times."""
        return cls(
            now_s=max(now_s, data.get("now_s", now_s)),
            conditions={
                service: {
                    slo: {value: Condition(*it) for value, it in by_value.items()}
                    for slo, by_value in by_slo.items()
                }
                for service, by_slo in data.get("conditions", {}).items()
            },
            idle=dict(data.get("idle", {})),
            heard=dict(data.get("heard", {})),
            requests={
                service: {key: Request(**it) for key, it in by_key.items()}
                for service, by_key in data.get("requests", {}).items()
            },
            moves=list(data.get("moves", ())),
            paths={
                id_: [Step(*step) for step in path] for id_, path in data.get("paths", {}).items()
            },
            resting=dict(data.get("resting", {})),
            blacklist={name: dict(it) for name, it in data.get("blacklist", {}).items()},
        )

    def data(self) -> Mapping[str, Any]:
        """Return it as JSON."""
        return {
            "format": _FORMAT,
            "now_s": self.now_s,
            "conditions": {
                service: {
                    slo: {value: [it.unmet, it.since_s] for value, it in sorted(by_value.items())}
                    for slo, by_value in sorted(by_slo.items())
                }
                for service, by_slo in sorted(self.conditions.items())
            },
            "idle": dict(sorted(self.idle.items())),
            "heard": dict(sorted(self.heard.items())),
            "requests": {
                service: {key: asdict(it) for key, it in sorted(by_key.items())}
                for service, by_key in sorted(self.requests.items())
            },
            "moves": self.moves,
            "paths": {
                id_: [[it.at_s, it.source, it.target, it.winner, it.loser] for it in path]
                for id_, path in sorted(self.paths.items())
            },
            "resting": dict(sorted(self.resting.items())),
            "blacklist": {name: dict(sorted(it.items())) for name, it in self.blacklist.items()},
        }

    def forget(self, pools: Pools) -> None:
        """Drop what is too old to count, and what is of no resource or service of the pools."""
        budget_s = pools.budget.per_s if pools.budget else 0.0
        self.conditions = _only(self.conditions, pools.services)
        self.requests = _only(self.requests, pools.services)
        self.idle = _only(self.idle, pools.resources)
        self.blacklist = {
            name: _only(it, pools.resources)
            for name, it in _only(self.blacklist, pools.services).items()
        }
        self.moves = [at for at in self.moves if at > self.now_s - budget_s]
        self.resting = {id_: end for id_, end in self.resting.items() if end > self.now_s}
        self.paths = {
            id_: young
            for id_, path in self.paths.items()
            if (young := [step for step in path if step.at_s > self.now_s - pools.circle_s])
        }


def _only(found: Mapping[str, T], names: Container[str]) -> dict[str, T]:
    return {name: it for name, it in found.items() if name in names}
