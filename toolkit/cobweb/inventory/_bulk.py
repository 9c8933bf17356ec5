"""Make half a million values at once: field by field, with the collector of cycles at rest.

Calling a frozen class sets each field through the class, which is most of the time that a large
graph takes. Here a field of all values is set by one loop in C; the values are the same.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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


@contextmanager
def no_collections() -> Iterator[None]:
    """Let nothing look for cycles meanwhile: building large values makes none, and waits for it.

    What was made counts as old afterwards, as if it had been looked at.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
