"""Golden transcripts of several objects."""

from __future__ import annotations

from cobweb.model import CobId
from tests.support.drive import Drive
from tests.support.graphs import graph_of

FIGURE_1 = graph_of(
    "alpha/a alpha/cfg beta/b",
    "beta/b *>up alpha/a up",  # B requires A
    "alpha/a *>down beta/b down",
    "alpha/cfg outdated>* alpha/a down",  # cfg stops A
    "alpha/a *>up alpha/cfg up",
)


def test_figure_1_a_changed_configuration() -> None:
    """Figure 1: B down, A down, cfg, A up, B up."""
    states = {"alpha/a": "up", "alpha/cfg": "outdated", "beta/b": "up"}
    drive = Drive(FIGURE_1, states)
    drive.run()
    assert drive.lines == [
        "alpha/a is up (journal)",
        "alpha/cfg is outdated (journal)",
        "beta/b is up (journal)",
        "alpha/cfg asks alpha/a down",
        "alpha/a asks beta/b down",
        "beta/b up -> down",
        "beta/b is down (transition)",
        "alpha/a gets beta/b down",
        "alpha/a up -> down [beta/b down]",
        "alpha/a is down (transition)",
        "alpha/a releases beta/b down",
        "alpha/cfg gets alpha/a down",
        "beta/b asks alpha/a up",
        "alpha/cfg outdated -> up [alpha/a down]",
        "alpha/cfg is up (transition)",
        "alpha/cfg releases alpha/a down",
        "alpha/a asks alpha/cfg up",
        "alpha/a gets alpha/cfg up",
        "alpha/a down -> up [alpha/cfg up]",
        "alpha/a is up (transition)",
        "alpha/a releases alpha/cfg up",
        "beta/b gets alpha/a up",
        "beta/b down -> up [alpha/a up]",
        "beta/b is up (transition)",
        "beta/b releases alpha/a up",
    ]
    assert drive.engine.unsettled() == ()


def test_figure_1_from_nothing() -> None:
    """The first apply brings the configuration, then A, then B."""
    drive = Drive(FIGURE_1, dict.fromkeys(("alpha/a", "alpha/cfg", "beta/b"), "down"))
    assert [*drive.first[-2:], *drive.run()] == [
        "beta/b asks alpha/a up",
        "alpha/cfg down -> up",
        "alpha/a down -> up [alpha/cfg up]",
        "beta/b down -> up [alpha/a up]",
    ]


def test_what_others_ask_for_is_heard_before_anything_starts() -> None:
    """A worker that stops only while its master is up goes before it, when both are to go."""
    graph = graph_of("a/master b/worker", "b/worker up>down a/master up")
    both = (CobId("a/master"), CobId("b/worker"))
    drive = Drive(graph, dict.fromkeys(both, "up"), goals=dict.fromkeys(both, "down"))
    steps = [line for line in [*drive.first, *drive.run()] if "->" in line]
    assert steps == ["b/worker up -> down [a/master up]", "a/master up -> down"]


def test_figure_1_when_b_does_not_stop_the_chain_ends_in_the_failure() -> None:
    """A failure stops what needs it and nothing else, and the run says so (P5)."""
    states = {"alpha/a": "up", "alpha/cfg": "outdated", "beta/b": "up"}
    drive = Drive(FIGURE_1, states)
    assert drive.ended("beta/b", ok=False) == ["beta/b is unknown (transition)", "beta/b check"]
    drive.checked("beta/b", "up")
    assert drive.engine.idle()
    assert drive.why("alpha/cfg") == (
        "alpha/cfg lock alpha/a down, alpha/a lock beta/b down, beta/b failed up"
    )
