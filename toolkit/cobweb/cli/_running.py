"""What `apply` and `simulate` share: sinks for events, progress, and the words at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from cobweb.cli._output import Output, Tone
from cobweb.cli._progress import Counter, LiveLine, PlainLines
from cobweb.cli._text import count
from cobweb.errors import CobwebError, UsageError

if TYPE_CHECKING:
    from cobweb.model import Graph
    from cobweb.runtime import RunResult, Sink

__all__ = ["failure_bound", "result_data", "sinks_for", "tell_result"]

_SHOWN = 20
"""How many objects that are not settled are told of in text; JSON has all."""


@contextmanager
def sinks_for(
    output: Output, graph: Graph, events: str | None, *, quiet: bool = False
) -> Iterator[Sequence[Sink]]:
    """Yield the sinks of a run: the events file, and progress on standard error.

    CobwebError where the events file cannot be opened. Events on standard output leave no room for
    other data there.
    """
    if events == "-" and output.format != "text":
        raise UsageError(
            "standard output cannot have both the events and the result",
            hint="use -o text, or --events FILE",
        )
    with ExitStack() as stack:
        sinks: list[Sink] = []
        if events is not None:
            sinks.append(_events_sink(stack, events))
        if not quiet:
            goals = {str(cob): it.type.preferred for cob, it in graph.cobs.items()}
            progress = _progress(output, Counter(goals))
            stack.callback(progress.close)
            sinks.append(progress)
        yield sinks


def _events_sink(stack: ExitStack, events: str) -> Sink:
    from cobweb.runtime import json_lines

    if events == "-":
        return json_lines(sys.stdout)
    try:
        return json_lines(stack.enter_context(open(events, "w", encoding="utf-8")))  # noqa: PTH123
    except OSError as error:
        raise CobwebError(f"cannot write events to {events}: {error.strerror}") from error


def _progress(output: Output, counter: Counter) -> LiveLine | PlainLines:
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveLine(counter, sys.stderr, width=output.width)
    return PlainLines(counter, sys.stderr)


def failure_bound(allowance: Any) -> Callable[[int], int] | None:
    """Return what `Orders.max_failures` wants for the value of `--max-failures`."""
    return None if allowance is None else allowance.bound


def result_data(result: RunResult) -> dict[str, Any]:
    """Return what `cobweb apply -o json` writes."""
    from cobweb.runtime import wait_data

    return {
        "format": 1,
        "run": result.run,
        "result": str(result.ending),
        "exit_code": result.exit_code,
        "counts": dict(result.counts),
        "seconds": round(result.seconds, 3),
        "unsettled": wait_data(result),
        "in_flight": list(result.in_flight),
    }


def tell_result(output: Output, result: RunResult) -> None:
    """Write how a run ended: on standard output as data if asked, for people on standard error."""
    if not output.data(result_data(result)):
        _tell_waits(output, result)
    for line in result.in_flight:
        output.summary(f"stopped in the middle: {line}", Tone.BAD)
    for notice in result.notices:
        output.summary(f"note: {notice}", Tone.CAREFUL)
    output.summary(_last_line(result), Tone.GOOD if result.exit_code == 0 else Tone.BAD)


def _tell_waits(output: Output, result: RunResult) -> None:
    from cobweb.runtime import chain_lines

    for wait in result.waits[:_SHOWN]:
        lines = chain_lines(wait, result.messages)
        output.summary(f"{wait.cob} is {wait.state}", Tone.BAD)
        for line in lines:
            output.summary(f"  {line}")
    if len(result.waits) > _SHOWN:
        output.summary(f"... and {len(result.waits) - _SHOWN} more (-o json has all)")


def _last_line(result: RunResult) -> str:
    counts: Mapping[str, int] = result.counts
    done = [
        count(counts["transitions"], "transition"),
        count(counts["checks"], "check"),
        f"{result.seconds:.1f} s",
    ]
    words = {
        "ok": "done" if counts["transitions"] else "nothing to do, all is as it should be",
        "failed": f"{count(counts['waiting'], 'object')} not settled",
        "stuck": f"stuck: {count(counts['waiting'], 'object')} not settled",
        "interrupted": f"interrupted: {count(counts['waiting'], 'object')} not settled",
    }[str(result.ending)]
    return f"{words} ({', '.join(done)})"
