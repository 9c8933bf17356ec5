"""The decider of pools: pure, and what it writes is what its section takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cobweb.model import Decision
from cobweb.plugin import load_plugins
from cobweb.testing import NamedCheck
from cobweb_plugins.controller.deciders import DeciderView, ObjectState
from cobweb_plugins.controller.deciders.kit import DeciderCase, decider_checks
from cobweb_plugins.pools import PoolsDecider, PoolsSection

NOW_S = 1e9
SETTINGS = {"on": "head", "with": {"folder": "/srv/batch"}}
SECTION: dict[str, Any] = {
    "resources": {"n[1:4]": {"type": "host"}},
    "services": {
        "batch": {
            "adapter": "processes",
            **SETTINGS,
            "slos": [{"kind": "pending", "above": 0, "urgency": 50}],
        },
        "hpc": {
            "adapter": "processes",
            "on": "head",
            "with": {"folder": "/srv/hpc"},
            "slos": [{"kind": "pending", "above": 0, "urgency": 50}],
        },
        "spare": {"adapter": "spare", "slos": [{"kind": "permanent", "urgency": 1}]},
    },
    "grow_after": "0s",
    "shrink_after": "0s",
    "immunity": "0s",
}
IDLE: dict[str, Any] = {"idle": True, "jobs": 0, "load": 0.0, "state": "up"}


def answer(pending: float, **members: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a service that runs has answered just now."""
    kpis = [{"name": "pending", "value": pending, "properties": {}}]
    words = {"begun": NOW_S - 1, "arrived": NOW_S, "state": "running"}
    return {**words, "kpis": kpis, "members": members}


def seen(**changes: Any) -> dict[str, Any]:
    """Return observations in which nobody has anything, but for what is changed."""
    found: dict[str, Any] = {
        "adapters": {
            "processes": {"holds": ["host"], "direct": False},
            "spare": {"holds": ["host"], "direct": True},
        },
        "policy": "cobweb_plugins.pools:PriorityPolicy",
        "answers": {"batch": answer(0), "hpc": answer(0), "spare": {**answer(0), "kpis": []}},
        "objects": {},
        "strangers": [],
        "run": {"begun": 0.0, "unsettled": []},
    }
    return {**found, **changes}


def with_answers(**changes: Any) -> dict[str, Any]:
    """Return observations with other answers of some services."""
    before = seen()
    return {**before, "answers": {**before["answers"], **changes}}


def decision(key: str, **body: Any) -> Decision:
    """Return a decision of a while ago."""
    body = {"phase": "in", "since": NOW_S - 1000, **body}
    return Decision(
        section="pools", key=key, body=body, revision=1, author="pools", reason="why", time=1.0
    )


def view(*decisions: Decision, **states: tuple[str, float]) -> DeciderView:
    """Return what is known: decisions, and states of objects `n1/pool-SERVICE-n1` since when."""
    known = {
        f"{name[:2]}/pool-{name[3:]}-{name[:2]}": ObjectState(state=state, since=since_s)
        for name, (state, since_s) in states.items()
    }
    by_key = {it.key: it for it in decisions}
    return DeciderView(data=SECTION, decisions=by_key, states=known)  # type: ignore[arg-type]


def objects(**services: str) -> dict[str, Any]:
    """Return the objects of resources in services that are named with a blank between them."""
    return {
        id_: {name: [f"{id_}/pool-{name}-{id_}"] for name in names.split()}
        for id_, names in services.items()
    }


def decided(given: DeciderView, observed: Mapping[str, Any], memory: Any = None) -> Any:
    """Return what a new decider decides."""
    return PoolsDecider().decide(given, observed, memory, NOW_S)


MAKE: Any = PoolsDecider  # which has an outcome of its own
CASE = DeciderCase(
    make=MAKE,
    view=view(),
    observations=with_answers(hpc=answer(3, n2=IDLE)),
    memory=None,
    now_s=NOW_S,
    hostile=[
        with_answers(batch={"said": "unreachable"}),
        with_answers(batch=answer(-1), hpc={**answer(0), "state": "error"}),
        with_answers(batch=answer(0, n1=IDLE), hpc=answer(0, n1=IDLE)),
        with_answers(batch=answer(0, stranger=IDLE)),
        with_answers(batch={**answer(0), "kpis": []}),
        {**seen(), "answers": {}},
    ],
    rests_after=3,
    decision_schema=PoolsSection.decision_schema,
)


