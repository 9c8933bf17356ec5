"""The engine and its oracle side by side: every answer of the one has to be that of the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import methodcaller
from random import Random
from typing import Any

from cobweb.engine import (
    CheckDropped,
    CheckEnded,
    Effect,
    Engine,
    Halt,
    HostReturned,
    HostVanished,
    Input,
    LimitResumed,
    Message,
    MessageKind,
    Receive,
    Send,
    StateDoubted,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.errors import ProtocolError
from cobweb.model import Cob, CobId, Graph, State
from tests.support import reference_engine
from tests.support.graphs import asked_of

__all__ = ["Story", "Twin"]

ELSEWHERE = CobId("~/elsewhere")


class Twin:
    """Has the interface of `Engine`; AssertionError where engine and oracle differ.

    The graph of both has one object more than they own, as the oracle does not look ahead.
    """

    def __init__(self, graph: Graph, **options: Any) -> None:
        self.graph = graph
        own = options.pop("owned", None) or frozenset(graph.cobs)
        options.pop("lending", None)
        kind = next(iter(graph.cobs.values())).type
        more = replace(graph, cobs={**graph.cobs, ELSEWHERE: Cob(id=ELSEWHERE, type=kind)})
        self._new = Engine(more, owned=own, **options)
        self._old = reference_engine.Engine(more, owned=own, **options)

    def start(self, states: Any, locks: Any = ()) -> tuple[Effect, ...]:
        """Start both."""
        held = list(locks)
        return self._both(lambda engine: engine.start(states, held))

    def step(self, event: Input) -> tuple[Effect, ...]:
        """Give both one input; a refusal has to be the same too."""
        return self._both(lambda engine: engine.step(event))

    def __getattr__(self, name: str) -> Any:
        """Ask both any other question."""
        return lambda *args: self._same(methodcaller(name, *args))

    def _both(self, do: Callable[[Any], tuple[Effect, ...]]) -> tuple[Effect, ...]:
        try:
            effects: tuple[Effect, ...] = self._same(do)
        finally:
            self._look()
        return effects

    def _same(self, do: Callable[[Any], Any]) -> Any:
        new, old = _tried(do, self._new), _tried(do, self._old)
        assert new == old, f"engine: {new!r}\noracle: {old!r}"
        if isinstance(new, _Refused):
            raise ProtocolError(str(new))
        return new

    def _look(self) -> None:
        for question in ("states", "locks", "busy", "idle", "unsettled", "resend"):
            self._same(methodcaller(question))
        for cob in self._new.states():
            for question in ("state", "target", "blocked", "chain"):
                self._same(methodcaller(question, cob))


class _Refused(str):
    """What a refused input was answered with."""

    __slots__ = ()


def _tried(do: Callable[[Any], Any], engine: Any) -> Any:
    try:
        return do(engine)
    except ProtocolError as error:
        return _Refused(error)


class Story:
    """Twins over one graph to which anything happens, likely or not, as a seed says.

    `owners` partitions the objects. Checks find any state, jobs end or are dropped, hosts vanish
    and return, mail is lost, doubled, late and forged, and inputs come that no runtime would give.
    """

    def __init__(
        self, graph: Graph, random: Random, owners: list[frozenset[CobId]], **options: Any
    ) -> None:
        self.graph = graph
        self.random = random
        self.owners = owners
        self.options = options
        self.life = 0
        self.mail: list[Message] = []
        self.twins: list[Twin] = []
        self.log: list[object] = []

    def __repr__(self) -> str:
        needs = [str(need) for need in self.graph.needs]
        return f"Story({needs}, {self.options}, {self.owners}, {self.log})"

    def begin(self, states: dict[CobId, State], locks: list[tuple[CobId, CobId, State]]) -> None:
        """Start all twins, from made-up states and locks of an earlier life."""
        self.life += 1
        self.twins = [
            Twin(self.graph, owned=owned, incarnation=self.life, **self.options)
            for owned in self.owners
        ]
        for twin in self.twins:
            self._take(twin.start(states, locks))

    def happen(self) -> None:
        """Let one thing happen to one twin."""
        twin = self.random.choice(self.twins)
        pick = self.random.random()
        if pick < 0.02:
            self._crash()
        elif self.mail and pick < 0.4:
            self._deliver()
        else:
            self._give(twin, self._input(twin))

    def _crash(self) -> None:
        """Begin anew, sometimes with locks that nobody remembers."""
        states: dict[CobId, State] = {}
        locks: list[tuple[CobId, CobId, State]] = []
        for twin in self.twins:
            busy = twin.busy()
            states |= {cob: state for cob, state in twin.states().items() if cob not in busy}
            locks += twin.locks()
        if self.random.random() < 0.5:
            locks.append(self._lock())
        if self.random.random() < 0.5:
            self.mail.clear()
        self.begin(states, locks)

    def _lock(self) -> tuple[CobId, CobId, State]:
        locked, holder = self.random.sample(sorted(self.graph.cobs), 2)
        return locked, holder, self.random.choice(asked_of(self.graph.cobs[locked].type))

    def _deliver(self) -> None:
        at = self.random.randrange(len(self.mail))
        message = self.mail[at] if self.random.random() < 0.2 else self.mail.pop(at)
        if self.random.random() < 0.1:
            message = self._forged(message)
        for twin, owned in zip(self.twins, self.owners, strict=True):
            if message.receiver in owned:
                self._give(twin, Receive(message=message))

    def _forged(self, message: Message) -> Message:
        random, states = self.random, asked_of(self.graph.cobs[message.receiver].type)
        field = random.choice(["kind", "state", "incarnation", "seq", "generation", "known"])
        values: dict[str, Callable[[], Any]] = {
            "kind": lambda: random.choice(list(MessageKind)),
            "state": lambda: random.choice(["", *states]),
            "incarnation": lambda: message.incarnation + random.choice([-1, 1, 1 << 20]),
            "seq": lambda: message.seq + random.choice([-1, 1]),
            "generation": lambda: message.generation + 1,
            "known": lambda: random.choice([0, message.known + 1]),
        }
        return replace(message, **{field: values[field]()})

    def _input(self, twin: Twin) -> Input:
        random = self.random
        busy = sorted(twin.busy())
        cob = random.choice(busy if busy and random.random() < 0.9 else sorted(self.graph.cobs))
        state = random.choice([*self.graph.cobs[cob].type.states, None])
        host = random.choice(self.graph.hosts())
        limits = [limit.name for limit in self.graph.limits]
        kind = random.choices(range(9), [30, 3, 40, 3, 4, 6, 0.5, 10 if limits else 0, 4])[0]
        return (
            CheckEnded(cob=cob, state=state),
            CheckDropped(cob=cob),
            TransitionEnded(cob=cob, ok=random.random() < 0.9),
            TransitionDropped(cob=cob),
            HostVanished(host=host),
            HostReturned(host=host),
            Halt(),
            LimitResumed(limit=random.choice([*limits, "other"])),
            StateDoubted(cob=cob),
        )[kind]

    def _give(self, twin: Twin, event: Input) -> None:
        self.log.append(event)
        try:
            self._take(twin.step(event))
        except ProtocolError:
            return

    def _take(self, effects: tuple[Effect, ...]) -> None:
        self.log.append(effects)
        self.mail += [effect.message for effect in effects if isinstance(effect, Send)]
