"""The columns of a run: transitions and lock waits as arrays of numbers, one row each.

A run of a million events has hundreds of thousands of rows; arrays hold them in a few bytes each.
Times are milliseconds since the start of the run. -1 stands for "none" in every column.
"""

from __future__ import annotations

from array import array
from enum import IntEnum

NONE = -1
LATEST_MS = 2**31 - 1
"""The last time that a column can hold, after 24 days; what comes later is told as this."""


class End(IntEnum):
    """How a transition ended: not (the record stops before), well, badly, or before it began."""

    OPEN = 0
    OK = 1
    FAILED = 2
    DROPPED = 3


class Heard(IntEnum):
    """What became of a lock that was asked for: nothing yet, granted, or no longer wanted."""

    PENDING = 0
    GRANTED = 1
    TAKEN_BACK = 2


def _numbers() -> array[int]:
    return array("i")


class Steps:
    """The transitions; `cob`, `lock` count objects, `source`, `dest` states, `after` transitions.

    `asked` is when the object first asked for a lock that it then waited for, `ready` when the last
    of them came (from `lock`) or its check had ended: between `ready` and `start` it waited for
    room. `after` is the transition whose end let this one begin: by the room in a
    limit that it made where `room` is its number.
    """

    def __init__(self) -> None:
        self.cob, self.source, self.dest = _numbers(), _numbers(), _numbers()
        self.asked, self.ready = _numbers(), _numbers()
        self.start, self.end = _numbers(), _numbers()
        self.lock, self.after = _numbers(), _numbers()
        self.attempt, self.result, self.room = _numbers(), _numbers(), _numbers()

    def __len__(self) -> int:
        return len(self.cob)

    def milliseconds(self, row: int) -> int:
        """Return how long a transition took; 0 where its end was not told."""
        return max(0, self.end[row] - self.start[row]) if self.end[row] != NONE else 0


class Waits:
    """The locks that were asked for: `on` is the locked object, `holder` who asked for `state`."""

    def __init__(self) -> None:
        self.holder, self.on, self.state = _numbers(), _numbers(), _numbers()
        self.asked, self.end, self.heard = _numbers(), _numbers(), _numbers()

    def __len__(self) -> int:
        return len(self.holder)

    def milliseconds(self, row: int, last_ms: int) -> int:
        """Return how long the answer took; one that never came is waited for until `last_ms`."""
        end = self.end[row] if self.end[row] != NONE else last_ms
        return max(0, end - self.asked[row])
