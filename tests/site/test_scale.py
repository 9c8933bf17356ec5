"""A large site costs what is asked of it: told by counts, not by clocks."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.site import Site

Maker = Any
HOSTS = 10_000


@pytest.fixture
def large(maker: Maker) -> Site:
    """Return a site of ten thousand hosts with four COBs each."""
    site: Site = maker.site(
        f"""
inventory:
  web:
    hosts: {{"web[00001:{HOSTS}]": {{rack: r1}}}}
    vars: {{port: 8000, title: "{{{{ inventory_hostname }}}}:{{{{ port }}}}"}}
  db: {{hosts: {{"db[1:3]": }}}}
cobs:
  a: {{type: simple, on: web, spec: {{title: "{{{{ title }}}}"}}}}
  b: {{type: simple, on: web, requires: [a], spec: {{words: [1, 2, 3]}}}}
  c: {{type: simple, on: web, requires: [b]}}
  d: {{type: simple, on: web, after: [c, db@db]}}
  db: {{type: simple, on: db}}
limits:
  gates: {{on: web, transition: "* -> *", max: 1%, per: rack}}
  dbs: {{on: db, max: 1}}
"""
    )
    return site


def test_a_part_of_a_large_site_is_evaluated_alone(large: Site) -> None:
    """A budget has all its members everywhere: it is of those that only few hosts have."""
    graph = large.graph("web00042")
    assert len(graph.cobs) == 4 + 3
    scopes = large._parts.evaluator._scopes.values()
    assert sum("title" in scope._values for scope in scopes) == 1
    assert graph.limits[0].groups[0].bound == 4 * HOSTS // 100
    assert not graph.budgets
    assert vars(large._evaluation.hosts)["_make"].cache_info().currsize == 0


def test_all_of_a_large_site_shares_what_is_the_same(large: Site) -> None:
    graph = large.graph()
    assert len(graph.cobs) == 4 * HOSTS + 3
    assert len(graph.needs) == HOSTS * (2 + 2 + 1 + 3)
    templates = large._parts.evaluator.templates._known
    assert len(templates) == 2
    assert len({id(cob.spec) for cob in graph.cobs.values() if cob.name == "b"}) == 1
    assert len(large._parts.evaluator.variables._shared) == 2
