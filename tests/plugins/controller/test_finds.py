"""What went wrong once with `cobweb serve`, from outside: one test for each such find.

Each is a way by which an approval was lost, something went out that nobody had let go, a goal was
never reached, or people were told what is not so.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.served import Kept, Ran, before_children, eventually, git

pytestmark = pytest.mark.gate("each round starts other processes of Cobweb")

Make = Callable[..., Kept]

SERVER, CONFIG, PLAIN, SWITCH = "n1/server", "n1/config", "n2/plain", "n3/switch-n3"
CLOSED = f"{datetime.now(UTC) + timedelta(hours=2):%H:%M}"
"""Two hours from now: a window from there for an hour is closed for as long as tests take."""
CLOSING = f"{datetime.now(UTC) + timedelta(hours=3):%H:%M}"

DISTURBED = ("-m", "tests.support.orphaned_run")

ALL_IS_WELL = "all is as admitted"

LONG_AGO_S = 7200.0
"""So old is no plan that a run may still begin with."""


def user() -> str:
    return Path("~").expanduser().owner()


def told(site: Kept) -> Ran:
    """Run `serve --once` for people; what they read is on lines of any length."""
    with wide_lines():
        ran = site.ran(*site.served, "--once")
    return Ran(code=ran.code, out=unfolded(ran.out), err=unfolded(ran.err))


@contextmanager
def wide_lines() -> Iterator[None]:
    """Have cells of tables and lines broken nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "1000")
        yield


def unfolded(text: str) -> str:
    """Return text that was broken into lines as one line."""
    return " ".join(text.split())


def listed(site: Kept) -> str:
    """Return what `approvals` tells people."""
    with wide_lines():
        ran = site.done("approvals")
    return unfolded(ran.out + ran.err)


