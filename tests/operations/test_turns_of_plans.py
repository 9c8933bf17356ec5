"""Whose turn comes after whose in a plan under limits, however little their checks are trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cobweb.engine import Lending
from cobweb.model import Budget, CobId, Graph, State, host_of
from cobweb.operations.planning._prediction import Prediction, predict
from cobweb_plugins.planner import EventPlanner
from tests.support.contexts import context_over
from tests.support.graphs import SIMPLE, budget_of, graph_of, type_of
from tests.support.problems import RESTARTED

TRUSTS = (0.0, 1.0, 60.0)
STOPPED = replace(
    type_of("outdated down up", "outdated>down down>up up>down", "up", "down"),
    serving=("up", "outdated"),
)
"""A type that is stopped for its new content."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A site, what is known of it, and how long the steps of each object take."""

    graph: Graph
    known: dict[CobId, State]
    seconds: dict[CobId, float]
    slots: frozenset[tuple[str, str]] = frozenset()

    def predict(self, trust_s: float) -> Prediction:
        """Return what a run would do if all limits trusted a check for so long; all have served."""
        budgets = tuple(replace(it, trust_s=trust_s) for it in self.graph.budgets)
        members = {cob for it in budgets for unit in it.units for cob in unit.members}
        lending = Lending(slots=self.slots, served=frozenset(members))
        graph = replace(self.graph, budgets=budgets)
        context = context_over(graph, self.known, lending=lending)
        return predict(context, lambda cob, _source, _dest: self.seconds[cob])


@st.composite
def sites(draw: st.DrawFn) -> Drawn:
    """Draw two tiers, each under a limit, over a base that none limits; some hosts are out."""
    cobs, needs, known, slots = {"z/db": SIMPLE}, [], {}, set[tuple[str, str]]()
    tiers: list[str] = []
    for tier in ("app", "web")[: draw(st.integers(1, 2))]:
        hosts = [f"{tier[0]}{number}" for number in range(draw(st.integers(2, 5)))]
        kind = draw(st.sampled_from([STOPPED, RESTARTED]))
        tiers.append(" ".join(f"{host}/{tier}" for host in hosts))
        for host in hosts:
            cobs[f"{host}/{tier}"] = kind
            if draw(st.booleans()):
                cobs[f"{host}/conf"] = SIMPLE
                needs.append(f"{host}/{tier} *>up {host}/conf up")
            if draw(st.booleans()):
                needs.append(f"{host}/{tier} *>up z/db up")
    if len(tiers) > 1:
        needs += [f"{web} *>up {app} up" for web in tiers[1].split() for app in tiers[0].split()]
    names = sorted(map(CobId, cobs))
    for cob in names:
        known[cob] = draw(st.sampled_from(["outdated", "outdated", "outdated", "up", "down"]))
    budgets = tuple(
        budget_of(
            members,
            draw(st.integers(1, 2)),
            name=f"limit{number}",
            percent=draw(st.sampled_from([None, None, 50])),
        )
        for number, members in enumerate(tiers)
    )
    for budget in budgets:
        if draw(st.integers(0, 3)) == 0:
            slots.add((budget.name, draw(st.sampled_from([unit.name for unit in budget.units]))))
    seconds = {cob: draw(st.sampled_from([0.5, 1.0, 1.0, 3.0])) for cob in names}
    return Drawn(
        graph=graph_of(cobs, *needs, budgets=budgets),
        known=known,
        seconds=seconds,
        slots=frozenset(slots),
    )


def stays(budget: Budget, site: Drawn, prediction: Prediction) -> dict[str, tuple[float, float]]:
    """Return from when to when each unit takes room; from 0 where it does so from the start."""
    found: dict[str, tuple[float, float]] = {}
    for unit in budget.units:
        steps = [step for step in prediction.steps if host_of(step.cob) == unit.name]
        was_out = not {site.known[cob] for cob in unit.members} <= {"up", "outdated"}
        begins = -1.0 if was_out or (budget.name, unit.name) in site.slots else None
        if steps and (begins is not None or not unit.members.isdisjoint(prediction.goes_out)):
            first = min(step.start_s for step in steps) if begins is None else begins
            found[unit.name] = (first, max(step.end_s for step in steps))
    return found


@pytest.mark.parametrize("trust_s", TRUSTS)
@given(site=sites())
def test_no_more_units_that_go_out_stand_in_one_stage_than_may(trust_s: float, site: Drawn) -> None:
    """Repairs run side by side, so units that were out before do not count."""
    prediction = site.predict(trust_s)
    stages = EventPlanner().stages(site.graph, prediction.steps).stages
    for budget in site.graph.budgets:
        going = {unit for unit, (first, _) in stays(budget, site, prediction).items() if first >= 0}
        for stage in stages:
            here = {host_of(step.cob) for step in stage} & going
            assert len(here) <= budget.bound(len(budget.units))


