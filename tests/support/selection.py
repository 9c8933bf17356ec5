"""Which tests the gate has, and which only the full proof: pytest's plugin for two markers.

`full("why")` leaves a test to the full proof (`--full`: `make test-full`, `make test-area`).
`gate("why")` keeps a test in the gate, though it takes more than two seconds or stands in a module
that is `full`. The marker that is nearest to a test decides, and says its reason; a test with
neither is in the gate and takes less than two seconds. The summary names those that took more.

A test on hosts made of namespaces (`netns`) may fail once and is then repeated: pytest's summary
names it under RERUN. No other test is.
"""

from __future__ import annotations

import pytest

__all__: list[str] = []

MARKERS = ("full", "gate")
SLOW_S = 2.0
REPEATS = 1


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what only the full proof has, let real hosts fail once, begin with slow files.

    Workers take one file after the other: none is left with a long one in the end.
    """
    chosen, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        is_chosen = not _is_full(item) or config.option.full
        (chosen if is_chosen else left).append(item)
        if item.get_closest_marker("netns"):
            item.add_marker(pytest.mark.flaky(reruns=REPEATS))
    if left:
        config.hook.pytest_deselected(items=left)
    slow = {item.path for item in chosen if any(map(item.get_closest_marker, MARKERS))}
    items[:] = sorted(chosen, key=lambda item: item.path not in slow)


def _is_full(item: pytest.Item) -> bool:
    """Say whether the nearest of both markers leaves a test to the full proof."""
    nearest = _nearest(item)
    if nearest is None:
        return False
    if len(nearest.args) != 1 or nearest.kwargs or not str(nearest.args[0]).strip():
        raise pytest.UsageError(f"{item.nodeid}: the marker {nearest.name} has one reason, a text")
    return nearest.name == "full"


def _nearest(item: pytest.Item) -> pytest.Mark | None:
    for node in reversed(item.listchain()):
        marks = [mark for mark in node.own_markers if mark.name in MARKERS]
        if marks:
            return marks[-1]  # those of parameters come after those of the function
    return None


class _SlowTests:
    """Collects the tests of the gate that took more than two seconds and do not say why."""

    def __init__(self) -> None:
        self._found: list[tuple[float, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Hear of each phase of a test."""
        if report.when == "call" and report.duration > SLOW_S and "gate" not in report.keywords:
            self._found.append((report.duration, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them: a slow machine makes some, so that is told and nothing fails by it."""
        if self._found:
            terminalreporter.section("more than two seconds, and no marker `gate` says why")
        for seconds, nodeid in sorted(self._found, reverse=True):
            terminalreporter.line(f"{seconds:6.1f} s  {nodeid}")
