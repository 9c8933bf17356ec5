"""Objects with `trust_s`: nothing relies on a state of theirs at which nobody has looked since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import (
    CheckEnded,
    Effect,
    Engine,
    HostVanished,
    Input,
    Lending,
    Receive,
    StartCheck,
    StartTransition,
)
from cobweb.model import CobId, Graph, Limit, LimitGroup, State
from cobweb.testing.simulation import Simulation
from tests.engine.test_promises_never_break import FAULTS, simulations
from tests.support.drive import Drive
from tests.support.graphs import graph_of

GATE, A, B = CobId("x/gate"), CobId("y/a"), CobId("z/b")
NEEDS = ("y/a down>up x/gate up", "z/b down>up x/gate up")


def gated(trust_s: float, *needs: str) -> Graph:
    """Return two objects that need a gate to come up."""
    graph = graph_of("x/gate y/a z/b", *(needs or NEEDS))
    cobs = {**graph.cobs, GATE: replace(graph.cobs[GATE], trust_s=trust_s)}
    return replace(graph, cobs=cobs)


def test_a_gate_is_checked_before_it_is_lent_and_once_for_all_who_ask() -> None:
    drive = Drive(gated(0), {GATE: "up", A: "down", B: "down"})
    assert not [line for line in drive.first if "->" in line]
    assert drive.checking == {GATE}
    assert drive.engine.locks() == ((GATE, A, "up"), (GATE, B, "up"))
    drive.now_s = 3.0
    steps = [line for line in drive.checked(GATE, "up") if "->" in line]
    assert sorted(steps) == ["y/a down -> up [x/gate up]", "z/b down -> up [x/gate up]"]


def test_a_gate_that_does_not_hold_any_more_lets_nobody_go() -> None:
    drive = Drive(gated(0), {GATE: "up", A: "down", B: "down"})
    assert "x/gate down -> up" in drive.checked(GATE, "down")
    drive.ended(GATE, ok=False)
    drive.checked(GATE, "down")
    assert drive.engine.states() == {GATE: "down", A: "down", B: "down"}
    assert drive.why("y/a") == "y/a lock x/gate up, x/gate failed down"


def test_what_was_found_is_trusted_as_long_as_the_gate_says() -> None:
    """The second one has had its lock all the time that the first one took."""
    for now_s, checks in ((60.0, False), (60.5, True)):
        drive = Drive(gated(60, *NEEDS, "z/b down>up y/a up"))
        for cob, state in ((GATE, "up"), (A, "down"), (B, "down")):
            drive.checked(cob, state)
        drive.now_s = now_s
        steps = [line for line in drive.ended(A) if "z/b down -> up" in line]
        assert (GATE in drive.checking) is checks is not bool(steps)


def test_several_gates_are_looked_at_side_by_side_and_once() -> None:
    """However long the slowest check takes: else they would be looked at for ever."""
    graph = graph_of("x/g1 x/g2 y/a", "y/a down>up x/g1 up", "y/a down>up x/g2 up")
    cobs = {cob: replace(it, trust_s=0.0) for cob, it in graph.cobs.items() if cob != A}
    states: dict[str, State] = {"x/g1": "up", "x/g2": "up", A: "down"}
    for first in ((), ("x/g1", "x/g2", "y/a")):  # known before, or found one after the other
        drive = Drive(replace(graph, cobs={**graph.cobs, **cobs}), {} if first else states)
        lines: list[str] = []
        for count, cob in enumerate((*first, "x/g1", "x/g2")):
            assert not [line for line in lines if "->" in line]
            assert cob in drive.checking
            drive.now_s += 10.0 * (count + 1)
            lines = drive.checked(cob, states[cob])
        assert "y/a down -> up [x/g1 up] [x/g2 up]" in lines


def test_a_lock_that_was_out_before_this_run_is_worth_nothing_without_a_look() -> None:
    """It was granted when somebody looked, in an earlier run."""
    states: dict[str, State] = {GATE: "up", A: "down", B: "down"}
    drive = Drive(gated(0), states, locks=((GATE, A, "up"),))
    assert not [line for line in drive.first if "->" in line]
    assert drive.checking == {GATE}


def test_who_has_waited_for_room_has_the_gate_looked_at_once_more() -> None:
    """Both were about to start when somebody looked; the second one starts later."""
    members = frozenset({A, B})
    group = LimitGroup(name="", members=members, bound=1)
    limit = Limit(name="one", source="down", dest="up", groups=(group,))
    drive = Drive(replace(gated(0), limits=(limit,)), {GATE: "up", A: "down", B: "down"})
    drive.now_s = 3.0
    (first,) = [line for line in drive.checked(GATE, "up") if "->" in line]
    drive.now_s = 9.0
    drive.ended(first.split()[0])
    assert drive.checking == {GATE}
    assert len([line for line in drive.checked(GATE, "up") if "->" in line]) == 1


def test_a_gate_whose_host_is_lost_is_not_looked_at() -> None:
    drive = Drive(gated(60), {A: "down", B: "down"})
    drive.step(HostVanished(host="x"))
    assert not [line for line in drive.lines if "->" in line]
    assert drive.why("y/a") == "y/a lock x/gate up, x/gate unreachable"
    lent = ((GATE, A, "up"),)  # since before its host was given up
    given_up = Lending(given_up=frozenset({"x"}))
    drive = Drive(gated(60), {A: "down", B: "down"}, locks=lent, lending=given_up)
    assert not [line for line in drive.lines if "->" in line or "check" in line]


def test_nobody_looks_at_a_gate_on_which_nothing_relies() -> None:
    drive = Drive(gated(0), {GATE: "up", A: "up", B: "up"})
    assert drive.engine.idle()
    assert not drive.checking


@dataclass(slots=True)
class Watched(Simulation):
    """Notes steps that rely on gates at which nobody has looked within their trust.

    What was looked at while the last of their checks went on counts: they end one by one.
    """

    looked: dict[CobId, tuple[float, float]] = field(default_factory=dict, init=False)
    begun_s: dict[CobId, float] = field(default_factory=dict, init=False)
    stale: list[tuple[CobId, CobId]] = field(default_factory=list, init=False)

    def _step(self, cob: CobId, event: Input) -> None:
        if isinstance(event, CheckEnded):
            self.looked[cob] = (self.begun_s[cob], self.now_s)
        before = len(self.history)
        Simulation._step(self, cob, event)
        for effect in self.history[before:]:
            if isinstance(effect, StartTransition):
                self._look(effect)

    def _carry_out(self, engine: Engine, effects: Iterable[Effect]) -> None:
        effects = tuple(effects)
        checks = [effect.cob for effect in effects if isinstance(effect, StartCheck)]
        self.begun_s.update(dict.fromkeys(checks, self.now_s))
        Simulation._carry_out(self, engine, effects)

    def _look(self, effect: StartTransition) -> None:
        trusts = {on: self.graph.cobs[on].trust_s for on, _ in effect.locks}
        gates = {on: trust_s for on, trust_s in trusts.items() if trust_s is not None}
        looks = {on: self.looked.get(on, (-1.0e9, -1.0e9)) for on in gates}
        now = [begun_s for begun_s, ended_s in looks.values() if ended_s == self.now_s]
        for on, trust_s in gates.items():
            in_round = looks[on][1] >= min(now, default=self.now_s)
            is_ours = self._owner[on] is self._owner[effect.cob]
            if is_ours and not in_round and self.now_s - looks[on][1] > trust_s:
                self.stale.append((effect.cob, on))


@given(st.integers(1, 3).flatmap(lambda parts: simulations(faults=FAULTS, parts=parts)))
def test_nothing_starts_on_old_knowledge_of_a_gate(simulation: Simulation) -> None:
    """Over several engines, lost mail, failures and hosts that come back."""
    names = ("graph", "random", "truth", "states", "owners", "faults", "options")
    watched = Watched(**{name: getattr(simulation, name) for name in names})
    watched.run()
    assert watched.stale == []


def test_a_gate_is_lent_to_other_engines_after_a_look() -> None:
    """They cannot look themselves."""
    ours = Drive(gated(0), {GATE: "up"}, owned=frozenset({GATE}))
    others = Drive(gated(0), {A: "down", B: "up"}, owned=frozenset({A, B}))
    (asks,) = others.sent
    ours.now_s = 2.0
    ours.step(Receive(message=asks))
    assert ours.checking == {GATE}
    assert ours.engine.locks() == ()
    ours.checked(GATE, "up")
    assert ours.engine.locks() == ((GATE, A, "up"),)
