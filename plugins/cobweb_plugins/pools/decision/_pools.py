"""What the section `pools` says: resources, services, their service level objectives, settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from cobweb.errors import ModelError
from cobweb.plugin import seconds_of
from cobweb_plugins.pools.decision._filters import Filter, Value

Keys = tuple[str | int, ...]
Problem = tuple[Keys, str, str]

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

MOST_RESOURCES = 100_000
"""How many resources the ranges of a site may stand for."""

_ALL_PERCENT = 100

_RANGE = re.compile(
    r"(?P<head>[^\[\]]*)\[(?P<low>[0-9]{1,9}):(?P<high>[0-9]{1,9})\](?P<tail>[^\[\]]*)"
)


class SloKind(StrEnum):
    """What a service level objective asks for.

    MINIMUM: a number of resources. PENDING: no more than so much waiting work. UTILISATION: load
    within a band. PERMANENT: all that nobody needs more; it is never fulfilled (the spare pool).
    """

    MINIMUM = "minimum"
    PENDING = "pending"
    UTILISATION = "utilisation"
    PERMANENT = "permanent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Something that one service at a time uses: a host, a licence.

    `properties` has `id` and `type`, too. A static one is never moved.
    """

    id: str
    type: str
    properties: Mapping[str, Value]
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hours of some days of the week, in a time zone; `to_s` before `from_s` ends the next day."""

    days: frozenset[str]
    from_s: float
    to_s: float
    zone: str

    def has(self, now_s: float) -> bool:
        """Return whether a moment (seconds since 1970) is within these hours."""
        now = datetime.fromtimestamp(now_s, ZoneInfo(self.zone))
        today = DAYS[now.weekday()] in self.days
        second = now.hour * 3600 + now.minute * 60 + now.second
        if self.from_s <= self.to_s:
            return today and self.from_s <= second < self.to_s
        yesterday = DAYS[now.weekday() - 1] in self.days
        return (today and second >= self.from_s) or (yesterday and second < self.to_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """A service level objective.

    `quantity` is how many resources a MINIMUM is, and how many more PENDING and UTILISATION ask for
    at a time. `kpi` names the number of the service that is looked at: above `above` a PENDING SLO
    is not fulfilled, `per` value of a property of the KPI if that is given; UTILISATION is from
    `band[0]` to `band[1]`. `filter` says which resources count and are asked for. `for_s` is how
    long it must be unfulfilled before its need counts (None: as the pools have it).
    """

    name: str
    kind: SloKind
    urgency: float
    quantity: int = 1
    filter: Filter | None = None
    kpi: str = ""
    above: float = 0.0
    per: str = ""
    band: tuple[float, float] = (0.0, 1.0)
    for_s: float | None = None
    atomic: bool = False
    windows: tuple[Window, ...] = ()

    def applies(self, now_s: float) -> bool:
        """Return whether a moment (seconds since 1970) is in one of the windows, if there are."""
        return not self.windows or any(it.has(now_s) for it in self.windows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that resources move to and from.

    `holds` are the types of resources that it can use. `direct`: its members have no objects, so
    they leave and join at once (a spare pool). One that is not registered takes no part. `share` is
    the percentage of what it can hold that the policy `share` keeps for it.
    """

    name: str
    adapter: str
    holds: frozenset[str]
    direct: bool = False
    priority: float = 1.0
    share: float = 0.0
    min: int = 0
    max: int | None = None
    slos: tuple[Slo, ...] = ()
    registered: bool = True

    @property
    def work_kpis(self) -> frozenset[str]:
        """The KPIs of waiting work that its PENDING SLOs look at."""
        return frozenset(slo.kpi for slo in self.slos if slo.kind is SloKind.PENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """No more than so many moves in so many seconds."""

    moves: int
    per_s: float


class Classes:
    """The classes of resources: all that no filter can tell apart are one class.

    Filters are evaluated on `examples`, one of each class, so a round costs what the classes cost,
    not what the resources times the SLOs do. `of` is the class of each resource, from 0.
    """

    def __init__(self, resources: Mapping[str, Resource], services: Mapping[str, Service]) -> None:
        slos = [slo for service in services.values() for slo in service.slos]
        filters = {slo.filter.text: slo.filter for slo in slos if slo.filter}
        names = sorted(frozenset[str]().union(*(it.names for it in filters.values())))
        told = sorted({"type", *(slo.per for slo in slos if slo.per)})
        alike: dict[tuple[object, ...], int] = {}
        classes: dict[tuple[object, ...], int] = {}
        self.examples: list[Resource] = []
        self.of: dict[str, int] = {}
        for id_, resource in sorted(resources.items()):
            found = resource.properties
            # 1 and True, 1.0 and 1 are equal, and a filter can tell them apart.
            values = tuple((type(it), it) for it in map(found.get, (*names, *told)))
            if values not in alike:
                fits = tuple(it.accepts(found) for it in filters.values())
                parts = tuple(str(found.get(name)) for name in told)
                alike[values] = classes.setdefault((fits, parts), len(classes))
                if alike[values] == len(self.examples):
                    self.examples.append(resource)
            self.of[id_] = alike[values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The section `pools`. Times are seconds.

    A resource rests for `immunity_s` after a move, other than to a spare pool. A need that follows
    from a KPI counts once it has lasted `grow_after_s`, and what nobody needs is given up after
    `shrink_after_s`. `gain` is how much more than its weighted usage a need must weigh to take a
    resource. A need may ask elsewhere `order_after_s` after an order; a resource that is silent for
    `leave_within_s` while it leaves has failed. KPIs older than `stale_after_s` do not count. A
    resource that has gone round a circle within `circle_s` stays where it is for as long.
    """

    resources: Mapping[str, Resource] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    policy: str = "priority"
    immunity_s: float = 600.0
    grow_after_s: float = 30.0
    shrink_after_s: float = 300.0
    gain: float = 0.0
    budget: Budget | None = None
    order_after_s: float = 600.0
    leave_within_s: float = 3600.0
    stale_after_s: float = 120.0
    circle_s: float = 7200.0
    classes: Classes = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", Classes(self.resources, self.services))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFacts:
    """What the decision must know of a service adapter: see `Service.holds`, `Service.direct`."""

    holds: frozenset[str]
    direct: bool = False


def pools_of(section: Mapping[str, Any], adapters: Mapping[str, AdapterFacts]) -> Pools:
    """Return what a section `pools` that keeps its schema says.

    ModelError, with all that is wrong, where it cannot be so: an unknown adapter, a filter that
    cannot be read or that no resource fits, minimums above what there is, a resource named twice.
    """
    reader = _Reader(section, adapters)
    pools = reader.pools()
    if reader.problems:
        raise ModelError(reader.problems)
    return pools


def expanded(name: str) -> Iterator[str]:
    """Yield the names that a range stands for: `n[08:10]` is n08, n09, n10; others are themselves.

    ValueError, whose text ends a sentence, for a range that is none.
    """
    if "[" not in name and "]" not in name:
        yield name
        return
    found = _RANGE.fullmatch(name)
    if found is None or int(found["low"]) > int(found["high"]):
        raise ValueError("is no range; write `n[01:12]`")
    if int(found["high"]) - int(found["low"]) >= MOST_RESOURCES:
        raise ValueError(f"stands for more than {MOST_RESOURCES:,} names")
    width = len(found["low"])
    for number in range(int(found["low"]), int(found["high"]) + 1):
        yield f"{found['head']}{number:0{width}d}{found['tail']}"


class SectionReader:
    """Collects what is wrong with data that people have written."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def filter_of(self, text: str, keys: Keys) -> Filter | None:
        """Return the filter that a text is, or tell that it is none."""
        try:
            return Filter(text)
        except ValueError as error:
            self.problem(keys, f"the filter `{text}` {error}", 'as in "cores >= 4"')
            return None

    def seconds(self, value: Any, keys: Keys, *, zero: bool = True) -> float:
        """Return the seconds that a value means, or tell that it is no duration."""
        try:
            return seconds_of(str(value), zero=zero)
        except ValueError as error:
            self.problem(keys, f"`{value}` {error}", "as in `10m`")
            return 0.0

    def problem(self, keys: Keys, message: str, hint: str) -> None:
        """Tell what is wrong at the keys that lead to it."""
        self.problems.append((keys, message, hint))


class _Reader(SectionReader):
    """Reads a section `pools`."""

    def __init__(self, section: Mapping[str, Any], adapters: Mapping[str, AdapterFacts]) -> None:
        super().__init__()
        self._section = section
        self._adapters = adapters

    def pools(self) -> Pools:
        section = self._section
        resources = self._resources()
        services = {
            name: self._service(name, body or {})
            for name, body in (section.get("services") or {}).items()
        }
        budget = section.get("budget")
        pools = Pools(
            resources=resources,
            services=services,
            budget=budget
            and Budget(
                moves=budget["moves"],
                per_s=self.seconds(budget["per"], ("budget", "per"), zero=False),
            ),
            **_given(section, "policy", "gain"),
            **self._times(),
        )
        self._check(pools)
        return pools

    def _times(self) -> dict[str, Any]:
        given = _given(self._section, *_TIMES)
        return {f"{key}_s": self.seconds(value, (key,)) for key, value in given.items()}

    def _resources(self) -> dict[str, Resource]:
        merged: dict[str, tuple[str, dict[str, Any]]] = {}
        lines = (self._section.get("resources") or {}).items()
        # Ranges come first: a line of its own adds to its range wherever it stands.
        for name, body in sorted(lines, key=lambda line: "[" not in line[0]):
            try:
                ids = list(expanded(name))
            except ValueError as error:
                self.problem(("resources", name), f"resource `{name}` {error}", "")
                continue
            if len(merged) + sum(id_ not in merged for id_ in ids) > MOST_RESOURCES:
                message = f"the resources are more than {MOST_RESOURCES:,}"
                self.problem(("resources", name), message, "shorten a range")
                break
            for id_ in ids:
                before = merged.get(id_)
                if before and before[0] != id_ and name != id_:
                    message = f"resource {id_} is in `{before[0]}` and in `{name}`"
                    hint = "a resource is named once; a line of its own may add to a range"
                    self.problem(("resources", name), message, hint)
                merged[id_] = (name, {**(before[1] if before else {}), **(body or {})})
                if before and body and "properties" in body:
                    merged[id_][1]["properties"] = {
                        **before[1].get("properties", {}),
                        **body["properties"],
                    }
        return {id_: _resource(id_, body) for id_, (_, body) in merged.items()}

    def _service(self, name: str, body: Mapping[str, Any]) -> Service:
        keys: Keys = ("services", name)
        adapter = body.get("adapter", "")
        facts = self._adapters.get(adapter)
        if facts is None:
            hint = f"known are {', '.join(sorted(self._adapters)) or 'none'}"
            self.problem((*keys, "adapter"), f"there is no service adapter `{adapter}`", hint)
            facts = AdapterFacts(holds=frozenset())
        if not name:
            self.problem(keys, "a service has no name", "as in `batch:`")
        least, most = body.get("min", 0), body.get("max")
        if most is not None and least > most:
            message = f"`min` of service `{name}` is {least}, more than its `max`, {most}"
            self.problem((*keys, "min"), message, "lower `min`, or raise `max`")
        return Service(
            name=name,
            adapter=adapter,
            holds=facts.holds,
            direct=facts.direct,
            slos=tuple(
                self._slo(body_, index, (*keys, "slos", index))
                for index, body_ in enumerate(body.get("slos", ()))
            ),
            **_given(body, "priority", "share", "min", "max", "registered"),
        )

    def _slo(self, body: Mapping[str, Any], index: int, keys: Keys) -> Slo:
        kind = SloKind(body["kind"])
        need = {**body, **body.get("need", {})}
        for key in sorted(body.get("need", {}).keys() & body.keys()):
            message = f"`{key}` stands in the objective and in its `need`"
            self.problem((*keys, "need", key), message, "keep one of them")
        if "urgency" not in need:
            self.problem(keys, "the objective lacks `urgency`", "as in `urgency: 50`")
        need_keys = (*keys, "need") if "filter" in body.get("need", {}) else keys
        low, high = body.get("band", (0.0, 1.0))
        if low >= high:
            self.problem((*keys, "band"), f"the band [{low}, {high}] is empty", "[0.3, 0.8]")
        text = need.get("filter")
        return Slo(
            name=body.get("name", f"{kind}-{index + 1}"),
            kind=kind,
            urgency=float(need.get("urgency", 0)),
            filter=None if text is None else self.filter_of(text, (*need_keys, "filter")),
            kpi=body.get("kpi", _KPIS.get(kind, "")),
            band=(low, high),
            for_s=self.seconds(body["for"], (*keys, "for")) if "for" in body else None,
            windows=tuple(
                self._window(window, (*keys, "windows", at))
                for at, window in enumerate(body.get("windows", ()))
            ),
            **_given(need, "quantity", "above", "per", "atomic"),
        )

    def _window(self, body: Mapping[str, Any], keys: Keys) -> Window:
        zone = body.get("zone", "UTC")
        try:
            ZoneInfo(zone)
        except (KeyError, OSError, ValueError):  # not found; a folder; a name with `..` or NUL
            self.problem((*keys, "zone"), f"there is no time zone `{zone}`", "Europe/Berlin")
            zone = "UTC"
        from_s, to_s = (
            _second_of_day(body.get(*it)) for it in (("from", "00:00"), ("to", "24:00"))
        )
        if from_s == to_s:
            self.problem(keys, "the window is empty", "without `from` and `to` it is whole days")
        days = frozenset(body.get("days", DAYS))
        return Window(days=days, from_s=from_s, to_s=to_s, zone=zone)

    def _check(self, pools: Pools) -> None:
        """Find what cannot hold for all services together."""
        for name, service in pools.services.items():
            names = [slo.name for slo in service.slos]
            for index, slo in enumerate(service.slos):
                keys: Keys = ("services", name, "slos", index)
                if slo.name == "min" or "/" in slo.name:  # which orders and notes mean otherwise
                    message = f"an objective cannot be called `{slo.name}`"
                    self.problem((*keys, "name"), message, "not `min`, and without `/`")
                if names.index(slo.name) != index:
                    message = f"service `{name}` has two SLOs `{slo.name}`"
                    self.problem((*keys, "name"), message, "name one of them otherwise")
                if slo.atomic and pools.budget and slo.quantity > pools.budget.moves:
                    message = f"an atomic need of {slo.quantity} is more than the budget of moves"
                    self.problem(keys, message, f"`moves` is {pools.budget.moves}")
                if slo.atomic and service.max is not None and slo.quantity > service.max:
                    message = f"an atomic need of {slo.quantity} is more than `max` of `{name}`"
                    self.problem(keys, message, f"`max` is {service.max}")
                if slo.filter is not None and pools.resources and service.holds:
                    self._check_filter(pools, service, slo.filter, keys)
        if pools.resources:
            self._check_sums(pools)

    def _check_filter(self, pools: Pools, service: Service, filter_: Filter, keys: Keys) -> None:
        """Find a filter that nothing fits which a service can use."""
        examples = (it for it in pools.classes.examples if it.type in service.holds)
        if any(filter_.accepts(it.properties) for it in examples):
            return
        usable = [it for it in pools.resources.values() if it.type in service.holds]
        named = sorted({key for it in usable for key in it.properties})
        message = f"no resource that `{service.name}` can use fits `{filter_.text}`"
        self.problem(keys, message, f"their properties are {', '.join(named) or 'none'}")

    def _check_sums(self, pools: Pools) -> None:
        """Find minimums and shares that cannot be had at the same time, by type of resource."""
        held = [it.holds for it in pools.services.values() if len(it.holds) == 1]
        for type_ in sorted({it.type for it in pools.resources.values()}.union(*held)):
            there = sum(it.type == type_ for it in pools.resources.values())
            only = [it for it in pools.services.values() if it.holds == {type_}]
            least = sum(it.min for it in only)
            if least > there:
                message = (
                    f"the minimums of the services are {least}, and there are {there} {type_}s"
                )
                self.problem(("services",), message, "lower `min` of one of them")
            share = sum(it.share for it in only)
            if share > _ALL_PERCENT:
                message = f"the shares of the services sum up to {share:g}%"
                self.problem(("services",), message, "100 is all there is")


_KPIS = {SloKind.PENDING: "pending", SloKind.UTILISATION: "utilisation"}

_TIMES = [it.name.removesuffix("_s") for it in fields(Pools) if it.name.endswith("_s")]
"""The settings of the pools that are durations."""


def _given(body: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return what is said by these keys; for all else the fields have defaults."""
    return {key: body[key] for key in keys if key in body}


def _resource(id_: str, body: Mapping[str, Any]) -> Resource:
    type_ = body.get("type", "host")
    properties = {**body.get("properties", {}), "id": id_, "type": type_}
    return Resource(id=id_, type=type_, properties=properties, **_given(body, "static"))


def _second_of_day(text: str) -> float:
    hours, minutes = text.split(":")
    return int(hours) * 3600.0 + int(minutes) * 60.0
