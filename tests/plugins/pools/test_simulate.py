"""The simulator: its queues obey their laws, its referee is not fooled, nothing is by chance."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb_plugins.pools.decision import (
    Holding,
    Observed,
    Outcome,
    Phase,
    Policy,
    Priority,
    Share,
    View,
    decide,
)
from cobweb_plugins.pools.simulation import (
    BASELINES,
    Decide,
    Result,
    Threshold,
    Trace,
    fixed,
    simulate,
    trace_of,
)

POOLS = """
pools:
  resources: {"n[1:6]": {properties: {cores: 4}}, "m[1:2]": {properties: {cores: 16}}}
  services:
    web: {adapter: web, priority: 3, min: 1, max: 6, slos: [{kind: pending, above: 1, urgency: 50}]}
    batch: {adapter: slurm, min: 1, slos: [{kind: pending, above: 1, urgency: 50, quantity: 2}]}
    spare: {adapter: spare, slos: [{kind: permanent, urgency: 1}]}
  immunity: 2m
  grow_after: 30s
  shrink_after: 3m
  circle: 1h
"""
SMALL = (
    POOLS
    + """
until: 2h
owners: {"n[1:2]": web, "n[3:4]": batch, "n[5:6]": spare, "m[1:2]": spare}
services:
  web:
    load:
      - lasts: 3m
        rates: [{at: 0h, per_hour: 20}, {at: 30m, per_hour: 90}, {at: 1h, per_hour: 10}]
  batch: {load: [{lasts: 12m, spread: exponential, rates: [{at: 0h, per_hour: 12}]}]}
