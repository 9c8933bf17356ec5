"""Where an object goes and what it is on: `want` and `machine` in a site."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.generation import content_of
from cobweb.model import CobId
from cobweb.site._cache import pack, unpack

Maker = Any
APP = CobId("app01/a")
NODE = "node: {type: simple, on: app}"
NO_STATE = (
    "`want` of COB `a`: the type `simple` has no state `{}` "
    "(its states are `outdated`, `down` or `up`)"
)


def site_of(maker: Maker, *cobs: str) -> Any:
    return maker.site("cobs:\n" + "".join(f"  {cob}\n" for cob in cobs))


def test_an_object_goes_where_its_type_prefers_unless_it_says(maker: Maker) -> None:
    graph = site_of(
        maker, "a: {type: simple, on: app01, want: down}", "b: {type: simple, on: app01}"
    ).graph()
    assert (graph.cobs[APP].want, graph.cobs[APP].preferred) == ("down", "down")
    other = graph.cobs[CobId("app01/b")]
    assert (other.want, other.preferred, other.machine) == ("", "up", None)


def test_a_machine_is_the_object_of_that_name_on_the_same_host(maker: Maker) -> None:
    graph = site_of(maker, NODE, "a: {type: simple, on: app, machine: node}").graph()
    machines = {cob: it.machine for cob, it in graph.cobs.items()}
    assert machines == {
        "app01/a": "app01/node",
        "app01/node": None,
        "app02/a": "app02/node",
        "app02/node": None,
    }


DURATIONS = "seconds, or text as in `30s`, `1m30s`, `2h`"


def test_where_it_goes_may_depend_on_the_host(maker: Maker) -> None:
    want = "{{ 'down' if inventory_hostname == 'app01' else 'up' }}"
    graph = site_of(maker, f'a: {{type: simple, on: app, want: "{want}"}}').graph()
    assert [cob.want for cob in graph.cobs.values()] == ["down", "up"]


def test_neither_is_a_part_of_what_an_object_is_meant_to_be(maker: Maker) -> None:
    sites = [
        site_of(maker, NODE, f"a: {{type: simple, on: app01{more}}}")
        for more in (
            *("", ", want: down", ", machine: node", ", protect: true"),
            *(", was: b", ", trust: 0", ", trust: 5m"),
        )
    ]
    assert len({content_of(site.graph().cobs[APP]) for site in sites}) == 1


def test_what_is_needed_comes_with_its_machine(maker: Maker) -> None:
    site = site_of(
        maker,
        NODE,
        "a: {type: simple, on: app, machine: node}",
        "b: {type: simple, on: db, after: [a@app02]}",
    )
    graph = site.graph("db01")
    assert list(graph.cobs) == ["app02/a", "app02/node", "db01/b"]


def test_a_kept_graph_has_both(maker: Maker) -> None:
    site = site_of(
        maker,
        NODE,
        "a: {type: simple, on: app, want: down, machine: node, protect: true, was: b, trust: 0}",
    )
    graph = site.graph()
    assert [cob.trust_s for cob in graph.cobs.values()] == [0.0, None, 0.0, None]
    assert [cob.protect for cob in graph.cobs.values()] == [True, False, True, False]
    packed = pack(graph)
    assert packed is not None
    assert unpack(packed, site.types) == graph


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "want: dwon",
            "`want` of COB `a`: the type `simple` has no state `dwon` (did you mean `down`?)",
        ),
        ("want: 1", "`want` of COB `a` must be text, not a number (put quotes round it)"),
        (
            "want: unknown",
            NO_STATE.format("unknown"),
        ),
        (
            "want: '{{ 1 + 1 }}'",
            NO_STATE.format("2").replace(" (its", " [on app01, app02] (its"),
        ),
        (
            "machine: nodes",
            "`machine` of COB `a`: there is no COB `nodes` (did you mean `node`?)",
        ),
        (
            "machine: a",
            "`machine` of COB `a`: it cannot be its own machine (name the COB that is the machine)",
        ),
        (
            "machine: c",
            "`machine` of COB `a`: `c` is on a machine itself (name `node`, if it is that)",
        ),
        (
            "machine: d",
            "`machine` of COB `a`: there is no `d` on app01 (put `d` on `app01`)",
        ),
        ("was: a", "`was` of COB `a`: that is its name now (name the one that it had before)"),
        (
            "was: node",
            (
                "`was` of COB `a`: there is a COB `node` on the same hosts still "
                "(an object has one name: take that one out, or `was`)"
            ),
        ),
        (
            "was: e",
            "`was` of COB `a`: `f` was `e` as well (only one of them can be what it was)",
        ),
        (
            "was: app01/e",
            "`was` of COB `a`: `app01/e` is no name for a COB (a name alone, without a host)",
        ),
        ("protect: yes", "`protect` of COB `a` must be true or false, not `yes`"),
        ("machine: [node]", "`machine` of COB `a` must be text, not a list"),
        ("trust: soon", f"`trust` of COB `a` must be a duration, not `soon` ({DURATIONS})"),
        ("trust: -1", f"`trust` of COB `a` must be a duration, not `-1` ({DURATIONS})"),
    ],
    ids=[
        "no-state",
        "number",
        "unknown",
        "template",
        "no-cob",
        "itself",
        "carried",
        "elsewhere",
        "name-now",
        "both-names",
        "twice",
        "no-name",
        "no-flag",
        "list",
        "no-duration",
        "negative",
    ],
)
def test_what_is_wrong_is_found_at_its_place(maker: Maker, body: str, found: str) -> None:
    text = (
        f"cobs:\n  {NODE}\n  c: {{type: simple, on: app, machine: node}}\n"
        f"  d: {{type: simple, on: db}}\n  f: {{type: simple, on: app, was: e}}\n"
        f"  a: {{type: simple, on: app, {body}}}\n"
    )
    key = body.partition(":")[0]
    column = len(f"  a: {{type: simple, on: app, {key}: ") + 1
    assert maker.findings(text) == [f"site.yml:7:{column}: {found}"]


def test_a_machine_that_is_wrong_itself_is_told_once(maker: Maker) -> None:
    cobs = "node: {type: simple, on: app, want: off}, a: {type: simple, on: app, machine: node}"
    assert len(maker.findings(f"cobs: {{{cobs}}}")) == 1
    lost = "node: {type: smiple, on: app}, a: {type: simple, on: app, machine: node}"
    assert len(maker.findings(f"cobs: {{{lost}}}")) == 1
