"""The checker of the promises written down plainly: what `cobweb.testing.promises` has to say.

It keeps every need as it came and looks at all objects again and again, so it is for small runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["plain_check_promises"]

Event = Mapping[str, Any]

UNKNOWN = "unknown"

RESTLESS = 3
"""Who took one step or asked for one lock so often may have been stopped for restlessness."""


def plain_check_promises(events: Iterable[Event], graph_json: Mapping[str, Any]) -> list[str]:
    """Return what `check_promises` has to return."""
    watch = _Watch(graph_json)
    for event in events:
        watch.look_at(event)
    watch.close()
    return watch.violations


class _Watch:
    """What an onlooker knows: states, transitions under way, and locks that are out."""

    def __init__(self, graph: Mapping[str, Any]) -> None:
        self.violations: list[str] = []
        self._cobs = {cob["id"]: cob for cob in graph["cobs"]}
        self._steps: dict[str, list[Event]] = {}
        self._locks: dict[str, list[Event]] = {}
        for need in graph["needs"]:
            (self._steps if "from" in need else self._locks).setdefault(need["cob"], []).append(
                need
            )
        self._state: dict[str, str] = {}
        self._running: dict[str, tuple[str, str]] = {}
        self._out: dict[str, dict[str, str]] = {}
        self._ways = {i: {(x, y) for x, y in cob["transitions"]} for i, cob in self._cobs.items()}
        self._asked: dict[str, dict[str, str]] = {}
        self._taken: dict[tuple[str, tuple[str, str]], int] = {}
        self._hurt: set[str] = set()
        self._seq = 0
        self._ended = False
        self._handlers = {
            "cob.state": self._on_state,
            "lock.request": self._on_request,
            "lock.grant": self._on_grant,
            "lock.release": self._on_release,
            "transition.start": self._on_start,
            "transition.end": self._on_end,
            "run.end": self._on_run_end,
        }

    def look_at(self, event: Event) -> None:
        self._seq = event.get("seq", self._seq + 1)
        handler = self._handlers.get(event["type"])
        if handler is None:
            return
        named = [event[key] for key in ("cob", "holder") if key in event]
        strange = [cob for cob in named if cob not in self._cobs]
        if strange:
            self._broken("P4", f"{strange[0]} is not in the graph")
        else:
            handler(event)

    def close(self) -> None:
        if not self._ended:
            self._broken("P5", "the run has no end")

    def _broken(self, promise: str, what: str) -> None:
        self.violations.append(f"{promise} event {self._seq}: {what}")

    def _holds(self, holder: str, need: Event) -> bool:
        return bool(self._out.get(need["on"], {}).get(holder) == need["state"])

    def _needs_of(self, cob: str, step: tuple[str, str]) -> list[Event]:
        return [n for n in self._steps.get(cob, ()) if (n["from"], n["to"]) == step]

    def _can_be_held(self, cob: str, step: tuple[str, str]) -> bool:
        """Say whether a step asks for one state of each object."""
        wanted = {(need["on"], need["state"]) for need in self._needs_of(cob, step)}
        return len({on for on, _ in wanted}) == len(wanted)

    def _on_state(self, event: Event) -> None:
        cob, state = event["cob"], event["state"]
        if state == UNKNOWN:
            self._hurt.add(cob)
            self._running.pop(cob, None)
        elif state not in self._cobs[cob]["states"]:
            self._broken("P4", f"{cob} has no state {state}")
        self._state[cob] = state

    def _on_request(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        self._asked.setdefault(holder, {})[cob] = state
        self._taken[holder, (cob, state)] = self._taken.get((holder, (cob, state)), 0) + 1

    def _on_grant(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        self._asked.get(holder, {}).pop(cob, None)
        self._out.setdefault(cob, {})[holder] = state
        if self._state.get(cob, UNKNOWN) == UNKNOWN:
            return  # a lock of an earlier run, told before its object was looked at
        if self._state[cob] != state or cob in self._running:
            self._broken("P2", f"{cob} lends {state} to {holder} and is not in it")
        for need in self._locks.get(cob, ()):
            if need["in"] == state and not self._holds(cob, need):
                self._broken("P3", f"{cob} lends {state} without {need['on']} {need['state']}")

    def _on_release(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        if self._asked.get(holder, {}).get(cob) == state:
            del self._asked[holder][cob]
        if self._out.get(cob, {}).get(holder) != state:
            return  # a request was taken back
        del self._out[cob][holder]
        for need in self._needs_of(holder, self._running.get(holder, ("", ""))):
            if (need["on"], need["state"]) == (cob, state):
                self._broken("P1", f"{holder} gives {cob} {state} back while its transition runs")
        lent = set(self._out.get(holder, {}).values())
        for need in self._locks.get(holder, ()):
            if (need["on"], need["state"]) == (cob, state) and need["in"] in lent:
                self._broken("P3", f"{holder} lends {need['in']} and gives {cob} {state} back")

    def _on_start(self, event: Event) -> None:
        cob, step = event["cob"], (event["from"], event["to"])
        self._check_matrix(cob, step)
        for need in self._needs_of(cob, step):
            on, state = need["on"], need["state"]
            if not self._holds(cob, need) or self._state.get(on) != state or on in self._running:
                self._broken("P1", f"{cob} {step[0]} -> {step[1]} runs without {on} {state}")
        for holder, state in sorted(self._out.get(cob, {}).items()):
            self._broken("P2", f"{cob} leaves {step[0]} while {holder} holds its lock on {state}")
        for other, running in sorted(self._running.items()):
            if any(need["on"] == cob for need in self._needs_of(other, running)):
                self._broken("P1", f"{cob} moves while the transition of {other} needs it")
        self._running[cob] = step
        self._taken[cob, step] = self._taken.get((cob, step), 0) + 1

    def _check_matrix(self, cob: str, step: tuple[str, str]) -> None:
        if cob in self._running:
            self._broken("P4", f"{cob} starts a transition while another one runs")
        if self._state.get(cob) != step[0]:
            self._broken("P4", f"{cob} starts from {step[0]} and is {self._state.get(cob)}")
        if step not in self._ways[cob]:
            self._broken("P4", f"{cob} has no transition {step[0]} -> {step[1]}")

    def _on_end(self, event: Event) -> None:
        cob, step = event["cob"], (event["from"], event["to"])
        if self._running.pop(cob, None) != step and self._state.get(cob) != UNKNOWN:
            self._broken("P4", f"{cob} ends {step[0]} -> {step[1]}, which did not run")
        if event["result"] == "ok":
            self._state[cob] = step[1]
        else:
            self._hurt.add(cob)
            self._state[cob] = event["state"]

    def _on_run_end(self, event: Event) -> None:
        self._ended = True
        for cob in sorted(self._running):
            self._broken("P5", f"the run ends while a transition of {cob} runs")
        if event["exit_code"] not in (0, 1):
            return
        wrong = [c for c in sorted(self._cobs) if self._state.get(c) != self._cobs[c]["preferred"]]
        if event["exit_code"] == 0:
            for cob in wrong:
                self._broken("P5", f"all is said to be done and {cob} is {self._state.get(cob)}")
            return
        if not self._hurt_hosts():
            self._broken("P5", "a failure is said and none is told")
        for cob in wrong:
            if self._idle_for_no_reason(cob):
                self._broken("P5", f"{cob} is {self._state.get(cob)} and waits for nothing")

    def _idle_for_no_reason(self, cob: str) -> bool:
        """Say whether nothing that an onlooker can see keeps `cob` from its preferred state."""
        asked = self._asked.get(cob) or any(cob in wants for wants in self._asked.values())
        if asked or self._out.get(cob) or self._host_of(cob) in self._hurt_hosts():
            return False
        restless = any(who == cob and often >= RESTLESS for (who, _), often in self._taken.items())
        return not restless and self._has_way(cob)

    def _host_of(self, cob: str) -> str:
        return cob.partition("/")[0]

    def _hurt_hosts(self) -> set[str]:
        """Return the hosts on which something failed or was never found out."""
        return {
            self._host_of(cob) for cob in self._cobs if cob in self._hurt or cob not in self._state
        }

    def _has_way(self, cob: str) -> bool:
        found, stack = {self._state[cob]}, [self._state[cob]]
        while stack:
            now = stack.pop()
            steps = [step for step in self._ways[cob] if step[0] == now]
            fresh = {step[1] for step in steps if self._can_be_held(cob, step)} - found
            found |= fresh
            stack.extend(fresh)
        return self._cobs[cob]["preferred"] in found
