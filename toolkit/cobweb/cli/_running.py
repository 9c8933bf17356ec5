"""What `apply` and `simulate` share: sinks for events, progress, and the words at the end."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from cobweb import operations
from cobweb._tables import Tone
from cobweb.cli._observers import current_observers, tell_observers
from cobweb.cli._output import Output
from cobweb.cli._parameters import Allowance
from cobweb.cli._progress import Clocked, Counter, LiveLine, PlainLines, Progress
from cobweb.cli._text import count
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.operations import Caller, Desired, RunResult, Sink, Wait
    from cobweb.store import Store


_REMOVALS, _REMOVALS_PERCENT = 3, 20
"""How many removals there may be unless the user says: so many, or a share of what is known."""

_SHOWN = 20
"""How many objects that are not settled are told of in text; JSON has all."""

_SHOWN_PER_CAUSE = 3
"""How many of those that wait for the same cause are told of with their chain."""


def goals_of(desired: Desired) -> dict[str, str]:
    """Return the preferred states of the objects that a run may move."""
    return {str(cob): desired.graph.cobs[cob].preferred for cob in sorted(desired.movable)}


@contextmanager
def listening(
    output: Output,
    goals: Mapping[str, str],
    events: str | None,
    *,
    quiet: bool = False,
    append: bool = False,
) -> Iterator[Caller]:
    """Yield who listens to a run: the events file, and progress on standard error unless `quiet`.

    With `append` the events follow those of an earlier run in the file. Signals interrupt the run.
    CobwebError where the events file cannot be opened. Events on standard output leave no room for
    other data there.
    """
    if events == "-" and output.format != "text":
        message = "standard output cannot have both the events and the result"
        raise UsageError(message, hint="use -o text, or --events FILE")
    with ExitStack() as stack:
        sinks: list[Sink] = []
        say: Callable[[str], None] = output.summary
        if events is not None:
            sinks.append(_events_sink(stack, events, append=append))
        if (observers := current_observers()) is not None:
            sinks.append(observers)
        counter = Counter(goals)
        if not quiet:
            progress = stack.enter_context(Clocked(_progress(counter)))
            sinks.append(progress)
            say = progress.say
        caller = operations.Caller(sinks=tuple(sinks), say=say, expect=counter.old.update)
        stack.enter_context(operations.handle_signals(caller.interrupts))
        yield caller


def _events_sink(stack: ExitStack, events: str, *, append: bool) -> Sink:
    if events == "-":
        return operations.json_lines(sys.stdout)
    try:
        stream = open(  # noqa: PTH123, SIM115
            events, "a" if append else "w", encoding="utf-8", errors="backslashreplace"
        )
    except OSError as error:
        raise CobwebError(f"cannot write events to {events}: {error.strerror}") from error
    stack.callback(_close, stream)
    return operations.json_lines(stream)


def _close(stream: TextIO) -> None:
    """Close a file; what could not be written to it was told when it was tried."""
    with suppress(OSError):
        stream.close()


def _progress(counter: Counter) -> Progress:
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveLine(counter, sys.stderr, width=lambda: shutil.get_terminal_size().columns)
    return PlainLines(counter, sys.stderr)


def failure_bound(allowance: Allowance | None) -> Callable[[int], int] | None:
    """Return what `Orders.max_failures` wants for the value of `--max-failures`."""
    return None if allowance is None else allowance.bound


def lost_bound(allowance: Allowance | None) -> Callable[[int], int] | None:
    """Return what `Orders.max_unreachable` wants for the value of `--max-unreachable`.

    A share lets one host be lost in any case: it stands in the way of nothing but itself.
    """
    if allowance is None:
        return None
    least = 1 if allowance.percent and allowance.value else 0
    return lambda total: max(least, allowance.bound(total))


def removal_bound(allowance: Allowance | None) -> Callable[[int], int]:
    """Return what `Orders.max_removals` wants for the value of `--max-removals`."""
    if allowance is not None:
        return allowance.bound
    return lambda total: max(_REMOVALS, total * _REMOVALS_PERCENT // 100)


def result_data(result: RunResult) -> dict[str, Any]:
    """Return what `cobweb apply -o json` writes."""
    return {
        "format": 1,
        "run": result.run,
        "result": str(result.ending),
        "exit_code": result.exit_code,
        "counts": dict(result.counts),
        "seconds": round(result.seconds, 3),
        "unsettled": operations.wait_data(result),
        "in_flight": list(result.in_flight),
        "stopped": result.stopped,
        "error": None,
    }


def error_data(error: CobwebError) -> dict[str, Any]:
    """Return what `-o json` writes in the place of a result: the run did not begin, or broke off.

    The kind of the error is its class, as in `refused` or `locked`.
    """
    kind = type(error).__name__.removesuffix("Error").lower()
    said = {"kind": kind, "message": error.message, "hint": error.hint}
    result = {"format": 1, "run": None, "result": "error"}
    return {**result, "exit_code": error.exit_code, "error": said}


def tell_result(output: Output, result: RunResult, *, simulated: bool = False) -> None:
    """Write how a run ended: on standard output as data if asked, for people on standard error."""
    data = result_data(result)
    tell_observers(data)
    if not output.data(data):
        _tell_waits(output, result)
    for line in result.in_flight:
        output.summary(f"stopped in the middle: {line}", Tone.BAD)
    if result.stopped:
        output.summary(f"stopped: {result.stopped}", Tone.BAD)
    for notice in result.notices:
        output.note(notice)
    if result.ending == "interrupted" and result.waits and not simulated:
        home = ", and first brings home what is out" if result.out else ""
        output.summary(f"the next apply goes on{home}", Tone.CAREFUL)
    output.summary(_last_line(result), Tone.GOOD if result.exit_code == 0 else Tone.BAD)


def tell_rollback(output: Output, store: Store) -> None:
    """Say of a current generation, of which the files differ, that it is an earlier one again."""
    current, original = operations.original_of(store)
    if original:
        said = f"generation {current} is generation {original} again"
        output.note(f"{said}, and the files of the site say otherwise")


def _tell_waits(output: Output, result: RunResult) -> None:
    """Tell the causes first, then of those who wait for each the first few."""
    told, like_them, others = first_few(result.waits)
    for wait in told:
        output.summary(f"{wait.cob} is {wait.state}", Tone.BAD)
        for line in operations.chain_lines(wait, result.messages):
            output.summary(f"  {line}")
    for cause, number in like_them.items():
        output.summary(f"... and {number} more wait for {cause}")
    if others:
        output.summary(f"... and {others} more (-o json has all)")
    links = (link for wait in result.waits for link in wait.chain)
    if any(it.detail.endswith(", canary") and it.on is not None for it in links):
        output.summary("who goes first is not home: mend it, or apply a fix;")
        output.summary("`apply --new-canary` chooses anew, those that are out before others")


def first_few(waits: Iterable[Wait]) -> tuple[list[Wait], Tally[str], int]:
    """Return the waits to tell of, how many wait like those by their cause, and how many others.

    Those come first that wait for nobody else.
    """
    told: list[Wait] = []
    per_cause: Tally[str] = Tally()
    like_them: Tally[str] = Tally()
    others = 0
    for wait in sorted(waits, key=lambda wait: len(wait.chain) > 1):
        cause = _cause(wait)
        if cause and per_cause[cause] >= _SHOWN_PER_CAUSE:
            like_them[cause] += 1
        elif len(told) >= _SHOWN:
            others += 1
        else:
            told.append(wait)
            per_cause[cause] += 1
    return told, like_them, others


def _cause(wait: Wait) -> str:
    last = wait.chain[-1] if wait.chain else None
    if last is not None and last.together:
        return f"more room in {last.detail}"
    return str(last.cob) if last is not None and len(wait.chain) > 1 else ""


def _last_line(result: RunResult) -> str:
    counts: Mapping[str, int] = result.counts
    done = [
        count(counts["transitions"], "transition"),
        count(counts["checks"], "check"),
        f"{result.seconds:.1f} s",
    ]
    more = {"renamed": result.renamed, "removed": result.forgotten}
    quiet = [f"{count(number, 'object')} {word}" for word, number in more.items() if number]
    at_rest = f"done: {', '.join(quiet)}" if quiet else "nothing to do, all is as it should be"
    words = {
        "ok": "done" if counts["transitions"] else at_rest,
        "failed": f"{count(counts['waiting'], 'object')} not settled",
        "stuck": f"stuck: {count(counts['waiting'], 'object')} not settled",
        "interrupted": f"interrupted: {count(counts['waiting'], 'object')} not settled",
    }[str(result.ending)]
    return f"{words} ({', '.join(done)})"
