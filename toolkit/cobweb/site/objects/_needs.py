"""From `after`, `requires`, `binds`, `stops` and explicit needs to needs between instances.

A link is a set of needs between two definitions. It is expanded for the instances that are wanted:
all of them, or those that can be reached over needs from a few hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, repeat
from typing import NamedTuple, Protocol

from cobweb.errors import Place
from cobweb.model import ANY, CobId, CobType, LockNeed, Need, State, TransitionNeed, cob_id
from cobweb.site.objects._bulk import make_all
from cobweb.site.objects._cobs import CobDef

APPLIED = ("outdated", "broken")
"""The states that `binds` and `stops` speak of, for the types that have them.

What is applied and not as it should be is changed or restarted on the way out of these: an older
content gives way in both, for what does not work may have a new content, too.
"""

BACK_WORDS = frozenset({"requires", "binds", "stops"})
"""The words that give the referenced side a need on the referring one, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A need without its instances.

    (source, dest) of the needing side for a transition dependency, or `dest` None for a lock
    dependency in `source`. `back` turns it round: the referenced side needs the referring one.
    """

    source: State
    dest: State | None
    state: State
    back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The needs of one reference; `hosts` is None for the same host."""

    source: str
    target: str
    hosts: Mapping[str, None] | None
    shapes: tuple[Shape, ...]
    place: Place


class Varying(Protocol):
    """A reference that depends on the dependent's host."""

    source: str
    target: str | None
    back: bool

    def link(self, host: str) -> Link | None:
        """Return the link of the dependent on `host`; None where the reference is wrong."""


def has_step(cob_type: CobType, pair: tuple[State, State]) -> bool:
    """Say whether a transition, whose states may be `*`, is in the matrix of a type."""
    return any(
        pair[0] in (ANY, step.source) and pair[1] in (ANY, step.dest)
        for step in cob_type.transitions
    )


def word_shapes(word: str, one: CobType, other: CobType) -> tuple[Shape, ...]:
    """Return the needs that a word stands for (design, section 3); `one` refers to `other`."""
    after = Shape(source=ANY, dest=one.preferred, state=other.preferred)
    held = Shape(source=ANY, dest=other.remove, state=one.remove, back=True)
    if word == "after":
        return (after,)
    if word == "requires":
        return (after, held)
    if word == "binds":
        lock = Shape(source=one.preferred, dest=None, state=other.preferred)
        return (after, held, lock, *_changes(other, one.remove, back=True))
    assert word == "stops"
    started = Shape(source=ANY, dest=other.preferred, state=one.preferred, back=True)
    return (*_changes(one, other.remove, back=False), started)


def _changes(kind: CobType, state: State, *, back: bool) -> tuple[Shape, ...]:
    """Return what an object of a type needs of another one before it is changed."""
    return tuple(
        Shape(source=source, dest=ANY, state=state, back=back)
        for source in APPLIED
        if source in kind.states
    )


_Head = tuple[str, State, State]
"""Kind, source or state, destination or nothing: by this needs of one object are sorted first."""

_LOCK, _TRANSITION = "lock", "transition"

_Row = tuple[_Head, CobId, State, Place]
"""A need without its owner."""


class Reached(NamedTuple):
    """What needs lead to: (host, name) by id, and the needs; both in the order of their ids."""

    instances: dict[CobId, tuple[str, str]]
    needs: tuple[Need, ...]


