"""What changed between two sites."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cobweb.generation import Changes, changes
from cobweb.model import CobId

A, B, C, D = (CobId(f"h/{name}") for name in "abcd")
sites = st.dictionaries(st.sampled_from([A, B, C, D]), st.sampled_from(["1", "2"]))


def test_each_object_is_added_removed_changed_or_the_same() -> None:
    found = changes({A: "1", B: "1", C: "1"}, {D: "1", C: "2", B: "1"})
    assert found == Changes(added=(D,), removed=(A,), changed=(C,), same=(B,))
    assert found


def test_nothing_changed_is_false() -> None:
    assert not changes({A: "1"}, {A: "1"})
    assert not changes({}, {})


@given(sites, sites)
def test_the_four_groups_cover_both_sites(old: dict[CobId, str], new: dict[CobId, str]) -> None:
    found = changes(old, new)
    groups = [found.added, found.removed, found.changed, found.same]
    together = [cob for group in groups for cob in group]
    assert sorted(together) == sorted(old.keys() | new.keys())
    assert all(list(group) == sorted(group) for group in groups)
    assert bool(found) == (old != new)


@given(sites, sites)
def test_going_back_is_the_reverse(old: dict[CobId, str], new: dict[CobId, str]) -> None:
    there, back = changes(old, new), changes(new, old)
    assert (there.added, there.removed) == (back.removed, back.added)
    assert (there.changed, there.same) == (back.changed, back.same)
