"""The canary of a budget: some units go first, and the others follow only when these have stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from cobweb.engine import Canary, Halt, Lending, LimitPaused, LimitResumed
from cobweb.errors import ProtocolError
from cobweb.model import CobId, Graph, Unit
from tests.support.graphs import SIMPLE, budget_of, graph_of
from tests.support.rollout import Rollout
from tests.support.webs import UP, confs, of, rolled, webs

PAUSE: dict[str, Any] = {"first": 1, "pause_s": 30.0}
A, B, C, D = UP


def canary(**options: object) -> Rollout:
    """Roll a release over four hosts, one of which goes first."""
    return rolled(webs(1, **PAUSE), webs(2, **PAUSE), **options)  # type: ignore[arg-type]


def untouched(run: Rollout, hosts: str) -> None:
    """Nothing at all has happened on some hosts but checks: no step, no switch, nothing asked."""
    for host in hosts:
        told = [text for text in run.lines if f"{host}/" in text or f" {host} " in f" {text} "]
        allowed = ("(journal)", " check", "(check)", "served", "goes first")
        assert [text for text in told if not text.endswith(allowed)] == []


def verdict(canaries: Mapping[str, Canary]) -> tuple[str, bool]:
    """Return who went first, and whether the others may follow."""
    (canary,) = canaries.values()
    return " ".join(sorted(canary.units)), canary.through


def test_one_goes_first_is_checked_after_a_pause_and_then_all_follow() -> None:
    """One after the other, as the budget says."""
    run = canary()
    run.begin()
    assert run.told("check") == [f"{cob} check" for cob in UP]
    run.until("rolling canary a goes first")
    assert run.told("goes first", "lends")[0] == "rolling canary a goes first"
    run.until("rolling pauses 30 s for a")
    untouched(run, "bcd")
    run.finish()
    after = run.lines[run.lines.index("rolling pauses 30 s for a") + 1 :]
    assert after[:3] == [
        "a/app check",
        "a/app is up (check)",
        "rolling canary a let through",
    ]
    assert run.told("lends") == [f"rolling lends to {host}" for host in "abcd"]
    assert run.engine.unsettled() == ()
    assert verdict(run.journal.canaries) == ("a", True)


def test_who_waits_is_told_for_whom() -> None:
    """The chain leads to the canary while it moves; in the pause it ends at the limit."""
    run = canary()
    run.begin()
    run.until("a/app outdated -> down")
    assert run.why(B) == "b/app limit rolling, canary a/app, a/app running moving"
    run.until("rolling pauses 30 s for a")
    assert run.why(B) == "b/app limit rolling, canary"


@pytest.mark.parametrize("step", ["a/app outdated -> down", "a/app down -> up"])
def test_a_canary_that_fails_leaves_the_others_as_they_are(step: str) -> None:
    """At each step; a later run goes on with the same unit, which has its slot if it was out."""
    run = canary()
    run.begin()
    run.until(step)
    run.fails = {A}
    run.finish()
    untouched(run, "bcd")
    assert run.why(D) == "d/app limit rolling, canary a/app, a/app failed"
    assert run.journal.slots == ({("rolling", "a")} if run.real[A] == "down" else set())
    assert verdict(run.journal.canaries) == ("a", False)
    run.run()
    untouched(run, "bcd")
    run.fails = set()
    run.run()
    assert run.engine.unsettled() == ()
    times = 1 if step.endswith("up") else 3  # once in each run that it gave its slot back in
    assert run.told("lends") == [f"rolling lends to {host}" for host in [*"a" * times, *"bcd"]]
    assert run.journal.canaries["rolling"].through


def test_a_canary_that_is_found_broken_after_the_pause_is_repaired_and_pauses_again() -> None:
    """What the check finds is where it is."""
    run = canary()
    run.begin()
    run.until("rolling pauses 30 s for a")
    run.real[A] = "broken"
    run.lines.clear()
    run.until("rolling pauses 30 s for a")
    assert run.told("->") == ["a/app broken -> down", "a/app down -> up"]
    untouched(run, "bcd")
    run.finish()
    assert run.engine.unsettled() == ()


@pytest.mark.parametrize("trouble", ["broken", "silent"])
def test_a_canary_that_fails_its_check_after_the_pause_stays_open(trouble: str) -> None:
    """It cannot be mended, or its check fails: the others stay as they are, in later runs too."""
    run = canary()
    run.begin()
    run.until("rolling pauses 30 s for a")
    if trouble == "broken":
        run.real[A], run.fails = "broken", {A}
    else:
        run.silent = {A}
    run.finish()
    untouched(run, "bcd")
    assert run.why(B) == "b/app limit rolling, canary a/app, a/app failed"
    run.run()
    untouched(run, "bcd")
    run.fails, run.silent = set(), set()
    run.run()
    assert run.engine.unsettled() == ()


@pytest.mark.parametrize("when", ["a/app outdated -> down", "rolling pauses 30 s for a"])
def test_a_canary_whose_host_is_lost_stays_open_until_it_is_found_home(when: str) -> None:
    """In the middle, or in the pause."""
    run = canary()
    run.begin()
    run.until(when)
    run.vanish("a")
    run.finish()
    untouched(run, "bcd")
    assert run.why(C) == "c/app limit rolling, canary a/app, a/app unreachable a"
    run.come_back("a")
    run.finish()
    assert run.engine.unsettled() == ()


def test_a_canary_that_was_killed_in_its_pause_is_checked_and_pauses_anew() -> None:
    """The verdict is durable, the pause is not."""
    run = canary()
    run.begin()
    run.until("rolling pauses 30 s for a")
    run.lines.clear()
    run.run()
    assert run.lines.index("a/app is up (check)") < run.lines.index("rolling pauses 30 s for a")
    assert run.told("canary") == ["rolling canary a let through"]
    assert run.engine.unsettled() == ()


def test_a_verdict_holds_for_a_later_run() -> None:
    """Who has not followed yet does so without another canary."""
    run = canary()
    run.begin()
    run.until("rolling canary a let through")
    run.lines.clear()
    run.run()
    assert run.told("canary", "pause") == []
    assert run.told("lends") == [f"rolling lends to {host}" for host in "cd"]


def test_two_units_go_first_as_far_as_there_is_room() -> None:
    """One after the other where the bound is one, and both are checked after the pause."""
    words = {"first": 2, "pause_s": 30.0}
    run = rolled(webs(1, **words), webs(2, **words))  # type: ignore[arg-type]
    run.begin()
    run.until("rolling pauses 30 s for a b")
    assert run.told("lends") == ["rolling lends to a", "rolling lends to b"]
    untouched(run, "cd")
    run.finish()
    assert run.engine.unsettled() == ()


def test_nobody_waits_so_there_is_no_pause() -> None:
    """Neither where nothing is to do, nor where the canary is all that is."""
    run = rolled(webs(1, **PAUSE), webs(1, **PAUSE))
    run.run()
    assert run.told("canary", "pause") == []
    run = rolled(webs(1, **PAUSE), of(2, webs(1, **PAUSE), "a/app"))
    run.run()
    assert run.told("pause") == []
    assert run.told("canary") == ["rolling canary a goes first", "rolling canary a let through"]


def test_a_first_installation_has_no_canary() -> None:
    """None should serve yet."""
    run = rolled(graph_of({}), webs(1, **PAUSE))
    run.run()
    assert run.told("canary", "pause", "lends") == []
    assert run.engine.unsettled() == ()


def test_new_units_wait_for_the_canary_too() -> None:
    """A scale-out with the release."""
    run = rolled(webs(1, "a b", **PAUSE), webs(2, "a b c", **PAUSE))
    run.begin()
    run.until("rolling pauses 30 s for a")
    untouched(run, "bc")
    run.finish()
    assert run.engine.unsettled() == ()


def test_a_configuration_alone_has_a_canary_of_its_whole_scope() -> None:
    """Nothing is changed on the other hosts, neither the configuration nor the server."""
    run = rolled(confs(1, **PAUSE), confs(2, **PAUSE))
    run.begin()
    run.until("a/conf outdated -> up [a/app down]")
    run.fails = {CobId("a/conf")}
    run.finish()
    untouched(run, "bcd")
    end = "canary a/app, a/app lock a/conf, a/conf failed"
    assert run.why("d/conf") == f"d/conf limit rolling, {end}"


def test_who_is_out_when_the_canary_begins_goes_first() -> None:
    """By the journal."""
    run = rolled(webs(1, **PAUSE), webs(2, **PAUSE), {"c/app": "broken"})
    run.journal.served.update(UP)
    run.run()
    assert run.told("canary")[0] == "rolling canary c goes first"
    assert run.told("lends") == [f"rolling lends to {host}" for host in "abd"]
    assert run.engine.unsettled() == ()


def test_who_is_out_and_does_not_go_first_is_repaired_to_what_its_host_stands_in() -> None:
    """And no further before the verdict."""
    run = rolled(webs(1, **PAUSE), webs(2, **PAUSE), {"b/app": "broken", "c/app": "broken"})
    run.journal.served.update(UP)
    run.begin()
    assert run.told("canary") == ["rolling canary b goes first"]
    run.until("rolling pauses 30 s for b")
    assert run.told("c/app broken", "c/app down", "c switched") == [
        "c/app broken -> down",
        "c/app down -> up",
    ]
    assert (run.real[C], run.version[C]) == ("up", {"v": 1})
    untouched(run, "ad")
    run.finish()
    assert run.engine.unsettled() == ()


@pytest.mark.parametrize("trouble", ["broken", "loops", "silent"])
def test_who_is_found_out_when_the_canary_begins_goes_first_with_the_new_content(
    trouble: str,
) -> None:
    """Whether the content that its host stands in mends it, does not, or leaves its check blind."""
    run = canary()
    if trouble == "silent":
        run.silent = {C}
    else:
        run.real[C] = "broken"
    if trouble == "loops":
        run.fails = {C}
    run.begin()
    run.until("rolling canary c goes first")
    run.until("c switched")
    untouched(run, "abd")
    run.fails, run.silent = set(), set()
    run.finish()
    assert run.told("canary", "pauses") == [
        "rolling canary c goes first",
        "rolling pauses 30 s for c",
        "rolling canary c let through",
    ]
    assert run.engine.unsettled() == ()
    assert run.version[C] == {"v": 2}


@pytest.mark.parametrize("part", ["conf", "app", "silent"])
def test_a_configuration_that_mends_what_crashes_gets_there_although_its_repair_failed(
    part: str,
) -> None:
    """The server itself does not change; its repair with the old configuration failed."""
    run = rolled(confs(1, **PAUSE), confs(2, **PAUSE))
    run.real[C], run.fails = "broken", {C}
    if part == "silent":
        run.silent = {C}
    run.begin()
    run.until("c switched")
    run.fails, run.silent = {CobId("c/conf")} if part == "conf" else set(), set()
    run.finish()
    assert run.told("goes first") == ["rolling canary c goes first"]
    if part == "conf":
        untouched(run, "abd")
    assert (run.engine.unsettled() == ()) is (part != "conf")


def test_a_host_that_is_found_silent_goes_first_and_the_others_wait_for_it() -> None:
    """It is out as well; they go on when it answers, or is given up."""
    words: dict[str, Any] = {"count": 2, **PAUSE}
    run = rolled(webs(1, **words), webs(2, **words))
    run.dead = {"c"}
    run.run()
    assert run.told("canary") == ["rolling canary c goes first"]
    untouched(run, "abd")
    assert run.why(A) == "a/app limit rolling, canary c/app, c/app unreachable c"
    run.come_back("c")
    run.finish()
    assert run.engine.unsettled() == ()


def test_one_found_out_that_cannot_be_mended_goes_first_and_lets_nobody_through() -> None:
    """In later runs as well, until it is mended."""
    run = canary()
    run.real[D], run.fails = "broken", {D}
    for _ in range(2):
        run.run()
        untouched(run, "abc")
        assert run.why(A) == "a/app limit rolling, canary d/app, d/app failed"


def test_one_found_out_later_leaves_no_room_for_the_canary() -> None:
    """The run ends and names it; the next one goes on with the same canary."""
    run = canary()
    run.begin()
    run.until("rolling canary a goes first")
    run.journal.slots.clear()  # as if it had died before it was lent one
    run.journal.switched.clear()
    run.real[D], run.fails = "broken", {D}
    for _ in range(2):
        run.run()
        untouched(run, "bc")
        assert run.why(A) == "a/app limit rolling d/app, d/app failed"
        assert run.why(B).startswith("b/app limit rolling, canary a/app, a/app limit rolling d/app")


def test_budgets_that_share_members_have_one_canary() -> None:
    """The largest `first`, the longest `pause`; those without `first` wait for it too."""
    first = budget_of("a/app b/app", 2, name="first", first=1, pause_s=10.0)
    second = budget_of("b/app c/app", 2, name="second", first=2, pause_s=5.0)
    third = budget_of("c/app d/app", 2, name="third")
    other = budget_of("e/app f/app", 2, name="other")
    hosts = "a b c d e f"
    budgets = (first, second, third, other)
    run = rolled(webs(1, hosts, budgets=budgets), webs(2, hosts, budgets=budgets))
    run.begin()
    run.until("second pauses 10 s for b c")
    assert run.told("goes first") == ["second canary b c goes first"]
    untouched(run, "ad")
    assert run.told("e switched", "f switched") == ["e switched", "f switched"]
    run.finish()
    assert run.engine.unsettled() == ()


def test_a_canary_that_leaves_is_home_when_it_is_gone() -> None:
    """A scale-in: the others follow after the pause."""
    run = rolled(webs(1, **PAUSE), webs(1, "c d", **PAUSE))
    run.begin()
    run.until("rolling pauses 30 s for a")
    assert run.told("switched") == ["a switched"]
    run.finish()
    assert run.told("switched") == ["a switched", "b switched"]
    assert run.engine.unsettled() == ()


def test_what_the_canary_needs_of_others_is_not_held_back() -> None:
    """A client elsewhere goes down for it, under no canary; and its room is asked for first."""
    run = rolled(clients(1), clients(2))
    run.begin()
    run.until("rolling pauses 30 s for a")
    assert run.told("b/front") == [
        "b/front is up (journal)",
        "a/app asks b/front down",
        "b/front up -> down",
        "b/front is down (transition)",
        "a/app gets b/front down",
        "a/app outdated -> down [b/front down]",
        "a/app releases b/front down",
        "b/front asks a/app up",
        "a/app gets b/front up",
        "b/front down -> up [a/app up]",
        "b/front is up (transition)",
        "b/front releases a/app up",
    ] or run.told("b/front up -> down") == ["b/front up -> down"]
    assert run.told("b switched", "b/app ->") == []
    run.finish()
    assert run.engine.unsettled() == ()


def test_what_a_canary_leaves_behind_on_its_host_goes_with_it() -> None:
    """No need ties it to the canary, but the host goes on only when both are gone."""
    run = rolled(logged("a b c"), logged("c"))
    run.begin()
    run.until("apps pauses 30 s for a")
    assert run.told("down (transition)") == [
        "a/log is down (transition)",
        "a/app is down (transition)",
    ]
    run.finish()
    assert run.told("switched") == ["a switched", "b switched"]
    assert run.engine.unsettled() == ()


def logged(hosts: str) -> Graph:
    """Make web servers under a canary and, with what logs beside them, under a second limit."""
    apps, logs = (" ".join(f"{host}/{name}" for host in hosts.split()) for name in ("app", "log"))
    budgets = (budget_of(apps, 2, name="apps", **PAUSE), budget_of(f"{apps} {logs}", name="all"))
    return webs(1, hosts, more=dict.fromkeys(logs.split(), SIMPLE), budgets=budgets)


def test_hosts_that_switch_with_that_of_the_canary_switch_with_it() -> None:
    """What is on them has its turn afterwards."""
    options = {"count": 2, **PAUSE}
    run = rolled(webs(1, **options), webs(2, **options), order=((("a", "b"), ()),))
    run.begin()
    run.until("rolling pauses 30 s for a")
    assert run.told("switched", "outdated ->") == ["a b switched", "a/app outdated -> down"]
    untouched(run, "cd")
    run.finish()
    assert run.engine.unsettled() == ()


def test_what_leaves_before_the_canary_can_switch_goes_with_it() -> None:
    """One that leaves is in a limit that shares the canary, and not in the one that chooses it."""
    order = ((("b",), ()), (("a",), (0,)), (("c",), (1,)))
    run = rolled(fewer(1, "a b c"), fewer(2, "a c"), order=order)
    run.begin()
    run.until("some pauses 30 s for a")
    assert run.told("switched") == ["b switched", "a switched"]
    untouched(run, "c")
    run.finish()
    assert run.engine.unsettled() == ()


def fewer(version: int, hosts: str) -> Graph:
    """Make web servers under a limit without a canary, and some of them under one with it."""
    every = budget_of(" ".join(f"{host}/app" for host in hosts.split()), 3, name="every")
    return webs(version, hosts, budgets=(every, budget_of("a/app c/app", 2, name="some", **PAUSE)))


def clients(version: int) -> Graph:
    """Make servers and a client on another one's host that is tied to nothing there."""
    needs = ["a/app outdated>down b/front down", "b/front *>up a/app up"]
    graph = webs(1, "a b c", *needs, more={"b/front": SIMPLE}, **PAUSE)
    return of(version, graph, "a/app b/app c/app")


