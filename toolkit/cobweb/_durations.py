"""Durations as people write them: `90`, `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import math
import re

LONGEST_S = 366 * 86400.0
"""What is longer is a mistake."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


def seconds_of(text: str, *, zero: bool = False) -> float:
    """Return the seconds that a text means; ValueError, whose text is a sentence's end, if none.

    None at all is a duration only with `zero`.
    """
    if not _DURATION.fullmatch(text):
        raise ValueError("is no duration; write 90, 90s, 10m, 1h30m or 2d")
    seconds = math.fsum(float(n) * _UNITS[unit or "s"] for n, unit in _PART.findall(text))
    if not (zero or seconds) or seconds > LONGEST_S:
        raise ValueError("is not between 0 and 366 days")
    return seconds
