"""From the events of a run, one after the other, to the columns of its report.

Theory of operation. Nothing is kept per event: an event changes the row of its object, and begins
or ends a row of the columns. So a million events cost the memory of their objects and transitions.

What let a transition begin is followed along the way of the locks. Each object has a *cause*: of
the transitions whose end it depended on, the one that ended last. Its own end makes it its own
cause; with a granted lock the cause of the locked object comes to the holder, and with a lock that
was recalled the cause of the holder comes back with it. A transition begins after its object's
cause, unless its object was checked later than that. What begins after hosts have switched could
not begin before the last removal had ended: where nothing later let it begin, that did.

Room in a limit is followed like a lock. A slot that is returned has the last transition of its unit
as its cause, and a unit that takes a slot where no more are out than have been before took that
room: where nothing later let its transitions begin, that did. So of units that are hosts or
objects; what another variable's value stands for the events do not say. (Room for a job leaves no
trace in the events: such a wait is the time between `ready` and `start`.)
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.model import UNKNOWN, CobId, host_of
from cobweb.plugin import shortened
from cobweb_plugins.report._columns import LATEST_MS, NONE, End, Heard, Steps, Waits
from cobweb_plugins.report._values import Failure, Room, Story, Switched, TaskSaid

MOST_OUTPUTS = 1000
"""Of how many failures the task output is kept; of further ones the message alone."""

_SHORT = 200
"""Characters of the message of a failure whose task output is not kept."""

_PAIR = 32
"""Bits of one object's number in the key of a pair."""

_TYPES: Mapping[str, Mapping[str, type]] = {
    "version": {"cobweb": str},
    "run.start": {"run": str, "generation": int},
    "run.end": {"result": str, "exit_code": int, "counts": dict, "unreachable": dict},
}
"""What the values of an event that is kept as a whole must be, where it has them."""

_INSIDE: Mapping[str, type] = {"counts": int, "unreachable": str}
"""What the values inside of these values must be."""

_WORDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    dict: "a mapping",
    list: "a list",
}

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """Room that a unit took over: when, by which transition it became free, and its number."""

    at_ms: int
    after: int
    room: int


@dataclass(slots=True)
class _Rooms:
    """Who took the room of whom; `told` are the rooms that became free, as a story has them.

    `last` is the last transition by host and by object, `most` how many slots of a limit were out
    at once so far. `slots` are units that have taken the room of another, `free` the room of a
    limit that was returned last, with the transition that had ended.
    """

    told: list[Room] = field(default_factory=list)
    slots: dict[str, _Slot] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    out: dict[str, set[str]] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    free: dict[str, tuple[str, int]] = field(default_factory=dict)

    def ended(self, cob: str, row: int) -> None:
        self.last[cob] = self.last[host_of(CobId(cob))] = row

    def taken(self, limit: str, unit: str, now: int) -> None:
        out = self.out.setdefault(limit, set())
        out.add(unit)
        if len(out) > self.most.get(limit, 0):
            self.most[limit] = len(out)
        elif limit in self.free:
            by, row = self.free[limit]
            self.slots[unit] = _Slot(at_ms=now, after=row, room=len(self.told))
            self.told.append(Room(limit=limit, unit=by))

    def returned(self, limit: str, unit: str, last: int) -> None:
        self.out.setdefault(limit, set()).discard(unit)
        row = self.last.get(unit, last)
        if row != NONE:
            self.free[limit] = (unit, row)


