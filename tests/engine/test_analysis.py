"""What `analyse` finds, what it prints, and what it must not find."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks._sites import large_graph
from cobweb.engine import Trouble, TroubleKind, TroubleLink, analyse
from cobweb.engine.analysis._analysis import _Analysis, _Prospects
from cobweb.engine.analysis._circles import circles
from cobweb.engine.analysis._patterns import Pattern
from cobweb.errors import Place
from cobweb.model import CobId, CobType, Graph, LockNeed, TransitionNeed
from cobweb.testing.simulation import Simulation
from tests.support.examples import examples
from tests.support.graphs import SIMPLE, graph_of, graphs, need_of, starts, type_of
from tests.support.problems import several_states
from tests.support.search import Search
from tests.support.words import after, binds, requires, stops, words

NO_WAY_UP = type_of("down up", "up>down", "up", "down")
ONE_WAY = type_of("down up", "down>up", "up", "down")
NEVER_OUT = type_of("odd down up", "down>up up>down odd>down", "up", "down")


def graph_with(*words_: list[str], cobs: str = "x/a x/b x/c") -> Graph:
    """Make a graph of usual words."""
    return graph_of(cobs, *[need for needs in words_ for need in needs])


GROUPED = replace(
    type_of("outdated down up", "outdated>down down>up up>down", "up", "down"),
    groups={"off": ("outdated", "down"), "on": ("up",), "any": ("up", "down")},
)


@pytest.mark.parametrize("word", [after, requires, binds, stops])
def test_the_usual_words_alone_and_in_chains_are_no_trouble(word: object) -> None:
    """What the site's four words make must be valid wherever it is not a circle."""
    assert callable(word)
    assert analyse(graph_with(word("x/a", "x/b"))) == ()
    assert analyse(graph_with(word("x/a", "x/b"), word("x/b", "x/c"))) == ()
    assert analyse(graph_with(word("x/a", "x/c"), word("x/b", "x/c"))) == ()
    assert analyse(graph_with(word("x/a", "x/b"), word("x/a", "x/c"))) == ()


def test_figure_1_is_no_trouble() -> None:
    """B requires A, cfg stops A."""
    assert analyse(graph_with(requires("x/b", "x/a"), stops("x/c", "x/a"))) == ()


def test_a_circle_of_waits_is_printed_line_by_line() -> None:
    """The circle begins with its smallest id and names each step."""
    graph = graph_with(after("x/b", "x/a"), after("x/a", "x/b"))
    (trouble,) = analyse(graph)
    assert trouble.kind is TroubleKind.CIRCLE
    assert trouble.cobs == ("x/a", "x/b")
    assert str(trouble) == (
        "objects wait for each other in a circle, to bring everything up\n"
        "  x/a: down -> up needs x/b up\n"
        "  x/b: down -> up needs x/a up"
    )


def test_a_circle_through_a_lock_dependency_names_the_lock() -> None:
    """(b, up) <- (c, up) closes the circle."""
    graph = graph_of("x/a x/b x/c", "x/a *>up x/b up", "x/b up x/c up", "x/c *>up x/a up")
    (trouble,) = analyse(graph)
    assert [str(link) for link in trouble.cycle] == [
        "x/a: down -> up needs x/b up",
        "x/b: up needs x/c up",
        "x/c: down -> up needs x/a up",
    ]


def test_the_place_of_the_first_need_is_told() -> None:
    """The user finds the line."""
    place = Place(file="site.yml", line=7, column=3)
    needs = (
        TransitionNeed(
            cob=CobId("x/a"), source="down", dest="up", on=CobId("x/b"), state="up", place=place
        ),
        need_of("x/b down>up x/a up"),
    )
    (trouble,) = analyse(Graph(cobs=graph_of("x/a x/b").cobs, needs=needs))
    assert trouble.place == place
    assert trouble.cycle[0].place == place


def test_what_can_be_renewed_one_by_one_is_no_finding() -> None:
    """Only everything outdated at once would be a circle: each node while the other is up."""
    graph = graph_of(
        "x/a x/b", "x/a outdated>* x/b up", "x/b outdated>up x/a up", "x/b outdated>down x/a down"
    )
    assert analyse(graph) == ()


def test_a_circle_that_only_removing_meets() -> None:
    """Each goes down only after the other."""
    graph = graph_of("x/a x/b", "x/a up>down x/b down", "x/b up>down x/a down")
    (trouble,) = analyse(graph)
    assert trouble.message.endswith("to remove everything")


