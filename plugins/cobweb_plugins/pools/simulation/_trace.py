"""A trace: pools, who owns what at the start, and what each service has to do or answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cobweb.errors import ModelError
from cobweb_plugins.pools.decision import (
    AdapterFacts,
    Filter,
    Kpi,
    Observed,
    Pools,
    SectionReader,
    Seen,
    Service,
    ServiceState,
    expanded,
    pools_of,
)

SPARE = "spare"
"""The adapter of a spare pool: its members have no objects."""

MOST_ROUNDS = 1_000_000
"""How many rounds of decisions a trace may have."""

MOST_JOBS = 10_000_000
"""How many jobs the services of a trace may get in all."""

_HOUR_S = 3600.0
_YEARS = (1970, 2200)
_NO_KPIS = {"at", "name", "value", "properties", "answers", "state", "members"}
"""The keys of a record that are not names of KPIs."""

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Jobs of one kind: `rates` are (from when on in seconds, jobs per second), by time.

    `kpi` counts those that wait. `exponential` says how their lengths spread around `lasts_s`.
    """

    kpi: str
    lasts_s: float
    exponential: bool
    needs: Filter | None
    rates: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is simulated; times are seconds from the start, which is `starts_s` after 1970.

    By service, `streams` are the jobs that it gets, if it gets any, and `answers` what it answers
    otherwise, from when on: None while it is silent.
    """

    pools: Pools
    starts_s: float
    until_s: float
    every_s: float
    join_s: float
    leave_s: float
    owners: Mapping[str, str]
    streams: Mapping[str, tuple[Stream, ...]]
    answers: Mapping[str, tuple[tuple[float, Observed | None], ...]]


def trace_of(data: Mapping[str, Any]) -> Trace:
    """Return what a document that keeps schemas/pool-trace.schema.json says.

    ModelError, with all that is wrong, where it cannot be so.
    """
    reader = _Reader(data)
    trace = reader.trace()
    if reader.problems:
        raise ModelError(reader.problems)
    return trace


class _Reader(SectionReader):
    """Reads a trace."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__()
        self._data = data
        self._loads: Mapping[str, Mapping[str, Any]] = {
            name: body or {} for name, body in data.get("services", {}).items()
        }

    def trace(self) -> Trace:
        data = self._data
        pools = self._pools()
        delays = data.get("delays", {})
        until_s = self.seconds(data["until"], ("until",))
        every_s = self.seconds(data.get("every", "30s"), ("every",))
        if every_s <= 0 or not 0 < until_s / every_s <= MOST_ROUNDS:
            message = f"from the start to `until` there are no rounds, or over {MOST_ROUNDS:,}"
            self.problem(("every",), message, "as in `every: 30s`")
        for name, body in self._loads.items():
            self._has_service(name, ("services", name))
            if "kpis" in body and "load" in body:
                message = f"service `{name}` has `kpis` and `load`"
                hint = "answers are recorded, or follow from jobs"
                self.problem(("services", name), message, hint)
        answers = {name: _answers_of_no_work(it) for name, it in pools.services.items()}
        trace = Trace(
            pools=pools,
            starts_s=self._start(),
            until_s=until_s,
            every_s=every_s,
            join_s=self.seconds(delays.get("join", "2m"), ("delays", "join")),
            leave_s=self.seconds(delays.get("leave", "30s"), ("delays", "leave")),
            owners=self._owners(pools),
            streams={it: self._streams(it) for it in self._loads},
            answers=answers | {it: self._answers(it) for it in self._loads},
        )
        self._bound_jobs(trace)
        for name in self._loads.keys() & pools.services.keys():
            self._check_work(trace, name)
        return trace

    def _check_work(self, trace: Trace, name: str) -> None:
        """Find what is said of a service and of no resource: a misspelt name, mostly."""
        keys: Keys = ("services", name)
        resources, service = trace.pools.resources, trace.pools.services[name]
        if unknown := service.holds - {it.type for it in resources.values()}:
            self.problem((*keys, "holds"), f"no resource is a {min(unknown)}", "")
        if service.direct and trace.streams[name]:
            self.problem((*keys, "load"), "a spare pool runs no jobs", "")
        usable = [it.properties for it in resources.values() if it.type in service.holds]
        for at, stream in enumerate(trace.streams[name]):
            if stream.needs and not any(map(stream.needs.accepts, usable)):
                message = f"no resource that `{name}` can use fits `{stream.needs.text}`"
                self.problem((*keys, "load", at, "needs"), message, "its jobs would wait for ever")
        for at, body in enumerate(self._loads[name].get("kpis", ())):
            if unknown := body.get("members", {}).keys() - resources.keys():
                message = f"`pools` has no resource {min(unknown)}"
                self.problem((*keys, "kpis", at, "members"), message, "")

    def _pools(self) -> Pools:
        """Read the section; each service has an adapter of its own, which holds what it can use."""
        section = self._data["pools"]
        bodies: Mapping[str, Mapping[str, Any]] = section["services"]
        types = [(body or {}).get("type", "host") for body in section["resources"].values()]
        facts = {
            name: AdapterFacts(
                holds=frozenset(self._loads.get(name, {}).get("holds", types)),
                direct=body["adapter"] == SPARE,
            )
            for name, body in bodies.items()
        }
        own = {name: {**body, "adapter": name} for name, body in bodies.items()}
        try:
            return pools_of({**section, "services": own}, facts)
        except ModelError as error:
            self.problems += [(("pools", *keys), what, hint) for keys, what, hint in error.problems]
            return Pools()

    def _start(self) -> float:
        text = self._data.get("starts", "1970-01-01T00:00Z")
        start = datetime.fromtimestamp(0, UTC)
        try:
            start = datetime.fromisoformat(text)
        except ValueError:
            self.problem(("starts",), f"`{text}` is no time", "as in `2026-03-02T00:00Z`")
        if not _YEARS[0] <= start.year < _YEARS[1]:
            self.problem(("starts",), f"`{text}` is not from {_YEARS[0]} to {_YEARS[1]}", "")
        return start.replace(tzinfo=start.tzinfo or UTC).timestamp()

    def _owners(self, pools: Pools) -> dict[str, str]:
        owners: Mapping[str, str] = self._data.get("owners", {})
        named: dict[str, str] = {}
        # As with resources: a line of its own comes after the range that has it, too.
        for name in sorted(owners, key=lambda line: "[" not in line):
            keys: Keys = ("owners", name)
            service = pools.services.get(owners[name])
            if not self._has_service(owners[name], keys) or service is None:
                continue
            try:
                ids = list(expanded(name))
            except ValueError as error:
                self.problem(keys, f"`{name}` {error}", "")
                continue
            known = [pools.resources[it] for it in ids if it in pools.resources]
            if unknown := [it for it in ids if it not in pools.resources]:
                self.problem(keys, f"`pools` has no resource {unknown[0]}", "")
            if unfit := [it.id for it in known if it.type not in service.holds]:
                self.problem(keys, f"{service.name} holds no {unfit[0]}", "")
            if "[" in name and (twice := [it for it in ids if it in named]):
                message = f"{twice[0]} is in `{named[twice[0]]}` and in `{name}`"
                self.problem(keys, message, "a resource has one owner")
            named |= dict.fromkeys(ids, name)
        return {id_: owners[name] for id_, name in named.items()}

    def _answers(self, service: str) -> tuple[tuple[float, Observed | None], ...]:
        """Return what a service answers from when on; a record has no more than what changes."""
        keys: Keys = ("services", service, "kpis")
        found: list[tuple[float, Observed | None]] = []
        kpis: dict[tuple[Any, ...], Kpi] = {}
        now, answers = Observed(state=ServiceState.RUNNING), True
        for at, body in enumerate(self._loads[service].get("kpis", ())):
            if ("name" in body) != ("value" in body):
                self.problem((*keys, at), "a KPI has `name` and `value`", "or `NAME: VALUE`")
            properties = body.get("properties", {})
            values = {key: value for key, value in body.items() if key not in _NO_KPIS}
            if "name" in body:
                values = {body["name"]: body.get("value"), **values}
            for name, value in values.items():
                key = (name, *sorted(properties.items()))
                if value is None:
                    kpis.pop(key, None)
                    continue
                number = float(value.replace(".", "") if isinstance(value, str) else value)
                kpis[key] = Kpi(name=name, value=number, properties=properties)
            answers = body.get("answers", answers)
            now = Observed(
                state=ServiceState(body.get("state", now.state)),
                kpis=tuple(kpis.values()),
                members={id_: Seen(**it) for id_, it in body["members"].items()}
                if "members" in body
                else now.members,
            )
            at_s = self.seconds(body["at"], (*keys, at, "at"))
            found.append((at_s, now if answers else None))
        self._check_order([at_s for at_s, _ in found], keys)
        return tuple(found)

    def _streams(self, service: str) -> tuple[Stream, ...]:
        bodies = self._loads[service].get("load", ())
        keys: Keys = ("services", service, "load")
        return tuple(self._stream(body, (*keys, at)) for at, body in enumerate(bodies))

    def _stream(self, body: Mapping[str, Any], keys: Keys) -> Stream:
        rates = [
            (self.seconds(it["at"], (*keys, "rates", at, "at")), it["per_hour"] / _HOUR_S)
            for at, it in enumerate(body["rates"])
        ]
        self._check_order([at_s for at_s, _ in rates], (*keys, "rates"))
        text = body.get("needs")
        needs = None if text is None else self.filter_of(text, (*keys, "needs"))
        return Stream(
            kpi=body.get("kpi", "pending"),
            lasts_s=self.seconds(body["lasts"], (*keys, "lasts")),
            exponential=body.get("spread") == "exponential",
            needs=needs,
            rates=tuple(rates),
        )

    def _has_service(self, name: str, keys: Keys) -> bool:
        services = self._data["pools"]["services"]
        if name not in services:
            hint = f"known are {', '.join(sorted(services)) or 'none'}"
            self.problem(keys, f"`pools` has no service `{name}`", hint)
        return name in services

    def _bound_jobs(self, trace: Trace) -> None:
        jobs = sum(
            rate * (until_s - at_s)
            for streams in trace.streams.values()
            for stream in streams
            for at_s, until_s, rate in pieces(stream.rates, trace.until_s)
        )
        if jobs > MOST_JOBS:
            message = f"there come {jobs:,.0f} jobs, more than {MOST_JOBS:,}"
            self.problem(("services",), message, "lower `per_hour`")

    def _check_order(self, times: Sequence[float], keys: Keys) -> None:
        if wrong := [at for at in range(1, len(times)) if times[at] < times[at - 1]]:
            self.problem((*keys, wrong[0], "at"), "is earlier than the one before it", "")


def pieces(
    rates: Sequence[tuple[float, float]], until_s: float
) -> Iterator[tuple[float, float, float]]:
    """Yield from when until when which rate is in force, up to a moment."""
    ends = [at_s for at_s, _ in rates[1:]] + [until_s]
    for (at_s, rate), end_s in zip(rates, ends, strict=True):
        if at_s < min(end_s, until_s):
            yield at_s, min(end_s, until_s), rate


def _answers_of_no_work(service: Service) -> tuple[tuple[float, Observed | None], ...]:
    """Return the answers of a service that the trace does not name: nothing waits there."""
    kpis = tuple(Kpi(name=name, value=0.0) for name in sorted(service.work_kpis))
    return ((0.0, Observed(state=ServiceState.RUNNING, kpis=kpis)),)
