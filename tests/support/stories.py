"""Random stories of inputs to engines that share nothing, with all mishaps and with nonsense.

Other than `cobweb.testing.simulation` there is no truth behind what the engines are told: checks
find any state, and inputs come that no runtime would give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from cobweb.engine import (
    STAY,
    CheckDropped,
    CheckEnded,
    Effect,
    Engine,
    EngineSettings,
    Halt,
    HostReturned,
    HostVanished,
    Input,
    LimitResumed,
    Message,
    MessageKind,
    Receive,
    Send,
    StartTransition,
    StateDoubted,
    StateFound,
    TransitionDropped,
    TransitionEnded,
)
from cobweb.errors import ProtocolError
from cobweb.model import CobId, Graph, Limit, LimitGroup, State, host_of
from cobweb.testing.promises import check_promises
from cobweb.testing.simulation import graph_json, public_event
from tests.support.graphs import asked_of, graphs, starts
from tests.support.words import words

Locks = list[tuple[CobId, CobId, State]]
"""Locks of an earlier life: (locked, holder, state)."""

CRASH, DELIVER, REPEAT = 0.02, 0.4, 0.9
"""Of what happens up to the first are crashes, then deliveries, after the last repetitions."""


class Story:
    """Engines over one graph to which anything happens, likely or not, as a seed says.

    `owners` are disjoint sets of objects; mail to objects without an owner is lost. Checks find any
    state, jobs end or are dropped, hosts vanish and return, coordinators die, mail is lost, doubled
    and late; with `forges` a message may say what its sender never said.
    """

    def __init__(
        self,
        graph: Graph,
        random: Random,
        owners: list[frozenset[CobId]],
        *,
        forges: bool = False,
        **options: Any,
    ) -> None:
        self.graph = graph
        self.random = random
        self.owners = owners
        self.forges = forges
        self.options = options
        self.engines: list[Engine] = []
        self.log: list[object] = []
        self._mail: list[Message] = []
        self._lives: list[list[dict[str, Any]]] = []
        self._running: dict[CobId, StartTransition] = {}
        self._untrue: set[CobId] = set()

    def __repr__(self) -> str:
        needs = [str(need) for need in self.graph.needs]
        return f"Story({needs}, {self.options}, {self.owners}, {self.log})"

    def begin(self, states: Mapping[CobId, State], locks: Locks) -> None:
        """Start all engines, from made-up states and locks of an earlier life."""
        self._lives.append([])
        self._running.clear()
        self.engines = [
            Engine(self.graph, owned=owned, incarnation=len(self._lives), **self.options)
            for owned in self.owners
        ]
        begun = [effect for engine in self.engines for effect in engine.start(states, locks)]
        # Old locks are known to their holders before the engines of what they lock tell of them.
        self._take(tuple(sorted(begun, key=lambda effect: isinstance(effect, StartTransition))))

    def happen(self) -> None:
        """Let one thing happen to one engine."""
        engine = self.random.choice(self.engines)
        pick = self.random.random()
        if pick < CRASH:
            self._crash()
        elif self._mail and pick < DELIVER:
            self._deliver()
        elif pick > REPEAT:
            self._take(engine.resend())
        else:
            self._give(engine, self._input(engine))

    def broken(self) -> list[str]:
        """Return what of P1 to P4 was broken in any life; a story has no end that P5 speaks of.

        An object that the world moved while it was locked, or whose lock was made up, is not where
        its holders believe it to be, and so it is with what it lends: that is no engine's fault.
        """
        known = graph_json(self.graph)
        lines = [line for events in self._lives for line in check_promises(events, known)]
        return [line for line in lines if not line.startswith("P5") and not self._is_excused(line)]

    def _is_excused(self, line: str) -> bool:
        text = line.partition(": ")[2]
        return any(f"without {cob} " in text or f"{cob} lends" in text for cob in self._untrue)

    def lock(self) -> tuple[CobId, CobId, State]:
        """Make up a lock."""
        locked = self.random.choice(sorted(frozenset().union(*self.owners)))
        holder = self.random.choice(sorted(self.graph.cobs.keys() - {locked}))
        self._untrue.add(locked)
        return locked, holder, self.random.choice(asked_of(self.graph.cobs[locked].type))

    def _crash(self) -> None:
        """Begin anew, sometimes with a lock that nobody remembers, or with mail of before."""
        states: dict[CobId, State] = {}
        locks: Locks = []
        for engine in self.engines:
            busy = engine.busy()
            states |= {cob: state for cob, state in engine.states().items() if cob not in busy}
            locks += engine.locks()
        if self.random.random() < 0.5:
            locks.append(self.lock())
        if self.random.random() < 0.5:
            self._mail.clear()
        self.begin(states, locks)

    def _deliver(self) -> None:
        at = self.random.randrange(len(self._mail))
        message = self._mail[at] if self.random.random() < 0.2 else self._mail.pop(at)
        if self.forges and self.random.random() < 0.1:
            message = self._forged(message)
        for engine, owned in zip(self.engines, self.owners, strict=True):
            if message.receiver in owned and self.random.random() < 0.9:
                self._give(engine, Receive(message=message))

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

    def _input(self, engine: Engine) -> Input:
        """Make up an input, mostly the end of something that the engine has begun."""
        random = self.random
        busy = sorted(engine.busy())
        if not busy or random.random() < 0.15:
            return self._any_input(random.choice(sorted(self.graph.cobs)))
        cob = random.choice(busy)
        if cob in self._running:
            return TransitionEnded(cob=cob, ok=random.random() < 0.97)
        failed = random.random() < 0.03
        return CheckEnded(cob=cob, state=None if failed else random.choice(self._states_of(cob)))

    def _any_input(self, cob: CobId) -> Input:
        """Make up an input that may not fit."""
        random = self.random
        host = random.choice(self.graph.hosts())
        limits = [limit.name for limit in self.graph.limits]
        kind = random.choices(range(9), [5, 5, 5, 5, 5, 20, 0.5, 5, 15])[0]
        return (
            CheckEnded(cob=cob, state=random.choice([*self._states_of(cob), None])),
            CheckDropped(cob=cob),
            TransitionEnded(cob=cob, ok=random.random() < 0.9),
            TransitionDropped(cob=cob),
            HostVanished(host=host),
            HostReturned(host=host),
            Halt(),
            LimitResumed(limit=random.choice([*limits, "other"])),
            StateDoubted(cob=cob),
        )[kind]

    def _states_of(self, cob: CobId) -> tuple[State, ...]:
        return self.graph.cobs[cob].type.states

    def _give(self, engine: Engine, event: Input) -> None:
        """Give one input; what is refused changes nothing, and who waits can say for what."""
        self.log.append(event)
        self._doubt(event)
        before = engine.states(), engine.busy(), engine.locks()
        try:
            effects = engine.step(event)
        except ProtocolError:
            assert (engine.states(), engine.busy(), engine.locks()) == before
            return
        if isinstance(event, TransitionDropped) and event.cob in self._running:
            self._end(event.cob, engine.state(event.cob))
        self._take(effects)
        chains = [engine.chain(cob) for cob in engine.unsettled()]
        assert all(chains) or not engine.idle(), chains

    def _doubt(self, event: Input) -> None:
        """Note which locked objects are about to be found elsewhere."""
        locked = {cob for engine in self.engines for cob, _, _ in engine.locks()}
        match event:
            case StateDoubted(cob=cob):
                self._untrue |= locked & {cob}
            case HostReturned(host=host):
                self._untrue |= {cob for cob in locked if host_of(cob) == host}
            case _:
                pass

    def _take(self, effects: tuple[Effect, ...]) -> None:
        """Note effects in the order in which they are made, as the public events of a run."""
        self.log.append(effects)
        for effect in effects:
            match effect:
                case Send(message=message):
                    self._mail.append(message)
                case StartTransition(cob=cob):
                    self._running[cob] = effect
                case StateFound(cob=cob, state=state) if cob in self._running:
                    self._end(cob, state)
                case _:
                    pass
            event = public_event(effect)
            if event is not None:
                self._lives[-1].append(event)

    def _end(self, cob: CobId, state: State) -> None:
        """Tell that a transition does not run any more."""
        step = self._running.pop(cob).transition
        ways = {"cob": cob, "from": step.source, "to": step.dest, "state": state}
        result = "ok" if state == step.dest else "failed"
        self._lives[-1].append({"type": "transition.end", "result": result, **ways})


@st.composite
def limits_of(draw: st.DrawFn, graph: Graph) -> tuple[Limit, ...]:
    """Draw up to two limits, each over one or two groups of objects."""
    limits = []
    for number in range(draw(st.integers(0, 2))):
        groups: dict[int, set[CobId]] = {}
        for cob in graph.cobs:
            groups.setdefault(draw(st.integers(0, 2)), set()).add(cob)
        step = draw(st.sampled_from(next(iter(graph.cobs.values())).type.transitions))
        limits.append(
            Limit(
                name=f"limit {number}",
                groups=tuple(
                    LimitGroup(
                        name=str(group), members=frozenset(members), bound=draw(st.integers(1, 2))
                    )
                    for group, members in sorted(groups.items())
                    if group
                ),
                source=draw(st.sampled_from([step.source, "*"])),
                dest=draw(st.sampled_from([step.dest, "*"])),
            )
        )
    return tuple(limits)


@st.composite
def stories(draw: st.DrawFn, *, forges: bool = False) -> Story:
    """Draw a story that has begun, of up to three owners, with old locks and made-up states.

    Objects may have no owner; so an engine that owns all others does not look ahead.
    """
    drawn = draw(st.one_of(graphs(), graphs(max_cobs=8, max_needs=20), words()))
    graph = Graph(cobs=drawn.cobs, needs=drawn.needs, limits=draw(limits_of(drawn)))
    parts = draw(st.integers(1, 3))
    owners: dict[int, set[CobId]] = {0: {min(graph.cobs)}}
    for cob in sorted(graph.cobs)[1:]:
        owners.setdefault(draw(st.integers(0, parts)), set()).add(cob)
    seed = draw(st.integers(0, 2**32))
    owned = [frozenset(cobs) for part, cobs in sorted(owners.items()) if part < parts]
    story = Story(graph, Random(seed), owned, forges=forges, **draw(_options(graph)))
    truth = draw(starts(graph))
    known = {cob: state for cob, state in truth.items() if draw(st.booleans())}
    story.begin(known, [story.lock() for _ in range(draw(st.integers(0, 3)))])
    return story


@st.composite
def _options(draw: st.DrawFn, graph: Graph) -> dict[str, Any]:
    """Draw what the engines are told besides the graph."""
    chosen: dict[str, Any] = {"generation": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["movable"] = {cob for cob in graph.cobs if draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["goals"] = {
            cob.id: draw(st.sampled_from([*cob.type.states, STAY, STAY]))
            for cob in graph.cobs.values()
            if draw(st.booleans())
        }
    if draw(st.integers(0, 3)) == 0:
        chosen["failed"] = {cob for cob in graph.cobs if not draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["settings"] = EngineSettings(
            max_same_transition=draw(st.integers(1, 3)), max_new_plans=draw(st.integers(1, 4))
        )
    return chosen
