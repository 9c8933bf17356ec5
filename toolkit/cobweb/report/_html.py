"""The report as one page that needs nothing else: no network, no other file.

All that people must be able to read stands in the page as text, so that it is there without
scripting and in print; the script adds the timeline, from one block of packed columns. A content
security policy names the hashes of the one style and the one script, and forbids all else.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise

from cobweb.report._drawing import draw
from cobweb.report._html_text import html
from cobweb.report._pack import pack
from cobweb.report._prose import (
    cause_of,
    chain_text,
    failure_title,
    hosts_text,
    path_reason,
    span,
)
from cobweb.report._report import Report
from cobweb.report._values import Failure, Waiting

__all__ = ["MOST_FAILURES", "MOST_HOSTS", "html_page"]

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
    return (files("cobweb.report") / "_page" / name).read_text(encoding="utf-8")


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
