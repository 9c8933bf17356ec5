# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `postgres-migration`: a change of a database, made once.

What was done is recorded in the database itself, in `cobweb.migrations`, with a digest of the SQL.
By default change and record are one transaction. Without one (`CREATE INDEX CONCURRENTLY`) the
record is written before, as begun, and completed after; what began and did not end is found by it,
and invalid indexes that it left are dropped before it is done again.

While it runs, a second session sees who holds it up: these are named if it fails, or their sessions
are ended where the spec says so.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_postgres import NoServer, Server, literal, server

LOCK_TIMEOUT_S = 10
LOOK_EVERY_S = 0.25
TOLD_BLOCKERS = 3
NO_DATABASE = 'FATAL:  database "{}" does not exist'
TABLE = """CREATE SCHEMA IF NOT EXISTS cobweb;
CREATE TABLE IF NOT EXISTS cobweb.migrations (
  name text PRIMARY KEY, digest text NOT NULL, begun timestamptz NOT NULL DEFAULT now(),
  ended timestamptz, invalid_before text[] NOT NULL DEFAULT '{}');
"""
LOOK = """SELECT json_build_object('standby', pg_is_in_recovery(),
  'table', to_regclass('cobweb.migrations') IS NOT NULL);"""
RECORDS = """SELECT coalesce(json_object_agg(name, json_build_object(
  'digest', digest, 'ended', ended IS NOT NULL, 'invalid', invalid_before)), '{}')
FROM cobweb.migrations;"""
INVALID = """SELECT coalesce(array_agg(i.indexrelid::regclass::text), ARRAY[]::text[])
FROM pg_index i WHERE NOT i.indisvalid"""
INSERT = "INSERT INTO cobweb.migrations (name, digest, ended) VALUES ({name}, {digest}, {ended});"
BEGUN = "UPDATE cobweb.migrations SET invalid_before = ({invalid}) WHERE name = {name};"
ENDED = "UPDATE cobweb.migrations SET ended = now(), digest = {digest} WHERE name = {name};"
DELETE = "DELETE FROM cobweb.migrations WHERE name = {name};"
LEFT = """SELECT coalesce(json_agg(n), '[]') FROM unnest(({invalid})) n WHERE n <> ALL (
  (SELECT invalid_before FROM cobweb.migrations WHERE name = {name})::text[]);"""
BLOCKERS = """SELECT coalesce(json_agg(json_build_object('pid', b.pid, 'name', b.application_name,
  'user', b.usename, 'from', coalesce(host(b.client_addr), 'this host'), 'state', b.state,
  'since', date_trunc('second', coalesce(b.xact_start, b.backend_start)),
  'ended', b.application_name = ANY ({names}) AND pg_terminate_backend(b.pid))), '[]')
FROM pg_stat_activity b WHERE b.pid IN (SELECT unnest(pg_blocking_pids(m.pid))
  FROM pg_stat_activity m WHERE m.application_name = {ours});"""


class Migration(NamedTuple):
    """A migration and where it belongs."""

    server: Server
    database: str
    name: str
    spec: Dict[str, Any]

    @property
    def digest(self) -> str:
        """Name what it does."""
        return hashlib.sha256(self.spec["do"].encode()).hexdigest()

    @property
    def session(self) -> str:
        """Return what its session is called in the server."""
        name = hashlib.sha256(f"{self.database}/{self.name}".encode()).hexdigest()[:16]
        return f"cobweb-migration-{name}"

    @property
    def quoted(self) -> str:
        """Return its name as SQL writes it."""
        return literal(self.name)

    @property
    def in_transaction(self) -> bool:
        """Say whether change and record are one transaction."""
        return bool(self.spec.get("transaction", True))

    def ask(self, statements: str) -> str:
        """Ask its database."""
        return self.server.ask(statements, self.database)


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    migration, earlier = _migrations(cob)
    try:
        records = _records(migration)
    except NoServer:
        return {"state": "down"}
    except Failed as error:
        if str(error) == NO_DATABASE.format(migration.database):
            return {"state": "down"}
        raise
    record = records.get(migration.name)
    before = None if earlier is None else _records(earlier).get(earlier.name)
    found = before or record
    if found is None:
        return {"state": "down"}
    if not found["ended"]:
        return {"state": "broken"}
    done = before is None and found["digest"] == migration.digest
    return {"state": "up" if done else "outdated"}


def do(cob: Dict[str, Any]) -> Answer:
    """Carry the migration out unless it is recorded; one under an earlier name is taken back."""
    migration, earlier = _migrations(cob)
    if earlier is not None and earlier.name in _records(earlier):
        _take_back(earlier)
    record = _records(migration).get(migration.name)
    if record is not None and record["digest"] != migration.digest and record["ended"]:
        raise Failed(
            f"the migration {migration.name} was carried out with another `do`; write a new "
            "migration with another name, and leave this one as it was"
        )
    if record is not None and record["ended"]:
        return {"changed": False}
    if migration.in_transaction:
        _in_one_transaction(migration, "do", _insert(migration, "now()"))
    else:
        _step_by_step(migration, record)
    return {"changed": True}


def undo(cob: Dict[str, Any]) -> Answer:
    """Take the migration back, under an earlier name too, unless it shall stay."""
    migration, earlier = _migrations(cob)
    if not migration.spec.get("restore", True):
        return {"changed": False}
    try:
        _take_back(migration)
        if earlier is not None:
            _take_back(earlier)
    except NoServer:
        return {"changed": False}
    except Failed as error:
        if str(error) != NO_DATABASE.format(migration.database):
            raise
        return {"changed": False}
    return {"changed": True}


