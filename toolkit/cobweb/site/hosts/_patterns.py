"""Ansible's host patterns over an inventory: `a:b`, `a,b`, `&`, `!`, globs, `~regex`, `g[0:2]`.

Regular parts add hosts in their order, then `&` parts keep, then `!` parts remove; without a
regular part it is `all`. A name is a host before it is a group. A name that is neither is an error;
a glob or regular expression may match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from fnmatch import translate
from ipaddress import IPv6Address

from cobweb.site.hosts._hosts import Inventory
from cobweb.site.reading._findings import did_you_mean
from cobweb.site.reading._regex import Regex, RegexError

_SUBSCRIPT = re.compile(
    r"(?P<expression>.+)\[(?:(?P<index>-?[0-9]+)|(?P<first>[0-9]+):(?P<last>[0-9]*))\]"
)
_PART = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")
_SIGNS = "?*["


class PatternError(ValueError):
    """A host pattern that is wrong; `hint` says how to mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Patterns:
    """Selects hosts by pattern; each pattern is worked out once."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._known: dict[str, tuple[str, ...]] = {}
        self._parts: dict[str, tuple[str, ...]] = {}

    def select(self, pattern: str) -> tuple[str, ...]:
        """Return the hosts that match, in order; PatternError for unknown names and bad syntax."""
        if pattern not in self._known:
            self._known[pattern] = self._evaluate(pattern)
        return self._known[pattern]

    def _evaluate(self, pattern: str) -> tuple[str, ...]:
        parts = _split(pattern)
        if not parts:
            raise PatternError("the host pattern is empty", "`all` stands for all hosts")
        chosen = dict.fromkeys(
            host
            for part in [part for part in parts if part[0] not in "&!"] or ["all"]
            for host in self._part(part)
        )
        for sign in "&!":
            for part in (it for it in parts if it[0] == sign):
                some = set(self._part(part[1:]))
                chosen = {host: None for host in chosen if (host in some) == (sign == "&")}
        return tuple(chosen)

    def _part(self, part: str) -> tuple[str, ...]:
        if part not in self._parts:
            try:
                self._parts[part] = self._match(part)
            except RegexError as error:
                raise PatternError(str(error), "leave nested repetitions out") from error
        return self._parts[part]

    def _match(self, part: str) -> tuple[str, ...]:
        if not part:
            raise PatternError("`&` or `!` stands alone in the host pattern", "write `a:!b`")
        if part in self._inventory.hosts:
            return (part,)
        if part in self._inventory.groups:
            return self._inventory.members(part)
        subscript = None if part[0] == "~" else _SUBSCRIPT.fullmatch(part)
        if subscript is None:
            return self._names(part)
        return _slice(self._names(subscript["expression"]), subscript, part)

    def _names(self, expression: str) -> tuple[str, ...]:
        """Return hosts of matching groups, and matching hosts if there are signs or no group."""
        matches = _matcher(expression)
        inventory = self._inventory
        groups = [name for name in inventory.groups if matches(name)]
        found = [host for name in groups for host in inventory.members(name)]
        signs = expression[0] == "~" or any(sign in expression for sign in _SIGNS)
        if not groups or signs:
            found += [name for name in inventory.hosts if matches(name)]
        if not found and not groups and not signs:
            known = [*inventory.groups, *inventory.hosts]
            hint = did_you_mean(expression, known, otherwise="it must be in the inventory")
            raise PatternError(f"no host or group is called `{expression}`", hint)
        return tuple(found)


def _split(pattern: str) -> list[str]:
    if "," in pattern:
        parts = pattern.split(",")
    elif _is_address(pattern):
        parts = [pattern]
    else:
        parts = _PART.findall(pattern)
        if set("[]") & set(_PART.sub("", pattern)):
            raise PatternError("a bracket is missing in the host pattern", "as in `app[0:2]`")
    return [part.strip() for part in parts if part.strip()]


def _is_address(pattern: str) -> bool:
    """Say whether a pattern is an IPv6 address, which Ansible takes as a name."""
    with suppress(ValueError):
        return bool(IPv6Address(pattern))
    return False


def _matcher(expression: str) -> Callable[[str], object]:
    try:
        return Regex(expression[1:] if expression[0] == "~" else translate(expression)).match
    except RegexError as error:
        raise PatternError(f"`{expression}` {error.reason}") from error


def _slice(hosts: tuple[str, ...], subscript: re.Match[str], part: str) -> tuple[str, ...]:
    if not hosts:
        return hosts
    if subscript["index"] is None:
        last = int(subscript["last"]) if subscript["last"] else len(hosts) - 1
        return hosts[int(subscript["first"]) : last + 1]
    index = int(subscript["index"])
    if not -len(hosts) <= index < len(hosts):
        message = f"`{part}` is out of range: there are {len(hosts)} hosts"
        raise PatternError(message, "the first is [0], the last is [-1]")
    return (hosts[index],)
