"""The engine gives the very effects, states and reasons of its plain oracle, step for step."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobweb.engine import STAY, EngineSettings
from cobweb.model import CobId, Graph, Limit, LimitGroup, State
from cobweb.testing import simulation
from cobweb.testing.simulation import Simulation
from tests.support.graphs import graphs, starts
from tests.support.reference_engine_twin import Story, Twin
from tests.support.words import words

EVENTS = 60


@st.composite
def limits_of(draw: st.DrawFn, graph: Graph) -> tuple[Limit, ...]:
    """Draw up to two limits, each over one or two groups of objects."""
    limits = []
    for number in range(draw(st.integers(0, 2))):
        groups: dict[int, set[CobId]] = {}
        for cob in graph.cobs:
            groups.setdefault(draw(st.integers(0, 2)), set()).add(cob)
        step = draw(st.sampled_from(next(iter(graph.cobs.values())).type.transitions))
        limits.append(
            Limit(
                name=f"limit {number}",
                groups=tuple(
                    LimitGroup(
                        name=str(group), members=frozenset(members), bound=draw(st.integers(1, 2))
                    )
                    for group, members in sorted(groups.items())
                    if group
                ),
                source=draw(st.sampled_from([step.source, "*"])),
                dest=draw(st.sampled_from([step.dest, "*"])),
            )
        )
    return tuple(limits)


@st.composite
def options(draw: st.DrawFn, graph: Graph) -> dict[str, Any]:
    """Draw what the engine is told besides the graph."""
    chosen: dict[str, Any] = {"generation": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["movable"] = {cob for cob in graph.cobs if draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["goals"] = {
            cob.id: draw(st.sampled_from([*cob.type.states, STAY, STAY]))
            for cob in graph.cobs.values()
            if draw(st.booleans())
        }
    if draw(st.integers(0, 3)) == 0:
        chosen["failed"] = {cob for cob in graph.cobs if not draw(st.integers(0, 3))}
    if draw(st.booleans()):
        chosen["settings"] = EngineSettings(
            max_same_transition=draw(st.integers(1, 3)), max_new_plans=draw(st.integers(1, 4))
        )
    return chosen


@st.composite
def stories(draw: st.DrawFn, parts: int) -> tuple[Story, dict[CobId, State], list[Any]]:
    """Draw a story, the states that it begins with, and locks of a life before."""
    drawn = draw(st.one_of(graphs(), graphs(max_cobs=8, max_needs=20), words()))
    graph = Graph(cobs=drawn.cobs, needs=drawn.needs, limits=draw(limits_of(drawn)))
    owners: dict[int, set[CobId]] = {}
    for cob in sorted(graph.cobs):
        owners.setdefault(draw(st.integers(0, parts - 1)), set()).add(cob)
    story = Story(
        graph,
        Random(draw(st.integers(0, 2**32))),
        [frozenset(owned) for _, owned in sorted(owners.items())],
        **draw(options(graph)),
    )
    truth = draw(starts(graph))
    known = {cob: state for cob, state in truth.items() if draw(st.booleans())}
    locks = [story._lock() for _ in range(draw(st.integers(0, 3)))]
    return story, known, locks


@given(stories(parts=1))
@settings(deadline=None)
def test_an_engine_that_owns_all_does_what_the_oracle_does(
    drawn: tuple[Story, dict[CobId, State], list[Any]],
) -> None:
    """Checks, failures, drops, vanished hosts, halts and old locks change nothing of that."""
    told(*drawn)


@given(stories(parts=3))
@settings(deadline=None)
def test_engines_that_share_nothing_do_what_the_oracle_does(
    drawn: tuple[Story, dict[CobId, State], list[Any]],
) -> None:
    """Mail that is lost, doubled, late or forged changes nothing of that."""
    told(*drawn)


@given(st.one_of(graphs(), words()), st.integers(0, 2**32), st.data())
@settings(deadline=None)
def test_a_whole_run_is_that_of_the_oracle(graph: Graph, seed: int, data: st.DataObject) -> None:
    """From any states to the end, with limits, without mishaps."""
    limited = Graph(cobs=graph.cobs, needs=graph.needs, limits=data.draw(limits_of(graph)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "Engine", Twin)
        Simulation(graph=limited, random=Random(seed), truth=data.draw(starts(graph))).run()


def told(story: Story, states: dict[CobId, State], locks: list[Any]) -> None:
    """Let a story happen; the twins compare themselves."""
    story.begin(states, locks)
    for _ in range(EVENTS):
        story.happen()