@pytest.mark.parametrize("check", decider_checks(CASE), ids=str)
def test_it_conforms(check: NamedCheck) -> None:
    check()


def test_it_is_registered_for_its_section() -> None:
    assert load_plugins().extensions_at("decider")["pools"] is PoolsDecider


def test_what_a_service_has_is_taken_as_it_is_with_its_settings() -> None:
    outcome = decided(view(), with_answers(batch=answer(0, n1=IDLE)))
    body = outcome.writes["n1"]
    assert (body["service"], body["phase"], body["settings"]) == (
        "batch",
        "in",
        {"batch": SETTINGS},
    )
    assert outcome.writes["n2"]["service"] == "spare"


@pytest.mark.parametrize("state", ["draining", "silent"])
def test_who_is_found_out_of_work_is_left_alone_and_told(state: str) -> None:
    outcome = decided(view(), with_answers(batch=answer(5, n1={**IDLE, "state": state})))
    assert "n1" not in outcome.writes
    assert f"found in batch, where it is {state}: `cobweb pool adopt batch`" in outcome.notes["n1"]


def test_nothing_is_anybodys_until_all_have_answered_and_the_cause_is_told() -> None:
    outcome = decided(view(), with_answers(batch={"said": "no route to head"}, hpc=answer(5)))
    assert outcome.writes == {}
    assert outcome.notes["batch"].endswith("it has not answered: no route to head")


def test_what_was_given_up_is_nobodys_to_take() -> None:
    lost = decision("n1", service=None, phase="failed", lost=True, was=["batch"])
    known = objects(n1="batch")
    outcome = decided(view(lost), {**with_answers(hpc=answer(9)), "objects": known})
    assert {key for key in outcome.writes if outcome.writes[key]["service"] == "hpc"} == {"n2"}
    assert "n1" not in outcome.writes


LEAVES = decision("n1", service="batch", phase="leaving", to="hpc", settings={"batch": SETTINGS})


def test_who_is_idle_goes_on_with_what_it_has_left() -> None:
    drained = view(LEAVES, n1_batch=("draining", NOW_S - 60))
    observed = with_answers(batch=answer(0, n1={**IDLE, "state": "draining"}))
    outcome = decided(drained, {**observed, "objects": objects(n1="batch")})
    body = outcome.writes["n1"]
    assert (body["service"], body["phase"], body["was"]) == ("hpc", "in", ["batch"])
    assert set(body["settings"]) == {"batch", "hpc"}


@pytest.mark.parametrize(
    ("state", "since_s", "known", "member"),
    [
        pytest.param("up", 60, "batch", IDLE, id="it does not drain yet"),
        pytest.param("draining", 0, "batch", IDLE, id="it was asked before it drained"),
        pytest.param("unknown", 60, "batch", IDLE, id="nobody knows whether it drains"),
        pytest.param("draining", 60, "batch", {**IDLE, "idle": False, "jobs": 1}, id="at work"),
        pytest.param("draining", 60, "batch", {**IDLE, "state": "silent"}, id="not heard"),
        pytest.param("draining", 60, "", IDLE, id="decided since it was looked"),
    ],
)
def test_who_may_be_at_work_stays(
    state: str, since_s: float, known: str, member: dict[str, Any]
) -> None:
    given = view(LEAVES, n1_batch=(state, NOW_S - since_s))
    observed = with_answers(batch=answer(0, n1=member))
    outcome = decided(given, {**observed, "objects": objects(n1=known)})
    assert "n1" not in outcome.writes
    assert "leaves batch for hpc" in outcome.notes["n1"]


JOINS = decision("n1", service="hpc", was=["batch"], settings={"batch": SETTINGS, "hpc": SETTINGS})


