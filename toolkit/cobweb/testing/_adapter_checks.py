"""Conformance checks for adapters: sources of an inventory."""

# ruff: noqa: D401  # the docstrings of checks are claims

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cobweb.errors import CobwebError
from cobweb.plugin import Adapter, Kind
from cobweb.plugin._contracts import item_problems
from cobweb.testing._checks import NamedCheck, expect, named, run_all


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


def adapter_checks(case: AdapterCase) -> list[NamedCheck]:
    """Return all checks that apply to the case."""
    functions = [satisfies_the_protocol, reads_its_source, hosts_are_well_formed]
    if case.foreign:
        functions.append(leaves_foreign_sources_alone)
    if case.damaged:
        functions.append(damaged_source_is_an_error)
    return named(functions, case)


def check_adapter(case: AdapterCase) -> None:
    """Run all checks that apply; AssertionError names every one that fails."""
    run_all(adapter_checks(case))


def satisfies_the_protocol(case: AdapterCase) -> None:
    """The class has a name and the methods of the protocol."""
    problems = item_problems(Kind.ADAPTERS, type(case.make()))
    expect(not problems, "; ".join(problems))


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


def leaves_foreign_sources_alone(case: AdapterCase) -> None:
    """reads() is false for a source of another kind."""
    assert case.foreign is not None
    expect(case.make().reads(case.foreign) is False, f"reads({case.foreign}) is not False")


def damaged_source_is_an_error(case: AdapterCase) -> None:
    """A source that cannot be read raises CobwebError with a message."""
    assert case.damaged is not None
    try:
        hosts = list(case.make().hosts(case.damaged))
    except CobwebError as error:
        expect(error.message, "the error says nothing")
        return
    raise AssertionError(f"a damaged source gave {len(hosts)} hosts")
