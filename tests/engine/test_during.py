"""States that are held while units of a budget are out (design 5b, during)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import Halt, StartTransition
from cobweb.model import CobId, Graph
from tests.support.graphs import SIMPLE, budget_of
from tests.support.plain_budgets import Watch
from tests.support.rollout import Rollout
from tests.support.webs import FLAG, HELD, UP, flagged, of, rolled, webs

FLAG_ID = HELD[0][0]
A, B, C, D = UP
UP_AND_DOWN = [f"{FLAG_ID} clear -> set", f"{FLAG_ID} set -> clear"]


def moves(run: Rollout) -> list[str]:
    """Return the steps of the flag."""
    return [text for text in run.told("->") if text.startswith(FLAG_ID)]


def settled(run: Rollout) -> None:
    """All is home, and the flag is cleared."""
    assert run.engine.unsettled() == ()
    assert run.real[FLAG_ID] == "clear"
    assert run.journal.slots == set()


@pytest.mark.parametrize("words", [{}, {"first": 1, "pause_s": 30.0}, {"count": 2}])
def test_a_flag_is_set_before_the_first_slot_and_cleared_after_the_last_is_home(
    words: dict[str, Any],
) -> None:
    """Once for all of them, over a canary's pause as well."""
    run = rolled(flagged(1, **words), flagged(2, **words))
    run.run()
    assert moves(run) == UP_AND_DOWN
    shown = run.told("lends", "has back", *UP_AND_DOWN)
    assert (shown[0], shown[-1]) == tuple(UP_AND_DOWN)
    settled(run)


def test_what_takes_nothing_out_asks_for_no_flag() -> None:
    """Nothing to do, a first installation, a repair."""
    for run in (
        rolled(flagged(1), flagged(1)),
        rolled(webs(1, budgets=(), more={FLAG_ID: FLAG}, hosts=""), flagged(1)),
        rolled(flagged(1), flagged(1), {"b/app": "broken"}),
    ):
        run.run()
        assert moves(run) == []
        assert run.engine.unsettled() == ()


def test_a_flag_stays_while_a_unit_is_out_over_runs() -> None:
    """It is told for whom; the next run does not clear it in between, and the last one does."""
    run = rolled(flagged(1), flagged(2))
    run.begin()
    run.until("a/app down -> up")
    run.fails = {A}
    run.finish()
    assert run.real[FLAG_ID] == "set"
    assert FLAG_ID in run.engine.unsettled()
    assert run.why(FLAG_ID) == f"{FLAG_ID} limit rolling, during a/app, a/app failed"
    run.run()
    assert moves(run) == UP_AND_DOWN[:1]
    run.fails = set()
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_a_unit_that_was_found_out_keeps_the_flag_that_is_set() -> None:
    """It has no slot; a flag that is not set is not set for it."""
    for state, left in (("set", "set"), ("clear", "clear")):
        run = rolled(flagged(1), flagged(1), {"b/app": "broken", FLAG_ID: state})
        run.journal.served.update(UP)
        run.fails = {B}
        run.run()
        assert run.real[FLAG_ID] == left
        run.fails = set()
        run.run()
        settled(run)


@pytest.mark.parametrize("trouble", ["fails", "silent", "gone", "kept"])
def test_nothing_goes_out_while_the_flag_cannot_be_set(trouble: str) -> None:
    """And the run says so."""
    options: dict[str, Any] = {}
    if trouble == "kept":
        options["movable"] = frozenset(flagged(1).cobs) - {FLAG_ID}
    run = rolled(flagged(1), flagged(2), **options)
    end = {"fails": "failed", "silent": "failed", "gone": "unreachable z", "kept": "excluded"}
    if trouble == "fails":
        run.fails = {FLAG_ID}
    elif trouble == "silent":
        run.silent = {FLAG_ID}
    elif trouble == "gone":
        run.dead = {"z"}
    run.run()
    assert run.told("lends", "app outdated ->") == []
    assert run.why(A) == f"a/app lock {FLAG_ID}, {FLAG_ID} {end[trouble]}"
    run.fails, run.silent, run.dead = set(), set(), set()
    run.options.clear()
    run.run()
    settled(run)


def test_a_flag_that_is_lost_while_a_unit_is_out_holds_back_the_next_one() -> None:
    """The one that is out comes home."""
    run = rolled(flagged(1), flagged(2))
    run.begin()
    run.until("a/app down -> up")
    run.vanish("z")
    run.finish()
    assert run.real[A] == "up"
    assert run.told("lends") == ["rolling lends to a"]
    run.come_back("z")
    run.finish()
    settled(run)


def test_a_flag_that_somebody_cleared_is_set_again_before_the_next_one_goes() -> None:
    """It is checked as whatever a departure relies on."""
    run = rolled(flagged(1, trust_s=0.0), flagged(2, trust_s=0.0))
    run.begin()
    run.until("a/app down -> up")
    run.real[FLAG_ID] = "clear"
    run.now_s += 1.0
    run.finish()
    assert moves(run)[:2] == UP_AND_DOWN[:1] * 2
    settled(run)


