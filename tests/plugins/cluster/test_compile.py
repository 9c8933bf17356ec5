"""What clusters become: hosts, objects, needs; and that these order what the catalog says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.errors import SiteError
from cobweb.model import CobId, Graph, LockNeed, TransitionNeed
from tests.cli.conftest import Run
from tests.plugins.cluster.small import sections, write_site


def graph_of(folder: Path, clusters: Mapping[str, Any], **more: Any) -> Graph:
    with Site(write_site(folder, sections(clusters, **more))) as session:
        return session.graph()


def test_nodes_are_hosts_and_services_are_objects(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"c": {"nodes": 3}})
    assert list(graph.cobs) == [
        *("c-1/base", "c-1/db", "c-1/node", "c-2/base", "c-2/db", "c-2/node"),
        *("c-3/base", "c-3/node", "c-3/web"),
        *("c/base.present", "c/db.started", "c/web.stopped"),
    ]
    node, web = graph.cobs[CobId("c-1/node")], graph.cobs[CobId("c-3/web")]
    assert node.type.states == ("absent", "created", "confirmed", "bootstrapped")
    assert node.spec["hardware"] == {"name": "small", "cores": 2, "memory_mb": 512}
    assert web.type.states[-5:] == ("absent", "installed", "configured", "initialized", "started")
    assert (web.machine, web.preferred) == ("c-3/node", "started")
    assert web.spec["config"] == {"port": 80}


def test_a_stopped_cluster_wants_its_services_stopped_and_its_nodes_there(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"c": {"nodes": 3, "state": "stopped"}, "d": {"nodes": 2}})
    wanted = {str(cob): it.preferred for cob, it in graph.cobs.items()}
    assert wanted["c-3/web"] == wanted["c-1/base"] == "initialized"
    assert wanted["d-2/web"] == "started"
    assert wanted["c-1/node"] == "bootstrapped"


def test_no_need_leads_from_one_cluster_to_another(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"c": {"nodes": 3}, "c-x": {"nodes": 2}, "d": {"nodes": 4}})
    assert graph.needs
    for need in graph.needs:
        assert _cluster(need.cob) == _cluster(need.on), str(need)


def _cluster(cob: CobId) -> str:
    host = cob.partition("/")[0]
    return host.rpartition("-")[0] if host.rpartition("-")[2].isdigit() else host


def test_needs_grow_with_n_plus_m(tmp_path: Path) -> None:
    small, large = (
        len(graph_of(tmp_path / str(nodes), {"c": {"nodes": nodes}}).needs) for nodes in (20, 200)
    )
    assert large < 11 * small


@pytest.mark.parametrize("seed", range(4))
def test_joins_mean_the_same_as_needs_of_each_on_each(run: Run, tmp_path: Path, seed: int) -> None:
    """A start from nothing, and all the way back: the needs without joins hold all the time."""
    services = ["base", "db", "web", *["cache"] * (seed % 2)]
    data = sections({"c": {"nodes": 4 + seed, "services": services}})
    site = write_site(tmp_path, data)
    graph = json.loads(run("-C", site, "graph", "-o", "json").out)
    needs = without_joins(graph)
    assert len(needs) > len([it for it in graph["needs"] if not it["cob"].startswith("c/")])
    durations = tmp_path / "durations.json"
    durations.write_text(json.dumps({"c-1/db": 9, "web": 5, "c-2/base": 7}))
    for state in ("absent", "started"):
        events = tmp_path / f"{state}.jsonl"
        goal = {} if state == "absent" else {"state": "stopped"}
        write_site(tmp_path, {**data, "clusters": {"c": {**data["clusters"]["c"], **goal}}})
        (tmp_path / "states.json").write_text(json.dumps(begin(graph, state)))
        options = ("--seed", str(seed), "--events", events, "--durations", durations)
        ran = run("-C", site, "simulate", "--initial", tmp_path / "states.json", *options)
        assert ran.code == 0, ran.err
        seen = broken(graph, needs, map(json.loads, events.read_text().splitlines()))
        assert seen == []


def test_the_test_sees_an_order_that_is_wrong() -> None:
    graph = {
        "cobs": [{"id": "a", "groups": {}}, {"id": "b", "groups": {}}],
        "needs": [],
    }
    needs = [{"cob": "a", "from": "down", "to": "up", "on": "b", "state": "up"}]
    start = {"type": "transition.start", "cob": "a", "from": "down", "to": "up"}
    up = {"type": "cob.state", "cob": "b", "state": "up"}
    assert broken(graph, needs, [up, start]) == []
    assert broken(graph, needs, [start]) != []
    move = {"type": "transition.start", "cob": "b", "from": "up", "to": "down"}
    assert broken(graph, needs, [up, start, move]) != []


def begin(graph: Mapping[str, Any], state: str) -> dict[str, str]:
    """Return states to begin with: nothing is there, or all is."""
    there = {"node": "bootstrapped", "join": "up"}
    if state == "absent":
        return {it["id"]: "up" if it["type"] == "join" else "absent" for it in graph["cobs"]}
    return {it["id"]: there.get(it["type"], state) for it in graph["cobs"]}


def without_joins(graph: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the needs with what each join needs in the place of the join."""
    behind: dict[str, list[dict[str, Any]]] = {}
    for need in graph["needs"]:
        if "in" in need:
            behind.setdefault(need["cob"], []).append(need)
    joins = {it["id"] for it in graph["cobs"] if it["type"] == "join"}
    found = []
    for need in graph["needs"]:
        if need["on"] in joins:
            found += [{**need, "on": it["on"], "state": it["state"]} for it in behind[need["on"]]]
        elif need["cob"] not in joins:
            found.append(need)
    return found


