"""Fakes and the conformance kit for plugins; shipped, so that a plugin's own CI can run them.

For each kind there is a case (what the kit needs to try a plugin), a list of named checks, and a
function that runs them all. With pytest:

    @pytest.mark.parametrize("check", executor_checks(CASE), ids=str)
    def test_executor(check: NamedCheck) -> None:
        check()
"""

from __future__ import annotations

from cobweb.testing._adapter_checks import AdapterCase, adapter_checks, check_adapter
from cobweb.testing._checks import Kit, NamedCheck, bounded, expect, plain
from cobweb.testing._executor_checks import ExecutorCase, check_executor, executor_checks
from cobweb.testing._fake_executor import Answer, FakeExecutor
from cobweb.testing._generator_checks import GeneratorCase, check_generator, generator_checks
from cobweb.testing._observer_checks import ObserverCase, check_observer, observer_checks
from cobweb.testing._planner_checks import PlannerCase, check_planner, planner_checks
from cobweb.testing._provider_checks import ProviderCase, check_provider, provider_checks
from cobweb.testing._solver_checks import SolverCase, check_solver, solver_checks
from cobweb.testing._task_planner_checks import (
    TaskPlannerCase,
    check_task_planner,
    task_planner_checks,
)
from cobweb.testing._transport_checks import TransportCase, check_transport, transport_checks
from cobweb.testing._type_checks import TypeCase, check_type, type_checks

__all__ = [
    "AdapterCase",
    "Answer",
    "ExecutorCase",
    "FakeExecutor",
    "GeneratorCase",
    "Kit",
    "NamedCheck",
    "ObserverCase",
    "PlannerCase",
    "ProviderCase",
    "SolverCase",
    "TaskPlannerCase",
    "TransportCase",
    "TypeCase",
    "adapter_checks",
    "bounded",
    "check_adapter",
    "check_executor",
    "check_generator",
    "check_observer",
    "check_planner",
    "check_provider",
    "check_solver",
    "check_task_planner",
    "check_transport",
    "check_type",
    "executor_checks",
    "expect",
    "generator_checks",
    "observer_checks",
    "plain",
    "planner_checks",
    "provider_checks",
    "solver_checks",
    "task_planner_checks",
    "transport_checks",
    "type_checks",
]
