"""The site lock: one owner, dead ones found, broken ones fenced off; on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.errors import LockedError, UsageError
from cobweb.model import CobId
from cobweb.store import (
    LockOwner,
    Patience,
    RunInfo,
    RunRecord,
    StateWritten,
    Store,
    open_store,
    this_process,
)
from tests.store.conftest import Clock

UP = StateWritten(cob=CobId("h/a"), state="up", reason="check", time=1.0)
NOW = 1_000.0


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def other(url: str, tmp_path: Path, store: Store) -> Iterator[Store]:
    """Return a second store on the same database."""
    del store  # it comes first and makes the tables
    with open_store(url, tmp_path) as opened:
        yield opened


def me(run: str = "r1") -> LockOwner:
    return this_process(run=run, reason="apply", since=NOW)


def on_another_host(run: str = "r1") -> LockOwner:
    return replace(me(run), user="ann", host="admin9", pid=42)


@pytest.fixture
def gone() -> LockOwner:
    """Return an owner whose process has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return replace(me(), pid=process.pid)


def test_free_lock_is_taken_shown_and_given_back(store: Store, clock: Clock) -> None:
    lock = store.site_lock(clock=clock)
    assert lock.show() is None
    with lock.acquire(me()) as held:
        assert held.notices == ()
        assert lock.show() == held.owner == me()
    assert lock.show() is None


def test_what_says_that_an_owner_lives(store: Store, clock: Clock, gone: LockOwner) -> None:
    lock = store.site_lock(clock=clock)
    assert lock.why_alive(me()) == f"its process {os.getpid()} on this machine is alive"
    assert lock.why_alive(replace(me(), until=NOW + 60)) == ""
    assert lock.why_alive(gone) == ""
    clock.time += 60
    assert lock.why_alive(on_another_host()) == "it was seen 60 s ago, so it is most likely alive"
    clock.time += 60
    assert lock.why_alive(on_another_host()) == ""


def test_lock_of_a_living_process_is_refused_with_its_name(
    store: Store, other: Store, clock: Clock
) -> None:
    owner = on_another_host()
    store.site_lock(clock=clock).acquire(owner)
    clock.time += 7
    with pytest.raises(LockedError) as caught:
        other.site_lock(clock=clock).acquire(me("r2"))
    assert caught.value.exit_code == 5
    assert caught.value.owner == (
        "ann@admin9 pid 42 run r1 since 1970-01-01 00:16:40 UTC (apply), seen 7 s ago"
    )
    assert "cobweb lock break r1" in caught.value.hint
    assert other.site_lock(clock=clock).show() == owner


def test_own_living_process_is_no_exception(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock).acquire(me())
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me("r2"))


def test_lock_never_expires_by_time(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock).acquire(on_another_host())
    clock.time += 10 * 365 * 86_400
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me("r2"))


class Waiting:
    """Somebody whose pauses take no time; `end` happens in the pause of that number."""

    def __init__(self, clock: Clock, end: Callable[[], object] = int, at: int = 0) -> None:
        self.pauses: list[float] = []
        self.told: list[str] = []
        self._clock, self._end, self._at = clock, end, at

    def patience(self, seconds: float) -> Patience:
        return Patience(
            seconds=seconds, clock=self._clock, sleep=self._sleep, tell=self.told.append
        )

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._clock.time += seconds
        if len(self.pauses) == self._at:
            self._end()


def test_who_waits_gets_the_lock_as_it_ends(store: Store, other: Store, clock: Clock) -> None:
    held = store.site_lock(clock=clock).acquire(me())
    waiting = Waiting(clock, held.release, at=3)
    got = other.site_lock(clock=clock).acquire(me("r2"), waiting.patience(60.0))
    assert waiting.pauses == [0.25, 0.5, 1.0]
    (told,) = waiting.told
    assert "run r1" in told
    assert (got.owner.since, got.owner.heartbeat) == (NOW + 1.75, NOW + 1.75)
    assert other.site_lock(clock=clock).show() == got.owner
    other.write([UP])


