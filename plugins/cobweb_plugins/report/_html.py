"""The report as one page that needs nothing else: no network, no other file.

All that people must be able to read stands in the page as text, so that it is there without
scripting and in print; the script adds the timeline, from one block of packed columns. A content
security policy names the hashes of the one style and the one script, and forbids all else.
The graph of a run as SVG: who asked for whose lock, and in which state all ended.

Small runs show each object; larger ones fold objects of the same name over all hosts into one box
with counts. Arrows go from who needs to what is needed; what is needed by others stands left.
"""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import pairwise

from cobweb_plugins.report._pack import pack
from cobweb_plugins.report._prose import (
    cause_of,
    chain_text,
    failure_title,
    hosts_text,
    path_reason,
    span,
)
from cobweb_plugins.report._report import Report
from cobweb_plugins.report._values import Failure, Waiting

MOST_FAILURES = 500
"""A page tells so many failures in full; it says how many there are more."""

MOST_HOSTS = 2000
"""A page has a table of so many hosts: those with failures and waits first."""

_MOST_CAUSES = 200
_MOST_WAITING = 30
_MOST_PATH = 300
_MOST_SWITCHES = 300
_OPEN = 5
"""So many failures are unfolded from the start."""

_LISTED = 20
"""So many failures and causes stand in the open; further ones are folded together."""

_RESULTS = {
    "ok": "\u2713",
    "failed": "\u2717",
    "stuck": "\u25d4",
    "interrupted": "\u25a0",
    "drift": "\u2260",
}


def html_page(report: Report) -> Iterator[str]:
    """Yield the page in pieces."""
    style, script = _asset("style.css"), _asset("page.js")
    packed = pack(report)
    notes = (*report.notes, *packed.notes)
    run = html(report.story.run)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{run}: {html(report.result)} - Cobweb</title><style>{style}</style></head><body>\n"
    )
    yield from _head(report)
    yield "<main>\n"
    yield from _notes(notes)
    yield from _failures(report)
    yield from _waiting(report)
    yield _asset("timeline.html")
    yield from _switches(report)
    yield from _path(report)
    yield from _graph(report)
    yield from _slowest(report)
    yield from _waited(report)
    yield from _hosts(report)
    yield "</main>\n"
    yield f'<script type="text/plain" id="data">{packed.text}</script>\n'
    yield f"<script>{script}</script>\n</body></html>\n"


def _asset(name: str) -> str:
    return (files(__package__) / "_page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _head(report: Report) -> Iterator[str]:
    story, facts = report.story, report.facts
    mark = _RESULTS.get(report.result, "\u2026")
    kind = "good" if report.result == "ok" else "bad"
    yield f'<header><h1>Run {html(story.run)} <span class="result {kind}">'
    yield f'<span aria-hidden="true">{mark}</span> {html(report.result)}</span></h1>\n<dl>'
    told = {
        "took": span(story.last_ms),
        "hosts": f"{len(report.hosts):,}",
        "objects": f"{len(story.cobs):,}",
        "transitions": f"{len(story.steps):,}",
        "failed": f"{len(story.failures):,}",
        "unreachable": f"{len(story.unreachable):,}",
        "not settled": f"{len(report.waiting):,}",
        "generation": str(story.generation or "-"),
        "exit code": "-" if story.exit_code is None else str(story.exit_code),
        "events": f"{story.events:,}",
    }
    if facts.started is not None:
        told["command"] = facts.command
        told["by"] = f"{facts.user}@{facts.host}"
        told["began"] = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(facts.started))
    for name, value in told.items():
        yield f"<div><dt>{name}</dt><dd>{html(value)}</dd></div>"
    yield "</dl>\n<nav>"
    for anchor, name in _SECTIONS.items():
        yield f'<a href="#{anchor}">{name}</a> '
    yield "</nav></header>\n"


_SECTIONS = {
    "failures": "Failures",
    "waiting": "Not settled",
    "timeline": "Timeline",
    "switches": "Switches",
    "path": "Critical path",
    "graph": "Graph",
    "slowest": "Slowest",
    "waited": "Waited for",
    "hosts": "Hosts",
}


