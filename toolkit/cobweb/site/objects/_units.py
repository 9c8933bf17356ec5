"""What a limit of the site is made into: its units, failure domains and order, host by host."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cobweb.errors import Place
from cobweb.model import Budget, CobId, Limit, LimitGroup, Unit, cob_id
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.reading._findings import Findings, did_you_mean

HOST, OBJECT = "host", "object"
"""The words for a unit that are no variables."""

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
        return self.counted.count or 1 if percent is None else max(1, size * percent // 100)


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
            count=counted.count or 1,
            percent=counted.percent,
            group=self.group,
            first=self.first,
            pause_s=self.pause_s,
            trust_s=self.trust_s,
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
