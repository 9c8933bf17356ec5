"""The group `cobweb pool`, and `cobweb pool simulate`: decisions on a trace, side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from cobweb.errors import ModelError, PluginError, SiteError, UsageError
from cobweb.plugin import Column, Document, Plugins, SiteAccess, Tone, data_dir, site_access
from cobweb_plugins.pools._chart import chart_of, check_place, write

if TYPE_CHECKING:
    from cobweb_plugins.pools.decision import Policy, Standing
    from cobweb_plugins.pools.simulation import Result, ServiceResult, Trace

BASELINE_NAMES = ("fixed", "threshold")
"""Those of `simulation.BASELINES`, which is imported when it is needed."""

_POINT = "pool_policy"
_MOST_REASONS = 5
"""How many of the most frequent reasons are told of each policy; `-o json` has all."""

_HOUR_S = 3600
_MINUTE_S = 60

_EXAMPLES = """\b
Examples:
  cobweb pool simulate day.yml
  cobweb pool simulate day.yml --policy priority --policy share
  cobweb pool simulate day.yml --baseline fixed --baseline threshold
  cobweb pool simulate day.yml --chart day.svg"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What came of a trace under a policy, or a baseline."""

    name: str
    is_baseline: bool
    result: Result


_POOL_EXAMPLES = """\b
Examples:
  cobweb pool status
  cobweb pool move n03 hpc
  cobweb pool simulate day.yml --chart day.svg"""


@click.group("pool", epilog=_POOL_EXAMPLES)
def pool() -> None:
    """Move resources between services, and see why."""


@pool.command("simulate", epilog=_EXAMPLES)
@click.argument(
    "file", metavar="TRACE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--policy",
    "policies",
    metavar="P",
    multiple=True,
    help="Decide by this policy; more of them are compared. Default: that of the trace.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Choice(BASELINE_NAMES),
    help="Compare with what moves nothing, or with an autoscaler for each service.",
)
@click.option(
    "--chart",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write members and waiting work over time to FILE, as SVG.",
)
@click.pass_context
def simulate_command(
    context: click.Context,
    *,
    file: Path,
    policies: Sequence[str],
    baselines: Sequence[str],
    chart: Path | None,
) -> int:
    """Run pools on a trace: the real decisions, on a virtual clock.

    TRACE is a YAML file with the pools, and with what their services have to
    do or answer (docs/pool-simulation.md). Nothing else is read, and no site
    is needed. The exit code is 1 where a decision broke a promise.
    """
    access = site_access(context)
    if not file.is_file():
        raise UsageError(f"{file} is no file", hint="write the trace into one")
    if chart is not None:
        check_place(chart, file)
    try:
        document, trace = _read(access, file)
        runs = _runs(access, document, trace, policies, baselines)
    except SiteError as error:
        # Findings name the trace as the command line has named it.
        found = [replace(it, place=replace(it.place, file=str(file))) for it in error.findings]
        raise SiteError(found) from error
    if chart is not None:
        series = {it.name: it.result.series for it in runs}
        write(chart, chart_of(file.name, trace, series))
    if not access.data(_data(document, trace, runs)):
        _tell(access, trace, runs)
    if chart is not None:
        access.summary(f"wrote {chart}")
    return 1 if any(any(it.result.violations.values()) for it in runs) else 0


def _read(access: SiteAccess, file: Path) -> tuple[Document, Trace]:
    """Return a trace; SiteError, with all that is wrong, for what is none."""
    from cobweb_plugins.pools.simulation import trace_of

    path = data_dir("schemas") / "pool-trace.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    document = access.document(file, schema, "the trace")
    try:
        return document, trace_of(document.data)
    except ModelError as error:
        raise document.error(error) from error


def _runs(
    access: SiteAccess,
    document: Document,
    trace: Trace,
    policies: Sequence[str],
    baselines: Sequence[str],
) -> list[_Run]:
    """Run the trace under each policy and each baseline, in the order in which they are named."""
    from cobweb_plugins.pools.decision import decide
    from cobweb_plugins.pools.simulation import BASELINES, simulate

    known = policies_of(access.plugins)
    hint = f"known are {', '.join(sorted(known))}"
    for name in policies:
        if name not in known:
            raise UsageError(f"there is no policy `{name}`", hint=hint)
    default = trace.pools.policy
    if not policies and default not in known:
        problem = (("pools", "policy"), f"there is no policy `{default}`", hint)
        raise document.error(ModelError([problem]))
    runs = [
        _Run(name=name, is_baseline=False, result=simulate(trace, decide, known[name]))
        for name in dict.fromkeys(policies or (default,))
    ]
    for name in dict.fromkeys(baselines):
        result = simulate(trace, BASELINES[name], known["priority"])  # which it does not ask
        runs.append(_Run(name=name, is_baseline=True, result=result))
    return runs


