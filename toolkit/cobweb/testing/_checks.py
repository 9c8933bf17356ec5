"""The parts that all conformance kits share: named checks, claims and a bound on time."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from cobweb.errors import CobwebError
from cobweb.plugin import Kind
from cobweb.plugin._contracts import item_problems

CaseT = TypeVar("CaseT")
ErrorT = TypeVar("ErrorT", bound=CobwebError)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit(Generic[CaseT]):
    """The checks of one kind of plugin, which are functions of a case.

    `always` are made of each case, `given` only of one whose field of this name is neither None nor
    (); these get the value of the field as well.
    """

    always: Sequence[Callable[[CaseT], None]]
    given: Mapping[str, Sequence[Callable[..., None]]] = field(default_factory=dict)

    def checks(self, case: CaseT) -> list[NamedCheck]:
        """Return all checks that apply to the case."""
        checks = named(self.always, case)
        for name, functions in self.given.items():
            if (value := getattr(case, name)) not in (None, ()):
                checks += named(functions, case, value)
        return checks

    def check(self, case: CaseT) -> None:
        """Run all checks that apply; AssertionError names every one that fails."""
        run_all(self.checks(case))


def satisfies(kind: Kind) -> Callable[[Any], None]:
    """Return the check that a plugin, which `make` of its case makes, is of a kind."""

    def satisfies_the_protocol(case: Any) -> None:
        """The class has a name, and what else the protocol of its kind asks for."""
        problems = item_problems(kind, type(case.make()))
        expect(not problems, "; ".join(problems))

    return satisfies_the_protocol


def expect(condition: object, text: str) -> None:
    """Raise AssertionError with `text` unless `condition` is true; works under `python -O` too."""
    if not condition:
        raise AssertionError(text)


def plain(what: str, data: Any) -> Any:
    """Return data as it is once JSON has it written and read; AssertionError if it has no JSON."""
    try:
        return json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} is not plain JSON: {error}") from error


def refusal(kind: type[ErrorT], call: Callable[[], object]) -> ErrorT:
    """Return the error of a kind with which a call ends; AssertionError if it ends otherwise."""
    try:
        result = call()
    except kind as error:
        expect(error.message, "the error says nothing")
        return error
    except Exception as error:  # the border to the code under test
        message = f"it raised {type(error).__name__}, which is no {kind.__name__}"
        raise AssertionError(message) from error
    raise AssertionError(f"there is no {kind.__name__}, but {result!r}")


def named(functions: Iterable[Callable[..., None]], *given: object) -> list[NamedCheck]:
    """Return the checks of what is given; a claim is the first line of a function's docstring."""
    return [
        NamedCheck(
            name=function.__name__,
            claim=(inspect.getdoc(function) or "").partition("\n")[0],
            run=partial(function, *given),
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
    return begun(what, function, bound_s)()


def begun(what: str, function: Callable[[], T], bound_s: float = BOUND_S) -> Callable[[], T]:
    """Begin `function()` in a thread of its own; return what waits for its end, as `bounded`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001  # the border to the code under test
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()

    def end() -> T:
        thread.join(bound_s)
        expect(not thread.is_alive(), f"{what} did not end within {bound_s:g} s")
        if errors and isinstance(errors[0], AssertionError):
            raise errors[0]
        if errors:
            raise AssertionError(f"{what} let an exception escape: {errors[0]!r}") from errors[0]
        return results[0]

    return end
