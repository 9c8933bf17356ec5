"""`limits`: budgets of units, and limits on transitions in flight (design, section 5b)."""

from __future__ import annotations

from typing import Any

import pytest

from cobweb.model import Budget, CobId, Unit
from tests.site.conftest import Maker

SITE = """
inventory:
  app:
    hosts:
      app02: {{rack: b, role: leader, rank: 1}}
      app01: {{rack: a, role: follower, rank: 2}}
      app03: {{rack: a, role: follower, rank: 10}}
    vars: {{spare: 1}}
  db: {{hosts: {{db01: }}}}
types:
  grouped:
    states: [outdated, down, up]
    preferred: up
    remove: down
    groups: {{running: [up, outdated]}}
    check: {{tasks: check.yml}}
    transitions: {{down -> up: , up -> down: , outdated -> down: }}
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {{tasks: check.yml}}
    transitions: {{down -> up: , up -> down: }}
cobs: {{a: {{type: grouped, on: app}}, b: {{type: simple, on: app}}, d: {{type: simple, on: db}}}}
limits: {{rolling: {{on: app, {more}}}}}
"""


def members(*cobs: str) -> frozenset[CobId]:
    return frozenset(map(CobId, cobs))


def budget(maker: Maker, more: str) -> Budget:
    graph = maker.site(SITE.format(more=more)).graph()
    assert not graph.limits
    (found,) = graph.budgets
    return found


def test_the_unit_is_a_host_in_the_order_of_the_inventory(maker: Maker) -> None:
    found = budget(maker, "max: 2")
    assert (found.name, found.count, found.percent, found.group) == ("rolling", 2, None, "")
    assert (found.first, found.pause_s, found.trust_s) == (0, 0.0, None)
    assert found.place is not None
    assert found.place.line == 26
    assert found.units == tuple(
        Unit(name=host, members=members(f"{host}/a", f"{host}/b"))
        for host in ("app02", "app01", "app03")
    )
    assert budget(maker, "max: 2, unit: host") == found


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("max: 25%", {"percent": 25}),
        ("max: 100 %", {"percent": 100}),
        ("max: 1, group: running, cob: a", {"group": "running"}),
        ("max: 1, first: 2", {"first": 2}),
        ("max: 1, first: 2, pause: 1m30s", {"first": 2, "pause_s": 90.0}),
        ("max: 1, trust: 5m", {"trust_s": 300.0}),
        ("max: 1, trust: 0", {"trust_s": 0.0}),
        ("max: 1, trust: 0s", {"trust_s": 0.0}),
        ("max: 1, description: one by one", {}),
    ],
    ids=str,
)
def test_what_it_says(maker: Maker, more: str, said: dict[str, Any]) -> None:
    usual = {"count": 1, "percent": None, "group": "", "first": 0, "pause_s": 0.0, "trust_s": None}
    found = budget(maker, more)
    assert {key: getattr(found, key) for key in usual} == usual | said


@pytest.mark.parametrize(
    ("more", "units"),
    [
        (
            "cob: a, unit: object",
            {f"{host}/a": [f"{host}/a"] for host in ("app02", "app01", "app03")},
        ),
        ("cob: a, unit: rack", {"b": ["app02/a"], "a": ["app01/a", "app03/a"]}),
        (
            "unit: rack",
            {
                "b": ["app02/a", "app02/b"],
                "a": ["app01/a", "app01/b", "app03/a", "app03/b"],
            },
        ),
        ("unit: rank, cob: b", {"1": ["app02/b"], "2": ["app01/b"], "10": ["app03/b"]}),
    ],
    ids=str,
)
def test_another_unit(maker: Maker, more: str, units: dict[str, list[str]]) -> None:
    found = budget(maker, f"max: 1, {more}")
    assert [(unit.name, unit.members) for unit in found.units] == [
        (name, members(*cobs)) for name, cobs in units.items()
    ]