def test_a_type_without_a_way_to_its_preferred_state() -> None:
    """Nothing can be brought up."""
    (trouble,) = analyse(graph_of({"x/a": NO_WAY_UP}))
    assert str(trouble) == "x/a can never be up: t has no way to it from down"
    assert trouble.kind is TroubleKind.NO_WAY


def test_a_type_that_cannot_be_removed_is_no_trouble() -> None:
    """A script without an undo is valid as long as it stays."""
    assert analyse(graph_of({"x/a": ONE_WAY})) == ()


def test_a_need_for_a_state_that_is_never_reached_is_told_with_the_way_to_it() -> None:
    """`odd` can only be found by a check."""
    graph = graph_of({"x/a": SIMPLE, "x/b": NEVER_OUT}, "x/a *>up x/b odd")
    first = analyse(graph)[0]
    assert first.kind is TroubleKind.NO_WAY
    assert str(first) == (
        "x/b can never be odd: t has no way to it from down\n  x/a: down -> up needs x/b odd"
    )


def test_an_object_that_needs_itself() -> None:
    """It can't keep a state and leave it."""
    (trouble,) = analyse(graph_of("x/a", "x/a down>up x/a down"))
    assert (trouble.kind, trouble.message) == (TroubleKind.SELF, "x/a needs itself")


def test_a_need_on_a_state_that_the_type_lacks() -> None:
    """The inventory finds this first; the engine has a guard."""
    (trouble,) = analyse(graph_of("x/a x/b", "x/a down>up x/b online"))
    assert trouble.kind is TroubleKind.STATE
    assert trouble.message == "x/a needs x/b online, a state that simple lacks"


def test_one_step_that_needs_two_states_of_one_object() -> None:
    """It can never run."""
    graph = graph_of("x/a x/b", "x/a down>up x/b up", "x/a down>* x/b down")
    (trouble,) = analyse(graph)
    assert trouble.kind is TroubleKind.CONTRADICTION
    assert trouble.message == "x/a: down -> up can never run: it needs x/b both down and up"


def test_one_step_whose_locks_lean_on_the_object_itself() -> None:
    """To move it needs a lock that holds it still."""
    graph = graph_of("x/a x/b", "x/a down>up x/b down", "x/b down x/a down")
    (trouble,) = analyse(graph)
    assert trouble.message == (
        "x/a: down -> up can never run: its locks need x/a itself to stay down"
    )


def test_preferences_that_push_each_other_out_for_ever() -> None:
    """X needs Y down to go up and Y needs X down to go up."""
    graph = graph_of("x/a x/b", "x/a *>up x/b down", "x/b *>up x/a down")
    (trouble,) = analyse(graph)
    assert str(trouble) == (
        "preferences push each other out for ever\n"
        "  x/a: down -> up needs x/b down\n"
        "  x/b: down -> up needs x/a down"
    )
    assert trouble.kind is TroubleKind.PUSH


def test_a_preference_that_pushes_in_one_direction_is_no_trouble() -> None:
    """The other arrives last."""
    assert analyse(graph_of("x/a x/b", "x/a *>up x/b down")) == ()


def test_another_way_into_the_preferred_state_is_no_trouble() -> None:
    """Only what every way needs pushes."""
    assert analyse(graph_of("x/a x/b", "x/a outdated>up x/b down", "x/b *>up x/a down")) == ()


def grouped(*needs: str, b: CobType = GROUPED) -> list[str]:
    """Return what is said of `x/a` and `x/c`, which are simple, and of `x/b`, which has groups."""
    graph = graph_of({"x/a": SIMPLE, "x/b": b, "x/c": SIMPLE}, *needs)
    return [str(trouble) for trouble in analyse(graph)]


@pytest.mark.parametrize(
    "needs",
    [
        ["x/a down>up x/b off"],
        ["x/a down>up x/b any", "x/b down>up x/a up"],
        ["x/a down>up x/b any", "x/b down>up x/a up", "x/b up>down x/a down"],
        ["x/a down>up x/b any", "x/a down>up x/b off"],
        ["x/a down>up x/b any", "x/a down>up x/b up"],
        ["x/a down>up x/b any", "x/b up x/c up", "x/c down>up x/a up"],
    ],
)
def test_a_group_that_is_met_in_any_of_its_states_is_no_trouble(needs: list[str]) -> None:
    assert grouped(*needs) == []


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (["x/a down>up x/b of"], "x/a needs x/b of, a state that t lacks"),
        (
            ["x/a down>up x/b off", "x/a down>up x/b on"],
            "x/a: down -> up can never run: it needs x/b both off and on",
        ),
        (
            ["x/a down>up x/b off", "x/a down>up x/b any", "x/a down>up x/b on"],
            "x/a: down -> up can never run: it needs x/b any, off and on at once",
        ),
        (
            ["x/a down>up x/b on", "x/b up x/c down", "x/a down>up x/c up"],
            "x/a: down -> up can never run: it needs x/c both down and up",
        ),
        (
            ["x/a down>up x/b on", "x/b down>up x/a up"],
            (
                "objects wait for each other in a circle, to bring everything up\n"
                "  x/a: down -> up needs x/b on\n"
                "  x/b: down -> up needs x/a up"
            ),
        ),
    ],
)
def test_what_no_state_of_a_group_can_give_is_told_with_its_name(
    needs: list[str], said: str
) -> None:
    assert grouped(*needs) == [said]