def policies_of(plugins: Plugins) -> Mapping[str, Policy]:
    """Return all policies by name; PluginError for one that cannot be made."""
    return {name: GuardedPolicy(name, it) for name, it in plugins.extensions_at(_POINT).items()}


class GuardedPolicy:
    """A policy of a plugin, whose mistakes are told as its own."""

    point: ClassVar[str] = _POINT
    name: ClassVar[str] = "guarded"

    def __init__(self, name: str, make: type) -> None:
        self._name = name
        try:
            self._weight = make().weight
        except Exception as error:
            raise self._broken(f"cannot be made: {error}") from error

    def weight(self, standing: Standing, urgency: float, index: int) -> float:
        """Return what the plugin's policy says, which is a number, 0 or more."""
        try:
            weight = float(self._weight(standing, urgency, index))
        except Exception as error:
            raise self._broken(f"failed: {error!r}") from error
        if math.isnan(weight) or weight < 0:
            raise self._broken(f"returned the weight {weight}")
        return weight

    def _broken(self, what: str) -> PluginError:
        message = f"the policy {self._name} {what}"
        return PluginError(self._name, message, hint="report this to its author")


def _data(document: Document, trace: Trace, runs: Sequence[_Run]) -> Any:
    """Return what `-o json` writes: schemas/pool-simulation.schema.json."""
    results = [asdict(it.result) for it in runs]
    for result in results:
        del result["series"]  # which the chart is for
    data = {
        "format": 1,
        "trace": document.digest,
        "hours": trace.until_s / _HOUR_S,
        "resources": len(trace.pools.resources),
        "runs": [
            {"name": it.name, "baseline": it.is_baseline, **result}
            for it, result in zip(runs, results, strict=True)
        ],
    }
    return json.loads(json.dumps(data), parse_float=lambda text: round(float(text), 3))


def _tell(access: SiteAccess, trace: Trace, runs: Sequence[_Run]) -> None:
    columns = (Column(title="MEASURE"), *(Column(title=it.name, right=True) for it in runs))
    access.table(columns, list(_rows(trace, [it.result for it in runs])))
    for run in runs:
        notes = ", ".join(f"{count:,} {kind}" for kind, count in run.result.notes.items())
        if notes:
            access.summary(f"{run.name} noted: {notes}")
        for it in sorted(run.result.reasons, key=lambda it: -it.count)[:_MOST_REASONS]:
            access.summary(f"  {it.service}, {it.count:,} times {it.kind}, at last: {it.text}")
    for run in runs:
        broken = [name for name, count in run.result.violations.items() if count]
        if broken:
            access.summary(f"{run.name} broke {', '.join(broken)}", Tone.BAD)
    hours = trace.until_s / _HOUR_S
    access.summary(f"{len(trace.pools.resources):,} resources, {hours:g} hours of virtual time")


def _rows(trace: Trace, results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: a measure, and its value in each result."""
    yield ("moves", *(f"{it.moves:,}" for it in results))
    yield ("swings", *(f"{it.swings:,}" for it in results))
    yield ("promises broken", *(f"{sum(it.violations.values()):,}" for it in results))
    for name, service in trace.pools.services.items():
        measures = _OF_SPARE if service.direct else _OF_MEMBERS
        if trace.streams.get(name):
            measures = (*_OF_JOBS, *measures)
        for what, say in measures:
            yield (f"{name}: {what}", *(say(it.services[name]) for it in results))


def _span(seconds: float) -> str:
    """Return a duration as `4.2s`, `12m05s` or `3h07m`."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f}s"
    minutes, second = divmod(round(seconds), _MINUTE_S)
    hours, minute = divmod(minutes, 60)
    return f"{hours}h{minute:02}m" if hours else f"{minute}m{second:02}s"


_Measures = tuple[tuple[str, Callable[["ServiceResult"], str]], ...]

_OF_JOBS: _Measures = (
    ("jobs finished", lambda it: f"{it.finished:,}"),
    ("jobs waiting at the end", lambda it: f"{it.waiting:,}"),
    ("wait, mean", lambda it: _span(it.wait_mean_s)),
    ("wait, 95%", lambda it: _span(it.wait_p95_s)),
    ("wait, longest", lambda it: _span(it.wait_max_s)),
)
_OF_MEMBERS: _Measures = (
    ("busy hours", lambda it: f"{it.busy_h:,.0f}"),
    ("idle hours", lambda it: f"{it.idle_h:,.0f}"),
    ("hours in transit", lambda it: f"{it.transit_h:,.0f}"),
    ("hours unmet", lambda it: f"{it.unmet_h:,.1f}"),
)
_OF_SPARE: _Measures = (("machine hours", lambda it: f"{it.idle_h:,.0f}"),)
"""What is told of services with jobs, of those that are no spare pools, and of those that are."""