@pytest.mark.parametrize(
    ("more", "domains"),
    [
        ("per: rack", {"app02": ("b",), "app01": ("a",), "app03": ("a",)}),
        ("per: rank, unit: rack", {"b": ("1",), "a": ("10", "2")}),
        ("per: rack, unit: role", {"leader": ("b",), "follower": ("a",)}),
    ],
    ids=str,
)
def test_domains_of_units(maker: Maker, more: str, domains: dict[str, tuple[str, ...]]) -> None:
    found = budget(maker, f"max: 1, cob: a, {more}")
    assert {unit.name: unit.domains for unit in found.units} == domains


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ("order: \"{{{{ 0 if role == 'follower' else 1 }}}}\"", ["app01", "app03", "app02"]),
        ('order: "{{{{ role }}}}"', ["app01", "app03", "app02"]),
        ('order: "{{{{ -rank }}}}"', ["app03", "app01", "app02"]),
        ('order: "{{{{ rank / 3 }}}}"', ["app02", "app01", "app03"]),
        ("order: \"{{{{ role == 'leader' }}}}\"", ["app01", "app03", "app02"]),
        ('order: "{{{{ role if rank > 5 else rank }}}}"', ["app02", "app01", "app03"]),
        ('unit: rack, order: "{{{{ rank }}}}"', ["b", "a"]),
        ('unit: rack, order: "{{{{ -rank }}}}"', ["a", "b"]),
        ("order: x", ["app02", "app01", "app03"]),
    ],
    ids=str,
)
def test_order(maker: Maker, more: str, first: list[str]) -> None:
    found = budget(maker, f"max: 1, {more.format()}")
    units = sorted(found.units, key=lambda unit: unit.order)
    assert [unit.name for unit in units] == first


def test_numbers_go_before_texts_and_the_least_of_a_units_hosts_counts(maker: Maker) -> None:
    found = budget(maker, 'max: 1, unit: rack, order: "{{ role if rank > 5 else rank }}"')
    assert [(unit.name, unit.order) for unit in found.units] == [
        ("b", (0, 1.0, "")),
        ("a", (0, 2.0, "")),
    ]
    (one, *_) = budget(maker, "max: 1, order: x").units
    assert one.order == (1, 0.0, "x")


