"""What can never work, found before anything runs (design, section 5).

Most of a site is shown to work at once: by the patterns of its needs and by a proof that its goals
are reached. Only what is left over is searched, with all that it needs.

Nothing is reported that could work: each finding is a proof. Broken needs, self-needs and
contradictions are read off the needs. What can't be reached from one of two starts - everything
removed, everything preferred and to be removed - is a circle or a missing way. Objects that could
be renewed one by one, but not when all are outdated at once (each node of a pair while the other is
up), are no finding: a run that meets it says so.
Preferences that push each other out are found by the argument of the last arrival: if each
transition into X's preferred state needs Y outside of Y's, then Y arrives last after X did; a
circle of that has no last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from cobweb.engine._needs import Wanted
from cobweb.engine.analysis._circles import circles, reached
from cobweb.engine.analysis._patterns import Pattern, Patterns, Positions
from cobweb.engine.analysis._reach import Reach
from cobweb.errors import Place
from cobweb.model import Cob, CobId, CobType, Graph, LockNeed, State, Transition

MAX_HELD_TOGETHER = 1000
"""How many locks of one step are followed through lock dependencies before the search gives up."""

_Lock = tuple[CobId, State]
_ByType = Callable[[CobType], State]


class TroubleKind(StrEnum):
    """Why something can never work."""

    STATE = "state"  # a need names a state that the type does not have
    SELF = "self"  # an object needs itself
    CONTRADICTION = "contradiction"  # one step or lock needs two states of one object at once
    NO_WAY = "no-way"  # no way leads to a state that must be reached
    CIRCLE = "circle"  # objects wait for each other in a circle
    PUSH = "push"  # preferences push each other out for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleLink:
    """One step of a circle: `cob` can't do `step` without `on` in `state`."""

    cob: CobId
    step: str
    on: CobId
    state: State
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.cob}: {self.step} needs {self.on} {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that can never work; `cycle` is printed one line per link, `place` the first's."""

    kind: TroubleKind
    cobs: tuple[CobId, ...]
    message: str
    cycle: tuple[TroubleLink, ...] = ()
    place: Place | None = None

    def __str__(self) -> str:
        return "\n  ".join([self.message, *(str(link) for link in self.cycle)])


def analyse(graph: Graph) -> tuple[Trouble, ...]:
    """Return all that can never work, each with its cycle; about linear in the needs."""
    graph = as_wanted(graph)
    patterns = Patterns(graph)
    broken = tuple(_broken_needs(graph, patterns))
    if broken:
        return broken
    analysis = _Analysis(graph, patterns)
    twisted = tuple(analysis.contradictions())
    if twisted:
        return twisted
    preferred = attrgetter("preferred")
    found = [
        *analysis.unreachable("to bring everything up", attrgetter("remove"), preferred),
        *analysis.unreachable("to remove everything", preferred, _removable),
    ]
    distinct = {(trouble.kind, trouble.cobs): trouble for trouble in reversed(found)}
    return (*reversed(distinct.values()), *analysis.pushes())


def as_wanted(graph: Graph) -> Graph:
    """Return a graph in which what objects want is what their types prefer.

    Objects that want the same share a type, as patterns ask for.
    """
    kinds: dict[tuple[int, State], CobType] = {}
    cobs: dict[CobId, Cob] = {}
    for cob in graph.cobs.values():
        if cob.want:
            key = (id(cob.type), cob.want)
            if key not in kinds:
                kinds[key] = replace(cob.type, preferred=cob.want)
            cobs[cob.id] = replace(cob, type=kinds[key])
    return replace(graph, cobs={**graph.cobs, **cobs}) if cobs else graph


def _removable(kind: CobType) -> State:
    """Return the `remove` state where the type has a way to it: without, it is never removed."""
    return kind.remove if kind.way(kind.preferred, kind.remove) is not None else kind.preferred


def _broken_needs(graph: Graph, patterns: Patterns) -> Iterator[Trouble]:
    sound = all(
        on.knows(need.state)
        for pattern in patterns.all()
        for need, on in zip(pattern.needs, pattern.ons, strict=True)
    )
    for need in graph.needs:
        if need.cob == need.on:
            message = f"{need.cob} needs itself"
            kind = TroubleKind.SELF
        elif not sound and not graph.cobs[need.on].type.knows(need.state):
            on = graph.cobs[need.on].type
            message = f"{need.cob} needs {need.on} {need.state}, a state that {on.name} lacks"
            kind = TroubleKind.STATE
        else:
            continue
        yield Trouble(kind=kind, cobs=(need.cob,), message=message, place=need.place)


class _Analysis:
    """One graph under analysis."""

    def __init__(self, graph: Graph, patterns: Patterns) -> None:
        self.graph = graph
        self.patterns = patterns
        self._together: dict[Wanted, dict[CobId, list[State]] | None] = {}

    def contradictions(self) -> Iterator[Trouble]:
        """Find steps whose locks can never be held together."""
        risky = {pattern: self._risky_steps(pattern) for pattern in self.patterns.all()}
        for cob, pattern in self.patterns.having(risky.get).items():
            for step in risky[pattern]:
                wanted = self.patterns.of_step(cob, step.source, step.dest)
                clash = self._clash(cob, wanted)
                if clash:
                    yield Trouble(
                        kind=TroubleKind.CONTRADICTION,
                        cobs=(cob,),
                        message=f"{cob}: {step} can never run: {clash}",
                        place=self._place(cob, str(step), wanted[0]),
                    )

    def unreachable(self, aim: str, start: _ByType, goal: _ByType) -> Iterator[Trouble]:
        """Find the circles and missing ways that keep objects from their goal."""
        cobs = self.graph.cobs
        left = _unproven(self.graph, self.patterns, start, goal)
        if not left:
            return
        needs = self.patterns.needs
        involved = reached(left, lambda cob: (need.on for need in needs.get(cob, ())))
        starts = {cob: start(cobs[cob].type) for cob in sorted(involved)}
        reach = Reach(self.graph, self.patterns, starts)
        seen: set[CobId] = set()
        for cob in sorted(left):
            if (cob, goal(cobs[cob].type)) not in reach.reached and cob not in seen:
                trouble = _Walk(self, reach, starts, seen).follow(cob, goal(cobs[cob].type), aim)
                if trouble is not None:
                    yield trouble

    def pushes(self) -> Iterator[Trouble]:
        """Find circles of preferences in which no object can be the last to arrive."""
        pushing = self.patterns.having(lambda it: it.asks_away(range(len(it.needs))))
        edges = {cob: edge for cob in pushing if (edge := self._arrives_before(cob))}
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
            wanted = self.patterns.of_step(cob, step.source, step.dest)
            kinds = ((on, state, self.graph.cobs[on].type) for on, state in wanted)
            out = ((on, state) for on, state, it in kinds if it.preferred not in it.members(state))
            away = {on: (str(step), state) for on, state in out}
            common = away if common is None else {on: common[on] for on in common if on in away}
        return common or {}

    def _risky_steps(self, pattern: Pattern) -> tuple[Transition, ...]:
        """Return the steps that ask for different states, or for one that has locks behind it."""
        return tuple(
            step
            for step in pattern.type.transitions
            if (pairs := pattern.pairs(pattern.of_step(step.source, step.dest)))
            and (len({state for _, state in pairs}) > 1 or pairs & self.patterns.leaning)
        )

    def _clash(self, cob: CobId, wanted: Wanted) -> str:
        """Say why a set of locks can't be held while `cob` moves, or "".

        What many objects ask for alike (a join of many others) is held together once for all of
        them; beside it are leaves, which have no locks behind them.
        """
        deep = tuple(pair for pair in wanted if self._has_locks(*pair))
        leaves = {on: [state] for on, state in wanted if (on, state) not in deep}
        if len(leaves) + len(deep) == len(wanted) and cob not in leaves:
            if deep not in self._together:
                clash, held = self._held("", deep)
                self._together[deep] = None if clash else held
            together = self._together[deep]
            # each leaf is among these with the same need only, or not at all
            if (
                together is not None
                and cob not in together
                and all(together.get(on, names) == names for on, names in leaves.items())
            ):
                return ""
        return self._held(cob, wanted)[0]

    def _has_locks(self, on: CobId, state: State) -> bool:
        """Say whether an object in a state, or in one of a group, may hold locks of its own."""
        pattern = self.patterns.of(on)
        members = self.graph.cobs[on].type.members(state)
        return pattern is not None and any(map(pattern.of_state, members))

    def _held(self, cob: CobId | str, wanted: Wanted) -> tuple[str, dict[CobId, list[State]]]:
        """Return why locks can't be held while `cob` moves ("" if they can), and all held."""
        held: dict[CobId, list[State]] = {}
        stack = list(reversed(wanted))
        while stack and len(held) < MAX_HELD_TOGETHER:
            on, state = stack.pop()
            if on == cob:
                return f"its locks need {cob} itself to stay {state}", {}
            names = held.setdefault(on, [])
            before = _possible(self.graph.cobs[on].type, names)
            names.append(state)
            left = _possible(self.graph.cobs[on].type, names)
            if not left:
                return f"it needs {on} {_listed(names)}", {}
            if len(left) == 1 and left != before:
                stack.extend(reversed(self.patterns.of_state(on, left[0])))
        return "", held

    def _place(self, cob: CobId, step: str, pair: tuple[CobId, State]) -> Place | None:
        """Look the need up again: only for what is printed."""
        source, arrow, dest = step.partition(" -> ")
        found = (
            need.place
            for need in self.patterns.needs[cob]
            if (need.on, need.state) == pair
            and isinstance(need, LockNeed) != bool(arrow)
            and (need.covers(step) if isinstance(need, LockNeed) else need.covers(source, dest))
        )
        return next(found, None)


@dataclass(slots=True)
class _Walk:
    """From an unreached goal along what it lacks, to a circle or a missing way."""

    _analysis: _Analysis
    _reach: Reach
    _starts: Mapping[CobId, State]
    _seen: set[CobId]

    def follow(self, cob: CobId, state: State, aim: str) -> Trouble | None:
        """Return the circle or the missing way; None where it was reported before."""
        links, mine = list[TroubleLink](), set[CobId]()  # mine may be passed in another state too
        at: dict[tuple[CobId, State], int] = {}
        while (cob, state) not in at:
            at[cob, state] = len(links)
            lock = (cob, state) in self._reach.reached
            if not lock and cob not in mine:
                if cob in self._seen:
                    return None
                self._seen.add(cob)
                mine.add(cob)
            link = self._lacking(cob, state, lock=lock)
            if link is None:
                return self._missing_way(cob, state, links)
            links.append(link)
            cob, state = link.on, self._concrete(link.on, link.state)
        circle = links[at[cob, state] :]
        first = circle.index(min(circle, key=attrgetter("cob", "step")))
        cycle = (*circle[first:], *circle[:first])  # the same circle is always told the same way
        cobs = tuple(link.cob for link in cycle)
        message = f"objects wait for each other in a circle, {aim}"
        return Trouble(
            kind=TroubleKind.CIRCLE, cobs=cobs, message=message, cycle=cycle, place=cycle[0].place
        )

    def _concrete(self, cob: CobId, name: str) -> State:
        """Return the state of a group that is told of: one that is reached, else the nearest."""
        kind = self._analysis.graph.cobs[cob].type
        reached = (state for state in kind.members(name) if (cob, state) in self._reach.reached)
        return next(reached, kind.stands_for(name, self._starts[cob]))

    def _lacking(self, cob: CobId, state: State, *, lock: bool) -> TroubleLink | None:
        """Return what stops a lock on a state, or the first blocked step of the way to it."""
        patterns, kind = self._analysis.patterns, self._analysis.graph.cobs[cob].type
        steps = () if lock else kind.way(self._starts[cob], state) or ()
        asked = [(str(it), patterns.of_step(cob, it.source, it.dest)) for it in steps]
        links = (
            self._analysis.link(cob, label, need)
            for label, wanted in ([(state, patterns.of_state(cob, state))] if lock else asked)
            if (need := self._reach.lacks(wanted))
        )
        return next(links, None)

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


def _unproven(graph: Graph, patterns: Patterns, start: _ByType, goal: _ByType) -> set[CobId]:
    """Return the objects that are not shown to reach the goal of their type from its start."""
    search = _Prospects(graph, patterns, start)
    types = {id(cob.type): cob.type for cob in graph.cobs.values()}
    lost = {key for key, kind in types.items() if kind.way(start(kind), goal(kind)) is None}
    left = {cob for cob, it in graph.cobs.items() if id(it.type) in lost} if lost else set()
    for cob in patterns.having(lambda pattern: search.positions(pattern, goal(pattern.type)) != ()):
        if not search.proves(cob, goal(graph.cobs[cob].type)):
            left.add(cob)
    return left


class _Prospects:
    """Which objects are sure to reach their goal, by the shortest way and what it needs alone.

    An object reaches a state if there is a way to it, and all that the steps of the shortest way
    and the locks of the state need reaches its state too, without coming back to where the question
    began. That is a proof where it holds; where it does not, a longer way may still do, and
    `_reach` looks into it. In a site that works nothing is left over, and it costs one look at each
    need. Depth first, without recursion; what is under way counts as not proven.
    """

    def __init__(self, graph: Graph, patterns: Patterns, start: _ByType) -> None:
        self._cobs = graph.cobs
        self._patterns = patterns
        self._start = start
        self._proven: dict[_Lock, bool] = {}
        self._positions: dict[tuple[Pattern, State], Positions | None] = {}

    def positions(self, pattern: Pattern, state: State) -> Positions | None:
        """Return which needs lead to a state and hold there; None where there is no way to it."""
        key = (pattern, state)
        if key not in self._positions:
            way = pattern.type.way(self._start(pattern.type), state)
            steps = [] if way is None else [pattern.of_step(s.source, s.dest) for s in way]
            found = {at for positions in (*steps, pattern.of_state(state)) for at in positions}
            self._positions[key] = None if way is None else tuple(sorted(found))
        return self._positions[key]

    def proves(self, cob: CobId, state: State) -> bool:
        """Say whether the state is sure to be reached and lent."""
        root = (cob, state)
        if root in self._proven:
            return self._proven[root]
        self._proven[root] = False
        stack = [(root, self._needed(root))] if self._has_way(root) else []
        while stack:
            lock, rest = stack[-1]
            ahead = next((after for after in rest if not self._proven.get(after)), None)
            if ahead is None:
                self._proven[lock] = True
                stack.pop()
            elif ahead in self._proven or not self._has_way(ahead):
                return False  # and so does all on the stack, which needs it
            else:
                self._proven[ahead] = False
                stack.append((ahead, self._needed(ahead)))
        return self._proven[root]

    def _has_way(self, lock: _Lock) -> bool:
        kind = self._cobs[lock[0]].type
        return kind.way(self._start(kind), lock[1]) is not None

    def _needed(self, lock: _Lock) -> Iterator[_Lock]:
        cob, state = lock
        pattern = self._patterns.of(cob)
        if pattern is not None:
            needs, positions = self._patterns.needs[cob], self.positions(pattern, state) or ()
            for on, name in ((needs[at].on, needs[at].state) for at in positions):
                kind = self._cobs[on].type  # of a group, its nearest state is asked for at first
                yield on, kind.stands_for(name, self._start(kind)) if kind.groups else name


def _possible(kind: CobType, names: Sequence[str]) -> tuple[State, ...]:
    """Return the states in which all of some needs for one object are met; () for no needs."""
    return tuple(
        state
        for state in (kind.members(names[0]) if names else ())
        if all(state in kind.members(name) for name in names)
    )


def _listed(names: Sequence[str]) -> str:
    """Return the states and groups that one object is needed in, of which the last is too many."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 2:  # noqa: PLR2004 - a pair
        return f"both {distinct[0]} and {distinct[1]}"
    return f"{', '.join(distinct[:-1])} and {distinct[-1]} at once"
