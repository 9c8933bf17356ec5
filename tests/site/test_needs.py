"""The four words and explicit needs stand for the needs of section 3 of the design."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import Graph, LockNeed, Need
from cobweb.site.objects._needs import Expansion, Link, Shape

Maker = Any

COBS = """
cobs:
  x: {{type: simple, on: db}}
  y: {{type: simple, on: app}}
  a: {{type: simple, on: app, {needs}}}
"""


def needs(graph: Graph, host: str = "app01") -> set[str]:
    """Return the needs that an object of one host takes part in, as text."""
    return {str(need) for need in graph.needs if f"{host}/" in str(need)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("after: [x@db]", {"(app01/a, * -> up) <- (db01/x, up)"}),
        (
            "requires: [x@db]",
            {
                "(app01/a, * -> up) <- (db01/x, up)",
                "(db01/x, * -> down) <- (app01/a, down)",
            },
        ),
        (
            "binds: [x@db]",
            {
                "(app01/a, * -> up) <- (db01/x, up)",
                "(db01/x, * -> down) <- (app01/a, down)",
                "(app01/a, up) <- (db01/x, up)",
                "(db01/x, outdated -> *) <- (app01/a, down)",
            },
        ),
        (
            "stops: [y]",
            {
                "(app01/a, outdated -> *) <- (app01/y, down)",
                "(app01/y, * -> up) <- (app01/a, up)",
            },
        ),
        ("after: [y]", {"(app01/a, * -> up) <- (app01/y, up)"}),
        ("after: [a@app]", {"(app01/a, * -> up) <- (app02/a, up)"}),
        (
            "needs: [{when: down -> up, cob: x, on: db, state: down}]",
            {"(app01/a, down -> up) <- (db01/x, down)"},
        ),
        ('needs: [{when: "* -> up", cob: y, state: up}]', {"(app01/a, * -> up) <- (app01/y, up)"}),
        ("needs: [{when: up, cob: x, on: db, state: up}]", {"(app01/a, up) <- (db01/x, up)"}),
        ('needs: [{when: "*", cob: x, on: db, state: up}]', {"(app01/a, *) <- (db01/x, up)"}),
        ("after: ['x@{{ where }}']", {"(app01/a, * -> up) <- (db01/x, up)"}),
        ("after: [y, y@app01], requires: [y]", None),
    ],
)
def test_words(maker: Maker, written: str, expected: set[str] | None) -> None:
    graph = maker.site(
        "inventory: {all: {vars: {where: db}}, app: {hosts: {app01: , app02: }}, "
        "db: {hosts: {db01: }}}" + COBS.format(needs=written)
    ).graph()
    if expected is not None:
        mine = {need for need in needs(graph) if need.startswith(("(app01/a", "(db01", "(app01/y"))}
        assert mine == expected
    assert len(set(map(str, graph.needs))) == len(graph.needs)


def test_states_are_those_of_each_type(maker: Maker) -> None:
    graph = maker.site(
        """
types:
  one: {states: [stale, off, on], preferred: on, remove: off, check: {tasks: c.yml},
        transitions: {off -> on: , on -> off: , stale -> on: }}
  two: {states: [outdated, gone, ready], preferred: ready, remove: gone, check: {tasks: c.yml},
        transitions: {gone -> ready: , ready -> gone: , outdated -> ready: }}
cobs:
  a: {type: one, on: app01, binds: [b]}
  b: {type: two, on: app01, binds: [c], stops: [a]}
  c: {type: one, on: app01}
"""
    ).graph()
    assert {str(need) for need in graph.needs} == {
        "(app01/a, * -> on) <- (app01/b, ready)",
        "(app01/a, on) <- (app01/b, ready)",
        "(app01/b, * -> gone) <- (app01/a, off)",
        "(app01/b, outdated -> *) <- (app01/a, off)",
        "(app01/b, * -> ready) <- (app01/c, on)",
        "(app01/b, ready) <- (app01/c, on)",
        "(app01/c, * -> off) <- (app01/b, gone)",
    }


def test_what_is_broken_gives_way_like_what_is_outdated(maker: Maker) -> None:
    """A repair restarts it, and may bring new content with it; other ways up are as ever."""
    graph = maker.site(
        """
