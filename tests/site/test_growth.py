"""How often the costly things are done as a site grows: told by counts, not by clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks._sites import COBS_PER_HOST, write_site
from cobweb.site import load_site
from cobweb.site.hosts._patterns import Patterns
from cobweb.site.reading._schemas import SpecChecker
from cobweb.site.templates._rendering import Template

RACK = 40
VARYING = 10
"""Objects of a host whose specs name the host; 12 references name a variable of it."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often something was rendered, checked against a schema, or selected."""
    counts: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def call(*args: Any, **options: Any) -> Any:
            counts[name] += 1
            return inner(*args, **options)

        monkeypatch.setattr(owner, name, call)

    count(Template, "render")
    count(Patterns, "_evaluate")

    class Validator:
        """Counts the specs that are looked at."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def is_valid(self, spec: Any) -> bool:
            counts["is_valid"] += 1
            return bool(self._inner.is_valid(spec))

    made = SpecChecker.__init__

    def make(self: Any, schema: Any) -> None:
        made(self, schema)
        self._validator = Validator(self._validator)

    monkeypatch.setattr(SpecChecker, "__init__", make)
    return counts


@pytest.mark.parametrize("racks", [1, 4])
def test_what_is_the_same_is_done_once(tmp_path: Path, counted: Counter[str], racks: int) -> None:
    write_site(tmp_path, RACK * racks)
    graph = load_site(tmp_path).graph()
    assert len(graph.cobs) == RACK * racks * COBS_PER_HOST
    # A spec that names its host is rendered per host, a reference once per value: racks and heads.
    assert counted["render"] - VARYING * RACK * racks <= 12 * 2 * racks
    assert counted["is_valid"] <= COBS_PER_HOST
    assert counted["_evaluate"] <= 1 + 2 * racks


@pytest.mark.parametrize("racks", [1, 4])
def test_a_part_costs_what_it_reaches(tmp_path: Path, counted: Counter[str], racks: int) -> None:
    write_site(tmp_path, RACK * racks)
    site = load_site(tmp_path)
    assert not counted["render"]
    graph = site.graph("h00039")
    reached = len({cob.host for cob in graph.cobs.values()})
    assert reached == 2
    assert counted["render"] <= (VARYING + 12) * reached


def test_a_template_over_all_hosts_is_rendered_once_per_value(
    maker: Any, counted: Counter[str]
) -> None:
    site = maker.site(
        """
inventory:
  a: {hosts: {"a[1:50]": }, vars: {rack: a}}
  b: {hosts: {"b[1:50]": }, vars: {rack: b}}
cobs:
  c:
    type: simple
    on: all
    spec: {x: "{% for h in groups['all'] if hostvars[h].rack == rack %}{{ h }} {% endfor %}"}
"""
    )
    specs = {id(cob.spec): cob.spec for cob in site.graph().cobs.values()}
    assert counted["render"] == 2
    assert sorted(str(spec["x"])[:2] for spec in specs.values()) == ["a1", "b1"]
