"""The checker of the promises written down plainly: what `cobweb.testing.promises` has to say.

It keeps every need as it came and looks at all objects again and again, so it is for small runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["plain_check_promises"]

Event = Mapping[str, Any]
Step = tuple[str, str]
Breaks = list[tuple[str, str]]

UNKNOWN = "unknown"

RESTLESS = 3
"""Who took one step or asked for one lock so often may have been stopped for restlessness."""


def plain_check_promises(
    events: Iterable[Event],
    graph_json: Mapping[str, Any],
    *,
    before: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return what `check_promises` has to return."""
    watch = _Watch(_Graph(graph_json, "preferred"), _Graph(before, "remove") if before else None)
    for event in events:
        watch.look_at(event)
    return watch.close()


class _Graph:
    """The objects of one generation, their needs, and the state in which each has to end."""

    def __init__(self, graph: Mapping[str, Any], goal: str) -> None:
        self.cobs = {cob["id"]: cob for cob in graph["cobs"]}
        self.goals = {cob["id"]: cob[goal] for cob in graph["cobs"]}
        self.groups = {i: cob.get("groups", {}) for i, cob in self.cobs.items()}
        self.ways = {i: {(x, y) for x, y in cob["transitions"]} for i, cob in self.cobs.items()}
        self.steps = [need for need in graph["needs"] if "from" in need]
        self.locks = [need for need in graph["needs"] if "in" in need]

    def needs_of(self, cob: str, step: Step) -> list[Event]:
        return [n for n in self.steps if n["cob"] == cob and (n["from"], n["to"]) == step]

    def lock_needs(self, cob: str) -> list[Event]:
        return [need for need in self.locks if need["cob"] == cob]


