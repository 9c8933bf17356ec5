"""Ranges in host names are expanded as Ansible expands them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cobweb.site.hosts._sources import MAX_HOSTS, expand

names = st.text("abz-", max_size=3)


@st.composite
def ranges(draw: st.DrawFn) -> str:
    """Draw a range, right or wrong."""
    ends = st.one_of(
        st.integers(0, 120).map(str), st.sampled_from(["01", "09", "12", "a", "c", "Z"])
    )
    text = f"{draw(ends)}:{draw(ends)}"
    return f"[{text}:{draw(st.integers(1, 4))}]" if draw(st.booleans()) else f"[{text}]"


@given(st.lists(st.tuples(names, ranges()), max_size=2), names)
def test_ranges_equal_those_of_ansible(parts: list[tuple[str, str]], tail: str) -> None:
    from ansible.errors import AnsibleError
    from ansible.plugins.inventory import detect_range, expand_hostname_range

    pattern = "".join(name + bounds for name, bounds in parts) + tail
    assume(pattern)
    try:
        expected = expand_hostname_range(pattern) if detect_range(pattern) else [pattern]
    except (AnsibleError, ValueError):
        expected = []
    if expected:
        assert expand(pattern) == expected
    else:
        with pytest.raises(ValueError, match=r".+"):
            expand(pattern)


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("app", ["app"]),
        ("app[1:3]", ["app1", "app2", "app3"]),
        ("app[08:10]", ["app08", "app09", "app10"]),
        ("n[1:9:4]x", ["n1x", "n5x", "n9x"]),
        ("db-[a:c]", ["db-a", "db-b", "db-c"]),
        ("r[1:2]-[a:b]", ["r1-a", "r1-b", "r2-a", "r2-b"]),
        ("n[:2]", ["n0", "n1", "n2"]),
    ],
)
def test_examples(pattern: str, hosts: list[str]) -> None:
    assert expand(pattern) == hosts


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("n[3:1]", "goes backwards"),
        ("n[c:a]", "goes backwards"),
        ("n[01:100]", "same length"),
        ("n[1:a]", "two numbers or two letters"),
        ("n[ab:cd]", "two numbers or two letters"),
        ("n[1]", "first:last"),
        ("n[1:2:3:4]", "first:last"),
        ("n[1:2:0]", "step"),
        ("n[1:2:x]", "step"),
        ("n[1:2", "bracket"),
        ("n1:2]", "bracket"),
        (f"n[0:{MAX_HOSTS}]", "more than"),
        ("n[1:999][1:999]", "more than"),
        ("n[1:" + "9" * 30 + "]", "more than"),
    ],
)
def test_wrong_ranges_say_why(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expand(pattern)