types:
  web: {states: [outdated, broken, down, up], preferred: up, remove: down,
        check: {tasks: c.yml},
        transitions: {down -> up: , up -> down: , broken -> up: , outdated -> up: }}
  plain: {states: [down, up], preferred: up, remove: down, check: {tasks: c.yml},
          transitions: {down -> up: , up -> down: }}
cobs:
  a: {type: web, on: app01, stops: [c]}
  b: {type: plain, on: app01, binds: [a]}
  c: {type: plain, on: app01, stops: [b]}
"""
    ).graph()
    assert {need for need in map(str, graph.needs) if need.startswith("(app01/a, ")} == {
        "(app01/a, outdated -> *) <- (app01/c, down)",
        "(app01/a, outdated -> *) <- (app01/b, down)",
        "(app01/a, broken -> *) <- (app01/c, down)",
        "(app01/a, broken -> *) <- (app01/b, down)",
        "(app01/a, * -> down) <- (app01/b, down)",
    }


def test_needs_and_objects_are_in_the_order_of_their_ids(maker: Maker) -> None:
    graph = maker.site(
        "inventory: {app: {hosts: {app: , app-1: , app.x: }}}\n"
        "cobs: {b: {type: simple, on: app, after: [a]}, a: {type: simple, on: app}}"
    ).graph()
    assert list(graph.cobs) == sorted(graph.cobs)
    assert [need.cob for need in graph.needs] == sorted(need.cob for need in graph.needs)


def test_a_need_knows_where_it_was_written(maker: Maker) -> None:
    graph = maker.site(
        "cobs:\n  b: {type: simple, on: app01, after: [a]}\n  a: {type: simple, on: app01}"
    ).graph()
    assert [str(need.place) for need in graph.needs] == ["site.yml:3:40"]


class Def:
    """A definition on some hosts, as the expansion sees it."""

    def __init__(self, name: str, hosts: list[str]) -> None:
        self.name = name
        self.hosts = tuple(hosts)
        self.host_set = frozenset(hosts)
        self.machine = ""


HOSTS = ["h1", "h2", "h3", "h4"]
some_hosts = st.lists(st.sampled_from(HOSTS), unique=True, min_size=1)
shapes = st.lists(
    st.builds(
        Shape,
        source=st.sampled_from(["*", "up"]),
        dest=st.sampled_from(["up", None]),
        state=st.just("up"),
        back=st.booleans(),
    ),
    min_size=1,
    max_size=2,
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, Def], list[Link]]:
    """Draw definitions and links between them."""
    from cobweb.errors import Place

    defs = {name: Def(name, draw(some_hosts)) for name in "abc"}
    links = []
    for _ in range(draw(st.integers(0, 4))):
        source, target = draw(st.sampled_from("abc")), draw(st.sampled_from("abc"))
        inside = [host for host in draw(some_hosts) if host in defs[target].host_set]
        same = source != target and draw(st.booleans())
        links.append(
            Link(
                source=source,
                target=target,
                hosts=None if same else dict.fromkeys(inside),
                shapes=tuple(draw(shapes)),
                place=Place(file="f"),
            )
        )
    return defs, links


class Varying:
    """A reference that has another link on each host, or none."""

    def __init__(self, source: str, links: dict[str, Link], *, known: bool) -> None:
        self.source = source
        self.target = next(iter(links.values())).target if known and links else None
        self.back = any(shape.back for link in links.values() for shape in link.shapes)
        self._links = links

    def link(self, host: str) -> Link | None:
        return self._links.get(host)


@st.composite
def varying_worlds(draw: st.DrawFn) -> tuple[dict[str, Def], list[Link], list[Varying]]:
    """Draw a world and spread its links over the hosts of the dependents."""
    defs, links = draw(worlds())
    varying = []
    for name in sorted({link.source for link in links}):
        own = [link for link in links if link.source == name]
        one_target = len({link.target for link in own}) == 1
        chosen = {host: draw(st.sampled_from([*own, None])) for host in defs[name].hosts}
        by_host = {host: link for host, link in chosen.items() if link is not None}
        varying.append(Varying(name, by_host, known=one_target and draw(st.booleans())))
    return defs, links, varying


@given(varying_worlds(), some_hosts)
def test_references_that_differ_by_host_reach_what_each_of_them_says(
    world: tuple[dict[str, Def], list[Link], list[Varying]], limit: list[str]
) -> None:
    """The oracle: each host's link as if its COB stood on that host alone."""
    defs, links, varying = world
    expected = every_need(defs, links)
    for each in varying:
        for host in defs[each.source].hosts:
            link = each.link(host)
            if link is not None:
                expected |= every_need(defs, [link], only=host)
    expansion = Expansion(cast("Any", defs), links, varying)
    everything, all_needs = expansion.reach({d.name: d.hosts for d in defs.values()})
    assert {str(need) for need in all_needs} == expected
    assert len(all_needs) == len(expected)

    reached = {cob for cob, (host, _) in everything.items() if host in limit}
    while more := {n.on for n in all_needs if n.cob in reached} - reached:
        reached |= more
    part, part_needs = expansion.reach(
        {d.name: [host for host in d.hosts if host in limit] for d in defs.values()}
    )
    assert list(part) == sorted(reached)
    assert list(part_needs) == [need for need in all_needs if need.cob in reached]


