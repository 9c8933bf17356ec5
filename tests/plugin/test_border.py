"""What a plugin raises later in life is a PluginError that names it; what it means passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from cobweb.errors import CobwebError, PluginError
from cobweb.model import Graph, Job, JobKind, Nothing, TaskGraphBuilder, cob_id
from cobweb.plugin import (
    ActionAdapter,
    Adapter,
    Executor,
    ExecutorSetting,
    MarkingExecutor,
    OrderedAdapter,
    Planner,
    Plugins,
    SiteFiles,
    Solver,
    TaskPlanner,
    UnvaultingAdapter,
    load_plugins,
)

Install = Callable[..., Path]
SOURCE = """
    from cobweb.errors import CobwebError
    from cobweb.model import Host, Nothing

    ERROR = {error}

    def fail(*args, **keywords):
        raise ERROR

    class E:
        name = "bad"
        actions = frozenset({{Nothing}})
        open = submit = wait = wake = now = close = fail

    class S:
        name = "bad"
        solve = fail

    class P:
        name = "bad"
        stages = priorities = schedule = fail

    class A:
        name = "bad"
        reads = fail
        def hosts(self, source):
            yield Host(name="first")
            raise ERROR

    @hookimpl
    def cobweb_register_executors(): return [E]
    @hookimpl
    def cobweb_register_solvers(): return [S]
    @hookimpl
    def cobweb_register_planners(): return [P]
    @hookimpl
    def cobweb_register_adapters(): return [A]
"""
GRAPH = Graph(cobs={})
TASKS = TaskGraphBuilder([]).build()
SETTING = ExecutorSetting(hosts={}, site_dir=Path(), work_dir=Path(), parallel=1, timeout_s=1)
JOB = Job(
    number=1,
    kind=JobKind.CHECK,
    cob=cob_id("h", "c"),
    host="h",
    type_name="t",
    action=Nothing(),
    cob_vars={},
)
CALLS: dict[str, Callable[[Plugins], Any]] = {
    "executor bad: open()": lambda p: p.executors["bad"]().open(SETTING),
    "executor bad: submit()": lambda p: p.executors["bad"]().submit(JOB),
    "executor bad: wait()": lambda p: p.executors["bad"]().wait(0),
    "executor bad: wake()": lambda p: p.executors["bad"]().wake(),
    "executor bad: now()": lambda p: p.executors["bad"]().now(),
    "executor bad: close()": lambda p: p.executors["bad"]().close(kill=True),
    "solver bad: solve()": lambda p: p.solvers["bad"].solve({}, {}),
    "planner bad: stages()": lambda p: p.planners["bad"].stages(GRAPH, ()),
    "planner bad: priorities()": lambda p: p.planners["bad"].priorities(GRAPH),
    "planner bad: schedule()": lambda p: p.task_planners["bad"].schedule(TASKS),
    "adapter bad: reads()": lambda p: p.adapters["bad"].reads(Path("x")),
    "adapter bad: hosts()": lambda p: p.adapters["bad"].hosts(Path("x")),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ["ValueError('boom')", "SystemExit('boom')"])
def test_a_mistake_of_the_plugin_names_it(call: str, error: str, install: Install) -> None:
    install("broken", SOURCE.format(error=error))
    plugins = load_plugins()
    with pytest.raises(PluginError) as caught:
        CALLS[call](plugins)
    assert caught.value.plugin == "broken"
    kind = error.partition("(")[0]
    assert caught.value.message.startswith(f"plugin broken: {call} raised {kind}: boom at ")
    assert caught.value.hint == "this is a bug of the plugin broken"


@pytest.mark.parametrize("call", CALLS)
def test_what_a_plugin_says_on_purpose_passes(call: str, install: Install) -> None:
    install("honest", SOURCE.format(error="CobwebError('no hosts', hint='look')"))
    plugins = load_plugins()
    with pytest.raises(CobwebError) as caught:
        CALLS[call](plugins)
    assert type(caught.value) is CobwebError
    assert str(caught.value) == "no hosts (look)"


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_passes(call: str, install: Install) -> None:
    install("interrupted", SOURCE.format(error="KeyboardInterrupt()"))
    plugins = load_plugins()
    with pytest.raises(KeyboardInterrupt):
        CALLS[call](plugins)


def test_an_executor_that_cannot_be_made_is_a_mistake_too(install: Install) -> None:
    source = SOURCE.format(error="ValueError('boom')") + "    E.__init__ = fail\n"
    install("unmade", source)
    plugins = load_plugins()
    with pytest.raises(PluginError, match=r"plugin unmade: executor bad: __init__\(\) raised"):
        plugins.executors["bad"]()


RETURNS = """
    from cobweb.model import Nothing, Outcome, Report

    class E:
        name = "odd"
        actions = frozenset({Nothing})
        def open(self, setting): pass
        def submit(self, job): pass
        def wait(self, timeout_s): return REPORTS
        def wake(self): pass
        def now(self): return 0.0
        def close(self, *, kill=False): pass

    class S:
        name = "odd"
        def solve(self, template, constraints): return []

    class P:
        name = "odd"
        def stages(self, graph, steps): return ()
        def priorities(self, graph): pass
        def schedule(self, tasks, workers=None): return {}

    class A:
        name = "odd"
        def reads(self, source): return 1
        def hosts(self, source): return ["h1"]

    @hookimpl
    def cobweb_register_executors(): return [E]
    @hookimpl
    def cobweb_register_solvers(): return [S]
    @hookimpl
    def cobweb_register_planners(): return [P]
    @hookimpl
    def cobweb_register_adapters(): return [A]