def _notes(notes: Iterable[str]) -> Iterator[str]:
    lines = [f"<li>{html(note)}</li>" for note in notes]
    if lines:
        yield '<section id="notes"><h2>Notes</h2><ul>' + "".join(lines) + "</ul></section>\n"


def _failures(report: Report) -> Iterator[str]:
    story = report.story
    yield f'<section id="failures"><h2>Failures ({len(story.failures):,})</h2>\n'
    if not (story.failures or story.unreachable):
        yield '<p class="quiet">Nothing failed, and every host could be reached.</p>\n'
    told = ("".join(_failure(it, n)) for n, it in enumerate(story.failures[:MOST_FAILURES]))
    yield from _folded(told, "failures")
    yield _more(len(story.failures) - MOST_FAILURES, "failures")
    lost = sorted(story.unreachable.items())
    if lost:
        yield f"<h3>Hosts that could not be reached ({len(lost):,})</h3><ul>"
        for host, said in lost[:MOST_FAILURES]:
            yield f"<li><b>{html(host)}</b> {html(said)}</li>"
        yield "</ul>" + _more(len(lost) - MOST_FAILURES, "hosts")
    yield "</section>\n"


def _failure(failure: Failure, number: int) -> Iterator[str]:
    attempt = f", attempt {failure.attempt}" if failure.attempt > 1 else ""
    yield f'<details id="failure-{number}"{" open" if number < _OPEN else ""}><summary>'
    yield f'<span class="mark">\u2717</span> <b>{html(failure.cob)}</b> '
    title = html(failure_title(failure).replace("->", "\u2192"))
    when = f"at {span(failure.at_ms)}{attempt}"
    yield f'{title} <span class="quiet">{when}</span></summary>'
    if failure.message:
        yield f"<pre>{html(failure.message)}</pre>"
    if failure.tasks:
        yield '<table class="tasks"><thead><tr><th>task</th><th>ended</th><th>said</th></tr>'
        yield "</thead>"
        for task in failure.tasks:
            cells = "".join(f"<td>{html(it)}</td>" for it in (task.name, task.status, task.message))
            yield f"<tr>{cells}</tr>"
        yield "</table>"
    yield "</details>\n"


def _waiting(report: Report) -> Iterator[str]:
    by_cause: dict[str, list[Waiting]] = {}
    for it in report.waiting:
        if len(it.chain) != 1 or it.chain[0]["kind"] not in ("failed", "unreachable"):
            by_cause.setdefault(cause_of(it), []).append(it)
    number = sum(map(len, by_cause.values()))
    yield f'<section id="waiting"><h2>Not settled, waiting for others ({number:,})</h2>\n'
    if not by_cause:
        yield '<p class="quiet">No object waited for another in the end.</p>\n'
    causes = sorted(by_cause.values(), key=lambda waits: (-len(waits), waits[0].cob))
    messages = report.messages
    yield from _folded(("".join(_cause(it, messages)) for it in causes[:_MOST_CAUSES]), "causes")
    yield _more(len(causes) - _MOST_CAUSES, "causes") + "</section>\n"


def _cause(waits: list[Waiting], messages: Mapping[str, str]) -> Iterator[str]:
    """Yield who waits for one cause, each with the way there."""
    told = html(chain_text(waits[0], messages)[-1])
    yield f'<details><summary><span class="mark">\u25d4</span> <b>{len(waits):,}</b> {told}'
    yield "</summary><ul>"
    for it in waits[:_MOST_WAITING]:
        way = "".join(f" \u2190 {html(link['cob'])}" for link in it.chain[1:])
        yield f"<li>{html(it.cob)} is {html(it.state)}{way}</li>"
    yield "</ul>" + _more(len(waits) - _MOST_WAITING, "objects") + "</details>\n"


def _folded(parts: Iterable[str], what: str) -> Iterator[str]:
    """Yield the first parts as they are, and the others folded into one."""
    rest = []
    for number, part in enumerate(parts):
        if number < _LISTED:
            yield part
        else:
            rest.append(part)
    if rest:
        yield f'<details class="rest"><summary>{len(rest):,} more {what}</summary>'
        yield "".join(rest) + "</details>\n"