def every_need(defs: dict[str, Def], links: list[Link], *, only: str | None = None) -> set[str]:
    """Expand by looking at every pair of instances: slow, and right to the eye.

    With `only`, for dependents on that host.
    """
    found = set()
    pairs = [(h, d) for d in defs.values() for h in d.hosts]
    for link in links:
        for one_host, one in [pair for pair in pairs if only in (None, pair[0])]:
            for other_host, other in pairs:
                there = other_host == one_host if link.hosts is None else other_host in link.hosts
                fits = one.name == link.source and other.name == link.target and there
                if not fits or (one_host, one) == (other_host, other):
                    continue
                for shape in link.shapes:
                    ids = [f"{one_host}/{one.name}", f"{other_host}/{other.name}"]
                    cob, on = reversed(ids) if shape.back else ids
                    when = shape.source if shape.dest is None else f"{shape.source} -> {shape.dest}"
                    found.add(f"({cob}, {when}) <- ({on}, {shape.state})")
    return found


def in_order(need: Need) -> tuple[str, ...]:
    """Return what needs are sorted by."""
    if isinstance(need, LockNeed):
        return (need.cob, "lock", need.within, "", need.on, need.state)
    return (need.cob, "transition", need.source, need.dest, need.on, need.state)


@given(worlds(), some_hosts)
def test_a_part_of_the_site_is_what_its_needs_reach(
    world: tuple[dict[str, Def], list[Link]], limit: list[str]
) -> None:
    """The clever expansion finds what the slow one finds; a part is closed, with nothing else."""
    defs, links = world
    expansion = Expansion(cast("Any", defs), links)
    everything = [(host, d.name) for d in defs.values() for host in d.hosts]
    instances, all_needs = expansion.reach({d.name: d.hosts for d in defs.values()})
    assert instances == {f"{host}/{name}": (host, name) for host, name in everything}
    assert list(instances) == sorted(instances)
    assert list(all_needs) == sorted(all_needs, key=in_order)
    assert {str(need) for need in all_needs} == every_need(defs, links)

    reached = {f"{host}/{name}" for host, name in everything if host in limit}
    while more := {str(n.on) for n in all_needs if n.cob in reached} - reached:
        reached |= more
    part, part_needs = expansion.reach(
        {d.name: [host for host in d.hosts if host in limit] for d in defs.values()}
    )
    assert list(part) == sorted(reached)
    assert list(part_needs) == [need for need in all_needs if need.cob in reached]