class Recorder:
    """Takes the events of one run in their order; use `story` once at the end."""

    def __init__(self) -> None:
        self._cobs: dict[str, int] = {}
        self._states: dict[str, int] = {}
        self._state, self._known, self._first_known = array("i"), array("i"), array("i")
        self._asked, self._granted, self._granter = array("i"), array("i"), array("i")
        self._cause, self._running = array("i"), array("i")
        self._steps, self._waits = Steps(), Waits()
        self._pending: dict[int, int] = {}
        self._recalled: set[int] = set()
        self._given_up: dict[int, int] = {}
        self._failures: dict[int, Failure] = {}
        self._switches: list[Switched] = []
        self._last_end = self._gate = NONE
        self._rooms = _Rooms()
        self._first: float | None = None
        self._last_ms = 0
        self._number = 0
        self._recalls = 0
        self._said: dict[str, Event] = {}
        self._handlers: dict[str, Callable[[Event, int], None]] = {
            "version": self._remember,
            "run.start": self._remember,
            "cob.state": self._on_state,
            "cob.gave_up": self._on_gave_up,
            "lock.request": self._on_request,
            "lock.grant": self._on_grant,
            "lock.release": self._on_release,
            "lock.recall": self._on_recall,
            "transition.start": self._on_start,
            "transition.end": self._on_end,
            "generation.switch": self._on_switch,
            "slot.take": self._on_slot,
            "slot.return": self._on_slot,
            "run.end": self._remember,
        }

    def take(self, event: Event) -> None:
        """Take the next event; of an unknown type it is counted only.

        KeyError, TypeError, ValueError for what is no event.
        """
        self._number += 1
        time = event.get("time")
        if time is not None:
            if self._first is None:
                self._first = time
            self._last_ms = min(LATEST_MS, max(0, round((time - self._first) * 1000)))
        handler = self._handlers.get(event["type"])
        if handler is not None:
            handler(event, self._last_ms)

    def story(self) -> Story:
        """Return what was recorded."""
        start, end = self._said.get("run.start", {}), self._said.get("run.end", {})
        return Story(
            cobs=tuple(self._cobs),
            states=tuple(self._states),
            state=self._state,
            steps=self._steps,
            waits=self._waits,
            failures=tuple(sorted(self._failures.values(), key=lambda it: (it.at_ms, it.cob))),
            unreachable=dict(end.get("unreachable", {})),
            switches=tuple(self._switches),
            rooms=tuple(self._rooms.told),
            run=str(start.get("run", "")),
            generation=int(start.get("generation", 0)),
            cobweb=str(self._said.get("version", {}).get("cobweb", "")),
            first=self._first or 0.0,
            last_ms=self._last_ms,
            result=end.get("result"),
            exit_code=end.get("exit_code"),
            counts=dict(end.get("counts", {})),
            events=self._number,
            recalls=self._recalls,
        )

    # --- what an event changes

    def _remember(self, event: Event, _now: int) -> None:
        for key, kind in _TYPES[event["type"]].items():
            if key in event:
                _must_be(kind, event[key], key)
                for value in event[key].values() if key in _INSIDE else ():
                    _must_be(_INSIDE[key], value, f"a value in {key}")
        self._said[event["type"]] = event

    def _on_state(self, event: Event, now: int) -> None:
        cob = self._cob(event["cob"])
        self._state[cob] = self._number_of(event["state"])
        if event["reason"] != "transition":
            self._known[cob] = now
        if self._first_known[cob] == NONE:
            self._first_known[cob] = now
        if event["reason"] == "check" and event["state"] == UNKNOWN:
            self._fail(cob, event, now, kind="check")
        elif event["reason"] == "drift":
            said = f"was {event.get('was', UNKNOWN)}, is {event['state']}"
            message = f"{said}: {event['message']}" if event.get("message") else said
            self._fail(cob, {**event, "message": message}, now, kind="drift")

    def _on_gave_up(self, event: Event, _now: int) -> None:
        self._given_up[self._cob(event["cob"])] = len(self._waits)

    def _on_request(self, event: Event, now: int) -> None:
        on, holder = self._cob(event["cob"]), self._cob(event["holder"])
        if self._asked[holder] == NONE:
            self._asked[holder] = now
        waits = self._waits
        self._pending[holder << _PAIR | on] = len(waits)
        waits.holder.append(holder)
        waits.on.append(on)
        waits.state.append(self._number_of(event["state"]))
        waits.asked.append(now)
        waits.end.append(NONE)
        waits.heard.append(Heard.PENDING)

    def _on_grant(self, event: Event, now: int) -> None:
        on, holder = self._cob(event["cob"]), self._cob(event["holder"])
        self._answered(holder << _PAIR | on, now, Heard.GRANTED)
        self._granted[holder] = now
        self._granter[holder] = on
        self._pass_on(on, holder)

    def _on_release(self, event: Event, now: int) -> None:
        on, holder = self._cob(event["cob"]), self._cob(event["holder"])
        pair = holder << _PAIR | on
        if self._pending.get(pair, NONE) in range(self._given_up.get(holder, 0)):
            del self._pending[pair]  # it goes on waiting for what it asked for when it gave up
        self._answered(pair, now, Heard.TAKEN_BACK)
        if pair in self._recalled:
            self._recalled.remove(pair)
            self._pass_on(holder, on)

    def _on_recall(self, event: Event, _now: int) -> None:
        on, holder = self._cob(event["cob"]), self._cob(event["holder"])
        self._recalled.add(holder << _PAIR | on)
        self._recalls += 1

    def _on_start(self, event: Event, now: int) -> None:
        cob = self._cob(event["cob"])
        steps = self._steps
        cause = self._cause[cob]
        if cause != NONE and steps.end[cause] < self._known[cob]:
            cause = NONE
        gate = self._gate
        if gate != NONE and (cause == NONE or steps.end[cause] < steps.end[gate]):
            cause = gate
        before = steps.end[cause] if cause != NONE and steps.cob[cause] == cob else NONE
        asked, room = self._asked[cob], NONE
        ready = max(self._granted[cob], self._known[cob], before)
        slot = self._rooms.slots.get(host_of(CobId(event["cob"]))) or self._rooms.slots.get(
            event["cob"]
        )
        if slot and (cause == NONE or steps.end[cause] <= steps.end[slot.after]):
            cause, room = slot.after, slot.room
            since = self._first_known[cob]
            if since != NONE and slot.at_ms - since > now - slot.at_ms:
                asked, ready = NONE, since  # it has waited for that longer than for locks
        self._running[cob] = len(steps)
        steps.cob.append(cob)
        steps.source.append(self._number_of(event["from"]))
        steps.dest.append(self._number_of(event["to"]))
        steps.asked.append(asked)
        steps.ready.append(ready)
        steps.start.append(now)
        steps.end.append(NONE)
        steps.lock.append(self._granter[cob])
        steps.after.append(cause)
        steps.room.append(room)
        steps.attempt.append(1)
        steps.result.append(End.OPEN)
        self._asked[cob] = self._granted[cob] = self._granter[cob] = NONE

    def _on_end(self, event: Event, now: int) -> None:
        cob = self._cob(event["cob"])
        row = self._running[cob]
        if row == NONE:
            raise ValueError(f"{event['cob']} ends a transition that did not begin")
        end = _end_of(event)
        steps = self._steps
        steps.end[row] = now
        steps.attempt[row] = event["attempt"]
        steps.result[row] = end
        self._running[cob] = NONE
        self._cause[cob] = self._last_end = row
        self._rooms.ended(str(event["cob"]), row)
        self._state[cob] = self._number_of(event["state"])
        if end is End.FAILED and not event.get("unreachable"):
            self._fail(cob, event, now, kind="transition")

    def _on_switch(self, event: Event, now: int) -> None:
        hosts, generation = event["hosts"], event["generation"]
        _must_be(list, hosts, "hosts")
        for host in hosts:
            _must_be(str, host, "a host")
        _must_be(int, generation, "generation")
        self._gate = self._last_end
        self._switches.append(Switched(at_ms=now, hosts=tuple(hosts), generation=generation))

    def _on_slot(self, event: Event, now: int) -> None:
        limit, unit = event["limit"], event["unit"]
        _must_be(str, limit, "a limit")
        _must_be(str, unit, "a unit")
        if event["type"] == "slot.take":
            self._rooms.taken(limit, unit, now)
        else:
            self._rooms.returned(limit, unit, self._last_end)

    # --- parts

    def _cob(self, name: str) -> int:
        """Return the number of an object; a new one gets the next."""
        number = self._cobs.get(name)
        if number is None:
            _must_be(str, name, "an object")
            number = self._cobs[name] = len(self._cobs)
            for column in (
                self._state,
                self._known,
                self._first_known,
                self._asked,
                self._granted,
                self._granter,
                self._cause,
                self._running,
            ):
                column.append(NONE)
        return number

    def _number_of(self, state: str) -> int:
        number = self._states.get(state)
        if number is None:
            _must_be(str, state, "a state")
            number = self._states[state] = len(self._states)
        return number

    def _answered(self, pair: int, now: int, heard: Heard) -> None:
        row = self._pending.pop(pair, None)
        if row is not None:
            self._waits.end[row] = now
            self._waits.heard[row] = heard

    def _pass_on(self, giver: int, taker: int) -> None:
        """Let the giver's cause be the taker's, if it is later than its own."""
        given, own = self._cause[giver], self._cause[taker]
        if given != NONE and (own == NONE or self._steps.end[given] > self._steps.end[own]):
            self._cause[taker] = given

    def _fail(self, cob: int, event: Event, now: int, *, kind: str) -> None:
        """Keep what is said of a failure; a check that fails after its transition adds nothing."""
        if cob in self._failures and kind == "check":
            return
        whole = len(self._failures) < MOST_OUTPUTS
        message = str(event.get("message", ""))
        self._failures[cob] = Failure(
            cob=str(event["cob"]),
            kind=kind,
            source=str(event.get("from", "")),
            dest=str(event.get("to", "")),
            at_ms=now,
            attempt=int(event.get("attempt", 1)),
            seconds=float(event.get("seconds", 0.0)),
            message=message if whole else shortened(message, _SHORT),
            tasks=_tasks(event) if whole else (),
            whole=whole,
        )


def _must_be(kind: type, value: object, name: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {_WORDS[kind]}, not {str(value)[:_SHORT]!r}")


def _end_of(event: Event) -> End:
    """Say how a transition ended; what was stopped before it began is still where it was."""
    if event["result"] == "ok":
        return End.OK
    return End.DROPPED if event["state"] == event["from"] else End.FAILED


def _tasks(event: Event) -> tuple[TaskSaid, ...]:
    return tuple(
        TaskSaid(
            name=str(task["name"]), status=str(task["status"]), message=str(task.get("message", ""))
        )
        for task in event.get("tasks", ())
    )
