"""The graph of a run as SVG: who asked for whose lock, and in which state all ended.

Small runs show each object; larger ones fold objects of the same name over all hosts into one box
with counts. Arrows go from who needs to what is needed; what is needed by others stands left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cobweb.report._html_text import html
from cobweb.report._report import Report
from cobweb.report._values import Waiting

__all__ = ["MOST_BOXES", "Drawing", "draw"]

MOST_BOXES = 60
"""With more objects the graph shows their names, and of more names those with the most locks."""

_WIDTH, _HEIGHT, _ROW, _COLUMN, _MARGIN = 168, 40, 54, 250, 12
_LETTERS = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """An SVG element, and a sentence on what it shows."""

    svg: str
    caption: str


@dataclass(slots=True)
class _Box:
    """What is drawn as one: an object, or all objects of a name."""

    name: str
    cobs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    lost: int = 0
    waiting: int = 0


def draw(report: Report) -> Drawing:
    """Return the graph of the locks that were asked for in the run."""
    story = report.story
    folded = len(story.cobs) > MOST_BOXES
    names = [cob.partition("/")[2] if folded else cob for cob in story.cobs]
    boxes = _boxes(report, names)
    arrows: Counter[tuple[str, str]] = Counter()
    waits = story.waits
    for row in range(len(waits)):
        arrows[names[waits.holder[row]], names[waits.on[row]]] += 1
    shown = _chosen(boxes, arrows)
    kept = {pair: number for pair, number in arrows.items() if set(pair) <= shown.keys()}
    what = "objects of the same name on all hosts" if folded else "objects"
    more = (
        f"; {len(boxes) - len(shown)} names with fewer locks are left out"
        if boxes.keys() - shown.keys()
        else ""
    )
    return Drawing(
        svg="".join(_svg(shown, kept)),
        caption=f"Boxes are {what}, with the state that they ended in. "
        f"An arrow goes from who asked for a lock to who gave it{more}.",
    )


def _boxes(report: Report, names: Sequence[str]) -> dict[str, _Box]:
    story = report.story
    boxes: dict[str, _Box] = {}
    failed = {failure.cob for failure in story.failures}
    waits = {it.cob: _is_lost(it) for it in report.waiting if it.cob not in failed}
    for number, cob in enumerate(story.cobs):
        box = boxes.setdefault(names[number], _Box(names[number]))
        box.cobs += 1
        box.states[story.state_of(number)] += 1
        box.failed += cob in failed
        box.lost += waits.get(cob, False)
        box.waiting += not waits.get(cob, True)
    return boxes


def _is_lost(it: Waiting) -> bool:
    return bool(it.chain) and it.chain[0]["kind"] == "unreachable"


def _chosen(boxes: dict[str, _Box], arrows: Counter[tuple[str, str]]) -> dict[str, _Box]:
    """Return the boxes to draw, by name; those with the most locks where there are too many."""
    if len(boxes) > MOST_BOXES:
        locks: Counter[str] = Counter()
        for (holder, on), number in arrows.items():
            locks[holder] += number
            locks[on] += number
        chosen = sorted(boxes, key=lambda name: (-locks[name], name))[:MOST_BOXES]
        return {name: boxes[name] for name in sorted(chosen)}
    return {name: boxes[name] for name in sorted(boxes)}


def layers(names: Sequence[str], arrows: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return a layer for each name, one more than that of what it needs; circles are cut."""
    needs: dict[str, list[str]] = {}
    for holder, on in sorted(arrows):
        if holder != on:
            needs.setdefault(holder, []).append(on)
    layer: dict[str, int] = {}
    on_way: set[str] = set()
    for start in names:
        stack = [start]
        while stack:
            name = stack[-1]
            if name in layer:
                stack.pop()
            elif name in on_way:
                known = [layer[on] for on in needs.get(name, ()) if on in layer]
                layer[name] = max(known, default=-1) + 1
                on_way.discard(name)
                stack.pop()
            else:
                on_way.add(name)
                later = [on for on in needs.get(name, ()) if on not in layer and on not in on_way]
                stack += later
    return layer


def _svg(boxes: Mapping[str, _Box], arrows: Mapping[tuple[str, str], int]) -> Iterator[str]:
    layer = layers(list(boxes), arrows)
    places: dict[str, tuple[int, int]] = {}
    rows: Counter[int] = Counter()
    for name in boxes:
        column = layer[name]
        places[name] = (_MARGIN + column * _COLUMN, _MARGIN + rows[column] * _ROW)
        rows[column] += 1
    width = max((x for x, _ in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _HEIGHT + _MARGIN
    yield (
        f'<svg class="graph" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label="Graph of the run">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    for (holder, on), number in sorted(arrows.items()):
        yield _arrow(places[holder], places[on], f"{holder} asked {on} for a lock: {number}")
    for name, box in boxes.items():
        yield from _box(box, *places[name])
    yield "</svg>"


def _arrow(start: tuple[int, int], end: tuple[int, int], title: str) -> str:
    (x1, y1), (x2, y2) = start, end
    y1, y2 = y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
    if x1 > x2:
        x2 += _WIDTH
        bend = (x1 - x2) // 2
        way = f"M{x1} {y1}C{x1 - bend} {y1} {x2 + bend} {y2} {x2} {y2}"
    else:
        x1, x2 = x1 + _WIDTH, x2 + _WIDTH
        way = f"M{x1} {y1}C{x1 + 40} {y1} {x2 + 40} {y2} {x2} {y2}"
    return (
        f'<path class="arrow" d="{way}" marker-end="url(#tip)"><title>{html(title)}</title></path>'
    )


def _box(box: _Box, x: int, y: int) -> Iterator[str]:
    kind = "bad" if box.failed or box.lost else "late" if box.waiting else "good"
    states = ", ".join(
        state if box.cobs == 1 else f"{number} {state}"
        for state, number in box.states.most_common()
    )
    marks = "".join(
        f" {mark}{'' if box.cobs == 1 else number}"
        for mark, number in (
            ("\u2717", box.failed),
            ("\u2298", box.lost),
            ("\u25d4", box.waiting),
        )
        if number
    )
    told = f"{box.name}: {states}; {box.failed} failed, {box.lost} lost, {box.waiting} waiting"
    yield f'<g class="{kind}"><title>{html(told)}</title>'
    yield f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
    yield f'<text x="{x + 8}" y="{y + 16}">{html(_cut(box.name))}</text>'
    yield f'<text class="small" x="{x + 8}" y="{y + 32}">{html(_cut(states + marks))}</text></g>'


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}\u2026"
