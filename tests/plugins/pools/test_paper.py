"""The numbered examples of the Hedeby paper, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cobweb_plugins.pools.decision import (
    AdapterFacts,
    Holding,
    Kpi,
    Member,
    MemberState,
    NoteKind,
    Observed,
    Outcome,
    Phase,
    Priority,
    Seen,
    ServiceState,
    Share,
    View,
    decide,
    pools_of,
    usages,
)

ADAPTERS = {
    "any": AdapterFacts(holds=frozenset({"host"})),
    "spare": AdapterFacts(holds=frozenset({"host"}), direct=True),
}


def the_view(section: Mapping[str, Any], owners: Mapping[str, str]) -> View:
    """Return pools whose members have long been up."""
    return View(
        pools=pools_of(section, ADAPTERS),
        holdings={id_: Holding(service=name) for id_, name in owners.items()},
        members={id_: Member(state=MemberState.UP) for id_ in owners},
    )


def running(view: View, **kpis: float) -> Mapping[str, Observed]:
    """Return the answer of each service at 1000 s: its members are at work; the KPIs are alike."""
    told = tuple(Kpi(name=name, value=value) for name, value in kpis.items())
    return {
        name: Observed(
            state=ServiceState.RUNNING,
            kpis=told,
            members={
                id_: Seen(idle=False) for id_, it in view.holdings.items() if it.service == name
            },
            begun_s=1000,
            arrived_s=1000,
        )
        for name in view.pools.services
    }


def moves(outcome: Outcome) -> dict[str, tuple[str, str | None]]:
    """Return where each resource that was decided on is, and where it goes."""
    return {
        id_: (it.service, it.to) if it.phase is Phase.LEAVING else ("", it.service)
        for id_, it in outcome.writes.items()
        if it is not None
    }


def test_example_1_3_a_typical_sla_has_two_objectives() -> None:
    """Fewer than 10 requests wait, and one takes less than 3 s: each that fails is a need."""
    slo = {"kind": "pending", "above": 9, "for": "0s"}
    slow = {"name": "slow", "kpi": "throughput_s", "above": 3}
    need = {"urgency": 75, "quantity": 1}
    view = the_view(
        {
            "resources": {"n[1:3]": {}},
            "services": {
                "web": {
                    "adapter": "any",
                    "slos": [{**slo, "need": need}, {**slo, **slow, "need": need}],
                },
                "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
            },
        },
        {"n1": "web", "n2": "spare", "n3": "spare"},
    )
    for kpis, expected in (
        ({"pending": 9, "throughput_s": 3}, []),
        ({"pending": 10, "throughput_s": 3}, ["pending-1"]),
        ({"pending": 10, "throughput_s": 3.5}, ["pending-1", "slow"]),
    ):
        outcome = decide(view, running(view, **kpis), {}, 1000, Priority())
        orders = [it.order for it in outcome.writes.values() if it]
        assert sorted(order.slo for order in orders if order) == expected
        # Example 1.4: the need has the urgency 75.
        assert all(order.weight == 75 for order in orders if order)


def test_example_1_5_a_service_gets_a_resource_from_the_spare_pool() -> None:
    """Six resources in the pool, a service without a need, and one with a need for one."""
    minimum = {"kind": "minimum", "urgency": 50}
    view = the_view(
        {
            "resources": {"r[01:12]": {}},
            "services": {
                "one": {"adapter": "any", "slos": [{**minimum, "quantity": 3}]},
                "two": {"adapter": "any", "slos": [{**minimum, "quantity": 4}]},
                "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
            },
        },
        {
            **dict.fromkeys(["r01", "r02", "r03", "r04", "r05", "r06"], "spare"),
            **dict.fromkeys(["r07", "r08", "r09"], "one"),
            **dict.fromkeys(["r10", "r11", "r12"], "two"),
        },
    )
    outcome = decide(view, running(view), {}, 1000, Priority())
    assert moves(outcome) == {"r01": ("", "two")}


def test_example_1_6_the_usage_is_the_highest_urgency_of_the_slos_that_need_a_resource() -> None:
    """SLO1 (urgency 50) needs R1, R5 and R6; SLO2 (urgency 30) needs R1 to R4."""
    slos = [
        {"kind": "minimum", "quantity": 3, "urgency": 50, "filter": "slo1"},
        {"kind": "minimum", "quantity": 4, "urgency": 30, "filter": "slo2"},
    ]
    of_both = {"properties": {"slo1": True, "slo2": True}}
    resources = {
        "R1": of_both,
        "R[2:4]": {"properties": {"slo2": True}},
        "R[5:6]": {"properties": {"slo1": True}},
    }
    owners = {f"R{number}": "service" for number in range(1, 7)}
    section = {"resources": resources, "services": {"service": {"adapter": "any", "slos": slos}}}
    view = the_view(section, owners)
    found = usages(view, running(view), {}, 1000)
    assert found == {"R1": 50, "R2": 30, "R3": 30, "R4": 30, "R5": 50, "R6": 50}


def section_1_7(policy: str = "priority", b_urgency: float = 40) -> Mapping[str, Any]:
    """Return the services, priorities and SLOs of example 1.7."""

    def more_than_3(urgency: float) -> Mapping[str, Any]:
        return {"kind": "minimum", "quantity": 4, "urgency": urgency}

    permanent = {"kind": "permanent", "urgency": 1}
    return {
        "resources": {"s1": {}, "a[1:3]": {}, "b[1:2]": {}},
        "policy": policy,
        "services": {
            "spare": {"adapter": "spare", "priority": 1, "slos": [permanent]},
            "A": {"adapter": "any", "priority": 2, "slos": [more_than_3(50)]},
            "B": {"adapter": "any", "priority": 3, "slos": [more_than_3(b_urgency)]},
        },
    }


OWNERS_1_7 = {"s1": "spare", "a1": "A", "a2": "A", "a3": "A", "b1": "B", "b2": "B"}


def test_example_1_7_the_policy_weighs_urgencies_by_priorities() -> None:
    """Spare 1 x 1, A 50 x 2 and B 40 x 3: B gets the free resource, although A is more urgent."""
    view = the_view({**section_1_7(), "budget": {"moves": 1, "per": "1h"}}, OWNERS_1_7)
    only_spare = decide(view, running(view), {}, 1000, Priority())
    assert moves(only_spare) == {"s1": ("", "B")}
    assert only_spare.writes["s1"] is not None
    order = only_spare.writes["s1"].order
    assert order is not None
    assert order.weight == 120
    move = next(note for note in only_spare.notes if note.kind is NoteKind.MOVE)
    assert move.text == "spare -> B: minimum-1 weighs 120, it weighs 1 in spare"


def test_example_1_7_the_next_run_goes_on_until_nobody_weighs_more() -> None:
    """B still lacks one, and 120 is more than the 100 that A's resources weigh."""
    view = the_view(section_1_7(), OWNERS_1_7)
    outcome = decide(view, running(view), {}, 1000, Priority())
    assert moves(outcome) == {"s1": ("", "B"), "a1": ("A", "B")}


@pytest.mark.parametrize(("moved", "weight"), [(0, 1.0), (1, 100.0)])
def test_example_1_7_what_is_taken_weighs_less(moved: int, weight: float) -> None:
    view = the_view(section_1_7(), OWNERS_1_7)
    outcome = decide(view, running(view), {}, 1000, Priority())
    texts = [note.text for note in outcome.notes if note.kind is NoteKind.MOVE]
    assert f"it weighs {weight:g} in" in texts[moved]


def test_example_1_8_a_service_is_sure_of_its_share() -> None:
    """With 50% of the six for A its three are not taken, however urgent B's need is."""
    section = dict(section_1_7("share"))
    section["services"] = {
        name: {**body, "share": 50} if name == "A" else body
        for name, body in section_1_7(b_urgency=90)["services"].items()
    }
    view = the_view(section, OWNERS_1_7)
    outcome = decide(view, running(view), {}, 1000, Share())
    assert moves(outcome) == {"s1": ("", "B")}
    by_priority = decide(view, running(view), {}, 1000, Priority())
    assert moves(by_priority) == {"s1": ("", "B"), "a1": ("A", "B")}