class _Watch:
    """What an onlooker knows: states, transitions under way, and locks that are out."""

    def __init__(self, new: _Graph, old: _Graph | None) -> None:
        self._found: list[tuple[int, str]] = []
        self._later: list[tuple[str, tuple[int, str]]] = []
        self._new, self._old = new, old
        self._cobs = {*new.cobs, *(old.cobs if old else ())}
        self._behind = {_host_of(cob) for cob in old.cobs} if old else set()
        self._switched: set[str] = set()
        self._state: dict[str, str] = {}
        self._was: dict[str, str] = {}
        self._running: dict[str, tuple[Step, list[Event]]] = {}
        self._out: dict[str, dict[str, str]] = {}
        self._asked: dict[str, dict[str, str]] = {}
        self._taken: dict[tuple[str, Step], int] = {}
        self._given_up: dict[str, dict[str, str]] = {}
        self._refused: dict[str, bool] = {}
        self._left: set[str] = set()
        self._begun = False
        self._slots: set[tuple[str, str]] = set()
        self._hurt: set[str] = set()
        self._lost: set[str] = set()
        self._seq = self._place = 0
        self._ended = False
        self._handlers = {
            "cob.state": self._on_state,
            "cob.gave_up": self._on_gave_up,
            "slot.take": self._on_slot,
            "slot.return": self._on_slot,
            "lock.request": self._on_request,
            "lock.grant": self._on_grant,
            "lock.release": self._on_release,
            "transition.start": self._on_start,
            "transition.end": self._on_end,
            "generation.switch": self._on_switch,
            "run.end": self._on_run_end,
        }

    def look_at(self, event: Event) -> None:
        self._seq = event.get("seq", self._seq + 1)
        self._place += 1
        handler = self._handlers.get(event["type"])
        if handler is None:
            return
        keys = ("cob", "holder") if event["type"].startswith("lock.") else ("cob",)
        named = [event[key] for key in keys if key in event]
        strange = [cob for cob in named if cob not in self._cobs]
        if strange:
            self._broken("P4", f"{strange[0]} is not in the graph")
        else:
            handler(event)

    def close(self) -> list[str]:
        if not self._ended:
            self._broken("P5", "the run has no end")
        return [text for _, text in sorted(self._found, key=lambda found: found[0])]

    def _broken(self, promise: str, what: str) -> None:
        self._found.append((self._place, f"{promise} event {self._seq}: {what}"))

    def _break_later(self, cob: str, breaks: Breaks) -> None:
        for promise, what in breaks:
            text = f"{promise} event {self._seq}: {what}"
            self._later.append((_host_of(cob), (self._place, text)))

    def _holds(self, holder: str, need: Event) -> bool:
        said = self._out.get(need["on"], {}).get(holder)
        return said is not None and self._does(need["on"], said, need["state"])

    # --- groups of states

    def _members(self, cob: str, name: str) -> set[str]:
        """Return the states in which a need for a state or for a group is met."""
        return set(self._graph_of(cob).groups.get(cob, {}).get(name, [name]))

    def _does(self, cob: str, said: str, state: str) -> bool:
        """Say whether a lock on one state or group is one on another, too."""
        return self._members(cob, said) <= self._members(cob, state)

    def _lent_state(self, cob: str, said: str) -> str:
        """Return the state that a lock is on; "" where the object is in none of the group."""
        if said not in self._graph_of(cob).groups.get(cob, {}):
            return said
        now = self._state.get(cob, "")
        now = self._was.get(cob, "") if now == UNKNOWN else now
        return now if now in self._members(cob, said) else ""

    def _is_now(self, cob: str, state: str) -> None:
        if self._state.get(cob, UNKNOWN) != UNKNOWN:
            self._was[cob] = self._state[cob]
        self._state[cob] = state

    # --- generations

    def _is_behind(self, cob: str) -> bool:
        return _host_of(cob) in self._behind

    def _is_old(self, cob: str) -> bool:
        return self._old is not None and cob in self._old.cobs

    def _graph_of(self, cob: str) -> _Graph:
        if self._old is None or cob not in self._old.cobs:
            return self._new
        if cob not in self._new.cobs or self._is_behind(cob):
            return self._old
        return self._new

    def _judge(self, cob: str, breaks_under: Callable[[_Graph], Breaks]) -> _Graph:
        """Tell what is broken, unless the object may follow its new graph already."""
        graph = self._graph_of(cob)
        breaks = breaks_under(graph)
        both = cob in self._new.cobs and self._is_old(cob) and self._is_behind(cob)
        if breaks and both and not breaks_under(self._new):
            self._break_later(cob, breaks)
            return self._new
        for promise, what in breaks:
            self._broken(promise, what)
        return graph

    def _on_switch(self, event: Event) -> None:
        if self._old is None:
            return
        for cob in sorted(self._running):
            if _host_of(cob) in event["hosts"]:
                self._broken("P4", f"{cob} is in transition and its host switches")
        for host in sorted(set(event["hosts"])):
            self._switched.add(host)
            self._behind.discard(host)
            self._found += [found for who, found in self._later if who == host]
            self._later = [(who, found) for who, found in self._later if who != host]

    def _see_generation(self, cob: str, needs: list[Event]) -> None:
        if self._is_behind(cob) and not self._is_old(cob):
            self._break_later(cob, [("P4", f"{cob} moves before its host has switched")])
        if cob in self._new.cobs:
            return
        if not self._is_behind(cob):
            self._broken("P4", f"{cob} moves after its host has switched")
        for need in needs:
            if _host_of(need["on"]) in self._switched:
                self._broken("P1", f"{cob} needs {need['on']}, whose host has switched")

    # --- events

    def _on_state(self, event: Event) -> None:
        cob, state = event["cob"], event["state"]
        if state == UNKNOWN:
            self._hurt.add(cob)
            self._running.pop(cob, None)
        elif not self._has_state(cob, state):
            self._broken("P4", f"{cob} has no state {state}")
        self._is_now(cob, state)

    def _on_gave_up(self, event: Event) -> None:
        wants = self._asked.get(event["cob"])
        if wants:
            self._given_up[event["cob"]] = dict(wants)
            behind = {event["cob"]}
            while more := {on for who in behind for on in self._asked.get(who, {})} - behind:
                behind |= more
            asked = [self._asked.get(who, {}) for who in behind]
            self._refused[event["cob"]] = self._refuses_any(asked)
        if not self._begun:
            self._left |= {event["cob"]}

    def _on_slot(self, event: Event) -> None:
        slot = event["limit"], event["unit"]
        self._slots -= {slot}
        if event["type"] == "slot.take":
            self._slots |= {slot}

    def _has_state(self, cob: str, state: str) -> bool:
        graphs = [self._graph_of(cob)]
        if self._is_behind(cob) and cob in self._new.cobs:
            graphs.append(self._new)
        return any(state in graph.cobs[cob]["states"] for graph in graphs)

    def _on_request(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        self._begun = True
        self._asked.setdefault(holder, {})[cob] = state
        self._taken[holder, (cob, state)] = self._taken.get((holder, (cob, state)), 0) + 1

    def _on_grant(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        self._asked.get(holder, {}).pop(cob, None)
        self._out.setdefault(cob, {})[holder] = state
        if self._state.get(cob, UNKNOWN) == UNKNOWN:
            return  # a lock of an earlier run, told before its object was looked at
        if self._state[cob] not in self._members(cob, state) or cob in self._running:
            self._broken("P2", f"{cob} lends {state} to {holder} and is not in it")
        self._judge(
            cob,
            lambda graph: [
                ("P3", f"{cob} lends {state} without {need['on']} {need['state']}")
                for need in graph.lock_needs(cob)
                if need["in"] == self._lent_state(cob, state) and not self._holds(cob, need)
            ],
        )

    def _on_release(self, event: Event) -> None:
        cob, holder, state = event["cob"], event["holder"], event["state"]
        if self._asked.get(holder, {}).get(cob) == state:
            del self._asked[holder][cob]
        if self._out.get(cob, {}).get(holder) != state:
            return  # a request was taken back
        del self._out[cob][holder]
        for need in self._running[holder][1] if holder in self._running else ():
            if need["on"] == cob and self._does(cob, state, need["state"]):
                self._broken("P1", f"{holder} gives {cob} {state} back while its transition runs")
        lent = {self._lent_state(holder, said) for said in self._out.get(holder, {}).values()}
        self._judge(
            holder,
            lambda graph: [
                ("P3", f"{holder} lends {need['in']} and gives {cob} {state} back")
                for need in graph.lock_needs(holder)
                if need["on"] == cob
                and self._does(cob, state, need["state"])
                and need["in"] in lent
            ],
        )

    def _on_start(self, event: Event) -> None:
        cob, step = event["cob"], (event["from"], event["to"])
        graph = self._judge(cob, lambda graph: self._starts_wrong(cob, step, graph))
        needs = graph.needs_of(cob, step)
        self._see_generation(cob, needs)
        for holder, state in sorted(self._out.get(cob, {}).items()):
            self._broken("P2", f"{cob} leaves {step[0]} while {holder} holds its lock on {state}")
        for other, (_, others) in sorted(self._running.items()):
            if any(need["on"] == cob for need in others):
                self._broken("P1", f"{cob} moves while the transition of {other} needs it")
        self._running[cob] = step, needs
        self._begun = True
        self._left -= {cob}
        self._given_up.pop(cob, None)
        self._refused.pop(cob, None)
        self._taken[cob, step] = self._taken.get((cob, step), 0) + 1

    def _starts_wrong(self, cob: str, step: Step, graph: _Graph) -> Breaks:
        breaks = []
        if cob in self._running:
            breaks.append(("P4", f"{cob} starts a transition while another one runs"))
        if self._state.get(cob) != step[0]:
            breaks.append(("P4", f"{cob} starts from {step[0]} and is {self._state.get(cob)}"))
        if step not in graph.ways[cob]:
            breaks.append(("P4", f"{cob} has no transition {step[0]} -> {step[1]}"))
        for need in graph.needs_of(cob, step):
            on, state = need["on"], need["state"]
            is_in = self._state.get(on) in self._members(on, state)
            if not self._holds(cob, need) or not is_in or on in self._running:
                breaks.append(("P1", f"{cob} {step[0]} -> {step[1]} runs without {on} {state}"))
        return breaks

    def _on_end(self, event: Event) -> None:
        cob, step = event["cob"], (event["from"], event["to"])
        running = self._running.pop(cob, None)
        if (running is None or running[0] != step) and self._state.get(cob) != UNKNOWN:
            self._broken("P4", f"{cob} ends {step[0]} -> {step[1]}, which did not run")
        if event["result"] == "ok":
            self._is_now(cob, step[1])
        else:
            self._hurt.add(cob)
            self._is_now(cob, event["state"])

    # --- the end

    def _on_run_end(self, event: Event) -> None:
        self._ended = True
        self._lost = set(event.get("unreachable", {}))
        for cob in sorted(self._running):
            self._broken("P5", f"the run ends while a transition of {cob} runs")
        if event["exit_code"] not in (0, 1):
            return
        wrong = [cob for cob in sorted(self._cobs) if self._is_misplaced(cob)]
        if event["exit_code"] == 0:
            for cob in wrong:
                self._broken("P5", f"all is said to be done and {cob} is {self._state.get(cob)}")
            return
        if not self._hurt_hosts() and not self._was_refused():
            self._broken("P5", "a failure is said and none is told")
        idle = [cob for cob in wrong if self._idle_for_no_reason(cob)]
        kept = {cob for cob in self._cobs if self._is_in_trouble(cob)} | {*wrong} - {*idle}
        for cob in idle:
            part = self._part_of(cob)
            if part & self._left:
                continue
            shared = (self._limits_of(a) & self._limits_of(b) for a in part for b in kept - {a})
            if not any(shared):
                self._broken("P5", f"{cob} is {self._state.get(cob)} and waits for nothing")

    def _limits_of(self, cob: str) -> set[str]:
        """Return the limits that speak of an object before or after the change."""
        graphs = [graph for graph in (self._new, self._old) if graph and cob in graph.cobs]
        return {limit for graph in graphs for limit in graph.cobs[cob].get("limits", [])}

    def _part_of(self, cob: str) -> set[str]:
        """Return all objects that needs of either generation join with one."""
        graphs = [graph for graph in (self._new, self._old) if graph]
        needs = [
            {need["cob"], need["on"]}
            for graph in graphs
            for need in (*graph.steps, *graph.locks)
            if need["cob"] in graph.cobs
        ]
        part: set[str] = {cob}
        while more := {it for pair in needs if pair & part for it in pair & self._cobs} - part:
            part |= more
        return part

    def _was_refused(self) -> bool:
        """Say whether somebody asked in vain for one who asks for nothing, or did and gave up."""
        wants = [*self._asked.values(), *self._given_up.values()]
        return any(self._refused.values()) or self._refuses_any(wants)

    def _refuses_any(self, wants: list[dict[str, str]]) -> bool:
        return any(
            on not in self._given_up
            and not self._is_restless(on)
            and self._state.get(on) not in self._members(on, state)
            and all(
                any(
                    (need["in"], need["on"], need["state"]) == (self._state.get(on), other, wanted)
                    for need in self._graph_of(on).lock_needs(on)
                )
                for other, wanted in self._asked.get(on, {}).items()
            )
            for want in wants
            for on, state in want.items()
        )

    def _is_restless(self, cob: str) -> bool:
        return any(who == cob and often >= RESTLESS for (who, _), often in self._taken.items())

    def _is_in_trouble(self, cob: str) -> bool:
        """Say whether a limit may be shut because of it: it failed, or nobody knows where it is."""
        return cob in self._hurt or cob not in self._state or _host_of(cob) in self._lost

    def _is_misplaced(self, cob: str) -> bool:
        if cob in self._new.cobs:
            return bool(self._state.get(cob) != self._new.goals[cob])
        assert self._old is not None
        return cob in self._state and bool(self._state[cob] != self._old.goals[cob])

    def _idle_for_no_reason(self, cob: str) -> bool:
        """Say whether nothing that an onlooker can see keeps `cob` from where it has to be."""
        if any(unit not in (cob, _host_of(cob)) for _, unit in self._slots):
            return False
        if cob in self._given_up:
            return False
        asked = self._asked.get(cob) or any(cob in wants for wants in self._asked.values())
        if asked or self._out.get(cob) or _host_of(cob) in self._hurt_hosts():
            return False
        if self._is_behind(cob) and cob in self._new.cobs:
            return False
        return not self._is_restless(cob) and self._has_way(cob)

    def _hurt_hosts(self) -> set[str]:
        """Return the hosts on which something failed or was never found out."""
        never = self._cobs - self._state.keys()
        return {_host_of(cob) for cob in self._hurt | never} | self._lost

    def _has_way(self, cob: str) -> bool:
        graph = self._graph_of(cob)
        found, stack = {self._state[cob]}, [self._state[cob]]
        while stack:
            now = stack.pop()
            steps = [step for step in graph.ways[cob] if step[0] == now]
            fresh = {step[1] for step in steps if self._can_be_held(graph, cob, step)} - found
            found |= fresh
            stack.extend(fresh)
        return bool(graph.goals[cob] in found)

    def _can_be_held(self, graph: _Graph, cob: str, step: Step) -> bool:
        """Say whether a step asks for states of each object that go together."""
        needs = graph.needs_of(cob, step)
        for on in {need["on"] for need in needs}:
            wanted = [self._members(on, need["state"]) for need in needs if need["on"] == on]
            if not set.intersection(*wanted):
                return False
        return True


def _host_of(cob: str) -> str:
    return cob.partition("/")[0]
