"""Budgets between two generations: the words of the goal, the members of both."""

from __future__ import annotations

from dataclasses import replace

from cobweb.generation import merged_budgets, merged_limits
from cobweb.model import Budget, CobId, Limit, LimitGroup, Unit, host_of

A, B, C = (CobId(f"{host}/web") for host in "abc")
OLD_A = CobId("a/old")
ALL = frozenset({A, B, C, OLD_A})


def budget(name: str, *members: CobId, count: int = 1, first: int = 0) -> Budget:
    """Return a budget with a unit for each host of its members."""
    hosts = dict.fromkeys(cob.partition("/")[0] for cob in members)
    units = [
        Unit(name=host, members=frozenset(cob for cob in members if cob.startswith(f"{host}/")))
        for host in hosts
    ]
    return Budget(name=name, units=tuple(units), count=count, first=first)


def units_of(budgets: tuple[Budget, ...]) -> dict[str, dict[str, set[CobId]]]:
    return {it.name: {unit.name: set(unit.members) for unit in it.units} for it in budgets}


def test_the_words_are_those_of_the_goal_and_the_members_of_both() -> None:
    goal, old = budget("roll", A, B, count=2, first=1), budget("roll", OLD_A, C, count=1)
    (merged,) = merged_budgets([goal], [old], ALL)
    assert (merged.count, merged.first) == (2, 1)
    assert units_of((merged,)) == {"roll": {"a": {A, OLD_A}, "b": {B}, "c": {C}}}


def test_a_member_that_is_in_another_unit_now_is_counted_there_alone() -> None:
    goal = Budget(name="roll", units=(Unit(name="rack1", members=frozenset({A, B})),))
    old = budget("roll", A, B, C)
    assert units_of(merged_budgets([goal], [old], ALL)) == {"roll": {"rack1": {A, B}, "c": {C}}}


def test_a_budget_that_the_goal_has_no_more_holds_without_a_canary() -> None:
    goal, old = budget("new", A), budget("gone", A, B, count=3, first=2)
    merged = merged_budgets([goal], [old, budget("gone", C)], ALL)
    assert units_of(merged) == {"new": {"a": {A}}, "gone": {"a": {A}, "b": {B}, "c": {C}}}
    assert (merged[1].count, merged[1].first) == (3, 0)


def test_units_and_budgets_without_anybody_there_are_left_out() -> None:
    goal, old = budget("roll", A, OLD_A), budget("gone", C)
    merged = merged_budgets([goal], [budget("roll", B), old], frozenset({A}))
    assert units_of(merged) == {"roll": {"a": {A}}}


def test_a_budget_that_nothing_has_changed_of_is_the_same() -> None:
    goal = budget("roll", A, B)
    (merged,) = merged_budgets([goal], [goal], ALL)
    assert merged == goal
    assert merged_budgets([], [], ALL) == ()


def test_what_a_unit_is_may_change_in_the_same_commit() -> None:
    """A member that goes belongs to the unit of its host, not to the rack of before."""
    old = Budget(name="l", units=(Unit(name="r", members=frozenset({A, B})),))
    gone = {CobId(f"{host_of(cob)}/gone") for cob in (A, B)}
    before = replace(old, units=(replace(old.units[0], members=frozenset({A, B}) | gone),))
    goal = Budget(
        name="l", units=tuple(Unit(name=host_of(cob), members=frozenset({cob})) for cob in (A, B))
    )
    (merged,) = merged_budgets([goal], [before], {A, B} | gone)
    assert {unit.name: len(unit.members) for unit in merged.units} == {
        host_of(A): 2,
        host_of(B): 2,
    }


def test_a_unit_that_is_an_object_stays_one() -> None:
    """A member of then is a unit of its own, by its name."""
    goal = Budget(name="l", units=(Unit(name=A, members=frozenset({A})),))
    before = Budget(name="l", units=(Unit(name="r", members=frozenset({A, B})),))
    (merged,) = merged_budgets([goal], [before], {A, B})
    assert [unit.name for unit in merged.units] == [A, B]


def test_a_host_that_no_unit_has_now_is_one_of_its_own() -> None:
    """It was in a rack with one that is a unit now."""
    goal = Budget(name="l", units=(Unit(name=host_of(A), members=frozenset({A, CobId("a/x")})),))
    before = Budget(name="l", units=(Unit(name="r", members=frozenset({A, B})),))
    (merged,) = merged_budgets([goal], [before], {A, B})
    assert [unit.name for unit in merged.units] == [host_of(A), host_of(B)]


def limit(name: str, bound: int = 1, /, **groups: set[CobId]) -> Limit:
    """Return a limit on transitions with a group of each name; `all` is for the one without."""
    found = {"" if it == "all" else it: members for it, members in groups.items()}
    return Limit(
        name=name,
        groups=tuple(
            LimitGroup(name=it, members=frozenset(members), bound=bound)
            for it, members in found.items()
        ),
    )


def test_a_bound_on_transitions_is_the_goal_s_and_of_the_members_of_both() -> None:
    goal, old = limit("disk", 2, all={A}), limit("disk", 1, all={A, B, OLD_A})
    assert merged_limits([goal], [old], ALL - {OLD_A}) == (limit("disk", 2, all={A, B}),)


def test_a_bound_on_transitions_of_each_domain_keeps_its_domains() -> None:
    goal, old = limit("disk", 2, r1={A}, r2={B}), limit("disk", 1, r1={OLD_A, B}, r3={C})
    merged = merged_limits([goal], [old], ALL)
    r3 = LimitGroup(name="r3", members=frozenset({C}), bound=1)
    assert merged[0].groups == (*limit("", 2, r1={A, OLD_A}, r2={B}).groups, r3)
    (merged_in_one,) = merged_limits([limit("disk", all={A})], [old], ALL)
    assert merged_in_one == limit("disk", all=set(ALL))


def test_a_bound_on_transitions_that_the_goal_has_no_more_holds_while_members_are_there() -> None:
    old = [limit("gone", r1={A}, r2={OLD_A}), limit("empty", all={C})]
    assert merged_limits([], old, frozenset({A})) == (limit("gone", r1={A}),)
