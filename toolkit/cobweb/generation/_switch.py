"""In which order hosts may switch to a new generation (COB paper, section 5.6).

Removed objects go to their `remove` state under the needs of the old generation. What they need on
the way stands, perhaps, on hosts that would forget it when they switch: so "the dependency graphs
are backtracked in order to find out the order in which hosts may change to a new generation", and
"it is possible that some hosts can only change the generation together at the same time".

Theory. A removed object r goes to `remove` by itself, so it needs what the steps on that way ask
for. To ask for an object o in a state z is to need what o's steps on its way to z ask for (from
whatever state it is in) and what lending z asks for. Where z is a group of states, that is what the
steps on its way to the nearest of them ask for, and what lending any of them does; and where o is
needed in several groups at once, their common states may be asked for as well. All pairs (o, z)
that are found from r in this way are what r needs, and nothing else is asked for while it goes. So
r's host switches before or together with the host of each of them. With an edge from r's host to
the pairs that it asks for, from pair to pair, and from a pair to its object's host, one host must
not be later than another one exactly if a path leads there: hosts in a circle switch together, and
the rest is an order. That is linear in objects and needs, where the plain relation between hosts is
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import product

from cobweb.model import ANY, CobId, CobType, Graph, LockNeed, State, TransitionNeed, host_of

_Pair = tuple[CobId, State]
"""An object that is asked to be in a state, or in one of a group."""

_Node = str | _Pair
"""A host, or a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Hosts, sorted, that switch together, when all steps `after` (earlier numbers) are done.

    A step without hosts is a join: it is done when those that it is after are, and stands for them
    where many wait for the same many.
    """

    hosts: tuple[str, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchingOrder:
    """The hosts of removed objects, and those of all that these need, in the order of switching.

    `steps` are numbered by their place; of several that may come next, the one whose first host is
    the smallest does. `reached` are the removed objects and all that they can ask for. Hosts that
    stand in no step may switch at any time.
    """

    steps: tuple[Switch, ...] = ()
    reached: frozenset[CobId] = frozenset()

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The hosts that switch together, group by group, first first."""
        return tuple(step.hosts for step in self.steps if step.hosts)

    def held(self, missing: AbstractSet[CobId]) -> dict[str, CobId]:
        """Return the hosts that must not switch, each with a missing removed object that says so.

        `missing` are the removed objects that do not rest in their `remove` state: that are
        elsewhere, or asked to be, or have something in flight. The object named is the smallest one
        of the host's own group, else one of a group that must be earlier. Linear in the steps.
        """
        first: dict[str, CobId] = {}
        for cob in sorted(missing):
            first.setdefault(host_of(cob), cob)
        holders: list[CobId | None] = []
        for step in self.steps:
            own = [first[host] for host in step.hosts if host in first]
            before = (holders[number] for number in step.after)
            holders.append(min(own) if own else next(filter(None, before), None))
        return {
            host: holder
            for step, holder in zip(self.steps, holders, strict=True)
            if holder is not None
            for host in step.hosts
        }


def switching_order(graph: Graph, removed: AbstractSet[CobId]) -> SwitchingOrder:
    """Return the order of switching when `removed` are taken out of `graph`, the old one.

    The same for any order of objects and needs, and whatever states they are in. Linear in the
    needs, but for the sorting. ValueError for removed objects that the graph has not.
    """
    if foreign := removed - graph.cobs.keys():
        raise ValueError(f"{min(foreign)} is not in the graph that it is removed from")
    net = _Net(graph, removed)
    return SwitchingOrder(
        steps=tuple(_steps(net)),
        reached=frozenset(removed) | {node[0] for node in net.nodes if isinstance(node, tuple)},
    )


class _Net:
    """The hosts and pairs that removed objects lead to, by number, and the edges between them."""

    def __init__(self, graph: Graph, removed: AbstractSet[CobId]) -> None:
        self.nodes: list[_Node] = []
        self.edges: list[list[int]] = []
        self._numbers: dict[_Node, int] = {}
        asks = _Asks(graph)
        for cob in sorted(removed):
            host = self._number(host_of(cob))
            remove = graph.cobs[cob].type.remove
            self.edges[host] += map(self._number, asks.of_way(cob, remove))
        for number, node in enumerate(self.nodes):  # which grows as pairs are found
            if isinstance(node, tuple):
                found: list[_Node] = [host_of(node[0]), *asks.of_way(*node), *asks.of_state(*node)]
                self.edges[number] += map(self._number, found)
        self.parts = _parts(self.edges)

    def _number(self, node: _Node) -> int:
        number = self._numbers.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
            self.edges.append([])
        return number


