"""One line of the table: a figure of Cobweb beside that of a peer or a limit of the same run."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured, in which unit, and what it is compared with.

    `peer` names the tool, limit or reference that was measured in the same run as `peer_value`, in
    the same unit; None where there is none. `target` is a bound in the same unit: `value` has to be
    at most that, or at least that where `more_is_better`. `missing` says why nothing was measured.
    """

    what: str
    value: float | None = None
    unit: str = "s"
    peer: str = ""
    peer_value: float | None = None
    target: float | None = None
    more_is_better: bool = False
    note: str = ""
    missing: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times the peer's figure Cobweb's is."""
        if self.value is None or not self.peer_value:
            return None
        return self.value / self.peer_value

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is no target or no figure."""
        if self.target is None or self.value is None:
            return None
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    def as_json(self) -> dict[str, Any]:
        """Return the row as it is written to the JSON file."""
        return {
            "what": self.what,
            "value": self.value,
            "unit": self.unit,
            "peer": self.peer,
            "peer_value": self.peer_value,
            "ratio": self.ratio,
            "target": self.target,
            "more_is_better": self.more_is_better,
            "met": self.met,
            "note": self.note,
            "missing": self.missing,
        }


@dataclass(slots=True)
class Cost:
    """Seconds that a `with cost()` block took; CPU includes children that have been waited for."""

    cpu_s: float = field(default=0.0)
    wall_s: float = field(default=0.0)


@contextmanager
def cost() -> Iterator[Cost]:
    """Measure a block; read the result after it."""
    spent = Cost()
    wall, cpu = time.perf_counter(), _cpu_s()
    try:
        yield spent
    finally:
        spent.cpu_s, spent.wall_s = _cpu_s() - cpu, time.perf_counter() - wall


def peak_mib() -> float:
    """Return the peak resident memory of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
