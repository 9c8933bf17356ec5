"""Reading events from a file of JSON Lines, a line at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cobweb.errors import CobwebError
from cobweb.plugin import JsonError, json_of
from cobweb_plugins.report._recorder import Recorder
from cobweb_plugins.report._values import Story

EVENTS_FORMAT = 1
_ODD = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What taking something raises that is no event."""

_HINT = "is it what `--events` wrote?"


def record(events: Iterable[Mapping[str, Any]], label: str) -> Story:
    """Return the story of events in their order; CobwebError for what is none, naming `label`."""
    recorder = Recorder()
    number = 0
    try:
        for number, event in enumerate(events, start=1):  # noqa: B007  # for the message
            recorder.take(event)
        return recorder.story()
    except _ODD as error:
        raise _no_event(label, number, error) from error


def record_lines(lines: Iterable[str], label: str) -> tuple[Story, tuple[str, ...]]:
    """Return the story of the last run in a file, and notes on what is odd about the file.

    CobwebError with `label` and the line where it holds something else. A last line that was cut
    off, as by a full disk, is left out and told.
    """
    recorder = Recorder()
    notes: list[str] = []
    runs = number = 0
    line = ""
    try:
        for number, line in enumerate(lines, start=1):  # noqa: B007  # for the message
            event = json_of(line, label)
            if event["type"] == "version":
                _check_version(event, label)
                recorder = Recorder()
                runs += 1
            recorder.take(event)
    except JsonError as error:
        if line.endswith("\n") or not runs:
            raise _no_event(label, number, error) from error
        notes.append(f"{label}: line {number}, the last one, is cut off and was left out")
    except _ODD as error:
        raise _no_event(label, number, error) from error
    if not runs:
        raise CobwebError(f"{label}: there are no events of a run in it", hint=_HINT)
    if runs > 1:
        notes.append(f"{label} holds {runs} runs; this is the last of them")
    return recorder.story(), tuple(notes)


def _check_version(event: Mapping[str, Any], label: str) -> None:
    if event.get("events") != EVENTS_FORMAT:
        raise CobwebError(
            f"{label}: these are events of format {event.get('events')},"
            f" and this Cobweb knows format {EVENTS_FORMAT}",
            hint="use the Cobweb that wrote them, or a newer one",
        )


def _no_event(label: str, number: int, error: Exception) -> CobwebError:
    why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    if isinstance(error, JsonError):
        why = error.message
    return CobwebError(f"{label}:{number}: this is no event of Cobweb: {why}", hint=_HINT)
