"""The clock on the wall, read here and handed on as an argument, and what is named by it."""

from __future__ import annotations

import time

wall_clock = time.time  # noqa: TID251  # this is where the argument comes from
"""Seconds since the epoch."""

PARTS = 1 << 16


def name_of_moment(now: float) -> str:
    """Return the second in UTC and, in hex, the part of it: `20261121-152539-788a`.

    Digits by chance may come again in one second; runs of one site, one after the other, do not
    begin in one part of it.
    """
    whole, part = divmod(int(now * PARTS), PARTS)
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(whole))}-{part:04x}"
