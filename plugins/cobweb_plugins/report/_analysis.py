"""What a story tells: the critical path, what took long, what was waited for, who still waits."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cobweb.model import CobId, host_of
from cobweb_plugins.report._columns import NONE, End, Heard
from cobweb_plugins.report._values import Room, Story, Waiting

UNTOLD = "untold"
"""The kind of a link whose cause the events do not tell: a limit, a halt, or a stopped record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """One transition and how long it took; `result` is ok, failed or open."""

    cob: str
    source: str
    dest: str
    start_ms: int
    took_ms: int
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """A transition of the critical path; it began `gap_ms` after the one before had ended.

    `reason` says what it had waited for: `lock` (the transition before, of another object), `own`
    (an earlier one of the same object), `switch` (the last one before hosts switched), `room` (the
    last one of the unit that took the room of `room` before) or `check` (nothing but its check and
    a free place to begin).
    """

    step: Slow
    reason: str
    gap_ms: int
    room: Room | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedFor:
    """How long others waited for locks on one object: in all, at most, and who at most."""

    cob: str
    state: str
    holders: int
    total_ms: int
    most_ms: int
    longest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSum:
    """What happened on one host; `busy_ms` is the sum over its transitions."""

    name: str
    cobs: int
    transitions: int
    failed: int
    waiting: int
    busy_ms: int
    start_ms: int
    end_ms: int


def slow_of(story: Story, row: int) -> Slow:
    """Return a transition by its row."""
    steps = story.steps
    return Slow(
        cob=story.cobs[steps.cob[row]],
        source=story.states[steps.source[row]],
        dest=story.states[steps.dest[row]],
        start_ms=steps.start[row],
        took_ms=steps.milliseconds(row),
        result=End(steps.result[row]).name.lower(),
    )


def slowest(story: Story, most: int) -> tuple[Slow, ...]:
    """Return the longest transitions, the longest first."""
    steps = story.steps
    rows = heapq.nsmallest(most, range(len(steps)), key=lambda row: -steps.milliseconds(row))
    return tuple(slow_of(story, row) for row in rows)


def critical_path(story: Story) -> tuple[PathStep, ...]:
    """Return the chain of transitions that ends with the last one of the run, in time order."""
    steps = story.steps
    if not len(steps):
        return ()
    row = max(range(len(steps)), key=lambda row: (steps.end[row], -row))
    path: list[PathStep] = []
    while row != NONE:
        before = steps.after[row]
        ended = steps.end[before] if before != NONE else 0
        path.append(
            PathStep(
                step=slow_of(story, row),
                reason=_reason(story, row, before),
                gap_ms=max(0, steps.start[row] - ended),
                room=_room(story, row),
            )
        )
        row = before
    return tuple(reversed(path))


def _room(story: Story, row: int) -> Room | None:
    number = story.steps.room[row]
    return None if number == NONE else story.rooms[number]


def _reason(story: Story, row: int, before: int) -> str:
    if before == NONE:
        return "check"
    if _room(story, row) is not None:
        return "room"
    if story.steps.cob[row] == story.steps.cob[before]:
        return "own"
    ended, began = story.steps.end[before], story.steps.start[row]
    switched = any(ended <= it.at_ms <= began for it in story.switches)
    return "switch" if switched else "lock"


