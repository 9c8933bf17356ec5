"""The system's clock: the one place of the command line that asks for it."""

from __future__ import annotations

import time

__all__ = ["now"]


def now() -> float:
    """Return seconds since the epoch; handed as `clock` to what needs a time."""
    return time.time()  # noqa: TID251 - this is where the argument comes from