def test_a_group_without_a_way_into_it_is_a_missing_way() -> None:
    """The state that is told of is the first one, to which there is no way either."""
    b = replace(type_of("odd down up", "down>up up>down", "up", "down"), groups={"g": ("odd",)})
    said = grouped("x/a down>up x/b g", b=b)
    assert said == [
        "x/b can never be odd: t has no way to it from down\n  x/a: down -> up needs x/b g"
    ]


def test_a_group_pushes_nobody_out_of_a_preferred_state_that_is_in_it() -> None:
    """With `off` both needs could never be met in the end; with `any` they are."""
    back = "x/b down>up x/a down"
    assert grouped("x/a down>up x/b off", back)[0].startswith("preferences push each other out")
    assert grouped("x/a down>up x/b any", back) == []


def test_a_shared_circle_is_told_once() -> None:
    """A hundred that wait for the circle make no more findings."""
    waiting = [f"y/w{number}" for number in range(100)]
    needs = [need for cob in waiting for need in after(cob, "x/a")]
    graph = graph_of(
        " ".join(["x/a", "x/b", *waiting]), *needs, *after("x/a", "x/b"), *after("x/b", "x/a")
    )
    assert [trouble.cobs for trouble in analyse(graph)] == [("x/a", "x/b")]


def test_circles_are_found_without_recursion() -> None:
    """A ring of ten thousand is one circle; a long tail is none."""
    ids = [CobId(f"x/{number:05}") for number in range(10_000)]
    ring = {cob: [after_] for cob, after_ in zip(ids, [*ids[1:], ids[0]], strict=True)}
    assert list(circles(ring)) == [tuple(ids)]
    assert list(circles({cob: [after_] for cob, after_ in pairwise(ids)})) == []


def test_two_circles_through_one_object_are_told_as_the_shortest() -> None:
    """One circle per connected part."""
    edges = {"a": ["c", "d", "q"], "b": ["a"], "c": ["e"], "d": ["e"], "e": ["b"]}
    typed = {CobId(cob): [CobId(x) for x in afters] for cob, afters in edges.items()}
    assert list(circles(typed)) == [("a", "c", "e", "b")]


def test_a_long_chain_of_locks_is_given_up_on_without_a_finding() -> None:
    """The search for contradictions has a named limit."""
    cobs = [f"x/{number:04}" for number in range(1100)]
    needs = [f"{cob} up {on} up" for cob, on in pairwise(cobs)]
    assert analyse(graph_of(" ".join(["x/a", *cobs]), "x/a *>up x/0000 up", *needs)) == ()


def test_what_leads_back_to_an_object_in_another_state_is_a_missing_way() -> None:
    """One that was passed on the way to a finding was not reported yet."""
    graph = graph_of("x/a x/b", "x/a *>down x/b down", "x/b *>down x/a outdated")
    (trouble,) = analyse(graph)
    assert str(trouble) == (
        "x/a can never be outdated: simple has no way to it from up\n"
        "  x/a: up -> down needs x/b down\n"
        "  x/b: up -> down needs x/a outdated"
    )


@pytest.mark.parametrize(
    ("low", "high", "links"),
    [("x/a", "x/b", []), ("x/b", "x/a", ["x/a: down -> up needs x/b up"])],
)
def test_a_goal_without_a_way_is_no_support_for_others(
    low: str, high: str, links: list[str]
) -> None:
    """It is told once, in whichever order the ids are, with who was seen to wait for it first."""
    graph = graph_of(
        {low: NO_WAY_UP, high: SIMPLE, "x/c": SIMPLE}, f"{low} *>up x/c up", f"{high} *>up {low} up"
    )
    (trouble,) = analyse(graph)
    assert (trouble.kind, trouble.cobs) == (TroubleKind.NO_WAY, (low,))
    assert [str(link) for link in trouble.cycle] == links


