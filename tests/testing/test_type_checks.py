"""The conformance kit for types: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb.model import (
    CobType,
    PythonAction,
    State,
    Tasks,
    Transition,
)
from cobweb.plugin import CobContext, Found
from cobweb.testing import (
    NamedCheck,
    TypeCase,
    check_type,
    type_checks,
)

Failing = Callable[[Iterable[NamedCheck]], set[str]]

SPEC = {"value": "one"}


def _matrix(**changes: Any) -> CobType:
    action = {m: PythonAction(type_name="value", method=m) for m in ("check", "write", "remove")}
    fields: dict[str, Any] = {
        "name": "value",
        "states": ("outdated", "down", "up"),
        "preferred": "up",
        "remove": "down",
        "check": action["check"],
        "transitions": (
            Transition(source="down", dest="up", action=action["write"]),
            Transition(source="up", dest="down", action=action["remove"]),
            Transition(source="outdated", dest="up", action=action["write"]),
        ),
        "spec_schema": {"type": "object", "properties": {"value": {"type": "string"}}},
    }
    return CobType(**(fields | changes))


class Value:
    """A type whose object is a value in memory."""

    name: ClassVar[str] = "value"
    store: ClassVar[dict[str, str]] = {}
    matrix: ClassVar[CobType] = _matrix()

    def cob_type(self) -> CobType:
        return self.matrix

    def check(self, context: CobContext) -> State:
        found = self.store.get(context.cob["id"])
        if found is None:
            return "down"
        return "up" if found == context.cob["spec"]["value"] else "outdated"

    def write(self, context: CobContext) -> None:
        self.store[context.cob["id"]] = context.cob["spec"]["value"]

    def remove(self, context: CobContext) -> None:
        self.store.pop(context.cob["id"], None)


class HandsBack(Value):
    """Its check finds the value where the transition said that it put it."""

    def check(self, context: CobContext) -> Any:
        there = context.cob["results"].get("where") == context.host.variables.get("ansible_user")
        state = super().check(context) if there else "outdated"
        return Found(state=state, message="told", results={"seen": state})

    def write(self, context: CobContext) -> Any:
        super().write(context)
        return {"where": "here", "ansible_user": "here"}

    def remove(self, context: CobContext) -> Any:
        super().remove(context)
        return {"where": None, "ansible_user": None}


class Believes(Value):
    """It cannot look, and goes by the last certain state and by what was applied."""

    def check(self, context: CobContext) -> State:
        recorded = context.cob["recorded"] or "down"
        is_other = recorded == "up" and context.cob["applied"] != context.cob["spec"]
        return "outdated" if is_other else recorded


class HandsBackNoData(Value):
    def write(self, context: CobContext) -> Any:
        super().write(context)
        return {"where": object()}


class WritesNothing(Value):
    def write(self, context: CobContext) -> None:
        """Forget it."""


class CheckRemoves(Value):
    def check(self, context: CobContext) -> State:
        found = super().check(context)
        self.store[context.cob["id"]] = "one" if found == "down" else "two"
        return found


class FindsForeign(Value):
    def check(self, context: CobContext) -> State:
        return "perhaps" if super().check(context) == "down" else "up"


class SeesNoChange(Value):
    def check(self, context: CobContext) -> State:
        return "up" if super().check(context) == "outdated" else super().check(context)


class NoWayDown(Value):
    matrix = _matrix(transitions=_matrix().transitions[:1])


def _serving(*serving: str, interrupts: str = "") -> CobType:
    steps = (replace(it, interrupts=str(it) == interrupts) for it in _matrix().transitions)
    return _matrix(serving=serving, transitions=tuple(steps))


def _broken(*ways: tuple[str, str], serving: tuple[str, ...] = ()) -> CobType:
    action = PythonAction(type_name="value", method="write")
    steps = tuple(Transition(source=source, dest=dest, action=action) for source, dest in ways)
    return _matrix(
        states=("outdated", "broken", "down", "up"),
        transitions=(*_matrix().transitions, *steps),
        serving=serving,
    )


class ServesNowhere(Value):
    matrix = _serving("outdated")


class ServesElsewhere(Value):
    matrix = _serving("up", "running")


class ServesRemoved(Value):
    matrix = _serving("up", "down")


class InterruptsTheEnd(Value):
    matrix = _serving("up", "outdated", interrupts="up -> down")


class BreaksItself(Value):
    matrix = _broken(("broken", "up"), ("up", "broken"))


class BrokenForGood(Value):
    matrix = _broken(("broken", "down"))


class BrokenServes(Value):
    matrix = _broken(("broken", "up"), serving=("up", "broken"))


class GoneWhenChanged(Value):
    matrix = _serving("up", "outdated")

    def check(self, context: CobContext) -> State:
        return "down" if super().check(context) == "outdated" else super().check(context)


class BadSchema(Value):
    matrix = _matrix(spec_schema={"type": "objekt"})


class ListSchema(Value):
    matrix = _matrix(spec_schema={"type": "array"})


class NarrowSchema(Value):
    matrix = _matrix(spec_schema={"type": "object", "additionalProperties": False})


class NoTaskFile(Value):
    matrix = _matrix(check=Tasks(path="/no/such/check.yml"))


class RelativeTaskFile(Value):
    matrix = _matrix(check=Tasks(path="check.yml"))


class Restless(Value):
    calls: ClassVar[list[int]] = []

    def cob_type(self) -> CobType:
        self.calls.append(1)
        return replace(self.matrix, check_timeout_s=float(len(self.calls)))


class LacksAMethod(Value):
    write = None  # type: ignore[assignment]


def _type_case(make: Callable[[], Value]) -> TypeCase:
    Value.store.clear()
    return TypeCase(make=make, spec=SPEC, changed_spec={"value": "two"})


def test_a_good_type_passes_all_checks(failing: Failing) -> None:
    checks = type_checks(_type_case(Value))
    assert len(checks) == 10
    assert not failing(checks)
    assert not Value.store
    check_type(_type_case(Value))


def test_what_a_type_hands_back_it_is_given_again() -> None:
    check_type(_type_case(HandsBack))


def test_a_type_that_believes_what_is_recorded_passes() -> None:
    check_type(_type_case(Believes))


@pytest.mark.parametrize(
    ("make", "caught"),
    [
        (WritesNothing, "every_transition_arrives"),
        (HandsBackNoData, "every_transition_arrives"),
        (CheckRemoves, "check_changes_nothing"),
        (FindsForeign, "check_changes_nothing"),
        (SeesNoChange, "changed_spec_is_found_and_applied"),
        (GoneWhenChanged, "changed_spec_is_found_and_applied"),
        (ServesNowhere, "serving_makes_sense"),
        (ServesElsewhere, "serving_makes_sense"),
        (ServesRemoved, "serving_makes_sense"),
        (InterruptsTheEnd, "serving_makes_sense"),
        (BreaksItself, "serving_makes_sense"),
        (BrokenForGood, "serving_makes_sense"),
        (BrokenServes, "serving_makes_sense"),
        (NoWayDown, "preferred_and_remove_can_be_reached"),
        (BadSchema, "spec_schema_is_valid"),
        (ListSchema, "spec_schema_is_valid"),
        (NarrowSchema, "spec_is_accepted"),
        (NoTaskFile, "task_files_exist"),
        (RelativeTaskFile, "task_files_exist"),
        (Restless, "says_the_same_twice"),
        (LacksAMethod, "satisfies_the_contract"),
    ],
)
def test_a_type_that_breaks_a_promise_is_caught(make: type[Value], caught: str) -> None:
    (check,) = [c for c in type_checks(_type_case(make)) if c.name == caught]
    with pytest.raises(AssertionError) as error:
        check()
    assert str(error.value)


def test_a_type_that_serves_while_it_is_outdated_passes() -> None:
    class Restarts(Value):
        matrix = _serving("up", "outdated", interrupts="outdated -> up")

    check_type(_type_case(Restarts))


def test_a_type_made_of_tasks_is_tried_without_a_host(tmp_path: Path) -> None:
    tasks = tmp_path / "check.yml"
    tasks.write_text("[]\n")
    matrix = replace(Value.matrix, check=Tasks(path=str(tasks)))

    class Mixed(Value):
        def cob_type(self) -> CobType:
            return matrix

    checks = type_checks(_type_case(Mixed))
    assert "every_transition_arrives" not in {check.name for check in checks}
    check_type(_type_case(Mixed))
