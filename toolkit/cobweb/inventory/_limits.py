"""`limits`: how many objects may be busy, or out of their preferred state, and who goes first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from cobweb.errors import Place
from cobweb.inventory._cobs import Cobs
from cobweb.inventory._durations import duration
from cobweb.inventory._findings import Findings, did_you_mean, one_of
from cobweb.inventory._needs import has_step
from cobweb.inventory._nodes import Leaf, Map, Node, key_place, kind
from cobweb.inventory._read import as_map, known_keys, required, text
from cobweb.inventory._scope import EvaluationError, Evaluator
from cobweb.inventory._select import Selector
from cobweb.inventory._types import arrow
from cobweb.model import ANY, CobId, Limit, LimitGroup, LimitScope, cob_id

_KEYS = ("on", "cob", "transition", "group", "max", "per", "first", "pause", "description")
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDef:
    """A limit as the site writes it, over (host, name) pairs in order."""

    name: str
    scope: LimitScope
    source: str
    dest: str
    states: str
    count: int | None
    percent: int | None
    per: tuple[str, Place] | None
    first: int
    pause_s: float
    members: tuple[tuple[str, str], ...]
    place: Place

    def bound(self, size: int) -> int:
        """Return the number for a group of `size` members; a percentage gives at least 1."""
        if self.percent is None:
            return self.count or 1
        return max(1, size * self.percent // 100)


class Limits:
    """Reads `limits` and gives them for a part of the site."""

    def __init__(self, cobs: Cobs, selector: Selector, findings: Findings) -> None:
        self._defs = cobs.defs
        self._written = cobs.written
        self._selector = selector
        self._findings = findings
        self.limits: list[LimitDef] = []

    def read(self, node: Node | None) -> None:
        """Read the definitions; broken ones are left out."""
        section = as_map(node, "`limits`", self._findings)
        for name, value in section.items.items() if section else ():
            made = self._limit(name, value, key_place(section, name) if section else value.place)
            if made:
                self.limits.append(made)

    def of(self, wanted: Iterable[CobId], evaluator: Evaluator) -> tuple[Limit, ...]:
        """Return the limits with those members that are wanted; bounds count all members."""
        chosen = frozenset(wanted)
        made = (self._made(limit, chosen, evaluator) for limit in self.limits)
        return tuple(limit for limit in made if limit.groups)

    def _made(self, limit: LimitDef, chosen: frozenset[CobId], evaluator: Evaluator) -> Limit:
        groups: dict[str, list[CobId]] = {}
        for host, name in limit.members:
            group = self._group(limit, host, evaluator)
            groups.setdefault(group, []).append(cob_id(host, name))
        made = tuple(
            LimitGroup(name=name, members=frozenset(ids) & chosen, bound=limit.bound(len(ids)))
            for name, ids in sorted(groups.items())
        )
        return Limit(
            name=limit.name,
            scope=limit.scope,
            source=limit.source,
            dest=limit.dest,
            states=limit.states,
            groups=tuple(group for group in made if group.members),
            first=limit.first,
            pause_s=limit.pause_s,
            place=limit.place,
        )

    def _group(self, limit: LimitDef, host: str, evaluator: Evaluator) -> str:
        if limit.per is None:
            return ""
        name, place = limit.per
        try:
            return str(evaluator.scope(host).lookup(name))
        except KeyError:
            known = evaluator.scope(host).names()
            hint = did_you_mean(name, known, otherwise="give each host of the limit this variable")
            message = f"limit `{limit.name}`: variable `{name}` is undefined"
            self._findings.add(place, message, hint, host=host)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
        return ""

    def _limit(self, name: str, node: Node, place: Place) -> LimitDef | None:
        what = f"limit `{name}`"
        body = as_map(node, what, self._findings)
        if body is None:
            if isinstance(node, Leaf) and node.value is None:
                self._findings.add(place, f"{what} is empty", "it needs `on` and `max`")
            return None
        known_keys(body, _KEYS, what, self._findings)
        if not required(body, "on", what, self._findings):
            return None
        pattern = text(body, "on", what, self._findings)
        hosts = self._selector.some(pattern, body.items["on"].place, what) if pattern else ()
        names = self._names(body, what)
        bound = self._max(body, what)
        pair = self._transition(body, names, what)
        states = self._states(body, names, what)
        per = text(body, "per", what, self._findings)
        first = self._first(body, what)
        pause_s = self._pause_s(body, what)
        if not hosts or not names or bound is None or pair is None or states is None:
            return None
        members = tuple((h, n) for n in names for h in hosts if h in self._defs[n].host_set)
        if not members:
            hint = f"{one_of(names[:3])} is not on these hosts"
            self._findings.add(place, f"{what} speaks of no object", hint)
            return None
        return LimitDef(
            name=name,
            scope=_scope(body),
            source=pair[0],
            dest=pair[1],
            states=states,
            count=bound[0],
            percent=bound[1],
            per=(per, body.items["per"].place) if per else None,
            first=first,
            pause_s=pause_s,
            members=members,
            place=place,
        )

    def _names(self, body: Map, what: str) -> tuple[str, ...]:
        if "cob" not in body.items:
            return tuple(self._defs)
        pattern = text(body, "cob", what, self._findings)
        if pattern is None:
            return ()
        found = tuple(name for name in self._defs if fnmatchcase(name, pattern))
        known = any(fnmatchcase(name, pattern) for name in self._written)
        if not found and not known and not self._selector.quiet:
            hint = did_you_mean(pattern, self._defs, otherwise="a name or a glob, as in `web-*`")
            self._findings.add(body.items["cob"].place, f"no COB is called `{pattern}`", hint)
        return found

    def _max(self, body: Map, what: str) -> tuple[int | None, int | None] | None:
        if not required(body, "max", what, self._findings, hint="a number, or `25%`"):
            return None
        node = body.items["max"]
        value = node.value if isinstance(node, Leaf) else None
        if type(value) is int and value >= 1:
            return value, None
        match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if match and 1 <= int(match[1]) <= 100:  # noqa: PLR2004  per cent
            return None, int(match[1])
        shown = f"`{value}`" if isinstance(node, Leaf) else kind(node)
        message = f"`max` of {what} must be a number from 1 or a percentage, not {shown}"
        self._findings.add(node.place, message, "as in `max: 2` or `max: 25%`")
        return None

    def _first(self, body: Map, what: str) -> int:
        """Return how many go first, 0 without the key (or where it is unfit)."""
        node = body.items.get("first")
        if node is None:
            return 0
        value = node.value if isinstance(node, Leaf) else None
        if type(value) is int and value >= 1:
            return value
        shown = f"`{value}`" if isinstance(node, Leaf) else kind(node)
        message = f"`first` of {what} must be a number from 1, not {shown}"
        self._findings.add(node.place, message, "how many objects go ahead, as in `first: 1`")
        return 0

    def _pause_s(self, body: Map, what: str) -> float:
        if "pause" in body.items and "first" not in body.items:
            message, hint = f"`pause` of {what} means nothing without `first`", "add `first: 1`"
            self._findings.add(key_place(body, "pause"), message, hint)
        return duration(body, "pause", what, self._findings) or 0.0

    def _states(self, body: Map, names: tuple[str, ...], what: str) -> str | None:
        """Return the group of states that a limit is about, "" for none; None with a finding."""
        if "group" not in body.items:
            return ""
        place = body.items["group"].place
        if "transition" in body.items:
            message = f"{what} has `transition` and `group`"
            self._findings.add(place, message, "leave one of them out")
            return None
        written = text(body, "group", what, self._findings)
        for name in names if written is not None else ():
            groups = self._defs[name].type.groups
            if written not in groups:
                known = f"it has {one_of(groups)}" if groups else "it has none"
                message = f"{what}: the type of `{name}` has no group of states `{written}`"
                self._findings.add(
                    place, message, did_you_mean(str(written), groups, otherwise=known)
                )
                return None
        return written

    def _transition(self, body: Map, names: tuple[str, ...], what: str) -> tuple[str, str] | None:
        if "transition" not in body.items:
            return (ANY, ANY)
        written = text(body, "transition", what, self._findings)
        if written is None:
            return None
        place = body.items["transition"].place
        pair = arrow(written)
        if pair is None:
            self._findings.add(place, f"`{written}` is no transition", "write `down -> up`")
            return None
        if names and not any(has_step(self._defs[name].type, pair) for name in names):
            steps = {str(step) for name in names for step in self._defs[name].type.transitions}
            hint = did_you_mean(written, steps, otherwise=f"they have {one_of(sorted(steps))}")
            self._findings.add(place, f"{what}: no type has the transition `{written}`", hint)
            return None
        return pair


def _scope(body: Map) -> LimitScope:
    if "transition" in body.items:
        return LimitScope.IN_FLIGHT
    return LimitScope.OUT_OF_GROUP if "group" in body.items else LimitScope.OUT_OF_PREFERRED
