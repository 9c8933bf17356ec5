"""Take settings out of nodes; what does not fit becomes a finding with its place."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from cobweb._durations import LONGEST_S, seconds_of
from cobweb.errors import Place
from cobweb.site.reading._findings import Findings, did_you_mean, one_of
from cobweb.site.reading._nodes import Leaf, Map, Node, Seq, key_place, kind


def as_map(
    node: Node | None, what: str, findings: Findings, *, empty: tuple[Place, str] | None = None
) -> Map | None:
    """Return a mapping; None for nothing at all, and with a finding for what is no mapping.

    Nothing is a finding as well with `empty`: its place, and a hint.
    """
    if node is None or (isinstance(node, Leaf) and node.value is None):
        if empty is not None:
            findings.add(empty[0], f"{what} is empty", empty[1])
        return None
    if isinstance(node, Map):
        return node
    findings.add(node.place, f"{what} must be a mapping, not {kind(node)}", "write `key: value`")
    return None


def known_keys(node: Map, known: Iterable[str], what: str, findings: Findings) -> None:
    """Find the keys of a mapping that mean nothing there."""
    allowed = list(known)
    for key in node.items:
        if key not in allowed:
            hint = did_you_mean(key, allowed, otherwise=f"known are {one_of(allowed)}")
            findings.add(key_place(node, key), f"unknown key `{key}` in {what}", hint)


def text(node: Map, key: str, what: str, findings: Findings) -> str | None:
    """Return the text under `key`, None if it is missing or something else (a finding)."""
    value = node.items.get(key)
    if value is None:
        return None
    if isinstance(value, Leaf) and isinstance(value.value, str) and value.value.strip():
        return value.value
    hint = "put quotes round it" if isinstance(value, Leaf) and value.value is not None else ""
    shown = "empty" if isinstance(value, Leaf) and value.value == "" else kind(value)
    findings.add(value.place, f"`{key}` of {what} must be text, not {shown}", hint)
    return None


def required(node: Map, key: str, what: str, findings: Findings, *, hint: str = "") -> bool:
    """Say whether `key` is there; a finding if not."""
    if key in node.items:
        return True
    findings.add(node.place, f"{what} lacks `{key}`", hint)
    return False


def texts(node: Map, key: str, what: str, findings: Findings) -> tuple[tuple[str, Place], ...]:
    """Return the texts of the list under `key` with their places; findings for the rest."""
    value = node.items.get(key)
    if value is None or (isinstance(value, Leaf) and value.value is None):
        return ()
    if not isinstance(value, Seq):
        hint = f"write `{key}: [...]`"
        findings.add(value.place, f"`{key}` of {what} must be a list, not {kind(value)}", hint)
        return ()
    found = []
    for item in value.items:
        if isinstance(item, Leaf) and isinstance(item.value, str) and item.value:
            found.append((item.value, item.place))
        else:
            message = f"an entry of `{key}` of {what} must be text, not {kind(item)}"
            findings.add(item.place, message, "put quotes round it")
    return tuple(found)


def number(node: Map, key: str, what: str, findings: Findings) -> float | None:
    """Return the number above zero under `key`, None if it is missing or unfit (a finding)."""
    value = node.items.get(key)
    if value is None:
        return None
    if isinstance(value, Leaf) and type(value.value) in (int, float) and value.value > 0:
        return float(value.value)
    shown = f"`{value.value}`" if isinstance(value, Leaf) else kind(value)
    findings.add(value.place, f"`{key}` of {what} must be a number above 0, not {shown}")
    return None


def duration(
    node: Map, key: str, what: str, findings: Findings, *, zero: bool = False
) -> float | None:
    """Return the seconds under `key`, None if it is missing or unfit (a finding).

    That is a number of seconds, or text such as `30s` and `1m30s`. None at all is fit only with
    `zero`.
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


def flag(node: Map, key: str, what: str, findings: Findings, *, default: bool) -> bool:
    """Return the truth value under `key`; what is none is a finding."""
    value = node.items.get(key)
    if value is None:
        return default
    if isinstance(value, Leaf) and type(value.value) is bool:
        return value.value
    shown = f"`{value.value}`" if isinstance(value, Leaf) else kind(value)
    findings.add(value.place, f"`{key}` of {what} must be true or false, not {shown}")
    return default
