"""Conformance checks for COB types, made of Ansible tasks or of Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cobweb.model import (
    OUTDATED,
    UNKNOWN,
    Action,
    CobType,
    Host,
    Job,
    JobKind,
    Nothing,
    Outcome,
    PythonAction,
    Report,
    Role,
    State,
    Tasks,
    Transition,
    cob_id,
    connection_problem,
    connection_variables,
    merged_results,
    results_problem,
)
from cobweb.plugin import CobContext, Executor, Kind, RegisteredType, answered
from cobweb.plugin._contracts import cob_type_problems, item_problems, schema_problems
from cobweb.testing._checks import NamedCheck, expect, named, run_all

BROKEN = "broken"
"""What a check finds, by convention, where nothing works; `OUTDATED` is other content that does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeCase:
    """What the kit needs to try a COB type; without `spec` only its matrix and schema are tried.

    `spec` is one that the type accepts, and `changed_spec` another for the same object. A type all
    of whose actions are Python is carried out for real, from its `remove` state and back to it; so
    is one that is made of tasks, if there is an `executor`, which is open and knows `host`; cases
    with the same executor share the `numbers` of their jobs.
    """

    make: Callable[[], RegisteredType]
    spec: Mapping[str, Any] | None = None
    changed_spec: Mapping[str, Any] | None = None
    host: Host = field(default_factory=lambda: Host(name="host"))
    site_dir: Path = Path()
    executor: Executor | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)


def type_checks(case: TypeCase) -> list[NamedCheck]:
    """Return all checks that apply to the case."""
    functions = [
        satisfies_the_contract,
        says_the_same_twice,
        preferred_and_remove_can_be_reached,
        serving_makes_sense,
        task_files_exist,
        spec_schema_is_valid,
    ]
    if case.spec is not None:
        functions.append(spec_is_accepted)
    if case.spec is not None and (case.executor or _is_all_python(case.make().cob_type())):
        functions += [check_changes_nothing, every_transition_arrives]
        if case.changed_spec is not None:
            functions.append(changed_spec_is_found_and_applied)
    return named(functions, case)


def check_type(case: TypeCase) -> None:
    """Run all checks that apply; AssertionError names every one that fails."""
    run_all(type_checks(case))


def satisfies_the_contract(case: TypeCase) -> None:
    """The class has a name and cob_type(), whose states and matrix fit together."""
    instance = case.make()
    problems = item_problems(Kind.TYPES, type(instance))
    problems += cob_type_problems(instance.cob_type(), instance)
    expect(not problems, "; ".join(problems))


def says_the_same_twice(case: TypeCase) -> None:
    """cob_type() is the same for every instance and call."""
    expect(case.make().cob_type() == case.make().cob_type(), "cob_type() differs between two calls")


def preferred_and_remove_can_be_reached(case: TypeCase) -> None:
    """From every state there is a way to the preferred and to the remove state."""
    cob_type = case.make().cob_type()
    for state in cob_type.states:
        for goal in (cob_type.preferred, cob_type.remove):
            expect(cob_type.way(state, goal) is not None, f"no way leads from {state} to {goal}")


def serving_makes_sense(case: TypeCase) -> None:
    """The preferred state serves, the `remove` state does not, and only what serves is interrupted.

    A state `broken` is left for wherever `outdated` is, and no transition leads to it.
    """
    cob_type = case.make().cob_type()
    strange = sorted(set(cob_type.serving) - set(cob_type.states))
    expect(not strange, f"`serving` names {', '.join(strange)}, which are no states of the type")
    expect(cob_type.serves(cob_type.preferred), f"it does not serve in {cob_type.preferred}")
    if cob_type.remove != cob_type.preferred:
        expect(not cob_type.serves(cob_type.remove), f"it serves in {cob_type.remove}")
    for step in cob_type.transitions:
        both = cob_type.serves(step.source) and cob_type.serves(step.dest)
        expect(both or not step.interrupts, f"{step} interrupts what does not serve anyway")
        expect(step.dest != BROKEN, f"{step} leads to {BROKEN}, which only a check can find")
    if BROKEN in cob_type.states:
        expect(not cob_type.serves(BROKEN), f"it serves in {BROKEN}")
        ways = {step.dest for step in cob_type.transitions if step.source == BROKEN}
        others = {step.dest for step in cob_type.transitions if step.source == OUTDATED}
        missing = ", ".join(sorted(others - ways))
        expect(not missing, f"no transition leads from {BROKEN} to {missing}")


def task_files_exist(case: TypeCase) -> None:
    """Every task file that an action names is there, by an absolute path."""
    for action in case.make().cob_type().actions():
        if isinstance(action, Tasks):
            path = Path(action.path)
            expect(path.is_absolute(), f"{path} is not absolute")
            expect(path.is_file(), f"there is no task file {path}")
        elif isinstance(action, Role):
            expect(action.name, "a role has no name")


def spec_schema_is_valid(case: TypeCase) -> None:
    """The schema of `spec` is a JSON Schema (draft 2020-12) of an object, or there is none."""
    schema = case.make().cob_type().spec_schema
    if schema is None:
        return
    problems = schema_problems(schema)
    expect(not problems, f"the spec's schema is no JSON Schema {''.join(problems)}")
    expect(schema.get("type") == "object", "the spec's schema does not say `type: object`")


