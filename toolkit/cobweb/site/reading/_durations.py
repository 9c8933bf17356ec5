"""Durations in a site: a number of seconds, or text such as `30s` and `1m30s`."""

from __future__ import annotations

from contextlib import suppress

from cobweb._durations import LONGEST_S, seconds_of
from cobweb.site.reading._findings import Findings
from cobweb.site.reading._nodes import Leaf, Map, kind


def duration(
    node: Map, key: str, what: str, findings: Findings, *, zero: bool = False
) -> float | None:
    """Return the seconds under `key`, None if it is missing or unfit (a finding).

    None at all is fit only with `zero`.
    """
    value = node.items.get(key)
    if value is None:
        return None
    written = value.value if isinstance(value, Leaf) else None
    if isinstance(written, int | float) and not isinstance(written, bool):
        seconds = float(written)
        if (seconds or zero) and 0 <= seconds <= LONGEST_S:
            return seconds
    if isinstance(written, str):
        with suppress(ValueError):
            return seconds_of(written.strip(), zero=zero)
    shown = f"`{written}`" if isinstance(written, str | int | float) else kind(value)
    least = "" if zero else " above 0"
    message = f"`{key}` of {what} must be a duration{least}, not {shown}"
    findings.add(value.place, message, "seconds, or text as in `30s`, `1m30s`, `2h`")
    return None
