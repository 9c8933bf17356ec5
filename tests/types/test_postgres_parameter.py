"""The type `postgres-parameter` on a primary and two standbys that really follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.database import (
    Database,
    conninfos,
    make_primary,
    make_standby,
    set_all_connections,
)
from tests.support.fabric import Fabric
from tests.support.live import Live, live_on, run_page_example
from tests.support.operator import Operator, Run
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

SITE = """
cobweb: 1
name: database
inventory: hosts.yml
cobs:
  primary-connections:
    type: postgres-parameter
    on: primary
    spec: {parameter: max_connections, value: "{{ connections }}", unit: postgresql@15-main}
    needs:
      - {when: "* -> raised", cob: standby-connections, on: standbys, state: raised}
  standby-connections:
    type: postgres-parameter
    on: standbys
    spec: {parameter: max_connections, value: "{{ connections }}", timeout: 30}
    needs:
      - {when: "raised -> up", cob: primary-connections, on: primary, state: up}
"""
EMPTY = "cobweb: 1\nname: database\ninventory: hosts.yml\ncobs: {}\n"
PRIMARY = "s01/primary-connections"
STANDBYS = ("h01/standby-connections", "h02/standby-connections")
RAISED = [*((it, "raised") for it in STANDBYS), (PRIMARY, "raised")]
SETTLED = [(PRIMARY, "up"), *((it, "up") for it in STANDBYS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A primary, its standbys, and what moves objects on them."""

    fabric: Fabric
    live: Live
    primary: Database
    standbys: tuple[Database, ...]

    @property
    def servers(self) -> tuple[Database, ...]:
        """Return all servers, the primary first."""
        return (self.primary, *self.standbys)

    def start_with(self, value: int) -> None:
        """Give all servers the same value by hand."""
        set_all_connections(self.primary, self.standbys, value)

    def values(self) -> list[str]:
        """Return max_connections of all servers, the primary first."""
        return [server.value() for server in self.servers]

    def connections(self, server: Database, value: int, **more: Any) -> OneCob:
        """Return the object for max_connections on a server."""
        spec = {"parameter": "max_connections", "value": value, **server.unit, **more}
        return self.live.cob("postgres-parameter", server.host, spec, name="connections")


