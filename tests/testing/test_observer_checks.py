"""The conformance kit for observers: each broken promise is caught by the check named for it."""

# ruff: noqa: D101  # the classes are named after the promise that they break

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pytest
from jsonschema import Draft202012Validator

from cobweb.cli.schema import read_schema
from cobweb.errors import UsageError
from cobweb.testing import NamedCheck, ObserverCase, check_observer, observer_checks

Failing = Callable[[Iterable[NamedCheck]], set[str]]


class Good:
    """Keeps how many events there were."""

    name: ClassVar[str] = "good"

    def open(self, argument: str) -> None:
        if argument == "wrong":
            raise UsageError("wrong is wrong")
        self.seen: list[Mapping[str, Any]] = []

    def take(self, event: Mapping[str, Any]) -> None:
        self.seen.append(event)

    def close(self, result: Mapping[str, Any] | None) -> None:
        self.result = result


class TakesAnything(Good):
    def open(self, argument: str) -> None:
        super().open(argument.replace("wrong", ""))


class BreaksOnAnyRun(Good):
    def take(self, event: Mapping[str, Any]) -> None:
        raise RuntimeError(f"no {event['type']}")


class KnowsOneRun(Good):
    def take(self, event: Mapping[str, Any]) -> None:
        super().take(event)
        if [it["type"] for it in self.seen].count("version") > 1:
            raise RuntimeError("two runs")


class KnowsToday(Good):
    def take(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "tomorrow":
            raise KeyError(event["type"])


class NeedsARun(Good):
    def close(self, result: Mapping[str, Any] | None) -> None:
        assert result is not None or self.seen


class NeedsAnEnd(Good):
    def close(self, result: Mapping[str, Any] | None) -> None:
        assert not self.seen or result is not None


class Nameless:
    def open(self, argument: str) -> None: ...

    def take(self, event: Mapping[str, Any]) -> None: ...

    def close(self, result: Mapping[str, Any] | None) -> None: ...


class Incomplete(Nameless):
    name: ClassVar[str] = "incomplete"

    def close(self) -> None:  # type: ignore[override]  # this is what is tried
        return


RUNS = {"takes_a_run", "takes_two_runs", "takes_unknown_events"}


def test_a_good_observer_passes() -> None:
    case = ObserverCase(make=Good, argument="x", refused="wrong")
    check_observer(case)
    assert len(observer_checks(case)) == 7


@pytest.mark.parametrize(
    ("made", "caught"),
    [
        (TakesAnything, {"refused_argument_is_an_error"}),
        (BreaksOnAnyRun, {*RUNS, "ends_in_the_middle"}),
        (KnowsOneRun, {"takes_two_runs"}),
        (KnowsToday, {"takes_unknown_events"}),
        (NeedsARun, {"ends_without_a_run"}),
        (NeedsAnEnd, {"ends_in_the_middle"}),
        (Nameless, {"satisfies_the_protocol"}),
        (Incomplete, {"satisfies_the_protocol", *RUNS, "ends_without_a_run", "ends_in_the_middle"}),
    ],
)
def test_a_broken_promise_is_caught(made: Any, caught: set[str], failing: Failing) -> None:
    refused = "wrong" if issubclass(made, Good) else None
    assert failing(observer_checks(ObserverCase(make=made, refused=refused))) == caught


def test_the_kit_sends_events_as_they_are() -> None:
    made: list[Good] = []

    def make() -> Good:
        made.append(Good())
        return made[-1]

    check_observer(ObserverCase(make=make))
    schema = Draft202012Validator(read_schema("events"))
    (events,) = [it.seen for it in made if getattr(it, "seen", []) and len(it.seen) == 6][:1]
    for event in events:
        schema.validate(event)
