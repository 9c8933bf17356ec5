"""What a run is given: what is known, what is wanted, and how hosts get from one to the other.

The kernel evaluates nothing. It asks this for an engine, for the contents and specs of objects by
what their hosts know at the moment, and for what the journal has to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

from cobweb.engine import Changeover, Engine
from cobweb.kernel._events import EventBody
from cobweb.kernel._result import Wait
from cobweb.model import CobId, Graph, State
from cobweb.store import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Protocol):
    """The execution context of one run; frozen.

    `graph` has the objects of both generations, `known` the states that the run goes on from
    without a check. Groups of hosts in `at_once` have switched to `generation` when the run begins;
    `changed` are the objects with another content on them. `held` are old locks in force (object,
    holder, state), `left` what is left alone since it is known that it would wait for ever. Those
    of `renew` are taken for changed. Of objects in `away` the state follows from a machine that is
    not there. `first_names` are what hosts know objects by that were renamed. `in_base` asks for
    what an object is to a host that has not switched yet.
    """

    graph: Graph
    generation: int
    change: Changeover | None = None
    at_once: tuple[tuple[str, ...], ...] = ()
    held: tuple[tuple[CobId, CobId, State], ...] = ()
    left: tuple[Wait, ...] = ()
    first_names: Mapping[CobId, CobId] = field(default_factory=dict)
    renew: frozenset[CobId] = frozenset()

    # What these say is written at `operations.context.ExecutionContext`.
    @property
    def known(self) -> Mapping[CobId, State]: ...
    @property
    def changed(self) -> AbstractSet[CobId]: ...
    @property
    def away(self) -> AbstractSet[CobId]: ...
    @property
    def given_up(self) -> AbstractSet[str]: ...
    def engine(self, **options: Any) -> Engine: ...
    def beliefs(self) -> dict[str, Any]: ...
    def is_new(self, cob: CobId) -> bool: ...
    def can_probe(self, cob: CobId) -> bool: ...
    def content(self, cob: CobId, *, in_base: bool) -> str | None: ...
    def spec(self, cob: CobId, *, in_base: bool) -> Mapping[str, Any]: ...
    def applied(self, cob: CobId) -> Mapping[str, Any] | None: ...
    def recorded(self, cob: CobId) -> State | None: ...
    def first(self) -> Iterator[Entry]: ...
    def switched(self, hosts: Iterable[str]) -> Iterator[Entry]: ...
    def told(self, hosts: Iterable[str]) -> Iterator[EventBody]: ...
    def waits(self, engine: Engine) -> Sequence[Wait]: ...