def test_a_limit_on_transitions_counts_members_in_flight(maker: Maker) -> None:
    graph = maker.site(
        """
inventory:
  app: {hosts: {"app[1:8]": {rack: a}, app9: {rack: "{{ other }}", other: b}}}
cobs:
  x: {type: simple, on: app}
  y-1: {type: simple, on: "app[0:3]"}
limits:
  all: {on: app, transition: "* -> *", max: 2}
  some: {on: app, cob: "y-*", transition: "up -> down", max: 25%, per: rack}
  few: {on: app, cob: x, transition: "* -> up", max: 30%, per: rack}
"""
    ).graph()
    assert not graph.budgets
    assert {
        limit.name: (
            limit.source,
            limit.dest,
            [(group.name, len(group.members), group.bound) for group in limit.groups],
        )
        for limit in graph.limits
    } == {
        "all": ("*", "*", [("", 13, 2)]),
        "some": ("up", "down", [("a", 4, 1)]),
        "few": ("*", "up", [("a", 8, 2), ("b", 1, 1)]),
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("max: 1, cob: a, group: runing", "no group of states `runing` (did you mean `running`?)"),
        ("max: 1, cob: b, group: running", "type of `b` has no group of states `running`"),
        ("max: 1, group: running", "type of `b` has no group of states `running` (it has none)"),
        ("max: 1, cob: a, group: [running]", "must be text, not a list"),
        ("max: 1, unit: [rack]", "`unit` of limit `rolling` must be text, not a list"),
        ("max: 1, unit: rak", "limit `rolling`: variable `rak` is undefined [on app02, app01,"),
        ("max: 1, unit: rak", "did you mean `rank`?"),
        ("max: 1, per: rak", "limit `rolling`: variable `rak` is undefined"),
        ("max: 1, unit: ''", "`unit` of limit `rolling` must be text, not empty"),
        ("max: 1, trust: -1", "`trust` of limit `rolling` must be a duration, not `-1`"),
        ("max: 1, pause: 0, first: 1", "`pause` of limit `rolling` must be a duration above 0"),
        ("max: 1, pause: 1s", "`pause` of limit `rolling` means nothing without `first`"),
        ("max: 1, order: 3", "`order` of limit `rolling` must be text, not a number"),
        ('max: 1, order: "{{ [rank] }}"', "`order` of limit `rolling` must give a number"),
        ('max: 1, order: "{{ 1e308 * 10 }}"', "`order` of limit `rolling` must give a number"),
        ('max: 1, order: "{{ ranks }}"', "did you mean `rank`?"),

        ("max: 0%", "must be a number from 1 or a percentage, not `0%`"),
        ("max: [1]", "must be a number from 1 or a percentage, not a list"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_found(maker: Maker, more: str, message: str) -> None:
    findings = maker.findings(SITE.format(more=more))
    assert any(message in each for each in findings), findings


DB = (("db01/d", "down"),)
"""What `during: {cob: d, on: db, state: down}` holds."""


@pytest.mark.parametrize("words", ["cob: d, on: db", "cob: d", "cob: 'd*', on: all"])
def test_what_is_held_meanwhile(maker: Maker, words: str) -> None:
    """Without `on` wherever it is."""
    found = budget(maker, f"max: 1, during: {{{words}, state: down}}")
    assert found.during == DB


def test_what_is_held_is_looked_at_with_a_part_of_the_members(maker: Maker) -> None:
    """With `--limit` as well: nothing goes out before it is there."""
    site = maker.site(SITE.format(more="max: 1, cob: a, during: {cob: d, on: db, state: down}"))
    part = site.graph("app01")
    assert "db01/d" in part.cobs
    assert part.budgets[0].during == DB


@pytest.mark.parametrize(
    ("during", "message"),
    [
        ("", "`during` of limit `rolling` is empty (it needs `cob` and `state`)"),
        ("[d]", "`during` of limit `rolling` must be a mapping, not a list"),
        ("{on: db, state: up}", "`during` of limit `rolling` lacks `cob`"),
        ("{cob: d, on: db}", "`during` of limit `rolling` lacks `state`"),
        ("{cob: d, state: up, host: db}", "unknown key `host` in `during` of limit `rolling`"),
        ("{cob: d, state: pu}", "the type of `d` has no state `pu` (it has `down` or `up`)"),
        ("{cob: a, state: running, on: db}", "the type of `a` has no state `running`"),
        ("{cob: dd, state: up}", "no COB is called `dd` (did you mean `d`?)"),
        ("{cob: d, on: app, state: up}", "`during` of limit `rolling` names nothing"),
        ("{cob: d, on: dbs, state: up}", "`dbs`"),
        ("{cob: d, on: db, state: [up]}", "`state` of `during` of limit `rolling` must be text"),
        ("{cob: b, state: up}", "`during` of limit `rolling` names app01/b, which the limit count"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_with_what_is_held_is_found(maker: Maker, during: str, message: str) -> None:
    findings = maker.findings(SITE.format(more=f"max: 1, during: {during}"))
    assert any(message in each for each in findings), findings


def test_two_limits_hold_nothing_in_two_states(maker: Maker) -> None:
    more = "max: 1, cob: a, during: {cob: d, state: down}"
    other = "other: {on: app, max: 1, cob: b, during: {cob: d, state: up}}"
    site = SITE.format(more=more).replace("limits: {", f"limits: {{{other}, ")
    (found,) = maker.findings(site)
    assert "limit `rolling` holds db01/d in `down`, and limit `other` in `up`" in found
    assert len(maker.site(site.replace("state: up", "state: down")).graph().budgets) == 2


@pytest.mark.parametrize("key", ["group", "unit", "first", "pause", "trust", "order", "during"])
def test_few_keys_have_a_meaning_beside_transition(maker: Maker, key: str) -> None:
    held = "{cob: d, state: up}"
    value = {"first": "1", "pause": "1s", "trust": "1s", "during": held}.get(key, "running")
    more = f'max: 1, cob: a, transition: "up -> down", {key}: {value}'
    (found,) = maker.findings(SITE.format(more=more))
    assert f"limit `rolling` has `transition` and `{key}` (leave one of them out)" in found


def test_a_variable_that_fails_is_found_where_it_stands(maker: Maker) -> None:
    site = SITE.format(more="max: 1, unit: bad, per: bad").replace(
        "spare: ", "bad: '{{ 1 / 0 }}', x: "
    )
    (found,) = maker.findings(site)
    assert "site.yml:9:17: " in found
    assert "division by zero" in found


@pytest.mark.parametrize(
    ("on", "cob", "why"),
    [
        ("app:!app", "a", "the groups of its `on` are empty, or exclude each other"),
        ("db", "a", "`a` is not on these hosts"),
        ("app", "z*", "no COB has such a name"),
    ],
)
@pytest.mark.parametrize("more", ["", ', transition: "* -> *"'])
def test_one_that_matches_nothing_is_noted_and_left_out(
    maker: Maker, on: str, cob: str, why: str, more: str
) -> None:
    site = maker.site(
        SITE.format(more=f"cob: '{cob}', max: 1{more}").replace(
            "{on: app, cob", f"{{on: '{on}', cob"
        )
    )
    graph = site.graph()
    assert not graph.limits
    assert not graph.budgets
    (note,) = site.notes()
    assert (note.message, note.hint) == ("limit `rolling` matches nothing", why)


# --- a part of the site

PART = """
inventory: {app: {hosts: {"app[1:4]": }}, db: {hosts: {db01: , db02: }}}
cobs:
  app: {type: simple, on: app, after: [db@db01]}
  conf: {type: simple, on: app, stops: [app]}
  probe: {type: simple, on: app, after: [app]}
  probe2: {type: simple, on: app, after: ["{{ 'probe' }}"]}
  near: {type: simple, on: app, after: ["app@app"]}
  far: {type: simple, on: app, after: ["far2@{{ 'db' }}"]}
  far2: {type: simple, on: db}
  alone: {type: simple, on: app}
  db: {type: simple, on: db}
limits: {rolling: {on: app, cob: app, max: 50%}, dbs: {on: db, cob: db, max: 1}}
"""
TIED = {"app", "conf", "probe", "probe2", "near"}


def test_a_part_has_all_that_its_budgets_count(maker: Maker) -> None:
    """All members, and what is tied to them on their hosts; and nothing of other budgets."""
    site = maker.site(PART)
    graph = site.graph("app1")
    (found,) = graph.budgets
    assert found == site.graph().budgets[0]
    names: dict[str, set[str]] = {}
    for cob in graph.cobs.values():
        names.setdefault(cob.host, set()).add(cob.name)
    assert names == {
        "app1": {*TIED, "far", "alone"},
        **dict.fromkeys(("app2", "app3", "app4"), TIED),
        "db01": {"db", "far2"},
        "db02": {"far2"},
    }


def test_a_part_without_members_of_a_budget_has_what_its_needs_reach(maker: Maker) -> None:
    graph = maker.site(PART.replace("  near", "  extra: {type: simple, on: db}\n  near")).graph(
        "db02"
    )
    assert [budget.name for budget in graph.budgets] == ["dbs"]
    assert [cob for cob in graph.cobs if "extra" in cob] == ["db02/extra"]
    assert {CobId("db01/db"), CobId("db02/db")} <= graph.cobs.keys()


def test_a_part_without_budgets_looks_at_no_other_host(maker: Maker) -> None:
    site = maker.site(
        PART.partition("limits:")[0].replace(
            'near: {type: simple, on: app, after: ["app@app"]}', "near: {type: simple, on: app}"
        )
    )
    assert {cob.host for cob in site.graph("app1").cobs.values()} == {"app1", "db01", "db02"}


def test_bounds_of_transitions_are_those_of_the_whole_site(maker: Maker) -> None:
    site = maker.site(
        "inventory: {app: {hosts: {'app[1:8]': }}}\ncobs: {x: {type: simple, on: app}}\n"
        'limits: {l: {on: app, transition: "* -> *", max: 50%}}'
    )
    (limit,) = site.graph("app1,app2").limits
    assert limit.groups[0].bound == 4
    assert limit.groups[0].members == {"app1/x", "app2/x"}
    site = maker.site(PART.replace("max: 50%", 'transition: "* -> *", max: 50%'))
    assert not site.graph("db02").limits
