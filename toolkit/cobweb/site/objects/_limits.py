"""`limits`: how many units may be out at once, and how many transitions may be in flight."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property

from cobweb.errors import Finding, Place
from cobweb.model import Budget, CobId, Limit, LimitGroup, Unit, cob_id
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.hosts._select import Selector
from cobweb.site.objects._cobs import Cobs
from cobweb.site.objects._needs import Expansion, has_step
from cobweb.site.objects._types import arrow
from cobweb.site.reading._findings import Findings, did_you_mean, one_of
from cobweb.site.reading._nodes import Leaf, Map, Node, key_place, kind
from cobweb.site.reading._settings import as_map, duration, known_keys, required, text

_OF_BUDGETS = ("group", "unit", "first", "pause", "trust", "order", "during")
"""Keys that mean nothing beside `transition`."""

_KEYS = ("on", "cob", "transition", "max", "per", *_OF_BUDGETS, "description")
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")
_FEW_DIGITS = re.compile(r"[0-9]{1,9}")
_GLOB = re.compile(r"[*?\[]")


class Limits:
    """Reads `limits` and gives them for a part of the site; `notes` are of those without members.

    A limit with `transition` bounds transitions in flight, every other one is a budget of units.
    """

    def __init__(
        self, cobs: Cobs, selector: Selector, evaluator: Evaluator, findings: Findings
    ) -> None:
        self._defs = cobs.defs
        self._written = cobs.written
        self._selector = selector
        self._findings = findings
        self._words = HostWords(evaluator, findings)
        self._notes = Findings()
        self._made: dict[str, Budget] = {}
        self.limits: list[LimitDef] = []
        self.budgets: list[BudgetDef] = []

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is no mistake, but not what somebody means: limits that match nothing."""
        return self._notes.sorted()

    def read(self, node: Node | None) -> None:
        """Read the definitions; broken ones are left out."""
        section = as_map(node, "`limits`", self._findings)
        for name, value in section.items.items() if section else ():
            self._limit(name, value, key_place(section, name) if section else value.place)
        held: dict[tuple[str, str], tuple[str, str]] = {}
        for budget in self.budgets:
            for host, name, state in budget.during:
                other, its = held.setdefault((host, name), (budget.counted.name, state))
                if its != state:
                    what = f"limit `{budget.counted.name}` holds {cob_id(host, name)} in `{state}`"
                    message = f"{what}, and limit `{other}` in `{its}`"
                    self._findings.add(budget.counted.place, message, "hold it in one state")
                    return

    def of(self, wanted: Iterable[CobId]) -> tuple[Limit, ...]:
        """Return the limits of transitions with those members that are wanted.

        Bounds are of all members.
        """
        if not self.limits:
            return ()
        chosen = frozenset(wanted)
        made = (limit.made(chosen, self._words) for limit in self.limits)
        return tuple(limit for limit in made if limit.groups)

    def budgets_of(self, hosts: frozenset[str] | None) -> tuple[Budget, ...]:
        """Return the budgets that have a member on `hosts` (None: on any), with all members."""
        for budget in self._touched(hosts):
            if budget.counted.name not in self._made:
                self._made[budget.counted.name] = budget.made(self._words)
        return tuple(self._made[budget.counted.name] for budget in self._touched(hosts))

    def beside(self, hosts: frozenset[str], expansion: Expansion) -> Mapping[str, list[str]]:
        """Return what a change on `hosts` has to look at because a budget counts it.

        That is, as name -> hosts, every member of their budgets, what may be tied to members by
        needs on the members' hosts, and what is held meanwhile.
        """
        found: dict[str, dict[str, None]] = {}
        for budget in self._touched(hosts):
            for name in expansion.tied(budget.names, budget.hosts):
                own = (host for host in self._defs[name].hosts if host in budget.hosts)
                found.setdefault(name, {}).update(dict.fromkeys(own))
            for host, name, _ in budget.during:
                found.setdefault(name, {})[host] = None
        return {name: list(its_hosts) for name, its_hosts in found.items()}

    def _touched(self, hosts: frozenset[str] | None) -> list[BudgetDef]:
        """Return the budgets that have a member on `hosts`."""
        return [it for it in self.budgets if hosts is None or not it.hosts.isdisjoint(hosts)]

    def _limit(self, name: str, node: Node, place: Place) -> None:
        what = f"limit `{name}`"
        body = as_map(node, what, self._findings, empty=(place, "it needs `on` and `max`"))
        if body is None:
            return
        known_keys(body, _KEYS, what, self._findings)
        if not required(body, "on", what, self._findings):
            return
        counted = self._counted(name, body, what, place)
        if "transition" in body.items:
            self._transitions(counted, body, what)
        else:
            self._budget(counted, body, what)

    def _counted(self, name: str, body: Map, what: str, place: Place) -> Counted | None:
        """Return what both kinds of limits have; None with a finding, or a note if it is empty."""
        pattern = text(body, "on", what, self._findings)
        hosts = self._hosts(pattern, body, what) if pattern else None
        names = self._names(body, what)
        bound = self._max(body, what)
        per = text(body, "per", what, self._findings)
        if hosts is None or names is None or bound is None:
            return None
        members = tuple((h, n) for n in names for h in hosts if h in self._defs[n].host_set)
        if not members:
            self._note(place, f"{what} matches nothing", self._why_none(hosts, names))
            return None
        return Counted(
            name=name,
            count=bound[0],
            percent=bound[1],
            per=Written(text=per, place=body.items["per"].place) if per else None,
            members=members,
            place=place,
        )

    def _hosts(self, pattern: str, body: Map, what: str) -> tuple[str, ...] | None:
        """Return the hosts of `on`, perhaps none; None where it is wrong."""
        place = body.items["on"].place
        rendered = self._selector.text(pattern, place)
        if rendered is None:
            return None
        return self._selector.known(rendered, place, what, self._findings)

    def _why_none(self, hosts: tuple[str, ...], names: tuple[str, ...]) -> str:
        if not hosts:
            return "the groups of its `on` are empty, or exclude each other"
        return f"{one_of(names[:3])} is not on these hosts" if names else "no COB has such a name"

    def _note(self, place: Place, message: str, hint: str) -> None:
        if not self._selector.quiet:
            self._notes.add(place, message, hint)

    def _transitions(self, counted: Counted | None, body: Map, what: str) -> None:
        """Read a limit on transitions in flight, which knows few of the keys."""
        beside = [key for key in _OF_BUDGETS if key in body.items]
        for key in beside:
            message = f"{what} has `transition` and `{key}`"
            self._findings.add(key_place(body, key), message, "leave one of them out")
        names = tuple(dict.fromkeys(name for _, name in counted.members)) if counted else ()
        pair = self._transition(body, names, what)
        if counted and pair and not beside:
            self.limits.append(LimitDef(counted=counted, source=pair[0], dest=pair[1]))

    def _budget(self, counted: Counted | None, body: Map, what: str) -> None:
        before = len(self._findings)
        group = text(body, "group", what, self._findings) or ""
        unit, order = self._text(body, "unit", what), self._text(body, "order", what)
        first, pause_s = self._first(body, what), self._pause_s(body, what)
        trust_s = duration(body, "trust", what, self._findings, zero=True)
        during = self._during(body, counted, what) if "during" in body.items else ()
        if counted and group:
            self._check_group(group, body, counted, what)
        if counted and len(self._findings) == before:
            made = BudgetDef(
                counted=counted,
                unit=unit,
                group=group,
                first=first,
                pause_s=pause_s,
                trust_s=trust_s,
                order=order,
                during=during,
            )
            self.budgets.append(made)

    def _text(self, body: Map, key: str, what: str) -> Written | None:
        written = text(body, key, what, self._findings)
        return Written(text=written, place=body.items[key].place) if written else None

    def _names(self, body: Map, what: str) -> tuple[str, ...] | None:
        """Return the names that `cob` stands for; None with a finding for an unknown one."""
        if "cob" not in body.items:
            return tuple(self._defs)
        pattern = text(body, "cob", what, self._findings)
        if pattern is None:
            return None
        found = tuple(name for name in self._defs if fnmatchcase(name, pattern))
        if found or _GLOB.search(pattern):
            return found
        if pattern not in self._written and not self._selector.quiet:
            hint = did_you_mean(pattern, self._defs, otherwise="a name or a glob, as in `web-*`")
            self._findings.add(body.items["cob"].place, f"no COB is called `{pattern}`", hint)
        return None

    def _max(self, body: Map, what: str) -> tuple[int | None, int | None] | None:
        if not required(body, "max", what, self._findings, hint="a number, or `25%`"):
            return None
        node = body.items["max"]
        value = node.value if isinstance(node, Leaf) else None
        if type(value) is int and value >= 0:
            return value, None
        match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        if match and 1 <= int(match[1]) <= 100:  # noqa: PLR2004  per cent
            return None, int(match[1])
        shown = kind(node) if value is None or type(value) is bool else f"`{value}`"
        hint = "as in `max: 2` or `max: 25%`; `max: 0` is a freeze"
        if isinstance(value, str) and _FEW_DIGITS.fullmatch(value):
            shown, hint = f"the text `{value}`", f"write it without quotes: `max: {value}`"
        message = f"`max` of {what} must be a number from 1 or a percentage, not {shown}"
        self._findings.add(node.place, message, hint)
        return None

    def _first(self, body: Map, what: str) -> int:
        """Return how many go first, 0 without the key (or where it is unfit)."""
        node = body.items.get("first")
        if node is None:
            return 0
        value = node.value if isinstance(node, Leaf) else None
        if type(value) is int and value >= 1:
            return value
        shown = kind(node) if value is None or type(value) is bool else f"`{value}`"
        message = f"`first` of {what} must be a number from 1, not {shown}"
        self._findings.add(node.place, message, "how many units go ahead, as in `first: 1`")
        return 0

    def _pause_s(self, body: Map, what: str) -> float:
        if "pause" in body.items and "first" not in body.items:
            message, hint = f"`pause` of {what} means nothing without `first`", "add `first: 1`"
            self._findings.add(key_place(body, "pause"), message, hint)
        return duration(body, "pause", what, self._findings) or 0.0

    def _during(self, body: Map, counted: Counted | None, what: str) -> tuple[_Held, ...]:
        """Return which objects are held in which state; () with a finding where that is wrong."""
        place, what = key_place(body, "during"), f"`during` of {what}"
        empty = place, "it needs `cob` and `state`"
        held = as_map(body.items["during"], what, self._findings, empty=empty)
        if held is None:
            return ()
        known_keys(held, ("cob", "on", "state"), what, self._findings)
        hint = "as in `{cob: noout, on: mon, state: set}`"
        needed = [required(held, key, what, self._findings, hint=hint) for key in ("cob", "state")]
        names = self._names(held, what) if all(needed) else None
        state = text(held, "state", what, self._findings)
        pattern = text(held, "on", what, self._findings)
        hosts = self._hosts(pattern, held, what) if pattern else ()
        if names is None or state is None or hosts is None:
            return ()
        pairs = [(h, n) for n in names for h in (hosts if pattern else self._defs[n].hosts)]
        pairs = [(host, name) for host, name in pairs if host in self._defs[name].host_set]
        if not pairs and not self._selector.quiet:
            self._findings.add(place, f"{what} names nothing", self._why_none(hosts, names))
        for name in names:
            states = self._defs[name].type.states
            if state not in states:
                hint = did_you_mean(state, states, otherwise=f"it has {one_of(states)}")
                message = f"{what}: the type of `{name}` has no state `{state}`"
                self._findings.add(held.items["state"].place, message, hint)
                return ()
        if both := sorted(set(pairs).intersection(counted.members if counted else ())):
            message = f"{what} names {cob_id(*both[0])}, which the limit counts"
            hint = "what is held cannot be what goes out; say with `cob` what the limit counts"
            self._findings.add(place, message, hint)
        return tuple((host, name, state) for host, name in pairs)

    def _check_group(self, written: str, body: Map, counted: Counted, what: str) -> None:
        """Find members whose type has no group of states of the name that is written."""
        for name in dict.fromkeys(name for _, name in counted.members):
            groups = self._defs[name].type.groups
            if written not in groups:
                known = f"it has {one_of(groups)}" if groups else "it has none"
                message = f"{what}: the type of `{name}` has no group of states `{written}`"
                hint = did_you_mean(written, groups, otherwise=known)
                self._findings.add(body.items["group"].place, message, hint)
                return

    def _transition(self, body: Map, names: tuple[str, ...], what: str) -> tuple[str, str] | None:
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


