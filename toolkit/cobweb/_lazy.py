"""Mappings whose values are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lazy(Mapping[K, V]):
    """A mapping that makes a value on each access: most are never asked for.

    `keys` says quickly what is in it: a mapping or a set.
    """

    def __init__(self, keys: Collection[K], make: Callable[[K], V]) -> None:
        self._keys = keys
        self._make = make

    def __getitem__(self, key: K) -> V:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[K]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return repr(dict(self))
