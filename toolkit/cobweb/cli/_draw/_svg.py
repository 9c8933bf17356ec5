"""The graph as SVG, without a drawing program: boxes in layers, arrows to what is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from cobweb._text import plain
from cobweb.cli._draw._arrows import Arrow, arrows_of
from cobweb.cli._draw._layers import layers_of
from cobweb.cli._text import cells
from cobweb.model import Cob, CobId, Graph

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """Where a COB is drawn; the point is the upper left corner, in pixels."""

    x: float
    y: float
    width: float


def svg_source(graph: Graph) -> str:
    """Return an SVG document; dashed arrows are needed by a transition only."""
    arrows = arrows_of(graph)
    boxes = _place(graph, arrows)
    return "\n".join([*_lines(graph, arrows, boxes), ""])


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


def _lines(graph: Graph, arrows: Sequence[Arrow], boxes: dict[CobId, _Box]) -> Iterator[str]:
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
