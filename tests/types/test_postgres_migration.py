"""The type `postgres-migration` on a real server, with sessions that are in its way."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.database import Database, make_primary, make_standby
from tests.support.fabric import Fabric
from tests.support.live import Live, live_on, run_page_example
from tests.support.operator import Operator
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

ADD = {"do": "ALTER TABLE customer ADD COLUMN {} text;", "undo": "ALTER TABLE customer DROP {};"}
SITE = """
cobweb: 1
name: shop
inventory: hosts.yml
cobs:
  migration:
    type: postgres-migration
    on: db
    spec:
      {database: shop, name: "{{ migration }}", do: "{{ work }}", undo: SELECT 1, lock_timeout: 1}
    needs:
      - {when: "* -> up", cob: app, on: app, state: down}
  app:
    type: process
    on: app
    spec: {command: [sleep, "1000"]}
    after: [migration@db]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A server with a database `shop`, and what moves objects on its host."""

    fabric: Fabric
    live: Live
    database: Database

    def migration(self, column: str, **more: Any) -> OneCob:
        """Return a migration that adds a column."""
        spec = {key: text.format(column) for key, text in ADD.items()}
        spec |= {"database": "shop", "name": f"add-{column}", **more}
        return self.live.cob("postgres-migration", self.database.host, spec)

    def columns(self) -> str:
        """Return the columns of the table."""
        query = (
            "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'customer'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        return self.database.sql(query, "shop")

    @contextmanager
    def session(self, application: str) -> Iterator[str]:
        """Hold a transaction open that has read the table; give the process of its session."""
        psql = ["psql", "-XAtq", "shop"]
        argv = ["runuser", "-u", "postgres", "--", "env", f"PGAPPNAME={application}", *psql]
        with subprocess.Popen(
            self.fabric.inside_host(self.database.host, *argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("BEGIN; SELECT count(*) FROM customer; SELECT pg_backend_pid();\n")
            process.stdin.flush()
            process.stdout.readline()
            try:
                yield process.stdout.readline().strip()
            finally:
                process.kill()


@pytest.fixture(scope="module")
def shop(
    fabric_folder: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """Set up the server and a standby of it."""
    with Fabric(fabric_folder(), plain=2) as fabric:
        database = make_primary(fabric, fabric.plain[0])
        database.sql("CREATE DATABASE shop")
        database.sql("CREATE TABLE customer (id int)", "shop")
        with live_on(fabric, tmp_path_factory.mktemp("live")) as live:
            yield Shop(fabric=fabric, live=live, database=database)


@pytest.mark.gate("the type once on a real server")
def test_it_passes_the_conformance_kit(shop: Shop) -> None:
    """With another name as the changed spec: the old one is undone, the new one done."""
    spec = dict(shop.migration("one").spec)
    changed = dict(shop.migration("two").spec)
    shop.live.check_type("postgres-migration", shop.database.host, spec, changed)
    assert shop.columns() == "id"


def test_the_example_of_its_page_works(shop: Shop, tmp_path: Path) -> None:
    """Applied, again without a change, and taken back."""
    run_page_example(shop.fabric, shop.database.host, tmp_path, "postgres-migration")
    assert shop.columns() == "id"


def test_what_fails_leaves_nothing_behind(shop: Shop) -> None:
    """Neither the first half of its statements nor a record; the message is PostgreSQL's."""
    it = shop.migration("half", do="ALTER TABLE customer ADD half int; SELECT 1/0;")
    failed = it.move("down", "up")
    assert failed.outcome is Outcome.FAILED
    assert "`do` of add-half: ERROR:" in failed.message
    assert "division by zero" in failed.message
    assert it.check() == "down"
    assert shop.columns() == "id"


def test_who_holds_it_up_is_named(shop: Shop) -> None:
    """And ended only if the spec says so."""
    it = shop.migration("late", lock_timeout=1)
    with shop.session("reports") as pid:
        failed = it.move("down", "up")
        assert failed.outcome is Outcome.FAILED
        assert "canceling statement due to lock timeout" in failed.message
        assert f"held up by process {pid} (reports, user postgres, from this host" in failed.message
        assert "idle in transaction) since" in failed.message
        other = shop.migration("late", lock_timeout=1, terminate=["shop"])
        assert other.move("down", "up").outcome is Outcome.FAILED
        ending = shop.migration("late", terminate=["shop", "reports"])
        ending.go("down", "up")
    it.go("up", "down")


def test_another_do_of_a_migration_that_was_made_is_an_error(shop: Shop) -> None:
    """A migration is history; what is to be different is another one."""
    it = shop.migration("three")
    it.go("down", "up")
    changed = shop.migration("three", do="ALTER TABLE customer ADD COLUMN three int;")
    assert changed.check() == "outdated"
    failed = changed.move("outdated", "up")
    assert failed.outcome is Outcome.FAILED
    assert "was carried out with another `do`; write a new migration" in failed.message
    it.go("up", "down")


def test_without_undo_it_is_not_revertible(shop: Shop) -> None:
    """It says so, and stays."""
    it = shop.migration("four")
    it.go("down", "up")
    spec = {key: value for key, value in it.spec.items() if key != "undo"}
    failed = shop.live.cob("postgres-migration", shop.database.host, spec).move("up", "down")
    assert failed.outcome is Outcome.FAILED
    assert "add-four is not revertible: its spec has no `undo`" in failed.message
    it.go("up", "down")


def test_an_index_that_was_left_invalid_is_made_anew(shop: Shop) -> None:
    """Outside of a transaction the record says what has begun."""
    shop.database.sql("INSERT INTO customer VALUES (1), (1)", "shop")
    do = "CREATE UNIQUE INDEX CONCURRENTLY by_id ON customer (id);"
    it = shop.migration("index", do=do, undo="DROP INDEX by_id;", transaction=False)
    failed = it.move("down", "up")
    assert failed.outcome is Outcome.FAILED
    assert "could not create unique index" in failed.message
    assert it.check() == "broken"
    shop.database.sql("TRUNCATE customer", "shop")
    it.go("broken", "up")
    invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid"
    assert shop.database.sql(invalid, "shop") == "0"
    it.go("up", "down")


def test_it_is_refused_on_a_standby(shop: Shop) -> None:
    """With a message that names the place to go to."""
    standby = make_standby(shop.database, shop.fabric.plain[1])
    spec = shop.migration("five").spec
    it = shop.live.cob("postgres-migration", standby.host, spec)
    assert "is a standby; a migration runs on the primary" in it.failing_check()


def test_clients_are_down_meanwhile_and_wait_when_it_fails(shop: Shop, tmp_path: Path) -> None:
    """The run says for what they wait; when the way is free all of it goes on."""
    operator = Operator(shop.fabric, tmp_path)
    db, app = shop.fabric.plain
    operator.write_inventory({"db": [db], "app": [app]})
    (tmp_path / "site.yml").write_text(SITE, encoding="utf-8")
    operator.set_variables(migration="m1", work="SELECT 1")
    first = operator.apply()
    assert first.transitions() == [("h01/migration", "up"), ("h02/app", "up")], first.err
    operator.set_variables(migration="m2", work="ALTER TABLE customer ADD COLUMN six text")
    with shop.session("reports"):
        run = operator.apply()
    assert (run.code, run.transitions()) == (1, [("h02/app", "down")])
    assert "held up by process" in run.out + run.err
    assert "h02/app waits for h01/migration to be up" in operator.cobweb("why", "h02/app").out
    run = operator.apply()
    assert run.transitions() == [("h01/migration", "up"), ("h02/app", "up")], run.err
    assert operator.broken_promises([first, run]) == []