def _migrations(cob: Dict[str, Any]) -> Tuple[Migration, Optional[Migration]]:
    """Return the migration, and the applied one if that is another."""
    now = _migration(cob["spec"])
    before = _migration(cob["applied"]) if cob.get("applied") else now
    is_other = (before.server, before.database, before.name) != (now.server, now.database, now.name)
    return now, before if is_other else None


def _migration(spec: Dict[str, Any]) -> Migration:
    return Migration(server(spec), spec["database"], spec["name"], spec)


def _records(migration: Migration) -> Dict[str, Any]:
    """Return what is recorded in the database; a standby is no place for a migration."""
    found = json.loads(migration.ask(LOOK))
    if found["standby"]:
        raise Failed(
            f"the server at {migration.server.place} is a standby; a migration runs on the primary"
        )
    return dict(json.loads(migration.ask(RECORDS))) if found["table"] else {}


# --- to and fro


def _take_back(migration: Migration) -> None:
    record = _records(migration).get(migration.name)
    if record is None:
        return
    if not migration.spec.get("undo"):
        raise Failed(f"the migration {migration.name} is not revertible: its spec has no `undo`")
    delete = DELETE.format(name=migration.quoted)
    if migration.in_transaction:
        _in_one_transaction(migration, "undo", delete)
    else:
        _carry_out(migration, "undo", f"{_timeouts(migration)}\n{migration.spec['undo']}\n")
        migration.ask(delete)


def _insert(migration: Migration, ended: str) -> str:
    digest = literal(migration.digest)
    return INSERT.format(name=migration.quoted, digest=digest, ended=ended)


def _in_one_transaction(migration: Migration, word: str, record: str) -> None:
    """Run SQL of the spec and the record of it; both or nothing."""
    migration.ask(f"SET client_min_messages = warning;\n{TABLE}")
    body = f"BEGIN;\n{record}\n{migration.spec[word]}\n;COMMIT;\n"
    _carry_out(migration, word, f"{_timeouts(migration)}\n{body}")


def _step_by_step(migration: Migration, record: Optional[Dict[str, Any]]) -> None:
    """Run SQL that no transaction can hold; what it leaves when it fails is found again."""
    migration.ask(f"SET client_min_messages = warning;\n{TABLE}")
    if record is None:
        migration.ask(_insert(migration, "NULL"))
        migration.ask(BEGUN.format(name=migration.quoted, invalid=INVALID))
    else:
        _drop_invalid(migration)
    _carry_out(migration, "do", f"{_timeouts(migration)}\n{migration.spec['do']}\n")
    left = _left_invalid(migration)
    if left:
        raise Failed(f"`do` of {migration.name} ended well but left invalid: {', '.join(left)}")
    migration.ask(ENDED.format(name=migration.quoted, digest=literal(migration.digest)))


def _left_invalid(migration: Migration) -> List[str]:
    """Return the invalid indexes that were not there when the migration began."""
    query = LEFT.format(name=migration.quoted, invalid=INVALID)
    return list(json.loads(migration.ask(query)))


def _drop_invalid(migration: Migration) -> None:
    for name in _left_invalid(migration):
        migration.ask(f"DROP INDEX CONCURRENTLY {name};")


def _timeouts(migration: Migration) -> str:
    lock_ms = int(float(migration.spec.get("lock_timeout", LOCK_TIMEOUT_S)) * 1000)
    statement_ms = int(float(migration.spec.get("statement_timeout", 0)) * 1000)
    return (
        f"SET application_name = {literal(migration.session)}; SET lock_timeout = {lock_ms}; "
        f"SET statement_timeout = {statement_ms}; SET client_min_messages = warning;"
    )


# --- the session, and who holds it up


def _carry_out(migration: Migration, word: str, script: str) -> None:
    """Run a script; if it fails, say who held it up."""
    process = migration.server.start(migration.server.psql(migration.database))
    blockers: List[Dict[str, Any]] = []
    text: Optional[str] = script
    while True:
        try:
            _, stderr = process.communicate(text, LOOK_EVERY_S)
            break
        except subprocess.TimeoutExpired:
            text = None
            blockers = _blockers(migration) or blockers
    if process.returncode == 0:
        return
    told = f"`{word}` of {migration.name}: {migration.server.failure(stderr)}"
    if blockers and ("lock timeout" in stderr or "statement timeout" in stderr):
        told += f"; held up by {'; '.join(map(_describe, blockers[:TOLD_BLOCKERS]))}"
    raise Failed(told)


def _blockers(migration: Migration) -> List[Dict[str, Any]]:
    names = ", ".join(map(literal, migration.spec.get("terminate", [])))
    query = BLOCKERS.format(names=f"ARRAY[{names}]::text[]", ours=literal(migration.session))
    return list(json.loads(migration.ask(query)))


def _describe(blocker: Dict[str, Any]) -> str:
    return (
        f"process {blocker['pid']} ({blocker['name'] or 'without a name'}, user {blocker['user']}, "
        f"from {blocker['from']}, {blocker['state']}) since {blocker['since']}"
    )


if __name__ == "__main__":
    run({"check": check, "do": do, "undo": undo})