class _Asks:
    """What an object asks of others, looked up by object."""

    def __init__(self, graph: Graph) -> None:
        self._cobs = graph.cobs
        self._of_steps: dict[CobId, list[TransitionNeed]] = {}
        self._of_states: dict[CobId, list[LockNeed]] = {}
        for need in graph.needs:
            if isinstance(need, LockNeed):
                self._of_states.setdefault(need.cob, []).append(need)
            else:
                self._of_steps.setdefault(need.cob, []).append(need)
        self._known: dict[tuple[int, State], frozenset[tuple[State, State]]] = {}
        kinds = {id(cob.type): cob.type for cob in graph.cobs.values()}
        self._grouped = any(kind.groups for kind in kinds.values())

    def of_way(self, cob: CobId, state: State) -> list[_Pair]:
        """Return what the steps towards a state or group ask for, from wherever the object is."""
        needs = self._of_steps.get(cob)
        if not needs:
            return []
        towards = self._towards(self._cobs[cob].type, state)
        asked = [(need.on, need.state) for need in needs if (need.source, need.dest) in towards]
        return self._with_common(asked) if self._grouped else asked

    def of_state(self, cob: CobId, state: State) -> list[_Pair]:
        """Return what the object asks for before it lends a state, or any of a group."""
        needs = self._of_states.get(cob, ())
        if not self._grouped:
            return [(need.on, need.state) for need in needs if need.covers(state)]
        members = self._cobs[cob].type.members(state)
        asked = [(need.on, need.state) for need in needs if any(map(need.covers, members))]
        return self._with_common(asked)

    def _with_common(self, asked: list[_Pair]) -> list[_Pair]:
        """Add the states that stand for several groups of one object at once."""
        found: dict[CobId, Counter[State]] = {}
        for on, name in dict.fromkeys(asked):
            found.setdefault(on, Counter()).update(self._cobs[on].type.members(name))
        common = [(on, state) for on, states in found.items() for state in states]
        return asked + [(on, state) for on, state in common if found[on][state] > 1]

    def _towards(self, kind: CobType, state: State) -> frozenset[tuple[State, State]]:
        """Return the first steps of the ways to a state, in all forms that a need has for them.

        Those to a group are the ways to the state of it that is the nearest one to the start.
        """
        key = (id(kind), state)
        if key not in self._known:
            ways = (kind.way(start, kind.stands_for(state, start)) for start in kind.states)
            steps = [way[0] for way in ways if way]
            self._known[key] = frozenset(
                form for step in steps for form in product((step.source, ANY), (step.dest, ANY))
            )
        return self._known[key]


def _steps(net: _Net) -> Iterator[Switch]:
    """Yield the parts with hosts in order, and the joins that are needed between them.

    A part of pairs alone that is after one step only, or after the same ones as another part, is no
    step of its own: what comes after it is after that one.
    """
    parts = [_Part(net.nodes[node] for node in part) for part in net.parts]
    _link(net, parts)
    ready = [part for part in parts if not part.missing]
    heapify(ready)
    joins: dict[tuple[int, ...], int] = {}
    count = 0
    while ready:
        part = heappop(ready)
        after = tuple(sorted(part.after))
        if part.hosts:
            number = count
        else:
            number = after[0] if len(after) == 1 else joins.setdefault(after, count)
        if number == count:
            count += 1
            yield Switch(hosts=part.hosts, after=after)
        for later in part.later:
            later.after.add(number)
            later.missing -= 1
            if not later.missing:
                heappush(ready, later)


class _Part:
    """Nodes in a circle: its hosts, the parts later than it, how many it waits for, which steps."""

    __slots__ = ("_rank", "after", "hosts", "later", "missing")

    def __init__(self, nodes: Iterable[_Node]) -> None:
        known = sorted(nodes, key=lambda node: (isinstance(node, tuple), node))
        self.hosts = tuple(node for node in known if isinstance(node, str))
        self.later: list[_Part] = []
        self.missing = 0
        self.after: set[int] = set()
        self._rank = (bool(self.hosts), known[0])

    def __lt__(self, other: _Part) -> bool:
        return self._rank < other._rank  # joins first, then by the first host


def _link(net: _Net, parts: Sequence[_Part]) -> None:
    """Tell each part which ones are later, once for each edge between the two."""
    part_of = {node: part for part, nodes in zip(parts, net.parts, strict=True) for node in nodes}
    for node, edges in enumerate(net.edges):
        part = part_of[node]
        for after in edges:
            later = part_of[after]
            if later is not part:
                part.later.append(later)
                later.missing += 1


def _parts(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the strongly connected parts (Tarjan 1972, without recursion); linear.

    `low` is the lowest place among the opened nodes that a node is known to lead to: 0 before it
    is seen, and above all places when its part is closed. `~node` on the stack means: leave it.
    """
    closed = len(edges) + 1
    low, places = [0] * len(edges), [0] * len(edges)
    parts: list[list[int]] = []
    opened: list[int] = []
    todo = list(range(len(edges)))
    while todo:
        node = todo.pop()
        if node < 0:
            node = ~node
            low[node] = min([low[node], *(low[after] for after in edges[node])])
            if low[node] == places[node]:
                part = opened[places[node] - 1 :]
                del opened[places[node] - 1 :]
                parts.append(part)
                for member in part:
                    low[member] = closed
        elif not low[node]:
            opened.append(node)
            low[node] = places[node] = len(opened)
            todo.append(~node)
            todo += [after for after in edges[node] if not low[after]]
    return parts
