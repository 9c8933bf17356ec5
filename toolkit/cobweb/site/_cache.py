"""A site that was evaluated before and has not changed since: what it says without evaluating it.

Three entries: under the base key what the disk said at that time with the site's head, under the
site's key its graph, and under the place's key nothing at all: it says that there is one.
The first is good only while the disk still says the same.
A graph as bytes and back: columns of numbers into tables of what occurs, so that it is quick.

Half a million objects differ in their ids and in little else: types, places and specs are written
once each, needs as numbers of objects. The form is private to one version of Cobweb and of Python
(the key of what is kept has both); only what the user's own cache holds is ever read.
"""

from __future__ import annotations

import marshal
import pickle
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cobweb._cache import Cache
from cobweb._garbage import no_collections
from cobweb.errors import Place
from cobweb.model import (
    Budget,
    Cob,
    CobId,
    CobType,
    Graph,
    Limit,
    LimitGroup,
    LockNeed,
    TransitionNeed,
    Unit,
)
from cobweb.site._key import place_key, site_key
from cobweb.site.objects._bulk import make_all
from cobweb.site.objects._drift import Ignored
from cobweb.site.reading._files import Files, Notes, unchanged

if TYPE_CHECKING:
    from cobweb.site._find import Foreign

_KNOWN, _SITE, _GRAPH = "known", "site", "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a site says without its objects; hosts and groups are in the inventory's order."""

    name: str
    dir: Path
    state_url: str
    types: Mapping[str, CobType]
    sections: Mapping[str, Any]
    ignored: tuple[Ignored, ...]
    releases: frozenset[str]
    hosts: tuple[str, ...] = field(repr=False)
    groups: Mapping[str, Sequence[str]] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A site as it was kept; `key` is that of its content, `notes` are what it was made from."""

    cache: Cache
    key: str
    head: Head
    notes: Notes

    def graph(self) -> Graph | None:
        """Return the whole graph; None if it is not there any more."""
        data = self.cache.get(_GRAPH, self.key)
        return None if data is None else unpack(data, self.head.types)


def find_kept(
    cache: Cache, site_file: Path, base_key: Callable[[], str], foreign: Foreign
) -> Kept | None:
    """Return the site that was kept under a base key, if nothing that it was made from differs.

    The types of plugins, which are `foreign`, are not kept. Reads every file of the site, and the
    decisions where it has any; where none was kept, neither these nor the base key, which takes a
    look at all of Cobweb's own.
    """
    if cache.get(_KNOWN, place_key(site_file)) is None:
        return None
    base = base_key()
    data = cache.get(_SITE, base)
    if data is None:
        return None
    head, notes = pickle.loads(data)  # noqa: S301  the cache is the user's own
    if head.dir != site_file.parent.resolve() or not unchanged(notes, foreign.decisions):
        return None
    whole = replace(head, types={**foreign.types, **head.types})
    return Kept(cache=cache, key=site_key(base, notes), head=whole, notes=notes)


def keep(cache: Cache, files: Files, base: str, head: Head, graph: Graph) -> None:
    """Keep a site without mistakes; `head.types` are those that the site itself defines."""
    packed = pack(graph)
    if packed is not None:
        cache.put(_GRAPH, site_key(base, files.notes), packed)
        cache.put(_SITE, base, pickle.dumps((head, dict(files.notes))))
        cache.put(_KNOWN, place_key(files.site_file), b"")


_T = TypeVar("_T")
_LINE = "\n"
"""Between ids: no name of a host or a COB holds one."""

_Columns = tuple[bytes, ...]


def pack(graph: Graph) -> bytes | None:
    """Return a graph as bytes; None for one whose specs hold other things than plain data."""
    numbers = {cob: number for number, cob in enumerate(graph.cobs)}
    types, places, specs, confirms, wants, old, trusts = (_Table() for _ in range(7))
    cobs = graph.cobs.values()
    columns = (
        _numbers(types.number(cob.type.name) for cob in cobs),
        _numbers(specs.number(id(cob.spec), cob.spec) for cob in cobs),
        _numbers(places.number(cob.place) for cob in cobs),
        _numbers(confirms.number(cob.confirm) for cob in cobs),
        _numbers(wants.number(cob.want) for cob in cobs),
        _numbers(numbers[cob.machine] if cob.machine else len(numbers) for cob in cobs),
        _numbers(int(cob.protect) for cob in cobs),
        _numbers(old.number(cob.was or "") for cob in cobs),
        _numbers(trusts.number(cob.trust_s) for cob in cobs),
    )
    heads = _Table()
    needs = (
        _numbers(numbers[need.cob] for need in graph.needs),
        _numbers(numbers[need.on] for need in graph.needs),
        _numbers(heads.number(_head(need)) for need in graph.needs),
        _numbers(places.number(need.place) for need in graph.needs),
    )
    limits = [_limit_data(limit, numbers) for limit in graph.limits]
    budgets = [_budget_data(budget, numbers) for budget in graph.budgets]
    try:
        rest = pickle.dumps((places.values, confirms.values, limits, budgets))
        ids = _LINE.join(graph.cobs)
        tables = (types.values, specs.values, wants.values, old.values, trusts.values)
        return marshal.dumps((ids, tables, columns, heads.values, needs, rest))
    except ValueError:
        return None


def unpack(data: bytes, types: Mapping[str, CobType]) -> Graph:
    """Return the graph that was packed; `types` are those of its objects by name."""
    with no_collections():
        text, tables, columns, heads, needs, rest = marshal.loads(data)  # noqa: S302  ours
        type_names, specs, wants, old, trusts = tables
        places, confirms, limits, budgets = pickle.loads(rest)  # noqa: S301  ours
        ids: list[CobId] = text.split(_LINE) if text else []
        kinds = [types[name] for name in type_names]
        cobs = make_all(
            Cob,
            len(ids),
            id=ids,
            type=_taken(kinds, columns[0]),
            spec=_taken(specs, columns[1]),
            confirm=_taken(confirms, columns[3]),
            want=_taken(wants, columns[4]),
            machine=_taken([*ids, None], columns[5]),
            protect=_taken([False, True], columns[6]),
            was=_taken([name or None for name in old], columns[7]),
            trust_s=_taken(trusts, columns[8]),
            place=_taken(places, columns[2]),
        )
        return Graph(
            cobs=dict(zip(ids, cobs, strict=True)),
            needs=tuple(_needs(ids, heads, needs, places)),
            limits=tuple(_limit(limit, ids) for limit in limits),
            budgets=tuple(_budget(budget, ids) for budget in budgets),
        )


class _Table:
    """Numbers values in the order of their first use."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, value: Any = None) -> int:
        """Return the number of `key`; `value` (default: the key) is what is written."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.values)
            self.values.append(key if value is None else value)
        return found


def _numbers(values: Iterable[int]) -> bytes:
    return array("I", values).tobytes()


def _taken(table: Sequence[_T], column: bytes) -> list[_T]:
    """Return the values that a column of numbers stands for."""
    take: Callable[[int], _T] = table.__getitem__
    return list(map(take, array("I", column)))


def _head(need: TransitionNeed | LockNeed) -> tuple[str, str | None, str]:
    if isinstance(need, LockNeed):
        return (need.within, None, need.state)
    return (need.source, need.dest, need.state)


def _needs(
    ids: list[CobId],
    heads: list[tuple[str, str | None, str]],
    columns: _Columns,
    places: list[Place | None],
) -> list[TransitionNeed | LockNeed]:
    owners, others = _taken(ids, columns[0]), _taken(ids, columns[1])
    used, at = _taken(heads, columns[2]), _taken(places, columns[3])
    if any(head[1] is None for head in heads):
        return [_need(*row) for row in zip(owners, others, used, at, strict=True)]
    return list(
        make_all(
            TransitionNeed,
            len(owners),
            cob=owners,
            source=[head[0] for head in used],
            dest=[head[1] for head in used],
            on=others,
            state=[head[2] for head in used],
            place=at,
        )
    )


def _need(
    cob: CobId, on: CobId, head: tuple[str, str | None, str], place: Place | None
) -> TransitionNeed | LockNeed:
    first, dest, state = head
    if dest is None:
        return LockNeed(cob=cob, within=first, on=on, state=state, place=place)
    return TransitionNeed(cob=cob, source=first, dest=dest, on=on, state=state, place=place)


def _limit_data(limit: Limit, numbers: Mapping[CobId, int]) -> tuple[Any, ...]:
    groups = [(group.name, _members(group.members, numbers), group.bound) for group in limit.groups]
    return (limit.name, groups, limit.source, limit.dest, limit.place)


def _limit(data: tuple[Any, ...], ids: list[CobId]) -> Limit:
    name, groups, source, dest, place = data
    made = tuple(
        LimitGroup(name=group, members=frozenset(_taken(ids, members)), bound=bound)
        for group, members, bound in groups
    )
    return Limit(name=name, groups=made, source=source, dest=dest, place=place)


def _budget_data(budget: Budget, numbers: Mapping[CobId, int]) -> tuple[Budget, Sequence[Any]]:
    """Return the units apart from a budget without them."""
    units = [
        (unit.name, _members(unit.members, numbers), unit.domains, unit.order)
        for unit in budget.units
    ]
    return (replace(budget, units=()), units)


def _budget(data: tuple[Budget, Sequence[Any]], ids: list[CobId]) -> Budget:
    budget, units = data
    made = tuple(
        Unit(name=name, members=frozenset(_taken(ids, members)), domains=domains, order=order)
        for name, members, domains, order in units
    )
    return replace(budget, units=made)


def _members(members: Iterable[CobId], numbers: Mapping[CobId, int]) -> bytes:
    return _numbers(sorted(numbers[cob] for cob in members))