def test_waiting_ends_as_asked(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock).acquire(on_another_host())
    waiting = Waiting(clock)
    with pytest.raises(LockedError, match="run r1"):
        other.site_lock(clock=clock).acquire(me("r2"), waiting.patience(17.0))
    assert sum(waiting.pauses) == 17.0
    assert max(waiting.pauses) == 5.0
    assert len(waiting.told) == 1


def test_a_free_lock_is_not_waited_for(store: Store, clock: Clock) -> None:
    waiting = Waiting(clock)
    with store.site_lock(clock=clock).acquire(me(), waiting.patience(1.0)) as held:
        assert held.owner == me()
    assert (waiting.pauses, waiting.told) == ([], [])


def test_a_hold_lasts_from_when_it_begins(store: Store, other: Store, clock: Clock) -> None:
    held = store.site_lock(clock=clock).acquire(me())
    waiting = Waiting(clock, held.release, at=1)
    lock = other.site_lock(clock=clock)
    owner, _ = lock.hold(me("hold-1"), for_s=600, patience=waiting.patience(60.0))
    assert owner.until == clock.time + 600
    assert lock.show() == owner


def test_dead_process_is_noticed(store: Store, other: Store, clock: Clock, gone: LockOwner) -> None:
    store.site_lock(clock=clock).acquire(gone)
    held = other.site_lock(clock=clock).acquire(me("r2"))
    (notice,) = held.notices
    assert f"pid {gone.pid} run r1" in notice
    assert notice.endswith(f"its process {gone.pid} is gone")
    assert other.site_lock(clock=clock).show() == me("r2")


def test_process_that_nobody_reaps_is_dead(store: Store, other: Store, clock: Clock) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, a zombie is left
        store.site_lock(clock=clock).acquire(replace(me(), pid=process.pid, process_start=""))
        held = other.site_lock(clock=clock).acquire(me("r2"))
        assert "is gone" in held.notices[0]


def test_later_process_with_the_same_pid_is_not_the_owner(
    store: Store, other: Store, clock: Clock
) -> None:
    store.site_lock(clock=clock).acquire(replace(me(), process_start="1"))
    held = other.site_lock(clock=clock).acquire(me("r2"))
    assert "is gone" in held.notices[0]


def test_restart_of_the_host_ends_its_processes(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock).acquire(replace(me(), boot_id="another"))
    held = other.site_lock(clock=clock).acquire(me("r2"))
    assert held.notices[0].endswith("has been restarted since")


@pytest.mark.parametrize(
    "changes", [{"host": "admin9"}, {"machine_id": "other"}, {"pid_space": "pid:[1]"}]
)
def test_what_cannot_be_known_to_be_dead_may_live(
    store: Store, other: Store, clock: Clock, gone: LockOwner, changes: dict[str, str]
) -> None:
    owner = replace(gone, **changes)  # type: ignore[arg-type]  # all of them are texts
    store.site_lock(clock=clock).acquire(owner)
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me("r2"))


def test_another_users_process_is_alive(store: Store, other: Store, clock: Clock) -> None:
    init = replace(me(), pid=1, process_start="")  # of root, and always there
    store.site_lock(clock=clock).acquire(init)
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).acquire(me("r2"))


def test_heartbeat_is_shown_and_stored_every_few_seconds_only(
    store: Store, other: Store, clock: Clock
) -> None:
    held = store.site_lock(clock=clock).acquire(me())
    seen = []
    for step in (1, 3, 1, 4, 1):
        clock.time += step
        held.heartbeat()
        owner = other.site_lock(clock=clock).show()
        assert owner is not None
        seen.append(owner.heartbeat - NOW)
    assert seen == [0, 0, 5, 5, 10]


def test_broken_lock_stops_its_owner_at_the_next_write(
    store: Store, other: Store, clock: Clock, run_info: RunInfo
) -> None:
    held = store.site_lock(clock=clock).acquire(me())
    store.begin_run(run_info)
    store.write([UP])
    assert other.site_lock(clock=clock).break_lock("r1") == me()
    with pytest.raises(LockedError, match="someone broke the lock of this run"):
        store.write([replace(UP, state="down")])
    with pytest.raises(LockedError):
        store.end_run(RunRecord(info=run_info, result="ok", exit_code=0, ended=2.0))
    clock.time += 60
    with pytest.raises(LockedError):
        held.heartbeat()
    assert store.states()[UP.cob].state == "up"
    assert store.runs()[0].ended is None