def _switches(report: Report) -> Iterator[str]:
    switches = report.story.switches
    rows = [
        (span(it.at_ms), str(it.generation), f"{len(it.hosts):,}", hosts_text(it.hosts))
        for it in switches
    ]
    yield '<section id="switches"><h2>Switches</h2>\n<p class="quiet">When which hosts switched to'
    yield " another generation: after all that is removed there, and needed for that, had gone.</p>"
    yield "\n"
    yield from _table(("at", "generation", "number", "hosts"), rows[:_MOST_SWITCHES], right=3)
    yield _more(len(rows) - _MOST_SWITCHES, "switches") + "</section>\n"


def _path(report: Report) -> Iterator[str]:
    rows = []
    for before, it in pairwise((None, *report.path)):
        assert it is not None
        step = it.step
        where = (span(step.start_ms), span(step.took_ms), step.cob)
        change = f"{step.source} \u2192 {step.dest}"
        rows.append((*where, change, path_reason(it, before)))
    yield '<section id="path"><h2>Critical path</h2>\n<p class="quiet">The transitions that made'
    yield " the run as long as it was: each began when the one before had ended.</p>\n"
    yield from _table(("at", "took", "object", "transition", "began"), rows[:_MOST_PATH], right=2)
    yield _more(len(rows) - _MOST_PATH, "transitions") + "</section>\n"


def _graph(report: Report) -> Iterator[str]:
    drawing = draw(report)
    yield f'<section id="graph"><h2>Graph</h2>\n<p class="quiet">{html(drawing.caption)}</p>\n'
    yield f'<div class="wide" tabindex="0" role="group" aria-label="graph">{drawing.svg}</div>'
    yield "</section>\n"


def _slowest(report: Report) -> Iterator[str]:
    rows = [
        (span(it.took_ms), it.cob, f"{it.source} \u2192 {it.dest}", span(it.start_ms), it.result)
        for it in report.slow
    ]
    yield '<section id="slowest"><h2>Slowest transitions</h2>\n'
    yield from _table(("took", "object", "transition", "at", "result"), rows, right=1)
    yield "</section>\n"


def _waited(report: Report) -> Iterator[str]:
    rows = [
        (
            span(it.total_ms),
            f"{it.holders:,}",
            it.cob,
            it.state,
            f"{span(it.most_ms)}, {it.longest}",
        )
        for it in report.waited
    ]
    yield '<section id="waited"><h2>Waited for longest</h2>\n'
    yield from _table(("in all", "waits", "object", "state", "longest wait"), rows, right=2)
    yield "</section>\n"


def _hosts(report: Report) -> Iterator[str]:
    hosts = report.hosts
    if len(hosts) > MOST_HOSTS:
        hosts = tuple(sorted(hosts, key=lambda it: (-it.failed, -it.waiting, it.name)))
    rows = [
        (
            str(it.cobs),
            str(it.transitions),
            str(it.failed or ""),
            str(it.waiting or ""),
            span(it.busy_ms),
            it.name,
        )
        for it in hosts[:MOST_HOSTS]
    ]
    yield '<section id="hosts"><h2>Hosts</h2>\n<details><summary>'
    yield f"{len(report.hosts):,} hosts, a line each</summary>"
    head = ("objects", "transitions", "failed", "not settled", "busy", "host")
    yield from _table(head, rows, right=5)
    yield _more(len(hosts) - MOST_HOSTS, "hosts") + "</details></section>\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], *, right: int) -> Iterator[str]:
    """Yield a table of which the first `right` columns are numbers; a word where it is empty."""
    kinds = [' class="n"' if number < right else "" for number in range(len(head))]
    names = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, head, strict=True))
    lines = []
    for row in rows:
        cells = (f"<td{kind}>{html(it)}</td>" for kind, it in zip(kinds, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    if not lines:
        yield '<p class="quiet">None.</p>\n'
        return
    yield f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>'
    yield from lines
    yield "</tbody></table></div>\n"


def _more(number: int, what: str) -> str:
    told = f"... and {number:,} more {what}: cobweb report -o json has all"
    return f'<p class="quiet">{told}</p>\n' if number > 0 else ""


_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def html(text: str) -> str:
    r"""Return text for the content or an attribute of an element; a control character is `\x1b`."""
    return escape(_HIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", text))


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
