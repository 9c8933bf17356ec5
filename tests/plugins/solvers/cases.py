"""Small random questions, as the solver protocol has them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Question = tuple[dict[str, Any], dict[str, Any]]


@st.composite
def questions(draw: st.DrawFn, *, existing: bool = False) -> Question:
    """Draw a template and constraints that a brute force can answer."""
    services = draw(st.sampled_from(["a", "ab", "abc", "abc", "abcd"]))
    hardware = draw(st.sampled_from(["h", "hk"] if len(services) < 4 else ["h"]))
    images = draw(st.sampled_from(["i", "ij"] if len(hardware) == 1 else ["i"]))
    sets = st.lists(
        st.lists(st.sampled_from(services), min_size=1, max_size=3, unique=True), max_size=3
    )
    pairs = st.lists(
        st.lists(st.sampled_from(services + "x"), min_size=2, max_size=2, unique=True), max_size=2
    )
    template = {
        "services": list(services),
        "hardwaretypes": list(hardware),
        "imagetypes": list(images),
        "mustcoexist": draw(st.one_of(st.just([]), pairs)),
        "cantcoexist": draw(st.one_of(sets, pairs)),
        "rules": {service: draw(_rules()) for service in services if draw(st.booleans())},
    }
    constraints: dict[str, Any] = {"nodes": draw(st.integers(1, 4))}
    if draw(st.booleans()) and not existing:
        constraints["hardwaretype"] = draw(st.sampled_from(hardware))
    if existing:
        constraints["existing"] = draw(st.lists(_existing(services), min_size=1, max_size=3))
    return template, constraints


@st.composite
def _rules(draw: st.DrawFn) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    for key, values in (
        ("min", st.integers(0, 3)),
        ("max", st.integers(0, 3)),
        ("ratio", st.sampled_from([0.1, 0.5, 0.75, 1])),
        ("step", st.integers(1, 3)),
        ("hardwaretypes", st.lists(st.sampled_from("hk"), max_size=2, unique=True)),
        ("imagetypes", st.lists(st.sampled_from("ij"), max_size=2, unique=True)),
    ):
        if draw(st.integers(0, 3)) == 0:
            rule[key] = draw(values)
    return rule


@st.composite
def _existing(draw: st.DrawFn, services: str) -> dict[str, Any]:
    some = st.lists(st.sampled_from(services), max_size=len(services), unique=True)
    return {
        "count": draw(st.sampled_from([1, 1, 2])),
        "hardwaretype": draw(st.sampled_from("hk")),
        "imagetype": draw(st.sampled_from("ij")),
        "services": draw(some),
        "may_gain": draw(st.one_of(st.just([]), some)),
        "may_lose": draw(st.one_of(st.just([]), some)),
    }
