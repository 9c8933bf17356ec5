"""No machine is left over and none is made twice, wherever a provider or the coordinator fails."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.errors import CredentialsError, ProviderError
from cobweb.model import Host, PythonAction
from cobweb.plugin import CobContext, Machine, NodeRequest
from cobweb_plugins.providers._node import Node
from tests.support.cloud import Cloud, KilledError

POINTS = [
    f"{call}, {when}"
    for call in ("find", "create", "confirm", "delete")
    for when in ("before", "after")
]
KINDS = ("error", "kill")
CALLS = (1, 2, 3)


class Faults:
    """Fails the n-th time that a point is reached, for each (point, n, kind) once."""

    def __init__(self, faults: Sequence[tuple[str, int, str]]) -> None:
        self._faults = faults
        self._seen: dict[str, int] = {}

    def __call__(self, point: str) -> None:
        self._seen[point] = self._seen.get(point, 0) + 1
        for where, number, kind in self._faults:
            if (where, number) == (point, self._seen[point]):
                raise KilledError if kind == "kill" else ProviderError(f"fault at {point}")


class Coordinator:
    """Moves one node as the engine does: checks, then step by step, with attempts and results."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.node = Node()
        self.type = self.node.cob_type()
        self.results: dict[str, Any] = {}
        self.journal: list[str] = []

    def run(self, goal: str) -> str:
        """Return where a run ends; a kill ends it in the middle, without a word."""
        try:
            return self._run(goal)
        except KilledError:
            return "killed"

    def _run(self, goal: str) -> str:
        state = self._checked()
        while state not in (goal, "unknown"):
            way = self.type.way(state, goal)
            assert way, (state, goal)
            step = way[0]
            for attempt in range(1, step.attempts + 1):
                if self._tried(step.action):
                    state = step.dest
                    break
                if attempt == step.attempts:
                    return f"failed, {self._checked()}"
        return state

    def _checked(self) -> str:
        try:
            return self.node.check(self._context())
        except ProviderError:
            return "unknown"

    def _tried(self, action: Any) -> bool:
        if not isinstance(action, PythonAction):  # the task file of the bootstrap
            self._keep({"bootstrapped": self.results["provider_id"]})
            return True
        try:
            self._keep(getattr(self.node, action.method)(self._context()))
        except ProviderError:
            return False
        return True

    def _keep(self, results: dict[str, Any]) -> None:
        merged = {**self.results, **results}
        self.results = {key: value for key, value in merged.items() if value is not None}

    def _context(self) -> CobContext:
        return context(self.cloud, self.results)


def context(
    cloud: Cloud,
    results: dict[str, Any],
    *,
    fields: Mapping[str, Any] | None = None,
    **changes: Any,
) -> CobContext:
    """Return what a node of the provider `lab` is given; `changes` are of its spec."""
    spec = {"provider": {"name": "lab", "type": "cloud"}, "cluster": "web1", "number": 1, **changes}
    cob = {"spec": spec, "applied": None, "results": results}
    return CobContext(
        cob=cob,
        host=Host(name="web1-1"),
        site_dir=Path("/site"),
        providers={"cloud": cloud},
        shared={"providers": {"lab": fields}},
    )


def schedules() -> Iterator[tuple[tuple[str, int, str], ...]]:
    """Yield each single fault, and each pair of them."""
    single = list(itertools.product(POINTS, CALLS, KINDS))
    yield from ((fault,) for fault in single)
    yield from itertools.combinations(single, 2)


def test_a_node_goes_its_way_and_back() -> None:
    cloud = Cloud()
    run = Coordinator(cloud)
    assert run.run("bootstrapped") == "bootstrapped"
    assert run.results["ansible_host"] == run.results["address"] == "192.0.2.1"
    assert run.run("absent") == "absent"
    assert (cloud.machines, run.results) == ([], {})


@pytest.mark.gate("a fault at each step, without hosts")
def test_wherever_it_fails_no_machine_is_left_over_or_made_twice() -> None:
    for faults in schedules():
        cloud = Cloud()
        run = Coordinator(cloud)
        cloud.fault = Faults(faults)
        for goal, machines in (
            ("bootstrapped", 1),
            ("absent", 0),
            ("bootstrapped", 1),
            ("absent", 0),
        ):
            ends = [run.run(goal)]
            while ends[-1] != goal:
                assert len(ends) <= len(faults), (faults, goal, ends)
                ends.append(run.run(goal))
            assert len(cloud.machines) == machines, (faults, goal)
        assert cloud.most <= 1, faults


