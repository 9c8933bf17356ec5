"""Jobs that go together are submitted at once, and only when no other instance is at work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cobweb.kernel._result import Ending
from cobweb.model import (
    CobType,
    Graph,
    Job,
    JobKind,
    Outcome,
    Report,
    Role,
    Transition,
    cob_id,
)
from tests.kernel.conftest import Rig, TapedExecutor
from tests.support.graphs import graph_of

CHECK, APPLY = Role(name="check"), Role(name="apply", together=True)
PLAY = CobType(
    name="play",
    states=("down", "up"),
    preferred="up",
    remove="down",
    check=CHECK,
    transitions=(
        Transition(source="down", dest="up", action=APPLY, attempts=2),
        Transition(source="up", dest="down", action=APPLY),
    ),
)
ALONE = replace(
    PLAY,
    name="alone",
    transitions=tuple(
        replace(it, action=Role(name="apply"), attempts=1) for it in PLAY.transitions
    ),
)


class SlowExecutor(TapedExecutor):
    """Reports one job at a time, those of the hosts in `order` first; notes each wait."""

    order: Sequence[str] = ()

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        self._tape.happened.append(("wait", None))
        hosts = {job.number: job.host for job in self.jobs}
        rank = {host: number for number, host in enumerate(self.order)}
        ready = sorted(super().wait(timeout_s), key=lambda it: rank[hosts[it.number]])
        self._reports = ready[1:]
        return ready[:1]


def plays(rig: Rig) -> list[list[Job]]:
    """Return the transitions of type `play` that were submitted between two waits."""
    found: list[list[Job]] = [[]]
    for what, it in rig.tape.happened:
        if what == "wait":
            found.append([])
        elif what == "submit" and it.type_name == "play" and it.kind is JobKind.TRANSITION:
            found[-1].append(it)
    return [batch for batch in found if batch]


def rig_of(graph: Graph, order: Sequence[str], **more: Any) -> Rig:
    """Return a rig whose executor reports slowly."""
    rig = Rig(graph, **more)
    rig.executor = SlowExecutor(rig.tape, states=rig.states, answer=rig.answer)
    rig.executor.order = order
    return rig


def hosts_of(jobs: Sequence[Job]) -> list[str]:
    """Return the hosts of jobs, in order."""
    return sorted(job.host for job in jobs)


HOSTS = [f"h{number}" for number in range(6)]


@given(
    order=st.permutations(HOSTS),
    up=st.sets(st.sampled_from(HOSTS)),
    behind=st.sets(st.sampled_from(HOSTS)),
    parallel=st.integers(1, 4),
)
def test_all_instances_that_may_go_are_submitted_at_once(
    order: list[str], up: set[str], behind: set[str], parallel: int
) -> None:
    """However slow their checks are, and what some of them need first: the others wait for it."""
    types = {f"{host}/a": PLAY for host in HOSTS} | {f"{host}/b": ALONE for host in HOSTS}
    graph = graph_of(types, *(f"{host}/a down>up {host}/b up" for host in sorted(behind)))
    states = {cob_id(host, "a"): "up" for host in up - behind}
    rig = rig_of(graph, order, states=states, parallel=parallel)
    assert rig.go().ending is Ending.OK
    found = plays(rig)
    assert sorted(job.host for batch in found for job in batch) == sorted({*HOSTS} - (up - behind))
    assert len(found) == bool({*HOSTS} - (up - behind))
    assert never_two_at_work(rig)


def never_two_at_work(rig: Rig) -> bool:
    """Say whether no play began while another one, or a check of an instance, was at work."""
    at_work: dict[int, Job] = {}
    batch: list[Job] = []
    for what, it in rig.tape.happened:
        if what == "submit" and it.cob.endswith("/a"):
            if it.kind is JobKind.TRANSITION and set(at_work) - {job.number for job in batch}:
                return False
            at_work[it.number] = it
            batch.append(it)
        elif what == "wait":
            batch = []
        elif what == "event" and it["type"] in ("check.end", "transition.end"):
            ended = [n for n, job in at_work.items() if job.cob == it["cob"]]
            for number in ended:
                del at_work[number]
    return True


def test_what_fails_is_tried_again_with_what_waits_by_then() -> None:
    """An attempt that comes later is a play of its own; the others are not held back by it."""

    def answer(job: Job) -> Report | None:
        bad = job.host == "h1" and job.attempt == 1 and job.kind is JobKind.TRANSITION
        return Report(number=job.number, outcome=Outcome.FAILED, message="no") if bad else None

    graph = graph_of({f"{host}/a": PLAY for host in HOSTS})
    rig = rig_of(graph, HOSTS, answer=answer, parallel=2)
    assert rig.go().ending is Ending.OK
    assert [hosts_of(batch) for batch in plays(rig)] == [HOSTS, ["h1"]]


def test_different_steps_are_different_plays() -> None:
    """Instances of one COB that take other steps do not go at the same time."""
    kind = replace(
        PLAY,
        states=("outdated", "down", "up"),
        transitions=(
            *PLAY.transitions,
            Transition(source="outdated", dest="up", action=APPLY),
        ),
    )
    graph = graph_of({f"{host}/a": kind for host in HOSTS})
    states = {cob_id(host, "a"): "outdated" for host in HOSTS[:3]}
    rig = rig_of(graph, HOSTS, states=states, parallel=2)
    assert rig.go().ending is Ending.OK
    assert sorted(hosts_of(batch) for batch in plays(rig)) == [HOSTS[:3], HOSTS[3:]]
    assert never_two_at_work(rig)


def test_checks_go_together_as_well() -> None:
    """All at once, though there is room for two."""
    kind = replace(PLAY, check=replace(CHECK, together=True))
    graph = graph_of({f"{host}/a": kind for host in HOSTS})
    rig = rig_of(graph, HOSTS, parallel=2, work_dir=Path())
    assert rig.go().ending is Ending.OK
    first = [it for what, it in rig.tape.happened if what in ("submit", "wait")][: len(HOSTS)]
    assert hosts_of(first) == HOSTS


def test_nobody_waits_for_an_instance_that_does_not_come() -> None:
    """One that waits for what this play does goes later; one that has failed not at all."""
    types = {f"{host}/a": PLAY for host in HOSTS} | {"h0/b": ALONE, "h1/b": ALONE}
    needs = ("h0/a down>up h0/b up", "h0/b down>up h2/a up", "h1/a down>up h1/b up")

    def answer(job: Job) -> Report | None:
        bad = job.cob == "h1/b" and job.kind is JobKind.TRANSITION
        return Report(number=job.number, outcome=Outcome.FAILED, message="no") if bad else None

    rig = rig_of(graph_of(types, *needs), HOSTS, answer=answer, parallel=2)
    assert rig.go().ending is Ending.FAILED
    assert [hosts_of(batch) for batch in plays(rig)] == [HOSTS[2:], ["h0"]]