class Expansion:
    """Expands links for the instances that are asked for and all that their needs lead to."""

    def __init__(
        self, defs: Mapping[str, CobDef], links: Sequence[Link], varying: Sequence[Varying] = ()
    ) -> None:
        self.defs = defs
        self._links = links
        self.out: dict[str, list[Link]] = {name: [] for name in defs}
        self.back: dict[str, list[Link]] = {name: [] for name in defs}
        for link in links:
            if any(not shape.back for shape in link.shapes):
                self.out[link.source].append(link)
            if any(shape.back for shape in link.shapes):
                self.back[link.target].append(link)
        self.varying: dict[str, list[Varying]] = {name: [] for name in defs}
        self._varying = varying
        for each in varying:
            self.varying[each.source].append(each)
        self.turned = [_Turned(each, defs) for each in varying if each.back]

    def reach(self, seeds: Mapping[str, Iterable[str]]) -> Reached:
        """Return what the instances of `seeds` (name -> hosts) need, directly or over others."""
        return _Search(self).run(seeds)

    def tied(self, names: Iterable[str], hosts: AbstractSet[str]) -> list[str]:
        """Return `names` and those that needs may tie to them on one of `hosts`.

        That is more than there are ties where only the host tells what a reference refers to.
        """
        beside: dict[str, set[str]] = {}
        for source, target in self._pairs(hosts):
            beside.setdefault(source, set()).add(target)
            beside.setdefault(target, set()).add(source)
        found = dict.fromkeys(names)
        queue = list(found)
        for name in queue:  # it grows
            new = sorted(beside.get(name, set()) - found.keys())
            found.update(dict.fromkeys(new))
            queue += new
        return queue

    def _pairs(self, hosts: AbstractSet[str]) -> Iterator[tuple[str, str]]:
        """Yield the names that needs may join on one of `hosts`."""
        for link in self._links:
            if link.hosts is None or not hosts.isdisjoint(link.hosts):
                yield link.source, link.target
        for varying in self._varying:
            if varying.target is not None:
                yield varying.source, varying.target
                continue
            for host in self.defs[varying.source].host_set & hosts:
                link_here = varying.link(host)
                if link_here is not None:
                    yield varying.source, link_here.target


class _Search:
    """One search, breadth first, for many hosts of one name at a time."""

    def __init__(self, expansion: Expansion) -> None:
        self._expansion = expansion
        self._found: dict[str, dict[str, CobId]] = {name: {} for name in expansion.defs}
        self._queue: list[tuple[str, list[str]]] = []
        self._rows: dict[CobId, list[_Row]] = {}
        self._targets: dict[int, list[CobId]] = {}

    def run(self, seeds: Mapping[str, Iterable[str]]) -> Reached:
        for name, hosts in seeds.items():
            self._ids(name, hosts)
        for name, hosts in self._queue:  # it grows
            self._forward(name, hosts)
            self._backward(name, hosts)
            self._add_machines(name, hosts)
        instances = self._instances()
        return Reached(instances, _needs(instances, self._rows))

    def _ids(self, name: str, hosts: Iterable[str]) -> list[CobId]:
        """Return the ids of instances; those that are new are looked at later."""
        known = self._found[name]
        new = [host for host in hosts if host not in known]
        if new:
            known.update((host, cob_id(host, name)) for host in new)
            self._queue.append((name, new))
        return [known[host] for host in hosts]

    def _add_machines(self, name: str, hosts: list[str]) -> None:
        """Add what instances are on: whether that is there says what is believed of them."""
        machine = self._expansion.defs.get(self._expansion.defs[name].machine)
        if machine is not None:
            self._ids(machine.name, [host for host in hosts if host in machine.host_set])

    def _forward(self, name: str, hosts: list[str]) -> None:
        for link in self._expansion.out[name]:
            self._follow(link, hosts)
        for varying in self._expansion.varying[name]:
            for host in hosts:
                link_here = varying.link(host)
                if link_here is not None:
                    self._follow(link_here, [host])

    def _follow(self, link: Link, hosts: list[str]) -> None:
        """Add what instances of the referring side need."""
        heads = _heads(link, back=False)
        if not heads:
            return
        own = self._found[link.source]
        if link.hosts is None:
            there = self._expansion.defs[link.target].host_set
            hosts = [host for host in hosts if host in there]
            for host, on in zip(hosts, self._ids(link.target, hosts), strict=True):
                self._add(own[host], (on,), heads, link.place)
            return
        if id(link) not in self._targets:
            self._targets[id(link)] = self._ids(link.target, link.hosts)
        for host in hosts:
            self._add(own[host], self._targets[id(link)], heads, link.place)

    def _backward(self, name: str, hosts: list[str]) -> None:
        """Add what instances of the referenced side need."""
        own = self._found[name]
        for link in self._expansion.back[name]:
            source = self._expansion.defs[link.source]
            heads = _heads(link, back=True)
            for host in hosts:
                if link.hosts is None:
                    sources: Sequence[str] = (host,) if host in source.host_set else ()
                else:
                    sources = source.hosts if host in link.hosts else ()
                self._add(own[host], self._ids(link.source, sources), heads, link.place)
        for turned in self._expansion.turned:
            for host in hosts:
                for other, link in turned.sources(host, name):
                    (on,) = self._ids(link.source, (other,))
                    self._add(own[host], (on,), _heads(link, back=True), link.place)

    def _add(
        self, cob: CobId, others: Iterable[CobId], heads: Sequence[tuple[_Head, State]], at: Place
    ) -> None:
        if rows := [(head, on, state, at) for on in others if on != cob for head, state in heads]:
            self._rows.setdefault(cob, []).extend(rows)

    def _instances(self) -> dict[CobId, tuple[str, str]]:
        """Return all that was found in the order of the ids, without sorting half a million."""
        names: dict[str, list[str]] = {}
        for name in sorted(self._found):
            for host in self._found[name]:
                names.setdefault(host, []).append(name)
        return {
            self._found[name][host]: (host, name)
            # as ids are sorted: `app-1/x` stands before `app/x`
            for host in sorted(names, key=lambda host: f"{host}/")
            for name in names[host]
        }


