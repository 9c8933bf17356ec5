"""Words that the forms of a report share: how long, why, and what a failure is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobweb_plugins.report._analysis import UNTOLD, PathStep
from cobweb_plugins.report._values import Failure, Waiting

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000

_SHOWN_HOSTS = 8


def span(ms: int) -> str:
    """Return milliseconds for people: `0.25 s`, `12.3 s`, `3 min 4 s`, `2 h 5 min`."""
    if ms < _MINUTE_MS:
        return f"{ms / 1000:.{2 if ms < 10_000 else 1}f} s"  # noqa: PLR2004  # ten seconds
    if ms < _HOUR_MS:
        return f"{ms // _MINUTE_MS} min {ms % _MINUTE_MS // 1000} s"
    return f"{ms // _HOUR_MS} h {ms % _HOUR_MS // _MINUTE_MS} min"


def chain_text(it: Waiting, messages: Mapping[str, str]) -> list[str]:
    """Return one line per link of a chain, from the object that waits to the cause."""
    lines = [_link(link) for link in it.chain] or [cause_of(it)]
    said = cause_message(it, messages)
    if said:
        lines[-1] += f": {said}"
    return lines


def cause_of(it: Waiting) -> str:
    """Return the end of a chain as one sentence, without what was said there."""
    return _link(it.chain[-1]) if it.chain else f"{it.cob} was not settled"


def cause_message(it: Waiting, messages: Mapping[str, str]) -> str:
    """Return what the failed job or the lost host at the end of a chain said."""
    if not it.chain or it.chain[-1]["kind"] not in ("failed", "unreachable"):
        return ""
    last = it.chain[-1]
    return str(last.get("message") or messages.get(last["cob"], ""))


def failure_title(failure: Failure) -> str:
    """Return what failed: the check, or which transition; or that it is drift."""
    if failure.kind in ("check", "drift"):
        return failure.kind
    return f"{failure.source} -> {failure.dest}"


def failure_words(failure: Failure) -> str:
    """Return what became of the object, as the end of a sentence."""
    return "drifted" if failure.kind == "drift" else f"{failure_title(failure)} failed"


def failure_lines(failure: Failure) -> list[str]:
    """Return what was said of a failure: its message, then its last tasks, a line each."""
    lines = [failure.message] if failure.message else []
    return lines + [
        f"[{task.status}] {task.name}{f': {task.message}' if task.message else ''}"
        for task in failure.tasks
    ]


def path_reason(it: PathStep, before: PathStep | None) -> str:
    """Say what a transition of the critical path came after."""
    if before is None or it.reason == "check":
        late = f", {span(it.gap_ms)} after the start" if it.gap_ms else ""
        return f"after its check{late}"
    late = f", {span(it.gap_ms)} later" if it.gap_ms else ""
    if it.reason == "own":
        return f"after its own {before.step.source} -> {before.step.dest}{late}"
    if it.reason == "switch":
        return f"after the switch that {before.step.cob} held up{late}"
    if it.room is not None:
        return f"after room in `{it.room.limit}`, taken by {it.room.unit}{late}"
    return f"after {before.step.cob}{late}"


def hosts_text(hosts: Sequence[str]) -> str:
    """Return hosts that did something together as one short text."""
    more = len(hosts) - _SHOWN_HOSTS
    return ", ".join(hosts[:_SHOWN_HOSTS]) + (f" and {more} more" if more > 0 else "")


def _link(link: Mapping[str, Any]) -> str:
    if link["kind"] == UNTOLD:
        return f"{link['cob']}: the events do not say what kept it"
    from cobweb.api import link_sentence  # a third of a second, for runs that leave nobody waiting

    return link_sentence(link)
