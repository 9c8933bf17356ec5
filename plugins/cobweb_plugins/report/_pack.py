"""The columns of a story as one block of text for the page: int32 arrays, deflated, in base64.

Layout before compression: a little-endian int32 with the length of the header in bytes; the header,
JSON padded with spaces to whole int32s; then the columns one after the other in the order in which
the header names them. A name that ends in `+` holds differences to the row before. Objects are
sorted by id, transitions by object and start, waits by holder and when they were asked for, so that
most differences are small.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cobweb_plugins.report._columns import NONE
from cobweb_plugins.report._prose import chain_text
from cobweb_plugins.report._report import Report

MOST_WAITS = 300_000
"""A page holds so many lock waits; of more the longest are kept, and the page says so."""

_FAILED, _LOST, _WAITS = 1, 2, 3
"""What is marked at an object, besides 0 for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The block for the page, and what was left out of it, in sentences."""

    text: str
    notes: tuple[str, ...]


def pack(report: Report) -> Packed:
    """Return the whole timeline as one block; failures are told by their number in the story."""
    order = sorted(range(len(report.story.cobs)), key=report.story.cobs.__getitem__)
    place = array("i", [0]) * len(order)
    for rank, cob in enumerate(order):
        place[cob] = rank
    columns: dict[str, Sequence[int]] = {}
    header = _cobs(report, order, columns)
    _steps(report, place, columns)
    notes = _waits(report, place, columns)
    header["columns"] = [[name, len(column)] for name, column in columns.items()]
    return Packed(text=_text(header, columns.values()), notes=notes)


def _text(header: dict[str, object], columns: Iterable[Sequence[int]]) -> str:
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 4)
    deflate = zlib.compressobj(6)
    parts = [deflate.compress(_bytes([len(told)])), deflate.compress(told)]
    parts += [deflate.compress(_bytes(column)) for column in columns]
    return b64encode(b"".join([*parts, deflate.flush()])).decode()


def _bytes(numbers: Sequence[int]) -> bytes:
    block = array("i", numbers)
    if sys.byteorder == "big":
        block.byteswap()
    return block.tobytes()


def _differences(numbers: Sequence[int]) -> list[int]:
    return [*numbers[:1], *(after - before for before, after in pairwise(numbers))]


def _cobs(
    report: Report, order: Sequence[int], columns: dict[str, Sequence[int]]
) -> dict[str, object]:
    """Add the columns of objects, and return the header with all names."""
    story = report.story
    hosts: dict[str, int] = {}
    names: dict[str, int] = {}
    host_of, name_of = array("i"), array("i")
    for cob in order:
        host, _, name = story.cobs[cob].partition("/")
        host_of.append(hosts.setdefault(host, len(hosts)))
        name_of.append(names.setdefault(name, len(names)))
    causes: dict[str, int] = {}
    marks, cause_of = _marks(report, causes)
    columns["cob.host+"] = _differences(host_of)
    columns["cob.name"] = name_of
    columns["cob.state"] = [story.state[cob] for cob in order]
    columns["cob.mark"] = [marks.get(story.cobs[cob], 0) for cob in order]
    columns["cob.cause"] = [cause_of.get(story.cobs[cob], NONE) for cob in order]
    return {
        "format": 1,
        "last": story.last_ms,
        "hosts": list(hosts),
        "names": list(names),
        "states": list(story.states),
        "causes": list(causes),
        "failures": {failure.cob: n for n, failure in enumerate(story.failures)},
        "switches": [
            [it.at_ms, it.generation, [hosts[host] for host in it.hosts if host in hosts]]
            for it in story.switches
        ],
    }


def _marks(report: Report, causes: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    marks: dict[str, int] = {}
    cause_of: dict[str, int] = {}
    messages = report.messages
    for it in report.waiting:
        lost = bool(it.chain) and it.chain[0]["kind"] == "unreachable"
        marks[it.cob] = _LOST if lost else _WAITS
        cause_of[it.cob] = causes.setdefault(chain_text(it, messages)[-1], len(causes))
    for failure in report.story.failures:
        marks[failure.cob] = _FAILED
    return marks, cause_of


def _steps(report: Report, place: Sequence[int], columns: dict[str, Sequence[int]]) -> None:
    steps = report.story.steps
    keys = [place[steps.cob[row]] << 32 | steps.start[row] for row in range(len(steps))]
    rows = sorted(range(len(steps)), key=keys.__getitem__)
    critical = {(it.step.cob, it.step.start_ms) for it in report.path}
    cobs = report.story.cobs
    columns["step.cob+"] = _differences([place[steps.cob[row]] for row in rows])
    columns["step.source"] = [steps.source[row] for row in rows]
    columns["step.dest"] = [steps.dest[row] for row in rows]
    columns["step.start"] = [steps.start[row] for row in rows]
    columns["step.took"] = [
        steps.end[row] - steps.start[row] if steps.end[row] != NONE else NONE for row in rows
    ]
    columns["step.asked"] = [_before(steps.asked[row], steps.start[row]) for row in rows]
    columns["step.ready"] = [_before(steps.ready[row], steps.start[row]) for row in rows]
    columns["step.result"] = [steps.result[row] for row in rows]
    columns["step.attempt"] = [steps.attempt[row] for row in rows]
    columns["step.critical"] = [
        int((cobs[steps.cob[row]], steps.start[row]) in critical) for row in rows
    ]


def _before(moment: int, start: int) -> int:
    """Return how long before the start it was; `NONE` stays."""
    return start - moment if moment != NONE else NONE


def _waits(
    report: Report, place: Sequence[int], columns: dict[str, Sequence[int]]
) -> tuple[str, ...]:
    waits, last = report.story.waits, report.story.last_ms
    rows: Sequence[int] = range(len(waits))
    notes: tuple[str, ...] = ()
    if len(rows) > MOST_WAITS:
        took = [waits.milliseconds(row, last) for row in rows]
        rows = sorted(rows, key=lambda row: (-took[row], row))[:MOST_WAITS]
        notes = (_left_out(len(waits), took[rows[-1]]),)
    keys = {row: place[waits.holder[row]] << 32 | waits.asked[row] for row in rows}
    rows = sorted(rows, key=keys.__getitem__)
    holders = [place[waits.holder[row]] for row in rows]
    columns["wait.holder+"] = _differences(holders)
    columns["wait.on"] = [
        place[waits.on[row]] - holder for row, holder in zip(rows, holders, strict=True)
    ]
    columns["wait.state"] = [waits.state[row] for row in rows]
    columns["wait.asked"] = [waits.asked[row] for row in rows]
    columns["wait.took"] = [
        waits.end[row] - waits.asked[row] if waits.end[row] != NONE else NONE for row in rows
    ]
    columns["wait.heard"] = [waits.heard[row] for row in rows]
    return notes


def _left_out(number: int, took_ms: int) -> str:
    return (
        f"the timeline holds the {MOST_WAITS:,} longest of {number:,} lock waits; none that is left"
        f" out took more than {took_ms} ms"
    )
