"""A dead owner on another machine is known by its session in PostgreSQL, a living one is kept."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cobweb.errors import LockedError, StoreAwayError
from cobweb.model import CobId
from cobweb.store import LockOwner, StateWritten, Store, open_store, this_process
from tests.store.conftest import Clock
from tests.support.fabric._system import Namespace, unshare
from tests.support.postgresql import PostgreSQL, own_server

UP = StateWritten(cob=CobId("h/a"), state="up", reason="check", time=1.0)
SILENCE_S = 10.0
"""How long a server may be silent before it is asked whether it is there."""
LONG_S = 1000.0
"""More than a heartbeat may be old, and than a server must have been up."""


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time())


@pytest.fixture
def url(postgresql_url: Callable[[], str]) -> str:
    return postgresql_url()


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    with open_store(url, tmp_path) as opened:
        yield opened


@pytest.fixture
def other(url: str, tmp_path: Path, store: Store) -> Iterator[Store]:
    del store  # it comes first and makes the tables
    with open_store(url, tmp_path) as opened:
        yield opened


@pytest.mark.full(
    "waits for a time limit, 14 s; tests/kernel has a server that crashes in the gate"
)
@pytest.mark.timeout(240)
def test_a_server_that_is_frozen_is_away_until_it_goes_on(
    own_postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """Its machine acknowledges all that it is sent, so that only time tells."""
    url = f"{own_postgresql.url('postgres')}?connect_timeout=2"
    with open_store(url, tmp_path) as store:
        store.write([UP])
        with own_postgresql.frozen(), pytest.raises(StoreAwayError, match="cannot be used: "):
            store.write([UP])
        store.write([UP], again=True)
        assert set(store.states()) == {UP.cob}


@pytest.mark.full("waits longer than that, 20 s")
def test_a_statement_may_take_longer_than_a_frozen_server_would_be_waited_for(
    own_postgresql: PostgreSQL, tmp_path: Path
) -> None:
    url = own_postgresql.url("postgres")
    with open_store(url, tmp_path) as store, ThreadPoolExecutor() as pool:
        with psycopg.connect(url.replace("+psycopg", "")) as other:
            other.execute("LOCK TABLE cobweb_cobs")
            written = pool.submit(store.write, [UP])
            with pytest.raises(FutureTimeoutError):
                written.result(2 * SILENCE_S)
        written.result()
        assert set(store.states()) == {UP.cob}


def me(clock: Clock, run: str = "mine") -> LockOwner:
    return this_process(run=run, reason="apply", since=clock())


def elsewhere(clock: Clock, run: str = "theirs") -> LockOwner:
    return replace(me(clock, run), user="ann", host="admin9", pid=42)


def cut_sessions(server: PostgreSQL) -> None:
    """End all sessions but this one, as an operator does, or what stands between."""
    server.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )


def test_the_lock_of_an_owner_whose_session_is_gone_is_taken_over(
    url: str, store: Store, tmp_path: Path, clock: Clock
) -> None:
    with open_store(url, tmp_path) as theirs:
        theirs.site_lock(clock=clock).acquire(elsewhere(clock))
    clock.time += LONG_S
    lock = store.site_lock(clock=clock)
    owner = lock.show()
    assert owner is not None
    said = "its session in the database is gone"
    assert lock.doubt(owner) == f"{said}: the next run takes the lock over"
    (notice,) = lock.acquire(me(clock)).notices
    assert "took over the lock of ann@admin9 pid 42 run theirs" in notice
    assert notice.endswith(said)


def test_an_owner_with_a_session_keeps_its_lock_however_old_its_heartbeat_is(
    store: Store, other: Store, clock: Clock
) -> None:
    store.site_lock(clock=clock).acquire(elsewhere(clock))
    clock.time += LONG_S
    with pytest.raises(LockedError) as caught:
        other.site_lock(clock=clock).acquire(me(clock))
    assert "last seen 1000 s ago: look on admin9 for process 42" in caught.value.hint
    assert "`cobweb lock break theirs`" in caught.value.hint
    store.write([UP])


def test_an_owner_without_a_session_that_was_just_seen_keeps_its_lock(
    url: str, store: Store, tmp_path: Path, clock: Clock
) -> None:
    with open_store(url, tmp_path) as theirs:
        theirs.site_lock(clock=clock).acquire(elsewhere(clock))
    clock.time += 60
    with pytest.raises(LockedError, match="--wait"):
        store.site_lock(clock=clock).acquire(me(clock))


def test_a_session_that_was_cut_is_made_anew_with_the_next_heartbeat(
    store: Store, other: Store, clock: Clock, postgresql: PostgreSQL
) -> None:
    held = store.site_lock(clock=clock).acquire(elsewhere(clock))
    cut_sessions(postgresql)
    clock.time += LONG_S
    held.heartbeat()
    clock.time += LONG_S
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me(clock))
    store.write([UP])


def test_who_is_taken_for_dead_and_lives_cannot_write_any_more(
    store: Store, other: Store, clock: Clock, postgresql: PostgreSQL
) -> None:
    held = store.site_lock(clock=clock).acquire(elsewhere(clock))
    cut_sessions(postgresql)
    clock.time += LONG_S
    other.site_lock(clock=clock).acquire(me(clock))
    with pytest.raises(LockedError, match="the run mine"):
        store.write([UP])
    with pytest.raises(LockedError, match="the run mine"):
        held.heartbeat()
    assert other.states() == {}
    held.release()
    owner = other.site_lock(clock=clock).show()
    assert owner is not None
    assert owner.run == "mine"


def test_a_process_that_is_seen_to_live_keeps_its_lock_without_a_session(
    store: Store, other: Store, clock: Clock, postgresql: PostgreSQL
) -> None:
    store.site_lock(clock=clock).acquire(me(clock))
    cut_sessions(postgresql)
    clock.time += LONG_S
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me(clock, "second"))


def test_after_a_restart_of_the_server_owners_have_time_to_come_back(
    own_postgresql: PostgreSQL, tmp_path: Path, clock: Clock
) -> None:
    now, url = clock.time, own_postgresql.url("postgres")
    with open_store(url, tmp_path) as store, open_store(url, tmp_path) as other:
        clock.time = now - LONG_S
        held = store.site_lock(clock=clock).acquire(elsewhere(clock))
        own_postgresql.kill()
        clock.time = now
        for _ in range(2):
            with pytest.raises(StoreAwayError):
                held.heartbeat()
        own_postgresql.start()
        with pytest.raises(LockedError):
            other.site_lock(clock=clock).acquire(me(clock))
        held.heartbeat()
        store.write([UP])
        clock.time = now + LONG_S
        with pytest.raises(LockedError, match="look on admin9"):
            other.site_lock(clock=clock).acquire(me(clock))


@pytest.mark.full("waits for a time limit of the network, 40 s")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a network of its own")
def test_a_network_that_swallows_everything_is_noticed(
    postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """As after a failover; the operating system alone would try for a quarter of an hour."""

    def within_a_network() -> None:
        unshare(Namespace.NETWORK)  # of this thread, and of what it starts
        set_link("up")
        with (
            own_server(postgresql.bin_dir) as server,
            open_store(server.url("postgres"), tmp_path) as store,
        ):
            store.write([UP])
            set_link("down")
            for _ in range(2):  # the connection is cut, then none can be made
                with pytest.raises(StoreAwayError):
                    store.write([UP])
            set_link("up")
            store.write([UP])

    def set_link(state: str) -> None:
        subprocess.run(["ip", "link", "set", "lo", state], check=True)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(within_a_network).result()


def test_a_server_notices_within_a_minute_that_the_machine_of_an_owner_is_gone(
    store: Store, clock: Clock, url: str
) -> None:
    """The kernel does it by what the session has set; the test only looks that it is set."""
    store.site_lock(clock=clock).acquire(elsewhere(clock))
    connection = store._database._session
    assert connection is not None
    names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
    idle_s, pause_s, count = (
        int(connection.exec_driver_sql(f"SHOW {name}").scalar_one()) for name in names
    )
    assert idle_s + pause_s * count <= 60
    with closing(psycopg.connect(url.replace("+psycopg", ""))) as plain:
        rows = plain.execute("SELECT count(*) FROM pg_stat_activity WHERE state ~ 'in transaction'")
        assert rows.fetchone() == (0,), "an open transaction would keep the server from cleaning up"
    assert len(store.states()) == 0