class _Turned:
    """A varying reference seen from what it refers to; all its hosts are looked at when needed."""

    def __init__(self, varying: Varying, defs: Mapping[str, CobDef]) -> None:
        self._varying = varying
        self._defs = defs

    def sources(self, host: str, name: str) -> Sequence[tuple[str, Link]]:
        """Return the hosts of the dependents that refer to this instance, each with its link."""
        if self._varying.target not in (None, name):
            return ()
        return self._index.get((host, name), ())

    @cached_property
    def _index(self) -> dict[tuple[str, str], list[tuple[str, Link]]]:
        index: dict[tuple[str, str], list[tuple[str, Link]]] = {}
        for source in self._defs[self._varying.source].hosts:
            link = self._varying.link(source)
            if link is not None and _heads(link, back=True):
                for host in (source,) if link.hosts is None else link.hosts:
                    index.setdefault((host, link.target), []).append((source, link))
        return index


def _heads(link: Link, *, back: bool) -> list[tuple[_Head, State]]:
    return [
        (
            (_LOCK if shape.dest is None else _TRANSITION, shape.source, shape.dest or ""),
            shape.state,
        )
        for shape in link.shapes
        if shape.back == back
    ]


def _needs(cobs: Iterable[CobId], rows: Mapping[CobId, list[_Row]]) -> tuple[Need, ...]:
    """Return the needs in order; of those written twice the place that was found first."""
    owners: list[CobId] = []
    ordered: list[_Row] = []
    for cob in cobs:
        own = rows.get(cob, ())
        if len(own) > 1:
            first = {row[:3]: row for row in reversed(own)}
            own = [first[key] for key in sorted(first)]
        owners.extend(repeat(cob, len(own)))
        ordered.extend(own)
    locks = [row[0][0] == _LOCK for row in ordered]
    made = (_made(TransitionNeed, owners, ordered, locks), _made(LockNeed, owners, ordered, locks))
    return tuple(next(made[is_lock]) for is_lock in locks)


def _made(
    kind: type[Need], owners: list[CobId], rows: list[_Row], locks: list[bool]
) -> Iterator[Need]:
    """Return an iterator over the needs of one kind."""
    mine = locks if kind is LockNeed else [not is_lock for is_lock in locks]
    rows, owners = list(compress(rows, mine)), list(compress(owners, mine))
    columns: dict[str, Iterable[object]] = {"cob": owners}
    if kind is LockNeed:
        columns |= {"within": [row[0][1] for row in rows]}
    else:
        columns |= {"source": [row[0][1] for row in rows], "dest": [row[0][2] for row in rows]}
    columns |= {
        "on": [row[1] for row in rows],
        "state": [row[2] for row in rows],
        "place": [row[3] for row in rows],
    }
    return iter(make_all(kind, len(rows), **columns))