def test_owner_learns_who_came_after_its_lock_was_broken(
    store: Store, other: Store, clock: Clock
) -> None:
    held = store.site_lock(clock=clock).acquire(me())
    other.site_lock(clock=clock).break_lock("r1")
    other.site_lock(clock=clock).acquire(on_another_host("r2"))
    with pytest.raises(LockedError, match="the run r2 of ann@admin9"):
        store.write([UP])
    held.release()
    standing = other.site_lock(clock=clock).show()
    assert standing is not None
    assert standing.run == "r2"


def test_store_without_a_lock_writes_freely(store: Store, other: Store, clock: Clock) -> None:
    with store.site_lock(clock=clock).acquire(me()):
        other.write([UP])
    store.write([replace(UP, state="down")])
    assert store.states()[UP.cob].state == "down"


def test_breaking_names_the_lock_that_is_meant(store: Store, clock: Clock) -> None:
    lock = store.site_lock(clock=clock)
    with pytest.raises(UsageError, match="not locked"):
        lock.break_lock("r1")
    lock.acquire(on_another_host())
    with pytest.raises(
        UsageError, match=r"not locked by r0 .*it is locked by ann@admin9"
    ) as caught:
        lock.break_lock("r0")
    assert caught.value.exit_code == 64
    assert lock.show() == on_another_host()


def test_hold_lasts_without_a_process(
    store: Store, other: Store, clock: Clock, gone: LockOwner
) -> None:
    lock = store.site_lock(clock=clock)
    held, notices = lock.hold(replace(gone, run="hold-1", reason="disk change"), for_s=600)
    assert (held.until, notices) == (NOW + 600, ())
    clock.time += 599
    with pytest.raises(LockedError) as caught:
        other.site_lock(clock=clock).acquire(me("r2"))
    assert caught.value.owner == (
        f"{gone.user}@{gone.host} hold hold-1 until 1970-01-01 00:26:40 UTC (disk change)"
    )
    store.write([UP])  # a hold keeps runs out; it fences nobody


def test_hold_that_is_over_is_taken_over_with_a_notice(
    store: Store, other: Store, clock: Clock
) -> None:
    store.site_lock(clock=clock).hold(on_another_host("hold-1"), for_s=600)
    clock.time += 600
    held = other.site_lock(clock=clock).acquire(me("r2"))
    assert held.notices[0].startswith("a hold is over: ann@admin9 hold hold-1")


def test_hold_is_refused_while_a_run_goes_on(store: Store, other: Store, clock: Clock) -> None:
    store.site_lock(clock=clock).acquire(me())
    with pytest.raises(LockedError):
        other.site_lock(clock=clock).hold(me("hold-1"), for_s=600)


def test_reason_is_shown_in_one_line() -> None:
    assert "\n" not in replace(me(), reason="two\nlines").line(NOW)


@pytest.mark.gate("processes that race for the lock")
def test_of_racing_processes_one_wins(url: str, tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from cobweb.errors import LockedError
from cobweb.store import open_store, this_process
url, folder, run = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with open_store(url, Path(folder)) as store:
    try:
        store.site_lock(clock=time.time).acquire(this_process(run=run, reason="race", since=1.0))
        print("won", flush=True)
    except LockedError as error:
        print("lost", error.owner, flush=True)
    sys.stdin.readline()
"""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code, url, str(tmp_path), f"r{number}"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    assert [next_line(racer) for racer in racers] == ["ready"] * 4
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    answers = [next_line(racer) for racer in racers]
    (winner,) = [number for number, answer in enumerate(answers) if answer == "won"]
    losers = [answer for answer in answers if answer != "won"]
    assert all(f"pid {racers[winner].pid} run r{winner}" in answer for answer in losers)
    for racer in racers:
        racer.communicate("\n")
        assert racer.returncode == 0


def next_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
