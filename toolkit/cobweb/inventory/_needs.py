"""From `after`, `requires`, `binds`, `stops` and explicit needs to needs between instances.

A link is a set of needs between two definitions. It is expanded for the instances that are wanted:
all of them, or those that can be reached over needs from a few hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cobweb.errors import Place
from cobweb.model import ANY, CobId, CobType, LockNeed, Need, State, TransitionNeed, cob_id

OUTDATED = "outdated"
"""The state that `binds` and `stops` speak of, for the types that have it."""

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


class Placed(Protocol):
    """What the expansion asks of a definition."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it is on."""

    @property
    def host_set(self) -> frozenset[str]:
        """The same as a set."""


def explicit(source: State, dest: State | None, state: State) -> Shape:
    """Return the shape of a need written out under `needs`."""
    return Shape(source=source, dest=dest, state=state)


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
        changed = Shape(source=OUTDATED, dest=ANY, state=one.remove, back=True)
        return (after, held, lock, *((changed,) if OUTDATED in other.states else ()))
    assert word == "stops"
    own = Shape(source=OUTDATED, dest=ANY, state=other.remove)
    started = Shape(source=ANY, dest=other.preferred, state=one.preferred, back=True)
    return (*((own,) if OUTDATED in one.states else ()), started)


_Key = tuple[str, str, str, str, str, str]
"""Needing id, kind, source or state, destination or nothing, needed id, state; sorted as needs."""

_Instance = tuple[str, str]
"""Host and name."""


class Expansion:
    """Expands links; what is asked for once is not worked out again."""

    def __init__(
        self, defs: Mapping[str, Placed], links: Sequence[Link], varying: Sequence[Varying] = ()
    ) -> None:
        self._defs = defs
        self._out: dict[str, list[Link]] = {name: [] for name in defs}
        self._in: dict[str, list[Link]] = {name: [] for name in defs}
        for link in links:
            if any(not shape.back for shape in link.shapes):
                self._out[link.source].append(link)
            if any(shape.back for shape in link.shapes):
                self._in[link.target].append(link)
        self._varying_out: dict[str, list[Varying]] = {name: [] for name in defs}
        for each in varying:
            self._varying_out[each.source].append(each)
        self._turned = [_Turned(each, self._targets) for each in varying if each.back]

    def reach(self, seeds: Iterable[_Instance]) -> tuple[tuple[_Instance, ...], tuple[Need, ...]]:
        """Return all (host, name) that needs of `seeds` lead to, and those needs; both sorted."""
        found = dict.fromkeys(seeds)
        queue = list(found)
        needs: dict[_Key, Place] = {}
        for host, name in queue:  # it grows
            for other, link, back in self._neighbours(host, name):
                if other not in found:
                    found[other] = None
                    queue.append(other)
                for shape in link.shapes:
                    if shape.back == back:
                        needs.setdefault(_key(host, name, other, shape), link.place)
        ordered = sorted(needs)
        instances = tuple(sorted(found, key=lambda pair: cob_id(*pair)))
        return instances, tuple(_need(key, needs[key]) for key in ordered)

    def _neighbours(self, host: str, name: str) -> Iterator[tuple[_Instance, Link, bool]]:
        """Yield the instances that one has needs on, with the link and its direction."""
        varying = (each.link(host) for each in self._varying_out[name])
        for link in (*self._out[name], *(link for link in varying if link)):
            for other in self._targets(link, host):
                if (other, link.target) != (host, name):
                    yield (other, link.target), link, False
        for link in self._in[name]:
            for other in self._sources(link, host):
                if (other, link.source) != (host, name):
                    yield (other, link.source), link, True
        for turned in self._turned:
            for other, link in turned.sources(host, name, self._defs):
                if (other, link.source) != (host, name):
                    yield (other, link.source), link, True

    def _targets(self, link: Link, host: str) -> Iterable[str]:
        if link.hosts is not None:
            return link.hosts
        return (host,) if host in self._defs[link.target].host_set else ()

    def _sources(self, link: Link, host: str) -> Iterable[str]:
        source = self._defs[link.source]
        if link.hosts is None:
            return (host,) if host in source.host_set else ()
        return source.hosts if host in link.hosts else ()


class _Turned:
    """A varying reference seen from what it refers to; all its hosts are looked at when needed."""

    def __init__(self, varying: Varying, targets: Callable[[Link, str], Iterable[str]]) -> None:
        self._varying = varying
        self._targets = targets
        self._index: dict[_Instance, list[tuple[str, Link]]] | None = None

    def sources(
        self, host: str, name: str, defs: Mapping[str, Placed]
    ) -> Sequence[tuple[str, Link]]:
        """Return the hosts of the dependents that refer to this instance, each with its link."""
        if self._varying.target not in (None, name):
            return ()
        if self._index is None:
            self._index = self._indexed(defs[self._varying.source].hosts)
        return self._index.get((host, name), ())

    def _indexed(self, hosts: Iterable[str]) -> dict[_Instance, list[tuple[str, Link]]]:
        index: dict[_Instance, list[tuple[str, Link]]] = {}
        for source in hosts:
            link = self._varying.link(source)
            if link is not None:
                for host in self._targets(link, source):
                    index.setdefault((host, link.target), []).append((source, link))
        return index


def _key(host: str, name: str, other: tuple[str, str], shape: Shape) -> _Key:
    kind = "lock" if shape.dest is None else "transition"
    on = f"{other[0]}/{other[1]}"
    return (f"{host}/{name}", kind, shape.source, shape.dest or "", on, shape.state)


def _need(key: _Key, place: Place) -> Need:
    cob, kind, source, dest, on, state = key
    if kind == "lock":
        return LockNeed(cob=CobId(cob), within=source, on=CobId(on), state=state, place=place)
    return TransitionNeed(
        cob=CobId(cob), source=source, dest=dest, on=CobId(on), state=state, place=place
    )
