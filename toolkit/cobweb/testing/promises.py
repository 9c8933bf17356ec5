"""Checks the promises P1 to P5 on the public events of a run (design, sections 5 and 7).

It knows nothing of the engine: it reads what `--events` wrote and what `graph -o json` says, so it
can be put after any real run, also by others:

    assert not check_promises(map(json.loads, open("events.jsonl")), json.load(open("graph.json")))
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from cobweb.testing._promise_graph import PromiseGraph, Step

__all__ = ["check_promises"]

Event = Mapping[str, Any]

UNKNOWN = "unknown"
AT_REST: Step = ("", "")

RESTLESS = 3
"""Who took one step or asked for one lock so often may have been stopped for restlessness."""


def check_promises(events: Iterable[Event], graph_json: Mapping[str, Any]) -> list[str]:
    """Return one line per violation of P1 to P5, in the order of the events; [] if all held.

    Each line begins with the promise, then `event N:` with the event's `seq`. Events of other types
    are passed over. P5 is checked at `run.end`; a record without it breaks P5. The graph is that of
    the run, without objects that a `--limit` kept out of it.

    Linear in events, objects and needs: about 6 microseconds per event, of which reading the JSON
    is a third. The events are looked at as they come and none is kept, and `cobs` and `needs` of
    the graph may be iterators as well (`simulation.graph_stream`). What is kept is about 260 bytes
    per object with two or three needs, and the locks that are out.
    """
    watch = _Watch(PromiseGraph(graph_json))
    for event in events:
        watch.look_at(event)
    watch.close()
    return watch.violations


class _Watch:
    """What an onlooker knows: states, transitions under way, and locks that are out."""

    def __init__(self, graph: PromiseGraph) -> None:
        self.violations: list[str] = []
        self._graph = graph
        self._names = graph.names
        self._state: list[str | None] = [None] * len(graph.names)
        self._running: dict[int, Step] = {}
        self._pinned: dict[int, set[int]] = {}
        self._out: dict[int, dict[int, str]] = {}
        self._asked: dict[int, dict[int, str]] = {}
        self._strayed: dict[tuple[int, object], int] = {}
        self._restless: set[int] = set()
        self._hurt: set[int] = set()
        self._seq = 0
        self._ended = False
        self._cob_handlers = {
            "cob.state": self._on_state,
            "transition.start": self._on_start,
            "transition.end": self._on_end,
        }
        self._lock_handlers = {
            "lock.request": self._on_request,
            "lock.grant": self._on_grant,
            "lock.release": self._on_release,
        }

    def look_at(self, event: Event) -> None:
        self._seq = event.get("seq", self._seq + 1)
        kind = event["type"]
        if kind in self._lock_handlers:
            cob, holder = self._number(event["cob"]), self._number(event["holder"])
            if cob >= 0 and holder >= 0:
                self._lock_handlers[kind](cob, holder, sys.intern(event["state"]))
            else:
                self._strange(event["cob"] if cob < 0 else event["holder"])
        elif kind in self._cob_handlers:
            cob = self._number(event["cob"])
            if cob >= 0:
                self._cob_handlers[kind](cob, event)
            else:
                self._strange(event["cob"])
        elif kind == "run.end":
            self._on_run_end(event["exit_code"])

    def close(self) -> None:
        if not self._ended:
            self._broken("P5", "the run has no end")

    def _number(self, name: str) -> int:
        return self._graph.number.get(name, -1)

    def _strange(self, name: str) -> None:
        self._broken("P4", f"{name} is not in the graph")

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(f"{promise} event {self._seq}: {what}")

    def _by_name(self, cobs: Iterable[int]) -> list[int]:
        return sorted(cobs, key=self._names.__getitem__)

    def _holds(self, holder: int, on: int, state: str) -> bool:
        out = self._out.get(on)
        return out is not None and out.get(holder) == state

    # --- transitions under way

    def _run(self, cob: int, step: Step) -> None:
        """Note a transition, and at each object that it needs that it is needed."""
        self._rest(cob)
        self._running[cob] = step
        for on, _ in self._graph.steps.on(cob, step):
            self._pinned.setdefault(on, set()).add(cob)

    def _rest(self, cob: int) -> Step | None:
        """Note that no transition of an object runs (any more), and return the one that did."""
        step = self._running.pop(cob, None)
        for on, _ in self._graph.steps.on(cob, step) if step else ():
            pinned = self._pinned.get(on, set())
            pinned.discard(cob)
            if not pinned:
                self._pinned.pop(on, None)
        return step

    # --- events

    def _on_state(self, cob: int, event: Event) -> None:
        state = event["state"]
        if state == UNKNOWN:
            self._hurt.add(cob)
            self._rest(cob)
        elif state not in self._graph.kinds[cob].states:
            self._broken("P4", f"{self._names[cob]} has no state {state}")
        self._state[cob] = sys.intern(state)

    def _on_request(self, cob: int, holder: int, state: str) -> None:
        self._asked.setdefault(holder, {})[cob] = state
        graph = self._graph
        often = graph.steps.asks(holder, cob, state) or graph.locks.asks(holder, cob, state)
        self._count(holder, (cob, state), often)

    def _count(self, cob: int, way: object, often: int) -> None:
        """Note who went one way too often; `often` is 0 for a way that the graph does not know."""
        if not often:
            often = self._strayed[cob, way] = self._strayed.get((cob, way), 0) + 1
        if often >= RESTLESS:
            self._restless.add(cob)

    def _on_grant(self, cob: int, holder: int, state: str) -> None:
        self._answered(holder, cob)
        self._out.setdefault(cob, {})[holder] = state
        if self._state[cob] in (None, UNKNOWN):
            return  # a lock of an earlier run, told before its object was looked at
        name = self._names[cob]
        if self._state[cob] != state or cob in self._running:
            self._broken("P2", f"{name} lends {state} to {self._names[holder]} and is not in it")
        for on, wanted in self._graph.locks.on(cob, state):
            if not self._holds(cob, on, wanted):
                self._broken("P3", f"{name} lends {state} without {self._names[on]} {wanted}")

    def _answered(self, holder: int, cob: int) -> None:
        asked = self._asked.get(holder)
        if asked is not None and asked.pop(cob, None) is not None and not asked:
            del self._asked[holder]

    def _on_release(self, cob: int, holder: int, state: str) -> None:
        if self._asked.get(holder, {}).get(cob) == state:
            self._answered(holder, cob)
        out = self._out.get(cob, {})
        if out.get(holder) != state:
            return  # a request was taken back
        del out[holder]
        if not out:
            del self._out[cob]
        if holder in self._running or holder in self._out:
            self._still_needed(cob, holder, state)

    def _still_needed(self, cob: int, holder: int, state: str) -> None:
        """See that `holder` gives nothing back that it needs for what it does or lends."""
        who, what = self._names[holder], self._names[cob]
        for need in self._graph.steps.on(holder, self._running.get(holder, AT_REST)):
            if need == (cob, state):
                self._broken("P1", f"{who} gives {what} {state} back while its transition runs")
        lent = set(self._out.get(holder, {}).values())
        for within, on, wanted in self._graph.locks.of(holder):
            if within in lent and (on, wanted) == (cob, state):
                self._broken("P3", f"{who} lends {within} and gives {what} {state} back")

    def _on_start(self, cob: int, event: Event) -> None:
        name, step = self._names[cob], (sys.intern(event["from"]), sys.intern(event["to"]))
        self._check_matrix(cob, step)
        for on, state in self._graph.steps.on(cob, step):
            held = self._holds(cob, on, state)
            if not held or self._state[on] != state or on in self._running:
                what = f"{self._names[on]} {state}"
                self._broken("P1", f"{name} {step[0]} -> {step[1]} runs without {what}")
        out = self._out.get(cob, {})
        for holder in self._by_name(out):
            who = self._names[holder]
            self._broken(
                "P2", f"{name} leaves {step[0]} while {who} holds its lock on {out[holder]}"
            )
        for other in self._by_name(self._pinned.get(cob, ())):
            who = self._names[other]
            self._broken("P1", f"{name} moves while the transition of {who} needs it")
        self._run(cob, step)
        self._count(cob, step, self._graph.takes(cob, step))

    def _check_matrix(self, cob: int, step: Step) -> None:
        name = self._names[cob]
        if cob in self._running:
            self._broken("P4", f"{name} starts a transition while another one runs")
        if self._state[cob] != step[0]:
            self._broken("P4", f"{name} starts from {step[0]} and is {self._state[cob]}")
        if step not in self._graph.kinds[cob].steps:
            self._broken("P4", f"{name} has no transition {step[0]} -> {step[1]}")

    def _on_end(self, cob: int, event: Event) -> None:
        step = (event["from"], event["to"])
        if self._rest(cob) != step and self._state[cob] != UNKNOWN:
            name = self._names[cob]
            self._broken("P4", f"{name} ends {step[0]} -> {step[1]}, which did not run")
        if event["result"] == "ok":
            self._state[cob] = sys.intern(step[1])
        else:
            self._hurt.add(cob)
            self._state[cob] = sys.intern(event["state"])

    # --- the end

    def _on_run_end(self, exit_code: int) -> None:
        self._ended = True
        for cob in self._by_name(self._running):
            self._broken("P5", f"the run ends while a transition of {self._names[cob]} runs")
        if exit_code not in (0, 1):
            return
        kinds = self._graph.kinds
        wrong = [cob for cob, kind in enumerate(kinds) if self._state[cob] != kind.preferred]
        wrong = self._by_name(wrong)
        if exit_code == 0:
            for cob in wrong:
                now = f"{self._names[cob]} is {self._state[cob]}"
                self._broken("P5", f"all is said to be done and {now}")
            return
        hurt_hosts = self._hurt_hosts()
        if not hurt_hosts:
            self._broken("P5", "a failure is said and none is told")
        wanted = {cob for wants in self._asked.values() for cob in wants}
        for cob in wrong:
            if _host_of(self._names[cob]) in hurt_hosts or cob in wanted:
                continue
            if self._idle_for_no_reason(cob):
                state = self._state[cob]
                self._broken("P5", f"{self._names[cob]} is {state} and waits for nothing")

    def _idle_for_no_reason(self, cob: int) -> bool:
        """Say whether nothing of its own keeps `cob` from its preferred state."""
        kept = cob in self._asked or cob in self._out or cob in self._restless
        return not kept and self._has_way(cob)

    def _hurt_hosts(self) -> set[str]:
        """Return the hosts on which something failed or was never found out."""
        return {
            _host_of(self._names[cob])
            for cob in range(len(self._graph.kinds))
            if self._state[cob] is None or cob in self._hurt
        }

    def _has_way(self, cob: int) -> bool:
        kind = self._graph.kinds[cob]
        found, stack = {self._state[cob]}, [self._state[cob]]
        while stack:
            now = stack.pop()
            steps = [step for step in kind.steps if step[0] == now]
            fresh = {step[1] for step in steps if self._can_be_held(cob, step)} - found
            found |= fresh
            stack.extend(fresh)
        return kind.preferred in found

    def _can_be_held(self, cob: int, step: Step) -> bool:
        """Say whether a step asks for one state of each object."""
        wanted = set(self._graph.steps.on(cob, step))
        return len({on for on, _ in wanted}) == len(wanted)


def _host_of(name: str) -> str:
    return name.partition("/")[0]
