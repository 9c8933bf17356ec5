"""Make half a million values at once: field by field, through their slots.

Calling a frozen class sets each field through the class, which is most of the time that a large
graph takes. Here a field of all values is set by one loop in C; the values are the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import fields
from itertools import repeat
from typing import Any, TypeVar

T = TypeVar("T")


def make_all(cls: type[T], count: int, **columns: Iterable[Any]) -> list[T]:
    """Return `count` instances of a dataclass with slots; `columns` are all of its fields in order.

    The same as calling `cls` for each row. ValueError for other names than the fields; a column may
    be longer than `count`, never shorter.
    """
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # it is a dataclass
    if list(columns) != names:
        raise ValueError(f"{cls.__name__} has the fields {names}, not {list(columns)}")
    made = list(map(object.__new__, repeat(cls, count)))
    for name, values in columns.items():
        set_field = cls.__dict__[name].__set__
        deque(map(set_field, made, values), maxlen=0)
        if made and not hasattr(made[-1], name):
            raise ValueError(f"the column {name} is too short")
    return made