@contextmanager
def killed_plans() -> Iterator[list[int]]:
    """Have each `plan` of this process killed as it starts; yield their process ids."""
    start, killed = subprocess.Popen.__init__, list[int]()

    def started(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        start(self, args, *rest, **options)
        if "plan" in args:
            os.kill(self.pid, signal.SIGKILL)
            killed.append(self.pid)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", started)
        yield killed


@contextmanager
def first_time(word: str, step: Callable[[], object]) -> Iterator[list[int]]:
    """Take a step before the first child that has a word in its call; yield [1] when it is done."""
    taken: list[int] = []

    def before(words: Sequence[str]) -> None:
        if word in words and not taken:
            taken.append(1)
            step()

    with before_children(before):
        yield taken


class Orphan:
    """A run that is stopped before it has the lock of the site, and whose controller is dead."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def await_end(self) -> None:
        eventually(self._has_ended, "the run ends")

    def _has_ended(self) -> bool:
        try:
            return bool(self._process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    def kill(self) -> None:
        if not self._has_ended():
            self._process.kill()


@contextmanager
def orphaned(site: Kept) -> Iterator[Orphan]:
    """Have a controller killed whose run has just started; yield the run, which is stopped."""
    file = site.root / "orphan"
    words = ("kill", str(file), *site.served, "--once")
    with site.child(*words, program=DISTURBED) as controller:
        ended = controller.ended()
        assert ended.code == -signal.SIGKILL, ended
    run = Orphan(int(file.read_text(encoding="ascii")))
    try:
        yield run
    finally:
        run.kill()


# Approvals


def test_a_plan_that_is_killed_takes_no_approval_away(kept: Kept) -> None:
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git", "--reason", "seen by Ann")
    approved = kept.only("approved")
    with killed_plans() as killed:
        ran = told(kept)
    assert killed
    assert (ran.code, ran.out) == (1, ""), ran
    assert ALL_IS_WELL not in ran.err
    assert kept.only("approved") == approved
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "two"


def test_a_plan_that_is_killed_makes_no_commit_invalid(kept: Kept) -> None:
    kept.commit(plain="two")
    with killed_plans():
        assert kept.code() == 1
    assert kept.waiting() == []
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "two"


def test_a_commit_that_does_not_evaluate_is_told_with_its_finding(kept: Kept) -> None:
    kept.further = "  wrong: {type: bord, on: n1}\n"
    kept.commit()
    ran = told(kept)
    assert ran.code == 3
    finding = re.search(r"site\.yml:\d+:\d+: \S.*?bord", ran.err)
    assert finding, ran
    assert finding[0] in listed(kept)
    refused = kept.on_site("approve", kept.only("invalid")["id"])
    assert (refused.code, finding[0] in unfolded(refused.err)) == (64, True), refused


def test_the_number_of_further_findings_is_told(kept: Kept) -> None:
    kept.further = "".join(f"  wrong{number}: {{type: bord, on: n1}}\n" for number in range(3))
    kept.commit()
    ran = told(kept)
    assert (ran.code, "2 more" in ran.err) == (3, True), ran


def test_who_has_rejected_the_newest_commit_is_told(kept: Kept) -> None:
    head = kept.commit(config="two")
    assert kept.code() == 2
    kept.done("reject", "git", "--reason", "not today")
    for _ in range(2):
        said = listed(kept)
        assert head[:8] in said
        assert f"rejected by {user()}: not today" in said
        assert kept.code() == 0


def test_who_has_approved_is_told(kept: Kept) -> None:
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git", "--reason", "nobody is up")
    assert "approved" in listed(kept)
    assert kept.only("approved")["reason"] == f"approved by {user()}: nobody is up"
    assert kept.code() == 0
    (one,) = kept.approvals()["approvals"]
    assert (one["state"], one["by"], one["said"]) == ("admitted", user(), "nobody is up")


def test_a_commit_that_lets_files_be_admitted_again_can_be_approved(kept: Kept) -> None:
    kept.policy = "{apply: {git: never}}"
    kept.commit("never")
    assert kept.code() == 2
    kept.done("approve", "git")
    assert kept.code() == 0
    kept.policy = "{apply: {git: auto}}"
    kept.commit("again", plain="two")
    assert kept.code() == 2
    assert kept.board_of(PLAIN) == "one"
    kept.done("approve", kept.only("waiting")["id"])
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "two"


def test_a_commit_that_raises_a_limit_goes_by_the_new_one(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto, run: {max_removals: 0}}")
    extra = f"  extra: {site.board('n2', 'one')}\n"
    site.further = extra
    site.commit()
    assert site.code() == 0
    site.further, site.policy = "", "{outages: auto, run: {max_removals: 5}}"
    site.commit("a higher limit")
    assert site.code() == 2
    site.done("approve", "git")
    data = site.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "reached")
    assert site.board_of("n2/extra") is None


@pytest.mark.full("five rounds for a rare case")
def test_a_limit_that_is_raised_after_a_refusal_lets_the_goal_go_on(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto, run: {max_removals: 0}}")
    site.further = f"  extra: {site.board('n2', 'one')}\n"
    site.commit()
    assert site.code() == 0
    site.further = ""
    site.commit()
    assert site.once()["goal"]["state"] == "refused"
    site.policy = "{outages: auto, run: {max_removals: 5}}"
    site.commit("a higher limit")
    site.once()
    site.done("approve", "git")
    assert site.code() == 0
    assert site.board_of("n2/extra") is None


def test_a_commit_that_mends_a_wrong_window_does_not_wait_for_it(kept: Kept) -> None:
    kept.policy = f'{{windows: [{{from: "{CLOSED}", to: "{CLOSING}"}}]}}'
    kept.commit("a wrong window")
    assert kept.code() == 2
    kept.done("approve", "git")
    assert kept.code() == 0
    kept.policy = ""
    kept.commit("no windows", plain="two")
    assert kept.code() == 2
    assert kept.board_of(PLAIN) == "one"
    kept.done("approve", kept.only("waiting")["id"])
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "two"


@pytest.mark.full("four rounds for a few words")
def test_nobody_is_told_of_an_approval_that_there_was_not(kept: Kept) -> None:
    """What a commit changes had drifted: its outage is no news, but nobody has let it go."""
    kept.scribble(CONFIG, "drifted")
    assert kept.on_site("drift").code == 2
    kept.commit(config="two")
    ran = told(kept)
    assert (ran.code, "than was approved" in ran.err) == (2, False), ran
    assert kept.board_of(CONFIG) == "drifted"
    kept.done("approve", kept.only("waiting")["id"])
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "two"


# Runs whose controller was killed


def test_a_run_that_is_late_holds_no_site(kept: Kept) -> None:
    """It goes on while the next controller plans a newer commit."""
    kept.commit(plain="two")
    with orphaned(kept) as run:
        head = kept.commit(plain="three")
        with first_time("plan", run.go_on) as planned:
            kept.once()
        run.await_end()
    assert planned
    data = kept.once()
    assert (data["exit_code"], data["held"]) == (0, None)
    assert (data["goal"]["state"], data["admitted"]["commit"]) == ("reached", head)
    assert kept.board_of(PLAIN) == "three"
    assert kept.done_once(PLAIN, "three")
    assert kept.ends()[(PLAIN, "two")] <= 1


def test_a_run_whose_controller_died_as_it_began_is_done_once(kept: Kept) -> None:
    head = kept.commit(plain="two")
    with orphaned(kept) as run:
        run.go_on()
        kept.once()
        run.await_end()
    data = kept.once()
    assert (data["exit_code"], data["held"]) == (0, None)
    assert (data["goal"]["state"], data["admitted"]["commit"]) == ("reached", head)
    assert kept.done_once(PLAIN, "two")


def test_a_run_that_is_late_does_nothing_after_a_pin(kept: Kept) -> None:
    first = kept.approvals()["admitted"]["commit"]
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git")
    with orphaned(kept) as run:
        kept.done("pin", "--reason", "no more changes tonight")
        assert kept.code() == 0
        before = kept.log()
        run.go_on()
        run.await_end()
    data = kept.once()
    assert (data["exit_code"], data["held"], data["goal"]["state"]) == (0, None, "reached")
    assert data["admitted"]["commit"] == first
    assert kept.log() == before


@pytest.mark.full("as after a pin, which the gate has")
def test_a_run_that_is_late_does_nothing_after_a_commit_that_takes_it_back(kept: Kept) -> None:
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git")
    with orphaned(kept) as run:
        head = kept.commit(config="one")
        kept.once()
        before = kept.log()
        run.go_on()
        run.await_end()
    data = kept.once()
    assert (data["held"], data["admitted"]["commit"]) == (None, head)
    assert kept.log() == before


@pytest.mark.full("as after a round, which the gate has")
def test_a_run_that_is_late_does_nothing_before_the_next_controller_has_looked(
    kept: Kept,
) -> None:
    """A pin is enough: what was pinned is not moved by a run that had not begun."""
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git")
    before = kept.log()
    with orphaned(kept) as run:
        kept.done("pin", "--reason", "no more changes tonight")
        run.go_on()
        run.await_end()
    assert kept.log() == before


@pytest.mark.full("as after a pin, which the gate has")
def test_a_run_that_is_late_brings_no_later_edit_about(make_kept: Make) -> None:
    site = make_kept(is_git=False, policy="{apply: {git: approve}}")
    assert site.code() == 2
    site.done("approve", "git")
    assert site.code() == 0
    site.write(plain="two")
    assert site.code() == 2
    site.done("approve", "git")
    with orphaned(site) as run:
        site.write(plain="three")
        assert site.code() == 2
        before = site.log()
        run.go_on()
        run.await_end()
    assert site.log() == before
    data = site.once()
    assert (data["exit_code"], data["held"]) == (2, None)
    site.done("approve", site.only("waiting")["id"])
    assert site.code() == 0
    assert site.board_of(PLAIN) == "three"


@pytest.mark.full("as after a pin, which the gate has")
def test_what_a_rollback_does_that_is_late_is_undone_after_unpin(folder: Kept) -> None:
    folder.write(plain="two")
    assert folder.code() == 0
    folder.done("pin", "1", "--reason", "two is wrong")
    with orphaned(folder) as run:
        folder.done("unpin")
        assert folder.code() == 0
        run.go_on()
        run.await_end()
    assert folder.board_of(PLAIN) == "one"
    data = folder.once()
    assert (data["exit_code"], data["held"], data["goal"]["state"]) == (0, None, "reached")
    assert folder.board_of(PLAIN) == "two"


@pytest.mark.full("a frozen leader is waited for 20 s")
def test_a_leader_that_was_frozen_before_its_run_does_not_begin_it(kept: Kept) -> None:
    """A person has pinned meanwhile, and another leads."""
    first = kept.approvals()["admitted"]["commit"]
    kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", "git")
    file, before = kept.root / "frozen", kept.log()
    words = ("freeze", str(file), *kept.served, "--once")
    with kept.child(*words, program=DISTURBED) as frozen:
        eventually(file.exists, "it is frozen")
        leader = kept.leader()
        kept.done("pin", "--reason", "no more changes tonight")
        with kept.server():
            eventually(lambda: kept.leader() not in (None, leader), "another leads")
            eventually(lambda: kept.approvals()["admitted"]["commit"] == first, "it has looked")
            frozen.signal(signal.SIGCONT)
            assert frozen.ended().code == 5, frozen.said()
            kept.done("unpin")
            eventually(kept.waiting, "the other asks again")
            assert kept.log() == before
            kept.done("approve", "git")
            eventually(lambda: kept.board_of(CONFIG) == "two", "the other goes on")
    assert kept.done_once(CONFIG, "two")


def test_a_run_that_was_interrupted_is_gone_on_with_at_once(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    site.hold(SERVER)
    site.commit(config="two")
    with site.child(*site.served, "--once") as round_:
        site.await_begin(SERVER)
        round_.signal(signal.SIGINT)
        time.sleep(2.0)  # the run gets the signal from the controller; nothing tells when it has
        site.let_go(SERVER)
        assert round_.ended().code == 130
    assert site.board_of(CONFIG) == "one"
    data = site.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "reached")
    assert data["goal"]["failures"] == 0
    assert site.board_of(CONFIG) == "two"


# A folder that is edited meanwhile


def edited(site: Kept) -> Callable[[], object]:
    return lambda: site.write(plain="three")


@pytest.mark.parametrize("word", ["apply", "--only"])
def test_what_is_edited_during_a_round_waits_for_a_person(make_kept: Make, word: str) -> None:
    """Also where only a part is planned, because something has drifted."""
    site = make_kept(is_git=False, policy="{apply: {git: approve}}")
    assert site.code() == 2
    site.done("approve", "git")
    assert site.code() == 0
    site.write(plain="two")
    assert site.code() == 2
    if word == "--only":
        site.scribble(SWITCH, "drifted")
        assert site.on_site("drift").code == 2
    site.done("approve", "git")
    with first_time(word, edited(site)) as taken:
        site.once()
    assert taken
    assert site.code() == 2
    assert site.ends()[(PLAIN, "three")] == 0
    (one,) = site.waiting()
    assert (one["source"], one["state"]) == ("git", "waiting")
    site.done("approve", one["id"])
    assert site.code() == 0
    assert site.done_once(PLAIN, "three")


@pytest.mark.full("as in a run of the files, which the gate has")
def test_what_is_edited_before_its_repair_waits_for_a_person(make_kept: Make) -> None:
    site = make_kept(is_git=False, policy="{apply: {git: approve}, drift: {repair: all}}")
    assert site.code() == 2
    site.done("approve", "git")
    assert site.code() == 0
    site.scribble(SWITCH, "drifted")
    assert site.on_site("drift").code == 2
    with first_time("apply", edited(site)) as taken:
        site.once()
    assert taken
    assert site.code() == 2
    assert site.ends()[(PLAIN, "three")] == 0
    assert site.board_of(PLAIN) == "one"


# State databases that are lost, replaced, or moved


def databases(site: Kept) -> list[Path]:
    return list(site.root.glob("state.db*"))


def test_a_database_that_is_gone_is_made_anew_and_no_outage_slips_through(kept: Kept) -> None:
    with kept.server() as server:
        eventually(kept.leader, "somebody leads")
        for file in databases(kept):
            file.unlink()
        eventually(kept.leader, "it leads in the new one")
        kept.commit(config="three")
        assert kept.ran(*kept.served, "--once").code == 5, server.said()
        eventually(lambda: kept.approvals()["admitted"], "it has looked")
        eventually(lambda: kept.approvals()["goal"]["state"] != "pending", "it has tried")
        assert "another" in server.said()
        assert server.process.poll() is None
    assert kept.ends()[(SERVER, None)] == 0


@pytest.mark.full("as one that is gone, which the gate has")
def test_a_database_that_is_put_back_is_the_one_that_counts(kept: Kept) -> None:
    backup = kept.root / "backup"
    with closing(sqlite3.connect(kept.root / "state.db")) as database:
        database.execute("VACUUM INTO ?", (str(backup),))
    with kept.server() as server:
        eventually(kept.leader, "somebody leads")
        for file in databases(kept):
            file.unlink()
        backup.rename(kept.root / "state.db")
        eventually(kept.leader, "it leads in the one that was put back")
        kept.commit(config="two")
        eventually(kept.waiting, "what takes something out waits")
        kept.done("approve", "git")
        eventually(lambda: kept.board_of(CONFIG) == "two", "what is approved is applied")
        assert server.process.poll() is None
    assert kept.ends()[(SERVER, None)] == 1


def memory_of(site: Kept) -> str:
    """Return the row of what a controller remembers, as it is in the database."""
    chosen = "SELECT body FROM cobweb_documents WHERE kind = 'memory' AND section = 'serve'"
    with closing(sqlite3.connect(site.root / "state.db")) as database:
        found: str = database.execute(chosen).fetchone()[0]
    return found


def spoil(site: Kept, body: str) -> None:
    """Have a controller remember something else, behind its back."""
    update = "UPDATE cobweb_documents SET body = ? WHERE kind = 'memory' AND section = 'serve'"
    with closing(sqlite3.connect(site.root / "state.db")) as database, database:
        assert database.execute(update, (body,)).rowcount == 1


@pytest.mark.parametrize("body", ['{"inputs": 7}', "7", '{"inputs": [], "of_a_newer_one": 1}'])
def test_a_memory_that_cannot_be_read_is_told(kept: Kept, body: str) -> None:
    spoil(kept, body)
    before = kept.documents(), kept.log()
    for words in (["approvals"], ["approve", "git"], ["pin", "--reason", "x"]):
        refused = kept.on_site(*words)
        assert (refused.code, refused.out) == (1, ""), refused
        assert "cannot be read" in unfolded(refused.err)
    ran = told(kept)
    assert (ran.code, "cannot be read" in ran.err) == (1, True), ran
    assert (kept.documents(), kept.log()) == before


def test_a_server_outlives_a_memory_that_it_cannot_read(kept: Kept) -> None:
    good = memory_of(kept)

    def has_told() -> bool:
        spoil(kept, "7")  # it may just have written what it had read before
        return "cannot be read" in server.said()

    with kept.server() as server:
        eventually(kept.leader, "somebody leads")
        eventually(has_told, "it says so")
        spoil(kept, good)
        kept.commit(plain="two")
        eventually(lambda: kept.board_of(PLAIN) == "two", "it goes on")
        assert "Traceback" not in server.said()


# Pins


@pytest.mark.parametrize("number", [[], ["2"]])
def test_a_generation_of_uncommitted_changes_cannot_be_pinned(
    kept: Kept, number: list[str]
) -> None:
    kept.write(plain="by hand")
    kept.done("apply", "--yes")
    refused = kept.on_site("pin", *number, "--reason", "it is good")
    assert (refused.code, refused.out) == (64, ""), refused
    assert kept.approvals()["pin"] is None


@pytest.mark.full("four rounds for a rare case")
def test_a_pin_that_cannot_be_followed_is_not_all_well(kept: Kept) -> None:
    """The branch was rewritten, and the clone made anew: the pinned commit is nowhere."""
    kept.commit(plain="two")
    assert kept.code() == 0
    git(kept.folder, "reset", "-q", "--hard", "HEAD~1")
    kept.commit(plain="three")
    assert kept.code() == 0
    git(kept.folder, "reflog", "expire", "--expire=now", "--all")
    git(kept.folder, "gc", "-q", "--prune=now")
    (kept.root / "work").rename(kept.root / "old work")
    kept.done("pin", "2", "--reason", "three is wrong")
    ran = told(kept)
    assert "generation 2 is pinned" in ran.err
    assert ALL_IS_WELL not in ran.err
    assert (ran.code != 0, kept.board_of(PLAIN)) == (True, "three"), ran


@pytest.mark.parametrize(
    "policy",
    [
        "",
        pytest.param(
            "{apply: {git: approve}}", marks=pytest.mark.full("the same in twice as many rounds")
        ),
    ],
)
def test_without_git_the_files_are_brought_about_after_a_pin(make_kept: Make, policy: str) -> None:
    site = make_kept(is_git=False, policy=policy)

    def brought_about() -> None:
        if site.code() == 2:
            site.done("approve", "git")
            assert site.code() == 0

    brought_about()
    site.write(plain="two")
    brought_about()
    assert site.board_of(PLAIN) == "two"
    site.done("pin", "1", "--reason", "two is wrong")
    assert site.code() == 0
    assert site.board_of(PLAIN) == "one"
    site.done("unpin")
    brought_about()
    assert site.board_of(PLAIN) == "two"
    data = site.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "reached")


# What is told


def assert_pending(site: Kept, ran: Ran) -> None:
    """Fail if people or programs are told that the goal is reached, or not why it is not."""
    assert (ran.code, ALL_IS_WELL in ran.err) == (0, False), ran
    goal = site.approvals()["goal"]
    assert goal["state"] == "pending"
    assert goal["reason"]
    assert goal["reason"] in ran.err
    assert "reached" not in listed(site)


def test_after_a_repair_of_a_part_not_all_is_well(make_kept: Make) -> None:
    site = make_kept(policy='{drift: {repair: ["*/config"]}}')
    assert site.code() == 0
    site.scribble(CONFIG, "drifted")
    site.scribble(SWITCH, "drifted")
    assert site.on_site("drift").code == 2
    assert site.code() == 2
    site.done("approve", "drift")
    ran = told(site)
    assert (site.board_of(CONFIG), site.board_of(SWITCH)) == ("one", "drifted")
    assert_pending(site, ran)


def test_after_a_run_that_left_out_what_has_drifted_not_all_is_well(kept: Kept) -> None:
    kept.scribble(SWITCH, "drifted")
    assert kept.on_site("drift").code == 2
    kept.commit(plain="two")
    ran = told(kept)
    assert (kept.board_of(PLAIN), kept.board_of(SWITCH)) == ("two", "drifted")
    assert_pending(kept, ran)


def test_a_goal_whose_window_is_closed_is_not_all_well(make_kept: Make) -> None:
    window = f'{{from: "{CLOSED}", to: "{CLOSING}"}}'
    site = make_kept(policy=f"{{windows: [{window}], drift: {{repair: all}}}}")
    assert site.code() == 0
    assert ALL_IS_WELL not in told(site).err
    site.done("apply", "--yes")
    assert site.code() == 0
    site.scribble(PLAIN, "drifted")
    assert site.on_site("drift").code == 2
    for _ in range(2):
        ran = told(site)
        assert (ran.code, ALL_IS_WELL in ran.err) == (0, False), ran
        assert CLOSED in ran.err
    assert site.board_of(PLAIN) == "drifted"


def test_a_failed_goal_whose_time_has_not_come_is_told(kept: Kept) -> None:
    kept.fail(PLAIN)
    kept.commit(plain="two")
    ran = told(kept)
    assert (ran.code, PLAIN in ran.err) == (1, True), ran
    goal = kept.approvals()["goal"]
    for _ in range(2):
        ran = told(kept)
        assert ran.code == 1
        assert "failed" in ran.err
        assert f"{datetime.fromtimestamp(goal['again'], tz=UTC):%H:%M}" in ran.err
        assert goal["run"] in ran.err


def test_a_refused_goal_is_told_each_time(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto, run: {max_removals: 0}}")
    site.further = f"  extra: {site.board('n2', 'one')}\n"
    site.commit()
    assert site.code() == 0
    site.further = ""
    site.commit()
    for _ in range(2):
        ran = told(site)
        assert (ran.code, "removal" in ran.err, ALL_IS_WELL in ran.err) == (1, True, False), ran


def test_a_generation_that_is_held_is_not_all_well(kept: Kept) -> None:
    kept.write(plain="by hand")
    kept.done("apply", "--yes")
    for _ in range(2):
        ran = told(kept)
        assert (ran.code, "generation 2" in ran.err, ALL_IS_WELL in ran.err) == (0, True, False)


def test_what_is_not_held_cannot_be_let_go(kept: Kept) -> None:
    assert kept.on_site("unpin").code == 64


def test_a_hold_is_told_as_such(kept: Kept) -> None:
    hold = kept.done("lock", "hold", "--for", "10m", "--reason", "disks").out.strip()
    ran = told(kept)
    assert (ran.code, hold in ran.err, "disks" in ran.err) == (5, True, True), ran


def test_a_server_says_that_it_leads_and_that_it_ends(kept: Kept) -> None:
    with kept.server() as server:
        eventually(lambda: "leads" in server.said(), "it says so")
        with kept.server() as second:
            eventually(lambda: "another controller leads" in second.said(), "it says who leads")
            said = len(second.said())
            server.signal(signal.SIGTERM)
            assert "ends" in server.ended().err
            eventually(lambda: "leads" in second.said()[said:], "it says that it leads now")


# What is left behind


def plans(site: Kept) -> list[str]:
    """Return the files that a controller makes for its children."""
    work = site.root / "work"
    return [path.name for part in ("plan-*", "hosts-*") for path in work.glob(part)]


def test_no_plan_is_left_after_a_round(make_kept: Make) -> None:
    site = make_kept(policy="{drift: {every: 1s}}")
    assert site.code() == 0
    site.commit(plain="two")
    assert site.code() == 0
    site.commit(config="two")
    assert site.code() == 2
    assert plans(site) == []


@pytest.mark.full("three rounds, as those that the gate has")
def test_no_plan_is_left_where_a_round_fails(kept: Kept) -> None:
    kept.fail(PLAIN)
    kept.commit(plain="two")
    assert kept.code() == 1
    kept.further = "  wrong: {type: bord, on: n1}\n"
    kept.commit()
    kept.once()
    assert plans(kept) == []


def test_no_plan_is_left_where_a_server_ends_in_a_run(kept: Kept) -> None:
    kept.hold(PLAIN)
    with kept.server() as server:
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        server.signal(signal.SIGTERM)
        assert server.ended().code == 0
    assert plans(kept) == []
    kept.let_go(PLAIN)
    assert kept.code() == 0


def test_what_a_killed_controller_left_is_removed_when_it_is_old(kept: Kept) -> None:
    work = kept.root / "work"
    names = ("plan-00000000.json", "hosts-00000000")
    for name in names:
        old, new = work / name, work / name.replace("0", "1")
        old.write_text("{}")
        new.write_text("{}")
        long_ago = time.time() - LONG_AGO_S
        os.utime(old, (long_ago, long_ago))
    assert kept.code() == 0
    assert sorted(plans(kept)) == sorted(name.replace("0", "1") for name in names)


# Decisions meanwhile


def test_a_decision_that_comes_during_a_run_is_applied_in_the_next_round(kept: Kept) -> None:
    kept.hold(PLAIN)
    with kept.server():
        head = kept.commit(plain="two")
        kept.await_begin(PLAIN)
        kept.decide("n3", {"text": "on"})
        kept.let_go(PLAIN)
        eventually(lambda: kept.board_of(SWITCH) == "on", "the decision is applied")

        def is_reached() -> bool:
            data = kept.approvals()
            return (data["goal"]["state"], data["admitted"]) == (
                "reached",
                {"commit": head, "files": head, "decisions": {"switches": 1}},
            )

        eventually(is_reached, "the controller has seen it")
    assert kept.done_once(PLAIN, "two")
    assert kept.done_once(SWITCH, "on")


@pytest.mark.full("as a decision, which the gate has")
def test_a_commit_that_comes_during_a_run_is_applied_in_the_next_round(kept: Kept) -> None:
    kept.hold(PLAIN)
    with kept.server():
        kept.commit(plain="two")
        kept.await_begin(PLAIN)
        kept.commit(plain="three")
        kept.let_go(PLAIN)
        eventually(lambda: kept.board_of(PLAIN) == "three", "the commit is applied")
    assert kept.done_once(PLAIN, "two")


@pytest.mark.full("as a decision, which the gate has")
def test_an_approval_that_comes_during_a_run_is_used_in_the_next_round(kept: Kept) -> None:
    kept.commit(config="two")
    assert kept.code() == 2
    kept.decide("n3", {"text": "on"})
    kept.hold(SWITCH)
    with kept.server():
        kept.await_begin(SWITCH)
        kept.done("approve", "git")
        kept.let_go(SWITCH)
        eventually(lambda: kept.board_of(CONFIG) == "two", "what was approved is applied")
    assert kept.done_once(SWITCH, "on")
