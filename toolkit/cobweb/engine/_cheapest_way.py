"""Which way an object takes through its type: the cheapest (design, section 4).

What a way costs is, first, how many objects it takes out: those that its steps' needs ask into
states that do not serve, and the object itself where a step interrupts or leaves serving; then how
long it is; ties are broken by the order of declaration. It is read from needs and types alone, not
from states, so that it is the same for all objects whose needs look alike, and is worked out once
for all of them. Every step on a cheapest way leads to a state from which the rest of the way is
shorter or costs less: nobody goes in circles.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from cobweb.model import CobId, CobType, Graph, State, Transition, TransitionNeed

Steps = Mapping[State, Mapping[State, Transition]]
"""The first step of the way from a state to another one; missing where there is none."""

LABELS_CAP = 1_000
"""How many beginnings of ways from one state are compared; then the first to get there counts."""

_ITSELF = -1
_Asked = tuple[tuple[State, State, int], ...]
"""(source, dest, number of the object that is asked out) of an object's needs."""
_Label = tuple[int, int, tuple[int, ...], frozenset[int], State]
"""(objects taken out, steps, their numbers, the objects, where it leads)."""


class Ways:
    """The ways of all objects of a graph; construction looks at each need once.

    `steps` is the same mapping for all objects whose needs look alike.
    """

    def __init__(self, graph: Graph) -> None:
        cobs = self._cobs = graph.cobs
        self._known: dict[tuple[int, _Asked], Steps] = {}
        asking = self._asking = dict[CobId, list[TransitionNeed]]()
        stops: dict[tuple[int, State], bool] = {}
        for need in graph.needs:
            if not isinstance(need, TransitionNeed):
                continue
            kind = cobs[need.on].type
            key = (id(kind), need.state)
            if key not in stops:
                stops[key] = not any(kind.serves(state) for state in kind.members(need.state))
            if stops[key]:
                asking.setdefault(need.cob, []).append(need)

    def steps(self, cob: CobId) -> Steps:
        """Return the first step from each state to each other one."""
        kind = self._cobs[cob].type
        needs = self._asking.get(cob)
        asked = () if needs is None else _asked(needs)
        key = (id(kind), asked)
        found = self._known.get(key)
        if found is None:
            found = {state: _first_steps(kind, state, asked) for state in kind.states}
            self._known[key] = found
        return found

    def way(self, cob: CobId, source: State, dest: State) -> tuple[Transition, ...] | None:
        """Return the whole way; () if there, None if there is none."""
        steps, found = self.steps(cob), list[Transition]()
        while source != dest:
            step = steps[source].get(dest)
            if step is None:
                return None
            found.append(step)
            source = step.dest
        return tuple(found)


def _asked(needs: Sequence[TransitionNeed]) -> _Asked:
    """Return whom an object asks out by its needs, as numbers."""
    if len(needs) == 1:
        return ((needs[0].source, needs[0].dest, 0),)
    numbers: dict[CobId, int] = {}
    return tuple((it.source, it.dest, numbers.setdefault(it.on, len(numbers))) for it in needs)


def _first_steps(kind: CobType, source: State, asked: _Asked) -> dict[State, Transition]:
    """Return the first step of the cheapest way to each state that can be reached."""
    costs = [_taken_out(kind, step, asked) for step in kind.transitions]
    heap: list[_Label] = [(0, 0, (), frozenset(), source)]
    found: dict[State, tuple[int, ...]] = {}
    labels: dict[State, list[_Label]] = {}
    count = 0
    while heap:
        label = heapq.heappop(heap)
        _, length, numbers, outs, state = label
        if count >= LABELS_CAP and state in found:
            continue
        if any(it[3] <= outs and it[1:3] <= label[1:3] for it in labels.get(state, ())):
            continue  # a way to the same state is as good whatever follows
        count += 1
        labels.setdefault(state, []).append(label)
        found.setdefault(state, numbers)
        for number, step in enumerate(kind.transitions):
            if step.source == state:
                more = outs | costs[number]
                heapq.heappush(heap, (len(more), length + 1, (*numbers, number), more, step.dest))
    del found[source]
    return {state: kind.transitions[numbers[0]] for state, numbers in found.items()}


def _taken_out(kind: CobType, step: Transition, asked: _Asked) -> frozenset[int]:
    """Return the objects that one step takes out."""
    outs = {on for x, y, on in asked if x in ("*", step.source) and y in ("*", step.dest)}
    if kind.serves(step.source) and (step.interrupts or not kind.serves(step.dest)):
        outs.add(_ITSELF)
    return frozenset(outs)
