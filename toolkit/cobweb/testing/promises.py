"""Checks the promises P1 to P5 on the public events of a run (design, sections 5 and 7).

It knows nothing of the engine: it reads what `--events` wrote and what `graph -o json` says, so it
can be put after any real run, also by others:

    assert not check_promises(map(json.loads, open("events.jsonl")), json.load(open("graph.json")))

A run that goes over to a new generation follows two graphs: what hosts have not switched yet does
what it does under the old one (COB paper, section 5.6).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from cobweb.model import UNKNOWN, CobId, host_of
from cobweb.testing._promise_graph import PromiseGraph, Step, parts_of, read_graphs

__all__ = ["check_promises"]

Event = Mapping[str, Any]

Needed = list[tuple[int, str]]
"""Objects and the states that they are needed in."""

Breaks = list[tuple[str, str]]
"""Promises, and what broke them."""

RESTLESS = 3
"""Who took one step or asked for one lock so often may have been stopped for restlessness."""


def check_promises(
    events: Iterable[Event],
    graph_json: Mapping[str, Any],
    *,
    before: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return one line per violation of P1 to P5, in the order of the events; [] if all held.

    Each line begins with the promise, then `event N:` with the event's `seq`. Events of other types
    are passed over. P5 is checked at `run.end`; a record without it breaks P5. The graph is that of
    the run, without objects that a `--limit` kept out of it.

    `before` is the graph of the generation that hosts had when the run began. Until a host's
    `generation.switch` its objects have the needs and the matrix of `before`, after it those of the
    graph; those of a host that is not told to switch may have either. Objects in `before` alone
    have to end in their `remove` state, once the run has told of them: move them after their hosts
    have switched, or have them need an object whose host has, and a promise is broken. So it is
    where an object that is new moves on a host that switches only later.

    In a run that failed, P5 asks of each object that is not where it has to end why: it failed, its
    host is lost, it asks for a lock or did so when it gave up, lends one, was restless, has no way,
    or is joined by needs with one that gave up before anything began. If nothing failed and nothing
    is lost, somebody must have asked in vain for one that asks for nothing itself, but what a lock
    on its state needs, as who is outside of what the run may move does; or it did when one gave up
    that waited for it, if not at the end.

    Who waits for room asks for nothing. So an object may wait where it, or one that needs join it
    with, is in a limit with another one that failed, is lost, or is kept; a limit is known by its
    name, and speaks of what it does in either graph. So it may where another unit's slot is still
    out. This does not know of slots that an earlier run left out, of limits that are full by what
    is outside of the run, of a canary that is in another limit than who waits for it, of what
    nobody knows how to remove, of what `--max-failures` stopped, or of what a plan did not name:
    who waits for these alone is told as idle, though it is not.

    Linear in events, objects and needs: about 6 microseconds per event, of which reading the JSON
    is a third. The events are looked at as they come and none is kept, and `cobs` and `needs` of
    the graph may be iterators as well (`simulation.graph_stream`). What is kept is about 260 bytes
    per object with two or three needs, and the locks that are out.
    """
    watch = _Watch(*read_graphs(graph_json, before))
    for event in events:
        watch.look_at(event)
    return watch.close()


class _Running(NamedTuple):
    """A transition under way."""

    step: Step
    needs: Needed


