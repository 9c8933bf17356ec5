"""Types find their ways, needs say what they cover, and a graph expands `*` over its matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import (
    ANY,
    Budget,
    Cob,
    CobId,
    CobType,
    Graph,
    Limit,
    LimitGroup,
    LockNeed,
    Nothing,
    Role,
    State,
    Transition,
    TransitionNeed,
    Unit,
    cob_id,
    host_of,
    name_of,
)

GROUPS = {"off": ("down", "outdated"), "on": ("standby", "up"), "hot": ("up",)}
STATES = ("outdated", "down", "up", "standby")


def make_type(matrix: Sequence[tuple[State, State]], states: tuple[State, ...] = STATES) -> CobType:
    return CobType(
        name="t",
        states=states,
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=tuple(Transition(source=a, dest=b, action=Nothing()) for a, b in matrix),
    )


def words(way: tuple[Transition, ...] | None) -> list[str] | None:
    return None if way is None else [str(step) for step in way]


def test_steps_by_role_can_be_looked_up() -> None:
    """What is done counts by its value, whatever its variables hold."""
    roles = [Role(name="r", vars={"a": [1]}), Role(name="r", vars={"a": [2]}), Role(name="r")]
    steps = [Transition(source="a", dest="b", action=role) for role in roles]
    assert list(dict.fromkeys([*steps, *steps])) == steps


def test_ids_have_a_host_and_a_name() -> None:
    cob = Cob(id=cob_id("db1.example", "pg/main"), type=make_type([]))
    assert cob.id == "db1.example/pg/main"
    assert (cob.host, cob.name) == ("db1.example", "pg/main")
    assert (host_of(cob.id), name_of(cob.id)) == ("db1.example", "pg/main")


def test_the_way_is_the_shortest() -> None:
    kind = make_type([("down", "standby"), ("standby", "up"), ("down", "up")])
    assert words(kind.way("down", "up")) == ["down -> up"]


def test_among_equally_short_ways_the_first_declared_wins() -> None:
    first = make_type(
        [("outdated", "standby"), ("outdated", "down"), ("down", "up"), ("standby", "up")]
    )
    assert words(first.way("outdated", "up")) == ["outdated -> standby", "standby -> up"]
    second = make_type(
        [("outdated", "down"), ("outdated", "standby"), ("standby", "up"), ("down", "up")]
    )
    assert words(second.way("outdated", "up")) == ["outdated -> down", "down -> up"]


def test_a_way_to_where_one_is_has_no_step_and_there_may_be_none() -> None:
    kind = make_type([("down", "up")])
    assert kind.way("up", "up") == ()
    assert kind.way("up", "down") is None


def test_a_matrix_is_asked_for_one_entry() -> None:
    kind = make_type([("down", "up")])
    assert str(kind.transition("down", "up")) == "down -> up"
    assert kind.transition("up", "down") is None


MATRICES = st.lists(
    st.tuples(st.sampled_from(STATES), st.sampled_from(STATES)).filter(lambda p: p[0] != p[1]),
    unique=True,
    max_size=10,
)


def closure(matrix: Sequence[tuple[State, State]], source: State) -> dict[State, int]:
    """Return how many steps away each state is: the dumb way, by waves."""
    away = {source: 0}
    while True:
        wave = {b: away[a] + 1 for a, b in matrix if a in away and b not in away}
        if not wave:
            return away
        away |= wave


@given(MATRICES, st.sampled_from(STATES), st.sampled_from(STATES))
def test_ways_are_as_short_as_the_dumb_search_says(
    matrix: list[tuple[State, State]], source: State, dest: State
) -> None:
    way = make_type(matrix).way(source, dest)
    away = closure(matrix, source)
    if way is None:
        assert dest not in away
        return
    assert len(way) == away[dest]
    assert all((step.source, step.dest) in matrix for step in way)
    assert all(one.dest == two.source for one, two in pairwise(way))
    if way:
        assert (way[0].source, way[-1].dest) == (source, dest)


A, B = CobId("h1/a"), CobId("h2/b")


@pytest.mark.parametrize(
    ("source", "dest", "covered"),
    [
        ("down", "up", True),
        (ANY, "up", True),
        ("down", ANY, True),
        (ANY, ANY, True),
        ("up", "down", False),
        ("outdated", ANY, False),
    ],
)
def test_a_transition_need_covers_steps(source: State, dest: State, *, covered: bool) -> None:
    need = TransitionNeed(cob=A, source=source, dest=dest, on=B, state="up")
    assert need.covers("down", "up") is covered


def test_needs_read_as_in_the_paper() -> None:
    moves = TransitionNeed(cob=A, source="down", dest="up", on=B, state="up")
    lends = LockNeed(cob=A, within="up", on=B, state="up")
    assert str(moves) == "(h1/a, down -> up) <- (h2/b, up)"
    assert str(lends) == "(h1/a, up) <- (h2/b, up)"
    assert lends.covers("up")
    assert not lends.covers("down")
    assert LockNeed(cob=A, within=ANY, on=B, state="up").covers("down")


def test_a_graph_expands_stars_over_its_matrices() -> None:
    kind = make_type([("down", "up"), ("up", "down"), ("outdated", "up")])
    graph = Graph(
        cobs={cob: Cob(id=cob, type=kind) for cob in (A, B)},
        needs=(
            TransitionNeed(cob=A, source=ANY, dest="up", on=B, state="up"),
            LockNeed(cob=A, within=ANY, on=B, state="up"),
            LockNeed(cob=B, within="up", on=A, state="up"),
        ),
    )
    assert graph.hosts() == ("h1", "h2")
    assert [(need.source, need.dest) for need in graph.transition_needs()] == [
        ("down", "up"),
        ("outdated", "up"),
    ]
    assert [(need.cob, need.within) for need in graph.lock_needs()] == [
        (A, "outdated"),
        (A, "down"),
        (A, "up"),
        (A, "standby"),
        (B, "up"),
    ]


def test_a_graph_names_the_limits_of_both_kinds_that_speak_of_an_object() -> None:
    """Each of which part of it, by failure domain or by unit, it is in."""
    group = LimitGroup(name="", members=frozenset({A, B}), bound=1)
    units = (Unit(name="h1", members=frozenset({A})),)
    graph = Graph(
        cobs={},
        limits=(Limit(name="in flight", groups=(group,)),),
        budgets=(Budget(name="all out", units=units),),
    )
    assert graph.bounded() == {A: ["all out", "in flight"], B: ["in flight"]}


def grouped(matrix: Sequence[tuple[State, State]]) -> CobType:
    return replace(make_type(matrix), groups=GROUPS)


def test_a_need_can_name_states_and_groups() -> None:
    kind = grouped([])
    assert [name for name in ("up", "off", "of", ANY) if kind.knows(name)] == ["up", "off"]
    assert kind.members("off") == ("down", "outdated")
    assert kind.members("up") == ("up",)


def test_a_request_for_a_group_is_for_the_present_state_or_the_nearest() -> None:
    kind = grouped([("outdated", "down"), ("down", "standby"), ("standby", "up"), ("up", "down")])
    assert kind.stands_for("on", "up") == "up"
    assert kind.stands_for("on", "outdated") == "standby"
    assert kind.stands_for("off", "up") == "down"
    assert kind.stands_for("up", "outdated") == "up"
    assert grouped([]).stands_for("off", "up") == "down"  # no way: the first


@given(st.lists(st.sampled_from([*STATES, *GROUPS]), min_size=1))
def test_what_satisfies_several_needs_satisfies_each(names: list[str]) -> None:
    kind = grouped([])
    common = set(STATES).intersection(*map(kind.members, names))
    both = kind.meet(names)
    assert both is None if not common else both is not None and set(kind.members(both)) <= common
    if both in names:
        assert set(kind.members(both)) == common


@pytest.mark.parametrize(
    ("role", "said", "globs"),
    [
        ("nginx", None, ("nginx_*",)),
        ("geerlingguy.nginx", None, ("nginx_*",)),
        ("my.own.far-away", None, ("far_away_*",)),
        ("/srv/site.d/roles/web", None, ("web_*",)),
        ("nginx", (), ()),
        ("nginx", ("a_*", "b"), ("a_*", "b")),
    ],
)
def test_which_variables_are_content(
    role: str, said: tuple[str, ...] | None, globs: tuple[str, ...]
) -> None:
    """Those that begin with the last part of a role's name, unless the type says it."""
    step = Transition(source="down", dest="up", action=Role(name=role))
    kind = CobType(
        name="t",
        states=("down", "up"),
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=(step,),
        inputs=said,
    )
    assert kind.input_globs() == globs