def test_an_unsorted_graph_and_types_of_one_name_are_told_apart() -> None:
    """Patterns go by the type itself and do not lean on the order of the needs."""
    graph = graph_of(
        {"x/a": NEVER_OUT, "x/b": ONE_WAY, "x/c": NO_WAY_UP, "x/d": SIMPLE},
        "x/d *>up x/c up",
        "x/a *>up x/b up",
        "x/d up x/a odd",
        "x/a up>down x/d down",
    )
    said = ["x/c can never be up: t has no way to it from down"]
    assert [str(trouble) for trouble in analyse(graph)] == said


@pytest.mark.full("counts steps on large graphs")
def test_the_work_grows_with_the_needs_and_the_thinking_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted, not timed: each need is looked at once, each kind of object is judged once."""
    looked: list[object] = []
    judged: list[object] = []
    needed, risky_steps = _Prospects._needed, _Analysis._risky_steps

    def looking(search: _Prospects, lock: tuple[CobId, str]) -> object:
        looked.append(lock)
        return needed(search, lock)

    def judging(analysis: _Analysis, pattern: Pattern) -> object:
        judged.append(pattern)
        return risky_steps(analysis, pattern)

    monkeypatch.setattr(_Prospects, "_needed", looking)
    monkeypatch.setattr(_Analysis, "_risky_steps", judging)
    seen = {}
    for hosts in (10, 40):
        looked.clear()
        judged.clear()
        assert analyse(large_graph(hosts)) == ()
        assert len(set(looked)) == len(looked)
        seen[hosts] = (len(looked) / hosts, len(judged))
    assert seen[40][0] <= seen[10][0] * 1.1
    assert seen[40][1] == seen[10][1] <= 3


def several(seed: int) -> Graph:
    """Return objects of types with several states and groups, as people write them."""
    return several_states(Random(seed))


SMALL = st.one_of(graphs(max_cobs=4, max_needs=8), words(), st.integers(0, 2**32).map(several))
"""Graphs whose global states can all be searched."""
LARGER = st.one_of(graphs(max_cobs=7, max_needs=16), words(), st.integers(0, 2**32).map(several))
UP, OUT = "to bring everything up", "to remove everything"


def removed(graph: Graph) -> dict[CobId, str]:
    """Return the first start: all is removed."""
    return {cob.id: cob.type.remove for cob in graph.cobs.values()}


def preferred(graph: Graph) -> dict[CobId, str]:
    """Return the first goal and second start: all is as preferred."""
    return {cob.id: cob.type.preferred for cob in graph.cobs.values()}


def removable(graph: Graph) -> dict[CobId, str]:
    """Return the second goal: what has a way out is removed, all else stays."""
    goals = {}
    for cob in graph.cobs.values():
        is_removable = cob.type.way(cob.type.preferred, cob.type.remove) is not None
        goals[cob.id] = cob.type.remove if is_removable else cob.type.preferred
    return goals


def link_runs(search: Search, now: tuple[str, ...], link: TroubleLink) -> bool:
    """Say whether the step of a link may run, or the lock of it be given, in a global state."""
    for step in search.graph.cobs[link.cob].type.transitions:
        if str(step) == link.step:
            return search.legal(now, link.cob, step)
    return search.lendable(now, link.cob, link.step)


def is_proven(search: Search, trouble: Trouble, seen: set[tuple[str, ...]]) -> bool:
    """Say whether a finding holds in all global states of one aim."""
    at = [search.at[cob] for cob in trouble.cobs]
    if trouble.kind is TroubleKind.PUSH:
        goal = preferred(search.graph)
        return not any(all(now[i] == goal[search.ids[i]] for i in at) for now in seen)
    if trouble.kind is TroubleKind.NO_WAY:
        state = trouble.message.partition(" can never be ")[2].partition(":")[0]
        if any(now[at[0]] == state for now in seen):
            return False
    return not any(link_runs(search, now, link) for now in seen for link in trouble.cycle)


@given(SMALL)
def test_nothing_is_reported_that_could_work(graph: Graph) -> None:
    """Each finding, and each line of it, is a proof: the search over all global states agrees."""
    found = [it for it in analyse(graph) if it.kind is not TroubleKind.CONTRADICTION]
    if not found:
        return
    search = Search(graph)
    ups, outs = search.reachable(removed(graph)), search.reachable(preferred(graph))
    for trouble in found:
        upwards = not trouble.message.endswith(OUT) and is_proven(search, trouble, ups)
        assert upwards or (
            trouble.kind is not TroubleKind.PUSH
            and not trouble.message.endswith(UP)
            and is_proven(search, trouble, outs)
        )


@given(LARGER)
def test_all_is_reported_that_is_not_reached_even_if_nothing_is_ever_lost(graph: Graph) -> None:
    """Neither patterns nor proofs leave anything out, and nothing else is called a circle."""
    found = {trouble.kind for trouble in analyse(graph)}
    search = Search(graph)
    aims = [(removed(graph), preferred(graph)), (preferred(graph), removable(graph))]
    works = all(goal.items() <= search.hopeful(start) for start, goal in aims)
    if TroubleKind.CONTRADICTION not in found:
        assert works == found.isdisjoint({TroubleKind.CIRCLE, TroubleKind.NO_WAY})


@given(SMALL)
def test_a_step_is_a_contradiction_exactly_if_no_global_state_suits_it(graph: Graph) -> None:
    """All is found, but where each state of a group has locks behind it that exclude others."""
    search = Search(graph)
    said = {
        trouble.message.partition(" can never run")[0]
        for trouble in analyse(graph)
        if trouble.kind is TroubleKind.CONTRADICTION
    }
    states = [graph.cobs[cob].type.states for cob in search.ids]
    never = {
        f"{cob}: {step}"
        for cob in search.ids
        for step in graph.cobs[cob].type.transitions
        if not any(search.agrees(now, cob, step) for now in product(*states))
    }
    is_plain = not search.locks or all(
        need.state in graph.cobs[need.on].type.states for need in graph.needs
    )
    assert said == never if is_plain else said <= never


@given(words(circles=True))
def test_of_the_usual_words_nothing_else_is_impossible(graph: Graph) -> None:
    """A site without a finding can be brought up and removed; one with a finding can't be."""
    search = Search(graph)
    works = search.reaches(removed(graph), preferred(graph))
    works = works and search.reaches(preferred(graph), removable(graph))
    assert works == (analyse(graph) == ())


