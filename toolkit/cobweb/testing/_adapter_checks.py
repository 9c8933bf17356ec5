"""Conformance checks for adapters: sources of an inventory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cobweb.errors import CobwebError
from cobweb.plugin import Adapter, Kind
from cobweb.testing._checks import Kit, expect, refusal, satisfies


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterCase:
    """What the kit needs to try an adapter.

    `source` is one that it reads; `foreign` is one that it does not; `damaged` one of its own that
    cannot be read.
    """

    make: Callable[[], Adapter]
    source: Path
    foreign: Path | None = None
    damaged: Path | None = None


def reads_its_source(case: AdapterCase) -> None:
    """reads() is true for its source, and hosts() gives the same hosts twice."""
    adapter = case.make()
    expect(adapter.reads(case.source) is True, f"reads({case.source}) is not True")
    first, second = list(adapter.hosts(case.source)), list(adapter.hosts(case.source))
    expect(first == second, "two calls of hosts() differ")


def hosts_are_well_formed(case: AdapterCase) -> None:
    """Each host comes once, with a name, sorted groups without `all`, and named variables."""
    hosts = list(case.make().hosts(case.source))
    expect(hosts, "hosts() gave none")
    for host in hosts:
        expect(getattr(host, "name", ""), f"{host!r} is no host with a name")
        expect("all" not in host.groups, f"{host.name}: `all` is among its groups")
        expect(host.groups == tuple(sorted(set(host.groups))), f"{host.name}: groups not sorted")
        expect(all(isinstance(key, str) for key in host.variables), f"{host.name}: bad variable")
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    expect(not twice, f"hosts that come twice: {', '.join(twice)}")


def leaves_foreign_sources_alone(case: AdapterCase, foreign: Path) -> None:
    """reads() is false for a source of another kind."""
    expect(case.make().reads(foreign) is False, f"reads({foreign}) is not False")


def damaged_source_is_an_error(case: AdapterCase, damaged: Path) -> None:
    """A source that cannot be read raises CobwebError with a message."""
    refusal(CobwebError, lambda: list(case.make().hosts(damaged)))


_KIT = Kit(
    always=[satisfies(Kind.ADAPTERS), reads_its_source, hosts_are_well_formed],
    given={"foreign": [leaves_foreign_sources_alone], "damaged": [damaged_source_is_an_error]},
)
adapter_checks, check_adapter = _KIT.checks, _KIT.check
