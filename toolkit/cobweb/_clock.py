"""The clock on the wall, read here and handed on as an argument."""

from __future__ import annotations

import time

wall_clock = time.time  # noqa: TID251  # this is where the argument comes from
"""Seconds since the epoch."""