def broken(
    graph: Mapping[str, Any], needs: list[dict[str, Any]], events: Any
) -> list[tuple[str, str]]:
    """Return what began, or moved meanwhile, although a need did not hold."""
    groups = {it["id"]: it.get("groups") or {} for it in graph["cobs"]}
    of: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for need in needs:
        of.setdefault((need["cob"], need["from"], need["to"]), []).append(need)
    state: dict[str, str] = {}
    needed: dict[str, list[str]] = {}
    found = []
    for event in events:
        cob = event.get("cob")
        if event["type"] == "cob.state":
            state[cob] = event["state"]
        elif event["type"] == "transition.start":
            found += [(cob, user) for user, ons in needed.items() if cob in ons]
            mine = of.get((cob, event["from"], event["to"]), [])
            for need in mine:
                allowed = groups[need["on"]].get(need["state"], [need["state"]])
                if state.get(need["on"]) not in allowed:
                    found.append((cob, need["on"]))
            needed[cob] = [need["on"] for need in mine]
        elif event["type"] == "transition.end":
            needed.pop(cob, None)
    return found


def test_macros_of_the_node_are_its_own_and_others_are_shared(tmp_path: Path) -> None:
    config = {"all": "%host.service.db%", "me": "%host.self%"}
    graph = graph_of(tmp_path, {"c": {"nodes": 3, "config": config}})
    got = {cob: it.spec["config"] for cob, it in graph.cobs.items() if cob.endswith("/base")}
    assert {cob: it["me"] for cob, it in got.items()} == {
        "c-1/base": "c-1",
        "c-2/base": "c-2",
        "c-3/base": "c-3",
    }
    assert {it["all"] for it in got.values()} == {"c-1,c-2"}


def test_a_limit_of_the_template_is_one_of_the_site(tmp_path: Path) -> None:
    data = sections({"c": {"nodes": 3}})
    rules = data["catalog"]["templates"]["stack"]["constraints"]["services"]
    rules["web"] = {"max_unavailable": 1}
    with Site(write_site(tmp_path, data)) as session:
        (budget,) = session.graph().budgets
    assert (budget.name, budget.group, budget.count) == ("c.web", "running", 1)
    assert [unit.name for unit in budget.units] == ["c-3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": {"c": {"template": "stack", "nodes": 4}}}, "is that of another request"),
        (
            {"clusters": {"d": {"template": "stack", "nodes": 3}}},
            "has no layout in site.lock",
        ),
        ({"cobs": {"web": {"type": "join", "on": "c"}}}, "is a name that the site's clusters use"),
        ({"tenants": {"t": {"cores": 5}}}, "the tenant `t` has 6 cores, its limit is 5"),
    ],
    ids=["another layout", "no layout", "a name", "quota"],
)
def test_what_cannot_be_is_found_with_its_place(
    tmp_path: Path, change: Mapping[str, Any], message: str
) -> None:
    tenant = {"tenant": "t"} if "tenants" in change else {}
    data = sections({"c": {"nodes": 3, **tenant}}, tenants={"t": {}})
    site = write_site(tmp_path, data)
    write_site(site, {**data, **change}, lock=False)
    with Site(site) as session, pytest.raises(SiteError) as caught:
        session.graph()
    assert any(message in str(it) for it in caught.value.findings)
    assert all(it.place.line for it in caught.value.findings)


