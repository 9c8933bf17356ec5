"""Builders of small graphs, and Hypothesis strategies for random ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from cobweb.model import (
    Action,
    Budget,
    Cob,
    CobId,
    CobType,
    Graph,
    Limit,
    LockNeed,
    Need,
    Nothing,
    State,
    Tasks,
    Transition,
    TransitionNeed,
    Unit,
    host_of,
)

NAMES = ("s0", "s1", "s2", "s3", "s4")
A, B, CFG = CobId("alpha/a"), CobId("beta/b"), CobId("alpha/cfg")
_MATRIX = (("down", "up"), ("up", "down"), ("outdated", "up"), ("outdated", "down"))
SIMPLE_STEPS = "outdated>down outdated>up down>up up>down"


def make_type(
    name: str, states: str, preferred: State, remove: State, steps: Iterable[tuple[State, State]]
) -> CobType:
    """Make a type; `states` are separated by blanks, highest priority first."""
    return CobType(
        name=name,
        states=tuple(states.split()),
        preferred=preferred,
        remove=remove,
        check=Nothing(),
        transitions=tuple(Transition(source=x, dest=y, action=Nothing()) for x, y in steps),
    )


def steps(text: str) -> list[tuple[State, State]]:
    """Read `a>b c>d`."""
    return [(x, y) for x, _, y in (step.partition(">") for step in text.split())]


SIMPLE = make_type("simple", "outdated down up", "up", "down", steps(SIMPLE_STEPS))


def type_of(states: str, steps_text: str, preferred: State, remove: State = "") -> CobType:
    """Make a type from `a b c` and `a>b b>c`."""
    return make_type("t", states, preferred, remove or preferred, steps(steps_text))


def graph_of(
    cobs: str | dict[str, CobType],
    *needs: str,
    limits: tuple[Limit, ...] = (),
    budgets: tuple[Budget, ...] = (),
) -> Graph:
    """Make a graph; needs read `h/a x>y h/b z` (transition) or `h/c u h/d v` (lock)."""
    types = cobs if isinstance(cobs, dict) else dict.fromkeys(cobs.split(), SIMPLE)
    made = {CobId(i): Cob(id=CobId(i), type=types[i]) for i in sorted(types)}
    read = tuple(need_of(need) for need in needs)
    return Graph(cobs=made, needs=read, limits=limits, budgets=budgets)


def budget_of(
    cobs: str, count: int = 1, *, name: str = "rolling", unit: str = "host", **words: Any
) -> Budget:
    """Make a budget whose units are hosts, or objects, in the order of `cobs`."""
    members: dict[str, set[CobId]] = {}
    for cob in cobs.split():
        key = host_of(CobId(cob)) if unit == "host" else cob
        members.setdefault(key, set()).add(CobId(cob))
    units = tuple(Unit(name=host, members=frozenset(some)) for host, some in members.items())
    return Budget(name=name, units=units, count=count, **words)


def need_of(text: str) -> Need:
    """Read one need."""
    cob, when, on, state = text.split()
    if ">" not in when:
        return LockNeed(cob=CobId(cob), within=when, on=CobId(on), state=state)
    x, _, y = when.partition(">")
    return TransitionNeed(cob=CobId(cob), source=x, dest=y, on=CobId(on), state=state)


@st.composite
def types(draw: st.DrawFn) -> CobType:
    """Draw a type of two to five states with a sparse matrix, any preference, up to two groups."""
    names = NAMES[: draw(st.integers(2, 5))]
    pairs = [(x, y) for x in names for y in names if x != y]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique=True))
    preferred, remove = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    made = make_type("random", " ".join(names), preferred, remove, chosen)
    members = st.lists(st.sampled_from(names), min_size=1, unique=True)
    groups = [draw(members) for _ in range(draw(st.integers(0, 2)))]
    return replace(made, groups={f"g{number}": tuple(it) for number, it in enumerate(groups)})


@st.composite
def graphs(draw: st.DrawFn, max_cobs: int = 6, max_needs: int = 12) -> Graph:
    """Draw a graph on up to three hosts; half of the types are the simple one.

    Some objects are gates, which are looked at before anything relies on them.
    """
    count = draw(st.integers(2, max_cobs))
    ids = [CobId(f"h{draw(st.integers(0, 2))}/c{number}") for number in range(count)]
    kinds = st.one_of(st.just(SIMPLE), types())
    trusts = st.sampled_from((None, None, None, 0.0, 5.0))
    cobs = {i: Cob(id=i, type=draw(kinds), trust_s=draw(trusts)) for i in sorted(ids)}
    number = draw(st.integers(0, max_needs))
    needs = [draw(needs_of(cobs)) for _ in range(number)]
    return Graph(cobs=cobs, needs=tuple(sorted(set(needs), key=str)))


@st.composite
def needs_of(draw: st.DrawFn, cobs: dict[CobId, Cob]) -> Need:
    """Draw one need between two different objects."""
    cob, on = draw(st.permutations(sorted(cobs)))[:2]
    state = draw(st.sampled_from(asked_of(cobs[on].type)))
    if draw(st.integers(0, 3)) == 0:
        within = draw(st.sampled_from(cobs[cob].type.states))
        return LockNeed(cob=cob, within=within, on=on, state=state)
    step = draw(st.sampled_from(cobs[cob].type.transitions))
    source = draw(st.sampled_from([step.source, "*"]))
    return TransitionNeed(cob=cob, source=source, dest=step.dest, on=on, state=state)


def asked_of(kind: CobType) -> tuple[str, ...]:
    """Return all that a need can name: the states of a type and its groups."""
    return (*kind.states, *kind.groups)


@st.composite
def starts(draw: st.DrawFn, graph: Graph) -> dict[CobId, State]:
    """Draw a true state for each object."""
    return {i: draw(st.sampled_from(cob.type.states)) for i, cob in graph.cobs.items()}


def simple(*, attempts: int = 1, action: Action | None = None) -> CobType:
    """Return the paper's example type."""
    work = action or Tasks(path="/tasks/work.yml")
    return CobType(
        name="simple",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=work if action else Tasks(path="/tasks/check.yml"),
        transitions=tuple(
            Transition(source=source, dest=dest, action=work, attempts=attempts)
            for source, dest in _MATRIX
        ),
    )


def figure_one(cob_type: CobType | None = None) -> Graph:
    """Return service B needing service A on another host, and A's configuration."""
    kind = cob_type or simple()
    needs: tuple[Need, ...] = (
        TransitionNeed(cob=B, source="*", dest="up", on=A, state="up"),
        TransitionNeed(cob=A, source="*", dest="down", on=B, state="down"),
        TransitionNeed(cob=CFG, source="outdated", dest="*", on=A, state="down"),
        TransitionNeed(cob=A, source="*", dest="up", on=CFG, state="up"),
    )
    cobs = {cob: Cob(id=cob, type=kind, spec={"port": 1}) for cob in sorted((A, B, CFG))}
    return Graph(cobs=cobs, needs=needs)