def test_nobody_moves_what_is_held() -> None:
    """Who asks for another state waits until it is let go."""
    need = f"x/job outdated>* {FLAG_ID} clear"

    def site(version: int) -> Graph:
        more = {FLAG_ID: FLAG, "x/job": SIMPLE}
        return of(version, webs(version, "a b", need, more=more, during=HELD), "x/job")

    run = rolled(site(1), site(2))
    run.begin()
    run.until("a/app outdated -> down")
    run.real[CobId("x/job")] = "outdated"
    run.journal.states[CobId("x/job")] = "outdated"
    run.run()
    assert moves(run) == UP_AND_DOWN
    assert run.lines.index(UP_AND_DOWN[1]) < run.lines.index(
        f"x/job outdated -> up [{FLAG_ID} clear]"
    )
    settled(run)


def test_two_budgets_hold_one_flag_until_both_are_through() -> None:
    """Who is through first lets it go for itself alone."""
    one = budget_of("a/app b/app", name="one", during=HELD)
    two = budget_of("c/app d/app", name="two", during=HELD)
    budgets = (one, two)
    more: dict[str, Any] = {"budgets": budgets, "more": {FLAG_ID: FLAG}}
    run = rolled(webs(1, **more), of(2, webs(1, **more), "a/app c/app d/app"))
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_two_budgets_that_want_a_flag_elsewhere_have_it_one_after_the_other() -> None:
    """As a limit that is taken out and a new one may; who came first has it until it is through."""
    one = budget_of("a/app b/app", name="one", during=HELD)
    two = budget_of("c/app d/app", name="two", during=((FLAG_ID, "clear"),))
    more: dict[str, Any] = {"budgets": (one, two), "more": {FLAG_ID: FLAG}}
    run = rolled(webs(1, **more), webs(2, **more))
    run.watch = Watch(run)
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_a_step_that_needs_a_flag_in_two_states_never_begins_and_the_run_ends() -> None:
    """Both budgets count the same servers."""
    budgets = tuple(
        budget_of("a/app b/app", name=state, during=((FLAG_ID, state),))
        for state in ("set", "clear")
    )
    more: dict[str, Any] = {"budgets": budgets, "more": {FLAG_ID: FLAG}}
    run = rolled(webs(1, "a b", **more), webs(2, "a b", **more))
    run.run()
    assert run.told("lends", "app outdated ->") == []
    assert run.real[FLAG_ID] == "clear"
    assert run.why(A).startswith(f"a/app lock {FLAG_ID}")


def test_a_flag_stays_set_where_a_run_was_cut_off_between_two_units() -> None:
    """In the pause of a canary, or when a slot has come back: the next life goes on with it."""
    for line in ("rolling pauses 30 s for a", "rolling has back b"):
        run = rolled(flagged(1, first=1, pause_s=30.0), flagged(2, first=1, pause_s=30.0))
        run.begin()
        run.until(line)
        run.journal.slots.clear()
        run.run()
        assert moves(run) == UP_AND_DOWN, line
        settled(run)


def test_a_unit_of_which_nothing_went_out_lets_the_flag_go() -> None:
    """Its step failed, the others are through, and none is out at the end."""
    run = rolled(flagged(1), flagged(2))
    run.begin()
    run.until("a/app outdated -> down")
    run.fails = {A}
    run.finish()
    assert run.real[FLAG_ID] == "clear"
    assert moves(run) == UP_AND_DOWN
    assert [run.real[cob] for cob in (B, C, D)] == ["up"] * 3


def test_after_an_interrupt_the_flag_stays_and_the_next_run_goes_on_from_there() -> None:
    """Nothing new is begun after it."""
    run = rolled(flagged(1), flagged(2))
    run.begin()
    run.until("a/app down -> up")
    run.give(Halt())
    run.finish()
    assert run.real[FLAG_ID] == "set"
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_a_flag_that_comes_with_the_release_is_set_when_it_is_there() -> None:
    """Its host has no slot to wait for."""
    run = rolled(webs(1), flagged(2))
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_a_flag_with_new_content_is_held_all_the_same() -> None:
    """Its host switches while it is held, or before."""
    base, goal = flagged(1), flagged(2)
    cob = replace(goal.cobs[FLAG_ID], spec={"v": 2})
    run = rolled(base, replace(goal, cobs={**goal.cobs, FLAG_ID: cob}))
    run.run()
    assert moves(run) == UP_AND_DOWN
    settled(run)


def test_a_flag_that_leaves_with_its_limit_is_not_held_any_more() -> None:
    """The limit holds with its old words until the run ends; its flag is not there."""
    run = rolled(flagged(1), webs(2, budgets=()))
    run.run()
    assert moves(run) == []
    assert run.told("lends") == [f"rolling lends to {host}" for host in "abcd"]
    assert run.engine.unsettled() == ()
    assert FLAG_ID not in run.real


def test_a_flag_that_has_to_wait_for_a_removal_is_set_when_its_host_has_switched() -> None:
    """Until then nothing goes out."""
    run = rolled(webs(1, more={"z/old": SIMPLE}), flagged(2))
    run.begin()
    run.until("z/old up -> down")
    old = next(job for job in run.jobs if isinstance(job, StartTransition))
    while run.jobs != [old]:
        run.end(next(job for job in run.jobs if job is not old))
    assert run.told("lends") == []
    run.finish()
    shown = run.told("z switched", "lends", *UP_AND_DOWN)
    assert shown[:3] == ["z switched", UP_AND_DOWN[0], "rolling lends to a"]
    settled(run)