@pytest.mark.parametrize("trust_s", TRUSTS)
@given(site=sites())
def test_who_could_begin_only_when_room_came_back_waits_for_who_gave_it_back(
    trust_s: float, site: Drawn
) -> None:
    prediction = site.predict(trust_s)
    assume(not prediction.looked_ahead)
    for budget in site.graph.budgets:
        found = stays(budget, site, prediction)
        for unit, (begins, _) in found.items():
            full = {
                other: ends
                for other, (first, ends) in found.items()
                if other != unit and first < begins <= ends
            }
            if len(full) < budget.bound(len(budget.units)):
                continue
            gave_back = {other for other, ends in full.items() if ends == begins}
            waited = {
                host_of(on)
                for step in prediction.steps
                if host_of(step.cob) == unit and step.start_s == begins
                for on in step.waits_for
            }
            assert waited & gave_back


@pytest.mark.parametrize("count", [1, 2])
def test_a_plan_is_the_same_whatever_a_limit_trusts(count: int) -> None:
    """Each server is checked anew between the return of a slot and its next lending."""
    cobs = {f"w{number}/app": RESTARTED for number in range(1, 6)}
    graph = graph_of(cobs, budgets=(budget_of(" ".join(cobs), count),))
    known = dict.fromkeys(graph.cobs, "outdated")
    site = Drawn(graph=graph, known=known, seconds=dict.fromkeys(graph.cobs, 1.0))
    plans = [site.predict(trust_s).steps for trust_s in TRUSTS]
    assert plans[0] == plans[1] == plans[2]
    hosts = [f"w{number}/app" for number in range(1, 6)]
    afters = [(), *((host,) for host in hosts)] if count == 1 else [(), (), *((h,) for h in hosts)]
    assert [step.waits_for for step in plans[0]] == afters[:5]
    path = EventPlanner().stages(graph, plans[0]).critical_path
    assert [step.cob for step in path] == hosts[::count]


@pytest.mark.parametrize("trust_s", TRUSTS)
def test_two_limits_of_which_slots_come_back_at_once_are_told_apart(trust_s: float) -> None:
    apps = {f"a{number}/app": RESTARTED for number in range(3)}
    webs = {f"w{number}/web": RESTARTED for number in range(3)}
    budgets = (budget_of(" ".join(apps), name="apps"), budget_of(" ".join(webs), name="webs"))
    graph = graph_of(apps | webs, budgets=budgets)
    known = dict.fromkeys(graph.cobs, "outdated")
    site = Drawn(graph=graph, known=known, seconds=dict.fromkeys(graph.cobs, 1.0))
    waits = {step.cob: step.waits_for for step in site.predict(trust_s).steps}
    before = {f"{host}{n}": f"{host}{n - 1}" for host in "aw" for n in (1, 2)}
    kind = {"a": "app", "w": "web"}
    assert waits == {
        cob: (f"{before[host]}/{kind[host[0]]}",) if (host := host_of(cob)) in before else ()
        for cob in graph.cobs
    }


@pytest.mark.parametrize("trust_s", TRUSTS)
def test_who_follows_a_canary_waits_for_it(trust_s: float) -> None:
    cobs = {f"w{number}/app": RESTARTED for number in range(4)}
    budget = budget_of(" ".join(cobs), 2, first=1, pause_s=9.0)
    graph = graph_of(cobs, budgets=(budget,))
    context = context_over(
        replace(graph, budgets=(replace(budget, trust_s=trust_s),)),
        dict.fromkeys(graph.cobs, "outdated"),
    )
    context = replace(context, before=replace(context.before, changed=frozenset(graph.cobs)))
    steps = predict(context).steps
    assert [(step.cob, step.start_s, step.waits_for) for step in steps] == [
        ("w0/app", 0.0, ()),
        ("w1/app", 10.0, ("w0/app",)),
        ("w2/app", 10.0, ("w0/app",)),
        ("w3/app", 11.0, ("w1/app",)),
    ]


def test_a_unit_that_has_its_slot_from_an_earlier_run_has_its_turn_first() -> None:
    cobs = {f"w{number}/app": RESTARTED for number in range(1, 4)}
    graph = graph_of(cobs, budgets=(budget_of(" ".join(cobs)),))
    known = dict.fromkeys(graph.cobs, "outdated") | {CobId("w2/app"): "down"}
    slots = frozenset({("rolling", "w2")})
    seconds = dict.fromkeys(graph.cobs, 1.0)
    prediction = Drawn(graph=graph, known=known, seconds=seconds, slots=slots).predict(60.0)
    assert [it.units for it in prediction.limits] == [("w2", "w1", "w3")]
    assert {step.cob: step.waits_for for step in prediction.steps if step.source != "down"} == {
        "w1/app": ("w2/app",),
        "w3/app": ("w1/app",),
    }