def test_a_machine_that_never_answers_is_made_three_times_and_none_is_left() -> None:
    cloud = Cloud()
    run = Coordinator(cloud)

    def never(point: str) -> None:
        if point == "confirm, before":
            raise ProviderError("it does not answer")

    cloud.fault = never
    assert run.run("bootstrapped") == "failed, absent"
    assert cloud.machines == []
    assert cloud.create(_request()).id == "m4"


def test_a_machine_that_is_lost_is_made_anew() -> None:
    cloud = Cloud()
    run = Coordinator(cloud)
    run.run("bootstrapped")
    cloud.machines = []
    assert run.node.check(context(cloud, run.results)) == "absent"
    assert run.run("bootstrapped") == "bootstrapped"
    assert run.results["provider_id"] == "m2"


def test_a_machine_that_was_exchanged_is_not_taken_for_the_one_that_was_bootstrapped() -> None:
    cloud = Cloud()
    run = Coordinator(cloud)
    run.run("bootstrapped")
    cloud.machines = []
    request = _request()
    cloud.confirm(request, cloud.create(request))
    assert run.node.check(context(cloud, run.results)) == "created"


def test_refused_credentials_leave_the_machine_that_is_there() -> None:
    cloud = Cloud()
    run = Coordinator(cloud)
    run.run("created")

    def refused(point: str) -> None:
        if point == "confirm, before":
            raise CredentialsError("the token is not valid")

    cloud.fault = refused
    assert run.run("bootstrapped") == "failed, created"
    assert [machine.id for _, machine in cloud.machines] == ["m1"]


def test_a_node_with_a_machine_does_not_move_to_another_provider() -> None:
    cloud = Cloud()
    changed = context(cloud, {"provider_id": "m1"}, provider={"name": "new", "type": "cloud"})
    changed.cob["applied"] = {"provider": {"name": "lab", "type": "cloud"}}  # type: ignore[index]
    with pytest.raises(ProviderError, match="is at the provider 'lab'"):
        Node().check(changed)


def test_an_unknown_provider_is_named_with_those_that_there_are() -> None:
    spec = {"name": "lab", "type": "clod"}
    with pytest.raises(ProviderError, match=r"no provider 'clod' \(there are: cloud\)"):
        Node().check(context(Cloud(), {}, provider=spec))


def _request() -> NodeRequest:
    """Return what the type asks a provider for."""
    seen = []

    class Listening(Cloud):
        def find(self, request: NodeRequest) -> None:
            seen.append(request)

    Node().check(context(Listening(), {}))
    return seen[0]


def test_fields_that_the_provider_does_not_take_are_refused_before_it_is_asked() -> None:
    class Closed(Cloud):
        fields: ClassVar[Mapping[str, Any]] = {
            "type": "object",
            "properties": {"region": {"type": "string"}},
            "additionalProperties": False,
        }

        def find(self, request: NodeRequest) -> None:
            raise AssertionError(request)

    with pytest.raises(ProviderError, match=r"'lab': .*'regoin' was unexpected.*fields are region"):
        Node().check(context(Closed(), {}, fields={"regoin": "north"}))


class Owners(Cloud):
    """Finds machines by their owners, as providers do."""

    def find(self, request: NodeRequest) -> Machine | None:
        return super().find(replace(request, node=f"{request.node}@{request.owner}"))

    def create(self, request: NodeRequest) -> Machine:
        return super().create(replace(request, node=f"{request.node}@{request.owner}"))

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        return super().confirm(replace(request, node=f"{request.node}@{request.owner}"), machine)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        super().delete(replace(request, node=f"{request.node}@{request.owner}"), machine)


def test_a_machine_is_found_by_whom_it_was_made_for_whatever_the_site_says_now() -> None:
    cloud, node = Owners(), Node()
    results: dict[str, Any] = dict(node.create(context(cloud, {}, owner="first")))
    results |= node.confirm(context(cloud, results, owner="first"))
    later = context(cloud, results, owner="second")
    assert node.check(later) == "confirmed"
    gone = node.delete(later)
    assert set(gone) == set(results)
    assert not cloud.machines
    assert node.create(context(cloud, {}, owner="second"))["provider_owner"] == "second"
