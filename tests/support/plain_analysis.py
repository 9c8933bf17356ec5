"""The dumb analysis: every object, every step and every need is looked at, nothing is left out.

It finds the same as `cobweb.engine.analyse`, which looks at most objects by their pattern only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from cobweb.engine.analysis._circles import circles
from cobweb.engine.analysis._trouble import Trouble, TroubleKind, TroubleLink
from cobweb.errors import Place
from cobweb.model import Cob, CobId, CobType, Graph, LockNeed, State, Transition, TransitionNeed

__all__ = ["plain_analyse"]

_Wanted = tuple[tuple[CobId, State], ...]


def plain_analyse(graph: Graph) -> tuple[Trouble, ...]:
    """Return all that can never work, each with its cycle; about linear in the needs."""
    broken = tuple(_broken_needs(graph))
    if broken:
        return broken
    analysis = _Analysis(graph)
    twisted = tuple(analysis.contradictions())
    if twisted:
        return twisted
    found = [
        *analysis.unreachable("to bring everything up", _removed, _preferred),
        *analysis.unreachable("to remove everything", _preferred, _removable),
    ]
    distinct = {(trouble.kind, trouble.cobs): trouble for trouble in reversed(found)}
    return (*reversed(distinct.values()), *analysis.pushes())


def _removed(cob: Cob) -> State:
    return cob.type.remove


def _preferred(cob: Cob) -> State:
    return cob.type.preferred


def _removable(cob: Cob) -> State:
    """Return the `remove` state where the type has a way to it: without, it is never removed."""
    type_ = cob.type
    return type_.remove if type_.way(type_.preferred, type_.remove) is not None else type_.preferred


def _broken_needs(graph: Graph) -> Iterator[Trouble]:
    for need in graph.needs:
        on = graph.cobs[need.on].type
        if need.cob == need.on:
            message = f"{need.cob} needs itself"
            kind = TroubleKind.SELF
        elif need.state not in (*on.states, *on.groups):
            message = f"{need.cob} needs {need.on} {need.state}, a state that {on.name} lacks"
            kind = TroubleKind.STATE
        else:
            continue
        yield Trouble(kind=kind, cobs=(need.cob,), message=message, place=need.place)


class _Index:
    """What each step and each state needs, looked for among all needs each time."""

    def __init__(self, graph: Graph) -> None:
        self._needs = graph.needs

    def of_step(self, cob: CobId, source: State, dest: State) -> _Wanted:
        found = {
            (need.on, need.state)
            for need in self._needs
            if isinstance(need, TransitionNeed) and need.cob == cob and need.covers(source, dest)
        }
        return tuple(sorted(found))

    def of_state(self, cob: CobId, state: State) -> _Wanted:
        found = {
            (need.on, need.state)
            for need in self._needs
            if isinstance(need, LockNeed) and need.cob == cob and need.covers(state)
        }
        return tuple(sorted(found))


class _Reach:
    """What can be reached and lent, by trying everything until nothing new comes."""

    def __init__(self, graph: Graph, index: _Index, starts: Mapping[CobId, State]) -> None:
        self.reached = set(starts.items())
        self.lockable: set[tuple[CobId, State]] = set()
        before = (0, 0)
        while before != (len(self.reached), len(self.lockable)):
            before = (len(self.reached), len(self.lockable))
            for cob, state in sorted(self.reached):
                if not self.lacks(index.of_state(cob, state)):
                    self.lockable.add((cob, state))
                    for group, members in graph.cobs[cob].type.groups.items():
                        if state in members:
                            self.lockable.add((cob, group))
                for step in graph.cobs[cob].type.transitions:
                    wanted = index.of_step(cob, step.source, step.dest)
                    if step.source == state and not self.lacks(wanted):
                        self.reached.add((cob, step.dest))

    def lacks(self, wanted: _Wanted) -> tuple[CobId, State] | None:
        return next((pair for pair in wanted if pair not in self.lockable), None)


class _Analysis:
    """One graph under analysis."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.index = _Index(graph)
        self.needy = sorted({need.cob for need in graph.needs})

    def contradictions(self) -> Iterator[Trouble]:
        """Find steps whose locks can never be held together."""
        for cob in self.needy:
            for step in self.graph.cobs[cob].type.transitions:
                wanted = self.index.of_step(cob, step.source, step.dest)
                clash = self._clash(cob, wanted)
                if clash:
                    yield Trouble(
                        kind=TroubleKind.CONTRADICTION,
                        cobs=(cob,),
                        message=f"{cob}: {step} can never run: {clash}",
                        place=self._place(cob, str(step), wanted[0]),
                    )

    def unreachable(
        self,
        aim: str,
        start: Callable[[Cob], State],
        goal: Callable[[Cob], State],
    ) -> Iterator[Trouble]:
        """Find the circles and missing ways that keep objects from their goal."""
        cobs = self.graph.cobs
        starts = {cob: start(cobs[cob]) for cob in sorted(cobs)}
        reach = _Reach(self.graph, self.index, starts)
        seen: set[CobId] = set()
        for cob in starts:
            if (cob, goal(cobs[cob])) not in reach.reached and cob not in seen:
                walk = _Walk(self, reach, starts, seen)
                trouble = walk.follow(cob, goal(cobs[cob]), aim)
                if trouble is not None:
                    yield trouble

    def pushes(self) -> Iterator[Trouble]:
        """Find circles of preferences in which no object can be the last to arrive."""
        edges = {cob: edge for cob in self.needy if (edge := self._arrives_before(cob))}
        for circle in circles({cob: sorted(links) for cob, links in edges.items()}):
            pairs = zip(circle, (*circle[1:], circle[0]), strict=True)
            cycle = tuple(
                self.link(cob, edges[cob][after][0], (after, edges[cob][after][1]))
                for cob, after in pairs
            )
            yield Trouble(
                kind=TroubleKind.PUSH,
                cobs=circle,
                message="preferences push each other out for ever",
                cycle=cycle,
                place=cycle[0].place,
            )

    def link(self, cob: CobId, step: str, need: tuple[CobId, State]) -> TroubleLink:
        """Describe one need with the place that it was written at."""
        place = self._place(cob, step, need)
        return TroubleLink(cob=cob, step=step, on=need[0], state=need[1], place=place)

    def _arrives_before(self, cob: CobId) -> dict[CobId, tuple[str, State]]:
        """Return who must arrive after `cob`, with the step and the state that say so.

        It is who is needed out of its preferred state by each step into that of `cob`. Steps from
        states that no way from the `remove` state leads to (such as `outdated`) do not count: an
        object that is new never takes them.
        """
        type_ = self.graph.cobs[cob].type
        common: dict[CobId, tuple[str, State]] | None = None
        for step in type_.transitions:
            if step.dest != type_.preferred or type_.remove == type_.preferred:
                continue
            if type_.way(type_.remove, step.source) is None:
                continue
            wanted = self.index.of_step(cob, step.source, step.dest)
            away = {
                on: (str(step), state)
                for on, state in wanted
                if self.graph.cobs[on].type.preferred not in self.graph.cobs[on].type.members(state)
            }
            common = away if common is None else {on: common[on] for on in common if on in away}
        return common or {}

    def _clash(self, cob: CobId, wanted: _Wanted) -> str:
        """Say why a set of locks can't be held while `cob` moves, or ""."""
        held: dict[CobId, list[State]] = {}
        stack = list(reversed(wanted))
        while stack and len(held) < 1000:
            on, state = stack.pop()
            if on == cob:
                return f"its locks need {cob} itself to stay {state}"
            names = held.setdefault(on, [])
            before = _possible(self.graph.cobs[on].type, names)
            names.append(state)
            left = _possible(self.graph.cobs[on].type, names)
            if not left:
                return f"it needs {on} {_listed(names)}"
            if len(left) == 1 and left != before:
                stack.extend(reversed(self.index.of_state(on, left[0])))
        return ""

    def _place(self, cob: CobId, step: str, pair: tuple[CobId, State]) -> Place | None:
        """Look the need up again: only for what is printed."""
        source, arrow, dest = step.partition(" -> ")
        found = (
            need.place
            for need in self.graph.needs
            if need.cob == cob
            and (need.on, need.state) == pair
            and isinstance(need, LockNeed) != bool(arrow)
            and (need.covers(step) if isinstance(need, LockNeed) else need.covers(source, dest))
        )
        return next(found, None)


