"""Names are folded so that nothing is lost, and answers grouped so that each host is in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb_plugins.applications._broadcast import Answer
from cobweb_plugins.applications._groups import folded, groups_of

STEMS = st.sampled_from(["", "n", "web-", "rack1.n", "a_b", "n0x"])
ENDS = st.sampled_from(["", ".example.org", "-ib", ".10.0.1", "x.n7"])
NUMBERED = st.builds(
    lambda stem, width, number, end: f"{stem}{number:0{width}}{end}",
    STEMS,
    st.integers(1, 4),
    st.integers(0, 120),
    ENDS,
)
NAMES = st.one_of(NUMBERED, st.text("ab01_.-", min_size=1, max_size=6))


def expanded(text: str) -> list[str]:
    """Return the names that a folded text means, by the page's words alone."""
    return [name for part in re.split(r",(?![^\[]*\])", text) for name in _expanded(part)]


def _expanded(part: str) -> Iterator[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if not match:
        yield part
        return
    before, ranges, after = match.groups()
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{before}{str(number).zfill(len(first))}{after}"


@given(st.lists(NAMES, min_size=1, max_size=40))
def test_folded_names_are_those_names_each_once(names: list[str]) -> None:
    assert sorted(expanded(folded(names))) == sorted(set(names))


@given(st.integers(0, 2000), st.integers(1, 300), st.integers(0, 5), ENDS)
def test_a_row_of_numbers_is_one_range(first: int, count: int, width: int, end: str) -> None:
    numbers = [str(it).zfill(width) for it in range(first, first + count + 1)]
    assert folded(f"n{it}{end}" for it in numbers) == f"n[{numbers[0]}-{numbers[-1]}]{end}"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["db", "n2", "n1"], "db,n[1-2]"),
        ([f"n{it:02}" for it in (*range(1, 47), 49)], "n[01-46,49]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10"], "n[09-10]"),
        (["n1", "n01", "n2"], "n[1,01,2]"),
        (["n1.a", "n2.a", "n1.b"], "n[1-2].a,n1.b"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["10.0.0.1", "11.0.0.1"], "[10-11].0.0.1"),
        (["n1-ib", "n2-ib", "n2"], "n[1-2]-ib,n2"),
        (["n\u0661", "n\u0662"], "n\u0661,n\u0662"),
    ],
)
def test_names_are_folded_as_people_write_them(names: list[str], text: str) -> None:
    assert folded(names) == text


ANSWERS = st.builds(
    Answer,
    host=NAMES,
    code=st.sampled_from([None, 0, 1]),
    output=st.sampled_from([b"", b"a\n", b"\xff"]),
    errors=st.sampled_from([b"", b"a\n"]),
    lost=st.sampled_from([0, 7]),
    reason=st.sampled_from(["", "silent"]),
)


def content(answer: Answer) -> tuple[object, ...]:
    """Return an answer without its host."""
    return (answer.code, answer.output, answer.errors, answer.lost, answer.reason)


@given(st.lists(ANSWERS, max_size=30, unique_by=lambda it: it.host))
def test_groups_are_a_partition_by_equal_answers(answers: list[Answer]) -> None:
    by_host = {it.host: it for it in answers}
    groups = groups_of(answers)
    assert sorted(host for it in groups for host in it.hosts) == sorted(by_host)
    for group in groups:
        assert {content(by_host[it]) for it in group.hosts} == {content(group.answer)}
    contents = [content(it.answer) for it in groups]
    assert len(set(contents)) == len(contents)


@given(st.lists(ANSWERS, max_size=30, unique_by=lambda it: it.host))
def test_answers_come_before_what_is_missing_and_large_groups_before_small(
    answers: list[Answer],
) -> None:
    groups = groups_of(answers)
    ranks = [(it.answer.code is None, -len(it.hosts)) for it in groups]
    assert all(before <= after for before, after in pairwise(ranks))
    places = {it.host: place for place, it in enumerate(answers)}
    for group in groups:
        assert list(group.hosts) == sorted(group.hosts, key=places.__getitem__)