def test_after_an_interrupt_nothing_is_resumed() -> None:
    """Who waits is told so by the limit."""
    run = canary()
    run.begin()
    run.until("rolling pauses 30 s for a")
    assert run.give(Halt()) == []
    assert run.give(LimitResumed(limit="rolling")) == []
    assert run.engine.idle()
    assert run.why(B) == "b/app limit rolling, canary"


@pytest.mark.parametrize("name", ["rolling", "other"])
def test_what_is_not_paused_is_not_resumed(name: str) -> None:
    """Nothing changes."""
    for run in (canary(), rolled(webs(1, budgets=()), webs(2, budgets=()))):
        run.begin()
        with pytest.raises(ProtocolError, match="is not paused"):
            run.give(LimitResumed(limit=name))


def test_a_pause_tells_its_units_and_its_length() -> None:
    """In seconds."""
    run = canary()
    run.begin()
    run.until("rolling pauses 30 s for a")
    (job,) = run.jobs
    assert job == LimitPaused(limit="rolling", units=("a",), pause_s=30.0)


def test_a_canary_of_racks_is_a_whole_rack() -> None:
    """`unit: rack`."""
    racks = tuple(
        Unit(name=rack, members=frozenset(CobId(f"{host}/app") for host in hosts))
        for rack, hosts in (("r1", "ab"), ("r2", "cd"))
    )
    budgets = (replace(budget_of("a/app", 1, first=1), units=racks),)
    run = rolled(webs(1, budgets=budgets), webs(2, budgets=budgets))
    run.begin()
    run.until("rolling pauses 0 s for r1")
    assert run.told("switched") == ["a switched", "b switched"]
    untouched(run, "cd")
    run.finish()
    assert run.engine.unsettled() == ()


def test_another_unit_is_never_chosen_in_place_of_one_that_failed() -> None:
    """Not even where that one is given up: the verdict is open until it is taken anew."""
    canaries = {"rolling": (Canary(units=frozenset("a")),)}
    lending = Lending(canaries=canaries, given_up=frozenset("a"), served=frozenset(UP))
    run = rolled(webs(1, **PAUSE), webs(2, **PAUSE), lending=lending)
    run.run()
    untouched(run, "bcd")
    assert run.why(B) == "b/app limit rolling, canary"


def test_a_canary_of_which_one_has_left_and_the_run_was_killed_goes_on() -> None:
    """Who is gone by now is home."""
    words: dict[str, Any] = {"first": 2, "pause_s": 30.0, "count": 2}
    run = rolled(webs(1, **words), webs(2, "b c d", **words))
    run.begin()
    run.until("a switched")
    run.run()
    assert run.engine.unsettled() == ()