class _Walk:
    """From an unreached goal along what it lacks, to a circle or a missing way."""

    def __init__(
        self,
        analysis: _Analysis,
        reach: _Reach,
        starts: Mapping[CobId, State],
        seen: set[CobId],
    ) -> None:
        self._analysis = analysis
        self._reach = reach
        self._starts = starts
        self._seen = seen

    def follow(self, cob: CobId, state: State, aim: str) -> Trouble | None:
        """Return the circle or the missing way; None where it was reported before."""
        links: list[TroubleLink] = []
        at: dict[tuple[CobId, State], int] = {}
        while (cob, state) not in at:
            at[cob, state] = len(links)
            lock = (cob, state) in self._reach.reached
            if not lock and cob in self._seen:
                return None
            self._seen.add(cob) if not lock else None
            link = self._lacking_lock(cob, state) if lock else self._lacking_step(cob, state)
            if link is None:
                return self._missing_way(cob, state, links)
            links.append(link)
            cob, state = link.on, self._concrete(link.on, link.state)
        cycle = _from_smallest(links[at[cob, state] :])
        cobs = tuple(link.cob for link in cycle)
        message = f"objects wait for each other in a circle, {aim}"
        return Trouble(
            kind=TroubleKind.CIRCLE, cobs=cobs, message=message, cycle=cycle, place=cycle[0].place
        )

    def _concrete(self, cob: CobId, name: str) -> State:
        """Return the state of a group that is told of: one that is reached, else the nearest."""
        kind = self._analysis.graph.cobs[cob].type
        for state in kind.members(name):
            if (cob, state) in self._reach.reached:
                return state
        return kind.stands_for(name, self._starts[cob])

    def _lacking_lock(self, cob: CobId, state: State) -> TroubleLink | None:
        need = self._reach.lacks(self._analysis.index.of_state(cob, state))
        return self._analysis.link(cob, state, need) if need else None

    def _lacking_step(self, cob: CobId, state: State) -> TroubleLink | None:
        """Return what stops the first blocked step of the way."""
        index = self._analysis.index
        links = (
            self._analysis.link(cob, str(step), need)
            for step in self._way(cob, state)
            if (need := self._reach.lacks(index.of_step(cob, step.source, step.dest)))
        )
        return next(links, None)

    def _way(self, cob: CobId, state: State) -> tuple[Transition, ...]:
        return self._analysis.graph.cobs[cob].type.way(self._starts[cob], state) or ()

    def _missing_way(self, cob: CobId, state: State, links: list[TroubleLink]) -> Trouble:
        type_ = self._analysis.graph.cobs[cob].type
        start = self._starts[cob]
        return Trouble(
            kind=TroubleKind.NO_WAY,
            cobs=(cob,),
            message=f"{cob} can never be {state}: {type_.name} has no way to it from {start}",
            cycle=tuple(links),
            place=links[-1].place if links else type_.place,
        )


def _possible(kind: CobType, names: Sequence[str]) -> tuple[State, ...]:
    """Return the states in which all of some needs for one object are met; () for no needs."""
    if not names:
        return ()
    return tuple(
        state
        for state in kind.members(names[0])
        if all(state in kind.members(name) for name in names)
    )


def _listed(names: Sequence[str]) -> str:
    """Return the states and groups that one object is needed in, of which the last is too many."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 2:
        return f"both {distinct[0]} and {distinct[1]}"
    return f"{', '.join(distinct[:-1])} and {distinct[-1]} at once"


def _from_smallest(links: list[TroubleLink]) -> tuple[TroubleLink, ...]:
    """Turn a circle so that the same circle is always told the same way."""
    first = min(range(len(links)), key=lambda at: (links[at].cob, links[at].step))
    return (*links[first:], *links[:first])
