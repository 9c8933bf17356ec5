"""Drawings show each COB once and each pair of needs as one arrow."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.cli._draw import arrows_of, dot_source, layers_of, mermaid_source, svg_source
from cobweb.model import Cob, CobId, CobType, Graph, Nothing, TransitionNeed

MakeGraph = Callable[..., Graph]
SVG = "{http://www.w3.org/2000/svg}"
EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


@pytest.fixture
def chain(make_graph: MakeGraph) -> Graph:
    """Needs from b to a and from a to cfg, over two hosts."""
    ids = ["alpha/a", "alpha/cfg", "beta/b"]
    return make_graph(ids, [("beta/b", "alpha/a"), ("alpha/a", "alpha/cfg")])


def _edges(pairs: list[tuple[int, int]]) -> dict[str, list[str]]:
    edges: dict[str, list[str]] = {}
    for source, target in pairs:
        edges.setdefault(str(source), []).append(str(target))
    return edges


def _reach(edges: dict[str, list[str]], start: str) -> set[str]:
    seen: set[str] = set()
    work = [start]
    while work:
        for target in edges.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


def test_needs_of_a_pair_are_one_arrow(make_graph: MakeGraph) -> None:
    pair = ("b/b", "a/a")
    arrows = arrows_of(make_graph(["a/a", "b/b"], [pair, pair]))
    assert [(arrow.cob, arrow.on) for arrow in arrows] == [pair]
    assert arrows[0].labels == ("* -> up: up",)


def test_svg_has_a_box_per_cob_and_an_arrow_per_pair(chain: Graph) -> None:
    root = ET.fromstring(svg_source(chain))  # noqa: S314 - it is our own text
    assert len(root.findall(f".//{SVG}rect")) == 3
    assert len(root.findall(f"{SVG}path")) == 2


def test_svg_boxes_do_not_overlap(chain: Graph) -> None:
    root = ET.fromstring(svg_source(chain))  # noqa: S314 - it is our own text
    corners = [(box.get("x"), box.get("y")) for box in root.findall(f".//{SVG}rect")]
    assert len(set(corners)) == 3


def test_the_way_back_of_a_need_does_not_bend_the_drawing() -> None:
    """`requires` makes needs in both directions; the layers follow those on the preferred state."""
    simple = CobType(
        name="simple",
        states=("down", "up"),
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=(),
    )
    a, b = CobId("h/a"), CobId("h/b")
    up = TransitionNeed(cob=b, source="*", dest="up", on=a, state="up")
    down = TransitionNeed(cob=a, source="*", dest="down", on=b, state="down")
    cobs = {cob: Cob(id=cob, type=simple) for cob in (a, b)}
    graph = Graph(cobs=cobs, needs=(down, up))
    assert [arrow.forward for arrow in arrows_of(graph)] == [False, True]
    root = ET.fromstring(svg_source(graph))  # noqa: S314 - it is our own text
    places = [float(box.get("x", "")) for box in root.findall(f".//{SVG}rect")]
    assert places[0] > places[1]


def test_svg_of_nothing_is_a_document() -> None:
    ET.fromstring(svg_source(Graph(cobs={})))  # noqa: S314 - it is our own text


def test_svg_escapes_names(make_graph: MakeGraph) -> None:
    text = svg_source(make_graph(['h/<b>&"', "h/x"], [("h/x", 'h/<b>&"')]))
    ET.fromstring(text)  # noqa: S314 - it is our own text
    assert "<b>" not in text


def test_dashed_and_solid_arrows_differ(make_graph: MakeGraph) -> None:
    passing = make_graph(["a/a", "b/b"], [("b/b", "a/a")])
    steady = make_graph(["a/a", "b/b"], [("b/b", "a/a")], steady=True)
    assert "passing" in svg_source(passing).split("</style>")[1]
    assert "passing" not in svg_source(steady).split("</style>")[1]
    assert "dashed" in dot_source(passing)
    assert "-.->" in mermaid_source(passing)
    assert "-->" in mermaid_source(steady)


def test_dot_source_groups_by_host_and_quotes(make_graph: MakeGraph) -> None:
    text = dot_source(make_graph(['h/a"b\\c', "h/x"], [("h/x", 'h/a"b\\c')]))
    assert text.count("subgraph") == 1
    assert '"h/x" -> "h/a\\"b\\\\c"' in text


def test_mermaid_source_has_no_raw_marks(make_graph: MakeGraph) -> None:
    text = mermaid_source(make_graph(['h/a"b;#', "h/x"], [("h/x", 'h/a"b;#')]))
    assert 'c0["a#34;b#59;#35; (simple)"]' in text
    assert "c1 -.->" in text


def test_what_is_needed_stands_to_the_right() -> None:
    assert layers_of(["b", "a", "cfg"], {"b": ["a"], "a": ["cfg"]}) == [["b"], ["a"], ["cfg"]]


@given(EDGES)
def test_each_node_has_one_place_and_arrows_point_right_but_in_circles(
    pairs: list[tuple[int, int]],
) -> None:
    edges = _edges(pairs)
    nodes = [str(number) for number in range(10)]
    layers = layers_of(nodes, edges)
    place = {node: number for number, layer in enumerate(layers) for node in layer}
    assert sorted(node for layer in layers for node in layer) == nodes
    for source, targets in edges.items():
        for target in targets:
            in_circle = source == target or source in _reach(edges, target)
            assert in_circle or place[source] < place[target]


def test_a_long_chain_is_no_deep_recursion() -> None:
    nodes = [f"n{number}" for number in range(5000)]
    edges = {source: [target] for source, target in pairwise(nodes)}
    assert len(layers_of(nodes, edges)) == 5000
