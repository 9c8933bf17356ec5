"""The canary of a limit: some go first, and the others follow only when these have done well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.engine import (
    STAY,
    Canary,
    CheckDropped,
    CheckEnded,
    Engine,
    Halt,
    HostReturned,
    HostVanished,
    LimitPaused,
    LimitResumed,
    StartCheck,
    StartTransition,
    StateFound,
    TransitionEnded,
)
from cobweb.errors import ProtocolError
from cobweb.model import CobId, Graph, Limit, LimitGroup, LimitScope, State
from cobweb.testing.simulation import Faults, Simulation
from tests.support.drive import Drive
from tests.support.graphs import graph_of

IDS = tuple(CobId(f"{host}/app") for host in "abcd")
A, B, C, D = IDS
ALL = " ".join(IDS)


def canary(
    *groups: str, first: int = 1, bound: int = 4, source: State = "*", dest: State = "up"
) -> Limit:
    """Make a limit on steps to `dest` with a canary; groups are ids with blanks."""
    made = tuple(
        LimitGroup(
            name=f"r{number}" if len(groups) > 1 else "",
            members=frozenset(CobId(cob) for cob in group.split()),
            bound=bound,
        )
        for number, group in enumerate(groups)
    )
    return Limit(
        name="rolling",
        scope=LimitScope.IN_FLIGHT,
        groups=made,
        source=source,
        dest=dest,
        first=first,
        pause_s=30.0,
    )


def out_of_preferred(cobs: str) -> Limit:
    """Make a limit of two on what is out of its preferred state, one of them first."""
    group = LimitGroup(name="", members=frozenset(CobId(cob) for cob in cobs.split()), bound=2)
    scope = LimitScope.OUT_OF_PREFERRED
    return Limit(name="rolling", scope=scope, groups=(group,), first=1, pause_s=5.0)


def driven(*limits: Limit, **options: Any) -> Drive:
    """Drive four applications that are outdated."""
    return Drive(graph_of(ALL, limits=limits), dict.fromkeys(IDS, "outdated"), **options)


def resumed(drive: Drive) -> list[str]:
    """End the pause."""
    return drive.step(LimitResumed(limit="rolling"))


def test_one_goes_first_is_checked_after_a_pause_and_then_all_follow() -> None:
    """As many as the bound lets."""
    drive = driven(canary(ALL))
    assert drive.engine.busy() == {A}
    assert drive.ended(A) == ["a/app is up (transition)", "rolling pauses 30 s for a/app"]
    assert drive.engine.idle()
    assert resumed(drive) == ["a/app check"]
    assert drive.engine.busy() == {A}
    assert drive.checked(A, "up") == [
        "a/app is up (check)",
        "b/app outdated -> up",
        "c/app outdated -> up",
        "d/app outdated -> up",
    ]
    drive.run()
    assert drive.engine.unsettled() == ()
    assert drive.engine.canaries() == {"rolling": Canary(cobs=frozenset({A}), through=True)}


def test_who_waits_is_told_for_whom() -> None:
    """The chain leads to the canary while it moves; in the pause it ends at the limit."""
    drive = driven(canary(ALL))
    assert drive.why(B) == "b/app limit a/app up, a/app running"
    assert drive.engine.blocked(B).detail == "rolling, canary"  # type: ignore[union-attr]
    drive.ended(A)
    assert drive.why(B) == "b/app limit up"


def test_a_canary_that_fails_keeps_the_limit_closed() -> None:
    """Nobody else starts; the chain ends in the failure."""
    drive = driven(canary(ALL))
    drive.ended(A, ok=False)
    assert drive.checked(A, "outdated") == ["a/app is outdated (check)"]
    assert drive.engine.idle()
    assert drive.engine.unsettled() == IDS
    assert drive.why(D) == "d/app limit a/app up, a/app failed outdated"


def test_a_canary_that_does_not_stand_goes_home_again_and_pauses_again() -> None:
    """What the check finds is where it is."""
    drive = driven(canary(ALL))
    drive.ended(A)
    resumed(drive)
    assert drive.checked(A, "down") == ["a/app is down (check)", "a/app down -> up"]
    assert drive.ended(A)[-1] == "rolling pauses 30 s for a/app"
    resumed(drive)
    assert drive.checked(A, "up")[1:] == [f"{cob} outdated -> up" for cob in IDS[1:]]


def test_a_canary_that_never_stands_ends_the_run() -> None:
    """The limit on restlessness stops it."""
    drive = driven(canary(ALL))
    drive.ended(A)
    for _ in range(8):
        resumed(drive)
        drive.checked(A, "down")
        drive.ended(A)
    resumed(drive)
    assert drive.checked(A, "down") == ["a/app is down (check)"]
    assert drive.why(B) == "b/app limit a/app up, a/app churn up"


def test_a_canary_whose_check_fails_is_failed_and_unknown() -> None:
    """The limit stays closed."""
    drive = driven(canary(ALL))
    drive.ended(A)
    resumed(drive)
    assert drive.checked(A, None) == ["a/app is unknown (check)"]
    assert drive.why(B) == "b/app limit a/app up, a/app failed unknown"


def test_a_dropped_check_is_done_again() -> None:
    """Nothing was found out."""
    drive = driven(canary(ALL))
    drive.ended(A)
    resumed(drive)
    assert drive.step(CheckDropped(cob=A)) == ["a/app check"]
    assert len(drive.checked(A, "up")) == 4


def test_two_canaries_are_both_waited_for() -> None:
    """Of all groups together; the smallest ids go."""
    drive = driven(canary(f"{B} {C}", f"{A} {D}", first=2))
    assert drive.engine.busy() == {A, B}
    assert drive.ended(A) == ["a/app is up (transition)"]
    assert drive.why(D) == "d/app limit b/app up, b/app running"
    assert drive.ended(B)[-1] == "rolling pauses 30 s for a/app b/app"
    assert resumed(drive) == ["a/app check", "b/app check"]
    assert drive.checked(B, "up") == ["b/app is up (check)"]
    assert drive.checked(A, "up")[1:] == ["c/app outdated -> up", "d/app outdated -> up"]


def test_the_bound_is_kept_before_and_after_the_canary() -> None:
    """Who finds no room and then a closed canary waits for both."""
    drive = driven(canary(ALL, first=2, bound=1))
    assert drive.engine.busy() == {A}
    assert drive.ended(A)[-1] == "b/app outdated -> up"
    assert drive.ended(B)[-1] == "rolling pauses 30 s for a/app b/app"
    resumed(drive)
    drive.checked(A, "up")
    assert drive.checked(B, "up")[1:] == ["c/app outdated -> up"]
    assert drive.ended(C)[-1] == "d/app outdated -> up"


def test_other_limits_are_kept_as_well() -> None:
    """Who may follow the canary waits for room there."""
    group = LimitGroup(name="", members=frozenset(IDS), bound=2)
    busy = Limit(name="busy", scope=LimitScope.IN_FLIGHT, groups=(group,))
    drive = driven(canary(ALL), busy)
    drive.ended(A)
    resumed(drive)
    assert drive.checked(A, "up")[1:] == ["b/app outdated -> up", "c/app outdated -> up"]
    assert drive.why(D) == "d/app limit b/app up, b/app running"


def test_nobody_waits_so_there_is_no_pause() -> None:
    """Neither where nothing is to do, nor where the canary is all that is."""
    states: dict[str, State] = {**dict.fromkeys(IDS, "up"), A: "outdated"}
    drive = Drive(graph_of(ALL, limits=(canary(ALL),)), states)
    assert drive.ended(A) == ["a/app is up (transition)"]
    assert drive.engine.unsettled() == ()
    drive = Drive(graph_of(ALL, limits=(canary(ALL),)), dict.fromkeys(IDS, "up"))
    assert drive.engine.idle()
    assert drive.engine.canaries() == {"rolling": Canary()}


def test_who_was_out_before_is_no_canary_and_comes_home() -> None:
    """OUT_OF_PREFERRED: the first that leaves home is the canary, and has to come back."""
    needs = ("x/p outdated>up x/a down", "x/q outdated>up x/b down")
    graph = graph_of("x/a x/b x/c x/p x/q", *needs, limits=(out_of_preferred("x/a x/b x/c"),))
    states: dict[str, State] = {"x/a": "up", "x/b": "up", "x/c": "down"}
    drive = Drive(graph, {**states, "x/p": "outdated", "x/q": "outdated"})
    assert drive.engine.busy() == {"x/c", "x/a"}
    drive.ended("x/c")
    drive.ended("x/a")
    assert (
        drive.why("x/q")
        == "x/q lock x/b down, x/b limit x/a down, x/a requested x/p down, x/p running"
    )
    drive.ended("x/p")
    assert drive.ended("x/a")[-1] == "rolling pauses 5 s for x/a"
    resumed(drive)
    assert drive.checked("x/a", "up")[1:] == ["x/b up -> down"]


def test_a_canary_that_leaves_home_in_the_pause_is_waited_for_again() -> None:
    """It may take room again, being the canary."""
    needs = ("x/p outdated>up x/a down", "x/q outdated>up x/b down", "x/s outdated>up x/a down")
    graph = graph_of("x/a x/b x/p x/q x/s", *needs, limits=(out_of_preferred("x/a x/b"),))
    states: dict[str, State] = {"x/a": "up", "x/b": "up", "x/p": "outdated", "x/q": "outdated"}
    drive = Drive(graph, states)
    drive.ended("x/a")
    drive.ended("x/p")
    assert drive.ended("x/a")[-1] == "rolling pauses 5 s for x/a"
    drive.checked("x/s", "outdated")
    assert drive.engine.busy() == {"x/a"}
    assert resumed(drive) == []
    drive.ended("x/a")
    drive.ended("x/s")
    assert drive.ended("x/a")[-1] == "rolling pauses 5 s for x/a"
    resumed(drive)
    assert drive.checked("x/a", "up")[1:] == ["x/b up -> down"]


def test_a_canary_on_a_vanished_host_keeps_the_limit_closed_until_it_is_found_home() -> None:
    """A check after the pause is all that is wanted."""
    drive = driven(canary(ALL))
    drive.ended(A)
    resumed(drive)
    drive.step(HostVanished(host="a"))
    assert drive.why(B) == "b/app limit a/app up, a/app unreachable"
    drive.step(HostReturned(host="a"))
    assert drive.checked(A, "up")[1:] == [f"{cob} outdated -> up" for cob in IDS[1:]]


def test_a_host_that_vanishes_in_the_pause_makes_for_another_pause() -> None:
    """Its canary was not home when the pause was over."""
    drive = driven(canary(ALL))
    drive.ended(A)
    drive.step(HostVanished(host="a"))
    assert resumed(drive) == []
    drive.step(HostReturned(host="a"))
    assert drive.checked(A, "up")[-1] == "rolling pauses 30 s for a/app"


def test_after_an_interrupt_nothing_is_resumed() -> None:
    """Who waits is told so by the limit."""
    drive = driven(canary(ALL))
    drive.ended(A)
    drive.step(Halt())
    assert resumed(drive) == []
    assert drive.why(B) == "b/app limit up"
    drive = driven(canary(ALL))
    drive.step(Halt())
    assert drive.ended(A) == ["a/app is up (transition)"]


@pytest.mark.parametrize("name", ["rolling", "other"])
def test_what_is_not_paused_is_not_resumed(name: str) -> None:
    """Nothing changes."""
    drive = driven(canary(ALL))
    with pytest.raises(ProtocolError, match="is not paused"):
        drive.step(LimitResumed(limit=name))
    assert drive.engine.busy() == {A}


def test_another_engine_of_the_run_goes_on_with_the_canary() -> None:
    """Who went first there is the canary here, too, and is waited for."""
    graph = graph_of(ALL, limits=(canary(ALL),))
    gone = CobId("e/gone")
    before = {"rolling": Canary(cobs=frozenset({B, gone})), "of the old site": Canary()}
    drive = Drive(graph, dict.fromkeys(IDS, "outdated"), canaries={"rolling": before["rolling"]})
    assert drive.engine.busy() == {B}
    assert drive.ended(B)[-1] == "rolling pauses 30 s for b/app e/gone"
    assert resumed(drive) == ["b/app check"]
    through = {"rolling": Canary(cobs=frozenset({B}), through=True), "old": Canary()}
    drive = Drive(graph, dict.fromkeys(IDS, "outdated"), canaries=through)
    assert drive.engine.busy() == set(IDS)


@pytest.mark.parametrize("trouble", ["fails", "vanishes", "is not there"])
def test_a_canary_that_was_away_and_is_not_known_here_keeps_the_limit_closed(trouble: str) -> None:
    """An engine that removes objects ends before the one that changes others begins."""
    graph = graph_of(f"{A} {B}", limits=(canary(f"{A} {B}", dest="*"),))
    removing = Drive(graph, dict.fromkeys((A, B), "up"), goals=dict.fromkeys((A, B), "down"))
    if trouble == "vanishes":
        removing.step(HostVanished(host="a"))
    else:
        removing.ended(A, ok=False)
        removing.checked(A, None if trouble == "is not there" else "up")
    assert removing.engine.canaries() == {
        "rolling": Canary(cobs=frozenset({A}), away=frozenset({A}))
    }
    changing = Drive(
        graph_of(f"{C} {D}", limits=(canary(f"{C} {D}", dest="*"),)),
        dict.fromkeys((C, D), "outdated"),
        canaries=removing.engine.canaries(),
    )
    assert changing.engine.idle()
    assert changing.engine.unsettled() == (C, D)
    assert changing.why(C) == "c/app limit a/app up"
    assert changing.engine.canaries() == removing.engine.canaries()


def test_a_canary_that_came_to_its_goal_and_is_gone_is_not_checked() -> None:
    """The others follow it after a pause."""
    graph = graph_of(f"{A} {B}", limits=(canary(f"{A} {B}", dest="*"),))
    removing = Drive(graph, dict.fromkeys((A, B), "up"), goals={A: "down"})
    removing.ended(A)
    assert removing.engine.canaries() == {"rolling": Canary(cobs=frozenset({A}))}
    changing = Drive(
        graph_of(f"{C} {D}", limits=(canary(f"{C} {D}", dest="*"),)),
        dict.fromkeys((C, D), "outdated"),
        canaries=removing.engine.canaries(),
    )
    assert changing.engine.idle()
    assert resumed(changing) == ["c/app outdated -> up", "d/app outdated -> up"]


def test_a_canary_that_the_limit_does_not_speak_of_here_is_waited_for_all_the_same() -> None:
    """It is seen coming home, and checked after the pause."""
    graph = graph_of(ALL, limits=(canary(f"{B} {C} {D}"),))
    before = {"rolling": Canary(cobs=frozenset({A}), away=frozenset({A}))}
    drive = Drive(graph, dict.fromkeys(IDS, "outdated"), canaries=before)
    assert drive.engine.busy() == {A}
    assert drive.ended(A)[-1] == "rolling pauses 30 s for a/app"
    assert resumed(drive) == ["a/app check"]
    assert drive.checked(A, "up")[1:] == [f"{cob} outdated -> up" for cob in IDS[1:]]


def test_a_canary_that_stays_away_closes_the_limit_for_this_part_of_the_run() -> None:
    """What has no goal of its own is left where it was asked to be."""
    needs = ("x/p up>down x/a down", "x/q up>down x/b down")
    graph = graph_of("x/a x/b x/p x/q", *needs, limits=(out_of_preferred("x/a x/b"),))
    goals = {"x/a": STAY, "x/b": STAY, "x/p": "down", "x/q": "down"}
    drive = Drive(graph, dict.fromkeys(goals, "up"), goals=goals)
    assert drive.run() == ["x/p up -> down [x/a down]"]
    assert drive.why("x/q") == "x/q lock x/b down, x/b limit x/a down, x/a excluded up"


@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([LimitScope.IN_FLIGHT, LimitScope.OUT_OF_PREFERRED]),
    st.integers(0, 2**32),
    st.sampled_from([Faults(), Faults(fail=0.2), Faults(fail=0.2, fail_check=0.1, vanish=0.05)]),
)
def test_no_more_than_the_first_take_room_before_the_canary_is_through(
    first: int, bound: int, scope: LimitScope, seed: int, faults: Faults
) -> None:
    """Never; and without faults all get there in the end, after one pause."""
    graph = _rolling(scope, first, bound)
    truth: dict[CobId, State] = {cob: "outdated" if "conf" in cob else "up" for cob in graph.cobs}
    simulation = Simulation(graph=graph, random=Random(seed), truth=truth, faults=faults)
    simulation.run()
    moved: set[CobId] = set()
    through = False
    for effect in simulation.history:
        if isinstance(effect, StartTransition) and effect.transition.source == "up":
            moved.add(effect.cob)
            assert through or len(moved) <= first
        elif isinstance(effect, LimitPaused):
            assert set(effect.cobs) == moved
            assert all(_at_the_time(simulation, effect, cob) == "up" for cob in moved)
            through = True
    if faults == Faults():
        assert simulation.engines[0].unsettled() == ()
        assert sum(isinstance(effect, LimitPaused) for effect in simulation.history) == 1


@given(
    st.integers(1, 3),
    st.lists(st.sets(st.sampled_from(IDS), min_size=1), min_size=2, max_size=4),
    st.randoms(use_true_random=False),
    st.sampled_from([0.0, 0.3]),
)
def test_engines_one_after_the_other_have_one_canary(
    first: int, parts: list[set[CobId]], random: Random, fail: float
) -> None:
    """Whoever each knows: no more than the first go before all of these have come home."""
    canaries: Mapping[str, Canary] = {}
    moved: set[CobId] = set()
    home: set[CobId] = set()
    through = False
    for part in parts:
        graph = graph_of(" ".join(sorted(part)), limits=(canary(ALL, first=first, dest="*"),))
        engine = Engine(graph, canaries=canaries)
        home -= part
        todo = list(engine.start(dict.fromkeys(graph.cobs, "outdated")))
        while todo:
            effect = todo.pop(random.randrange(len(todo)))
            ok = random.random() >= fail
            if isinstance(effect, StartTransition):
                through = through or (effect.cob not in moved and len(moved) == first)
                assert not through or len(moved) > first or moved <= home
                moved.add(effect.cob)
                todo += engine.step(TransitionEnded(cob=effect.cob, ok=ok))
                home |= {effect.cob} if ok else set()
            elif isinstance(effect, StartCheck):
                todo += engine.step(CheckEnded(cob=effect.cob, state="up" if ok else None))
                home -= set() if ok else {effect.cob}
            elif isinstance(effect, LimitPaused):
                todo += engine.step(LimitResumed(limit="rolling"))
        canaries = engine.canaries()
        assert through or canaries["rolling"].away == moved - home
    assert fail or moved == set().union(*parts)


def _rolling(scope: LimitScope, first: int, bound: int) -> Graph:
    """Five hosts; each has a configuration that changes only while its application is down."""
    cobs = " ".join(f"h{n}/app h{n}/conf" for n in range(5))
    needs = [need for n in range(5) for need in _stops(n)]
    members = frozenset(CobId(f"h{n}/app") for n in range(5))
    limit = Limit(
        name="rolling",
        scope=scope,
        groups=(LimitGroup(name="", members=members, bound=bound),),
        source="up",
        dest="down",
        first=first,
        pause_s=1.0,
    )
    return graph_of(cobs, *needs, limits=(limit,))


def _stops(number: int) -> tuple[str, str]:
    app, conf = f"h{number}/app", f"h{number}/conf"
    return f"{conf} outdated>up {app} down", f"{app} down>up {conf} up"


def _at_the_time(simulation: Simulation, when: LimitPaused, cob: CobId) -> State:
    """Return the state of an object when an effect came."""
    state = ""
    for effect in simulation.history[: simulation.history.index(when)]:
        if isinstance(effect, StateFound) and effect.cob == cob:
            state = effect.state
    return state


def test_a_canary_that_needs_another_one_to_move_first_is_a_circle_that_is_told() -> None:
    """`a` comes home only when `q` is up, for which `b` has to go down; two that go first do it."""
    needs = ("x/p outdated>up x/a down", "x/q outdated>up x/b down", "x/a down>up x/q up")
    states: dict[str, State] = {"x/a": "up", "x/b": "up", "x/p": "outdated", "x/q": "outdated"}
    limit = replace(out_of_preferred("x/a x/b"), first=1)
    drive = Drive(graph_of("x/a x/b x/p x/q", *needs, limits=(limit,)), states)
    drive.run()
    assert drive.why("x/a") == "x/a lock x/q up, x/q lock x/b down, x/b limit x/a down"
    two = Drive(graph_of("x/a x/b x/p x/q", *needs, limits=(replace(limit, first=2),)), states)
    two.run()
    assert two.engine.unsettled() == ()