@given(LARGER, st.randoms(use_true_random=False))
def test_each_line_of_a_circle_is_a_need_and_leads_to_the_next(
    graph: Graph, random: Random
) -> None:
    """It begins with its smallest id, and each line has the place of its need."""
    needs = list(graph.needs)
    random.shuffle(needs)
    placed = [
        replace(need, place=Place(file="site.yml", line=line, column=1))
        for line, need in enumerate(needs)
    ]
    for trouble in analyse(replace(graph, needs=tuple(placed))):
        for link, after_ in pairwise([*trouble.cycle, *trouble.cycle[:1]]):
            assert link.place in {need.place for need in placed if says(need, link)}
            assert trouble.kind is TroubleKind.NO_WAY or link.on == after_.cob
        if trouble.kind in (TroubleKind.CIRCLE, TroubleKind.PUSH):
            assert trouble.cobs == tuple(link.cob for link in trouble.cycle)
            assert trouble.cobs[0] == min(trouble.cobs)


def says(need: TransitionNeed | LockNeed, link: TroubleLink) -> bool:
    """Say whether a line tells of a need."""
    if (need.cob, need.on, need.state) != (link.cob, link.on, link.state):
        return False
    if isinstance(need, LockNeed):
        return need.covers(link.step)
    source, _, dest = link.step.partition(" -> ")
    return need.covers(source, dest)


@given(st.data())
def test_what_the_engine_reaches_the_search_reaches(data: st.DataObject) -> None:
    """The engine does nothing that is not legal."""
    graph = data.draw(graphs(max_cobs=4, max_needs=8))
    truth = data.draw(starts(graph))
    goal = {cob: graph.cobs[cob].type.preferred for cob in graph.cobs}
    simulation = Simulation(graph=graph, random=Random(1), truth=dict(truth))
    simulation.run()
    if simulation.engines[0].states() == goal:
        assert Search(graph).reaches(truth, goal)


@given(words(), st.data())
@settings(max_examples=examples(300))
def test_sites_of_the_usual_words_settle_wherever_a_legal_order_exists(
    graph: Graph, data: st.DataObject
) -> None:
    """In the end: no finding and a legal order mean that the engine finds one (see the docs)."""
    truth = data.draw(starts(graph))
    goal = {cob: graph.cobs[cob].type.preferred for cob in graph.cobs}
    if analyse(graph) or not Search(graph).reaches(truth, goal):
        return
    simulation = Simulation(graph=graph, random=Random(data.draw(st.integers(0, 99))), truth=truth)
    simulation.run()
    assert simulation.engines[0].unsettled() == ()
