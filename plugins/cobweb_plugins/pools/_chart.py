"""Charts as SVG, written by Jinja2 templates; that of a simulation has a panel per policy.

A panel has the members of all services, one upon the other, as steps over time, and below them the
waiting work of each service as a line. The same series give the same bytes. Lines come in hours
and numbers: where they are drawn is the template's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import plain, shortened

if TYPE_CHECKING:
    from cobweb_plugins.pools.simulation import Series, Trace

MOST_POINTS = 500
"""How many points a line has: of the rounds between two of them the first has its members."""

_LEGEND_NAME = 13
_HOUR_S = 3600.0


def chart_of(name: str, trace: Trace, series: Mapping[str, Series]) -> str:
    """Return the SVG of what came of a trace, by the name of the policy or baseline."""
    services, hours = list(trace.pools.services), trace.until_s / _HOUR_S
    most = max((max(row) for it in series.values() for row in it.waiting.values()), default=0)
    return rendered(
        "_chart.svg.j2",
        name=plain(name),
        colours=[colour(at) for at in range(len(services))],
        services=[plain(shortened(it, _LEGEND_NAME)) for it in services],
        resources=len(trace.pools.resources),
        hours=hours,
        most_members=rounded(len(trace.pools.resources) or 1),
        most_waiting=rounded(most or 1),
        panels=[_panel(plain(title), it, services, hours) for title, it in series.items()],
    )


def rendered(template: str, **values: Any) -> str:
    """Return the SVG that a template makes of values."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template(template).render(**values)


def check_place(chart: Path, source: Path | None) -> None:
    """Raise UsageError where a chart can't be, or would overwrite the file that it is made from."""
    if source is not None and chart.resolve() == source.resolve():
        raise UsageError(f"--chart would overwrite {source}", hint="name another file")
    if not chart.parent.is_dir():
        raise UsageError(f"--chart: there is no folder {chart.parent}", hint="make it first")


def write(chart: Path, text: str) -> None:
    """Write a chart; CobwebError where that fails."""
    try:
        chart.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CobwebError(f"cannot write {chart}: {error.strerror or error}") from error


def colour(at: int) -> str:
    """Return a colour for light and dark; by the golden angle no two of many are alike."""
    red, green, blue = hls_to_rgb((0.58 + at * 0.382) % 1, 0.52, 0.55)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _panel(title: str, series: Series, services: Sequence[str], hours: float) -> dict[str, Any]:
    """Return what is drawn of one policy, by service; where nothing ever waits there is no line.

    The area of a service is that of all services up to it: those before it are drawn upon it.
    """
    step = ceil(len(series.times_s) / MOST_POINTS) or 1
    edges = [*(time_s / _HOUR_S for time_s in series.times_s[::step]), hours]
    total = [0] * len(edges[1:])
    areas, lines = [], []
    for name in services:
        total = [a + b for a, b in zip(total, series.members[name][::step], strict=True)]
        areas.append(steps(edges, total))
        waiting = series.waiting[name]
        most = [max(waiting[at : at + step]) for at in range(0, len(waiting), step)]
        lines.append(steps(edges, most) if any(most) else "")
    return {"title": title, "areas": areas, "lines": lines}


def steps(edges: Sequence[float], values: Sequence[float]) -> str:
    """Return the points of steps, each between two edges; steps of one height are one."""
    found: list[tuple[float, float]] = []
    for start, end, value in zip(edges[:-1], edges[1:], values, strict=True):
        if found and found[-1][1] == value:
            found[-1] = (end, value)
        else:
            found += [(start, value), (end, value)]
    return "L".join(f"{x:.6g},{y:.6g}" for x, y in found)


def rounded(most: float) -> float:
    """Return the least round number that is not below another: it and its quarters are read."""
    power = 1.0
    while most > 10 * power:
        power *= 10
    return next(it * power for it in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if it * power >= most)
