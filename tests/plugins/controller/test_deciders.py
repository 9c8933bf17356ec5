"""Deciders under a controller, from outside: they turn, fail, are killed, and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import Tasks
from tests.support.nursery import NEVER, Nursery
from tests.support.served import Kept, Ran, eventually
from tests.support.watched import BANDIT, COUNTER, HARMLESS, WATCH, Watched, told

pytestmark = pytest.mark.full("each round starts other processes of Cobweb")

MakeWatched = Callable[..., Watched]

CONFIG, PLAIN, WISHED = "n1/config", "n2/plain", "n1/wished-n1"
DAY_S = 86_400.0
LEAST_REST_S, MOST_REST_S = 10.0, 3_600.0
"""How long a decider that has failed rests at least and at most."""

LIMIT_S = 10.0
"""How long a turn of the bad decider may take."""

MOMENTS = 200
"""More than one round has writes."""

OF_THEIR_OWN = ("decide stops later", "decide leaves no site")
"""What `bandit` may do that has a test of its own."""

STEPS = ("made", "observe", "ask", "observed", "decide", "decided")
"""Where the good decider can be made to wait: before, in and after `observe` and `decide`."""


def misdeeds() -> list[str]:
    """Return what the bad decider can do; its plugin is not on the path where tests are chosen."""
    lines = (WATCH / "cobweb_watch.py").read_text(encoding="utf-8").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("MISDEEDS"))
    rest = lines[begin + 1 : lines.index("}", begin)]
    return [line.split('"')[1] for line in rest if line.startswith('    "')]


def once(site: Watched, *words: str) -> Ran:
    """Run a round in another process, as cron does; its deciders are as their module says now."""
    with site.child(*site.served, "--once", *words) as round_:
        return round_.ended()


def is_decided(site: Watched, host: str, text: str) -> Callable[[], bool]:
    return lambda: site.wished(host) == text


def is_on_board(site: Kept, cob: str, text: str) -> Callable[[], bool]:
    return lambda: site.board_of(cob) == text


def run_of(site: Kept, run: str) -> Any:
    """Return what is known of a run."""
    return next(it for it in site.runs() if it["id"] == run)


def assert_failed(site: Watched, ran: Ran) -> None:
    """Fail unless the bad decider was told in one line, rests now, and has decided nothing."""
    assert ran.code == 0, ran
    assert told(ran, BANDIT) == 1, ran.err
    assert len(ran.err) < 3_000, len(ran.err)
    assert not set("\x1b\x07") & set(ran.err)
    assert "Traceback" not in ran.err
    document = site.document(BANDIT)
    assert document["failures"] == 1, document
    assert document["error"], document
    assert len(document["error"]) < 3_000
    assert document["due_s"] >= document["now_s"] + LEAST_REST_S
    assert not [it for it in site.history(BANDIT) if it["author"] == BANDIT]


def assert_good_one_goes_on(site: Watched, text: str) -> None:
    document = site.document()
    assert (document["failures"], document["error"] or None) == (0, None), document
    assert site.decided()["wish-n1"]["body"]["text"] == text
    site.assert_fits()


# A good one


def test_what_is_decided_is_a_decision_of_the_decider_and_is_applied(watched: Watched) -> None:
    watched.wish("n1", "tea")
    begin = time.time()
    assert watched.code() == 0
    (one,) = watched.history()
    assert (one["key"], one["author"], one["reason"]) == ("wish-n1", COUNTER, "n1 wishes tea")
    assert one["body"] == {"text": "tea", "number": 1, "others": 0}
    assert (watched.board_of(WISHED), watched.board_of("n2/wished-n2")) == ("tea", "nothing")
    assert watched.approvals()["admitted"]["decisions"][COUNTER] == 1
    document = watched.document()
    assert document["memory"] == {"count": 1}
    assert document["notes"]["n2"] == "nothing is wished on n2"
    assert (document["failures"], document["error"] or None) == (0, None)
    assert begin <= document["now_s"] <= time.time()
    assert document["decided_s"] < document["due_s"] <= time.time() + 0.2
    assert watched.document(BANDIT)["failures"] == 0
    assert not watched.workers()


def test_several_are_written_at_once_and_taken_back(watched: Watched) -> None:
    for host in watched.asked:
        watched.wish(host, "tea")
    assert watched.code() == 0
    made = watched.history()
    assert {it["key"]: it["body"]["number"] for it in made} == {"wish-n1": 1, "wish-n2": 2}
    watched.wish("n1", "")
    watched.wish("n2", "coffee")
    assert watched.code() == 0
    assert set(watched.decided()) == {"wish-n2"}
    assert watched.board_of(WISHED) == "nothing"
    assert watched.board_of("n2/wished-n2") == "coffee"
    watched.assert_fits()
    assert watched.document()["memory"] == {"count": 4}


def test_reasons_of_several_writes_name_each(watched: Watched) -> None:
    for host in watched.asked:
        watched.wish(host, "tea")
    assert watched.code() == 0
    reasons = " ".join(it["reason"] for it in watched.history())
    assert all(f"{host} wishes tea" in reasons for host in watched.asked)


def test_what_is_as_it_was_is_not_written(watched: Watched) -> None:
    watched.wish("n1", "tea")
    for _ in range(3):
        assert watched.code() == 0
    assert len(watched.steps(COUNTER, "decide")) >= 3
    assert [it["revision"] for it in watched.history()] == [1]
    assert len(watched.runs()) == 2


def test_a_decider_is_not_due_before_its_time(watched: Watched) -> None:
    assert watched.code() == 0
    asked = watched.turns()
    watched.amend(due_s=time.time() + 60)
    assert watched.code() == 0
    assert [it for it in watched.turns()[len(asked) :] if it[0] == COUNTER] == []


def test_a_host_that_cannot_be_asked_is_an_observation(make_watched: MakeWatched) -> None:
    site = make_watched(hosts=("n1", "n2", "n3"), asked=("n1",))
    site.asked = ("n1", "n9")
    away = "n9: {ansible_host: 127.0.0.1, ansible_port: 1}"
    text = site.text().replace("{hosts: {n1:", f"{{hosts: {{{away}, n1:", 1)
    (site.folder / "site.yml").write_text(text)
    site.commit_all("a host that is away")
    site.wish("n1", "tea")
    for _ in range(2):  # the run fails, since n9 has an object; deciders go on
        site.code()
        site.amend(due_s=0.0)
    assert site.wished("n1") == "tea"
    document = site.document()
    assert document["failures"] == 0
    assert document["notes"]["n9"] == "n9 does not say what it wishes"


def test_what_is_decided_waits_where_policy_says_so(make_watched: MakeWatched) -> None:
    site = make_watched(policy="{apply: {counter: approve}}")
    site.wish("n1", "tea")
    assert site.code() == 2
    one = site.only("waiting")
    assert (one["source"], one["id"]) == (COUNTER, "counter-1")
    assert site.board_of(WISHED) == "nothing"
    assert site.code() == 2
    assert site.only("waiting") == one
    site.done("approve", one["id"])
    assert site.code() == 0
    assert site.board_of(WISHED) == "tea"


def test_nobody_decides_before_something_is_admitted(make_watched: MakeWatched) -> None:
    site = make_watched()
    assert site.turns() == []


def test_deciders_go_on_while_a_commit_waits_and_is_pinned(watched: Watched) -> None:
    watched.commit(config="two")
    watched.wish("n1", "tea")
    assert watched.code() == 2
    assert watched.board_of(WISHED) == "tea"
    watched.done("pin", "--reason", "so it is good")
    watched.wish("n1", "coffee")
    assert watched.code() == 2, "the commit waits still"
    assert watched.board_of(WISHED) == "coffee"


def test_without_git_deciders_rest_while_a_generation_is_pinned(make_watched: MakeWatched) -> None:
    site = make_watched(is_git=False)
    site.wish("n1", "tea")
    assert site.code() == 0
    assert site.board_of(WISHED) == "tea"
    site.done("pin", "--reason", "so it is good")
    before = site.turns()
    site.wish("n1", "coffee")
    assert site.code() == 0
    assert (site.turns(), site.wished("n1")) == (before, "tea")
    site.done("unpin")
    assert site.code() == 0
    assert site.board_of(WISHED) == "coffee"


def test_a_decider_sees_the_admitted_section_not_what_waits(watched: Watched) -> None:
    watched.asked = ("n1", "n2", "n3")
    watched.commit(config="two")
    watched.wish("n3", "tea")
    assert watched.code() == 2
    assert watched.wished("n3") is None
    watched.done("approve", "git")
    for _ in range(2):
        assert watched.code() == 0
    assert watched.board_of("n3/wished-n3") == "tea"


# A bad one beside it


@pytest.mark.gate("a decider is killed at its time limit")
def test_an_endless_loop_is_told_once_and_the_other_goes_on(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDIT_LIMIT", "3")
    watched.wish("n1", "tea")
    watched.does("decide loops")
    ran = once(watched)
    assert_failed(watched, ran)
    assert "took longer than 3" in " ".join(ran.err.split())
    assert_good_one_goes_on(watched, "tea")
    assert watched.board_of(WISHED) == "tea"
    listed = watched.listed()
    assert set(listed) == {COUNTER, BANDIT, "pools"}
    assert (listed[BANDIT]["failures"], listed[COUNTER]["failures"]) == (1, 0)
    assert "took longer" in listed[BANDIT]["error"]
    assert watched.done("deciders").out.count(BANDIT) >= 1
    assert not watched.leftovers()


def test_a_server_goes_on_beside_an_endless_loop(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDIT_LIMIT", "2")
    watched.does("observe loops")
    with watched.server() as server:
        eventually(lambda: watched.document(BANDIT).get("failures"), "the bad one is told")
        for number, text in enumerate(("tea", "coffee"), 1):
            watched.wish("n1", text)
            eventually(is_on_board(watched, WISHED, text), "what is wished is applied")
            watched.commit(plain=text)
            eventually(is_on_board(watched, PLAIN, text), "the commit is applied")
            assert len(watched.history()) == number
        eventually(lambda: watched.document(BANDIT)["failures"] > 1, "it is tried again")
        document = watched.document(BANDIT)
        assert document["due_s"] > document["now_s"] + LEAST_REST_S
        watched.does("nothing")
        watched.amend(BANDIT, due_s=0.0)
        eventually(lambda: watched.document(BANDIT)["failures"] == 0, "the mended one decides")
        server.signal(signal.SIGTERM)
        ended = server.ended()
    assert ended.code == 0
    assert told(ended, BANDIT) <= 2, "the same failure is told once"
    assert "Traceback" not in ended.err
    eventually(lambda: not watched.leftovers(), "all processes have ended")
    watched.assert_fits()


def test_one_that_fails_again_and_again_rests_longer_and_longer(watched: Watched) -> None:
    watched.does("decide raises")
    rests = []
    for failures in range(1, 4):
        assert watched.code() == 0
        assert watched.document(BANDIT)["failures"] == failures
        rests.append(watched.rest(BANDIT))
        watched.amend(BANDIT, due_s=0.0)
    assert all(LEAST_REST_S <= rest < MOST_REST_S for rest in rests), rests
    watched.amend(BANDIT, failures=5_000, due_s=0.0)
    assert watched.code() == 0
    assert watched.document(BANDIT)["failures"] == 5_001
    assert MOST_REST_S <= watched.rest(BANDIT) < 2 * MOST_REST_S
    assert watched.document()["failures"] == 0


@pytest.mark.parametrize(
    "deed",
    [it for it in misdeeds() if it not in (*HARMLESS, *OF_THEIR_OWN)],
)
def test_a_bad_decider_is_told_and_the_good_one_goes_on(watched: Watched, deed: str) -> None:
    watched.does(deed)
    watched.wish("n1", "tea")
    ran = once(watched)
    assert_good_one_goes_on(watched, "tea")
    assert watched.board_of(WISHED) == "tea"
    eventually(lambda: not watched.leftovers(), "nothing of it is left")
    assert_failed(watched, ran)
    if deed == "decide contends":
        assert 2 <= len(watched.steps(BANDIT, "decide")) <= 11


def test_a_decision_that_leaves_no_site_stops_no_decider(watched: Watched) -> None:
    watched.does("decide leaves no site")
    watched.wish("n1", "tea")
    assert watched.code() == 3
    assert watched.listed()[BANDIT]["left_out"]["state"] == "invalid"
    watched.wish("n1", "coffee")
    assert watched.code() == 3
    assert_good_one_goes_on(watched, "coffee")
    assert watched.board_of(WISHED) == "coffee"
    assert watched.document(BANDIT)["failures"] == 0
    watched.does("decide takes back nothing")
    assert watched.code() == 0
    assert not watched.decided(BANDIT)
    assert watched.listed()[BANDIT]["left_out"] is None


def test_what_waits_of_an_object_is_told(make_watched: MakeWatched) -> None:
    site = make_watched(policy="{apply: {counter: approve}}")
    assert site.code() == 0
    site.wish("n1", "tea")
    assert site.code() == 2
    one = site.only("waiting")
    assert any(f"`cobweb approve {one['id']}`" in line for line in site.notes(WISHED))
    assert one["id"] in site.done("deciders").out
    site.done("reject", one["id"], "--reason", "no tea")
    assert any("rejected" in line for line in site.notes(WISHED))
    assert site.listed()[COUNTER]["left_out"]["state"] == "rejected"
    assert "rejected" in " ".join(site.done("approvals").err.split())


@pytest.mark.parametrize("deed", HARMLESS)
def test_what_does_no_harm_is_no_failure(watched: Watched, deed: str) -> None:
    watched.does(deed)
    watched.wish("n1", "tea")
    ran = once(watched, "-o", "json")
    assert json.loads(ran.out)["exit_code"] == ran.code == 0
    assert watched.document(BANDIT)["failures"] == 0, ran
    assert_good_one_goes_on(watched, "tea")
    eventually(lambda: not watched.leftovers(), "nothing of it is left")


def test_a_worker_that_stops_between_turns_holds_up_nobody(watched: Watched) -> None:
    """What is asked of it then may be longer than a pipe takes without a reader."""
    watched.does("decide stops later")
    with watched.server() as server:
        eventually(lambda: watched.document(BANDIT).get("memory"), "it has decided")
        watched.does("nothing")
        watched.wish("n1", "tea")
        eventually(is_on_board(watched, WISHED, "tea"), "the other goes on", 100)
        assert "Traceback" not in server.said()


WRONG_TIMES = ('"soon"', "0", "-1", "NaN", "Infinity", "true", "null", "[]", "1e999", "-0.0")


@pytest.mark.parametrize("name", ["BANDIT_EVERY", "BANDIT_LIMIT"])
@pytest.mark.parametrize("value", WRONG_TIMES)
def test_a_time_that_is_none_is_told_and_the_good_one_goes_on(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    watched.wish("n1", "tea")
    ran = once(watched)
    assert ran.code == 0, ran
    assert told(ran, BANDIT) == 1, ran.err
    assert ("every_s" if name == "BANDIT_EVERY" else "limit_s") in ran.err
    assert "Traceback" not in ran.err
    assert_good_one_goes_on(watched, "tea")
    watched.done("deciders", "-o", "json")


def test_a_person_reads_it_in_80_columns_without_colour(watched: Watched) -> None:
    watched.does("observe raises")
    watched.wish("n1", "tea" * 60)
    told_ = watched.ran(*watched.served, "--once")
    listed = watched.done("deciders")
    assert all(name in listed.out for name in (COUNTER, BANDIT))
    everything = told_.out + told_.err + listed.out + listed.err
    assert not set("\x1b\r\x07") & set(everything)
    assert not [line for line in everything.splitlines() if len(line) > 80]


def test_before_a_controller_deciders_have_had_no_turn(make_watched: MakeWatched) -> None:
    site = make_watched()
    assert set(site.listed()) == {COUNTER, BANDIT, "pools"}
    assert all(not it["failures"] and not it["error"] for it in site.listed().values())


def test_on_postgresql_it_is_the_same(
    make_watched: MakeWatched, postgresql_url: Callable[[], str]
) -> None:
    site = make_watched(state=postgresql_url())
    site.does("decide remembers a zero")
    for number, text in enumerate(("tea", "coffee"), 1):
        site.wish("n1", text)
        ran = once(site)
        assert (ran.code, "Traceback" in ran.err) == (0, False), ran
        assert_good_one_goes_on(site, text)
        assert site.board_of(WISHED) == text
        assert site.document()["memory"] == {"count": number}


# Killed


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(it, marks=pytest.mark.gate("a worker is killed at work"))
        if it == "decided"
        else it
        for it in STEPS
    ],
)
def test_a_worker_that_is_killed_at_a_step_is_replaced(watched: Watched, step: str) -> None:
    """A first decision is there, so that what a second turn loses would be seen."""
    watched.wish("n1", "tea")
    assert watched.code() == 0
    watched.wish("n1", "coffee")
    watched.wish("n2", "cake")
    watched.pause(step)
    with watched.child(*watched.served, "--once") as round_:
        worker = watched.at(step)
        assert worker in {it.pid for it in watched.workers()}
        os.kill(worker, signal.SIGKILL)
        ended = round_.ended()
    watched.go(step)
    assert (ended.code, told(ended, COUNTER)) == (0, 1), ended
    assert "SIGKILL" in ended.err
    assert watched.document()["failures"] == 1
    assert watched.document()["memory"] == {"count": 1}
    assert len(watched.history()) == 1
    watched.amend(due_s=0.0)
    assert watched.code() == 0
    watched.assert_fits()
    assert watched.document()["failures"] == 0
    assert [it["body"]["text"] for it in watched.history()].count("coffee") == 1
    assert (watched.board_of(WISHED), watched.board_of("n2/wished-n2")) == ("coffee", "cake")
    assert not watched.leftovers()


def test_a_server_whose_worker_is_killed_makes_another(watched: Watched) -> None:
    with watched.server() as server:
        for number, step in enumerate(STEPS[1:]):
            watched.pause(step)
            watched.wish("n1", f"t{number}")
            os.kill(watched.at(step), signal.SIGKILL)
            watched.go(step)
            eventually(lambda: watched.document().get("failures"), "the failure is kept")
            watched.amend(due_s=0.0)
            eventually(is_on_board(watched, WISHED, f"t{number}"), "it is decided")
            watched.assert_fits()
        server.signal(signal.SIGTERM)
        ended = server.ended()
    assert ended.code == 0, ended
    assert "Traceback" not in ended.err
    assert len(watched.history()) == len(STEPS[1:])


@pytest.mark.parametrize("step", STEPS)
def test_a_controller_that_is_killed_at_a_step_loses_nothing(watched: Watched, step: str) -> None:
    watched.wish("n1", "tea")
    watched.pause(step)
    with watched.server() as server:
        watched.at(step)
        server.kill()
    watched.go(step)
    eventually(lambda: not watched.leftovers(), "the worker ends by itself")
    assert watched.history() == []
    assert watched.code() == 0
    watched.assert_fits()
    assert watched.document()["memory"] == {"count": 1}
    assert watched.board_of(WISHED) == "tea"


@pytest.mark.parametrize(
    "deed",
    [
        "observe loops",
        "decide loops deaf",
        "observe has a child",
        "observe holds the lock",
        "observe is stopped",
    ],
)
def test_a_worker_at_a_loop_ends_after_its_controller(watched: Watched, deed: str) -> None:
    watched.does(deed)
    with watched.server() as server:
        eventually(lambda: watched.steps(BANDIT, deed.split(maxsplit=1)[0]), "it is at it")
        assert watched.workers()
        server.kill()
    eventually(lambda: not watched.leftovers(), "the worker ends", LIMIT_S + 15)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_controller_that_is_ended_at_a_turn_leaves_no_worker(
    watched: Watched, number: int
) -> None:
    watched.does("observe loops")
    with watched.server() as server:
        eventually(lambda: watched.steps(BANDIT, "observe"), "it is at it")
        server.signal(number)
        ended = server.ended()
        assert ended.code == (0 if number == signal.SIGTERM else 130), ended
        assert "Traceback" not in ended.err
        eventually(lambda: not watched.leftovers(), "the worker ends", LIMIT_S + 15)


@pytest.mark.timeout(900)
def test_killed_at_any_write_the_next_round_decides_the_rest_once(
    watched: Watched, tmp_path: Path
) -> None:
    (tmp_path / "nursery").mkdir()
    nursery = Nursery(tmp_path / "nursery", {"PYTHONPATH": os.environ["PYTHONPATH"]})
    moments = 0
    try:
        for text in (f"t{number}" for number in range(MOMENTS)):
            watched.wish("n1", text)
            ended = nursery.run(moments, (*watched.served, "--once"))
            assert watched.code() == 0, text
            watched.assert_fits()
            assert watched.board_of(WISHED) == text
            assert [it["body"]["text"] for it in watched.history()].count(text) == 1
            assert watched.done_once(WISHED, text)
            moments += 1
            if ended.code == 0:
                break
            assert ended.code == -signal.SIGKILL, ended
    finally:
        nursery.close()
    assert 4 < moments < NEVER


# Somebody else decides


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(it, marks=pytest.mark.gate("a person decides between look and write"))
        if it == "decide"
        else it
        for it in ("observe", "observed", "decide", "decided")
    ],
)
def test_what_a_person_decides_meanwhile_is_seen_and_kept(watched: Watched, step: str) -> None:
    watched.wish("n1", "tea")
    watched.pause(step)
    with watched.child(*watched.served, "--once") as round_:
        watched.at(step)
        words = ("counter", "wish-n2", '{"text": "by hand"}', "--reason", "she can")
        watched.done("decide", *words)
        watched.wish("n2", "")
        watched.go(step)
        ended = round_.ended()
    assert (ended.code, told(ended, COUNTER)) == (0, 0), ended
    person, *mine = watched.history()
    assert person["author"] != COUNTER
    steps = [it[1] for it in watched.turns() if it[0] == COUNTER]
    first = steps.index("decide")
    after = [it for it in steps[first + 1 :] if it in ("observe", "decide")]
    assert after[:1] == ["decide"], "it decides again by the same observations"
    own = [it for it in mine if it["key"] == "wish-n1"]
    assert [it["body"] for it in own if it["body"]] == [
        {"text": "tea", "number": own[0]["body"]["number"], "others": 1}
    ]
    watched.assert_fits()
    assert watched.document()["failures"] == 0


# Time


def test_time_never_goes_back_though_the_clock_does(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shifted = tmp_path / "shifted"
    shifted.mkdir()
    (shifted / "sitecustomize.py").write_text(
        "import os, time\n"
        "real, shift_s = time.time, float(os.environ.get('SHIFT_S', '0'))\n"
        "time.time = lambda: real() + shift_s\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{shifted}{os.pathsep}{os.environ['PYTHONPATH']}")
    monkeypatch.setenv("SHIFT_S", str(DAY_S))
    watched.wish("n1", "tea")
    assert once(watched).code == 0
    ahead = watched.document()["now_s"]
    assert ahead > time.time() + DAY_S / 2, "the clock is a day ahead"
    monkeypatch.setenv("SHIFT_S", "0")
    watched.wish("n1", "coffee")
    ran = once(watched)
    assert ran.code == 0
    assert watched.board_of(WISHED) == "coffee", "it does not rest for a day"
    times = [it[3] for it in watched.steps(COUNTER, "decide")]
    assert times == sorted(times)
    assert watched.document()["now_s"] >= ahead
    watched.assert_fits()


# Runs at work


@pytest.fixture(
    params=[
        pytest.param("of the controller", marks=pytest.mark.gate("a run at work beside a server")),
        "of one that was killed",
        "by hand",
    ]
)
def at_work(request: pytest.FixtureRequest, watched: Watched) -> Iterator[Watched]:
    """Return a site with a server and a run at work that waits at `plain`."""
    watched.hold(PLAIN)
    watched.commit(plain="two")
    if request.param == "of the controller":
        with watched.server():
            watched.await_begin(PLAIN)
            yield watched
        return
    words = ("-C", str(watched.folder), "apply", "--yes")
    if request.param == "of one that was killed":
        with watched.server() as first:
            watched.await_begin(PLAIN)
            first.kill()
        with watched.server():
            yield watched
        return
    with watched.child(*words):
        watched.await_begin(PLAIN)
        with watched.server():
            yield watched


def test_a_decider_decides_while_a_run_is_at_work(at_work: Watched) -> None:
    run = at_work.runs()[0]
    assert run["goes_on"]
    at_work.wish("n1", "tea")
    eventually(is_decided(at_work, "n1", "tea"), "it is decided")
    at_work.wish("n1", "coffee")
    eventually(is_decided(at_work, "n1", "coffee"), "it is decided again")
    assert at_work.board_of(WISHED) == "nothing"
    assert run_of(at_work, run["id"])["goes_on"]
    assert at_work.runs()[0]["id"] == run["id"], "there is no other"
    at_work.let_go(PLAIN)
    eventually(lambda: not run_of(at_work, run["id"])["goes_on"], "the run ends")
    at_work.commit("the next one")  # what was applied by hand is held until then
    eventually(is_on_board(at_work, WISHED, "coffee"), "what was decided is applied after it")
    assert at_work.done_once(PLAIN, "two")
    assert at_work.ends()[(WISHED, "tea")] == 0
    eventually(
        lambda: {it["result"] for it in at_work.runs()} == {"ok"}, "all runs have ended well"
    )
    at_work.assert_fits()


# Why


@pytest.mark.gate("a round with a question to hosts, and a run")
def test_why_shows_the_notes_of_object_host_and_decision(watched: Watched) -> None:
    watched.wish("n1", "tea")
    assert watched.code() == 0
    shown = {
        PLAIN: ("plain is nobody's wish", "nothing is wished on n2"),
        "n2/wished-n2": ("nothing is wished on n2",),
        WISHED: ("on wish-n1: n1 ",),
        CONFIG: (),
    }
    for cob, notes in shown.items():
        found = watched.notes(cob)
        assert len(found) == len(notes), (cob, found)
        assert all(any(note in line for line in found) for note in notes), (cob, found)
        text = watched.done("why", cob).out
        assert all(note in text for note in notes), text


def test_notes_are_shown_as_text(watched: Watched) -> None:
    watched.wish("n1", "\x1b[31mred\x07\r")
    assert watched.code() == 0
    for ran in (watched.done("why", WISHED), watched.done("deciders"), watched.done("decisions")):
        assert not set("\x1b\x07\r") & set(ran.out + ran.err)


# Records


def test_what_was_recorded_is_decided_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = watched.root / "record"
    for text in ("tea", "coffee"):
        watched.wish("n1", text)
        watched.once("--record", str(record))
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    asked = [it for it in lines if it.get("decider") == COUNTER]
    assert len(asked) >= 2
    assert all({"turn", "now_s", "view", "observations", "memory"} <= set(it) for it in asked)
    outcomes = {it["turn"]: it for it in lines if "outcome" in it}
    outcome = outcomes[asked[-1]["turn"]]["outcome"]
    assert outcome["writes"]["wish-n1"]["text"] == "coffee"
    assert outcome["memory"] == {"count": 2}
    history = watched.history()
    watched.done("deciders", "--replay", str(record))
    monkeypatch.setenv("COUNTER_STEP", "2")
    changed = watched.on_site("deciders", "--replay", str(record))
    assert changed.code == 1, changed
    said = changed.out + changed.err
    assert COUNTER in said
    assert "memory" in said or "number" in said
    assert watched.history() == history, "a replay decides nothing"


def test_a_turn_that_failed_is_recorded_with_its_error(watched: Watched) -> None:
    record = watched.root / "record"
    watched.does("decide raises nonsense")
    assert once(watched, "--record", str(record)).code == 0
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    (asked,) = [it for it in lines if it.get("decider") == BANDIT]
    (end,) = [it for it in lines if it["turn"] == asked["turn"] and it is not asked]
    assert end.get("error")
    watched.done("deciders", "--replay", str(record))


def test_a_record_that_was_cut_off_is_replayed_as_far_as_it_goes(watched: Watched) -> None:
    """A controller that is killed leaves half a line; that is no bug of the reader."""
    record = watched.root / "record"
    watched.wish("n1", "tea")
    watched.once("--record", str(record))
    text = record.read_text()
    record.write_text(text + text[: len(text) // 3])
    ran = watched.on_site("deciders", "--replay", str(record))
    assert ran.code in (0, 1, 64), ran
    assert ran.err or ran.code == 0


@pytest.mark.parametrize("text", [None, "7\n", "{}\n", "[]\n", "{\n", "\x00\n"])
def test_a_record_that_is_none_is_refused(watched: Watched, text: str | None) -> None:
    record = watched.root / "record"
    if text is not None:
        record.write_text(text)
    ran = watched.on_site("deciders", "--replay", str(record))
    assert ran.code in (1, 3, 64), ran
    assert "record" in ran.err


# Sites without


def test_a_decider_without_its_section_is_never_asked(make_watched: MakeWatched) -> None:
    site = make_watched(deciders=(BANDIT,))
    site.wish("n1", "tea")
    for _ in range(2):
        assert site.code() == 0
    assert site.steps(BANDIT, "decide")
    assert [it for it in site.turns() if it[0] == COUNTER and it[1] != "made"] == []
    assert site.document(COUNTER) == {}
    site.deciders = (COUNTER, BANDIT)
    site.commit("with a counter")
    for _ in range(2):
        assert site.code() == 0
    assert site.board_of(WISHED) == "tea"


def test_without_any_section_there_is_no_worker(make_watched: MakeWatched) -> None:
    site = make_watched(deciders=())
    assert site.code() == 0
    assert site.turns() == []
    assert all(site.document(name) == {} for name in (COUNTER, BANDIT))


def test_one_whose_section_is_gone_decides_no_more(watched: Watched) -> None:
    watched.wish("n1", "tea")
    assert watched.code() == 0
    watched.deciders = (BANDIT,)
    head = watched.commit("no counter any more")
    code = watched.code()
    if code == 2:
        watched.done("approve", f"git-{head[:8]}")
        code = watched.code()
    assert code == 0
    before = watched.steps(COUNTER, "observe")
    watched.wish("n1", "coffee")
    assert watched.code() == 0
    assert watched.steps(COUNTER, "observe") == before


# Ask, by a program


def test_a_program_asks_as_a_decider_does(watched: Watched) -> None:
    watched.wish("n1", "tea")
    action = Tasks(path=str(WATCH / "wish.yml"))
    before: tuple[Any, ...] = watched.documents(), watched.runs(), watched.log()
    with Site(watched.folder) as site:
        for _ in range(2):
            answers = site.ask(["n1", "n2"], action, 60, {"home": str(watched.home)})
            assert {str(it.outcome) for it in answers.values()} == {"ok"}, answers
            assert {host: it.data["wish"] for host, it in answers.items()} == {
                "n1": "tea",
                "n2": "",
            }
    assert (watched.documents(), watched.runs(), watched.log()) == before