"""
)
KEPT = {"R1": 0, "R3": 0, "R4": 0}


def made(text: str, **changes: Any) -> Trace:
    """Return the trace of a text, with other values of some of its keys."""
    return trace_of({**yaml.safe_load(text), **changes})


def deciding(at: Mapping[int, Mapping[str, Holding | None]]) -> Decide:
    """Return what writes the given holdings, by the round (from 0), and nothing else."""
    rounds = iter(range(1_000_000))

    def act(
        view: View,
        observations: Mapping[str, Observed],
        memory: Mapping[str, Any],
        now_s: float,
        policy: Policy,
    ) -> Outcome:
        del view, observations, now_s, policy
        return Outcome(writes=at.get(next(rounds), {}), memory=memory, notes=())

    return act


def watched(seen: list[tuple[View, Mapping[str, Observed]]], decide_: Decide = fixed) -> Decide:
    """Return what decides alike, and keeps what it was asked with."""

    def act(
        view: View,
        observations: Mapping[str, Observed],
        memory: Mapping[str, Any],
        now_s: float,
        policy: Policy,
    ) -> Outcome:
        seen.append((view, observations))
        return decide_(view, observations, memory, now_s, policy)

    return act


def hours_of(result: Result) -> float:
    parts = (it.busy_h + it.idle_h + it.transit_h for it in result.services.values())
    return sum(parts) + result.unowned_h


@pytest.mark.parametrize("decider", [decide, *BASELINES.values()], ids=["decide", *BASELINES])
def test_the_same_trace_gives_the_same_result(decider: Decide) -> None:
    trace = made(SMALL)
    first, second = (simulate(trace, decider, Priority()) for _ in range(2))
    assert first == second
    assert first.violations == KEPT
    assert hours_of(first) == pytest.approx(8 * 2)
    assert first.rounds == 240


def _dumb_queue(servers: int, rate: float, lengths: list[float], until_s: float) -> list[float]:
    """Return the waits of jobs that come at 1/rate, 2/rate, ...; each takes a free server."""
    free_at = [0.0] * servers
    waits = []
    for number, length in enumerate(lengths, 1):
        came = number / rate
        if came >= until_s:
            break
        begins = max(came, heapq.heappop(free_at))
        heapq.heappush(free_at, begins + length)
        waits.append(min(begins, until_s) - came)
    return waits


@pytest.mark.parametrize("spread", ["none", "exponential"])
@pytest.mark.parametrize(("servers", "per_hour"), [(1, 3), (1, 5), (3, 11), (3, 14)])
def test_a_queue_is_first_come_first_served(spread: str, servers: int, per_hour: int) -> None:
    stream = {"lasts": "15m", "spread": spread, "rates": [{"at": "0h", "per_hour": per_hour}]}
    trace = made(
        POOLS, until="2d", owners={f"n[1:{servers}]": "web"}, services={"web": {"load": [stream]}}
    )
    golden = (math.sqrt(5) - 1) / 2
    points = [(0.5 + at * golden) % 1 for at in range(1000)]
    lengths = [900.0 if spread == "none" else -900 * math.log(1 - it) for it in points]
    waits = _dumb_queue(servers, per_hour / 3600, lengths, 2 * 86400)
    web = simulate(trace, fixed, Priority()).services["web"]
    assert web.jobs == len(waits)
    assert web.wait_max_s == pytest.approx(max(waits), abs=1e-3)
    assert web.wait_mean_s == pytest.approx(sum(waits) / len(waits), abs=1e-3)


def test_lengths_have_the_mean_that_is_asked_for() -> None:
    stream = {"lasts": "1m", "spread": "exponential", "rates": [{"at": 0, "per_hour": 1000}]}
    trace = made(
        POOLS,
        until="1d",
        owners={"n[1:6]": "batch", "m[1:2]": "batch"},
        services={"batch": {"load": [{**stream, "rates": [{"at": 0, "per_hour": 240}]}]}},
    )
    batch = simulate(trace, fixed, Priority()).services["batch"]
    assert batch.busy_h == pytest.approx(batch.finished / 60, rel=0.01)


def test_jobs_come_at_the_rates_of_the_hours() -> None:
    rates = [{"at": "1h", "per_hour": 10}, {"at": "2h", "per_hour": 0}, {"at": "3h", "per_hour": 7}]
    load = {"web": {"load": [{"lasts": "1m", "rates": rates}]}}
    trace = made(POOLS, until="5h", owners={"n1": "web"}, services=load)
    assert simulate(trace, fixed, Priority()).services["web"].jobs == pytest.approx(10 + 14, abs=1)


def test_jobs_run_only_where_they_fit() -> None:
    big = {"kpi": "pending_big", "lasts": "10m", "needs": "cores >= 16"}
    load = {"load": [{**big, "rates": [{"at": 0, "per_hour": 60}]}]}
    seen: list[tuple[View, Mapping[str, Observed]]] = []
    trace = made(POOLS, until="1h", owners={"n[1:6]": "batch"}, services={"batch": load})
    batch = simulate(trace, watched(seen), Priority()).services["batch"]
    assert (batch.finished, batch.waiting) == (0, 59)
    kpis = {it.name: it.value for it in seen[-1][1]["batch"].kpis}
    assert kpis["pending_big"] == 59
    assert kpis["utilisation"] == 0


def test_no_job_runs_in_a_spare_pool() -> None:
    load = {"load": [{"lasts": "10m", "rates": [{"at": 0, "per_hour": 60}]}]}
    with pytest.raises(ModelError, match="a spare pool runs no jobs"):
        made(POOLS, until="1h", owners={"n[1:6]": "spare"}, services={"spare": load})


def test_a_member_that_joins_while_it_leaves_is_one_member() -> None:
    """No sound decision writes that; with a job on it, all members of the service are at work."""
    load = {"batch": {"load": [{"lasts": "9m", "rates": [{"at": 0, "per_hour": 60}]}]}}
    trace = made(POOLS, until="1h", services=load)
    seen: list[tuple[View, Mapping[str, Observed]]] = []
    moves = {1: {"n1": _held("batch", Phase.LEAVING)}, 30: {"n1": _held("batch")}}
    simulate(trace, watched(seen, deciding(moves)), Priority())
    batch = seen[-1][1]["batch"]
    kpis = {it.name: it.value for it in batch.kpis}
    assert (list(batch.members), kpis["utilisation"]) == (["n1"], 1)


def _held(service: str, phase: Phase = Phase.IN, to: str | None = None) -> Holding:
    return Holding(service=service, phase=phase, to=to)


@pytest.mark.parametrize(
    ("writes", "broken"),
    [
        pytest.param({"n2": _held("batch")}, {"R1": 1, "R4": 1}, id="at-work-and-given-away"),
        pytest.param({"n1": None, "n2": None}, {"R3": 1, "R4": 2}, id="taken-from-under-jobs"),
        pytest.param(
            {it: _held("web", Phase.LEAVING) for it in ("n1", "n2")}, {"R3": 1}, id="below-min"
        ),
        pytest.param(
            {it: _held("web") for it in ("n5", "n6", "m1", "m2", "n9")}, {"R3": 1}, id="above-max"
        ),
        pytest.param({"n5": _held("web"), "n2": _held("web", Phase.LEAVING)}, {}, id="honest"),
    ],
)
def test_the_referee_catches_a_cheat(
    writes: Mapping[str, Holding | None], broken: Mapping[str, int]
) -> None:
    """At round 80 both members of `web` are at work."""
    text = SMALL.replace('"n[1:6]"', '"n[1:9]"')
    result = simulate(made(text), deciding({80: writes}), Priority())
    assert result.violations == {**KEPT, **broken}


def test_a_resource_that_is_given_away_twice_has_two_owners() -> None:
    """It leaves `batch` in earnest; then `web` has it, and while it is up there `batch` again."""
    leaves = {0: {"n4": _held("batch", Phase.LEAVING, "web")}}
    honest = {**leaves, 70: {"n4": _held("web")}}
    assert simulate(made(SMALL), deciding(honest), Priority()).violations == KEPT
    cheats = {**honest, 90: {"n4": _held("batch")}}
    assert simulate(made(SMALL), deciding(cheats), Priority()).violations["R1"] == 1


def test_a_member_that_leaves_ends_its_job_first() -> None:
    load = {"batch": {"load": [{"lasts": "30m", "rates": [{"at": 0, "per_hour": 60}]}]}}
    trace = made(POOLS, until="1h", owners={"n1": "batch"}, services=load)
    seen: list[tuple[View, Mapping[str, Observed]]] = []
    leaves = {4: {"n1": _held("batch", Phase.LEAVING)}}
    batch = simulate(trace, watched(seen, deciding(leaves)), Priority()).services["batch"]
    states = [view.members["n1"].state for view, _ in seen]
    assert states[4:6] == ["up", "draining"]
    assert (
        list(map(str, states)).index("down") == 63
    )  # it came at 1m, ended at 31m, and left in 30s
    assert batch.finished == 1
    assert (batch.busy_h, batch.waiting) == (0.5, 58)


def test_a_member_that_is_taken_back_works_on() -> None:
    load = {"web": {"load": [{"lasts": "5m", "rates": [{"at": 0, "per_hour": 60}]}]}}
    trace = made(POOLS, until="1h", owners={"n[1:2]": "web"}, services=load)
    stays = simulate(trace, fixed, Priority())
    back = {4: {"n1": _held("web", Phase.LEAVING)}, 5: {"n1": _held("web")}}
    again = simulate(trace, deciding(back), Priority())
    assert (again.services, again.moves) == (stays.services, 0)
    late = {4: {"n1": _held("web", Phase.LEAVING)}, 40: {"n1": _held("web")}}
    joined = simulate(trace, deciding(late), Priority())
    assert joined.violations == KEPT
    assert 0 < joined.services["web"].transit_h < 0.4
    assert joined.services["web"].finished < stays.services["web"].finished


def test_a_swing_is_a_move_back_within_the_circle() -> None:
    trace = made(POOLS, until="4h", owners={"n[1:2]": "web"})
    moves: dict[int, dict[str, Holding | None]] = {}
    for hour, to in ((0.2, "spare"), (0.5, "web"), (0.8, "spare"), (2.5, "web")):
        if to == "spare":
            moves[round(hour * 120) - 5] = {"n1": _held("web", Phase.LEAVING, "spare")}
        moves[round(hour * 120)] = {"n1": _held(to)}
    result = simulate(trace, deciding(moves), Priority())
    assert (result.moves, result.swings, result.violations) == (4, 1, KEPT)


def test_recorded_answers_are_held_until_the_next() -> None:
    """Among them numbers that lie: the decision has to see to that."""
    records: list[dict[str, Any]] = [
        {"at": 0, "pending": 3, "members": {"n1": {"idle": False, "jobs": 2, "load": 0.5}}},
        {"at": "10m", "pending": ".nan"},
        {"at": "10m", "name": "pending", "value": -1, "properties": {"q": "a"}},
        {"at": "20m", "answers": False},
        {"at": "30m", "answers": True, "state": "error"},
        {"at": "40m", "pending": None},
    ]
    trace = made(POOLS, until="1h", owners={"n1": "web"}, services={"web": {"kpis": records}})
    seen: list[tuple[View, Mapping[str, Observed]]] = []
    simulate(trace, watched(seen), Priority())

    def told(minute: int) -> list[tuple[str, float]]:
        return [(str(it.properties), it.value) for it in seen[2 * minute][1]["web"].kpis]

    assert told(5) == [("{}", 3.0)]
    assert seen[10][1]["web"].members["n1"].jobs == 2
    assert [it[0] for it in told(12)] == ["{}", "{'q': 'a'}"]
    assert math.isnan(told(12)[0][1])
    assert "web" not in seen[50][1]
    assert seen[70][1]["web"].state == "error"
    assert told(45) == [("{'q': 'a'}", -1.0)]
    assert seen[0][1]["spare"].state == "running"


def test_the_threshold_autoscaler_grows_from_the_spare_pool_and_gives_back() -> None:
    rates = [{"at": 0, "per_hour": 60}, {"at": "1h", "per_hour": 0}]
    load = {"web": {"load": [{"lasts": "5m", "rates": rates}]}}
    trace = made(POOLS, until="3h", owners={"n[1:2]": "web", "n[3:6]": "spare"}, services=load)
    result = simulate(trace, Threshold(), Priority())
    most = max(result.series.members["web"])
    assert most == 6  # its `max`
    assert result.series.members["web"][-1] == 1  # its `min`
    assert result.services["web"].waiting == 0
    assert result.violations == KEPT


def test_the_threshold_autoscaler_takes_from_no_other_service() -> None:
    owners = {"n[1:2]": "web", "n[3:6]": "batch", "m[1:2]": "batch"}
    web = yaml.safe_load(SMALL)["services"]["web"]
    batch = {"load": [{"lasts": "20m", "rates": [{"at": 0, "per_hour": 90}]}]}
    trace = made(SMALL, owners=owners, services={"web": web, "batch": batch})
    members = [simulate(trace, it, Priority()).series.members for it in (Threshold(), decide)]
    assert [min(it["batch"]) == 6 for it in members] == [True, False]


def test_objectives_that_are_not_fulfilled_are_counted() -> None:
    trace = made(SMALL)
    idle = simulate(made(SMALL, services={}), fixed, Priority())
    busy = simulate(trace, fixed, Priority())
    assert idle.services["web"].unmet_h == 0
    assert 0 < busy.services["web"].unmet_h < 2


@given(
    owners=st.lists(st.sampled_from(["web", "batch", "spare", None]), min_size=8, max_size=8),
    rates=st.lists(st.integers(0, 120), min_size=4, max_size=4),
    lasts=st.sampled_from(["30s", "7m", "40m"]),
    policy=st.sampled_from([Priority(), Share()]),
)
def test_no_decision_breaks_a_promise(
    owners: list[str | None], rates: list[int], lasts: str, policy: Policy
) -> None:
    ids = [*(f"n{at}" for at in range(1, 7)), "m1", "m2"]
    at = [{"at": f"{20 * place}m", "per_hour": rate} for place, rate in enumerate(rates)]
    loads = {
        "web": {"load": [{"lasts": lasts, "spread": "exponential", "rates": at}]},
        "batch": {"load": [{"lasts": "9m", "needs": "cores >= 4", "rates": at[::-1][:1]}]},
    }
    owned = {id_: owner for id_, owner in zip(ids, owners, strict=True) if owner}
    result = simulate(
        made(POOLS, until="80m", every="1m", owners=owned, services=loads), decide, policy
    )
    assert result.violations == KEPT
    assert hours_of(result) == pytest.approx(8 * 80 / 60)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data.update(owners={"n1": "nobody"}), "no service `nobody`"),
        (lambda data: data.update(owners={"x1": "web"}), "no resource x1"),
        (lambda data: data.update(owners={"n[3:1]": "web"}), "`n[3:1]` is no range"),
        (lambda data: data.update(services={"spare": {"holds": ["disk"]}}), "spare holds no n5"),
        (lambda data: data.update(every="0s"), "no rounds, or over 1,000,000"),
    ],
)
def test_a_trace_that_cannot_be_so_is_refused(
    change: Callable[[dict[str, Any]], None], told: str
) -> None:
    data = yaml.safe_load(SMALL)
    change(data)
    with pytest.raises(ModelError, match=told.replace("[", r"\[")):
        trace_of(data)


def test_a_service_that_the_trace_does_not_name_has_nothing_to_do_and_gives_up_its_members() -> (
    None
):
    text = SMALL.partition("\nservices:")[0]
    result = simulate(trace_of(yaml.safe_load(text)), decide, Priority())
    assert "untrusted" not in result.notes
    assert result.series.members["web"][-1] == result.series.members["batch"][-1] == 1
