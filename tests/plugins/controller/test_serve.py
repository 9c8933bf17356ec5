"""`cobweb serve --once` and its approvals from outside: one controller, on Git and on a folder."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli._text import cells
from tests.support.served import Kept, before_children, eventually, git

pytestmark = pytest.mark.gate("each round starts other processes of Cobweb")

Make = Callable[..., Kept]

SERVER, CONFIG, PLAIN = "n1/server", "n1/config", "n2/plain"
CLOSED = f"{datetime.now(UTC) + timedelta(hours=2):%H:%M}"
"""Two hours from now: windows from there for an hour are closed for as long as tests take."""
CLOSING = f"{datetime.now(UTC) + timedelta(hours=3):%H:%M}"
OPENED = f"{datetime.now(UTC) - timedelta(hours=1):%H:%M}"


def user() -> str:
    return Path("~").expanduser().owner()


def window(begin: str, end: str, more: str = "") -> str:
    return f'{{from: "{begin}", to: "{end}", zone: UTC{more}}}'


# The first start


def test_the_first_start_brings_the_newest_commit_about(fresh: Kept) -> None:
    head = git(fresh.folder, "rev-parse", "HEAD").strip()
    fresh.decide("n3", {"text": "on"})
    data = fresh.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "reached")
    assert data["admitted"]["commit"] == head
    assert data["admitted"]["decisions"] == {"switches": 1}
    assert (data["pin"], data["held"]) == (None, None)
    assert fresh.board_of("n3/switch-n3") == "on"
    assert set(fresh.ends().values()) == {1}
    assert data["goal"]["run"] == fresh.runs()[0]["id"]
    assert fresh.waiting() == []


def test_a_second_round_does_nothing(kept: Kept) -> None:
    before = kept.log(), kept.runs()
    assert kept.code() == 0
    assert (kept.log(), kept.runs()) == before
    assert kept.approvals()["leader"] is None


def test_the_first_start_goes_by_the_policy_of_its_own_commit(make_kept: Make) -> None:
    site = make_kept(policy="{apply: approve}")
    data = site.once()
    assert (data["exit_code"], data["admitted"]) == (2, None)
    (one,) = site.waiting()
    assert (one["source"], one["state"], one["outages"]) == ("git", "waiting", [])
    assert site.log() == []
    site.done("approve", one["id"])
    assert site.code() == 0
    assert site.board_of(PLAIN) == "one"


def test_the_first_start_on_a_database_applied_by_hand_has_nothing_to_do(fresh: Kept) -> None:
    fresh.done("apply", "--yes")
    before = fresh.log()
    data = fresh.once()
    assert (data["exit_code"], data["held"]) == (0, None)
    assert data["admitted"]["commit"] == git(fresh.folder, "rev-parse", "HEAD").strip()
    assert fresh.log() == before


def test_the_first_start_after_a_run_by_hand_asks_for_what_the_commit_takes_out(
    fresh: Kept,
) -> None:
    fresh.done("apply", "--yes")
    before = fresh.log()
    fresh.commit(config="two")
    assert fresh.code() == 2
    assert fresh.only("waiting")["outages"] == [SERVER]
    assert fresh.log() == before
    fresh.done("approve", fresh.only("waiting")["id"])
    assert fresh.code() == 0
    assert fresh.board_of(CONFIG) == "two"


def test_the_site_may_be_in_a_folder_of_the_repository(fresh: Kept) -> None:
    (fresh.folder / "sites" / "a").mkdir(parents=True)
    git(fresh.folder, "mv", "site.yml", "sites/a/site.yml")
    fresh.commit_all("elsewhere")
    ran = fresh.ran(*fresh.served, "--once", "--path", "sites/a")
    assert (ran.code, fresh.board_of(PLAIN)) == (0, "one"), ran


# Approvals


def test_a_commit_with_an_outage_waits_and_nothing_changes(kept: Kept) -> None:
    before, begin = kept.log(), time.time()
    admitted = kept.approvals()["admitted"]
    head = kept.commit("new configuration", config="two")
    data = kept.once()
    assert data["exit_code"] == 2
    assert data["admitted"] == admitted
    (one,) = kept.waiting()
    assert (one["id"], one["source"], one["state"]) == (f"git-{head[:8]}", "git", "waiting")
    assert "new configuration" in one["what"]
    assert set(one["outages"]) == kept.outages() == {SERVER}
    assert (one["removals"], one["more"], one["findings"]) == ([], [], [])
    assert (one["by"], one["said"], one["at"]) == (None, None, None)
    assert begin - 1 <= one["since"] <= time.time()
    assert "serve.outages" in one["reason"]
    assert data["approvals"][0] == one
    assert kept.log() == before
    kept.once()
    assert kept.waiting() == [one], "a further round changes nothing of it"


def test_what_is_removed_is_named(make_kept: Make) -> None:
    site = make_kept()
    site.further = f"  extra: {site.board('n2', 'one')}\n"
    site.commit()
    assert site.code() == 0
    site.further = ""
    site.commit(config="two")
    assert site.code() == 2
    assert site.only("waiting")["removals"] == ["n2/extra"]


def test_a_decision_is_applied_while_a_commit_waits(kept: Kept) -> None:
    first = kept.approvals()["admitted"]["commit"]
    kept.commit(config="two")
    assert kept.code() == 2
    kept.decide("n2", {"text": "on"})
    data = kept.once()
    assert data["exit_code"] == 2
    assert data["admitted"]["commit"] == first
    assert data["admitted"]["decisions"] == {"switches": 1}
    assert (kept.board_of("n2/switch-n2"), kept.board_of(CONFIG)) == ("on", "one")
    assert kept.ends()[("n2/switch-n2", "on")] == 1
    assert kept.ends()[(SERVER, None)] == 0


def test_what_is_approved_is_applied_once(kept: Kept) -> None:
    head = kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", f"git-{head[:6]}", "--reason", "the night is quiet")
    one = kept.only("approved")
    assert (one["by"], one["said"]) == (user(), "the night is quiet")
    assert one["at"] >= one["since"]
    data = kept.once()
    assert (data["exit_code"], data["admitted"]["commit"]) == (0, head)
    assert kept.code() == 0
    ends = kept.ends()
    assert (ends[(CONFIG, "two")], ends[(SERVER, None)], ends[(SERVER, "one")]) == (1, 1, 2)
    one = next(it for it in kept.approvals()["approvals"] if it["id"] == f"git-{head[:8]}")
    assert (one["state"], one["by"], one["said"]) == ("admitted", user(), "the night is quiet")


def test_what_is_rejected_stays_out_until_there_is_another(kept: Kept) -> None:
    head = kept.commit(config="two")
    assert kept.code() == 2
    kept.done("reject", f"git-{head[:8]}", "--reason", "not today")
    before = kept.log()
    assert kept.code() == 0
    assert kept.log() == before
    one = kept.only("rejected")
    assert (one["id"], one["by"], one["said"]) == (f"git-{head[:8]}", user(), "not today")
    for command in ("approve", "reject"):
        assert kept.on_site(command, one["id"]).code == 64
    kept.commit(config="one", plain="two")
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "two"


def test_a_newer_commit_lapses_an_approval(kept: Kept) -> None:
    old = kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", f"git-{old[:8]}")
    new = kept.commit(config="three")
    before = kept.log()
    assert kept.code() == 2
    assert kept.log() == before
    states = [it["state"] for it in kept.approvals()["approvals"]]
    assert states[:2] == ["waiting", "lapsed"], "those that wait are first"
    assert kept.only("lapsed")["id"] == f"git-{old[:8]}"
    assert kept.only("waiting")["id"] == f"git-{new[:8]}"
    refused = kept.on_site("approve", f"git-{old[:8]}")
    assert (refused.code, "lapsed" in refused.err) == (64, True)


def test_a_commit_that_waits_is_gone_with_the_one_that_takes_it_back(kept: Kept) -> None:
    kept.commit(config="two")
    assert kept.code() == 2
    kept.commit(config="one")
    assert kept.code() == 0
    assert kept.waiting() == []


def test_what_takes_out_more_than_was_approved_waits_again(kept: Kept) -> None:
    head = kept.commit(config="two")
    assert kept.code() == 2
    kept.done("approve", f"git-{head[:8]}")
    kept.done("pin", "--reason", "decisions first")
    kept.decide("n1", {"client": "server"})
    assert kept.code() == 0
    kept.done("unpin")
    before = kept.log()
    assert kept.code() == 2
    assert kept.log() == before
    one = kept.only("waiting")
    assert one["more"] == ["n1/switch-n1"]
    assert set(one["outages"]) == {SERVER, "n1/switch-n1"}
    kept.done("approve", one["id"])
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "two"


def test_what_takes_out_less_than_was_approved_is_applied(kept: Kept) -> None:
    kept.decide("n1", {"client": "server"})
    assert kept.code() == 0
    head = kept.commit(config="two")
    assert kept.code() == 2
    assert set(kept.only("waiting")["outages"]) == {SERVER, "n1/switch-n1"}
    kept.done("approve", f"git-{head[:8]}")
    kept.done("pin", "--reason", "decisions first")
    kept.decide("n1", None)
    assert kept.code() == 0
    kept.done("unpin")
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "two"
    assert kept.ends()[("n1/switch-n1", None)] == 0


@pytest.mark.parametrize("is_known", [False, True])
def test_an_id_that_there_is_not_is_refused(kept: Kept, *, is_known: bool) -> None:
    if is_known:
        kept.commit(config="two")
        assert kept.code() == 2
    for words in (["approve", "git-0"], ["reject", "none"], ["approve", "switches-7"]):
        refused = kept.on_site(*words)
        assert (refused.code, refused.out) == (64, ""), refused
        assert words[1] in refused.err


def test_an_id_that_is_the_beginning_of_two_is_refused(make_kept: Make) -> None:
    site = make_kept(policy="{apply: {switches: approve}}")
    assert site.code() == 0
    site.commit(config="two")
    site.decide("n2", {"text": "on"})
    assert site.code() == 2
    assert {it["source"] for it in site.waiting()} == {"git", "switches"}
    assert site.on_site("approve", "").code == 64
    site.done("approve", "s")
    assert site.only("approved")["id"] == "switches-1"


# Policy


def test_decisions_wait_where_the_policy_of_their_section_says_so(make_kept: Make) -> None:
    site = make_kept(policy="{apply: {switches: approve}}")
    assert site.code() == 0
    site.decide("n2", {"text": "on"})
    site.commit(plain="two")
    assert site.code() == 2
    assert (site.board_of(PLAIN), site.board_of("n2/switch-n2")) == ("two", "off")
    one = site.only("waiting")
    assert (one["id"], one["source"], one["outages"]) == ("switches-1", "switches", [])
    assert "serve.apply" in one["reason"]
    site.decide("n2", {"text": "dim"})
    assert site.code() == 2
    assert site.only("lapsed")["id"] == "switches-1"
    site.decide("n3", {"text": "on"})
    assert site.code() == 2
    # Who approves it sees all that is admitted with it.
    assert "switches/n2, n3 up to revision 3, " in site.only("waiting")["what"]
    site.done("approve", "switches-3")
    assert site.code() == 0
    assert site.board_of("n2/switch-n2") == "dim"
    assert site.board_of("n3/switch-n3") == "on"
    assert site.ends()[("n2/switch-n2", "on")] == 0


@pytest.mark.parametrize(
    ("policy", "code"),
    [("", 2), ("{outages: {switches: auto}}", 0), ("{outages: {git: auto}}", 2)],
)
def test_a_decision_with_an_outage_goes_by_the_policy_of_its_section(
    make_kept: Make, policy: str, code: int
) -> None:
    site = make_kept(policy=policy)
    assert site.code() == 0
    site.decide("n2", {"text": "on", "stops": "plain"})
    assert site.outages() == {PLAIN}
    assert site.code() == code
    assert site.ends()[(PLAIN, None)] == (1 if code == 0 else 0)
    if code == 2:
        assert site.only("waiting")["outages"] == [PLAIN]


def test_what_a_decision_lets_go_is_no_outage(kept: Kept) -> None:
    kept.decide("n3", {"gone": True})
    assert kept.code() == 0
    assert kept.board_of("n3/switch-n3") is None


def test_outages_may_be_automatic(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    site.commit(config="two")
    assert site.code() == 0
    assert site.board_of(CONFIG) == "two"


def test_what_policy_never_admits_is_told_and_counts_as_nothing(make_kept: Make) -> None:
    site = make_kept(policy="{apply: never}")
    data = site.once()
    assert (data["exit_code"], data["admitted"]) == (0, None)
    (one,) = site.waiting()
    assert (one["state"], one["source"], "never" in one["reason"]) == ("never", "git", True)
    assert site.log() == []


def test_never_of_one_source_holds_up_no_other(kept: Kept) -> None:
    head = kept.commit(policy_of(kept, "{apply: {git: never}}"))
    assert kept.code() == 2
    kept.done("approve", f"git-{head[:8]}")
    assert kept.code() == 0
    kept.commit(plain="two")
    kept.decide("n2", {"text": "on"})
    assert kept.code() == 0
    assert (kept.board_of(PLAIN), kept.board_of("n2/switch-n2")) == ("one", "on")
    assert kept.only("never")["source"] == "git"


def policy_of(site: Kept, policy: str) -> str:
    """Set the policy of the next commit; return its message."""
    site.policy = policy
    return f"serve: {policy}"


@pytest.mark.parametrize(
    "policy", ["{run: {parallel: 3}}", "{apply: auto}", "{drift: {every: 1h}}"]
)
def test_a_change_of_the_policy_waits_whatever_policy_says(make_kept: Make, policy: str) -> None:
    site = make_kept(policy="{apply: auto, outages: auto}")
    assert site.code() == 0
    head = site.commit(policy_of(site, policy))
    assert site.code() == 2
    assert "serve" in site.only("waiting")["reason"]
    site.done("approve", f"git-{head[:8]}")
    data = site.once()
    assert (data["exit_code"], data["admitted"]["commit"]) == (0, head)


def test_a_change_of_the_database_waits(kept: Kept) -> None:
    first = kept.approvals()["admitted"]["commit"]
    state, kept.state = kept.state, f"sqlite:///{kept.root}/other.db"
    kept.commit("another database")
    kept.state = state
    data = kept.once()
    assert (data["exit_code"], data["admitted"]["commit"]) == (2, first)
    (one,) = [it for it in data["approvals"] if it["state"] == "waiting"]
    assert "state" in one["reason"]
    assert not (kept.root / "other.db").exists()


def test_the_newest_policy_counts_when_it_is_admitted(kept: Kept) -> None:
    head = kept.commit(policy_of(kept, "{outages: auto}"), config="two")
    assert kept.code() == 2
    kept.done("approve", f"git-{head[:8]}")
    assert kept.code() == 0
    kept.commit(config="three")
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "three"


def test_a_closed_window_is_told_and_counts_as_nothing(make_kept: Make) -> None:
    site = make_kept(policy=f"{{windows: [{window(CLOSED, CLOSING)}]}}")
    assert site.code() == 0
    one = site.only("window")
    assert (one["source"], site.log()) == ("git", [])
    assert CLOSED in one["reason"]


def test_an_open_window_lets_pass(make_kept: Make) -> None:
    site = make_kept(policy=f"{{windows: [{window(OPENED, CLOSED)}]}}")
    assert site.code() == 0
    assert site.board_of(PLAIN) == "one"


def test_a_closed_window_of_one_source_holds_up_no_other(kept: Kept) -> None:
    windows = f"{{windows: [{window(CLOSED, CLOSING, ', sources: [git]')}]}}"
    head = kept.commit(policy_of(kept, windows))
    assert kept.code() == 2
    kept.done("approve", f"git-{head[:8]}")
    assert kept.code() == 0
    kept.commit(plain="two")
    kept.decide("n2", {"text": "on"})
    assert kept.code() == 0
    assert (kept.board_of(PLAIN), kept.board_of("n2/switch-n2")) == ("one", "on")
    assert kept.only("window")["source"] == "git"


def test_a_wrong_policy_is_a_finding_at_its_place(fresh: Kept) -> None:
    fresh.policy = '{windows: [{from: "22:00", to: "04:00", zone: Europe/Berlim}]}'
    fresh.write()
    found = fresh.on_site("validate")
    assert found.code == 3
    assert re.search(r"site\.yml:6:\d+: .*Europe/Berlim", found.err + found.out)


# Commits that are no sites


def test_a_commit_that_does_not_evaluate_waits_with_its_findings(kept: Kept) -> None:
    admitted = kept.approvals()["admitted"]
    kept.further = "  wrong: {type: bord, on: n1}\n"
    head = kept.commit()
    data = kept.once()
    assert (data["exit_code"], data["admitted"]) == (3, admitted)
    (one,) = kept.waiting()
    assert (one["id"], one["state"]) == (f"git-{head[:8]}", "invalid")
    assert any("bord" in line and "site.yml:" in line for line in one["findings"])
    assert kept.on_site("approve", one["id"]).code == 64
    kept.further = ""
    kept.write()
    kept.decide("n2", {"text": "on"})
    assert kept.once()["exit_code"] == 3
    assert kept.board_of("n2/switch-n2") == "on", "decisions go on"
    kept.commit(plain="two")
    assert kept.code() == 0
    assert (kept.board_of(PLAIN), kept.waiting()) == ("two", [])


@pytest.mark.parametrize("text", ["cobweb: [", "", "\x00", "state: 7\n", None])
def test_a_commit_that_is_no_site_at_all_waits(kept: Kept, text: str | None) -> None:
    if text is None:
        (kept.folder / "site.yml").unlink()
    else:
        (kept.folder / "site.yml").write_text(text)
    kept.commit_all("nonsense")
    assert kept.code() == 3
    kept.write()
    assert kept.only("invalid")["findings"]


def test_approvals_need_no_valid_site(kept: Kept) -> None:
    head = kept.commit(config="two")
    assert kept.code() == 2
    kept.further = "  wrong: {type: bord, on: n9}\n"
    kept.write()
    assert kept.only("waiting")["id"] == f"git-{head[:8]}"
    kept.done("approve", "git")
    kept.done("pin", "--reason", "x")
    kept.done("unpin")
    assert kept.code() == 0
    assert kept.board_of(CONFIG) == "two"


# Pins, and what is done by hand


def test_a_pin_holds_a_commit_and_decisions_go_on(kept: Kept) -> None:
    first = kept.approvals()["admitted"]["commit"]
    kept.commit(plain="two")
    assert kept.code() == 0
    kept.done("pin", "1", "--reason", "two is wrong")
    pin = kept.approvals()["pin"]
    assert (pin["generation"], pin["commit"]) == (1, first)
    assert (pin["by"], pin["reason"]) == (user(), "two is wrong")
    data = kept.once()
    assert (data["exit_code"], data["admitted"]["commit"]) == (0, first)
    assert kept.board_of(PLAIN) == "one"
    kept.commit(plain="three")
    kept.decide("n3", {"text": "on"})
    assert kept.code() == 0
    assert (kept.board_of(PLAIN), kept.board_of("n3/switch-n3")) == ("one", "on")
    assert kept.waiting() == []
    kept.done("unpin")
    assert kept.code() == 0
    assert (kept.board_of(PLAIN), kept.approvals()["pin"]) == ("three", None)


def test_without_git_a_pin_holds_a_generation_and_nothing_goes_on(folder: Kept) -> None:
    folder.write(plain="two")
    assert folder.code() == 0
    folder.done("pin", "1", "--reason", "two is wrong")
    data = folder.once()
    assert (data["exit_code"], data["pin"]["generation"], data["pin"]["commit"]) == (0, 1, None)
    assert folder.board_of(PLAIN) == "one"
    folder.write(plain="three")
    folder.decide("n3", {"text": "on"})
    assert folder.code() == 0
    assert (folder.board_of(PLAIN), folder.board_of("n3/switch-n3")) == ("one", "off")
    folder.done("unpin")
    assert folder.code() == 0
    assert (folder.board_of(PLAIN), folder.board_of("n3/switch-n3")) == ("three", "on")


def test_a_generation_applied_by_hand_holds_until_the_next_commit(kept: Kept) -> None:
    kept.write(plain="by hand")
    kept.done("apply", "--yes")
    data = kept.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "held")
    assert data["held"]["generation"] == 2
    assert kept.board_of(PLAIN) == "by hand"
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "by hand"
    kept.commit(plain="two")
    data = kept.once()
    assert (data["exit_code"], data["held"], data["goal"]["state"]) == (0, None, "reached")
    assert kept.board_of(PLAIN) == "two"


def test_a_generation_applied_by_hand_holds_until_it_is_let_go(kept: Kept) -> None:
    kept.write(plain="by hand")
    kept.done("apply", "--yes")
    assert kept.once()["held"]["generation"] == 2
    kept.done("unpin")
    data = kept.once()
    assert (data["exit_code"], data["held"]) == (0, None)
    assert kept.board_of(PLAIN) == "one"


def test_what_was_applied_by_hand_of_earlier_decisions_holds_up_no_later_ones(kept: Kept) -> None:
    """As a decider decides again before a controller has seen what a person has applied."""
    kept.decide("n3", {"text": "on"})
    kept.done("apply", "--yes")
    kept.decide("n3", {"text": "bright"})
    data = kept.once()
    assert (data["exit_code"], data["held"], data["goal"]["state"]) == (0, None, "reached")
    assert kept.board_of("n3/switch-n3") == "bright"


def test_a_generation_that_went_back_by_hand_holds(kept: Kept) -> None:
    kept.commit(plain="two")
    assert kept.code() == 0
    kept.done("rollback", "--yes")
    data = kept.once()
    assert (data["exit_code"], data["goal"]["state"]) == (0, "held")
    assert kept.board_of(PLAIN) == "one"


# Runs that do not end well


def test_a_refused_run_is_not_tried_again_until_something_changes(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto, run: {max_removals: 0}}")
    site.further = f"  extra: {site.board('n2', 'one')}\n"
    site.commit()
    assert site.code() == 0
    extra, site.further = site.further, ""
    site.commit()
    data = site.once()
    assert (data["exit_code"], data["goal"]["state"]) == (1, "refused")
    assert "removal" in data["goal"]["reason"]
    started: list[Sequence[str]] = []
    with before_children(started.append):
        again = site.once()
    assert (again["exit_code"], again["goal"]["state"]) == (1, "refused")
    assert not [words for words in started if "apply" in words]
    assert site.board_of("n2/extra") == "one"
    site.further = extra
    site.commit(plain="two")
    assert site.code() == 0
    assert site.board_of(PLAIN) == "two"


def test_a_failed_goal_waits_before_it_is_tried_again(kept: Kept) -> None:
    kept.fail(PLAIN)
    kept.commit(plain="two")
    begin = time.time()
    data = kept.once()
    goal = data["goal"]
    assert (data["exit_code"], goal["state"], goal["exit_code"]) == (1, "failed", 1)
    assert goal["failures"] == 1
    assert begin + 50 <= goal["again"] <= time.time() + 70
    assert goal["run"] == kept.runs()[0]["id"]
    tried = kept.log()
    again = kept.once()
    assert (again["exit_code"], again["goal"]) == (1, goal)
    assert kept.log() == tried
    kept.mend(PLAIN)
    kept.commit(plain="three")
    data = kept.once()
    assert (data["exit_code"], data["goal"]["failures"]) == (0, 0)
    assert kept.board_of(PLAIN) == "three"


def test_a_plan_that_is_stale_is_made_again_at_once(make_kept: Make) -> None:
    site = make_kept(policy="{outages: auto}")
    assert site.code() == 0
    site.commit(config="two", plain="two")
    by_hand: list[int] = []

    def between(words: Sequence[str]) -> None:
        """Do a part of it by hand, between the plan and the first run of it."""
        if "apply" in words and not by_hand:
            by_hand.append(0)
            with site.child("-C", str(site.folder), "apply", "--yes", "--only", PLAIN) as run:
                by_hand[0] = run.ended().code

    with before_children(between):
        data = site.once()
    assert by_hand == [0]
    assert (data["exit_code"], data["held"], data["goal"]["failures"]) == (0, None, 0)
    assert (site.ends()[(PLAIN, "two")], site.ends()[(CONFIG, "two")]) == (1, 1)


def test_a_site_that_is_held_is_left_alone(kept: Kept) -> None:
    kept.commit(plain="two")
    hold = kept.done("lock", "hold", "--for", "10m", "--reason", "test").out.strip()
    assert kept.code() == 5
    assert kept.board_of(PLAIN) == "one"
    kept.done("lock", "break", hold, "--yes")
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "two"


def test_a_run_by_hand_that_is_at_work_is_followed_to_its_end(fresh: Kept) -> None:
    fresh.hold(PLAIN)
    with fresh.child("-C", str(fresh.folder), "apply", "--yes") as by_hand:
        fresh.await_begin(PLAIN)
        with fresh.child(*fresh.served, "--once") as controller:
            eventually(lambda: fresh.approvals()["leader"], "somebody leads")
            fresh.let_go(PLAIN)
            assert by_hand.ended().code == 0
            ended = controller.ended()
            assert ended.code == 0, ended
    assert set(fresh.ends().values()) == {1}


# Drift


def is_drifted(site: Kept, cob: str) -> bool:
    found = site.done("status", "-o", "json").data["cobs"]
    return any(it["id"] == cob and it["drifted"] for it in found)


def drifting(make_kept: Make, repair: str, more: str = "") -> Kept:
    site = make_kept(policy=f"{{drift: {{every: 1s, repair: {repair}}}{more}}}")
    assert site.code() == 0
    return site


def test_drift_is_found_and_left_where_nothing_is_repaired(make_kept: Make) -> None:
    site = drifting(make_kept, "none")
    site.scribble(PLAIN, "moved")
    eventually(lambda: site.code() == 0 and is_drifted(site, PLAIN), "the drift is found")
    site.code()
    assert site.board_of(PLAIN) == "moved"


def test_drift_is_not_looked_for_without_every(kept: Kept) -> None:
    kept.scribble(PLAIN, "moved")
    assert kept.code() == 0
    assert not is_drifted(kept, PLAIN)


@pytest.mark.parametrize("repair", ["all", '["n[23]/pl*", "n9/*"]'])
def test_drift_is_repaired(make_kept: Make, repair: str) -> None:
    site = drifting(make_kept, repair)
    site.scribble(PLAIN, "moved")
    eventually(lambda: site.code() == 0 and site.board_of(PLAIN) == "one", "the repair")
    assert site.ends()[(PLAIN, "one")] == 2


def test_only_what_the_patterns_name_is_repaired(make_kept: Make) -> None:
    site = drifting(make_kept, '["*/plain"]')
    site.scribble(PLAIN, "moved")
    site.scribble("n3/switch-n3", "moved")
    eventually(lambda: site.code() == 0 and site.board_of(PLAIN) == "one", "the repair")
    eventually(lambda: site.code() == 0 and is_drifted(site, "n3/switch-n3"), "the drift is found")
    assert site.board_of("n3/switch-n3") == "moved"


def test_a_repair_with_an_outage_waits(make_kept: Make) -> None:
    site = drifting(make_kept, "all")
    site.scribble(CONFIG, "moved")
    eventually(lambda: site.code() == 2, "an approval")
    one = site.only("waiting")
    assert re.fullmatch(r"drift-[0-9a-f]{8}", one["id"])
    assert (one["source"], one["outages"]) == ("drift", [SERVER])
    assert site.board_of(CONFIG) == "moved"
    site.done("approve", one["id"])
    assert site.code() == 0
    assert site.board_of(CONFIG) == "one"


def test_what_is_not_repaired_takes_nothing_out_with_the_next_commit(make_kept: Make) -> None:
    site = drifting(make_kept, "none")
    site.scribble(CONFIG, "moved")
    eventually(lambda: site.code() == 0 and is_drifted(site, CONFIG), "the drift is found")
    site.commit(plain="two")
    assert site.code() == 0
    assert (site.board_of(PLAIN), site.board_of(CONFIG)) == ("two", "moved")
    assert site.ends()[(SERVER, None)] == 0


def test_repairs_go_by_the_policy_of_drift(make_kept: Make) -> None:
    site = drifting(make_kept, "all", ", apply: {drift: approve}")
    site.scribble(PLAIN, "moved")
    eventually(lambda: site.code() == 2, "an approval")
    one = site.only("waiting")
    assert (one["source"], one["outages"], site.board_of(PLAIN)) == ("drift", [], "moved")
    site.done("reject", one["id"])
    assert site.code() == 0
    assert site.board_of(PLAIN) == "moved"


# A folder


def test_an_edit_with_an_outage_waits_and_holds_up_decisions(folder: Kept) -> None:
    folder.write(config="two")
    folder.decide("n2", {"text": "on"})
    before = folder.log()
    assert folder.code() == 2
    one = folder.only("waiting")
    assert re.fullmatch(r"git-[0-9a-f]{8}", one["id"])
    assert (one["source"], one["outages"]) == ("git", [SERVER])
    assert folder.log() == before
    folder.done("approve", one["id"])
    assert folder.code() == 0
    assert (folder.board_of(CONFIG), folder.board_of("n2/switch-n2")) == ("two", "on")
    assert folder.approvals()["admitted"]["commit"] is None


def test_an_edit_without_an_outage_is_applied(folder: Kept) -> None:
    folder.write(plain="two")
    assert folder.code() == 0
    assert folder.board_of(PLAIN) == "two"
    assert folder.ends()[(PLAIN, "two")] == 1


def test_another_edit_lapses_an_approval(folder: Kept) -> None:
    folder.write(config="two")
    assert folder.code() == 2
    folder.done("approve", folder.only("waiting")["id"])
    folder.write(config="three")
    assert folder.code() == 2
    assert folder.only("lapsed")["id"] != folder.only("waiting")["id"]
    assert folder.board_of(CONFIG) == "one"


def test_an_edit_that_is_taken_back_waits_no_more(folder: Kept) -> None:
    folder.write(config="two")
    assert folder.code() == 2
    folder.write(config="one")
    assert folder.code() == 0
    assert folder.waiting() == []


def test_an_edit_that_does_not_evaluate_waits(folder: Kept) -> None:
    folder.further = "  wrong: {type: bord, on: n1}\n"
    folder.write()
    assert folder.code() == 3
    assert any("bord" in line for line in folder.only("invalid")["findings"])
    folder.further = ""
    folder.write(plain="two")
    assert folder.code() == 0
    assert folder.board_of(PLAIN) == "two"


def test_a_folder_may_have_its_database_inside(make_kept: Make) -> None:
    site = make_kept(is_git=False, state="sqlite:///.cobweb/state.db")
    assert site.code() == 0
    site.write(plain="two")
    assert site.code() == 0
    assert site.board_of(PLAIN) == "two"


# Words


@pytest.mark.parametrize("state", ["state: sqlite:///.cobweb/state.db\n", ""])
def test_with_git_the_database_is_at_an_absolute_place(fresh: Kept, state: str) -> None:
    text = re.sub(r"state: .*\n", state, fresh.text())
    (fresh.folder / "site.yml").write_text(text)
    fresh.commit_all("a database of each checkout")
    ran = fresh.ran(*fresh.served, "--once")
    assert (ran.code, "state" in ran.err, ran.out) == (64, True, ""), ran
    assert fresh.log() == []


WRONG_WORDS = {
    "every": ["serve", "--once", "--every", "0"],
    "every word": ["serve", "--once", "--every", "soon"],
    "dash": ["serve", "--once", "--git=--upload-pack=touch x"],
    "argument": ["serve", "--once", "more"],
    "approve": ["approve"],
    "reject": ["reject"],
    "pin": ["pin", "1"],
    "pin 0": ["pin", "0", "--reason", "x"],
    "pin 9": ["pin", "9", "--reason", "x"],
    "pin word": ["pin", "last", "--reason", "x"],
    "pin for no reason": ["pin", "1", "--reason", " "],
}


@pytest.mark.parametrize("words", WRONG_WORDS.values(), ids=WRONG_WORDS)
def test_wrong_words_are_refused(kept: Kept, words: list[str]) -> None:
    before = kept.approvals(), kept.log()
    ran = kept.on_site(*words)
    assert (ran.code, ran.out) == (64, ""), ran
    assert (kept.approvals(), kept.log()) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--git", "/nowhere/at/all.git"], "/nowhere/at/all.git"),
        (["--git", "http://ann:geheim@127.0.0.1:1/x.git"], "127.0.0.1:1/x.git"),
    ],
)
def test_a_repository_that_cannot_be_read_is_told(fresh: Kept, words: list[str], told: str) -> None:
    ran = fresh.ran("serve", "--once", "--work", str(fresh.root / "work"), *words)
    assert (ran.code, ran.out) == (1, ""), ran
    assert told in ran.err.replace("\n", " ")
    assert "geheim" not in ran.err


def test_a_branch_that_there_is_not_is_told(fresh: Kept) -> None:
    ran = fresh.ran(*fresh.served, "--once", "--branch", "production")
    assert (ran.code, "production" in ran.err) == (1, True), ran


def test_another_branch_is_served(fresh: Kept) -> None:
    git(fresh.folder, "checkout", "-q", "-b", "night")
    fresh.commit(plain="night")
    git(fresh.folder, "checkout", "-q", "main")
    ran = fresh.ran(*fresh.served, "--once", "--branch", "night")
    assert (ran.code, fresh.board_of(PLAIN)) == (0, "night"), ran


def test_a_branch_whose_history_was_rewritten_is_followed(kept: Kept) -> None:
    kept.commit(plain="two")
    assert kept.code() == 0
    git(kept.folder, "reset", "-q", "--hard", "HEAD~1")
    kept.commit(plain="three")
    assert kept.code() == 0
    assert kept.board_of(PLAIN) == "three"


def test_approvals_before_a_controller_are_none(fresh: Kept) -> None:
    data = fresh.approvals()
    assert (data["approvals"], data["admitted"], data["leader"]) == ([], None, None)


def test_a_person_reads_it_in_80_columns_without_colour(kept: Kept) -> None:
    head = kept.commit("a subject that goes on and on for much longer than a line " * 3, config="x")
    told = kept.ran(*kept.served, "--once")
    assert told.code == 2
    listed = kept.done("approvals")
    assert f"git-{head[:8]}" in listed.out
    assert SERVER in listed.out
    everything = told.out + told.err + listed.out + listed.err
    assert "\x1b" not in everything
    wide = [line for line in everything.splitlines() if cells(line) > 80]
    assert not wide
    for ran in (kept.done("approve", "git"), kept.done("approvals"), kept.done("approvals")):
        assert "\x1b" not in ran.out + ran.err
        assert all(cells(line) <= 80 for line in (ran.out + ran.err).splitlines())


def test_a_subject_with_control_characters_is_shown_as_text(kept: Kept) -> None:
    kept.commit("red \x1b[31m alert\r\x07", config="two")
    told = kept.ran(*kept.served, "--once")
    assert told.code == 2
    listed = kept.done("approvals")
    assert not set("\x1b\r\x07") & set(told.out + told.err + listed.out + listed.err)


# What serve builds on


def test_apply_ends_with_its_result_as_json_whatever_happens(fresh: Kept) -> None:
    apply = ("apply", "--yes", "-o", "json")
    good = fresh.done(*apply).data
    assert (good["result"], good["error"], good["exit_code"]) == ("ok", None, 0)
    text = fresh.text()
    (fresh.folder / "site.yml").write_text(text + "  wrong: {type: bord, on: n1}\n")
    assert error_of(fresh, *apply) == (3, "site")
    fresh.write(plain="two")
    assert error_of(fresh, "apply", "-o", "json") == (64, "usage")
    plan = str(fresh.root / "a.plan")
    fresh.done("plan", "--out", plan)
    fresh.write(plain="three")
    assert error_of(fresh, "apply", plan, "-o", "json") == (1, "plan")
    fresh.done("lock", "hold", "--for", "10m", "--reason", "test")
    assert error_of(fresh, *apply) == (5, "locked")


def test_a_run_that_is_refused_says_so_as_json(fresh: Kept) -> None:
    fresh.further = f"  extra: {fresh.board('n2', 'one')}\n"
    fresh.write()
    fresh.done("apply", "--yes")
    fresh.further = ""
    fresh.write()
    words = ("apply", "--yes", "-o", "json", "--max-removals", "0")
    assert error_of(fresh, *words) == (1, "refused")


def error_of(site: Kept, *words: str) -> tuple[int, str]:
    """Run a command that does not begin a run; return its exit code and the kind of its error."""
    ran = site.on_site(*words)
    data: dict[str, Any] = json.loads(ran.out)
    assert (data["format"], data["run"], data["result"]) == (1, None, "error")
    assert data["exit_code"] == ran.code
    assert data["error"].keys() == {"kind", "message", "hint"}
    assert data["error"]["message"]
    kind: str = data["error"]["kind"]
    return ran.code, kind


def test_a_plan_may_be_made_at_earlier_decisions(kept: Kept) -> None:
    kept.decide("n2", {"text": "on"})
    kept.decide("n2", {"text": "dim"})
    plans = {at: kept.done("plan", "--at", f"switches={at}", "-o", "json").data for at in range(3)}
    assert [plan["decisions"] for plan in plans.values()] == [{"switches": at} for at in range(3)]
    assert [plan["counts"]["change"] for plan in plans.values()] == [0, 1, 1]
    file = str(kept.root / "a.plan")
    kept.done("plan", "--at", "switches=1", "--out", file)
    kept.done("apply", file)
    assert kept.board_of("n2/switch-n2") == "on"


@pytest.mark.parametrize("at", ["switches=9", "switches=-1", "switches", "lamps=1", "=1", ""])
def test_a_plan_at_decisions_that_there_are_not_is_refused(kept: Kept, at: str) -> None:
    ran = kept.on_site("plan", "--at", at)
    assert (ran.code, ran.out) == (64, ""), ran