def unsettled(cob: str, kind: str, message: str = "") -> dict[str, Any]:
    """Return what a run that began lately has left undone."""
    chain = [{"cob": cob, "kind": kind, "detail": "its host cannot be reached"}]
    return {"begun": NOW_S - 50, "unsettled": [{"cob": cob, "message": message, "chain": chain}]}


@pytest.mark.parametrize(
    ("run", "phase", "reason"),
    [
        pytest.param(
            unsettled("n1/pool-hpc-n1", "failed", "no disk"),
            "failed",
            "n1/pool-hpc-n1: no disk",
            id="the join has failed",
        ),
        pytest.param(
            unsettled("n1/pool-batch-n1", "failed", "job 7"),
            "failed",
            "n1/pool-batch-n1: job 7",
            id="the removal has failed",
        ),
        pytest.param(
            unsettled("n1/pool-hpc-n1", "unreachable"),
            "failed",
            "n1/pool-hpc-n1: its host cannot be reached",
            id="out of reach for longer than an order waits",
        ),
        pytest.param(unsettled("n1/pool-hpc-n1", "limit"), None, "", id="it waits for a limit"),
        pytest.param(
            {**unsettled("n1/pool-hpc-n1", "failed", "no disk"), "begun": NOW_S - 2000},
            None,
            "",
            id="the run was before it was decided",
        ),
    ],
)
def test_a_join_that_has_failed_is_written_with_its_reason(
    run: dict[str, Any], phase: str | None, reason: str
) -> None:
    given = view(JOINS, n1_batch=("draining", 1.0))
    outcome = decided(given, {**seen(run=run), "objects": objects(n1="hpc batch")})
    body = outcome.writes.get("n1", {})
    assert (body.get("phase"), body.get("reason", "")) == (phase, reason)
    assert body.get("was", ["batch"]) == ["batch"]


def test_who_has_arrived_is_let_go_where_it_was() -> None:
    observed = {**with_answers(hpc=answer(0, n1=IDLE)), "objects": objects(n1="hpc batch")}
    there = view(JOINS, n1_batch=("down", 5.0), n1_hpc=("up", 5.0))
    body = decided(there, {**observed, "answers": {}}).writes["n1"]
    assert "was" not in body
    assert set(body["settings"]) == {"hpc"}
    on_its_way = view(JOINS, n1_batch=("down", 5.0), n1_hpc=("down", 5.0))
    assert decided(on_its_way, {**observed, "answers": {}}).writes == {}


def test_who_is_no_host_of_the_inventory_takes_no_part() -> None:
    """A decision on it would leave no site, and hold up all others."""
    outcome = decided(view(), {**with_answers(batch=answer(0, n1=IDLE)), "strangers": ["n1"]})
    assert outcome.writes
    assert "n1" not in outcome.writes
    assert outcome.notes["n1"] == "it is no host of the inventory"


def test_a_clock_that_was_ahead_makes_no_answer_too_old() -> None:
    observed = {**with_answers(batch=answer(0, n1=IDLE)), "now": NOW_S}
    ahead_s = NOW_S + 86_400
    outcome = PoolsDecider().decide(view(), observed, {"now_s": ahead_s}, ahead_s)
    assert outcome.writes["n1"]["service"] == "batch"


@pytest.mark.parametrize("state", ["draining", "up", "broken"])
@pytest.mark.parametrize("service", ["spare", "hpc", None])
def test_who_is_known_to_be_there_still_is_not_moved_by_hand(
    state: str, service: str | None
) -> None:
    """A turn may come between a decision and the run that carries it out."""
    going = decision("n1", service=service, was=["batch"], settings={"batch": SETTINGS})
    observed = with_answers(batch=answer(0, n1=IDLE))
    known = objects(n1="batch hpc" if service == "hpc" else "batch")
    outcome = decided(view(going, n1_batch=(state, 1.0)), {**observed, "objects": known})
    assert outcome.writes.get("n1", {}).get("phase") != "failed"
    assert outcome.writes.get("n1", {}).get("service") != "batch"


def test_a_turn_writes_no_more_than_it_may() -> None:
    data = {**SECTION, "resources": {"n[0001:1500]": {"type": "host"}}}
    outcome = decided(DeciderView(data=data), seen())
    assert len(outcome.writes) == 1000
