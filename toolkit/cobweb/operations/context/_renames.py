"""Renames: an object of the journal that goes on under another name (`was`, design section 3).

The journal is in today's names: a rename is one entry, written when an apply begins, and it stays.
Generations are as they were written, so those that hosts stand in are read with every later rename.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cobweb.model import CobId, State
from cobweb.store import CobRenamed

if TYPE_CHECKING:
    from cobweb.operations.context._desired import Desired
    from cobweb.store import CobRecord, Store


def names_since(renames: Iterable[CobRenamed], generation: int) -> Mapping[CobId, CobId]:
    """Return today's names of objects by those that they had in a generation, if others.

    `renames` are in the order in which they happened.
    """
    names: dict[CobId, CobId] = {}
    for rename in renames:
        if rename.generation <= generation:
            continue
        first = next((old for old, new in names.items() if new == rename.old), rename.old)
        names[first] = rename.new
    return {old: new for old, new in names.items() if old != new}


def first_names(renames: Iterable[CobRenamed]) -> Mapping[CobId, CobId]:
    """Return what hosts know objects by, by today's names, where that is another name.

    Types remember on a host whose what is there is. That stays as it was when an object is renamed,
    so it keeps its first name there; who gets a name later that was given up is known by it and the
    generation in which it was. `renames` are in the order in which they happened.
    """
    names: dict[CobId, CobId] = {}
    for rename in renames:
        names[rename.new] = names.pop(rename.old, rename.old)
        names[rename.old] = CobId(f"{rename.old}~{rename.generation}")
    return {now: first for now, first in names.items() if now != first}


def pending_renames(desired: Desired, store: Store) -> Mapping[CobId, CobId]:
    """Return the new names of known objects that what is desired calls otherwise, by the old.

    An earlier generation that is desired again has the names of then. What is known under both
    names, or under neither, is not renamed. A limit is none here, for no host is touched.
    """
    cobs = desired.graph.cobs
    wanted: dict[CobId, CobId] = {}
    if desired.kept is not None:
        for now, former in _former_names(store.renames()).items():
            wanted.update((now, name) for name in reversed(former) if name in cobs)
    for cob, it in cobs.items():
        if it.was is not None:
            wanted.setdefault(it.was, cob)
    wanted = {old: new for old, new in wanted.items() if old not in cobs}
    known = store.states_of({*wanted, *wanted.values()}) if wanted else {}
    return {old: new for old, new in wanted.items() if old in known and new not in known}


def _former_names(renames: Sequence[CobRenamed]) -> Mapping[CobId, Sequence[CobId]]:
    """Return of each renamed object the names that it had, the last one first."""
    found: dict[CobId, list[CobId]] = {}
    for rename in reversed(renames):
        later = next((it for it, former in found.items() if former[-1] == rename.new), rename.new)
        found.setdefault(later, []).append(rename.old)
    return found


def with_renames(store: Store, names: Mapping[CobId, CobId], generation: int) -> Store:
    """Return what the store would say after these renames, for `generation`; it is only read."""
    return cast("Store", _Renamed(store, names, generation)) if names else store


class _Renamed:
    """A store that has renamed objects; everything else is the store's."""

    def __init__(self, store: Store, names: Mapping[CobId, CobId], generation: int) -> None:
        self._store = store
        self._names = names
        self._old = {new: old for old, new in names.items()}
        self._generation = generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def states(self) -> Mapping[CobId, CobRecord]:
        return self._records(self._store.states())

    def states_of(self, cobs: Iterable[CobId]) -> Mapping[CobId, CobRecord]:
        return self._records(self._store.states_of(self._old.get(cob, cob) for cob in cobs))

    def states_on(self, hosts: Iterable[str]) -> Mapping[CobId, CobRecord]:
        return self._records(self._store.states_on(hosts))

    def locks(self) -> tuple[tuple[CobId, CobId, State], ...]:
        name = self._name
        found = ((name(cob), name(holder), state) for cob, holder, state in self._store.locks())
        return tuple(sorted(found))

    def slots(self) -> frozenset[tuple[str, str]]:
        return frozenset((limit, self._name(CobId(it))) for limit, it in self._store.slots())

    def renames(self) -> tuple[CobRenamed, ...]:
        return (*self._store.renames(), *renames_of(self._names, self._generation))

    def _name(self, cob: CobId) -> CobId:
        return self._names.get(cob, cob)

    def _records(self, records: Mapping[CobId, CobRecord]) -> Mapping[CobId, CobRecord]:
        named = {self._name(cob): record for cob, record in records.items()}
        return {cob: replace(named[cob], cob=cob) for cob in sorted(named)}


def renames_of(names: Mapping[CobId, CobId], generation: int) -> Iterator[CobRenamed]:
    """Yield the entries that rename objects for a generation."""
    for old in sorted(names):
        yield CobRenamed(old=old, new=names[old], generation=generation)
