"""The border to code that is not ours: what a plugin raises is turned into a `PluginError`.

A plugin may raise a `CobwebError` on purpose (an inventory that cannot be read, no layout); this
passes. A keyboard interrupt is the operator's and passes too. All else is the plugin's mistake,
also `SystemExit`: no plugin ends our process.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError, Finding, PluginError
from cobweb.model import Expansion, Host, Job, JobKind, Outcome, Report, Schedule
from cobweb.plugin._provider_fields import VAULT
from cobweb.plugin.protocols import Executor, Found, Link, Machine, Stages, Transport


class _BreachError(Exception):
    """What a plugin returned is not what its protocol says."""


def describe(error: BaseException) -> str:
    """Return one line: the error's type, its text, and the file and line that raised it."""
    told = traceback.TracebackException.from_exception(error)  # bears a text that cannot be had
    text = " ".join(str(told).split())
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{kind}: {text}"
    place = next((f for f in reversed(told.stack) if "importlib" not in f.filename), None)
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


def answered(job: Job, answer: object) -> Report:
    """Return the report of a job whose method of a Python type returned `answer`."""
    done = partial(Report, number=job.number, outcome=Outcome.OK)
    if job.kind is not JobKind.CHECK:
        return done(results=answer if isinstance(answer, Mapping) else {})
    if isinstance(answer, Found):
        return done(state=answer.state, message=answer.message, results=answer.results)
    return done(state=str(answer or ""))


Check = Callable[[Any], Any]
"""What a method's answer passes through on its way out; raises _BreachError."""


def guarded(plugin: str, word: str, inner: Any) -> Any:
    """Return what answers as `inner` does, behind the border; `word` is what it is called.

    It has those methods of the kind that `inner` has, and its data, so it is of the same protocols;
    `source` is the folder of its code where a site that is kept hangs on that.
    """
    space = {**_members(plugin, word, inner), "_inner": inner}
    if space.keys() & {"expand", "look_at"}:
        space["source"] = Path(inspect.getfile(type(inner))).parent
    return type(type(inner).__name__, (), space)()


def guarded_class(plugin: str, word: str, made: Any, **more: Any) -> Any:
    """Return a class that behaves like `made`, behind the border; with methods `more`."""

    def begin(self: Any) -> None:
        self._in_flight = set()  # the numbers of jobs, where it is an executor
        with border(plugin, f"{word} {made.name}: __init__()"):
            self._inner = made()

    space = {"__module__": made.__module__, "__init__": begin, **_members(plugin, word, made)}
    return type(made.__name__, (), {**space, **more})


def guarded_executor(plugin: str, made: type[Executor]) -> Any:
    """Return a class that behaves like `made`, behind the border; one report per job."""

    def wait(self: Any, timeout_s: float | None) -> Sequence[Report]:
        with border(plugin, f"executor {made.name}: wait()"):
            reports = tuple(self._inner.wait(timeout_s))
            for report in reports:
                number = _checked(report, Report).number
                if number not in self._in_flight:
                    raise _BreachError(f"reported job {number}, which is not in flight")
                self._in_flight.discard(number)
            return reports

    return guarded_class(plugin, "executor", made, wait=wait)


def guarded_transport(plugin: str, inner: Transport) -> Any:
    """Return what connects as `inner` does, behind the border, as are its links."""
    whole = f"transport {inner.name}"
    methods = {name: _passage(plugin, whole, name, check) for name, check in _OF_LINKS.items()}

    def linked(link: Link) -> Any:
        return type("Link", (), {**methods, "_inner": link})()

    connect = _passage(plugin, whole, "connect", linked)
    space = {"name": inner.name, "connect": connect, "_inner": inner}
    return type(type(inner).__name__, (), space)()


def _members(plugin: str, word: str, inner: Any) -> dict[str, Any]:
    """Return the data and the methods of what is called `word` that `inner` has."""
    data = {name: getattr(inner, name) for name in _DATA if hasattr(inner, name)}
    checks = {name: it for name, it in _ANSWERS[word].items() if hasattr(inner, name)}
    whole = f"{word} {inner.name}"
    return data | {name: _passage(plugin, whole, name, check) for name, check in checks.items()}


def _passage(plugin: str, whole: str, method: str, check: Check) -> Callable[..., Any]:
    """Return a method that hands its call on; the answer is checked within the border."""
    sends_job = method in _SENDS_JOB

    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if sends_job:
            self._in_flight.add(args[0].number)
        with border(plugin, f"{whole}: {method}()"):
            return check(getattr(self._inner, method)(*args, **keywords))

    return call


def _is(wanted: type) -> Check:
    return lambda value: _checked(value, wanted)


def _checked(value: Any, wanted: type) -> Any:
    """Return what a plugin returned; a breach if its protocol says another type."""
    if not isinstance(value, wanted):
        raise _BreachError(f"returned {type(value).__name__}, not {wanted.__name__}")
    return value


def _all(wanted: type) -> Check:
    """Read values to their end within the border."""
    return lambda values: tuple(_checked(value, wanted) for value in values)


def _judged(value: Any) -> Any:
    wrong, notes = map(_all(Finding), value)
    return wrong, notes


def _vaulted(value: Any) -> Any:
    """Let nothing pass in the clear but keys, true, false and null."""
    if isinstance(value, list):
        return [_vaulted(item) for item in value]
    if isinstance(value, Mapping) and value.keys() != {VAULT}:
        return {_checked(key, str): _vaulted(item) for key, item in value.items()}
    is_vaulted = isinstance(value, Mapping) and str(value[VAULT]).startswith("$ANSIBLE_VAULT;")
    if not (is_vaulted or value is None or isinstance(value, bool)):
        raise _BreachError("returned a value that is not vaulted")
    return value


def _files(made: Any) -> Any:
    for name, data in _checked(made, Mapping).items():
        if not (isinstance(name, str) and _FILE_NAME.fullmatch(name)):
            raise _BreachError(f"returned a file named {name!r}, which is no plain `x.yml`")
        _checked(data, Mapping)
    return made


def _nothing(_value: object) -> None:
    return None


def _messages(value: Iterable[Any]) -> tuple[tuple[str, bytes], ...]:
    return tuple((_checked(sender, str), _checked(message, bytes)) for sender, message in value)


_OF_LINKS: Mapping[str, Check] = {"send": _nothing, "receive": _messages, "close": _nothing}
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.yml")
_DATA = ("name", "schema", "fields", "decision_schema", "actions")
_SENDS_JOB = frozenset({"submit", "end_work"})
_ANSWERS: Mapping[str, Mapping[str, Check]] = {
    "executor": {
        **dict.fromkeys(("open", "submit", "wake", "close", "end_work"), _nothing),
        "now": lambda value: value,
        "unmark": _is(Mapping),
    },
    "solver": {"solve": _is(Mapping)},
    "planner": {"stages": _is(Stages), "priorities": _is(Mapping), "schedule": _is(Schedule)},
    "adapter": {
        "reads": bool,
        "hosts": _all(Host),
        "hosts_after": _all(Host),
        "groups": lambda value: {str(name): tuple(map(str, value[name])) for name in value},
        "unvaulted": lambda value: _vaulted(_checked(value, Mapping)),
        "look_at": _judged,
        "generate": _files,
    },
    "provider": {
        "find": lambda value: value if value is None else _checked(value, Machine),
        "create": _is(Machine),
        "confirm": _is(Machine),
        "delete": _nothing,
    },
    "observer": {"open": _nothing, "take": _nothing, "close": _nothing, "unasked": bool},
    "section": {"expand": _is(Expansion)},
}
"""The methods of each kind, with what their answers pass through."""
