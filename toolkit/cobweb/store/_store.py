"""The journal: states, locks, slots, runs, events and generations of one site.

It is written ahead: the runtime hands over what is about to happen as one batch of entries and
carries it out when `write` has returned, which is when the batch is on the disk (design, section
6). After `kill -9` or power loss a batch is there as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from cobweb._clock import wall_clock
from cobweb.errors import StoreError
from cobweb.generation import canonical_json
from cobweb.model import CobId, Decision, Decisions, Results, State, host_of
from cobweb.store import _budgets, _decisions, _generations
from cobweb.store._database import Database, one_at_a_time
from cobweb.store._fold import Batch, fold
from cobweb.store._process import why_dead
from cobweb.store._site_lock import Fence, Lock, SiteLock
from cobweb.store._statements import Statements, statements_of, write_or_delete
from cobweb.store._tables import (
    COBS,
    EVENTS,
    GENERATIONS,
    GRANTS,
    HOSTS,
    META,
    RENAMES,
    RESULTS,
    RUNS,
    json_text,
)
from cobweb.store._values import (
    CanaryWritten,
    CobRecord,
    CobRenamed,
    Entry,
    Generation,
    GenerationInfo,
    RunInfo,
    RunRecord,
)

_NAMES_AT_ONCE = 500
"""How many objects are asked for by name in one go."""

_ROWS_AT_ONCE = 1000
"""How many events are read in one go, and how many records for a revision."""

_SITE_ID, _EPOCH, _DELETED_RUN = "site_id", "epoch", "deleted_run"
"""The keys of the site's id, its last epoch and the newest deleted run in the table `META`."""

_NEWEST_RUNS = sa.select(RUNS).order_by(RUNS.c.number.desc())
_INFO = ("id", "command", "started", "user", "host", "pid", "site", "generation")

_SEPARATOR = "\x1f"
"""Between columns: neither a name nor JSON has it."""

_BELIEVED: tuple[sa.ColumnElement[Any], ...] = (
    COBS.c.id,
    COBS.c.state,
    COBS.c.content,
    sa.func.coalesce("=" + COBS.c.applied, ""),
    sa.func.coalesce(COBS.c.source + _SEPARATOR + COBS.c.dest, ""),
    sa.case((COBS.c.served, "served"), else_=""),
)
_BELIEF = reduce(lambda one, other: one + _SEPARATOR + other, _BELIEVED)
"""What a revision has of a record, as one text: four times as quick as making a record of it."""