@pytest.fixture(scope="module")
def cluster(
    fabric_folder: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Set up three servers, of which the primary is a unit of systemd."""
    with Fabric(fabric_folder(), plain=2, systemd=1) as fabric:
        primary = make_primary(fabric, fabric.systemd[0])
        standbys = tuple(make_standby(primary, host) for host in fabric.plain)
        with live_on(fabric, tmp_path_factory.mktemp("live")) as live:
            yield Cluster(fabric=fabric, live=live, primary=primary, standbys=standbys)


@pytest.mark.gate("the type once on a real server with standbys")
def test_it_passes_the_conformance_kit(cluster: Cluster) -> None:
    """Check, every transition, a changed spec, and back; on a primary, with a restart."""
    spec = {"parameter": "max_locks_per_transaction", "value": 32, **cluster.primary.unit}
    cluster.live.check_type("postgres-parameter", cluster.primary.host, spec, {**spec, "value": 40})
    assert cluster.primary.value("max_locks_per_transaction") == "64"


def test_the_wrong_order_is_refused_before_anything_changes(cluster: Cluster) -> None:
    """By a primary that is told of its standbys, and by each standby."""
    cluster.start_with(100)
    standby = cluster.standbys[0]
    above = cluster.connections(cluster.primary, 150, standbys=conninfos(cluster.standbys))
    refused = above.move("outdated", "raised")
    assert refused.outcome is Outcome.FAILED
    assert "has max_connections = 100: raise it there first" in refused.message
    below = cluster.connections(standby, 50)
    assert below.check() == "outdated"
    below.go("outdated", "raised")
    refused = below.move("raised", "up")
    assert refused.outcome is Outcome.FAILED
    assert "the primary has max_connections = 100: lower it there first" in refused.message
    for server in (cluster.primary, standby):
        assert server.value() == "100"
        assert server.sql("SELECT count(*) FROM pg_settings WHERE pending_restart") == "0"


def test_the_example_of_its_page_works(cluster: Cluster, tmp_path: Path) -> None:
    """Applied, again without a change, and removed; its standbys are no business of the page."""
    cluster.start_with(100)
    for standby in cluster.standbys:
        standby.set_connections(150)
    run_page_example(cluster.fabric, cluster.primary.host, tmp_path, "postgres-parameter")
    assert cluster.values() == ["100", "150", "150"]


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """Return an operator of the site with all three servers."""
    made = Operator(cluster.fabric, tmp_path_factory.mktemp("site"))
    hosts = {server.host.name: server.host for server in cluster.servers}
    made.write_inventory({"primary": [hosts["s01"]], "standbys": [hosts["h01"], hosts["h02"]]})
    (made.folder / "site.yml").write_text(SITE, encoding="utf-8")
    return made


def _apply(operator: Operator, connections: int) -> Run:
    operator.set_variables(connections=connections)
    return operator.apply()


@pytest.mark.parametrize("value", [150, 60], ids=["raise", "lower"])
def test_needs_alone_order_both_directions(
    cluster: Cluster, operator: Operator, value: int
) -> None:
    """Standbys are raised before the primary and lowered after it, without a pause in replay."""
    cluster.start_with(100)
    run = _apply(operator, value)
    assert run.code == 0, run.out + run.err
    done = run.transitions()
    assert (sorted(done[:2]), done[2:4]) == (RAISED[:2], [RAISED[2], SETTLED[0]])
    assert sorted(done[4:]) == SETTLED[1:]
    assert cluster.values() == [str(value)] * 3
    assert operator.broken_promises([run]) == []
    again = operator.apply("--refresh", "all")
    assert (again.code, again.transitions()) == (0, []), again.out + again.err


def test_another_value_while_a_raise_is_half_done_is_no_dead_end(
    cluster: Cluster, operator: Operator
) -> None:
    """One standby is above the new value, the others are below it."""
    cluster.start_with(100)
    cluster.standbys[0].set_connections(200)
    run = _apply(operator, 120)
    assert run.code == 0, run.out + run.err
    assert cluster.values() == ["120", "120", "120"]


def test_a_standby_is_lowered_only_when_it_has_replayed(
    cluster: Cluster, operator: Operator
) -> None:
    """With replay paused it stays as it is, and the report says so; afterwards it follows."""
    cluster.start_with(120)
    late = cluster.standbys[1]
    late.sql("SELECT pg_wal_replay_pause()")
    it = cluster.connections(cluster.primary, 70)
    it.go("outdated", "raised")
    it.go("raised", "up")
    alone = cluster.connections(late, 70, timeout=1)
    alone.go("outdated", "raised")
    refused = alone.move("raised", "up")
    assert refused.outcome is Outcome.FAILED
    assert "has not replayed the change of its primary within 1 s" in refused.message
    assert "replay is paused (SELECT pg_wal_replay_resume())" in refused.message
    assert cluster.values() == ["70", "120", "120"]
    late.sql("SELECT pg_wal_replay_resume()")
    run = _apply(operator, 70)
    assert run.code == 0, run.out + run.err
    assert cluster.values() == ["70", "70", "70"]


def test_a_lost_standby_holds_up_a_raise_and_nothing_is_changed(
    cluster: Cluster, operator: Operator
) -> None:
    """The run says who waits for whom, and why."""
    cluster.start_with(70)
    lost = cluster.standbys[0]
    cluster.fabric.link_down(lost.host)
    try:
        run = _apply(operator, 180)
        assert run.code == 1
        why = operator.cobweb("why", PRIMARY)
        assert "h01/standby-connections" in why.out
        assert "Failed to connect to the host" in why.out
        assert [cluster.primary.value(), cluster.standbys[1].value()] == ["70", "180"]
    finally:
        cluster.fabric.link_up(lost.host)
    run = operator.apply()
    assert run.code == 0, run.out + run.err
    assert cluster.values() == ["180", "180", "180"]


def test_a_value_that_the_server_cannot_start_with_is_taken_back(cluster: Cluster) -> None:
    """And the message is that of the server."""
    spec = {"parameter": "shared_buffers", "value": "8000GB"}
    for server in cluster.servers[:2]:
        it = cluster.live.cob("postgres-parameter", server.host, {**spec, **server.unit})
        it.go("outdated", "raised")
        failed = it.move("raised", "up")
        assert failed.outcome is Outcome.FAILED
        assert "could not map anonymous shared memory" in failed.message
        assert "it runs with the earlier one again" in failed.message
        assert server.value("shared_buffers") == "16MB"
        it.go("raised", "down")


WRONG = {
    "unknown": ("max_conections", 1, "PostgreSQL 15 knows no parameter max_conections"),
    "internal": ("block_size", 1, "block_size cannot be changed"),
    "not a number": ("work_mem", "much", "'much' is no number"),
    "wrong unit": ("work_mem", "8s", "'8s' has no unit of this parameter (it takes B, kB"),
}


@pytest.mark.parametrize(("parameter", "value", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_spec_fails_the_check(
    cluster: Cluster, parameter: str, value: Any, message: str
) -> None:
    """With a message that says what is wrong."""
    spec = {"parameter": parameter, "value": value}
    it = cluster.live.cob("postgres-parameter", cluster.primary.host, spec)
    assert message in it.failing_check()


def test_removal_puts_back_what_was_there_on_all_servers(
    cluster: Cluster, operator: Operator
) -> None:
    """The standbys wait until the primary has its lower value."""
    run = _apply(operator, 130)
    assert run.code == 0, run.out + run.err
    (operator.folder / "site.yml").write_text(EMPTY, encoding="utf-8")
    run = operator.apply()
    (operator.folder / "site.yml").write_text(SITE, encoding="utf-8")
    assert run.code == 0, run.out + run.err
    assert len(set(cluster.values()) - {"130"}) == 1


def test_a_server_that_is_stopped_has_nothing_in_force(cluster: Cluster) -> None:
    """The check says down, a transition says that nobody answers."""
    standby = cluster.standbys[0]
    it = cluster.connections(standby, 100)
    standby.stop()
    try:
        assert it.check() == "down"
        failed = it.move("down", "raised")
        assert failed.outcome is Outcome.FAILED
        assert "no PostgreSQL server answers at /var/run/postgresql:5432" in failed.message
    finally:
        standby.start()
