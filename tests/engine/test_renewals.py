"""Objects that are taken for changed though they are not (`Engine.start(renew=...)`)."""

from __future__ import annotations

from dataclasses import replace

from cobweb.engine import Changeover
from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import budget_of, graph_of, type_of

THING = type_of("outdated down up", "down>up up>down outdated>up outdated>down", "up", "down")
PLAIN = type_of("off ready up", "off>ready ready>up up>ready ready>off", "up", "off")


def renewing(*cobs: str) -> dict[str, object]:
    """Return how an engine is told to renew these."""
    return {"renew": frozenset(map(CobId, cobs)), "believed": {}}


def moves(drive: Drive) -> list[str]:
    """Run to the end and return all transitions, without their locks."""
    drive.run()
    return [line.partition(" [")[0] for line in drive.lines if "->" in line]


def test_what_is_up_counts_as_outdated_and_serves_until_it_goes() -> None:
    budget = budget_of("x/a x/b", unit="object")
    graph = graph_of({"x/a": THING, "x/b": THING}, budgets=(budget,))
    drive = Drive(graph, {"x/a": "up", "x/b": "up"}, begin=renewing("x/a", "x/b"))
    assert moves(drive) == ["x/a outdated -> up", "x/b outdated -> up"]
    assert drive.lines.index("rolling has back x/a") < drive.lines.index("rolling lends to x/b")
    assert drive.engine.unsettled() == ()


def test_what_a_check_finds_up_is_renewed_as_well() -> None:
    drive = Drive(graph_of({"x/a": THING}), begin=renewing("x/a"))
    drive.checked("x/a", "up")
    assert moves(drive) == ["x/a outdated -> up"]


def test_what_is_away_just_comes_back() -> None:
    drive = Drive(graph_of({"x/a": THING, "x/b": PLAIN}), begin=renewing("x/a", "x/b"))
    drive.checked("x/a", "down")
    drive.checked("x/b", "off")
    assert sorted(moves(drive)) == ["x/a down -> up", "x/b off -> ready", "x/b ready -> up"]
    assert drive.engine.unsettled() == ()


def test_a_type_whose_outdated_serves_is_renewed_in_place() -> None:
    kind = replace(THING, serving=("outdated", "up"))
    drive = Drive(graph_of({"x/a": kind}), {"x/a": "up"}, begin=renewing("x/a"))
    assert moves(drive) == ["x/a outdated -> up"]


def test_another_type_goes_to_its_remove_state_and_back_under_its_needs() -> None:
    graph = graph_of({"x/a": PLAIN, "x/b": THING}, *requires_of_plain("x/b", "x/a"))
    drive = Drive(graph, {"x/a": "up", "x/b": "up"}, begin=renewing("x/a"))
    assert moves(drive) == [
        "x/b up -> down",
        "x/a up -> ready",
        "x/a ready -> off",
        "x/a off -> ready",
        "x/a ready -> up",
        "x/b down -> up",
    ]
    assert drive.engine.unsettled() == ()


def test_what_may_not_be_left_is_told() -> None:
    graph = graph_of({"x/a": PLAIN, "x/b": THING}, *requires_of_plain("x/b", "x/a"))
    up = {"x/a": "up", "x/b": "up"}
    drive = Drive(graph, up, begin=renewing("x/a"), movable=frozenset({CobId("x/a")}), returns=True)
    assert moves(drive) == []
    assert drive.engine.unsettled() == ("x/a",)
    assert "excluded" in drive.why("x/a")


def test_who_changes_with_its_host_is_not_renewed_before() -> None:
    cob = CobId("x/a")
    graph = graph_of({"x/a": THING})
    change = Changeover(
        hosts=frozenset({"x"}),
        base={cob: graph.cobs[cob]},
        changed=frozenset({cob}),
        guesses={cob: "outdated"},
    )
    drive = Drive(graph, {"x/a": "up"}, begin=renewing("x/a"), change=change)
    assert drive.first[:1] == ["x/a is up (journal)"]
    drive.checked("x/a", "up")  # a check that knows nothing of it
    assert moves(drive) == ["x/a outdated -> up"]


def requires_of_plain(a: str, x: str) -> tuple[str, ...]:
    """Return the needs of `requires: X` for an object that is removed in `off`."""
    return (f"{a} *>up {x} up", f"{a} up {x} up", f"{x} up>* {a} down")
