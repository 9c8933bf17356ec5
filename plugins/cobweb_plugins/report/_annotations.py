"""The report as what GitHub and GitLab show beside a pipeline.

GitHub reads workflow commands (`::error title=...::message`) from the log of a step, and shows ten
of each kind; GitLab reads a Code Quality report from an artefact. A run has no line of a file that
would be at fault, so both name the run's site file as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cobweb_plugins.report._prose import cause_of, chain_text, failure_lines, failure_words
from cobweb_plugins.report._report import Report

MOST_ANNOTATIONS = 10
"""GitHub shows so many errors and so many warnings of a step; of more the last one tells."""

_SHOWN = 20
"""How many objects that wait for the same cause are named."""

_SITE_FILE = "site.yml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing to tell of: `kind` is failed, unreachable or waits; `about` the object or host."""

    kind: str
    about: str
    title: str
    lines: tuple[str, ...]


def troubles_of(report: Report) -> list[Trouble]:
    """Return what went wrong, failures first; objects that wait for one cause are one trouble."""
    found = [
        Trouble(
            kind="failed",
            about=failure.cob,
            title=f"{failure.cob}: {failure_words(failure)}",
            lines=tuple(failure_lines(failure)),
        )
        for failure in report.story.failures
    ]
    for host, said in sorted(report.story.unreachable.items()):
        title = f"host {host} could not be reached"
        found.append(Trouble(kind="unreachable", about=host, title=title, lines=(said,)))
    return found + _waits(report)


def _waits(report: Report) -> list[Trouble]:
    messages = report.messages
    by_cause: dict[str, list[str]] = {}
    for it in report.waiting:
        if len(it.chain) != 1 or it.chain[0]["kind"] not in ("failed", "unreachable"):
            cause = chain_text(it, messages)[-1]
            by_cause.setdefault(f"{cause_of(it)}\n{cause}", []).append(it.cob)
    return [
        Trouble(
            kind="waits",
            about=key.partition("\n")[0],
            title=f"{len(cobs)} waiting: {key.partition(chr(10))[0]}",
            lines=(key.partition("\n")[2], _names(cobs)),
        )
        for key, cobs in by_cause.items()
    ]


def _names(cobs: list[str]) -> str:
    more = f" and {len(cobs) - _SHOWN} more" if len(cobs) > _SHOWN else ""
    return f"not settled: {', '.join(cobs[:_SHOWN])}{more}"


def github_commands(report: Report) -> Iterator[str]:
    """Yield one workflow command a line; nothing that a task said can begin a line of its own."""
    troubles = troubles_of(report)
    for level, kinds in (("error", ("failed", "unreachable")), ("warning", ("waits",))):
        chosen = [trouble for trouble in troubles if trouble.kind in kinds]
        fits = len(chosen) <= MOST_ANNOTATIONS
        for trouble in chosen if fits else chosen[: MOST_ANNOTATIONS - 1]:
            yield _command(level, trouble.title, "\n".join(trouble.lines))
        if not fits:
            rest = chosen[MOST_ANNOTATIONS - 1 :]
            title = f"... and {len(rest)} more"
            yield _command(level, title, "\n".join(trouble.title for trouble in rest[:_SHOWN]))


def _command(level: str, title: str, message: str) -> str:
    text = _escaped(message.strip() or title)
    name = _escaped(f"cobweb: {title}").replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={name}::{text}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def gitlab_quality(report: Report) -> list[dict[str, Any]]:
    """Return a GitLab Code Quality report; equal troubles of two runs have equal fingerprints."""
    severity = {"failed": "critical", "unreachable": "major", "waits": "minor"}
    return [
        {
            "description": ": ".join([trouble.title, *filter(None, trouble.lines[:1])]),
            "check_name": f"cobweb/{trouble.kind}",
            "fingerprint": _digest(f"{trouble.kind} {trouble.about}"),
            "severity": severity[trouble.kind],
            "location": {"path": _SITE_FILE, "lines": {"begin": 1}},
        }
        for trouble in troubles_of(report)
    ]


def _digest(text: str) -> str:
    """Return a digest of any text, also of half a character as JSON can write it."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
