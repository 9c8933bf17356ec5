"""The border to code that is not ours: what a plugin raises is turned into a `PluginError`.

A plugin may raise a `CobwebError` on purpose (an inventory that cannot be read, no layout); this
passes. A keyboard interrupt is the operator's and passes too. All else is the plugin's mistake,
also `SystemExit`: no plugin ends our process.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from cobweb.errors import CobwebError, PluginError
from cobweb.model import Action, CobId, Expansion, Graph, Host, Job, Report, Schedule, TaskGraph
from cobweb.plugin.protocols import (
    Adapter,
    EndingExecutor,
    Executor,
    ExecutorSetting,
    ExpandContext,
    ExpandingSection,
    Generator,
    Machine,
    MarkingExecutor,
    NodeProvider,
    NodeRequest,
    PlannedStep,
    Planner,
    Solver,
    Stages,
    TaskPlanner,
)

T = TypeVar("T")


class _BreachError(Exception):
    """What a plugin returned is not what its protocol says."""


def describe(error: BaseException) -> str:
    """Return one line: the error's type, its text, and the file and line that raised it."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{kind}: {text}"
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(frames) if "importlib" not in f.filename), None)
    where = f" at {place.filename}:{place.lineno}" if place else ""
    return f"{kind}: {text}{where}" if text else f"{kind}{where}"


@contextmanager
def border(plugin: str, call: str) -> Iterator[None]:
    """Run a call into `plugin`; its mistakes leave as PluginError naming plugin, call and cause."""
    try:
        yield
    except (KeyboardInterrupt, CobwebError):
        raise
    except BaseException as error:  # the border to foreign code
        breach = isinstance(error, _BreachError)
        message = f"{call} {error if breach else f'raised {describe(error)}'}"
        raise PluginError(plugin, message, hint=f"this is a bug of the plugin {plugin}") from error


def _checked(value: T, wanted: type) -> T:
    """Return what a plugin returned; a breach if its protocol says another type."""
    if not isinstance(value, wanted):
        raise _BreachError(f"returned {type(value).__name__}, not {wanted.__name__}")
    return value


class GuardedExecutor:
    """Hands every call to the executor of a plugin and keeps its mistakes apart from ours."""

    name: ClassVar[str]
    actions: ClassVar[frozenset[type[Action]]]
    _plugin: ClassVar[str]
    _make: ClassVar[type[Executor]]

    def __init__(self) -> None:
        self._in_flight: set[int] = set()
        with self._border("__init__"):
            self._inner = self._make()

    def open(self, setting: ExecutorSetting) -> None:
        """See `Executor.open`."""
        with self._border("open"):
            self._inner.open(setting)

    def submit(self, job: Job) -> None:
        """See `Executor.submit`."""
        self._in_flight.add(job.number)
        with self._border("submit"):
            self._inner.submit(job)

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """See `Executor.wait`; one report per job, or it is the plugin's mistake."""
        with self._border("wait"):
            reports = tuple(self._inner.wait(timeout_s))
            for report in reports:
                number = _checked(report, Report).number
                if number not in self._in_flight:
                    raise _BreachError(f"reported job {number}, which is not in flight")
                self._in_flight.discard(number)
            return reports

    def wake(self) -> None:
        """See `Executor.wake`."""
        with self._border("wake"):
            self._inner.wake()

    def now(self) -> float:
        """See `Executor.now`."""
        with self._border("now"):
            return self._inner.now()

    def close(self, *, kill: bool = False) -> None:
        """See `Executor.close`."""
        with self._border("close"):
            self._inner.close(kill=kill)

    def _border(self, method: str) -> Any:
        return border(self._plugin, f"executor {self.name}: {method}()")


class GuardedMarkingExecutor(GuardedExecutor):
    """The same for one that marks hosts."""

    def unmark(self, hosts: Iterable[str]) -> Mapping[str, str]:
        """See `MarkingExecutor.unmark`."""
        with self._border("unmark"):
            assert isinstance(self._inner, MarkingExecutor)
            return _checked(self._inner.unmark(hosts), Mapping)


class GuardedEndingExecutor(GuardedExecutor):
    """The same for one that ends what it has lost sight of."""

    def end_work(self, job: Job, jobs: Sequence[int]) -> None:
        """See `EndingExecutor.end_work`."""
        self._in_flight.add(job.number)
        with self._border("end_work"):
            assert isinstance(self._inner, EndingExecutor)
            self._inner.end_work(job, jobs)