class Store:
    """The state database of one site, in messages its `label`; used by one thread at a time.

    Every method raises StoreError when the database fails; then nothing of the call is stored.
    """

    def __init__(self, database: Database) -> None:
        self.label = database.label
        self._database = database
        self._fence = Fence(database)
        self._run: tuple[int, RunInfo] | None = None

    @cached_property
    def _statements(self) -> Statements:
        return statements_of(self._database.engine.dialect.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; the store cannot be used any more."""
        self._database.close()

    def site_lock(self, *, clock: Callable[[], float], leads: bool = False) -> SiteLock:
        """Return the site lock, or the one of who `leads`; `clock` gives seconds since the epoch.

        While the lock is held through it, every write of this store checks that it still is.
        """
        lock = Lock.LEADER if leads else Lock.RUN
        return SiteLock(self._database, self._fence, lock, clock=clock)

    def site_id(self) -> str:
        """Return the id of the site, which is made when it is first asked for and stays."""
        with self._fence.write() as connection:
            found = _kept(connection, _SITE_ID)
            if not found:
                found = uuid.uuid4().hex
                _keep(connection, _SITE_ID, found)
        return found

    def next_epoch(self, now_s: float) -> int:
        """Return a number that is greater than all of this site before, and keep it.

        It is the time in milliseconds where that suffices: so also a database that was restored
        from an older copy gives a greater one.
        """
        with self._fence.write() as connection:
            epoch = max(int(now_s * 1000), int(_kept(connection, _EPOCH) or 0) + 1)
            _keep(connection, _EPOCH, str(epoch))
        return epoch

    # --- what is known

    def states(self) -> Mapping[CobId, CobRecord]:
        """Return the record of every object that was ever written and not forgotten, by id."""
        return self._records([sa.true()])

    def states_of(self, cobs: Iterable[CobId]) -> Mapping[CobId, CobRecord]:
        """Return the records of these objects, by id; those never written are left out."""
        ids = sorted(cobs)
        parts = (ids[at : at + _NAMES_AT_ONCE] for at in range(0, len(ids), _NAMES_AT_ONCE))
        return self._records(COBS.c.id.in_(part) for part in parts)

    def states_on(self, hosts: Iterable[str]) -> Mapping[CobId, CobRecord]:
        """Return the records of all objects on these hosts, by id."""
        dialect = self._database.engine.dialect.name
        return self._records(_on_hosts(dialect, sorted(set(hosts))))

    def lost_hosts(self) -> frozenset[str]:
        """Return the hosts that could not be reached the last time, also those without records."""
        with self._database.read() as connection:
            return frozenset(_lost(connection))

    def revision(self) -> str:
        """Return a digest of states, contents, applied specs, results, hosts, generations, budgets.

        Whatever a plan is made of is in it; when, why and by which run it was written is not. It is
        worked out from the rows, never counted: whoever wrote them, by whatever version of Cobweb
        or by hand, another belief is another revision. Reads every record.
        """
        found = hashlib.sha256()
        with self._database.read() as connection:
            records = connection.scalars(sa.select(_BELIEF).order_by(COBS.c.id))
            for texts in records.partitions(_ROWS_AT_ONCE):
                found.update("".join(f"{text}\n" for text in texts).encode())
            newest = connection.scalar(sa.select(sa.func.max(GENERATIONS.c.id)))
            host_generations = sorted(self._host_generations(connection).items())
            found.update(repr((sorted(_lost(connection)), newest, host_generations)).encode())
            found.update(canonical_json(self._results(connection)).encode())
            found.update(repr(_budgets.book(connection)).encode())
        return found.hexdigest()

    def locks(self) -> tuple[tuple[CobId, CobId, State], ...]:
        """Return the state locks that are out as (locked object, holder, state), sorted."""
        with self._database.read() as connection:
            rows = connection.execute(sa.select(GRANTS.c.cob, GRANTS.c.holder, GRANTS.c.state))
            return tuple(sorted((CobId(cob), CobId(holder), state) for cob, holder, state in rows))

    def results(self) -> Results:
        """Return what tasks handed back and is kept, by sorted host and key."""
        with self._database.read() as connection:
            return self._results(connection)

    def slots(self) -> frozenset[tuple[str, str]]:
        """Return the slots that are lent, as (limit, unit)."""
        with self._database.read() as connection:
            return frozenset(_budgets.slots(connection))

    def canaries(self) -> tuple[CanaryWritten, ...]:
        """Return what is known of canaries: by limit, what was written last first."""
        with self._database.read() as connection:
            return tuple(_budgets.canaries(connection))

    def renames(self) -> tuple[CobRenamed, ...]:
        """Return the renames of objects, by generation and old name."""
        order = (RENAMES.c.generation, RENAMES.c.old)
        with self._database.read() as connection:
            rows = connection.execute(sa.select(RENAMES).order_by(*order)).mappings()
            return tuple(CobRenamed(**row) for row in rows)

    def given_up(self) -> frozenset[str]:
        """Return the hosts of the site that are given up."""
        with self._database.read() as connection:
            return frozenset(_budgets.given_up(connection))

    def write(self, entries: Sequence[Entry], *, again: bool = False) -> None:
        """Store a batch as one transaction; it is durable when this returns.

        Events are stored under the run that `begin_run` told. LockedError where this store holds
        the site lock and someone has broken it. A batch may be written `again` where the answer to
        its commit was lost: its events are stored once.
        """
        run, generation = (self._run[1].id, self._run[1].generation) if self._run else ("", 0)
        batch = fold(entries, generation=generation)
        with self._fence.write() as connection:
            cursor = connection.connection.cursor()
            self._write_renamed(cursor, batch)
            self._write_forgotten(cursor, batch)
            self._write_cobs(cursor, batch, run)
            self._write_grants(cursor, batch)
            self._write_hosts(cursor, batch)
            _budgets.write(cursor, self._statements, batch, run=run)
            if batch.events:
                assert self._run is not None, "events belong to a run: begin_run comes first"
                rows = [(self._run[0], *event) for event in batch.events]
                self._statements.write_events(cursor, rows, again=again)

    # --- runs

    def begin_run(self, info: RunInfo) -> None:
        """Store that a run has begun; what is written from now on is its.

        StoreError where a full disk would not take its end.
        """
        self._database.keep_reserve()
        values = {name: getattr(info, name) for name in _INFO}
        with self._fence.write() as connection:
            if connection.dialect.name == "sqlite":  # would give the number of a lost run again
                newest = (sa.func.max(column) for column in (RUNS.c.number, EVENTS.c.run))
                values["number"] = 1 + max(connection.scalar(sa.select(it)) or 0 for it in newest)
            number = connection.execute(RUNS.insert().values(**values)).inserted_primary_key
        assert number is not None
        self._run = (number[0], info)

    def use_reserve(self) -> None:
        """Use the room that was kept for the end of a run, where the disk is full."""
        self._database.use_reserve()

    def end_run(self, run: RunRecord) -> None:
        """Store how a run has ended; it is known by the id in `run.info`."""
        values = {"result": run.result, "exit_code": run.exit_code, "ended": run.ended}
        texts = {"counts": json_text(run.counts), "waits": json_text(list(run.waits))}
        with self._fence.write() as connection:
            chosen = sa.update(RUNS).where(RUNS.c.id == run.info.id)
            connection.execute(chosen.values(**values, **texts))

    def runs(self, limit: int | None = 100) -> tuple[RunRecord, ...]:
        """Return the last runs, the newest first; None: all."""
        return self._runs(_NEWEST_RUNS.limit(limit))

    def last_run(self, *, but: str | None = None) -> RunRecord | None:
        """Return the run that began last; one of the command `but` does not count."""
        chosen = _NEWEST_RUNS.limit(1)
        if but is not None:
            chosen = chosen.where(sa.not_(RUNS.c.command.startswith(but, autoescape=True)))
        return next(iter(self._runs(chosen)), None)

    def run(self, run: str) -> RunRecord | None:
        """Return the run with this id."""
        return next(iter(self._runs(sa.select(RUNS).where(RUNS.c.id == run))), None)

    def goes_on(self, run: RunRecord) -> bool:
        """Say whether a run is still at work, as far as its site lock and its process tell."""
        owner = self.site_lock(clock=lambda: 0.0).show()
        if owner is None or owner.run != run.info.id or run.ended is not None:
            return False
        return not why_dead(owner)

    def newest_deleted_run(self) -> str:
        """Return the greatest id of a run that `delete_history` has deleted, "" for none."""
        with self._database.read() as connection:
            return _kept(connection, _DELETED_RUN)

    def events(self, run: str, *, after: int = -1) -> Iterator[dict[str, Any]]:
        """Yield the events of a run beyond `after` as they were written, in the order of `seq`.

        StoreError at the end where the run was deleted meanwhile.
        """
        number, last = self._number_of(run), after
        while rows := self._events_after(number, last):
            last = rows[-1]["seq"]
            yield from rows
        if number is not None and self._number_of(run) is None:
            message = f"run {run} was deleted by `cobweb gc` while it was read"
            raise StoreError(message, hint="`cobweb runs` lists those that are left")

    # --- generations

    def save_generation(
        self, generation: Generation, files: Mapping[str, bytes] | None = None
    ) -> Generation:
        """Store a generation after the current one, and return it with its id and parent.

        `files` are the kept files that the content names, by their SHA-256. If the current
        generation has the same digest, it is returned, and only files that are missing are stored;
        a damaged one gets a successor.
        """
        with self._fence.write() as connection:
            return _generations.add(connection, generation, files or {})

    def mark_reached(self, generation: int, time: float) -> None:
        """Store that a whole run with this generation left nothing to do; the first time counts."""
        chosen = sa.update(GENERATIONS).where(GENERATIONS.c.id == generation)
        with self._fence.write() as connection:
            connection.execute(chosen.where(GENERATIONS.c.reached.is_(None)).values(reached=time))

    def delete_history(self, *, generations: Iterable[int] = (), runs: Iterable[str] = ()) -> None:
        """Delete runs with their events, and generations with their canaries, at once.

        So are the kept files that no other generation names, and what was decided otherwise before
        the oldest of them. Ids of nothing are passed over.
        Reads the contents of all generations that stay. The last run is not to be among `runs`.
        """
        ids, gone = sorted(set(generations)), [{"gone": run} for run in runs]
        with self._fence.write() as connection:
            if ids:
                connection.execute(sa.delete(GENERATIONS).where(GENERATIONS.c.id.in_(ids)))
                _budgets.delete_canaries(connection, ids)
                _generations.delete_unused_files(connection)
                _decisions.delete_unnamed(connection)
            if gone:
                number = sa.select(RUNS.c.number).where(RUNS.c.id == sa.bindparam("gone"))
                events = sa.delete(EVENTS).where(EVENTS.c.run == number.scalar_subquery())
                connection.execute(events, gone)
                connection.execute(sa.delete(RUNS).where(RUNS.c.id == sa.bindparam("gone")), gone)
                deleted = max(_kept(connection, _DELETED_RUN), *(row["gone"] for row in gone))
                _keep(connection, _DELETED_RUN, deleted)

    def compact(self) -> None:
        """Give the room of what was deleted back to the disk, where that is worth it."""
        self._database.compact()

    def generations(self) -> tuple[GenerationInfo, ...]:
        """Return all generations without their contents, the newest first."""
        with self._database.read() as connection:
            return _generations.infos(connection)

    def current_generation(self) -> Generation | None:
        """Return the generation that was saved last; errors as those of `generation`."""
        return self.generation(None)

    def current_generation_id(self) -> int:
        """Return the id of the generation that was saved last, 0 if there is none."""
        with self._database.read() as connection:
            return connection.scalar(sa.select(sa.func.max(GENERATIONS.c.id))) or 0

    def generation(self, generation: int | None) -> Generation | None:
        """Return the generation with this id (None: the newest); StoreError for a damaged one."""
        with self._database.read() as connection:
            row = _generations.one(connection, generation)
            return None if row is None else _generations.value(row, self.label)

    def host_generations(self) -> Mapping[str, int]:
        """Return the generation that each host has switched to, by sorted name."""
        with self._database.read() as connection:
            return self._host_generations(connection)

    def file(self, digest: str) -> bytes | None:
        """Return the kept file with this SHA-256; None where it is missing or damaged."""
        with self._database.read() as connection:
            return _generations.file(connection, digest)

    # --- decisions

    def decisions(self, section: str, at: int | None = None) -> Decisions:
        """Return what a section has at a revision of it (None: now)."""
        return self.decisions_of({section: at})[section]

    def decisions_of(self, at: Mapping[str, int | None]) -> Mapping[str, Decisions]:
        """Return by section what it has at a revision of it (None: now), all at one moment."""
        with self._database.read() as connection:
            return {name: _decisions.decisions(connection, name, at[name]) for name in at}

    def memory(self, section: str) -> Decisions:
        """Return what was remembered in the name of a section, as it is now."""
        with self._database.read() as connection:
            return _decisions.decisions(connection, section, kind=_decisions.MEMORY)

    def decision_history(self, section: str | None = None) -> tuple[Decision, ...]:
        """Return all that was decided in a section (None: in any) and is kept, newest first."""
        with self._database.read() as connection:
            return _decisions.history(connection, section)

    def decide(  # noqa: PLR0913  # what, on which ground, by whom, why and when
        self,
        section: str,
        expected: int,
        writes: Mapping[str, Any],
        author: str,
        reason: str,
        *,
        is_memory: bool = False,
        remembers: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = wall_clock,
    ) -> int:
        """Store plain JSON data by key (None: nothing any more); return the section's revision.

        ConflictError where that was not the `expected` one before; then nothing is stored. What
        `is_memory` is no part of the site, and takes the place of what was there before; so does
        what `remembers` has, at whichever revision that is.
        """
        kind = _decisions.MEMORY if is_memory else _decisions.DECISION
        common = {"author": author, "reason": reason, "time": clock()}
        with self._fence.write() as connection:
            one_at_a_time(connection)
            if remembers:
                _decisions.write(
                    connection, section, None, remembers, common, kind=_decisions.MEMORY
                )
            return _decisions.write(connection, section, expected, writes, common, kind=kind)

    # --- parts

    def _records(self, conditions: Iterable[sa.ColumnElement[bool]]) -> Mapping[CobId, CobRecord]:
        """Return the records that meet any of these conditions on their rows, by id."""
        found: dict[CobId, CobRecord] = {}
        with self._database.read() as connection:
            lost = _lost(connection)
            for chosen in conditions:
                for row in connection.execute(sa.select(COBS).where(chosen)):
                    found[CobId(row[0])] = _record(row, lost)
        return {cob: found[cob] for cob in sorted(found)}

    def _host_generations(self, connection: sa.Connection) -> Mapping[str, int]:
        chosen = sa.select(HOSTS.c.name, HOSTS.c.generation).where(HOSTS.c.generation > 0)
        rows = connection.execute(chosen.order_by(HOSTS.c.name))
        return {row.name: row.generation for row in rows}

    def _results(self, connection: sa.Connection) -> Results:
        found: dict[str, dict[str, Any]] = {}
        rows = sa.select(RESULTS).order_by(RESULTS.c.host, RESULTS.c.key)
        for host, key, value in connection.execute(rows):
            found.setdefault(host, {})[key] = json.loads(value)
        return found

    def _write_renamed(self, cursor: DBAPICursor, batch: Batch) -> None:
        """Rename objects in all tables that have their ids, and keep the old ones."""
        pairs = [{"old_": it.old, "new_": it.new} for it in batch.renamed]
        for statement in self._statements.rename:
            statement.many(cursor, pairs)
        rows = [(it.old, it.generation, it.new) for it in batch.renamed]
        self._statements.renamed.many_tuples(cursor, rows)

    def _write_forgotten(self, cursor: DBAPICursor, batch: Batch) -> None:
        cobs = [(cob,) for cob in batch.forgotten]
        for statement in self._statements.forget:
            statement.many_tuples(cursor, cobs)
        hosts = [(host,) for host in batch.forgotten_hosts]
        for statement in self._statements.forget_host:
            statement.many_tuples(cursor, hosts)

    def _write_cobs(self, cursor: DBAPICursor, batch: Batch, run: str) -> None:
        """Upsert the records, those that set the same columns with one statement."""
        self._statements.still.many_tuples(cursor, [(cob,) for cob in batch.still])
        groups: dict[frozenset[str], list[dict[str, Any]]] = {}
        for cob, columns in batch.cobs.items():
            groups.setdefault(frozenset(columns), []).append({"id": cob, "run": run, **columns})
        for names, rows in groups.items():
            self._statements.cobs(names).many(cursor, rows)

    def _write_grants(self, cursor: DBAPICursor, batch: Batch) -> None:
        grants = [(*pair, state) for pair, state in batch.grants.items()]
        write_or_delete(cursor, self._statements.grant, self._statements.ungrant, grants)

    def _write_hosts(self, cursor: DBAPICursor, batch: Batch) -> None:
        hosts = [(name, *seen) for name, seen in batch.hosts.items()]
        self._statements.host.many_tuples(cursor, hosts)
        self._statements.switched.many_tuples(cursor, list(batch.switched.items()))
        results = [(host, key, it) for host, of in batch.results.items() for key, it in of.items()]
        write_or_delete(cursor, self._statements.result, self._statements.drop_result, results)

    def _runs(self, chosen: sa.Select[Any]) -> tuple[RunRecord, ...]:
        with self._database.read() as connection:
            return tuple(_run_record(row) for row in connection.execute(chosen))

    def _number_of(self, run: str) -> int | None:
        with self._database.read() as connection:
            return connection.scalar(sa.select(RUNS.c.number).where(RUNS.c.id == run))

    def _events_after(self, run: int | None, seq: int) -> list[dict[str, Any]]:
        chosen = sa.select(EVENTS).where(EVENTS.c.run == run, EVENTS.c.seq > seq)
        with self._database.read() as connection:
            rows = connection.execute(chosen.order_by(EVENTS.c.seq).limit(_ROWS_AT_ONCE))
            return [
                {"seq": seq, "time": time, "type": kind, **json.loads(data)}
                for _run, seq, time, kind, data in rows
            ]


def _kept(connection: sa.Connection, key: str) -> str:
    return connection.scalar(sa.select(META.c.value).where(META.c.key == key)) or ""


def _keep(connection: sa.Connection, key: str, value: str) -> None:
    """Set what `META` has under a key."""
    connection.execute(sa.delete(META).where(META.c.key == key))
    connection.execute(META.insert(), {"key": key, "value": value})


# --- reading


def _on_hosts(dialect: str, hosts: Sequence[str]) -> Iterator[sa.ColumnElement[bool]]:
    """Yield conditions on ids that together choose the objects of hosts; quick on SQLite."""
    if dialect == "sqlite":  # whose order of texts is that of their bytes
        for host in hosts:
            yield COBS.c.id.between(f"{host}/", f"{host}/\U0010ffff")
    else:
        yield sa.func.split_part(COBS.c.id, "/", 1).in_(hosts)


def _lost(connection: sa.Connection) -> set[str]:
    return set(connection.scalars(sa.select(HOSTS.c.name).where(HOSTS.c.reachable == sa.false())))


def _record(row: Sequence[Any], lost: set[str]) -> CobRecord:
    cob, state, content, applied, source, dest, since, run, generation, failed, reason = row[:11]
    return CobRecord(
        cob=cob,
        state=sys.intern(state),
        content=content,
        applied_json=applied,
        in_transition=None if dest is None else (source, dest),
        reachable=not lost or host_of(cob) not in lost,
        since=since,
        run=sys.intern(run),
        generation=generation,
        failed=failed,
        reason=sys.intern(reason),
        attempt=row[11],
        executor=sys.intern(row[12]),
        known=sys.intern(row[13]),
        served=bool(row[14]),
        at_work=bool(row[15]),
    )


def _run_record(row: sa.Row[Any]) -> RunRecord:
    return RunRecord(
        info=RunInfo(**{name: getattr(row, name) for name in _INFO}),
        result=row.result,
        exit_code=row.exit_code,
        counts={} if row.counts is None else json.loads(row.counts),
        waits=() if row.waits is None else tuple(json.loads(row.waits)),
        ended=row.ended,
    )
