"""What a round remembers for the next one: JSON outside, these fields within a round."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from cobweb_plugins.pools.decision._pools import Pools

T = TypeVar("T")

_FORMAT = 1

_FIRST_REST_S = 60.0
_LONGEST_REST_S = 3600.0


class Condition(NamedTuple):
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

    def rest(self, now_s: float) -> None:
        """Let the need rest, longer each time."""
        long_s = min(_FIRST_REST_S * 2.0**self.rests, _LONGEST_REST_S)
        self.rests, self.grants, self.rest_s = self.rests + 1, 0, now_s + long_s


class Step(NamedTuple):
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
        found = {
            name: _mapped(data[name], depth, read)
            for name, (depth, read, _) in _SHAPES.items()
            if name in data
        }
        return cls(now_s=max(now_s, data.get("now_s", now_s)), **found)

    def data(self) -> Mapping[str, Any]:
        """Return it as JSON."""
        found = {
            name: _mapped(getattr(self, name), depth, written)
            for name, (depth, _, written) in _SHAPES.items()
        }
        return {"format": _FORMAT, "now_s": self.now_s, **found}

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


_SHAPES: Mapping[str, tuple[int, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "conditions": (3, Condition._make, list),
    "idle": (1, float, float),
    "heard": (1, float, float),
    "requests": (2, lambda it: Request(**it), asdict),
    "moves": (0, list, list),
    "paths": (1, lambda path: [*map(Step._make, path)], lambda path: [*map(list, path)]),
    "resting": (1, float, float),
    "blacklist": (2, str, str),
}
"""How many mappings are within each other, and how what they lead to is read and written."""


def _mapped(found: Any, depth: int, made: Callable[[Any], Any]) -> Any:
    """Return a copy, by sorted keys, with what is made of each value at a depth."""
    if not depth:
        return made(found)
    return {key: _mapped(it, depth - 1, made) for key, it in sorted(found.items())}


def _only(found: Mapping[str, T], names: Container[str]) -> dict[str, T]:
    return {name: it for name, it in found.items() if name in names}
