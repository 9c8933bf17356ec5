"""One site on six hosts over SSH: the order over hosts, as told by the run and seen from outside.

The claims are those of issue "Cobweb runs": a service that needs another host's service, a chain
over all hosts, a pool of which one may be away. A watch polls all ports throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.hosts.conftest import OperatorMaker
from tests.support.fabric import Fabric, FabricHost, Watch
from tests.support.operator import Operator, Run

pytestmark = [
    pytest.mark.full(
        "a pool and a chain over all hosts; the gate has the first apply and a change"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

PORTS = {"a": 7001, "b": 7002, "chain": 7003, "pool": 7004}
CHAIN = tuple(f"chain-{number}" for number in range(1, 7))
FIRST = {"greeting": "hello", "chain_text": "one", "pool_text": "one"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The site with all of its services up, and the run that brought them up."""

    operator: Operator
    watch: Watch
    first: Run
    values: dict[str, str]

    def change(self, *options: str, **variables: str) -> tuple[Run, list[frozenset[str]]]:
        """Change some variables and apply; return the run and what was seen up during it."""
        before = len(self.watch.snapshots)
        self.values.update(variables)
        self.operator.set_variables(**self.values)
        run = self.operator.apply(*options)
        self.watch.wait_for(lambda up: up == everything(self))
        return run, list(self.watch.snapshots[before:])


def everything(cluster: Cluster) -> frozenset[str]:
    """Return the names of all ports that are watched."""
    return frozenset(cluster.watch.names)


def site_ports(hosts: tuple[FabricHost, ...]) -> dict[str, tuple[FabricHost, int]]:
    """Return all ports of the site by the id of their object."""
    places = {f"{hosts[0].name}/a": (hosts[0], PORTS["a"])}
    places[f"{hosts[1].name}/b"] = (hosts[1], PORTS["b"])
    for host, link in zip(hosts, CHAIN, strict=True):
        places[f"{host.name}/{link}"] = (host, PORTS["chain"])
        places[f"{host.name}/pool"] = (host, PORTS["pool"])
    return places


def write_hosts(operator: Operator, hosts: tuple[FabricHost, ...]) -> None:
    """Write the inventory: each host of the chain knows the one before it."""
    variables: dict[str, dict[str, object]] = {}
    for before, host in zip((hosts[0], *hosts), hosts, strict=False):
        port = [] if before == host else [f"{before.address}:{PORTS['chain']}"]
        variables[host.name] = {
            "previous_port": port,
            "storage_address": hosts[0].address,
        }
    groups = {"storage": hosts[:1], "app": hosts[1:2], "chain": hosts}
    operator.write_inventory(groups, variables)


@pytest.fixture(scope="module")
def cluster(fabric: Fabric, operator_maker: OperatorMaker) -> Iterator[Cluster]:
    """Return the cluster after its first apply."""
    hosts = fabric.plain
    operator = operator_maker("cluster")
    write_hosts(operator, hosts)
    operator.set_variables(**FIRST)
    with fabric.watch(site_ports(hosts)) as watch:
        first = operator.apply()
        assert first.code == 0, first.err
        watch.wait_for(lambda up: up == frozenset(watch.names))
        yield Cluster(operator=operator, watch=watch, first=first, values={**FIRST})
    assert fabric.visitors() == []


@pytest.mark.gate("the story of an order over real hosts")
def test_the_first_apply_brings_all_up_in_an_order_that_no_one_wrote_down(
    cluster: Cluster, fabric: Fabric
) -> None:
    done = cluster.first.transitions()
    links = chain_of(fabric)
    assert [cob for cob, _ in done if cob in links] == links
    assert done.index(("h01/a", "up")) < done.index(("h02/b", "up"))
    for snapshot in cluster.watch.snapshots:
        assert_needs_hold(snapshot, links)


def test_an_apply_without_a_change_does_nothing_even_when_it_looks_everywhere(
    cluster: Cluster,
) -> None:
    for options in ((), ("--refresh", "all")):
        again = cluster.operator.apply(*options)
        assert (again.code, again.transitions()) == (0, []), again.err


@pytest.mark.gate("the story of a change over real hosts")
def test_a_new_configuration_takes_down_what_needs_it_and_nothing_else(
    cluster: Cluster, fabric: Fabric
) -> None:
    run, seen = cluster.change(greeting="good evening")
    assert run.code == 0, run.err
    assert run.transitions() == [
        ("h02/b", "down"),
        ("h01/a", "down"),
        ("h01/a-config", "down"),
        ("h01/a-config", "up"),
        ("h01/a", "up"),
        ("h02/b", "up"),
    ] or run.transitions() == [
        ("h02/b", "down"),
        ("h01/a", "down"),
        ("h01/a-config", "up"),
        ("h01/a", "up"),
        ("h02/b", "up"),
    ]
    untouched = everything(cluster) - {"h01/a", "h02/b"}
    assert all(untouched <= snapshot for snapshot in seen)
    assert untouched in seen
    assert cluster.operator.broken_promises([cluster.first, run]) == []
    for snapshot in seen:
        assert_needs_hold(snapshot, chain_of(fabric))
    assert fabric.run(fabric.plain[0], "cat", "/etc/a.conf").stdout == "greeting=good evening\n"


def test_a_chain_over_all_hosts_goes_down_from_its_end_and_up_from_its_start(
    cluster: Cluster, fabric: Fabric
) -> None:
    links = chain_of(fabric)
    run, seen = cluster.change(chain_text="two")
    assert run.code == 0, run.err
    moved = [(cob, state) for cob, state in run.transitions() if not cob.endswith("config")]
    assert moved == [*((cob, "down") for cob in links[::-1]), *((cob, "up") for cob in links)]
    for snapshot in seen:
        assert_needs_hold(snapshot, links)
    assert any(snapshot.isdisjoint(links) for snapshot in seen)


def test_a_limit_keeps_all_but_one_of_a_pool_up(cluster: Cluster, fabric: Fabric) -> None:
    run, seen = cluster.change(pool_text="two")
    assert run.code == 0, run.err
    pool = {f"{host.name}/pool" for host in fabric.plain}
    away = [pool - snapshot for snapshot in seen]
    assert max(len(each) for each in away) == 1
    assert set().union(*away) == pool


def test_the_runs_kept_their_promises(cluster: Cluster) -> None:
    run, _ = cluster.change(greeting="last", chain_text="last", pool_text="last")
    assert run.code == 0, run.err
    assert cluster.operator.broken_promises([cluster.first, run]) == []


def test_the_fallback_executor_does_the_same(cluster: Cluster, fabric: Fabric) -> None:
    run, seen = cluster.change(
        "--executor", "ansible-plain", "--limit", "storage:app", greeting="plainly"
    )
    assert run.code == 0, run.err
    assert run.transitions()[:2] == [("h02/b", "down"), ("h01/a", "down")]
    for snapshot in seen:
        assert_needs_hold(snapshot, chain_of(fabric))
    assert fabric.run(fabric.plain[0], "cat", "/etc/a.conf").stdout == "greeting=plainly\n"


def chain_of(fabric: Fabric) -> list[str]:
    """Return the ids of the chain's objects, the one that needs none first."""
    return [f"{host.name}/{link}" for host, link in zip(fabric.plain, CHAIN, strict=True)]


def assert_needs_hold(snapshot: frozenset[str], links: list[str]) -> None:
    """Fail if something was seen up while what it needs was not."""
    assert "h02/b" not in snapshot or "h01/a" in snapshot
    up = [link in snapshot for link in links]
    assert up == sorted(up, reverse=True)
