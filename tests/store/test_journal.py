"""What is written is read back, after reopening too; on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cobweb.errors import StoreError
from cobweb.model import CobId
from cobweb.store import (
    CobRecord,
    Entry,
    EventWritten,
    Forgotten,
    GrantGone,
    GrantWritten,
    HostForgotten,
    HostFound,
    HostLost,
    HostSwitched,
    RunInfo,
    RunRecord,
    StateWritten,
    Store,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    open_store,
)

A, B, C = CobId("h1/a"), CobId("h1/b"), CobId("h2/c")


def up(cob: CobId, time: float = 1.0) -> StateWritten:
    return StateWritten(cob=cob, state="up", reason="check", time=time)


def began(cob: CobId, time: float = 2.0) -> TransitionBegan:
    return TransitionBegan(cob=cob, source="down", dest="up", time=time)


def finished(
    cob: CobId, *, result: TransitionResult = TransitionResult.OK, time: float = 3.0
) -> TransitionFinished:
    state = "up" if result is TransitionResult.OK else "unknown"
    return TransitionFinished(
        cob=cob, source="down", dest="up", state=state, result=result, time=time
    )


def test_the_id_of_a_site_is_made_once_and_stays(store: Store, url: str, tmp_path: Path) -> None:
    made = store.site_id()
    assert len(made) == 32
    assert store.site_id() == made
    with open_store(url, tmp_path) as again:
        assert again.site_id() == made


def test_new_database_knows_nothing(store: Store) -> None:
    assert store.states() == {}
    assert store.locks() == ()
    assert store.runs() == ()
    assert store.last_run() is None
    assert store.run("r1") is None
    assert list(store.events("r1")) == []
    assert store.current_generation() is None
    assert store.generation(1) is None


def test_the_records_of_some_objects_are_those_of_all(store: Store) -> None:
    many = [CobId(f"h{number:04}/x") for number in range(1200)]
    store.write([up(cob) for cob in [*many, A, B]])
    store.write([HostLost(host="h1", time=2.0)])
    whole = store.states()
    assert store.states_of([]) == store.states_of([C]) == {}
    assert store.states_of([B, C, A]) == {A: whole[A], B: whole[B]}
    assert not store.states_of([A])[A].reachable
    assert list(store.states_of(reversed(many)).items()) == [(cob, whole[cob]) for cob in many]


def test_the_records_of_some_hosts_are_found_by_their_names_alone(store: Store) -> None:
    """Names that begin alike, or that a database may put in another order, are other hosts."""
    names = ["h1", "h1.lan", "h10", "h-1", "H1", "h1_", "ä1"]
    store.write([up(CobId(f"{name}/{cob}")) for name in names for cob in ("x", "y/z", "0")])
    whole = store.states()
    for name in names:
        wanted = {cob: record for cob, record in whole.items() if cob.startswith(f"{name}/")}
        assert len(wanted) == 3
        assert store.states_on([name]) == wanted
    assert store.states_on(["h1", "h10", "other"]).keys() == {
        cob for cob in whole if cob.startswith(("h1/", "h10/"))
    }
    assert store.states_on([]) == {}


def test_hosts_are_lost_until_they_are_found_also_those_without_objects(store: Store) -> None:
    store.write([up(A), HostLost(host="h1", time=2.0), HostLost(host="new", time=2.0)])
    assert store.lost_hosts() == {"h1", "new"}
    store.write([HostFound(host="new", time=3.0)])
    assert store.lost_hosts() == {"h1"}


@pytest.mark.parametrize(
    ("entries", "recorded"),
    [
        ((), None),
        ((up(A),), "up"),
        ((up(A), began(A)), "down"),
        ((up(A), finished(A), finished(A, result=TransitionResult.FAILED)), "up"),
        ((up(A), StateWritten(cob=A, state="unknown", reason="check", time=2.0)), "up"),
        ((StateWritten(cob=A, state="unknown", reason="check", time=1.0),), None),
    ],
    ids=["nothing", "known", "stopped", "failed", "not-found-out", "never-known"],
)
def test_the_last_certain_state_is_remembered(
    store: Store, entries: Sequence[Entry], recorded: str | None
) -> None:
    for entry in entries:
        store.write([entry])
    record = store.states().get(A)
    assert (record.recorded if record else None) == recorded


def test_state_is_read_back_whole(store: Store, run_info: RunInfo) -> None:
    store.begin_run(run_info)
    store.write([replace(up(A), content="digest")])
    assert store.states() == {
        A: CobRecord(
            cob=A,
            state="up",
            content="digest",
            applied_json=None,
            in_transition=None,
            reachable=True,
            since=1.0,
            run="r1",
            generation=3,
            failed=False,
            reason="check",
            known="up",
        )
    }


def test_records_outlive_the_store(url: str, tmp_path: Path, run_info: RunInfo) -> None:
    with open_store(url, tmp_path) as store:
        store.begin_run(run_info)
        store.write([up(A), began(B), GrantWritten(cob=A, holder=B, state="up")])
        before = store.states(), store.locks(), store.runs()
    with open_store(url, tmp_path) as store:
        assert (store.states(), store.locks(), store.runs()) == before
    with open_store(url, tmp_path, create=False) as store:
        assert (store.states(), store.locks(), store.runs()) == before


def test_transition_that_began_stays_open_until_its_end_is_written(store: Store) -> None:
    store.write([began(A)])
    record = store.states()[A]
    assert (record.state, record.in_transition) == ("unknown", ("down", "up"))
    store.write([finished(A)])
    record = store.states()[A]
    assert (record.state, record.in_transition) == ("up", None)
    assert (record.reason, record.since) == ("transition", 3.0)


def test_check_ends_an_open_transition(store: Store) -> None:
    store.write([began(A)])
    store.write([up(A)])
    assert store.states()[A].in_transition is None


def test_beginning_keeps_the_state_that_is_left(store: Store) -> None:
    store.write([up(A)])
    store.write([TransitionBegan(cob=A, source="up", dest="down", time=9.0)])
    record = store.states()[A]
    assert (record.state, record.since, record.in_transition) == ("up", 1.0, ("up", "down"))


def test_applied_spec_is_kept_until_another_is_told(store: Store) -> None:
    def applied() -> Mapping[str, Any] | None:
        return store.states()[A].applied

    store.write([replace(finished(A), applied={"port": 1})])
    assert applied() == {"port": 1}
    store.write([up(A), finished(A)])
    assert applied() == {"port": 1}
    store.write([replace(up(A), applied={"port": 2})])
    assert applied() == {"port": 2}
    store.write([replace(finished(A), applied=None)])
    assert applied() is None


def test_secrets_of_an_applied_spec_are_not_stored(store: Store) -> None:
    spec = {"password": {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n6162"}, "port": 1}
    store.write([replace(finished(A), applied=spec)])
    record = store.states()[A]
    assert record.applied_json is not None
    assert "ANSIBLE_VAULT" not in record.applied_json
    assert record.applied is not None
    assert record.applied["port"] == 1
    assert list(record.applied["password"]) == ["__cobweb_secret"]


def test_content_is_kept_until_another_is_told(store: Store) -> None:
    store.write([replace(up(A), content="one")])
    store.write([up(A), began(A), finished(A)])
    assert store.states()[A].content == "one"
    store.write([replace(finished(A), content="two")])
    assert store.states()[A].content == "two"


def test_failure_is_remembered_for_its_run(store: Store, run_info: RunInfo) -> None:
    store.begin_run(run_info)
    store.write([finished(A, result=TransitionResult.FAILED)])
    store.write([up(A)])
    assert store.states()[A].failed
    store.begin_run(replace(run_info, id="r2"))
    assert store.states()[A].failed
    store.write([up(A)])
    assert not store.states()[A].failed


def test_failure_ends_with_a_success_or_by_word(store: Store) -> None:
    store.write([finished(A, result=TransitionResult.FAILED), finished(A)])
    assert not store.states()[A].failed
    store.write([replace(up(A), failed=True)])
    assert store.states()[A].failed
    store.write([replace(up(A), failed=False)])
    assert not store.states()[A].failed


def test_generation_is_the_runs_or_the_entrys(store: Store, run_info: RunInfo) -> None:
    store.begin_run(run_info)
    store.write([up(A), replace(up(B), generation=1), replace(finished(C), generation=2)])
    assert [record.generation for record in store.states().values()] == [3, 1, 2]


def test_lost_host_makes_its_objects_unreachable(store: Store) -> None:
    store.write([up(A), up(C), HostLost(host="h1", time=4.0)])
    assert [record.reachable for record in store.states().values()] == [False, True]
    store.write([HostFound(host="h1", time=5.0)])
    assert store.states()[A].reachable


def test_object_of_a_lost_host_is_unreachable_before_it_was_ever_known(store: Store) -> None:
    store.write([HostLost(host="h1", time=4.0)])
    store.write([up(A)])
    assert not store.states()[A].reachable


def test_grants_are_one_per_pair(store: Store) -> None:
    store.write([GrantWritten(cob=A, holder=holder, state="up") for holder in (C, B)])
    assert store.locks() == ((A, B, "up"), (A, C, "up"))
    store.write([GrantWritten(cob=A, holder=B, state="down"), GrantGone(cob=A, holder=C)])
    assert store.locks() == ((A, B, "down"),)
    store.write([GrantGone(cob=A, holder=B), GrantGone(cob=A, holder=B)])
    assert store.locks() == ()


def test_forgotten_object_leaves_no_trace(store: Store) -> None:
    pairs = [(A, B), (B, C), (C, A), (C, B)]
    store.write([up(A), up(B), up(C)])
    store.write([GrantWritten(cob=cob, holder=holder, state="up") for cob, holder in pairs])
    store.write([Forgotten(cob=A), Forgotten(cob=CobId("no/such"))])
    assert list(store.states()) == [B, C]
    assert store.locks() == ((B, C, "up"), (C, B, "up"))


def test_forgotten_object_may_come_again_in_the_same_batch(store: Store) -> None:
    store.write([replace(up(A), content="old"), GrantWritten(cob=A, holder=B, state="up")])
    grant = GrantWritten(cob=A, holder=C, state="up")
    store.write([grant, Forgotten(cob=A), began(A), GrantWritten(cob=A, holder=B, state="down")])
    record = store.states()[A]
    assert (record.state, record.content, record.since) == ("unknown", "", 0.0)
    assert store.locks() == ((A, B, "down"),)


def test_events_come_back_in_order(store: Store, run_info: RunInfo) -> None:
    written: Sequence[Entry] = [
        EventWritten(seq=seq, time=seq / 8, type="cob.state", data=f'{{"cob":"{A}","n":{seq}}}')
        for seq in range(2500)
    ]
    store.begin_run(run_info)
    store.write(written[1000:])
    store.write(written[:1000])
    assert list(store.events("r1")) == [
        {"seq": seq, "time": seq / 8, "type": "cob.state", "cob": A, "n": seq}
        for seq in range(2500)
    ]


def test_events_belong_to_their_run(store: Store, run_info: RunInfo) -> None:
    event = EventWritten(seq=1, time=1.0, type="version", data='{"events":1}')
    store.begin_run(run_info)
    store.write([event])
    store.begin_run(replace(run_info, id="r2"))
    store.write([event, event._replace(seq=2)])
    assert len(list(store.events("r1"))) == 1
    assert len(list(store.events("r2"))) == 2


def test_text_of_any_kind_is_kept(store: Store, run_info: RunInfo) -> None:
    text = "\x00 \x1b[31m '\";-- é \U0001f578 \ud800"
    store.begin_run(run_info)
    store.write([EventWritten(seq=1, time=1.0, type="x", data=json.dumps({"text": text}))])
    store.write([replace(finished(A), applied={"text": text, text: 1})])
    assert next(store.events("r1"))["text"] == text
    assert store.states()[A].applied == {"text": text, text: 1}


def test_event_twice_is_refused_with_its_whole_batch(store: Store, run_info: RunInfo) -> None:
    event = EventWritten(seq=1, time=1.0, type="version", data="{}")
    store.begin_run(run_info)
    store.write([event])
    with pytest.raises((sqlite3.IntegrityError, psycopg.IntegrityError)):
        store.write([up(A), event])
    assert store.states() == {}


def test_run_has_no_end_until_it_is_told(store: Store, run_info: RunInfo) -> None:
    store.begin_run(run_info)
    run = store.last_run()
    assert run is not None
    assert run == RunRecord(info=run_info)
    ended = RunRecord(info=run_info, result="ok", exit_code=0, counts={"up": 2}, ended=20.0)
    store.end_run(replace(ended, waits=({"cob": A},)))
    run = store.run("r1")
    assert run is not None
    assert run == replace(ended, waits=({"cob": A},))


def test_runs_come_newest_first(store: Store, run_info: RunInfo) -> None:
    for number in range(4):
        store.begin_run(replace(run_info, id=f"r{number}"))
    assert [run.info.id for run in store.runs(3)] == ["r3", "r2", "r1"]
    last = store.last_run()
    assert last is not None
    assert last.info.id == "r3"


def test_the_last_run_can_be_that_of_another_command(store: Store, run_info: RunInfo) -> None:
    commands = ("apply", "drift", "drift --executor simulate")
    for number, command in enumerate(commands):
        store.begin_run(replace(run_info, id=f"r{number}", command=command))
    last, apply = store.last_run(), store.last_run(but="drift")
    assert last is not None
    assert apply is not None
    assert (last.info.id, apply.info.id) == ("r2", "r0")


def test_hosts_keep_what_is_known_of_them_when_they_switch(store: Store) -> None:
    store.write([up(A), HostLost(host="h1", time=1.0), HostSwitched(host="h1", generation=1)])
    store.write([HostSwitched(host="h1", generation=2), HostSwitched(host="h2", generation=2)])
    assert store.host_generations() == {"h1": 2, "h2": 2}
    assert not store.states()[A].reachable
    store.write([HostFound(host="h1", time=2.0)])
    assert store.host_generations() == {"h1": 2, "h2": 2}
    store.write([HostForgotten(host="h1")])
    assert store.host_generations() == {"h2": 2}


def test_another_host_generation_is_another_revision(store: Store) -> None:
    store.write([up(A)])
    before = store.revision()
    store.write([HostSwitched(host="h1", generation=1)])
    assert store.revision() != before


def test_forgetting_many_objects_takes_a_few_statements(store: Store) -> None:
    cobs = [CobId(f"h1/{number}") for number in range(2000)]
    locks = [GrantWritten(cob=cob, holder=A, state="up") for cob in cobs]
    store.write([*(up(cob) for cob in cobs), up(A), *locks])
    calls: list[str] = []
    statement = type(store._statements.forget[0])
    plain = statement.many_tuples

    def counted(self: Any, cursor: Any, rows: Any) -> None:
        calls.extend([self.text] if rows else [])
        plain(self, cursor, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement, "many_tuples", counted)
        store.write([*locks, *(Forgotten(cob=cob) for cob in cobs)])
    assert list(store.states()) == [A]
    assert store.locks() == ()
    assert len(calls) == 4


def test_nothing_is_written_through_a_store_for_reading(url: str, tmp_path: Path) -> None:
    with open_store(url, tmp_path, create=False) as store, pytest.raises(StoreError):
        store.write([up(A)])
    open_store(url, tmp_path).close()
    with open_store(url, tmp_path, create=False) as store, pytest.raises(StoreError):
        store.write([up(A)])


def test_empty_batch_is_fine(store: Store) -> None:
    store.write([])
    assert store.states() == {}
