"""What deciders are given and return: plain data that comes back from JSON as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cobweb.model import CobId, Decision
from cobweb_plugins.controller.deciders import DeciderView, ObjectState, Outcome
from cobweb_plugins.controller.deciders._values import outcome_problems

VIEW = DeciderView(
    data={"nodes": ["n1", "n2"]},
    decisions={
        "n1": Decision(
            section="pool",
            key="n1",
            body={"in": True},
            revision=3,
            author="ann",
            reason="asked for",
            time=1.5,
        )
    },
    states={CobId("n1/web"): ObjectState(state="up", since=2.5)},
    unsettled=({"cob": "n1/web", "why": "failed"},),
    is_busy=True,
)


@pytest.mark.parametrize("view", [VIEW, DeciderView(data=None)])
def test_a_view_comes_back_from_json_as_it_was(view: DeciderView) -> None:
    assert DeciderView.of(json.loads(json.dumps(view.as_data()))) == view


def _nested(levels: int) -> list[Any]:
    data: list[Any] = []
    for _ in range(levels):
        data = [data]
    return data


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(),
        Outcome({"n1": {"in": [1, 2.5, None]}, "n2": None}, {"since": 1.0}, {"n1/web": "why"}),
        Outcome(writes={str(number): number for number in range(1_000)}),
        Outcome(notes={"n1": "x" * 2_000}),
        Outcome(memory="x" * (2**20 - 2)),
    ],
)
def test_an_outcome_within_its_limits_has_no_problems(outcome: Outcome) -> None:
    assert outcome_problems(outcome) == []


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, "it is no Outcome but NoneType"),
        ({"writes": {}}, "it is no Outcome but dict"),
        (Outcome(writes=[]), "writes: no mapping but list"),  # type: ignore[arg-type]  # is tried
        (Outcome(notes="no"), "notes: no mapping but str"),  # type: ignore[arg-type]  # is tried
        (Outcome(writes={1: 2}), "writes: no plain JSON"),  # type: ignore[dict-item]  # is tried
        (Outcome(notes={1: "x"}), "notes: no plain JSON"),  # type: ignore[dict-item]  # is tried
        (Outcome(notes={"n1": 2}), "notes: one is no text"),  # type: ignore[dict-item]  # is tried
        (Outcome(notes={"n1": "\ud800"}), "notes: no plain JSON"),
        (Outcome(writes={"\ud800": 1}), "no plain JSON"),
        (Outcome(writes={"n1": float("nan")}), "writes: no plain JSON"),
        (Outcome(writes={"n1": {1: "one"}}), "writes: no plain JSON"),
        (Outcome(writes={"n1": ("a",)}), "writes: no plain JSON"),
        (Outcome(writes={"n1": object()}), "writes: no plain JSON"),
        (Outcome(memory=float("inf")), "memory: no plain JSON"),
        (Outcome(memory={1, 2}), "memory: no plain JSON"),
        (Outcome(memory=_nested(10_000)), "memory: no plain JSON"),
        (Outcome(memory="x" * (2**20 - 1)), "memory: 1048577 bytes of JSON are more than 1048576"),
        (Outcome(notes={"n1": "x" * 2_001}), "notes: that of 'n1' has more than 2000 characters"),
        (
            Outcome(writes={"n1": "x" * 2**20}),
            "writes: 1048586 bytes of JSON are more than 1048576",
        ),
        (
            Outcome(notes={str(n): "x" * 2_000 for n in range(600)}),
            "notes: 1206490 bytes of JSON are more",
        ),
        (Outcome(writes={str(number): 1 for number in range(1_001)}), "writes: 1001 are more"),
    ],
)
def test_each_problem_of_an_outcome_is_told(outcome: object, told: str) -> None:
    (problem,) = outcome_problems(outcome)
    assert told in problem
