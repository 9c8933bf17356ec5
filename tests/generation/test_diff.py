"""What differs between two generations: everything, both ways, and never a secret."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import StoreError
from cobweb.generation import (
    ChangeKind,
    Difference,
    EvaluatedSite,
    NeedDifference,
    SiteDiff,
    changed_trees,
    read_site,
    redact,
    site_diff,
    spec_diff,
)
from cobweb.model import (
    Budget,
    CobId,
    Confirm,
    Graph,
    Host,
    Limit,
    LimitGroup,
    Tasks,
    Unit,
    host_of,
)
from tests.support.graphs import SIMPLE, graph_of

NO_NEWLINE = "\\ no newline at the end"
A, B = CobId("h1/a"), CobId("h2/b")
ADDED, REMOVED, CHANGED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED


def content(graph: Graph, **variables: Any) -> dict[str, Any]:
    """Return the content of a generation; all hosts have the same variables."""
    known = {f"ansible_{name}": value for name, value in variables.items()}
    hosts = {host: Host(name=host, variables=known) for host in graph.hosts()}
    found: dict[str, Any] = json.loads(EvaluatedSite(graph, hosts).text())
    return found


def with_spec(cob: str, **spec: Any) -> dict[str, Any]:
    graph = graph_of("h1/a h2/b")
    changed = replace(graph.cobs[CobId(cob)], spec=spec)
    return content(replace(graph, cobs={**graph.cobs, changed.id: changed}))


def vaulted(text: str) -> dict[str, str]:
    return {"__ansible_vault": text}


# --- cases as stories


def test_objects_and_needs_come_and_go() -> None:
    old = content(graph_of("h1/a h2/b", "h2/b down>up h1/a up"))
    new = content(graph_of("h1/a h3/c", "h3/c up h1/a up"))
    found = site_diff(old, new)
    assert found.cobs == (
        Difference(name="h2/b", kind=REMOVED, old="simple"),
        Difference(name="h3/c", kind=ADDED, new="simple"),
    )
    assert found.hosts == (
        Difference(name="h2", kind=REMOVED),
        Difference(name="h3", kind=ADDED),
    )
    gone = {"cob": "h2/b", "from": "down", "to": "up", "on": "h1/a", "state": "up"}
    come = {"cob": "h3/c", "in": "up", "on": "h1/a", "state": "up"}
    assert found.needs == (
        NeedDifference(kind=REMOVED, need=gone),
        NeedDifference(kind=ADDED, need=come),
    )


def test_a_changed_spec_tells_its_lines() -> None:
    found = site_diff(with_spec("h1/a", port=1), with_spec("h1/a", port=2, mode="0644"))
    lines = ('+mode: "0644"', "-port: 1", "+port: 2")
    assert found == SiteDiff(
        cobs=(Difference(name="h1/a", kind=CHANGED, lines=lines, old="simple", new="simple"),)
    )


def test_a_changed_type_is_told() -> None:
    other = replace(SIMPLE, name="other")
    found = site_diff(content(graph_of({"h1/a": SIMPLE})), content(graph_of({"h1/a": other})))
    assert found.cobs == (Difference(name="h1/a", kind=CHANGED, old="simple", new="other"),)
    assert [(it.name, it.kind) for it in found.types] == [("other", ADDED), ("simple", REMOVED)]


def test_a_dead_man_switch_is_part_of_its_object() -> None:
    graph = graph_of("h1/a h2/b")
    watched = {A: replace(graph.cobs[A], confirm=Confirm(within_s=60.0)), B: graph.cobs[B]}
    new = content(replace(graph, cobs=watched))
    (found,) = site_diff(content(graph), new).cobs
    assert (found.name, found.kind) == (A, CHANGED)
    assert found.lines == ('+(confirm): {"within_s": 60.0}',)
    only_b = content(graph_of("h2/b"))
    assert site_diff(only_b, new).cobs == (Difference(name=A, kind=ADDED, new="simple"),)
    assert site_diff(new, only_b).cobs == (Difference(name=A, kind=REMOVED, old="simple"),)


def test_where_an_object_goes_and_what_it_is_on_is_part_of_it() -> None:
    graph = graph_of("h1/a h2/b")
    machine = CobId("h1/n")
    marked = {
        A: replace(graph.cobs[A], want="down", machine=machine, protect=True, trust_s=0.0),
        B: graph.cobs[B],
    }
    old, new = content(graph), content(replace(graph, cobs=marked))
    (found,) = site_diff(old, new).cobs
    assert (found.name, found.kind) == (A, CHANGED)
    marks = ('+(machine): "h1/n"', "+(protect): true", "+(trust): 0.0", '+(want): "down"')
    assert found.lines == marks
    assert "protected" not in old
    assert "wants" not in old
    assert "trusts" not in old
    assert "machines" not in old


def test_a_host_that_is_reached_in_another_way_is_told() -> None:
    graph = graph_of("h1/a")
    found = site_diff(content(graph, host="10.0.0.1"), content(graph, host="10.0.0.2", port=22))
    lines = ('-ansible_host: "10.0.0.1"', '+ansible_host: "10.0.0.2"', "+ansible_port: 22")
    assert found == SiteDiff(hosts=(Difference(name="h1", kind=CHANGED, lines=lines),))


def test_changed_groups_of_states_are_told_one_by_one() -> None:
    old = replace(SIMPLE, groups={"off": ("down",), "here": ("up",)})
    new = replace(SIMPLE, groups={"off": ("down", "outdated"), "here": ("up",)})
    before, after = (content(graph_of({"h1/a": kind})) for kind in (old, new))
    (difference,) = site_diff(before, after).types
    assert [line for line in difference.lines if line[0] in "+-"] == [
        "-group off: down",
        "+group off: down, outdated",
    ]


def test_a_changed_matrix_is_told_step_by_step() -> None:
    first, *rest = SIMPLE.transitions
    step = replace(first, action=Tasks(path="/x.yml"), timeout_s=60.0, attempts=3)
    other = replace(
        SIMPLE, transitions=(step, *rest[:-1]), check=Tasks(path="/check.yml"), revert="undo"
    )
    old, new = content(graph_of({"h1/a": SIMPLE})), content(graph_of({"h1/a": other}))
    (found,) = site_diff(old, new).types
    assert found == Difference(
        name="simple",
        kind=CHANGED,
        lines=(
            "-transitions: outdated -> down, outdated -> up, down -> up, up -> down",
            "-outdated -> down: attempts 1",
            "-up -> down: attempts 1",
            "+check: tasks /check.yml",
            "+revert: undo",
            "+transitions: outdated -> down, outdated -> up, down -> up",
            "+outdated -> down: tasks /x.yml, attempts 3, timeout_s 60.0",
        ),
    )


def test_what_a_type_shares_is_told_as_a_spec_is_and_no_secret() -> None:
    old = replace(SIMPLE, shared={"lab": {"hosts": ["h1"], "key": vaulted("a")}})
    new = replace(SIMPLE, shared={"lab": {"hosts": ["h1", "h2"], "key": vaulted("b")}})
    before, after, none = (content(graph_of({"h1/a": kind})) for kind in (old, new, SIMPLE))
    (found,) = site_diff(before, after).types
    assert found.lines == (
        '-shared: {"lab": {"hosts": ["h1"], "key": "(secret)"}}',
        '+shared: {"lab": {"hosts": ["h1", "h2"], "key": "(secret)"}}',
        "~shared: (secret changed)",
    )
    (found,) = site_diff(none, before).types
    assert found.lines == ('+shared: {"lab": {"hosts": ["h1"], "key": "(secret)"}}',)


def limited(bound: int, *members: CobId, **said: Any) -> dict[str, Any]:
    units = tuple(Unit(name=host_of(cob), members=frozenset([cob]), **said) for cob in members)
    budget = Budget(name="rolling", units=units, count=bound)
    return content(replace(graph_of("h1/a h2/b"), budgets=(budget,)))


def in_flight(bound: int, *members: CobId) -> dict[str, Any]:
    group = LimitGroup(name="r1", members=frozenset(members), bound=bound)
    limit = Limit(name="rolling", groups=(group,))
    return content(replace(graph_of("h1/a h2/b"), limits=(limit,)))


def test_a_changed_limit_is_told_with_its_members() -> None:
    (found,) = site_diff(limited(1, A), limited(2, A, B, domains=("r1",))).limits
    lines = ("-count: 1", "+count: 2", "+h1 in r1", "+h2: h2/b", "+h2 in r1")
    assert found == Difference(name="rolling", kind=CHANGED, lines=lines)
    (found,) = site_diff(
        limited(1, A, order=(0, 3.0, "")), limited(1, A, order=(1, 0.0, "x"))
    ).limits
    assert found.lines == ("-h1 order 3.0", "+h1 order x")
    (found,) = site_diff(in_flight(1, A), in_flight(2, A, B)).limits
    assert found.lines == ("-r1: at most 1", "+r1: at most 2", "+r1: h2/b")
    (found,) = site_diff(content(graph_of("h1/a h2/b")), limited(1, A)).limits
    assert found == Difference(name="rolling", kind=ADDED)
    (found,) = site_diff(in_flight(1, A), limited(1, A)).limits
    assert found.kind == CHANGED


def test_changed_files_are_told_by_name() -> None:
    plain = content(graph_of("h1/a"))
    old = plain | {"files": {"site:a.yml": "1", "site:b.yml": "1"}}
    new = plain | {"files": {"site:a.yml": "2", "site:c.yml": "1"}}
    assert site_diff(old, new).files == (
        Difference(name="site:a.yml", kind=CHANGED),
        Difference(name="site:b.yml", kind=REMOVED),
        Difference(name="site:c.yml", kind=ADDED),
    )


LONG = "a" * 80


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("a\nb\n", "a\nc\n", ("~k: +1 -1", "   @@ -1,2 +1,2 @@", "   a", "-  b", "+  c")),
        (
            "a\nb\n",
            "a\nb",
            ("~k: +1 -0", "   @@ -1,2 +1,3 @@", "   a", "   b", f"+  {NO_NEWLINE}"),
        ),
        ("a\n\n", "a\n", ("~k: +0 -1", "   @@ -1,2 +1 @@", "   a", "-  ")),
        ("a\r\n", "a\n", ("~k: +1 -1", "   @@ -1 +1 @@", "-  a\r", "+  a")),
        ("a\n" * 6000, "b\n" * 6000, ("~k: 6000 lines -> 6000 lines",)),
        ("a", "a\n", ('-k: "a"', "+k: |", "+  a")),
        (
            "--- a\n+++ b\n",
            "@@ 1\n",
            ("~k: +1 -2", "   @@ -1,2 +1 @@", "-  --- a", "-  +++ b", "+  @@ 1"),
        ),
        (1, 1.0, ("-k: 1", "+k: 1.0")),
        (1, True, ("-k: 1", "+k: true")),
        ({"ü": None}, {"ü": 0}, ('-k: {"ü": null}', '+k: {"ü": 0}')),
        ([LONG, "b"], ["c", LONG], ('+k[]: "c"', '-k[]: "b"')),
        ({"a": LONG, "b": [LONG, 1]}, {"a": LONG, "b": [LONG]}, ("-k.b[]: 1",)),
        ({"a": LONG, "b": "x\ny\n"}, {"a": LONG, "b": "x\nz\n"}, ("-  y", "+  z")),
        (["a"], {"a": 1}, ('-k: ["a"]', '+k: {"a": 1}')),
    ],
)
def test_a_value_is_told_line_by_line(old: Any, new: Any, lines: tuple[str, ...]) -> None:
    assert spec_diff({"k": old}, {"k": new}) == lines


def test_each_variable_that_is_content_is_told_by_its_name() -> None:
    old = {"inputs": {"a": 1, "b": {"__cobweb_secret": "x"}, "c": "same"}, "k": 1}
    new = {"inputs": {"a": "1", "b": {"__cobweb_secret": "y"}, "c": "same"}, "k": 1}
    lines = ("-inputs.a: 1", '+inputs.a: "1"', "~inputs.b: (secret changed)")
    assert spec_diff(old, new) == lines
    assert spec_diff({"k": 1}, {"k": 1, "inputs": {"a": 1}}) == ("+inputs.a: 1",)
    assert spec_diff({"inputs": [1]}, {"inputs": [2]}) == ("-inputs: [1]", "+inputs: [2]")


def a_tree(digit: str, files: int = 1) -> dict[str, Any]:
    return {"digest": digit * 64, "files": files, "bytes": 9}


def test_of_a_tree_it_is_told_how_large_it_is() -> None:
    old, new = with_spec("h1/a", tree=a_tree("1")), with_spec("h1/a", tree=a_tree("2", 3))
    (found,) = site_diff(old, new).cobs
    assert found.lines == ("~tree: 1 files, 9 bytes -> 3 files, 9 bytes",)
    assert found.trees == ("1" * 64, "2" * 64)
    assert changed_trees({"tree": a_tree("1")}, {"tree": a_tree("1")}) is None
    assert changed_trees({"tree": a_tree("1")}, {}) is None
    (gone,) = site_diff(old, with_spec("h1/a", tree=1)).cobs
    assert gone.trees is None
    assert gone.lines[-1] == "+tree: 1"


def test_lists_of_lists_that_look_alike_item_by_item_are_told_as_a_whole() -> None:
    assert len(spec_diff({"k": [[LONG], [LONG]]}, {"k": [[LONG, LONG]]})) == 2


def test_a_key_that_comes_or_goes_is_told_with_all_its_lines() -> None:
    lines = ("k: |", "  a", "  b")
    assert spec_diff({}, {"k": "a\nb\n"}) == tuple(f"+{line}" for line in lines)
    assert spec_diff({"k": "a\nb\n"}, {}) == tuple(f"-{line}" for line in lines)


def test_a_key_that_looks_like_the_head_of_a_diff_is_told() -> None:
    assert spec_diff({"-- a": 1}, {"++ a": 2}) == ("+++ a: 2", "--- a: 1")


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (vaulted("1"), vaulted("2"), ("~k: (secret changed)",)),
        (vaulted("1"), "known", ('-k: "(secret)"', '+k: "known"')),
        (vaulted("1"), "(secret)", ("~k: (secret changed)",)),
        ([vaulted("1"), vaulted("2")], [vaulted("2"), vaulted("1")], ("~k: (secret changed)",)),
        (
            {"user": "a", "key": vaulted("1")},
            {"user": "b", "key": vaulted("2")},
            (
                '-k: {"key": "(secret)", "user": "a"}',
                '+k: {"key": "(secret)", "user": "b"}',
                "~k: (secret changed)",
            ),
        ),
        (
            {"user": "a", "key": vaulted("1")},
            {"user": "b", "key": vaulted("1")},
            ('-k: {"key": "(secret)", "user": "a"}', '+k: {"key": "(secret)", "user": "b"}'),
        ),
        (
            [vaulted("1")],
            [vaulted("1"), vaulted("2")],
            ('-k: ["(secret)"]', '+k: ["(secret)", "(secret)"]'),
        ),
    ],
)
def test_secrets_are_told_as_changed_only(old: Any, new: Any, lines: tuple[str, ...]) -> None:
    assert spec_diff(redact({"k": old}), redact({"k": new})) == lines


def test_generations_that_were_read_back_are_compared() -> None:
    old, new = (read_site(json.dumps(with_spec("h1/a", port=port))) for port in (1, 2))
    assert old.diff(new).cobs[0].lines == ("-port: 1", "+port: 2")
    assert not old.diff(old)


@pytest.mark.parametrize("part", ["cobs", "needs", "hosts", "types", "limits"])
def test_a_damaged_content_is_told(part: str) -> None:
    good = content(graph_of("h1/a"))
    bad = read_site(json.dumps({**good, part: [1]}))
    with pytest.raises(StoreError, match="damaged"):
        read_site(json.dumps(good)).diff(bad)


def test_another_order_of_keys_is_no_difference() -> None:
    assert spec_diff({"k": {"a": 1, "b": 2}}, {"k": {"b": 2, "a": 1}}) == ()
    old = with_spec("h1/a", k={"a": 1, "b": 2})
    turned = {key: dict(reversed(it.items())) for key, it in old["cobs"].items()}
    assert not site_diff(old, {**old, "cobs": turned})


# --- properties, over contents of few names and values, made from a seed

NAMES = "abc"
VALUES = [None, True, False, 0, 1, 1.0, "", "x", "x\n", "x\ny", "x\ny\n", "y\nx\n", "\n\n"]
VALUES += [redact(vaulted("1")), redact(vaulted("2"))]


def some(random: Random, most: int = 3) -> list[str]:
    """Choose some of the names."""
    return sorted(random.sample(NAMES, random.randint(0, most)))


def a_value(random: Random, depth: int = 0) -> Any:
    if depth < 2 and random.random() < 0.3:
        inner = [a_value(random, depth + 1) for _ in range(random.randint(0, 3))]
        return inner if random.random() < 0.5 else dict(zip(NAMES, inner, strict=False))
    return random.choice(VALUES)


def a_spec(random: Random) -> dict[str, Any]:
    return {name: a_value(random) for name in some(random)}


def a_need(random: Random) -> dict[str, str]:
    keys = random.choice([("cob", "in", "on", "state"), ("cob", "from", "to", "on", "state")])
    return {key: random.choice(NAMES) for key in keys}


def a_type(random: Random) -> dict[str, Any]:
    steps = random.sample([(x, y) for x in NAMES for y in NAMES], random.randint(0, 3))
    return {
        "states": random.sample(NAMES, 3),
        "preferred": random.choice(NAMES),
        "remove": random.choice(NAMES),
        "check": random.choice([{}, {"python": "t.check"}]),
        "check_timeout_s": random.choice([None, 2.0]),
        "revert": random.choice(["", "undo"]),
        "transitions": [
            {
                "from": source,
                "to": dest,
                "action": random.choice([{}, {"tasks": "site:x.yml"}, {"role": "r"}]),
                "timeout_s": random.choice([None, 1.0]),
                "attempts": random.choice([1, 2]),
            }
            for source, dest in steps
        ],
    }


def a_limit(name: str, random: Random) -> dict[str, Any]:
    groups = random.sample(["", "r1", "r2"], random.randint(0, 2))
    return {
        "name": name,
        "from": random.choice(["*", "up"]),
        "groups": [
            {"name": group, "members": some(random), "bound": random.choice([1, 2])}
            for group in groups
        ],
    }


def a_content(seed: int) -> dict[str, Any]:
    random = Random(seed)
    return {
        "format": 4,
        "cobs": {
            name: {"type": random.choice("st"), "spec": a_spec(random)} for name in some(random)
        },
        "confirm": {name: {"within_s": random.choice([1.0, 2.0])} for name in some(random, 1)},
        "needs": [a_need(random) for _ in range(random.randint(0, 4))],
        "hosts": {
            name: {"groups": some(random), "variables": a_spec(random)} for name in some(random)
        },
        "types": {name: a_type(random) for name in some(random)},
        "limits": [a_limit(name, random) for name in some(random, 2)],
        "budgets": [],
        "files": {name: random.choice("12") for name in some(random)},
    }


seeds = st.integers(0, 2**32)
contents = seeds.map(a_content)
specs = seeds.map(lambda seed: a_spec(Random(seed)))


@given(contents)
def test_nothing_differs_from_itself(one: dict[str, Any]) -> None:
    assert site_diff(one, json.loads(json.dumps(one))) == SiteDiff()
    assert not SiteDiff()


@given(contents, contents)
def test_going_back_is_the_reverse(old: dict[str, Any], new: dict[str, Any]) -> None:
    there, back = site_diff(old, new), site_diff(new, old)
    assert bool(there) is bool(back)
    for part in ("hosts", "cobs", "types", "limits", "files"):
        forth = [(it.name, TURNED[it.kind], it.new, it.old) for it in getattr(there, part)]
        assert forth == [(it.name, it.kind, it.old, it.new) for it in getattr(back, part)]
        for one, other in zip(getattr(there, part), getattr(back, part), strict=True):
            assert net(one) == {line: -number for line, number in net(other).items()}
    turned = [(TURNED[it.kind], it.need) for it in there.needs]
    same = [(it.kind, it.need) for it in back.needs]
    assert sorted(turned, key=str) == sorted(same, key=str)


TURNED = {ADDED: REMOVED, REMOVED: ADDED, CHANGED: CHANGED}


def net(it: Difference) -> dict[str, int]:
    """Return how many more of each line the new one has; which of two alike it is, may differ."""
    found = Counter(line[1:] for line in it.lines if line[0] == "+")
    found.subtract(line[1:] for line in it.lines if line[0] == "-")
    return {line: number for line, number in found.items() if number}


@given(contents, contents)
def test_what_is_told_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """All names and needs of the new one are those of the old one, with what is told done."""
    found = site_diff(old, new)
    for part in ("hosts", "cobs", "types", "files"):
        assert applied(old[part].keys(), getattr(found, part)) == new[part].keys()
    before, after = ({limit["name"] for limit in side["limits"]} for side in (old, new))
    assert applied(before, found.limits) == after
    needs_before, needs_after = (
        {json.dumps(need, sort_keys=True) for need in side["needs"]} for side in (old, new)
    )
    gone = {json.dumps(it.need, sort_keys=True) for it in found.needs if it.kind is REMOVED}
    come = {json.dumps(it.need, sort_keys=True) for it in found.needs if it.kind is ADDED}
    assert gone <= needs_before
    assert not come & needs_before
    assert needs_before - gone | come == needs_after


def applied(names: Any, found: tuple[Difference, ...]) -> set[str]:
    gone = {it.name for it in found if it.kind is REMOVED}
    come = {it.name for it in found if it.kind is ADDED}
    assert gone <= set(names)
    assert not come & set(names)
    return set(names) - gone | come


@given(contents, contents)
def test_what_changed_says_in_what(old: dict[str, Any], new: dict[str, Any]) -> None:
    found = site_diff(old, new)
    changed = [
        it for it in (*found.hosts, *found.cobs, *found.types, *found.limits) if it.kind is CHANGED
    ]
    assert all(it.lines or it.old != it.new for it in changed)
    for cob in old["cobs"].keys() & new["cobs"].keys():
        texts = [json.dumps(side["cobs"][cob], sort_keys=True) for side in (old, new)]
        switches = [side["confirm"].get(cob) for side in (old, new)]
        differs = texts[0] != texts[1] or switches[0] != switches[1]
        assert differs is (cob in {it.name for it in found.cobs})


@given(specs, specs)
def test_no_secret_is_ever_shown(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert not any("__cobweb_secret" in line or "sha256" in line for line in spec_diff(old, new))