def waited_for(story: Story, most: int) -> tuple[WaitedFor, ...]:
    """Return the objects (and states) that others waited for longest in all."""
    waits, states = story.waits, len(story.states)
    totals: dict[int, list[int]] = {}
    for row in range(len(waits)):
        took = waits.milliseconds(row, story.last_ms)
        if took:
            entry = totals.setdefault(waits.on[row] * states + waits.state[row], [0, 0, 0, 0])
            entry[0] += took
            entry[1] += 1
            if took > entry[2]:
                entry[2], entry[3] = took, waits.holder[row]
    chosen = heapq.nsmallest(most, totals, key=lambda key: (-totals[key][0], key))
    return tuple(
        WaitedFor(
            cob=story.cobs[key // states],
            state=story.states[key % states],
            holders=totals[key][1],
            total_ms=totals[key][0],
            most_ms=totals[key][2],
            longest=story.cobs[totals[key][3]],
        )
        for key in chosen
    )


def hosts_of(story: Story, waits: Iterable[Waiting]) -> tuple[HostSum, ...]:
    """Return one line per host, by name."""
    hosts: dict[str, list[int]] = {}
    of_cob: list[list[int]] = []
    for cob in story.cobs:
        line = hosts.setdefault(host_of(CobId(cob)), [0, 0, 0, 0, 0, NONE, NONE])
        line[0] += 1
        of_cob.append(line)
    steps = story.steps
    for row in range(len(steps)):
        line = of_cob[steps.cob[row]]
        line[1] += 1
        line[4] += steps.milliseconds(row)
        line[5] = min(line[5], steps.start[row]) if line[5] != NONE else steps.start[row]
        line[6] = max(line[6], steps.end[row], steps.start[row])
    _count(hosts, (failure.cob for failure in story.failures), 2)
    _count(hosts, (it.cob for it in waits), 3)
    keys = ("cobs", "transitions", "failed", "waiting", "busy_ms", "start_ms", "end_ms")
    return tuple(
        HostSum(name=name, **dict(zip(keys, hosts[name], strict=True))) for name in sorted(hosts)
    )


def _count(hosts: Mapping[str, list[int]], cobs: Iterable[str], column: int) -> None:
    for cob in cobs:
        line = hosts.get(host_of(CobId(cob)))
        if line is not None:
            line[column] += 1


def waiting(story: Story) -> tuple[Waiting, ...]:
    """Work out from the events who waited in the end, each with the shortest chain to a cause.

    Causes are failed objects, and all of unreachable hosts; from them it goes back along the locks
    that were asked for and never granted.
    """
    asked = _asked(story)
    failed = {failure.cob for failure in story.failures}
    lost = {cob for cob in story.cobs if host_of(CobId(cob)) in story.unreachable}
    parents: dict[str, tuple[str, str]] = {}
    queue = deque(sorted(failed | lost))
    seen = set(queue)
    while queue:
        on = queue.popleft()
        for holder, state in asked.get(on, ()):
            if holder not in seen:
                seen.add(holder)
                parents[holder] = (on, state)
                queue.append(holder)
    holders = {holder for pairs in asked.values() for holder, _ in pairs}
    numbers = {cob: number for number, cob in enumerate(story.cobs)}
    return tuple(
        Waiting(
            cob=cob,
            state=story.state_of(numbers[cob]),
            chain=_chain(cob, parents, story, failed),
        )
        for cob in sorted(seen | holders)
    )


def _asked(story: Story) -> dict[str, list[tuple[str, str]]]:
    """Return by locked object who asked for it in vain, and for which state."""
    waits = story.waits
    asked: dict[str, list[tuple[str, str]]] = {}
    for row in range(len(waits)):
        if waits.heard[row] == Heard.PENDING:
            pair = (story.cobs[waits.holder[row]], story.states[waits.state[row]])
            asked.setdefault(story.cobs[waits.on[row]], []).append(pair)
    return asked


def _chain(
    cob: str, parents: Mapping[str, tuple[str, str]], story: Story, failed: set[str]
) -> Sequence[Mapping[str, Any]]:
    chain = []
    at = cob
    while at in parents:
        on, state = parents[at]
        chain.append(_link(at, "lock", on=on, state=state))
        at = on
    if at in failed:
        chain.append(_link(at, "failed"))
    elif host_of(CobId(at)) in story.unreachable:
        chain.append(_link(at, "unreachable"))
    else:
        chain.append(_link(at, UNTOLD))
    return chain


def _link(cob: str, kind: str, *, on: str | None = None, state: str = "") -> dict[str, Any]:
    return {"cob": cob, "kind": kind, "on": on, "state": state, "detail": "", "message": ""}
