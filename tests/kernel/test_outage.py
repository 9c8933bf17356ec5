"""A PostgreSQL server that goes away in a run, for a while or for good; a real one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.errors import StoreAwayError
from cobweb.kernel._database_outage import PatientJournal
from cobweb.kernel._signals import Interrupts
from cobweb.model import CobId
from cobweb.operations import Caller, Orders, apply_site, desired_of
from cobweb.plugin import load_plugins
from cobweb.site import load_site
from cobweb.store import EventWritten, RunInfo, RunRecord, StateWritten, Store, open_store
from tests.support.postgresql import PostgreSQL

A = CobId("x/a")
BATCH = (
    StateWritten(cob=A, state="up", reason="check", time=1.0),
    EventWritten(1, 1.0, "cob.state", "{}"),
)
INFO = RunInfo(id="run", command="apply", started=1.0, user="me", host="here", pid=1)


SITE = """\
cobweb: 1
name: chain
state: {url}
inventory: {{all: {{hosts: {{'n[1:2000]': {{}}}}}}}}
types:
  thing:
    states: [down, up]
    preferred: up
    remove: down
    check: {{tasks: t.yml}}
    transitions: {{down -> up: {{tasks: t.yml}}, up -> down: {{tasks: t.yml}}}}
cobs:
  a: {{type: thing, on: all}}
"""


@pytest.fixture
def store(own_postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Store]:
    """Open a store in a server of its own, with a run under way."""
    with open_store(own_postgresql.url("postgres"), tmp_path, create=True) as opened:
        opened.begin_run(INFO)
        yield opened


def test_a_run_waits_for_its_database_and_goes_on(store: Store, own_postgresql: PostgreSQL) -> None:
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        if "waiting 60 s for it" in text:
            own_postgresql.start()

    own_postgresql.kill()
    PatientJournal(store, Interrupts(), say, outage_s=60.0).write(BATCH)
    assert [text.partition(";")[0] for text in told][1:] == ["the state database is there again"]
    assert "nothing new is started" in told[0]
    assert store.states()[A].state == "up"
    assert len(list(store.events("run"))) == 1


@pytest.mark.full("a real PostgreSQL; the gate has it in the middle of a run")
def test_the_end_of_a_run_waits_for_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site.yml").write_text(SITE.format(url="sqlite:///state.db"))
    (tmp_path / "t.yml").write_text("[]\n")
    told: list[str] = []
    with open_store("sqlite:///state.db", tmp_path) as store:
        end_run, tries = store.end_run, iter([False, False, True])

        def away_at_first(record: RunRecord) -> None:
            if not next(tries):
                raise StoreAwayError("it is away")
            end_run(record)

        monkeypatch.setattr(store, "end_run", away_at_first)
        orders, desired = Orders(executor="simulate"), desired_of(load_site(tmp_path))
        caller = Caller(say=told.append)
        apply_site(desired, load_plugins(), store, orders, caller, info=INFO)
        (run,) = store.runs()
    assert run.result == "ok"
    assert told[-1] == "the state database is there again; the run goes on"


def test_a_batch_of_which_only_the_answer_was_lost_is_stored_once(store: Store) -> None:
    store.write(BATCH)
    store.write(BATCH, again=True)
    assert len(list(store.events("run"))) == 1


@pytest.mark.gate("a real PostgreSQL that is stopped")
def test_a_database_that_stays_away_ends_the_run(store: Store, own_postgresql: PostgreSQL) -> None:
    told: list[str] = []
    own_postgresql.kill()
    with pytest.raises(StoreAwayError, match="cannot be used"):
        PatientJournal(store, Interrupts(), told.append, outage_s=0.0).write(BATCH)
    assert len(told) == 1
    own_postgresql.start()


@pytest.mark.full("a real PostgreSQL; the gate has it in the middle of a run")
def test_who_asks_twice_to_stop_is_not_kept_waiting(
    store: Store, own_postgresql: PostgreSQL
) -> None:
    interrupts = Interrupts()

    def say(_text: str) -> None:
        interrupts()
        interrupts()

    own_postgresql.kill()
    with pytest.raises(StoreAwayError):
        PatientJournal(store, interrupts, say, outage_s=float("inf")).write(BATCH)
    own_postgresql.start()


@pytest.mark.gate("a real PostgreSQL that crashes, and is back")
def test_a_crash_of_the_server_in_the_middle_costs_nothing_but_time(
    own_postgresql: PostgreSQL, tmp_path: Path
) -> None:
    """The run cannot be over before: nobody has read what it has told."""
    (tmp_path / "site.yml").write_text(SITE.format(url=own_postgresql.url("postgres")))
    (tmp_path / "t.yml").write_text("[]\n")
    os.mkfifo(tmp_path / "events")
    command = [sys.executable, "-m", "cobweb", "-C", str(tmp_path)]
    apply = [*command, "apply", "--yes", "--executor", "simulate", "--events", "events"]
    with (
        subprocess.Popen(apply, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as run,
        (tmp_path / "events").open(encoding="utf-8") as events,
    ):
        next(line for line in events if '"transition.end"' in line)
        own_postgresql.kill()
        rest = threading.Thread(target=events.read)
        rest.start()
        assert run.stderr is not None
        assert next(line for line in run.stderr if "waiting 60 s for it" in line)
        own_postgresql.start()
        _, err = run.communicate()
        rest.join()
    assert run.returncode == 0, err
    assert "the state database is there again; the run goes on" in err
    with open_store(own_postgresql.url("postgres"), tmp_path, create=False) as store:
        assert {it.state for it in store.states().values()} == {"up"}
        assert len(store.states()) == 2000
        (last,) = store.runs()
        seqs = [event["seq"] for event in store.events(last.info.id)]
    assert seqs == list(range(1, len(seqs) + 1))
