"""The report as text for people: what matters first, and of much only the first few."""

from __future__ import annotations

import time
from itertools import pairwise

from cobweb.plugin import Cell, Column, SiteAccess, Tone
from cobweb_plugins.report._prose import (
    cause_of,
    chain_text,
    failure_lines,
    failure_title,
    hosts_text,
    path_reason,
    span,
)
from cobweb_plugins.report._report import Report
from cobweb_plugins.report._values import Waiting

_AN_ORDER = 2
"""Fewer groups of hosts that switched are no order that is worth telling."""

_SHOWN_FAILURES = 20
_SHOWN_CAUSES = 20
_SHOWN_WAITING = 3
_SHOWN_ROWS = 10
_SHOWN_PATH = 30
_SHOWN_SWITCHES = 30


def tell_report(access: SiteAccess, report: Report) -> None:
    """Write summary, failures, who waited for what, the critical path and what took longest."""
    _summary(access, report)
    _failures(access, report)
    _waiting(access, report)
    _switches(access, report)
    _path(access, report)
    _slowest(access, report)
    _waited(access, report)
    for note in report.notes:
        access.summary(f"note: {note}", Tone.CAREFUL)


def _head(access: SiteAccess, text: str) -> None:
    access.line()
    access.line(text, Tone.HEAD)


def _summary(access: SiteAccess, report: Report) -> None:
    story, facts = report.story, report.facts
    tone = Tone.GOOD if report.result == "ok" else Tone.BAD
    code = "" if story.exit_code is None else f" (exit code {story.exit_code})"
    access.line(f"run {story.run}: {report.result}{code}", tone)
    if facts.started is not None:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.started))
        access.line(f"{facts.command} by {facts.user}@{facts.host}, began {began}")
    totals = [
        _count(len(report.hosts), "host"),
        _count(len(story.cobs), "object"),
        _count(len(story.steps), "transition"),
        f"{len(story.failures)} failed",
        f"{len(report.waiting)} not settled",
        span(story.last_ms),
    ]
    access.line(", ".join(totals))


def _failures(access: SiteAccess, report: Report) -> None:
    story = report.story
    if story.failures or story.unreachable:
        _head(access, "Failures")
    for failure in story.failures[:_SHOWN_FAILURES]:
        attempt = f", attempt {failure.attempt}" if failure.attempt > 1 else ""
        title = f"{failure.cob}  {failure_title(failure)}"
        access.line(f"{title} (at {span(failure.at_ms)}{attempt})", Tone.BAD)
        for line in failure_lines(failure):
            access.line(f"  | {line}")
    _more(access, len(story.failures) - _SHOWN_FAILURES)
    lost = sorted(story.unreachable.items())
    for host, said in lost[:_SHOWN_FAILURES]:
        access.line(f"{host} could not be reached{f': {said}' if said else ''}", Tone.BAD)
    _more(access, len(lost) - _SHOWN_FAILURES)


def _waiting(access: SiteAccess, report: Report) -> None:
    """Tell by cause who waits for it; failures and lost hosts themselves were told above."""
    by_cause: dict[str, list[Waiting]] = {}
    for it in report.waiting:
        if len(it.chain) != 1 or it.chain[0]["kind"] not in ("failed", "unreachable"):
            by_cause.setdefault(cause_of(it), []).append(it)
    if by_cause:
        _head(access, "Not settled")
    messages = report.messages
    causes = sorted(by_cause.values(), key=lambda waits: -len(waits))
    for waits in causes[:_SHOWN_CAUSES]:
        access.line(chain_text(waits[0], messages)[-1], Tone.CAREFUL)
        for it in waits[:_SHOWN_WAITING]:
            way = "".join(f" <- {link['cob']}" for link in it.chain[1:])
            access.line(f"  {it.cob} is {it.state}{way}")
        if len(waits) > _SHOWN_WAITING:
            access.line(f"  ... and {_count(len(waits) - _SHOWN_WAITING, 'object')} more")
    _more(access, len(causes) - _SHOWN_CAUSES, "causes")


def _switches(access: SiteAccess, report: Report) -> None:
    """Tell the order in which hosts switched, where there was one."""
    switches = report.story.switches
    if len(switches) < _AN_ORDER:
        return
    _head(access, f"Hosts switched to generation {switches[-1].generation}")
    columns = (
        Column(title="AT", right=True),
        Column(title="NUMBER", right=True),
        Column(title="HOSTS", flexible=True),
    )
    rows = [(span(it.at_ms), str(len(it.hosts)), hosts_text(it.hosts)) for it in switches]
    access.table(columns, rows[:_SHOWN_SWITCHES])
    _more(access, len(rows) - _SHOWN_SWITCHES)


def _path(access: SiteAccess, report: Report) -> None:
    if not report.path:
        return
    _head(access, f"Critical path ({_count(len(report.path), 'transition')})")
    columns = (
        Column(title="AT", right=True),
        Column(title="TOOK", right=True),
        Column(title="OBJECT", flexible=True),
        Column(title="TRANSITION"),
        Column(title="BEGAN", flexible=True),
    )
    rows = []
    for before, it in pairwise((None, *report.path)):
        assert it is not None
        step = it.step
        change = f"{step.source} -> {step.dest}"
        where = (span(step.start_ms), span(step.took_ms), step.cob, change)
        rows.append((*where, path_reason(it, before)))
    access.table(columns, rows[:_SHOWN_PATH])
    _more(access, len(rows) - _SHOWN_PATH)


def _slowest(access: SiteAccess, report: Report) -> None:
    if not report.slow:
        return
    _head(access, "Slowest transitions")
    columns = (
        Column(title="TOOK", right=True),
        Column(title="OBJECT", flexible=True),
        Column(title="TRANSITION"),
        Column(title="RESULT"),
    )
    rows = [
        (
            span(it.took_ms),
            it.cob,
            f"{it.source} -> {it.dest}",
            Cell(text=it.result, tone=Tone.NONE if it.result == "ok" else Tone.BAD),
        )
        for it in report.slow[:_SHOWN_ROWS]
    ]
    access.table(columns, rows)


def _waited(access: SiteAccess, report: Report) -> None:
    if not report.waited:
        return
    _head(access, "Waited for longest")
    columns = (
        Column(title="OBJECT", flexible=True),
        Column(title="STATE"),
        Column(title="WAITS", right=True),
        Column(title="IN ALL", right=True),
        Column(title="LONGEST", flexible=True),
    )
    rows = [
        (
            it.cob,
            it.state,
            str(it.holders),
            span(it.total_ms),
            f"{span(it.most_ms)} {it.longest}",
        )
        for it in report.waited[:_SHOWN_ROWS]
    ]
    access.table(columns, rows)


def _more(access: SiteAccess, number: int, what: str = "") -> None:
    if number > 0:
        access.line(f"... and {number} more{' ' + what if what else ''} (-o json has all)")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"