def spec_is_accepted(case: TypeCase) -> None:
    """The schema accepts the specs of the case."""
    from jsonschema import Draft202012Validator

    schema = case.make().cob_type().spec_schema
    for spec in (case.spec, case.changed_spec):
        if schema is not None and spec is not None:
            errors = [error.message for error in Draft202012Validator(schema).iter_errors(spec)]
            expect(not errors, f"{spec} is refused: {'; '.join(errors)}")


def check_changes_nothing(case: TypeCase) -> None:
    """The check finds a state of the type, and again the same."""
    live = _Live(case)
    first, second = live.check(), live.check()
    expect(first in live.type.states, f"check found {first!r}, which is no state of the type")
    expect(first == second, f"check found {first}, then {second}")


def every_transition_arrives(case: TypeCase) -> None:
    """After each transition that can be reached, the check finds its state."""
    live = _Live(case)
    live.move(live.type.remove)
    for step in live.type.transitions:
        if live.type.way(live.state, step.source) is not None:
            live.move(step.source)
            live.run(step)
    live.move(live.type.remove)


def changed_spec_is_found_and_applied(case: TypeCase) -> None:
    """In the preferred state, a changed spec is found by the check, and a way applies it.

    Where the type serves while it is `outdated`, a change alone does not end that.
    """
    live = _Live(case)
    live.move(live.type.preferred)
    live.spec = case.changed_spec or {}
    found = live.check()
    expect(found != live.type.preferred, f"check found {found} although the spec has changed")
    serves = live.type.serves(found) or OUTDATED not in live.type.serving
    expect(
        serves, f"check found {found}, in which it does not serve, although only the spec differs"
    )
    live.state = found
    live.move(live.type.preferred)
    live.move(live.type.remove)


class _Live:
    """One object, moved along its matrix as the runtime would."""

    def __init__(self, case: TypeCase) -> None:
        self.instance: Any = case.make()
        self.type: CobType = self.instance.cob_type()
        self.spec: Mapping[str, Any] = case.spec or {}
        self.applied: Mapping[str, Any] | None = None
        self.results: dict[str, Any] = {}
        self.case = case
        self.state: State = UNKNOWN
        self.state = self.check()

    def check(self) -> State:
        """Return what the type's check finds."""
        return self._call(self.type.check, JobKind.CHECK)

    def move(self, goal: State) -> None:
        """Go the shortest way to `goal`."""
        for step in self.type.way(self.state, goal) or ():
            self.run(step)

    def run(self, step: Transition) -> None:
        """Carry out one transition and check that it has arrived."""
        self._call(step.action, JobKind.TRANSITION, step)
        self.applied = self.spec
        self.state = step.dest
        found = self.check()
        expect(found == step.dest, f"after {step} the check found {found}")

    def _call(self, action: Action, kind: JobKind, step: Transition | None = None) -> State:
        """Carry out a check or a transition, keep what it hands back, and return its state."""
        if isinstance(action, Nothing):
            return ""
        job = self._job(action, kind, step)
        report = self._python(job) if isinstance(action, PythonAction) else self._submit(job)
        what = f"{job.source} -> {job.dest}" if job.dest else "check"
        expect(report.outcome is Outcome.OK, f"{what}: {report.outcome}: {report.message}")
        problem = results_problem(report.results) or connection_problem(
            report.results, self.type.opens(action)
        )
        expect(not problem, f"{what}: {problem}")
        self.results = merged_results(self.results, report.results)
        return report.state

    def _job(self, action: Action, kind: JobKind, step: Transition | None) -> Job:
        host = self.case.host.name
        cob = {
            "id": cob_id(host, "conformance"),
            "name": "conformance",
            "host": host,
            "type": self.type.name,
            "spec": self.spec,
            "applied": self.applied,
            "recorded": None if self.state == UNKNOWN else self.state,
            "reached": "",
            "renew": False,
            "state": step.source if step else UNKNOWN,
            "target": step.dest if step else self.type.preferred,
            "generation": 1,
            "results": dict(self.results),
        }
        return Job(
            number=next(self.case.numbers),
            kind=kind,
            host=host,
            cob=cob_id(host, "conformance"),
            type_name=self.type.name,
            action=action,
            source=step.source if step else "",
            dest=step.dest if step else "",
            cob_vars=cob,
            host_vars=connection_variables(self.results),
        )

    def _python(self, job: Job) -> Report:
        assert isinstance(job.action, PythonAction)
        host = self.case.host
        host = replace(host, variables={**host.variables, **job.host_vars})
        context = CobContext(cob=job.cob_vars, host=host, site_dir=self.case.site_dir)
        return answered(job, getattr(self.instance, job.action.method)(context))

    def _submit(self, job: Job) -> Report:
        assert self.case.executor is not None, f"{self.type.name} needs an executor"
        self.case.executor.submit(job)
        (report,) = self.case.executor.wait(None)
        return report


def _is_all_python(cob_type: CobType) -> bool:
    return all(isinstance(action, PythonAction) for action in cob_type.actions())
