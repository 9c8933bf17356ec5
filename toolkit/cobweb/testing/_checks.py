"""The parts that all conformance checks share: named checks, claims and a bound on time."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

BOUND_S = 60.0
"""How long one check may take before it is said to hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheck:
    """One claim about a plugin; calling it raises AssertionError with a clear text if it is wrong.

    Made for `@pytest.mark.parametrize("check", executor_checks(case), ids=str)`.
    """

    name: str
    claim: str
    run: Callable[[], None]

    def __call__(self) -> None:
        self.run()

    def __str__(self) -> str:
        return self.name


def expect(condition: object, text: str) -> None:
    """Raise AssertionError with `text` unless `condition` is true; works under `python -O` too."""
    if not condition:
        raise AssertionError(text)


def named(functions: Iterable[Callable[[Any], None]], case: object) -> list[NamedCheck]:
    """Return the checks for one case; the claim is the first line of each function's docstring."""
    return [
        NamedCheck(
            name=function.__name__,
            claim=(inspect.getdoc(function) or "").partition("\n")[0],
            run=partial(function, case),
        )
        for function in functions
    ]


def run_all(checks: Iterable[NamedCheck]) -> None:
    """Run all checks; AssertionError with one line for each that fails."""
    failures = []
    for check in checks:
        try:
            check()
        except AssertionError as error:
            failures.append(f"{check.name}: {error}")
        except Exception as error:  # noqa: BLE001  # the border to the code under test
            failures.append(f"{check.name}: raised {error!r}")
    expect(not failures, "\n".join(failures))


def bounded(what: str, function: Callable[[], T], bound_s: float = BOUND_S) -> T:
    """Return `function()`, run in a thread of its own; AssertionError if it hangs or raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001  # the border to the code under test
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(bound_s)
    expect(not thread.is_alive(), f"{what} did not end within {bound_s:g} s")
    if errors and isinstance(errors[0], AssertionError):
        raise errors[0]
    if errors:
        raise AssertionError(f"{what} let an exception escape: {errors[0]!r}") from errors[0]
    return results[0]