class _Watch:
    """What an onlooker knows: states, transitions under way, and locks that are out.

    `_was` are the states that objects with groups were in before nobody knew where they are.
    `_behind` are the hosts that have objects in the old graph and have not switched; `_later` is
    what objects of theirs did that breaks a promise only if their host switches after it.
    """

    def __init__(self, graph: PromiseGraph, old: PromiseGraph | None) -> None:
        self._found: list[tuple[int, str]] = []
        self._graph = graph
        self._old = old
        self._names = graph.names
        self._state: list[str | None] = [None] * len(graph.names)
        known = [cob for cob in range(len(old.kinds)) if old.has(cob)] if old else []
        self._behind = {host_of(self._names[cob]) for cob in known}
        self._switched: set[str] = set()
        self._later: dict[str, list[tuple[int, str]]] = {}
        self._running: dict[int, _Running] = {}
        self._pinned: dict[int, set[int]] = {}
        self._out: dict[int, dict[int, str]] = {}
        self._asked: dict[int, dict[int, str]] = {}
        self._was: dict[int, str] = {}
        self._has_groups = graph.has_groups or (old is not None and old.has_groups)
        self._strayed: dict[tuple[int, object], int] = {}
        self._restless: set[int] = set()
        self._given_up: dict[int, dict[int, str]] = {}
        self._refused: set[int] = set()
        self._left: set[int] = set()
        self._begun = False
        self._slots: set[tuple[str, str]] = set()
        self._hurt: set[int] = set()
        self._seq = self._place = 0
        self._ended = False
        self._cob_handlers = {
            "cob.state": self._on_state,
            "cob.gave_up": self._on_gave_up,
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
        self._place += 1
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
        elif kind == "slot.take":
            self._slots.add((event["limit"], event["unit"]))
        elif kind == "slot.return":
            self._slots.discard((event["limit"], event["unit"]))
        elif kind == "generation.switch" and self._old is not None:
            self._on_switch(event["hosts"])
        elif kind == "run.end":
            self._on_run_end(event["exit_code"], event.get("unreachable", {}))

    def close(self) -> list[str]:
        """Return the violations, in the order of the events."""
        if not self._ended:
            self._broken("P5", "the run has no end")
        return [text for _, text in sorted(self._found, key=itemgetter(0))]

    def _number(self, name: CobId) -> int:
        return self._graph.number.get(name, -1)

    def _strange(self, name: str) -> None:
        self._broken("P4", f"{name} is not in the graph")

    def _broken(self, promise: str, what: str) -> None:
        self._found.append((self._place, f"{promise} event {self._seq}: {what}"))

    def _break_later(self, cob: int, breaks: Breaks) -> None:
        """Note what has broken promises if the object's host switches later in this run."""
        later = self._later.setdefault(host_of(self._names[cob]), [])
        later += [(self._place, f"{promise} event {self._seq}: {what}") for promise, what in breaks]

    def _by_name(self, cobs: Iterable[int]) -> list[int]:
        return sorted(cobs, key=self._names.__getitem__)

    def _holds(self, holder: int, on: int, state: str) -> bool:
        out = self._out.get(on)
        said = out.get(holder) if out is not None else None
        return said == state or (said is not None and self._does(on, said, state))

    # --- groups of states

    def _does(self, on: int, said: str, state: str) -> bool:
        """Say whether a lock on `said`, a state or a group, is one on `state`, too."""
        if said == state or not self._has_groups:
            return said == state
        return self._members(on, said) <= self._members(on, state)

    def _members(self, on: int, name: str) -> frozenset[str]:
        """Return the states in which a need on an object is met."""
        kinds = self._graph_of(on).kinds if on < len(self._graph.kinds) else ()
        return kinds[on].members(name) if kinds else frozenset((name,))

    def _is_in(self, on: int, state: str) -> bool:
        """Say whether an object is in a state, or in one of a group."""
        now = self._state[on]
        return now in self._members(on, state) if self._has_groups else now == state

    def _lent_state(self, cob: int, said: str) -> str:
        """Return which state a lock is on: of a group the one that its object is in, or was."""
        if not self._has_groups or said not in self._graph_of(cob).kinds[cob].groups:
            return said
        now = self._was.get(cob) if self._state[cob] == UNKNOWN else self._state[cob]
        return now if now is not None and now in self._members(cob, said) else ""

    # --- generations

    def _is_behind(self, cob: int) -> bool:
        return bool(self._behind) and host_of(self._names[cob]) in self._behind

    def _graph_of(self, cob: int) -> PromiseGraph:
        """Return the graph that an object follows now."""
        old = self._old
        if old is None or not old.has(cob):
            return self._graph
        is_old = self._is_behind(cob) or not self._graph.has(cob)
        return old if is_old else self._graph

    def _is_gone(self, cob: int) -> bool:
        return not self._graph.has(cob)

    def _judge(self, cob: int, breaks_under: Callable[[PromiseGraph], Breaks]) -> PromiseGraph:
        """Tell what an object broke under its graph; return the one that it seems to follow."""
        graph = self._graph_of(cob)
        breaks = breaks_under(graph)
        may_be_ahead = graph is self._old and self._is_behind(cob) and not self._is_gone(cob)
        if breaks and may_be_ahead and not breaks_under(self._graph):
            self._break_later(cob, breaks)
            return self._graph
        for promise, what in breaks:
            self._broken(promise, what)
        return graph

    def _on_switch(self, hosts: Iterable[str]) -> None:
        switched = frozenset(hosts)
        for cob in self._by_name(self._running):
            name = self._names[cob]
            if host_of(name) in switched:
                self._broken("P4", f"{name} is in transition and its host switches")
        self._behind -= switched
        self._switched |= switched
        for host in sorted(switched):
            self._found += self._later.pop(host, [])

    def _see_generation(self, cob: int, needs: Needed) -> None:
        """See that an object moves in the time of its generation."""
        name, is_behind = self._names[cob], self._is_behind(cob)
        if is_behind and not (self._old and self._old.has(cob)):
            self._break_later(cob, [("P4", f"{name} moves before its host has switched")])
        if not self._is_gone(cob):
            return
        if not is_behind:
            self._broken("P4", f"{name} moves after its host has switched")
        for on, _ in needs:
            if host_of(self._names[on]) in self._switched:
                self._broken("P1", f"{name} needs {self._names[on]}, whose host has switched")

    # --- transitions under way

    def _run(self, cob: int, step: Step, needs: Needed) -> None:
        """Note a transition, and at each object that it needs that it is needed."""
        self._rest(cob)
        self._running[cob] = _Running(step, needs)
        for on, _ in needs:
            self._pinned.setdefault(on, set()).add(cob)

    def _rest(self, cob: int) -> Step | None:
        """Note that no transition of an object runs (any more), and return the one that did."""
        running = self._running.pop(cob, None)
        if running is None:
            return None
        for on, _ in running.needs:
            pinned = self._pinned.get(on, set())
            pinned.discard(cob)
            if not pinned:
                self._pinned.pop(on, None)
        return running.step

    # --- events

    def _on_state(self, cob: int, event: Event) -> None:
        state = event["state"]
        if state == UNKNOWN:
            self._hurt.add(cob)
            self._rest(cob)
            self._forget(cob)
        elif not self._has_state(cob, state):
            self._broken("P4", f"{self._names[cob]} has no state {state}")
        self._state[cob] = sys.intern(state)

    def _on_gave_up(self, cob: int, _event: Event) -> None:
        """Keep in mind what an object asks for that is about to take its requests back.

        Before anybody asks or moves, what gives up is left alone, since it is known to wait for
        ever, and so is all that needs join with it.
        """
        if cob in self._asked:
            self._given_up[cob] = dict(self._asked[cob])
            if self._refuses_any(self._asked[who] for who in self._asking_for(cob)):
                self._refused.add(cob)
        elif not self._begun:
            self._left.add(cob)

    def _forget(self, cob: int) -> None:
        """Keep in mind where an object was that may have lent a group of states there."""
        state = self._state[cob]
        if self._has_groups and state is not None and state != UNKNOWN:
            self._was[cob] = state

    def _has_state(self, cob: int, state: str) -> bool:
        if state in self._graph_of(cob).kinds[cob].states:
            return True
        return self._is_behind(cob) and state in self._graph.kinds[cob].states

    def _on_request(self, cob: int, holder: int, state: str) -> None:
        self._begun = True
        self._asked.setdefault(holder, {})[cob] = state
        graph = self._graph_of(holder)
        often = graph.steps.asks(holder, cob, state) or graph.locks.asks(holder, cob, state)
        self._count(holder, (cob, state), 0 if self._old else often)

    def _count(self, cob: int, way: object, often: int) -> None:
        """Note who went one way too often; `often` is 0 where that has to be counted here."""
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
        if not self._is_in(cob, state) or cob in self._running:
            self._broken("P2", f"{name} lends {state} to {self._names[holder]} and is not in it")

        within = self._lent_state(cob, state)

        def lends_without(graph: PromiseGraph) -> Breaks:
            return [
                ("P3", f"{name} lends {state} without {self._names[on]} {wanted}")
                for on, wanted in graph.locks.on(cob, within)
                if not self._holds(cob, on, wanted)
            ]

        self._judge(cob, lends_without)

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
        running = self._running.get(holder)
        for on, wanted in running.needs if running else ():
            if on == cob and self._does(cob, state, wanted):
                self._broken("P1", f"{who} gives {what} {state} back while its transition runs")
        lent = {self._lent_state(holder, said) for said in self._out.get(holder, {}).values()}

        def lends_on(graph: PromiseGraph) -> Breaks:
            return [
                ("P3", f"{who} lends {within} and gives {what} {state} back")
                for within, on, wanted in graph.locks.of(holder)
                if within in lent and on == cob and self._does(cob, state, wanted)
            ]

        self._judge(holder, lends_on)

    def _on_start(self, cob: int, event: Event) -> None:
        name, step = self._names[cob], (sys.intern(event["from"]), sys.intern(event["to"]))
        graph = self._judge(cob, lambda graph: self._starts_wrong(cob, step, graph))
        needs = graph.steps.on(cob, step)
        if self._old is not None:
            self._see_generation(cob, needs)
        out = self._out.get(cob, {})
        for holder in self._by_name(out):
            who = self._names[holder]
            self._broken(
                "P2", f"{name} leaves {step[0]} while {who} holds its lock on {out[holder]}"
            )
        for other in self._by_name(self._pinned.get(cob, ())):
            who = self._names[other]
            self._broken("P1", f"{name} moves while the transition of {who} needs it")
        self._begun = True
        self._left.discard(cob)
        self._given_up.pop(cob, None)
        self._refused.discard(cob)
        self._run(cob, step, needs)
        self._count(cob, step, 0 if self._old else graph.takes(cob, step))

    def _starts_wrong(self, cob: int, step: Step, graph: PromiseGraph) -> Breaks:
        """Return what is wrong with a start under a graph."""
        name = self._names[cob]
        breaks: Breaks = []
        if cob in self._running:
            breaks.append(("P4", f"{name} starts a transition while another one runs"))
        if self._state[cob] != step[0]:
            breaks.append(("P4", f"{name} starts from {step[0]} and is {self._state[cob]}"))
        if step not in graph.kinds[cob].steps:
            breaks.append(("P4", f"{name} has no transition {step[0]} -> {step[1]}"))
        for on, state in graph.steps.on(cob, step):
            held = self._holds(cob, on, state)
            if not held or not self._is_in(on, state) or on in self._running:
                what = f"{self._names[on]} {state}"
                breaks.append(("P1", f"{name} {step[0]} -> {step[1]} runs without {what}"))
        return breaks

    def _on_end(self, cob: int, event: Event) -> None:
        step = (event["from"], event["to"])
        if self._rest(cob) != step and self._state[cob] != UNKNOWN:
            name = self._names[cob]
            self._broken("P4", f"{name} ends {step[0]} -> {step[1]}, which did not run")
        if event["result"] == "ok":
            self._state[cob] = sys.intern(step[1])
        else:
            self._hurt.add(cob)
            self._forget(cob)
            self._state[cob] = sys.intern(event["state"])

    # --- the end

    def _on_run_end(self, exit_code: int, unreachable: Iterable[str]) -> None:
        self._ended = True
        for cob in self._by_name(self._running):
            self._broken("P5", f"the run ends while a transition of {self._names[cob]} runs")
        if exit_code not in (0, 1):
            return
        wrong = self._by_name(self._misplaced())
        if exit_code == 0:
            for cob in wrong:
                now = f"{self._names[cob]} is {self._state[cob]}"
                self._broken("P5", f"all is said to be done and {now}")
            return
        lost = frozenset(unreachable)
        hurt = self._hurt_cobs(lost)
        if not hurt and not lost and not self._is_refused():
            self._broken("P5", "a failure is said and none is told")
        for cob in self._left_alone(wrong, hurt):
            state = self._state[cob]
            self._broken("P5", f"{self._names[cob]} is {state} and waits for nothing")

    def _left_alone(self, wrong: list[int], hurt: list[int]) -> list[int]:
        """Return which of those in a wrong state nothing keeps there that can be seen.

        A limit may be shut for as long as a member is in trouble or kept from where it has to be:
        whoever else is in it may wait, and so may all that needs join with that.
        """
        hosts = {host_of(self._names[cob]) for cob in hurt}
        wanted = {cob for wants in self._asked.values() for cob in wants}
        idle = [
            cob
            for cob in wrong
            if host_of(self._names[cob]) not in hosts
            and cob not in wanted
            and (self._is_gone(cob) or not self._is_behind(cob))  # else its host was held up
            and self._idle_for_no_reason(cob)
        ]
        idle = [cob for cob in idle if not self._may_wait_for_slot(cob)]
        if not idle:
            return idle
        kept: dict[str, set[int]] = {}
        for cob in (*hurt, *frozenset(wrong).difference(idle)):
            for limit in self._limits_of(cob):
                kept.setdefault(limit, set()).add(cob)
        part = parts_of(self._graph, self._old)
        shut = {
            part[cob]
            for cob in range(len(self._graph.kinds))
            if any(kept.get(limit, frozenset()) - {cob} for limit in self._limits_of(cob))
        }
        shut.update(part[cob] for cob in self._left)
        return [cob for cob in idle if part[cob] not in shut]

    def _limits_of(self, cob: int) -> Iterable[str]:
        """Return the limits that speak of an object in either generation."""
        graphs = (self._graph, self._old) if self._old else (self._graph,)
        return frozenset(limit for graph in graphs for limit in graph.kinds[cob].limits)

    def _may_wait_for_slot(self, cob: int) -> bool:
        """Say whether a slot is out that is not that of the object or its host."""
        name = self._names[cob]
        return any(unit not in (name, host_of(name)) for _, unit in self._slots)

    def _is_refused(self) -> bool:
        """Say whether one that asks for nothing was asked in vain, or was when somebody gave up."""
        wants = (*self._asked.values(), *self._given_up.values())
        return bool(self._refused) or self._refuses_any(wants)

    def _asking_for(self, cob: int) -> list[int]:
        """Return who asks so that one that asks gets what it asks for, itself first."""
        found = [cob]
        for who in found:  # it grows
            found += [on for on in self._asked[who] if on in self._asked and on not in found]
        return found

    def _refuses_any(self, asked: Iterable[Mapping[int, str]]) -> bool:
        """Say whether one that does not seek to move is asked to be elsewhere than it is."""
        return any(
            on not in self._given_up
            and on not in self._restless
            and not self._is_in(on, state)
            and not self._seeks_to_move(on)
            for wants in asked
            for on, state in wants.items()
        )

    def _seeks_to_move(self, cob: int) -> bool:
        """Say whether an object asks for more than what a lock on its present state needs."""
        state = self._state[cob]
        lent = self._graph_of(cob).locks.on(cob, state) if cob in self._asked and state else []
        return not self._asked.get(cob, {}).items() <= set(lent)

    def _misplaced(self) -> Iterable[int]:
        """Return who is not where it has to end; of what is gone, only what was told of."""
        for cob, state in enumerate(self._state[: len(self._graph.kinds)]):
            is_gone = self._is_gone(cob)
            kind = self._graph_of(cob).kinds[cob] if is_gone else self._graph.kinds[cob]
            if state != kind.goal and not (is_gone and state is None):
                yield cob

    def _idle_for_no_reason(self, cob: int) -> bool:
        """Say whether nothing of its own keeps `cob` from its preferred state."""
        asked = cob in self._asked or cob in self._given_up
        kept = asked or cob in self._out or cob in self._restless
        return not kept and self._has_way(cob)

    def _hurt_cobs(self, lost: frozenset[str]) -> list[int]:
        """Return what failed, was never found out, or is on a host that cannot be reached."""
        return [
            cob
            for cob in range(len(self._graph.kinds))
            if self._state[cob] is None or cob in self._hurt or host_of(self._names[cob]) in lost
        ]

    def _has_way(self, cob: int) -> bool:
        kind = self._graph_of(cob).kinds[cob]
        found, stack = {self._state[cob]}, [self._state[cob]]
        while stack:
            now = stack.pop()
            steps = [step for step in kind.steps if step[0] == now]
            fresh = {step[1] for step in steps if self._can_be_held(cob, step)} - found
            found |= fresh
            stack.extend(fresh)
        return kind.goal in found

    def _can_be_held(self, cob: int, step: Step) -> bool:
        """Say whether a step asks for one state of each object."""
        left: dict[int, frozenset[str]] = {}
        for on, state in self._graph_of(cob).steps.on(cob, step):
            members = self._members(on, state)
            left[on] = left.get(on, members) & members
        return all(left.values())
