"""Durations in a site: a number of seconds, or text such as `30s` and `1m30s`."""

from __future__ import annotations

from contextlib import suppress

from cobweb._durations import LONGEST_S, seconds_of
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, kind


def duration(node: Map, key: str, what: str, findings: Findings) -> float | None:
    """Return the seconds (above 0) under `key`, None if it is missing or unfit (a finding)."""
    value = node.items.get(key)
    if value is None:
        return None
    written = value.value if isinstance(value, Leaf) else None
    if isinstance(written, int | float) and written is not True and 0 < written <= LONGEST_S:
        return float(written)
    if isinstance(written, str):
        with suppress(ValueError):
            return seconds_of(written.strip())
    shown = f"`{written}`" if isinstance(written, str | int | float) else kind(value)
    message = f"`{key}` of {what} must be a duration above 0, not {shown}"
    findings.add(value.place, message, "seconds, or text as in `30s`, `1m30s`, `2h`")
    return None