@pytest.mark.parametrize(
    ("inventory", "message"),
    [
        ({"all": {"hosts": {"c-1": {"ansible_host": "::1"}}}}, "has a host `c-1`, which"),
        ({"c_web": {"hosts": {"mine": None}}}, "has a group `c_web`, which"),
    ],
    ids=["host", "group"],
)
def test_names_of_the_inventory_are_not_taken(
    tmp_path: Path, inventory: Mapping[str, Any], message: str
) -> None:
    site = write_site(tmp_path, {**sections({"c": {"nodes": 2}}), "inventory": inventory})
    with Site(site) as session, pytest.raises(SiteError) as caught:
        session.graph()
    assert any(message in str(it) for it in caught.value.findings)


@pytest.mark.parametrize("state", ["stopped", "started"])
def test_what_only_uses_a_service_is_stopped_before_it_where_all_of_a_cluster_is(
    tmp_path: Path, state: str
) -> None:
    services = ["base", "db", "web", "cache"]
    said = {"nodes": 3, "services": services, "state": state}
    graph = graph_of(tmp_path, {"c": said, "d": {"nodes": 3, "services": services}})
    texts = {str(need) for need in graph.needs}
    caches = [cob for cob in graph.cobs if cob.startswith("c-") and cob.endswith("/cache")]
    assert caches
    for cache in caches:
        stop = f"({cache}, started -> initialized)"
        assert (f"{stop} <- (c/web.stopped, up)" in texts) is (state == "stopped")
    assert not any("/cache, " in text and "/web, stopped)" in text for text in texts)
    assert not any(
        text.startswith("(d-") and "<- (d/web.stopped" in text for text in texts if "/cache" in text
    )


def test_a_whole_cluster_is_stopped_in_the_order_that_is_shown(run: Run, tmp_path: Path) -> None:
    """A cache ends at once, and the web that only uses it takes long: it waits nevertheless."""
    services = ["base", "db", "web", "cache"]
    data = sections({"c": {"nodes": 4, "services": services}})
    graph = json.loads(run("-C", write_site(tmp_path, data), "graph", "-o", "json").out)
    data["clusters"]["c"]["state"] = "stopped"
    write_site(tmp_path, data)
    (tmp_path / "states.json").write_text(json.dumps(begin(graph, "started")))
    (tmp_path / "durations.json").write_text(json.dumps({"web": 50, "cache": 1}))
    files = ("--initial", "states.json", "--durations", "durations.json", "--events", "events")
    words = [tmp_path / word if index % 2 else word for index, word in enumerate(files)]
    assert run("-C", tmp_path, "simulate", *words).code == 0
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    order = [it["cob"].split("/")[1] for it in events if it["type"] == "transition.end"]
    stops = [name for name in order if name in ("web", "cache")]
    assert stops == sorted(stops, reverse=True)
    assert set(stops) == {"web", "cache"}


def test_what_is_on_top_is_removed_first(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"c": {"nodes": 2}})
    texts = {str(need) for need in graph.needs}
    assert "(c-2/base, * -> absent) <- (c-2/web, absent)" in texts


def test_a_missing_file_or_automator_is_found(tmp_path: Path) -> None:
    data = sections({"c": {"nodes": 3}})
    services = data["catalog"]["services"]
    services["web"]["actions"]["start"] = {"tasks": "no/such.yml"}
    with Site(write_site(tmp_path, data)) as session, pytest.raises(SiteError) as caught:
        session.graph()
    assert "there is no file no/such.yml" in str(caught.value)


def test_a_site_without_clusters_yet_is_one(run: Run, tmp_path: Path) -> None:
    site = write_site(tmp_path, {"catalog": sections({})["catalog"], "clusters": {}})
    assert run("-C", site, "validate").code == 0
    assert graph_of(tmp_path, {}).cobs == {}


def test_needs_are_of_both_sorts(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, {"c": {"nodes": 2}})
    texts = {str(need) for need in graph.needs}
    assert "(c-2/web, initialized -> started) <- (c/db.started, up)" in texts
    assert "(c/db.started, up) <- (c-1/db, started)" in texts
    assert "(c-1/db, started -> initialized) <- (c/web.stopped, up)" in texts
    assert "(c/web.stopped, up) <- (c-2/web, stopped)" in texts
    assert "(c-1/node, * -> absent) <- (c-1/db, absent)" in texts
    assert {type(need) for need in graph.needs} == {TransitionNeed, LockNeed}