def guard_executor(plugin: str, made: type[Executor]) -> type[Executor]:
    """Return a class that behaves like `made`, behind the border."""
    more = {"unmark": GuardedMarkingExecutor, "end_work": GuardedEndingExecutor}
    guards = tuple(guard for method, guard in more.items() if hasattr(made, method))
    space = {"name": made.name, "actions": made.actions, "_plugin": plugin, "_make": made}
    return type(
        made.__name__, guards or (GuardedExecutor,), space | {"__module__": made.__module__}
    )


class GuardedSolver:
    """A solver behind the border."""

    name: ClassVar[str]

    def __init__(self, plugin: str, inner: Solver) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all solvers

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """See `Solver.solve`."""
        with border(self._plugin, f"solver {self.name}: solve()"):
            return _checked(self._inner.solve(template, constraints), Mapping)


class GuardedPlanner:
    """A planner behind the border."""

    name: ClassVar[str]

    def __init__(self, plugin: str, inner: Planner) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all planners

    def stages(self, graph: Graph, steps: Sequence[PlannedStep]) -> Stages:
        """See `Planner.stages`."""
        with border(self._plugin, f"planner {self.name}: stages()"):
            return _checked(self._inner.stages(graph, steps), Stages)

    def priorities(self, graph: Graph) -> Mapping[CobId, float]:
        """See `Planner.priorities`."""
        with border(self._plugin, f"planner {self.name}: priorities()"):
            return _checked(self._inner.priorities(graph), Mapping)


class GuardedTaskPlanner:
    """A planner of tasks behind the border."""

    name: ClassVar[str]

    def __init__(self, plugin: str, inner: TaskPlanner) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all planners

    def schedule(self, tasks: TaskGraph, workers: int | None = None) -> Schedule:
        """See `TaskPlanner.schedule`."""
        with border(self._plugin, f"planner {self.name}: schedule()"):
            return _checked(self._inner.schedule(tasks, workers), Schedule)


class GuardedAdapter:
    """An adapter behind the border; `hosts` is read to its end within."""

    name: ClassVar[str]

    def __init__(self, plugin: str, inner: Adapter) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all adapters

    def reads(self, source: Path) -> bool:
        """See `Adapter.reads`."""
        with border(self._plugin, f"adapter {self.name}: reads()"):
            return bool(self._inner.reads(source))

    def hosts(self, source: Path) -> Iterable[Host]:
        """See `Adapter.hosts`."""
        with border(self._plugin, f"adapter {self.name}: hosts()"):
            return tuple(_checked(host, Host) for host in self._inner.hosts(source))


class GuardedGenerator:
    """An adapter that makes files, behind the border."""

    name: ClassVar[str]
    schema: ClassVar[Mapping[str, Any]]

    def __init__(self, plugin: str, inner: Generator) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all generators
        self.schema = inner.schema  # type: ignore[misc]

    def generate(self, model: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """See `Generator.generate`."""
        with border(self._plugin, f"adapter {self.name}: generate()"):
            made = _checked(self._inner.generate(model), Mapping)
            for name, data in made.items():
                if not _is_file_name(name):
                    raise _BreachError(f"returned a file named {name!r}, which is no plain `x.yml`")
                _checked(data, Mapping)
            return made


class GuardedProvider:
    """A provider of nodes behind the border."""

    name: ClassVar[str]
    fields: ClassVar[Mapping[str, Any]]

    def __init__(self, plugin: str, inner: NodeProvider) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all providers
        self.fields = inner.fields  # type: ignore[misc]

    def find(self, request: NodeRequest) -> Machine | None:
        """See `NodeProvider.find`."""
        with self._border("find"):
            found = self._inner.find(request)
            return found if found is None else _checked(found, Machine)

    def create(self, request: NodeRequest) -> Machine:
        """See `NodeProvider.create`."""
        with self._border("create"):
            return _checked(self._inner.create(request), Machine)

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """See `NodeProvider.confirm`."""
        with self._border("confirm"):
            return _checked(self._inner.confirm(request, machine), Machine)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """See `NodeProvider.delete`."""
        with self._border("delete"):
            self._inner.delete(request, machine)

    def _border(self, method: str) -> Any:
        return border(self._plugin, f"provider {self.name}: {method}()")


class GuardedSection:
    """A section that stands for hosts and objects, behind the border; `source` is its code."""

    name: ClassVar[str]

    def __init__(self, plugin: str, inner: ExpandingSection) -> None:
        self._plugin = plugin
        self._inner = inner
        self.name = inner.name  # type: ignore[misc]  # one class serves all sections
        self.source = Path(inspect.getfile(type(inner))).parent

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """See `ExpandingSection.expand`."""
        with border(self._plugin, f"section {self.name}: expand()"):
            return _checked(self._inner.expand(sections, context), Expansion)


def _is_file_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.yml", name) is not None
    )
