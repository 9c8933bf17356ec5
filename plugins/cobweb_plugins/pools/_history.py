"""The picture of a history: which service had each resource when, and what work waited meanwhile.

It is made of decisions, the times are theirs: a resource `comes` to a service from the decision on
until it is known to have left where it was, and to `leave` one is to drain there.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import UsageError
from cobweb.plugin import plain, shortened
from cobweb_plugins.pools._chart import colour, rendered, rounded, steps
from cobweb_plugins.pools._holdings import SERVICES
from cobweb_plugins.pools._views import said, why

if TYPE_CHECKING:
    from cobweb.model import Decision

MOST_TICKS = 8
"""How many times of the day the axis has at most."""

Load = Mapping[str, Sequence[tuple[float, float]]]
"""What waited at which time, in seconds since the epoch, by service."""

_NAME = 16
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_TICKS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(it * _MINUTE_S for it in (1, 2, 5, 10, 15, 30)),
    *(it * _HOUR_S for it in (1, 2, 3, 6, 12)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What was decided of a resource, from one time to another.

    `kind` is `has`, `comes`, `leaves` or `failed`, `text` says it for people.
    """

    resource: str
    service: str
    kind: str
    start_s: float
    end_s: float
    text: str


def spans(history: Iterable[Decision], until_s: float) -> list[Span]:
    """Return what was decided of each resource until a time, in its order; nobody's has no span."""
    of: dict[str, list[Decision]] = defaultdict(list)
    for it in sorted(history, key=lambda it: it.revision):
        if not it.key.startswith(SERVICES):
            of[it.key].append(it)
    found = []
    for key, decisions in of.items():
        ends = [*(it.time for it in decisions[1:]), until_s]
        for it, end_s in zip(decisions, ends, strict=True):
            service, kind = _service_and_kind(it.body)
            # A clock that was set back makes no span that ends before it begins.
            if service and end_s > it.time:
                text = f"{key}: {said(it.body)}, by {it.author}: {why(it)}"
                span = Span(
                    resource=key,
                    service=service,
                    kind=kind,
                    start_s=it.time,
                    end_s=end_s,
                    text=text,
                )
                found.append(span)
    return found


def _service_and_kind(body: Mapping[str, Any] | None) -> tuple[str, str]:
    if not body:
        return "", ""
    service, left = body["service"], body.get("was", ())
    if body.get("lost"):
        return service or "".join(left[:1]), "failed"
    if not service:
        return "".join(left[:1]), "leaves"
    kind = {"leaving": "leaves", "failed": "failed"}.get(body["phase"], "has")
    return service, "comes" if kind == "has" and left else kind


def load_of(file: Path) -> Load:
    """Return what waited, from a file of `serve --record`; UsageError where it is none."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for number, line in enumerate(_lines(file), 1):
        try:
            turn = json.loads(line)
            if turn.get("decider") != "pools":
                continue
            for name, answer in turn["observations"]["answers"].items():
                values = [
                    it["value"]
                    for it in answer.get("kpis", ())
                    if it["name"] == "pending" and it["value"] is not None
                ]
                if values:
                    found[name].append((float(answer["arrived"]), float(sum(values))))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"{file}:{number} is no turn of a decider"
            raise UsageError(problem, hint="`cobweb serve --record` writes such files") from error
    return found


def _lines(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from lines
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error


def picture_of(found: Sequence[Span], load: Load, start_s: float, until_s: float) -> str:
    """Return the SVG of spans, and of the load below them, between two times."""
    resources = sorted({it.resource for it in found}, key=_natural)
    rows = {name: row for row, name in enumerate(resources)}
    services = sorted({it.service for it in found} | set(load))
    lines = {name: _values(load.get(name, ()), start_s, until_s) for name in services}
    most = max((value for values in lines.values() for _, value in values), default=0.0)
    return rendered(
        "_history.svg.j2",
        resources=[plain(shortened(it, _NAME)) for it in resources],
        services=[plain(shortened(it, _NAME)) for it in services],
        colours=[colour(at) for at in range(len(services))],
        spans=[
            {
                "row": rows[it.resource],
                "of": services.index(it.service),
                "kind": it.kind,
                "start": max(it.start_s - start_s, 0),
                "end": it.end_s - start_s,
                "text": plain(f"{_time(it.start_s)} to {_time(it.end_s)} {it.text}"),
            }
            for it in found
        ],
        lines=[_points(lines[name], until_s - start_s) for name in services],
        most=rounded(most) if any(lines.values()) else None,
        seconds=until_s - start_s,
        ticks=_ticks(start_s, until_s),
        title=f"Who had what from {_time(start_s, '%Y-%m-%d %X')} to {_time(until_s)} UTC",
    )


def _values(
    values: Sequence[tuple[float, float]], start_s: float, until_s: float
) -> list[tuple[float, float]]:
    """Return what is between two times, in seconds since the first of them."""
    return [(at_s - start_s, it) for at_s, it in values if start_s <= at_s < until_s]


def _points(values: Sequence[tuple[float, float]], end_s: float) -> str:
    return steps([*(it for it, _ in values), end_s], [it for _, it in values])


def _ticks(start_s: float, until_s: float) -> list[tuple[float, str]]:
    """Return times of the day for an axis: seconds since its start, and what to write there."""
    days = (it * _DAY_S for it in count(1))
    whole = chain(_TICKS_S, days)
    step = next(it for it in whole if (until_s - start_s) / it <= MOST_TICKS)
    form = "%X" if step < _MINUTE_S else "%H:%M" if step < _DAY_S else "%m-%d"
    times = range(ceil(start_s / step) * step, int(until_s) + 1, step)
    return [(it - start_s, _time(it, form)) for it in times]


def _time(seconds: float, form: str = "%X") -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime(form)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts n2 before n10."""
    return [(int(it), "") if it.isdigit() else (-1, it) for it in re.split(r"(\d+)", name)]