HOST, OBJECT = "host", "object"
"""The words for a unit that are no variables."""

_Held = tuple[str, str, str]
"""A host, a name, and the state that the object is held in."""

_Rank = tuple[int, float, str]
"""Where a unit stands in the order, see `Unit.order`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A name of a variable, or a template, and where it stands."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What every limit says: how many of which (host, name) pairs; `per` is a host variable."""

    name: str
    count: int | None
    percent: int | None
    per: Written | None
    members: tuple[tuple[str, str], ...]
    place: Place


class HostWords:
    """What the variables and templates of a limit say of a host; what is wrong is a finding."""

    def __init__(self, evaluator: Evaluator, findings: Findings) -> None:
        self._evaluator = evaluator
        self._findings = findings

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {host: at for at, host in enumerate(self._evaluator.inventory.hosts)}

    def in_order(self, hosts: Iterable[str]) -> list[str]:
        """Return hosts in the order of the inventory."""
        return sorted(hosts, key=self._places.__getitem__)

    def variable(self, host: str, asked: Written, what: str) -> str | None:
        """Return the value of a host variable as text; None with a finding where it has none."""
        try:
            return text_of(self._evaluator.scope(host).lookup(asked.text), asked.place)
        except KeyError:
            known = self._evaluator.scope(host).names()
            hint = did_you_mean(
                asked.text, known, otherwise="give each host of the limit this variable"
            )
            message = f"{what}: variable `{asked.text}` is undefined"
            self._findings.add(asked.place, message, hint, host=host)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
        return None

    def rank(self, host: str, order: Written, what: str) -> _Rank | None:
        """Return what `order` says of a host; None with a finding where it says nothing."""
        try:
            value = self._evaluator.scope(host).render(order.text, order.place)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
            return None
        if isinstance(value, str):
            return (1, 0.0, value)
        if isinstance(value, int | float) and math.isfinite(value):
            return (0, float(value), "")
        message = f"`order` of {what} must give a number or text"
        self._findings.add(order.place, message, "lists and mappings have no order", host=host)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitDef:
    """A limit on transitions in flight, as the site writes it."""

    counted: Counted
    source: str
    dest: str

    def made(self, chosen: frozenset[CobId], words: HostWords) -> Limit:
        """Return the limit with those members that are `chosen`; bounds are of all members."""
        counted = self.counted
        groups: dict[str, list[CobId]] = {}
        for host, name in counted.members:
            domain = words.variable(host, counted.per, _what(counted)) if counted.per else ""
            groups.setdefault(domain or "", []).append(cob_id(host, name))
        made = tuple(
            LimitGroup(name=name, members=frozenset(ids) & chosen, bound=self._bound(len(ids)))
            for name, ids in sorted(groups.items())
        )
        return Limit(
            name=counted.name,
            source=self.source,
            dest=self.dest,
            groups=tuple(group for group in made if group.members),
            place=counted.place,
        )

    def _bound(self, size: int) -> int:
        percent = self.counted.percent
        return self.counted.count or 0 if percent is None else max(1, size * percent // 100)


@dataclass(frozen=True, kw_only=True)
class BudgetDef:
    """A limit on units that are out, as the site writes it; `unit` None stands for hosts."""

    counted: Counted
    unit: Written | None
    group: str = ""
    first: int = 0
    pause_s: float = 0.0
    trust_s: float | None = None
    order: Written | None = None
    during: tuple[_Held, ...] = ()

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The hosts of the members."""
        return frozenset(host for host, _ in self.counted.members)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the members."""
        return frozenset(name for _, name in self.counted.members)

    def made(self, words: HostWords) -> Budget:
        """Return the budget with all its units; findings where variables lack."""
        counted = self.counted
        return Budget(
            name=counted.name,
            units=tuple(self._units(words)),
            count=1 if counted.count is None else counted.count,
            percent=counted.percent,
            group=self.group,
            first=self.first,
            pause_s=self.pause_s,
            trust_s=self.trust_s,
            during=tuple((cob_id(host, name), state) for host, name, state in self.during),
            place=counted.place,
        )

    def _units(self, words: HostWords) -> Iterator[Unit]:
        named: dict[str, list[str]] = {}
        for host, name in self.counted.members:
            named.setdefault(host, []).append(name)
        drafts: dict[str, _Draft] = {}
        say, what = self._naming(words), _what(self.counted)
        for host in words.in_order(named):
            per = self.counted.per
            domain = words.variable(host, per, what) if per else None
            rank = words.rank(host, self.order, what) if self.order else None
            for name in named[host]:
                unit = say(host, name)
                if unit is not None:
                    draft = drafts.setdefault(unit, _Draft())
                    draft.add(cob_id(host, name), domain, rank)
        return (draft.unit(name) for name, draft in drafts.items())

    def _naming(self, words: HostWords) -> Callable[[str, str], str | None]:
        """Return what names the unit of (host, name)."""
        unit, what = self.unit, _what(self.counted)
        if unit is None or unit.text == HOST:
            return lambda host, _name: host
        if unit.text == OBJECT:
            return cob_id
        return lambda host, _name: words.variable(host, unit, what)


@dataclass(slots=True)
class _Draft:
    """A unit of which not all hosts were looked at yet."""

    members: list[CobId] = field(default_factory=list)
    domains: set[str] = field(default_factory=set)
    ranks: list[_Rank] = field(default_factory=list)

    def add(self, member: CobId, domain: str | None, rank: _Rank | None) -> None:
        self.members.append(member)
        self.domains |= {domain} if domain is not None else set()
        self.ranks += [rank] if rank is not None else []

    def unit(self, name: str) -> Unit:
        members, domains = frozenset(self.members), tuple(sorted(self.domains))
        if not self.ranks:
            return Unit(name=name, members=members, domains=domains)
        return Unit(name=name, members=members, domains=domains, order=min(self.ranks))


def _what(counted: Counted) -> str:
    return f"limit `{counted.name}`"
