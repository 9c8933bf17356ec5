"""Budgets that a step cannot fit in, that let everything out, or that count what still serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import Misfit, MisfitKind, misfits
from cobweb.engine.analysis import _fit as fit
from cobweb.model import Budget, CobId, CobType, Graph, LockNeed, TransitionNeed, Unit, host_of
from tests.support.graphs import SIMPLE, graph_of, type_of

SERVING = replace(SIMPLE, serving=("up", "outdated"))
HARD = replace(
    type_of("outdated down up", "outdated>down down>up up>down", "up", "down"),
    name="hard",
    serving=("up", "outdated"),
)
"""What is changed goes down first."""

APPS = tuple(CobId(f"app{number}/app") for number in (1, 2, 3))
DB = CobId("db/db")


def budget(*members: CobId, per: dict[str, str] | None = None, **said: Any) -> Budget:
    units: dict[str, list[CobId]] = {}
    for member in members:
        units.setdefault(host_of(member), []).append(member)
    return Budget(
        name="rolling",
        units=tuple(
            Unit(name=host, members=frozenset(its), domains=(per[host],) if per else ())
            for host, its in units.items()
        ),
        **said,
    )


def requires(cob: str, on: str) -> list[str]:
    """Return what `requires` stands for."""
    return [f"{cob} *>up {on} up", f"{on} *>down {cob} down"]


def a_graph(kinds: dict[str, CobType], needs: list[str], *budgets: Budget) -> Graph:
    return replace(graph_of(kinds, *needs), budgets=budgets)


def apps_and_db(*budgets: Budget, db: CobType = HARD) -> Graph:
    kinds: dict[str, CobType] = {**dict.fromkeys(map(str, APPS), SERVING), str(DB): db}
    return a_graph(kinds, [it for app in APPS for it in requires(app, DB)], *budgets)


def found(graph: Graph, kind: MisfitKind = MisfitKind.STEP) -> list[Misfit]:
    return [misfit for misfit in misfits(graph) if misfit.kind is kind]


def test_a_step_that_takes_out_more_than_the_bound_is_told_with_its_needs() -> None:
    graph = apps_and_db(budget(*APPS, count=1))
    (misfit,) = found(graph)
    assert misfit.budget is graph.budgets[0]
    assert misfit.message == (
        "limit `rolling`: no room for db/db: outdated -> down, which takes out 3 units at once "
        "(app1, app2, app3), where at most 1 may be out"
    )
    assert [str(link) for link in misfit.links] == [
        f"db/db: outdated -> down needs {app} down" for app in APPS
    ]


@pytest.mark.parametrize(
    ("said", "more", "number"),
    [
        ({"count": 2}, (), 1),
        ({"count": 3}, (), 0),
        ({"percent": 66}, (), 1),
        ({"percent": 100}, (), 0),
        ({"percent": 75}, (DB,), 1),
        ({"count": 3}, (DB,), 1),
        ({"count": 4}, (DB,), 0),
    ],
    ids=str,
)
def test_a_bound_is_a_number_or_of_all_units(
    said: dict[str, Any], more: tuple[CobId, ...], number: int
) -> None:
    assert len(found(apps_and_db(budget(*APPS, *more, **said)))) == number


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ({"count": 1}, 1),
        ({"count": 2}, 0),
        ({"percent": 50}, 1),
        ({"percent": 100}, 0),
    ],
    ids=str,
)
def test_a_bound_may_be_of_each_domain(said: dict[str, int], number: int) -> None:
    """A percentage is of all units together besides."""
    racks = {"app1": "a", "app2": "b", "app3": "b"}
    told = found(apps_and_db(budget(*APPS, per=racks, **said)))
    assert len(told) == number
    if said == {"count": 1}:
        assert "(app1, app2, app3), where at most 1 of `b` may be out" in told[0].message
    if said == {"percent": 50}:
        assert "where at most 1 may be out" in told[0].message


def test_what_is_changed_in_place_takes_nobody_with_it() -> None:
    assert found(apps_and_db(budget(*APPS, count=1), db=SERVING)) == []


def test_units_on_the_same_host_count_once_and_no_more_than_three_are_named() -> None:
    kinds = {str(DB): HARD, **{f"h{n}/{name}": SERVING for n in range(5) for name in "ab"}}
    needs = [it for cob in kinds if cob != DB for it in requires(cob, DB)]
    members = [CobId(cob) for cob in kinds if cob != DB]
    (misfit,) = found(a_graph(kinds, needs, budget(*members)))
    assert "takes out 5 units at once (h0, h1, h2 and 2 more), where" in misfit.message
    assert len(misfit.links) == 3


def test_what_goes_first_for_another_one_counts_as_long_as_it_cannot_come_back() -> None:
    """The tops of two shelves go for their shelves, these for the floor; or may be up again."""
    kinds = {"f/floor": HARD, **{f"{n}{n}/{name}": SERVING for n in "ab" for name in ("shelf",)}}
    kinds |= {"t1/top": SERVING, "t2/top": SERVING}
    needs = [
        *requires("aa/shelf", "f/floor"),
        *requires("bb/shelf", "f/floor"),
        *requires("t1/top", "aa/shelf"),
        *requires("t2/top", "bb/shelf"),
    ]
    tops = budget(CobId("t1/top"), CobId("t2/top"))
    (misfit,) = found(a_graph(kinds, needs, tops))
    assert "no room for f/floor: outdated -> down" in misfit.message
    assert [str(link) for link in misfit.links] == [
        "aa/shelf: up -> down needs t1/top down",
        "bb/shelf: up -> down needs t2/top down",
    ]
    free = [need for need in needs if not need.startswith("t1/top")]
    assert found(a_graph(kinds, free, tops)) == []


def test_a_lock_need_keeps_nothing_from_coming_back() -> None:
    needs = [*requires("b/mid", "f/floor"), "b/mid up>down a/top down", "b/mid up>down c/top down"]
    kinds = {"f/floor": HARD, "b/mid": SERVING, "a/top": SERVING, "c/top": SERVING}
    graph = a_graph(kinds, needs, budget(CobId("a/top"), CobId("c/top")))
    locks = tuple(
        LockNeed(cob=CobId(cob), within="up", on=CobId("b/mid"), state="up")
        for cob in ("a/top", "c/top")
    )
    assert found(replace(graph, needs=(*graph.needs, *locks))) == []
    keep = tuple(
        TransitionNeed(cob=it.cob, source="*", dest="up", on=it.on, state="up") for it in locks
    )
    assert len(found(replace(graph, needs=(*graph.needs, *keep)))) == 1


def test_a_need_on_another_state_that_serves_takes_nothing_out() -> None:
    three = replace(
        type_of("idle up down", "up>idle idle>up up>down down>up", "up", "down"),
        serving=("up", "idle"),
        groups={"off": ("idle", "down")},
    )
    kinds = {**dict.fromkeys(map(str, APPS), three), str(DB): HARD}
    for state in ("idle", "off"):
        needs = [f"db/db outdated>down {app} {state}" for app in APPS]
        assert found(a_graph(kinds, needs, budget(*APPS))) == []
    needs = [f"db/db outdated>down {app} down" for app in APPS]
    assert len(found(a_graph(kinds, needs, budget(*APPS)))) == 1


def test_a_group_of_states_stands_in_the_place_of_serving() -> None:
    kinds = dict.fromkeys(map(str, APPS), replace(SIMPLE, groups={"there": ("up", "down")}))
    graph = a_graph(
        {**kinds, str(DB): HARD},
        [it for app in APPS for it in requires(app, DB)],
        budget(*APPS, group="there"),
    )
    assert misfits(graph) == ()


def test_what_restarts_in_place_is_out_with_what_it_asks_away() -> None:
    still = replace(type_of("outdated up", "outdated>up", "up"), serving=("up", "outdated"))
    busy = replace(still, transitions=(replace(still.transitions[0], interrupts=True),))
    needs = ["db/db outdated>up app1/app down"]
    members = (APPS[0], DB)
    for kind, number in ((still, 0), (busy, 1)):
        kinds = {str(DB): kind, str(APPS[0]): SERVING}
        assert len(found(a_graph(kinds, needs, budget(*members)))) == number


def test_who_goes_round_in_a_circle_is_followed_once() -> None:
    needs = [
        *("db/db outdated>down app1/app down", "app1/app up>down app2/app down"),
        *("app2/app up>down app1/app down", "app2/app up>down db/db down"),
        *("app2/app down>up app1/app up", "app2/app outdated>up app1/app up"),
    ]
    kinds = {**dict.fromkeys(map(str, APPS[:2]), SERVING), str(DB): HARD}
    assert len(found(a_graph(kinds, needs, budget(*APPS[:2])))) == 1


def test_ways_that_differ_ask_only_for_what_all_ask_for() -> None:
    """A group can be met in several states; of a state without a way nothing is known."""
    mid = replace(
        type_of("lost low down up", "up>down up>low down>up low>up", "up", "down"),
        groups={"off": ("low", "down"), "lost-or-down": ("lost", "down"), "nowhere": ("lost",)},
    )
    kinds = {"f/floor": HARD, "b/mid": mid, "a/top": SERVING, "c/top": SERVING}
    back = [
        f"{top} {step} b/mid up"
        for top in ("a/top", "c/top")
        for step in ("down>up", "outdated>up")
    ]
    tops = ["b/mid up>down a/top down", "b/mid up>down c/top down"]
    for group, number in {"off": 0, "lost-or-down": 1, "nowhere": 0, "down": 1}.items():
        needs = [f"f/floor outdated>down b/mid {group}", *tops, *back]
        graph = a_graph(kinds, needs, budget(CobId("a/top"), CobId("c/top")))
        assert len(found(graph)) == number, group


def test_what_wants_to_be_down_is_not_taken_there() -> None:
    graph = apps_and_db(budget(*APPS, count=1))
    cobs = {cob: replace(it, want="down") if cob in APPS else it for cob, it in graph.cobs.items()}
    assert found(replace(graph, cobs=cobs)) == []


def test_steps_alike_are_told_once_for_each_budget() -> None:
    kinds = {**dict.fromkeys(map(str, APPS), SERVING), "db1/db": HARD, "db2/db": HARD}
    needs = [it for app in APPS for db in ("db1/db", "db2/db") for it in requires(app, db)]
    one, other = budget(*APPS), replace(budget(*APPS[:2]), name="pair")
    told = found(a_graph(kinds, needs, other, one))
    assert [misfit.budget.name for misfit in told] == ["pair", "rolling"]
    assert all("db1/db: outdated" in misfit.message for misfit in told)


def test_the_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {**dict.fromkeys(map(str, APPS), SERVING), "a/db": HARD, "db/db": HARD}
    needs = ["a/db outdated>down app1/app down", *(it for app in APPS for it in requires(app, DB))]
    graph = a_graph(kinds, needs, budget(*APPS))
    assert len(found(graph)) == 1
    monkeypatch.setattr(fit, "MIN_FOLLOWED", 0)
    monkeypatch.setattr(fit, "FOLLOWED_PER_NEED", 0)
    assert found(graph) == []


@pytest.mark.parametrize(
    ("said", "racks", "told"),
    [
        ({"count": 2}, None, ""),
        ({"count": 3}, None, "limit `rolling` lets all of its 3 units out at once: 3"),
        ({"percent": 99}, None, ""),
        ({"percent": 100}, None, "limit `rolling` lets all of its 3 units out at once: 100%"),
        ({"count": 1}, "aab", ""),
        ({"count": 1}, "abc", "limit `rolling` lets all of its 3 units out at once: 1"),
        ({"count": 2}, "aab", "limit `rolling` lets all of its 3 units out at once: 2"),
        ({"percent": 50}, "abc", ""),
    ],
    ids=str,
)
def test_a_bound_that_lets_all_units_out_is_told(
    said: dict[str, int], racks: str | None, told: str
) -> None:
    per = dict(zip(("app1", "app2", "app3"), racks, strict=True)) if racks else None
    graph = a_graph(dict.fromkeys(map(str, APPS), SERVING), [], budget(*APPS, per=per, **said))
    assert [it.message for it in found(graph, MisfitKind.ALL)] == ([told] if told else [])


def test_one_unit_alone_is_no_matter_for_a_bound() -> None:
    graph = a_graph({str(DB): SERVING}, [], budget(DB), replace(budget(), name="none"))
    assert misfits(graph) == ()


def test_a_type_that_does_not_say_whether_outdated_serves_is_told() -> None:
    plain = type_of("down up", "down>up up>down", "up", "down")
    kinds = {"app1/app": SIMPLE, "app2/app": SERVING, "app3/app": replace(plain, name="plain")}
    graph = a_graph(kinds, [], budget(*APPS))
    (misfit,) = misfits(graph)
    assert misfit.kind is MisfitKind.SERVING
    assert misfit.message.startswith(
        "limit `rolling`: type `simple` does not say whether it serves"
    )


def test_without_budgets_nothing_is_looked_at() -> None:
    assert misfits(apps_and_db()) == ()


def test_a_unit_that_goes_as_a_whole_and_that_another_limit_has_no_room_for_is_told() -> None:
    """Racks of two and one, which is told of once; a limit with room for two has no say."""
    kinds = dict.fromkeys(map(str, APPS), SERVING)
    racks = Budget(
        name="racks",
        units=(
            Unit(name="r1", members=frozenset(APPS[:2])),
            Unit(name="r2", members=frozenset(APPS[2:])),
        ),
    )
    room = replace(budget(*APPS, count=2), name="room")
    (misfit,) = found(a_graph(kinds, [], budget(*APPS, count=1), racks, room))
    assert misfit.budget.name == "rolling"
    assert misfit.message == (
        "limit `rolling`: no room for `r1` of limit `racks`, which takes out 2 units at once "
        "(app1, app2), where at most 1 may be out"
    )
