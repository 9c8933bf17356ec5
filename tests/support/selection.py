"""Which tests the gate has, and which only the full proof: pytest's plugin for two markers.

`full("why")` leaves a test to the full proof (`--full`: `make test-full`, `make test-area`).
`gate("why")` keeps a test in the gate, though it takes more than two seconds or stands in a module
that is `full`. The marker that is nearest to a test decides, and says its reason; a test with
neither is in the gate and takes less than two seconds. The summary names those that took more.

A test on hosts made of namespaces (`netns`) may fail once and is then repeated: pytest's summary
names it under RERUN. No other test is.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable

import pytest

__all__: list[str] = []

MARKERS = ("full", "gate")
SLOW_S = 2.0
REPEATS = 1
SAYS_WHY = "gate, and says why"
"""The keyword of a report on a test whose nearest marker is `gate`."""

Made = list[pytest.Item | pytest.Collector] | pytest.Item | pytest.Collector | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that has the full proof run."""
    parser.addoption(
        "--full", action="store_true", help="run all tests, not those of the gate only"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have the durations of the gate's tests looked at where the summary is written."""
    if not config.option.full and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SlowTests(), "cobweb-slow-tests")


def pytest_report_header(config: pytest.Config) -> str:
    """Say which of both runs."""
    return "tests: all" if config.option.full else "tests: those of the gate (--full runs all)"


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Made, Made]:
    """Refuse a module with a marker that says nothing: so also the workers of xdist say it."""
    made = yield
    for item in made if isinstance(made, list) else ():
        *levels, of_parameters = _levels(item)
        if any(len({mark.name for mark in marks}) > 1 for marks in levels):
            raise collector.CollectError(f"{item.nodeid}: full and gate exclude each other")
        for mark in itertools.chain(*levels, of_parameters):
            if not _has_reason(mark):
                reason = f"the marker {mark.name} has one reason, a text"
                raise collector.CollectError(f"{item.nodeid}: {reason}")
    return made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what only the full proof has, let real hosts fail once, begin with slow files.

    Workers take one file after the other: none is left with a long one in the end.
    """
    chosen, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        nearest = _nearest(item)
        (left if nearest == "full" and not config.option.full else chosen).append(item)
        if nearest == "gate":
            item.keywords[SAYS_WHY] = True
        if item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.flaky(reruns=REPEATS))
    if left:
        config.hook.pytest_deselected(items=left)
    slow = {item.path for item in chosen if any(map(item.get_closest_marker, MARKERS))}
    items[:] = sorted(chosen, key=lambda item: item.path not in slow)


def _levels(item: pytest.Item | pytest.Collector) -> list[list[pytest.Mark]]:
    """Return both markers of what a test stands in, of its function, and of its parameters."""
    *above, own = (_ours(node.own_markers) for node in item.listchain())
    of_parameters = _ours(item.callspec.marks) if hasattr(item, "callspec") else []
    return [*above, own[: len(own) - len(of_parameters)], of_parameters]


def _ours(marks: Iterable[pytest.Mark]) -> list[pytest.Mark]:
    return [mark for mark in marks if mark.name in MARKERS]


def _nearest(item: pytest.Item) -> str:
    return next((marks[-1].name for marks in reversed(_levels(item)) if marks), "")


def _has_reason(mark: pytest.Mark) -> bool:
    match mark.args:
        case (str(reason),):
            return bool(reason.strip()) and not mark.kwargs
        case _:
            return False


class _SlowTests:
    """Collects the tests of the gate that took more than two seconds and do not say why."""

    def __init__(self) -> None:
        self._took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear of each phase of a test, its set-up too; one that is repeated counts once."""
        if report.duration > SLOW_S and SAYS_WHY not in report.keywords:
            longest = max(report.duration, self._took.get(report.nodeid, 0.0))
            self._took[report.nodeid] = longest

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them: a slow machine makes some, so that is told and nothing fails by it."""
        if self._took:
            terminalreporter.section("more than two seconds, and no marker `gate` says why")
        for seconds, nodeid in sorted(
            ((it, name) for name, it in self._took.items()), reverse=True
        ):
            terminalreporter.line(f"{seconds:6.1f} s  {nodeid}")
