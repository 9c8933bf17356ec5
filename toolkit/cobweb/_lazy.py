"""What is made when it is asked for: values of a mapping, names of a package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

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


def on_demand(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its names when they are first asked for.

    `homes` has the modules they are in, each with its names, separated by blanks.
    """
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)  # it is not asked for again
        return value

    return get