"""
ODD: dict[str, tuple[Callable[[Plugins], Any], str]] = {
    "solve": (lambda p: p.solvers["odd"].solve({}, {}), "returned list, not Mapping"),
    "stages": (lambda p: p.planners["odd"].stages(GRAPH, ()), "returned tuple, not Stages"),
    "priorities": (lambda p: p.planners["odd"].priorities(GRAPH), "returned NoneType, not Mapping"),
    "schedule": (
        lambda p: p.task_planners["odd"].schedule(TASKS),
        "returned dict, not Schedule",
    ),
    "hosts": (lambda p: p.adapters["odd"].hosts(Path("x")), "returned str, not Host"),
}


@pytest.mark.parametrize("call", ODD)
def test_a_result_of_another_type_is_the_plugins_mistake(call: str, install: Install) -> None:
    install("odd", RETURNS)
    function, text = ODD[call]
    with pytest.raises(PluginError, match=rf"plugin odd: .*{call}\(\) {text}"):
        function(load_plugins())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("[]", "returned list, not Mapping"),
        ("{'a': 'clear'}", "returned a value that is not vaulted"),
        ("{'a': [{'b': 5}]}", "returned a value that is not vaulted"),
        ("{'a': {'__ansible_vault': 'clear'}}", "returned a value that is not vaulted"),
        ("{'a': {1: None}}", "returned int, not str"),
    ],
)
def test_no_value_of_a_vaulted_file_passes_in_the_clear(
    answer: str, text: str, install: Install
) -> None:
    opener = f"{RETURNS.rstrip()}\n    A.unvaulted = lambda self, path, site_dir: {answer}\n"
    install("odd", opener)
    adapter = load_plugins().adapters["odd"]
    assert isinstance(adapter, UnvaultingAdapter)
    with pytest.raises(PluginError, match=rf"adapter odd: unvaulted\(\) {text}"):
        adapter.unvaulted(Path("x"), Path())


def test_vaulted_values_and_what_tells_nothing_pass(install: Install) -> None:
    answer = {"a": [{"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n61"}, True, None], "b": {}}
    opener = f"{RETURNS.rstrip()}\n    A.unvaulted = lambda self, path, site_dir: {answer}\n"
    install("odd", opener)
    adapter = load_plugins().adapters["odd"]
    assert isinstance(adapter, UnvaultingAdapter)
    assert adapter.unvaulted(Path("x"), Path()) == answer


@pytest.mark.parametrize("answer", ["None", "5", "['db']", "{'db': None}", "{'db': 5}"])
def test_groups_are_hosts_by_name(answer: str, install: Install) -> None:
    install("odd", f"{RETURNS.rstrip()}\n    A.groups = lambda self, source, before: {answer}\n")
    adapter = load_plugins().adapters["odd"]
    assert isinstance(adapter, OrderedAdapter)
    with pytest.raises(PluginError, match=r"adapter odd: groups\(\) raised"):
        adapter.groups(Path("x"), ())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("None", "raised TypeError"),
        ("[[], [], []]", "raised ValueError"),
        ("[['x'], []]", "returned str, not Finding"),
        ("[[], (None for _ in 'x')]", "returned NoneType, not Finding"),
    ],
)
def test_what_is_said_of_actions_are_findings(answer: str, text: str, install: Install) -> None:
    install("odd", f"{RETURNS.rstrip()}\n    A.look_at = lambda self, uses, files: {answer}\n")
    adapter = load_plugins().adapters["odd"]
    assert isinstance(adapter, ActionAdapter)
    with pytest.raises(PluginError, match=rf"adapter odd: look_at\(\) {text}"):
        adapter.look_at((), cast("SiteFiles", None))


def test_reads_is_true_or_false(install: Install) -> None:
    install("odd", RETURNS)
    assert load_plugins().adapters["odd"].reads(Path("x")) is True


@pytest.mark.parametrize(
    ("reports", "text"),
    [
        ("None", "raised TypeError: "),
        ("['done']", "returned str, not Report"),
        (
            "[Report(number=7, outcome=Outcome.OK)]",
            "reported job 7, which is not in flight",
        ),
        (
            "[Report(number=1, outcome=Outcome.OK)] * 2",
            "reported job 1, which is not in flight",
        ),
    ],
)
def test_a_wrong_report_is_the_plugins_mistake(reports: str, text: str, install: Install) -> None:
    install("odd", RETURNS.replace("REPORTS", reports))
    executor = load_plugins().executors["odd"]()
    executor.submit(JOB)
    with pytest.raises(PluginError, match=rf"executor odd: wait\(\) {text}"):
        executor.wait(None)


def test_what_goes_wrong_with_marks_is_the_plugins_mistake(install: Install) -> None:
    marking = SOURCE.replace("open = submit", "unmark = open = submit")
    install("marking", marking.format(error="ValueError('boom')"))
    executor = load_plugins().executors["bad"]()
    assert isinstance(executor, MarkingExecutor)
    with pytest.raises(PluginError, match=r"executor bad: unmark\(\) raised ValueError: boom"):
        executor.unmark(["h1"])
    assert not isinstance(load_plugins().executors["simulate"](), MarkingExecutor)


def test_guarded_ones_satisfy_the_protocols(install: Install) -> None:
    install("guarded", SOURCE.format(error="ValueError('boom')"))
    plugins = load_plugins()
    assert isinstance(plugins.executors["bad"](), Executor)
    assert isinstance(plugins.solvers["bad"], Solver)
    assert isinstance(plugins.planners["bad"], Planner)
    assert isinstance(plugins.task_planners["bad"], TaskPlanner)
    assert isinstance(plugins.adapters["bad"], Adapter)


def test_a_guarded_executor_hands_everything_on() -> None:
    made = load_plugins().executors["simulate"]()
    made.open(SETTING)
    made.submit(JOB)
    made.wake()
    (report,) = made.wait(None)
    assert report.number == 1
    assert made.now() == 0.0
    made.close()
