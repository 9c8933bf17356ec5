"""What is on a machine: believed where that is not there, asked only where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cobweb.cli.graph import graph_data
from cobweb.kernel._result import Ending
from cobweb.model import (
    UNKNOWN,
    Cob,
    CobId,
    Graph,
    Job,
    JobKind,
    LockNeed,
    Need,
    Outcome,
    Report,
    State,
    TransitionNeed,
)
from cobweb.operations.context._known_states import KnownStates, Refresh, known_states
from cobweb.operations.context._removal import with_machines
from cobweb.operations.planning._prediction import predict
from cobweb.store import CobRecord, EventWritten, RunInfo, StateWritten
from cobweb.testing.promises import check_promises
from tests.operations.test_predict import record
from tests.store.test_model import Model
from tests.support.contexts import context_over
from tests.support.graphs import type_of

MakeRig = Callable[..., Any]
NODE_TYPE = replace(
    type_of("gone made ready", "gone>made made>ready ready>gone made>gone", "ready", "gone"),
    name="node",
)
SERVICE_TYPE = replace(
    type_of(
        "outdated absent stopped started",
        "absent>stopped stopped>started started>stopped outdated>stopped stopped>absent",
        "started",
        "absent",
    ),
    name="service",
)


def node(host: str) -> CobId:
    return CobId(f"{host}/node")


def service(host: str, name: str = "app") -> CobId:
    return CobId(f"{host}/{name}")


def needs_of(it: CobId, machine: CobId) -> tuple[Need, ...]:
    """Return what a service and its machine need of each other, as clusters have it."""
    return (
        TransitionNeed(cob=it, source="absent", dest="stopped", on=machine, state="ready"),
        TransitionNeed(cob=machine, source="*", dest="gone", on=it, state="absent"),
    )


def cluster(*hosts: str, services: tuple[str, ...] = ("app",), needs: bool = True) -> Graph:
    """Return hosts with a machine and services on each."""
    cobs: dict[CobId, Cob] = {}
    found: list[Need] = []
    for host in hosts:
        cobs[node(host)] = Cob(id=node(host), type=NODE_TYPE)
        for name in services:
            it = service(host, name)
            cobs[it] = Cob(id=it, type=SERVICE_TYPE, machine=node(host), spec={"port": 1})
            found += needs_of(it, node(host))
    return Graph(cobs=dict(sorted(cobs.items())), needs=tuple(found) if needs else ())


def records(graph: Graph, **states: State) -> dict[CobId, CobRecord]:
    """Return what a journal knows: `h1_app="started"`."""
    ids = {name.replace("_", "/"): state for name, state in states.items()}
    return {CobId(cob): record(graph, CobId(cob), state=state) for cob, state in ids.items()}


# --- what is believed


def test_what_is_on_a_machine_that_is_known_to_be_away_is_away() -> None:
    graph = cluster("h1")
    for state in ("gone", "made"):
        before = known_states(graph, records(graph, h1_node=state, h1_app="started"))
        assert before.known == {node("h1"): state, service("h1"): "absent"}
        assert before.found == {}
        assert before.away == {service("h1")}


def test_what_the_journal_says_already_is_no_news() -> None:
    graph = cluster("h1")
    before = known_states(graph, records(graph, h1_node="gone", h1_app="absent"))
    assert (before.known[service("h1")], before.away) == ("absent", frozenset())


def test_what_the_journal_does_not_know_need_not_be_asked_for() -> None:
    graph = cluster("h1")
    before = known_states(graph, records(graph, h1_node="gone"))
    assert before.known[service("h1")] == "absent"
    assert before.away == {service("h1")}
    assert before.added == {service("h1")}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": UNKNOWN, "failed": True},
        {"in_transition": ("stopped", "started")},
        {"reachable": False},
    ],
    ids=["failed", "stopped", "unreachable"],
)
def test_doubts_end_where_there_is_no_machine(changes: dict[str, Any]) -> None:
    graph = cluster("h1")
    known = records(graph, h1_node="gone", h1_app="started")
    known[service("h1")] = replace(known[service("h1")], **changes)
    before = known_states(graph, known)
    assert before.known[service("h1")] == "absent"
    assert not before.uncertain


def test_what_is_on_a_machine_in_doubt_is_in_doubt() -> None:
    graph = cluster("h1")
    known = records(graph, h1_node="ready", h1_app="started")
    before = known_states(graph, {**known, node("h1"): replace(known[node("h1")], content="other")})
    assert before.known == {}
    assert before.found == {node("h1"): "ready", service("h1"): "started"}
    lost = replace(known[node("h1")], in_transition=("gone", "made"))
    before = known_states(graph, {**known, node("h1"): lost})
    assert before.found == {node("h1"): "gone", service("h1"): "absent"}


def test_what_is_on_a_machine_that_is_there_is_as_the_journal_says() -> None:
    graph = cluster("h1")
    known = records(graph, h1_node="ready", h1_app="started")
    assert known_states(graph, known).known == {node("h1"): "ready", service("h1"): "started"}
    everything = known_states(graph, known, refresh=Refresh.ALL)
    assert everything.found == {node("h1"): "ready", service("h1"): "started"}


def test_a_machine_that_wants_to_be_elsewhere_is_not_there_for_that() -> None:
    graph = cluster("h1")
    cobs = {**graph.cobs, node("h1"): replace(graph.cobs[node("h1")], want="gone")}
    graph = replace(graph, cobs=cobs)
    before = known_states(graph, records(graph, h1_node="gone", h1_app="started"))
    assert before.known[service("h1")] == "absent"


def test_objects_are_found_with_their_machines() -> None:
    graph = cluster("h1", "h2")
    assert with_machines({service("h1")}, graph) == {service("h1"), node("h1")}
    part = Graph(cobs={service("h1"): graph.cobs[service("h1")]})
    assert with_machines({service("h1"), node("h3")}, part) == {service("h1"), node("h3")}


# --- runs


def checked(run: Any) -> list[str]:
    return [job.cob for job in run.executor.jobs if job.kind is JobKind.CHECK]


def test_the_machine_is_looked_at_before_what_is_on_it(rig: MakeRig) -> None:
    run = rig(cluster("h1"), states={node("h1"): "ready", service("h1"): "started"})
    assert run.go().ending is Ending.OK
    assert checked(run) == [node("h1"), service("h1")]
    reasons = {event["cob"]: event["reason"] for event in run.events("cob.state")}
    assert reasons == {node("h1"): "check", service("h1"): "check"}


@pytest.mark.parametrize("state", ["gone", "made"])
def test_the_host_of_a_machine_that_is_not_there_is_not_asked(rig: MakeRig, state: State) -> None:
    """What is believed is written and told with its own reason, and nothing is applied."""
    run = rig(cluster("h1"), states={node("h1"): state, service("h1"): "started"})
    result = run.go()
    assert result.ending is Ending.OK
    assert checked(run) == [node("h1")]
    assert result.counts["checks"] == 1
    told = [e for e in run.events("cob.state") if e["cob"] == service("h1")]
    assert (told[0]["state"], told[0]["reason"]) == ("absent", "machine")
    written = [e for e in run.entries(StateWritten) if e.cob == service("h1")]
    assert (written[0].state, written[0].reason, written[0].applied) == ("absent", "machine", None)
    first = next(job for job in run.executor.jobs if job.cob == service("h1"))
    assert (first.source, first.cob_vars["recorded"]) == ("absent", "absent")


def test_what_the_journal_has_of_a_machine_that_is_away_is_corrected(rig: MakeRig) -> None:
    graph = cluster("h1")
    before = known_states(graph, records(graph, h1_node="gone", h1_app="started"))
    run = rig(
        graph, known=dict(before.known), context={"before": before}, states={node("h1"): "gone"}
    )
    assert run.go().ending is Ending.OK
    assert checked(run) == []
    written = [e for e in run.entries(StateWritten) if e.cob == service("h1")]
    assert (written[0].state, written[0].reason, written[0].applied) == ("absent", "machine", None)
    told = [e for e in run.events("cob.state") if e["cob"] == service("h1")]
    assert (told[0]["state"], told[0]["reason"]) == ("absent", "machine")
    assert run.executor.states[service("h1")] == "started"


def test_nobody_knows_what_is_on_a_machine_that_nobody_could_look_at(rig: MakeRig) -> None:
    def answer(job: Job) -> Report | None:
        if job.kind is JobKind.CHECK and job.cob == node("h1"):
            return Report(number=job.number, outcome=Outcome.FAILED, message="no credentials")
        return None

    run = rig(cluster("h1", "h2"), answer=answer, states=removed(cluster("h1", "h2")))
    result = run.go()
    assert result.ending is Ending.FAILED
    assert result.messages == {
        node("h1"): "no credentials",
        service("h1"): "its machine h1/node could not be looked at",
    }
    assert service("h1") not in checked(run)
    assert result.counts["settled"] == 2


def test_a_host_that_is_lost_takes_what_waits_for_its_machine_with_it(rig: MakeRig) -> None:
    def answer(job: Job) -> Report | None:
        if job.cob == node("h1"):
            return Report(number=job.number, outcome=Outcome.UNREACHABLE, message="no route")
        return None

    run = rig(cluster("h1"), answer=answer, states=removed(cluster("h1")))
    result = run.go()
    assert result.ending is Ending.FAILED
    assert {wait.chain[0].kind.value for wait in result.waits} == {"unreachable"}
    assert checked(run) == [node("h1")]


def test_a_check_that_waits_for_its_machine_is_dropped_by_an_interrupt(rig: MakeRig) -> None:
    def answer(_job: Job) -> Report | None:
        run.interrupts()
        return None

    run = rig(cluster("h1"), answer=answer, states=removed(cluster("h1")))
    assert run.go().ending is Ending.INTERRUPTED
    assert checked(run) == [node("h1")]


def test_what_a_machine_leaves_behind_is_believed_anew(rig: MakeRig) -> None:
    """Nothing says that the service must be gone first; so it is looked at when its machine is."""
    graph = cluster("h1", needs=False)
    leaving = {**graph.cobs, node("h1"): replace(graph.cobs[node("h1")], want="gone")}
    graph = replace(graph, cobs=leaving)
    run = rig(graph, known={node("h1"): "ready", service("h1"): "started"})
    run.go()
    told = [(e["state"], e["reason"]) for e in run.events("cob.state") if e["cob"] == service("h1")]
    assert told[:3] == [("started", "journal"), ("unknown", "machine"), ("absent", "machine")]
    assert checked(run) == []


def test_a_transition_that_outlives_its_machine_is_doubted_when_it_ends(rig: MakeRig) -> None:
    graph = cluster("h1", needs=False)
    leaving = {**graph.cobs, node("h1"): replace(graph.cobs[node("h1")], want="gone")}
    known = {node("h1"): "ready", service("h1"): "stopped"}
    run = rig(replace(graph, cobs=leaving), known=known)
    run.executor.hold(service("h1"))

    def answer(job: Job) -> Report | None:
        if job.dest == "gone":
            run.executor.finish(service("h1"))
        return None

    run.executor.answer = answer
    run.go()
    told = [(e["state"], e["reason"]) for e in run.events("cob.state") if e["cob"] == service("h1")]
    assert ("absent", "machine") in told
    assert checked(run) == []


def test_nobody_is_doubted_once_nothing_new_is_started(rig: MakeRig) -> None:
    graph = cluster("h1", needs=False)
    leaving = {**graph.cobs, node("h1"): replace(graph.cobs[node("h1")], want="gone")}

    def beat() -> None:
        run.interrupts()
        run.executor.finish(node("h1"))

    known = {node("h1"): "ready", service("h1"): "started"}
    other = Cob(id=node("h2"), type=NODE_TYPE)
    graph = replace(graph, cobs={**leaving, other.id: other})
    run = rig(graph, states={other.id: "ready"}, known=known, setting={"beat": beat})
    run.executor.hold(node("h1"))
    assert run.go().ending is Ending.INTERRUPTED
    assert [e["reason"] for e in run.events("cob.state") if e["cob"] == service("h1")] == [
        "journal"
    ]


# --- plans


def plan_of(graph: Graph, before: KnownStates) -> Any:
    context = context_over(graph, before=before)
    return predict(context)


def test_a_plan_makes_what_was_on_a_lost_machine_anew() -> None:
    graph = cluster("h1")
    before = known_states(graph, records(graph, h1_node="gone", h1_app="started"))
    steps = [(it.cob, it.source, it.dest) for it in plan_of(graph, before).steps]
    assert steps == [
        (node("h1"), "gone", "made"),
        (node("h1"), "made", "ready"),
        (service("h1"), "absent", "stopped"),
        (service("h1"), "stopped", "started"),
    ]


def test_a_plan_doubts_what_a_machine_leaves_behind() -> None:
    graph = cluster("h1", needs=False)
    cobs = {**graph.cobs, node("h1"): replace(graph.cobs[node("h1")], want="gone")}
    graph = replace(graph, cobs=cobs)
    known = {node("h1"): "ready", service("h1"): "started"}
    context = context_over(graph, known)
    steps = [(it.cob, it.source, it.dest) for it in predict(context).steps]
    assert steps[0] == (node("h1"), "ready", "gone")
    assert (service("h1"), "absent", "stopped") in steps


# --- many sites, from seeds


class World:
    """Hosts that answer only while their machines are there, and remember who asked otherwise."""

    def __init__(self, graph: Graph, random: Random, *, fails: float = 0.0) -> None:
        self.graph = graph
        self.random = random
        self.fails = fails
        self.truth = removed(graph)
        self.asked_in_vain: list[Job] = []

    def lose(self, machine: CobId) -> None:
        self.truth[machine] = "gone"
        self._clear(machine)

    def __call__(self, job: Job) -> Report:
        it = self.graph.cobs[job.cob]
        if it.machine and self.truth[it.machine] != "ready":
            self.asked_in_vain.append(job)
            return Report(number=job.number, outcome=Outcome.UNREACHABLE)
        if job.kind is JobKind.CHECK:
            return Report(number=job.number, outcome=Outcome.OK, state=self.truth[job.cob])
        if self.random.random() < self.fails:
            return Report(number=job.number, outcome=Outcome.FAILED, message="bad luck")
        self.truth[job.cob] = job.dest
        if it.machine is None and job.dest != "ready":
            self._clear(job.cob)
        return Report(number=job.number, outcome=Outcome.OK)

    def _clear(self, machine: CobId) -> None:
        for cob, it in self.graph.cobs.items():
            if it.machine == machine:
                self.truth[cob] = "absent"


def removed(graph: Graph) -> dict[CobId, State]:
    return {cob: it.type.remove for cob, it in graph.cobs.items()}


def random_site(random: Random) -> Graph:
    """Return machines with services that need others, of their own host or elsewhere, started."""
    hosts = [f"h{number}" for number in range(random.randint(1, 4))]
    names = tuple("abcz"[: random.randint(1, 4)])
    graph = cluster(*hosts, services=names)
    services = sorted(cob for cob, it in graph.cobs.items() if it.machine)
    more: list[Need] = []
    for _ in range(random.randint(0, 5)):
        one, other = sorted(random.choices(services, k=2))
        if one != other:
            more.append(
                TransitionNeed(cob=other, source="stopped", dest="started", on=one, state="started")
            )
            more.append(
                TransitionNeed(cob=one, source="started", dest="*", on=other, state="stopped")
                if random.random() < 0.5
                else LockNeed(cob=other, within="started", on=one, state="started")
            )
    return replace(graph, needs=(*graph.needs, *dict.fromkeys(more)))


def run_once(rig: MakeRig, world: World, model: Model, **options: Any) -> Any:
    """Run once from what the journal has; it is brought up to date as far as it was written."""
    crash, refresh = options.get("crash"), options.get("refresh", Refresh.CHANGED)
    before = known_states(world.graph, model.cobs, refresh=refresh)
    run = rig(
        world.graph,
        answer=world,
        known=dict(before.known),
        context={"before": before},
        parallel=world.random.randint(1, 9),
    )
    run.tape.fail_at = crash
    result = None
    try:
        result = run.go()
    except OSError:
        assert crash is not None
    events = [event for kind, event in run.tape.happened if kind == "event"]
    assert crash is not None or check_promises(events, graph_data(world.graph, {})) == []
    for kind, batch in run.tape.happened:
        for entry in batch if kind == "journal" else ():
            if not isinstance(entry, EventWritten):
                model.take(entry)
    return result


@pytest.mark.parametrize("seed", range(60))
def test_no_host_is_asked_before_its_machine_is_there(rig: MakeRig, seed: int) -> None:
    """Runs with failures and crashes, machines that get lost, and in the end a quiet run."""
    random = Random(seed)
    world = World(random_site(random), random, fails=random.choice([0.0, 0.1]))
    model = Model(run=RunInfo(id="r", command="", started=0.0, user="", host="", pid=1))
    machines = sorted(cob for cob, it in world.graph.cobs.items() if it.machine is None)
    for _ in range(random.randint(1, 5)):
        run_once(rig, world, model, crash=random.choice([None, *range(2, 12)]))
        if random.random() < 0.4:  # whoever looks at everything finds it, and nobody else does
            world.lose(random.choice(machines))
            run_once(rig, world, model, crash=random.randint(1, 8), refresh=Refresh.ALL)
            run_once(rig, world, model, refresh=Refresh.ALL)
    world.fails = 0.0
    result = run_once(rig, world, model, refresh=Refresh.ALL)
    assert world.asked_in_vain == []
    assert result.ending is Ending.OK, result
    assert world.truth == {cob: it.preferred for cob, it in world.graph.cobs.items()}


@pytest.mark.parametrize("seed", range(60, 90))
def test_a_plan_says_what_the_run_does(rig: MakeRig, seed: int) -> None:
    random = Random(seed)
    world = World(random_site(random), random)
    model = Model(run=RunInfo(id="r", command="", started=0.0, user="", host="", pid=1))
    run_once(rig, world, model, crash=random.choice([None, *range(2, 12)]))
    before = known_states(world.graph, model.cobs)
    world.truth |= before.found  # which is what the plan takes for granted
    planned = sorted((it.cob, it.source, it.dest) for it in plan_of(world.graph, before).steps)
    known = dict(before.known)
    run = rig(world.graph, answer=world, known=known, context={"before": before})
    assert run.go().ending is Ending.OK
    assert sorted(run.executor.transitions()) == planned
    assert world.asked_in_vain == []
