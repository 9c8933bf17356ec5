"""Generations are read back as they were; what is damaged or newer is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import Place, StoreError
from cobweb.generation import EvaluatedSite, KeptFiles, content_of, read_site
from cobweb.model import (
    Action,
    Budget,
    Cob,
    CobId,
    CobType,
    Confirm,
    Graph,
    Host,
    Limit,
    LimitGroup,
    LockNeed,
    Missing,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Transition,
    Unit,
)
from tests.support.graphs import budget_of, graph_of, graphs

ROOTS = {"site": "/home/ann/site", "cobweb": "/usr/share/cobweb"}
SECRET = {"__ansible_vault": "61626364"}

values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(dict(SECRET))
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
mappings = st.dictionaries(st.text(), values, max_size=3)
actions: st.SearchStrategy[Action] = st.sampled_from(
    [
        Nothing(),
        Missing(message="gone"),
        Tasks(path="/home/ann/site/tasks/up.yml"),
        Tasks(path="/usr/share/cobweb/file/write.yml"),
        Tasks(path="/home/ann/common/tasks/up.yml"),
        Tasks(path="/opt/plugin/up.yml"),
        Role(name="/home/ann/site/roles/web"),
        Role(name="galaxy.nginx"),
        Tasks(path="/home/ann/site/tasks/up.yml", facts=True),
        Tasks(path="/opt/plugin/up.yml", facts=("!all", "network")),
        Role(name="galaxy.nginx", facts=False),
        Role(name="/home/ann/site/roles/web", vars={"a": [1, 0.5, "{{ x }}"]}, facts=("min",)),
        PythonAction(type_name="a.type", method="up"),
    ]
)


@st.composite
def sites(draw: st.DrawFn) -> tuple[Graph, dict[str, Host]]:
    """Draw a site that has something of everything that a generation keeps."""
    graph = draw(graphs())
    place = draw(st.sampled_from([None, Place(file="site.yml"), Place(file="../common/ntp.yml")]))
    kinds = {it.type.name: it.type for it in graph.cobs.values()}
    kinds = {name: _drawn(draw, kind, place) for name, kind in kinds.items()}
    switches = st.builds(Confirm, within_s=st.floats(1, 90), revert=st.text(), prepare=st.text())
    cobs = {
        cob: Cob(
            id=cob,
            type=kinds[it.type.name],
            spec=draw(mappings),
            confirm=draw(st.none() | switches),
            want=draw(st.sampled_from(["", *it.type.states])),
            machine=draw(st.none() | st.sampled_from(sorted(graph.cobs))),
            protect=draw(st.booleans()),
            trust_s=draw(st.sampled_from((None, 0.0, 60.0))),
        )
        for cob, it in graph.cobs.items()
    }
    members = st.frozensets(st.sampled_from(sorted(cobs)))
    groups = st.builds(LimitGroup, name=st.text(), members=members, bound=st.integers(1, 9))
    limits = st.builds(
        Limit,
        name=st.text(),
        groups=st.lists(groups, max_size=2).map(tuple),
    )
    numbers = st.builds(lambda number: (0, number, ""), st.floats(-9, 9))
    units = st.builds(
        Unit,
        name=st.text(),
        members=members,
        domains=st.lists(st.text(), max_size=2).map(tuple),
        order=numbers | st.builds(lambda word: (1, 0.0, word), st.text()),
    )
    budgets = st.builds(
        Budget,
        name=st.text(),
        units=st.lists(units, max_size=3).map(tuple),
        count=st.integers(1, 9),
        percent=st.none() | st.integers(1, 100),
        group=st.sampled_from(["", "running"]),
        first=st.integers(0, 3),
        pause_s=st.floats(0, 60),
        trust_s=st.none() | st.floats(1, 60),
        during=st.lists(st.tuples(st.sampled_from(sorted(cobs)), st.text()), max_size=2).map(tuple),
    )
    hosts = {
        name: Host(name=name, groups=("all", "é"), variables=draw(mappings))
        for name in graph.hosts()
    }
    drawn = draw(st.lists(limits, max_size=2, unique_by=lambda limit: limit.name))
    bounds = draw(st.lists(budgets, max_size=2, unique_by=lambda budget: budget.name))
    return replace(graph, cobs=cobs, limits=tuple(drawn), budgets=tuple(bounds)), hosts


def _drawn(draw: st.DrawFn, kind: CobType, place: Place | None) -> CobType:
    steps = tuple(
        replace(step, action=draw(actions), timeout_s=draw(st.none() | st.floats(0, 9)))
        for step in kind.transitions
    )
    revert, prepare = draw(st.text()), draw(st.text())
    return replace(
        kind,
        check=draw(actions),
        transitions=steps,
        revert=revert,
        prepare=prepare,
        place=place,
    )


@given(sites(), st.dictionaries(st.text(), st.text(), max_size=2))
def test_what_is_read_back_has_the_same_digest(
    site: tuple[Graph, dict[str, Host]], digests: dict[str, str]
) -> None:
    before = EvaluatedSite(*site, roots=ROOTS, files=KeptFiles(digests=digests))
    stored = read_site(before.text())
    again = EvaluatedSite(stored.graph(ROOTS), stored.hosts, roots=ROOTS, files=stored.files)
    assert again.text() == before.text()
    assert stored.contents == before.contents
    graph = stored.graph(ROOTS)
    assert {cob: content_of(it) for cob, it in graph.cobs.items()} == before.contents
    assert list(graph.cobs) == sorted(graph.cobs)
    assert graph.needs == site[0].needs
    assert sorted(graph.budgets, key=attrgetter("name")) == sorted(
        site[0].budgets, key=attrgetter("name")
    )
    for cob, it in site[0].cobs.items():
        assert (graph.cobs[cob].want, graph.cobs[cob].machine) == (it.want, it.machine)
        assert graph.cobs[cob].protect == it.protect == (cob in stored.protected)
        assert graph.cobs[cob].trust_s == it.trust_s


@given(sites())
def test_objects_with_other_names_are_the_same_objects(site: tuple[Graph, dict[str, Host]]) -> None:
    stored = read_site(EvaluatedSite(*site, roots=ROOTS).text())
    names = {cob: CobId(f"{cob}-new") for cob in site[0].cobs}
    there = stored.renamed(names)
    assert there.contents == {names[cob]: digest for cob, digest in stored.contents.items()}
    assert there.protected == {names[cob] for cob in stored.protected}
    assert {need.on for need in there.graph(ROOTS).needs} <= set(names.values())
    back = there.renamed({new: old for old, new in names.items()})
    sites = [EvaluatedSite(it.graph(ROOTS), it.hosts, roots=ROOTS) for it in (back, stored)]
    assert sites[0].text() == sites[1].text()  # as texts, for a nan is not equal to itself
    assert stored.renamed({}) is stored


def a_type(*actions: Action) -> CobType:
    steps = [("down", "up"), ("up", "down"), ("outdated", "up")]
    return CobType(
        name="simple",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=actions[0],
        check_timeout_s=4.0,
        revert="undo",
        prepare="keep",
        transitions=tuple(
            Transition(source=x, dest=y, action=action, attempts=2)
            for (x, y), action in zip(steps, actions[1:], strict=True)
        ),
    )


def test_every_part_of_a_site_is_read_back() -> None:
    kind = a_type(
        Tasks(path="/home/ann/site/tasks/check.yml"),
        Role(name="galaxy.nginx"),
        PythonAction(type_name="simple", method="stop"),
        Missing(message="gone"),
    )
    restart = replace(kind.transitions[2], interrupts=True)
    steps = (*kind.transitions[:2], restart)
    shared = {"lab": {"hosts": ["h1"], "most": float("inf")}}
    more = {"serving": ("up", "outdated"), "inputs": ("web_*",)}
    kind = replace(kind, transitions=steps, shared=shared, **more)  # type: ignore[arg-type]
    limit = Limit(
        name="rolling",
        groups=(LimitGroup(name="", members=frozenset([CobId("h/a")]), bound=3),),
    )
    unit = Unit(
        name="h", members=frozenset(ids("h/a h/b")), domains=("r1", "r2"), order=(1, 0.0, "x")
    )
    budget = Budget(
        name="one",
        units=(unit, replace(unit, name="g", domains=(), order=(0, 0.0, ""))),
        percent=25,
        group="running",
        first=1,
        pause_s=5.0,
        trust_s=9.0,
        during=((CobId("m/flag"), "set"),),
    )
    graph = graph_of({"h/a": kind, "h/b": kind}, "h/a up h/b up", "h/b down>up h/a down")
    cobs = dict(graph.cobs)
    cobs[CobId("h/a")] = replace(
        cobs[CobId("h/a")], spec={"a": [1, float("inf")]}, confirm=Confirm(within_s=9.0)
    )
    graph = replace(graph, cobs=cobs, limits=(limit,), budgets=(budget,))
    hosts = {"h": Host(name="h", groups=("web",), variables={"rack": "r1"})}
    files = KeptFiles(digests={"site:tasks/check.yml": "ab"})
    stored = read_site(EvaluatedSite(graph, hosts, roots=ROOTS, files=files).text())
    assert stored.graph(ROOTS) == graph
    assert stored.types(ROOTS) == {"simple": kind}
    assert stored.hosts == hosts
    assert stored.files == KeptFiles(digests=files.digests, names=frozenset(["rack"]))
    assert isinstance(graph.needs[0], LockNeed)


def ids(cobs: str) -> Iterator[CobId]:
    return map(CobId, cobs.split())


def a_text() -> str:
    graph = graph_of("h/a h/b", "h/a up h/b up")
    return EvaluatedSite(graph, {"h": Host(name="h")}).text()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "3", '{"format":4', '{"format":null}', '{"format":true}']
)
def test_what_is_no_generation_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="generation"):
        read_site(text)


@pytest.mark.parametrize(
    ("found", "hint"),
    [(5, "or a newer one"), *((older, "an earlier Cobweb without release") for older in range(4))],
)
def test_a_generation_of_another_format_is_refused(found: int, hint: str) -> None:
    """Whatever else it says: also where it is all that ours says."""
    text = json.dumps({**json.loads(a_text()), "format": found})
    with pytest.raises(StoreError, match=f"has format {found}, and this Cobweb knows") as caught:
        read_site(text)
    assert hint in caught.value.hint


def test_the_format_is_written_whatever_a_site_has() -> None:
    budget = Budget(name="b", units=())
    for graph in (graph_of("h/a"), graph_of("h/a", budgets=(budget,))):
        assert json.loads(EvaluatedSite(graph, {}).text())["format"] == 4


@pytest.mark.parametrize(
    "damage",
    [
        {"hosts": {"h": {}}},
        {"hosts": []},
        {"types": {}},
        {"types": {"simple": {"states": 3}}},
        {"cobs": {"h/a": {"type": "simple"}}},
        {"cobs": []},
        {"needs": [{"cob": "h/a"}]},
        {"needs": [{"cob": "h/a", "in": "up", "on": "h/z", "state": "up"}]},
        {"needs": [{"cob": "h/z", "in": "up", "on": "h/a", "state": "up"}]},
        {"limits": [{"name": "a", "groups": []}]},
        {"budgets": [{"name": "a", "count": 1}]},
        {"budgets": [{"name": "a", "count": 1, "units": [{"name": "h", "members": 3}]}]},
        {"files": 3},
    ],
    ids=str,
)
def test_damage_is_told_when_the_part_is_asked_for(damage: dict[str, Any]) -> None:
    stored = read_site(json.dumps({**json.loads(a_text()), **damage}))
    with pytest.raises(StoreError, match="damaged"):
        (stored.hosts, stored.files, stored.contents, stored.graph(ROOTS))


def test_a_path_below_an_unknown_folder_is_refused() -> None:
    graph = graph_of({"h/a": a_type(*[Tasks(path="/home/ann/site/a.yml")] * 4)})
    stored = read_site(EvaluatedSite(graph, {"h": Host(name="h")}, roots=ROOTS).text())
    with pytest.raises(StoreError, match="folder 'site'"):
        stored.graph({})


def test_the_types_of_objects_are_known_by_name() -> None:
    stored = read_site(a_text())
    graph = stored.graph({})
    assert stored.type_names == {cob: it.type.name for cob, it in graph.cobs.items()}
    assert stored.type_names
    with pytest.raises(StoreError, match="damaged"):
        _ = read_site('{"format":4,"cobs":[]}').type_names


def test_a_site_says_whether_it_has_limits_of_any_kind() -> None:
    """Bounds on transitions, or budgets."""
    one = budget_of("h/a")
    flying = Limit(
        name="slow",
        groups=(LimitGroup(name="", members=frozenset({CobId("h/a")}), bound=1),),
    )
    graphs_of = (
        graph_of("h/a", **more) for more in ({}, {"budgets": (one,)}, {"limits": (flying,)})
    )
    assert [read_site(EvaluatedSite(it, {}).text()).has_limits for it in graphs_of] == [
        False,
        True,
        True,
    ]
