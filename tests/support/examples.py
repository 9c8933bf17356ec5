"""How many examples a slow property has, measured by what the profile gives to a usual one."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["examples"]

USUAL = 200
LEAST = 3


def examples(count: int) -> int:
    """Return the examples of a property that has `count` of them where a usual one has 200."""
    return max(LEAST, count * settings().max_examples // USUAL)
