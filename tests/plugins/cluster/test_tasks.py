"""Tasks of operations on clusters: the orders and edges of Coopr, beside a graph of all n x m."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import ModelError
from cobweb.model import NONE, TaskGraph, TaskGraphBuilder
from cobweb_plugins.cluster._tasks import Operation, ServiceWork, stage_data, tasks_of
from cobweb_plugins.cluster._template import ServiceNeeds
from cobweb_plugins.planner import StagesPlanner

ALL = ("install", "configure", "initialize", "start", "stop", "remove")
Task = tuple[str, str, str | None]


def _service(
    *runtime: str, actions: Collection[str] = ALL, install: tuple[str, ...] = ()
) -> ServiceWork:
    needs = ServiceNeeds(runtime=runtime, binding=runtime, install=install)
    return ServiceWork(actions=actions, needs=needs)


WEB = {"db": _service(), "app": _service("db", install=("db",)), "web": _service("app")}
NODES = {"n1": ("db",), "n2": ("app", "web"), "n3": ("web",)}


def _waits(graph: TaskGraph) -> dict[Task, set[Task]]:
    """Return for each task all tasks that it waits for, directly or through joins."""
    found: dict[Task, set[Task]] = {}
    for task in graph.tasks():
        waits = list(graph.waits(task))
        for wait in waits:  # grows while it is gone through
            if graph.node[wait] == NONE:
                waits += graph.waits(wait)
        found[graph.names(task)] = {graph.names(w) for w in waits if graph.node[w] != NONE}
    return found


def _order(graph: TaskGraph, node: str, service: str | None) -> list[str]:
    return [
        action
        for of, action, name in map(graph.names, graph.tasks())
        if (of, name) == (node, service)
    ]


def test_a_node_is_made_before_its_services_are_installed() -> None:
    waits = _waits(tasks_of(NODES, WEB, Operation.CREATE))
    assert waits["n1", "create", None] == set()
    assert waits["n1", "confirm", None] == {("n1", "create", None)}
    assert waits["n1", "bootstrap", None] == {("n1", "confirm", None)}
    assert waits["n1", "install", "db"] == {("n1", "bootstrap", None)}
    assert waits["n3", "configure", "web"] == {("n3", "install", "web")}


def test_what_is_needed_is_installed_and_started_before() -> None:
    waits = _waits(tasks_of(NODES, WEB, Operation.CREATE))
    assert waits["n2", "install", "app"] == {("n2", "bootstrap", None), ("n1", "install", "db")}
    assert waits["n2", "configure", "app"] == {("n2", "install", "app")}
    for node in ("n2", "n3"):
        start_app = ("n2", "start", "app")
        assert waits[node, "initialize", "web"] == {(node, "configure", "web"), start_app}
        assert waits[node, "start", "web"] == {(node, "initialize", "web"), start_app}


ORDERS = {
    Operation.CREATE: ["install", "configure", "initialize", "start"],
    Operation.ADD_SERVICE: ["install", "configure", "initialize", "start"],
    Operation.CONFIGURE: ["configure"],
    Operation.RECONFIGURE: ["stop", "configure", "start"],
    Operation.START: ["start"],
    Operation.STOP: ["stop"],
    Operation.RESTART: ["stop", "start"],
    Operation.UPGRADE: ["stop", "install", "configure", "start"],
    Operation.REMOVE_SERVICE: ["stop", "remove"],
    Operation.SHRINK: ["stop", "remove"],
    Operation.DELETE: [],
}
OF_NODES = {
    Operation.CREATE: ["create", "confirm", "bootstrap"],
    Operation.ADD_SERVICE: ["bootstrap"],
    Operation.CONFIGURE: ["bootstrap"],
    Operation.RECONFIGURE: ["bootstrap"],
    Operation.SHRINK: ["delete"],
    Operation.DELETE: ["delete"],
}


@pytest.mark.parametrize("operation", Operation, ids=str)
def test_an_operation_has_its_actions_in_their_order(operation: Operation) -> None:
    graph = tasks_of(NODES, WEB, operation)
    assert _order(graph, "n2", "web") == ORDERS[operation]
    assert _order(graph, "n2", None) == OF_NODES.get(operation, [])


def test_users_stop_first_and_start_last() -> None:
    waits = _waits(tasks_of(NODES, WEB, Operation.RESTART))
    stop_web = {("n2", "stop", "web"), ("n3", "stop", "web")}
    assert waits["n3", "stop", "web"] == set()
    assert waits["n2", "stop", "app"] == stop_web
    assert waits["n1", "stop", "db"] == {("n2", "stop", "app")}
    assert waits["n1", "start", "db"] == {("n1", "stop", "db")}
    assert waits["n2", "start", "app"] == {("n2", "stop", "app"), ("n1", "start", "db")}


def test_a_node_goes_after_all_its_services() -> None:
    waits = _waits(tasks_of(NODES, WEB, Operation.SHRINK))
    assert waits["n2", "delete", None] == {("n2", "remove", "app"), ("n2", "remove", "web")}


def test_an_upgrade_is_an_own_action_or_an_installation() -> None:
    services = {"a": _service(actions=(*ALL, "upgrade")), "b": _service()}
    graph = tasks_of({"n": ("a", "b")}, services, Operation.UPGRADE)
    assert _order(graph, "n", "a") == ["stop", "upgrade", "configure", "start"]
    assert _order(graph, "n", "b") == ["stop", "install", "configure", "start"]


@pytest.mark.parametrize(
    ("operation", "concerned", "tasks"),
    [
        (Operation.RESTART, "app", {"stop app", "stop web", "start app", "start web"}),
        (Operation.UPGRADE, "web", {"stop web", "install web", "configure web", "start web"}),
        (Operation.STOP, "db", {"stop db", "stop app", "stop web"}),
        (Operation.START, "app", {"start db", "start app"}),
        (Operation.CONFIGURE, "db", {"bootstrap None", "configure db"}),
        (Operation.ADD_SERVICE, "db", {"bootstrap None", *(f"{a} db" for a in ALL[:4])}),
        (Operation.REMOVE_SERVICE, "web", {"stop web", "remove web"}),
        (Operation.STOP, "other", set()),
    ],
)
def test_with_a_service_go_those_that_run_with_it(
    operation: Operation, concerned: str, tasks: set[str]
) -> None:
    graph = tasks_of(NODES, WEB, operation, concerned=[concerned])
    found = {graph.names(task)[1:] for task in graph.tasks()}
    assert {f"{action} {service}" for action, service in found} == tasks
    if concerned == "db" and operation is Operation.CONFIGURE:
        assert graph.nodes == ("n1",)


def test_what_only_uses_a_service_waits_with_all_of_them_and_stays_out_with_some() -> None:
    """The table in docs/catalog.md, "Catalogs of Coopr"."""
    web = ServiceWork(actions=ALL, needs=ServiceNeeds(runtime=("cache",)))
    services = {"cache": _service(), "web": web}
    nodes = {"n1": ("cache",), "n2": ("web",)}
    all_stop = _waits(tasks_of(nodes, services, Operation.STOP))
    assert all_stop["n1", "stop", "cache"] == {("n2", "stop", "web")}
    all_start = _waits(tasks_of(nodes, services, Operation.START))
    assert all_start["n2", "start", "web"] == {("n1", "start", "cache")}
    for operation in (Operation.STOP, Operation.START, Operation.RESTART, Operation.UPGRADE):
        for name in services:
            graph = tasks_of(nodes, services, operation, concerned=[name])
            assert {graph.names(task)[2] for task in graph.tasks()} == {name}


def test_a_service_without_an_action_passes_on_what_it_waits_for() -> None:
    services = {
        "db": _service(),
        "pool": _service("db", actions=("install",)),
        "none": _service("pool", actions=()),
        "app": _service("none"),
    }
    nodes = {"n1": ("db",), "n2": ("pool", "none"), "n3": ("app",)}
    waits = _waits(tasks_of(nodes, services, Operation.CREATE))
    assert waits["n3", "initialize", "app"] == {
        ("n3", "configure", "app"),
        ("n2", "bootstrap", None),  # of the service that has no actions
        ("n2", "install", "pool"),
        ("n1", "start", "db"),
    }


def test_n_nodes_that_wait_for_m_others_cost_n_and_m() -> None:
    nodes = {f"n{number}": ("a",) if number % 2 else ("b",) for number in range(200)}
    services = {"a": _service(), "b": _service("a")}
    graph = tasks_of(nodes, services, Operation.CREATE)
    chain = 200 * 6
    assert len(graph.before) == chain + 100 + 2 * 100
    assert sum(node == NONE for node in graph.node) == 1


def test_durations_are_asked_once_for_each_action() -> None:
    asked: list[tuple[str, str | None]] = []

    def seconds(action: str, service: str | None) -> float:
        asked.append((action, service))
        return 2.0 if service is None else 3.0

    graph = tasks_of({"n1": ("db",), "n2": ("db",)}, WEB, Operation.CREATE, seconds=seconds)
    assert len(asked) == len(set(asked)) == 7
    assert sum(graph.seconds) == 2 * (3 * 2 + 4 * 3)


def test_a_circle_is_printed() -> None:
    services = {"a": _service("b"), "b": _service("c"), "c": _service("a")}
    with pytest.raises(ModelError) as caught:
        tasks_of({"n": ("a", "b", "c")}, services, Operation.START)
    ((path, message, hint),) = caught.value.problems
    assert path[:2] == ("catalog", "services")
    assert path[2] in services
    circle = message.removeprefix("services wait for each other in a circle: ").split(" -> ")
    waits = {"start a": "start b", "start b": "start c", "start c": "start a"}
    assert [waits[name] for name in circle[:-1]] == circle[1:]
    assert len(circle) == 4
    assert hint


def test_stages_are_printed_as_the_contract_says() -> None:
    graph = tasks_of({"n1": ("db",)}, WEB, Operation.ADD_SERVICE)
    stages = stage_data(graph, StagesPlanner().schedule(graph))
    assert stages[:2] == [
        [{"node": "n1", "action": "bootstrap", "service": None}],
        [{"node": "n1", "action": "install", "service": "db"}],
    ]
    assert len(stages) == 5


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, ServiceWork]]:
    names = [f"s{number}" for number in range(draw(st.integers(1, 5)))]
    services = {}
    for number, name in enumerate(names):
        others = st.lists(st.sampled_from(names[:number]), unique=True) if number else st.just([])
        services[name] = _service(*draw(others), install=tuple(draw(others)))
    nodes = {
        f"n{number}": draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
        for number in range(draw(st.integers(1, 4)))
    }
    return nodes, services


def _naive(nodes: Mapping[str, Collection[str]], services: Mapping[str, ServiceWork]) -> TaskGraph:
    """Return the graph of a creation as Coopr makes it: an edge for each two tasks."""
    builder = TaskGraphBuilder(list(nodes))
    at: dict[Task, int] = {}
    for number, node in enumerate(nodes):
        last: tuple[int, ...] = ()
        for action in ("create", "confirm", "bootstrap"):
            last = (builder.task(number, action, after=last),)
            at[node, action, None] = last[0]
    left = [(a, s) for a in ALL[:4] for s in services]
    while left:
        for action, service in left:
            wanted = {"install": "install", "initialize": "start", "start": "start"}.get(action)
            needs = services[service].needs
            others = needs.install if action == "install" else needs.runtime if wanted else ()
            if any((wanted, other) in left for other in others):
                continue
            if action != "install" and (ALL[ALL.index(action) - 1], service) in left:
                continue
            left.remove((action, service))
            before = "bootstrap" if action == "install" else ALL[ALL.index(action) - 1]
            own = None if action == "install" else service
            for number, (node, there) in enumerate(nodes.items()):
                if service in there:
                    waits = [at[n, str(wanted), o] for o in others for n in nodes if o in nodes[n]]
                    at[node, action, service] = builder.task(
                        number, action, service, after=[at[node, before, own], *waits]
                    )
            break
    return builder.build()


@given(clusters())
def test_joins_mean_the_same_as_all_edges(
    cluster: tuple[dict[str, list[str]], dict[str, ServiceWork]],
) -> None:
    nodes, services = cluster
    ours, naive = tasks_of(nodes, services, Operation.CREATE), _naive(nodes, services)
    assert _waits(ours) == _waits(naive)
