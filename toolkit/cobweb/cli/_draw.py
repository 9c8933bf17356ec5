"""Drawings of the graph: Graphviz source, Mermaid source, and SVG by a layout of our own.

All needs of one COB on another are one arrow, from the COB to what it needs; the arrow's text says
which needs these are. In sources hosts are boxes around their COBs; SVG takes no drawing program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from cobweb._text import plain
from cobweb.cli._text import cells
from cobweb.engine import parts_of
from cobweb.model import Cob, CobId, Graph, LockNeed, Need

MOST_BOXES = 2000
"""A drawing of more objects than this is of no use to anyone."""

_CELL = 7.3
_HEIGHT = 40.0
_PAD = 12.0
_ROW = 58.0
_BETWEEN = 120.0
_MARGIN = 20.0
_TRACK = 8.0
_STYLE = """
  text { font: 12px ui-monospace, monospace; fill: #1b1f24; }
  .type { fill: #57606a; font-size: 10px; }
  rect { fill: #f6f8fa; stroke: #57606a; rx: 6px; }
  path { fill: none; stroke: #57606a; stroke-width: 1.2; }
  path.passing { stroke-dasharray: 5 3; }
  marker path { fill: #57606a; stroke: none; }
"""
_SWEEPS = 4

Edges = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """`cob` needs `on`; `labels` say when and which state, in order, each once.

    `steady` says that one of the needs is a lock dependency: it holds while a state lasts, not only
    during a transition. `forward` says that one asks for the preferred state: of the needs that
    `requires` makes, this is the one that people think of; the way back belongs to going down.
    """

    cob: CobId
    on: CobId
    labels: tuple[str, ...]
    steady: bool
    forward: bool


def arrows_of(graph: Graph) -> tuple[Arrow, ...]:
    """Return the arrows of a graph, sorted by their ends."""
    pairs: dict[tuple[CobId, CobId], list[Need]] = {}
    for need in graph.needs:
        pairs.setdefault((need.cob, need.on), []).append(need)
    return tuple(_arrow(graph, pairs[cob, on]) for cob, on in sorted(pairs))


def _arrow(graph: Graph, needs: Sequence[Need]) -> Arrow:
    cob, on = needs[0].cob, needs[0].on
    kind = graph.cobs[on].type
    return Arrow(
        cob=cob,
        on=on,
        labels=tuple(dict.fromkeys(_label(need) for need in needs)),
        steady=any(isinstance(need, LockNeed) for need in needs),
        forward=any(kind.preferred in kind.members(need.state) for need in needs),
    )


def _label(need: Need) -> str:
    if isinstance(need, LockNeed):
        return f"in {need.within}: {need.state}"
    return f"{need.source} -> {need.dest}: {need.state}"


def dot_source(graph: Graph) -> str:
    """Return Graphviz source; `dot -Tsvg` draws it."""
    return "\n".join([*_dot_lines(graph), ""])


def mermaid_source(graph: Graph) -> str:
    """Return Mermaid source, as Markdown pages of many forges draw it."""
    return "\n".join([*_mermaid_lines(graph), ""])


def _dot_lines(graph: Graph) -> Iterator[str]:
    yield "digraph cobweb {"
    yield '  rankdir="LR"; node [shape=box, style=rounded];'
    for number, (host, cobs) in enumerate(_by_host(graph).items()):
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={_dot_text(host)};"
        for cob in cobs:
            label = _dot_text(f"{cob.name}\n{cob.type.name}")
            yield f"    {_dot_text(cob.id)} [label={label}];"
        yield "  }"
    for arrow in arrows_of(graph):
        style = "" if arrow.steady else ", style=dashed"
        label = _dot_text("\n".join(arrow.labels))
        yield f"  {_dot_text(arrow.cob)} -> {_dot_text(arrow.on)} [label={label}{style}];"
    yield "}"


def _mermaid_lines(graph: Graph) -> Iterator[str]:
    keys = {cob: f"c{number}" for number, cob in enumerate(graph.cobs)}
    yield "flowchart LR"
    for number, (host, cobs) in enumerate(_by_host(graph).items()):
        yield f"  subgraph h{number}[{_mermaid_text(host)}]"
        for cob in cobs:
            yield f"    {keys[cob.id]}[{_mermaid_text(f'{cob.name} ({cob.type.name})')}]"
        yield "  end"
    for arrow in arrows_of(graph):
        line = "-->" if arrow.steady else "-.->"
        label = _mermaid_text("; ".join(arrow.labels))
        yield f"  {keys[arrow.cob]} {line}|{label}| {keys[arrow.on]}"


def _by_host(graph: Graph) -> dict[str, list[Cob]]:
    hosts: dict[str, list[Cob]] = {}
    for cob in graph.cobs.values():
        hosts.setdefault(cob.host, []).append(cob)
    return hosts


def _dot_text(text: str) -> str:
    lines = (plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'


def _mermaid_text(text: str) -> str:
    """Return a quoted text; Mermaid takes marks that mean something to it as numbers."""
    marks = "".join(f"#{ord(it)};" if it in '"#;<>&`|' else it for it in plain(text))
    return f'"{marks}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """Where a COB is drawn; the point is the upper left corner, in pixels."""

    x: float
    y: float
    width: float


def svg_source(graph: Graph) -> str:
    """Return an SVG document; dashed arrows are needed by a transition only."""
    arrows = arrows_of(graph)
    return "\n".join([*_svg_lines(graph, arrows, _place(graph, arrows)), ""])


def _place(graph: Graph, arrows: Sequence[Arrow]) -> dict[CobId, _Box]:
    edges: dict[str, list[str]] = {}
    for arrow in arrows:
        if arrow.forward:
            edges.setdefault(arrow.cob, []).append(arrow.on)
    boxes: dict[CobId, _Box] = {}
    x = _MARGIN
    for layer in layers_of(list(graph.cobs), edges):
        width = max(_width(graph.cobs[CobId(cob)]) for cob in layer)
        for row, cob in enumerate(layer):
            boxes[CobId(cob)] = _Box(x=x, y=_MARGIN + row * _ROW, width=width)
        x += width + _BETWEEN
    return boxes


def _width(cob: Cob) -> float:
    return max(cells(plain(cob.id)), cells(plain(cob.type.name))) * _CELL + 2 * _PAD


def _svg_lines(graph: Graph, arrows: Sequence[Arrow], boxes: dict[CobId, _Box]) -> Iterator[str]:
    width = max((box.x + box.width for box in boxes.values()), default=0.0) + _BETWEEN / 2
    height = max((box.y + _HEIGHT for box in boxes.values()), default=0.0) + _MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img">'
    )
    yield "<title>Change objects and what they need</title>"
    yield f"<style>{_STYLE}</style>"
    yield (
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    for arrow in arrows:
        yield _arrow_line(arrow, boxes[arrow.cob], boxes[arrow.on])
    for cob in graph.cobs.values():
        yield from _box_lines(cob, boxes[cob.id])
    yield "</svg>"


def _arrow_line(arrow: Arrow, start: _Box, end: _Box) -> str:
    title = _text(f"{arrow.cob} needs {arrow.on}: {'; '.join(arrow.labels)}")
    kind = "" if arrow.steady else ' class="passing"'
    way = _curve(start, end)
    return f'<path{kind} d="{way}" marker-end="url(#end)"><title>{title}</title></path>'


def _curve(start: _Box, end: _Box) -> str:
    """Return a curve between two boxes; the ways there and back are two lines, not one."""
    pull = _BETWEEN / 2
    if end.x > start.x:
        x1, x2, out, into, track = start.x + start.width, end.x, pull, -pull, -_TRACK
    elif end.x < start.x:
        x1, x2, out, into, track = start.x, end.x + end.width, -pull, pull, _TRACK
    else:
        x1, x2, out, into, track = start.x + start.width, end.x + end.width, pull, pull, 0.0
    y1, y2 = start.y + _HEIGHT / 2 + track, end.y + _HEIGHT / 2 + track
    points = ((x1 + out, y1), (x2 + into, y2), (x2, y2))
    return f"M{x1:.1f} {y1:.1f}C" + " ".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _box_lines(cob: Cob, box: _Box) -> Iterator[str]:
    x, y = box.x + _PAD, box.y
    states = f"{cob.id}: {', '.join(cob.type.states)}; preferred {cob.preferred}"
    yield f"<g><title>{_text(states)}</title>"
    yield f'<rect x="{box.x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{_HEIGHT:.0f}"/>'
    yield f'<text x="{x:.1f}" y="{y + 17:.1f}">{_text(cob.id)}</text>'
    yield f'<text class="type" x="{x:.1f}" y="{y + 32:.1f}">{_text(cob.type.name)}</text></g>'


def _text(text: str) -> str:
    return escape(plain(text))


def layers_of(nodes: Sequence[str], edges: Edges) -> list[list[str]]:
    """Return the nodes by layer, first those that nothing points to; deterministic, near linear.

    What others need stands to the right of what needs it. Circles are collapsed so that each object
    gets a layer; within a layer objects are ordered by the mean place of their neighbours, a few
    sweeps back and forth (Sugiyama's method without its dummy vertices, which is enough for a
    drawing that people read).
    """
    depth = _depths(nodes, edges)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    back = _reversed(nodes, edges)
    for sweep in range(_SWEEPS):
        forth = sweep % 2 == 0
        _sweep(layers if forth else layers[::-1], back if forth else edges)
    return layers


def _depths(nodes: Sequence[str], edges: Edges) -> dict[str, int]:
    """Return the longest way to each node from one that nothing points to, over components."""
    components = list(parts_of({node: edges.get(node, ()) for node in nodes}))
    home = {node: number for number, members in enumerate(components) for node in members}
    depth = [0] * len(components)
    for number in range(len(components) - 1, -1, -1):
        for node in components[number]:
            for target in edges.get(node, ()):
                if home[target] != number:
                    depth[home[target]] = max(depth[home[target]], depth[number] + 1)
    return {node: depth[home[node]] for node in nodes}


def _reversed(nodes: Iterable[str], edges: Edges) -> dict[str, list[str]]:
    back: dict[str, list[str]] = {node: [] for node in nodes}
    for node, targets in edges.items():
        for target in targets:
            back[target].append(node)
    return back


def _sweep(layers: Sequence[list[str]], neighbours: Edges) -> None:
    """Order each layer, in turn, by the mean place of its neighbours in those that came before."""
    place: dict[str, float] = {}
    for layer in layers:
        old = {node: number / len(layer) for number, node in enumerate(layer)}
        layer.sort(key=lambda node: (_mean(neighbours.get(node, ()), place, old[node]), old[node]))
        place |= {node: number / len(layer) for number, node in enumerate(layer)}


def _mean(nodes: Sequence[str], place: Mapping[str, float], otherwise: float) -> float:
    known = [place[node] for node in nodes if node in place]
    return sum(known) / len(known) if known else otherwise
