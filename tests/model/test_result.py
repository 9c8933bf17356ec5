"""Results and the tokens that stand for them in specs."""

from __future__ import annotations

import copy
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import (
    connection_variables,
    fill_in,
    has_late_values,
    late_result,
    merged_results,
    results_problem,
)

IP, PORT, GONE = (late_result(*pair) for pair in (("w-1", "ip"), ("w-1", "port"), ("w-2", "ip")))
RESULTS = {"w-1": {"ip": "10.0.0.1", "port": 80, "all": [1, {"a": "b"}], "on": True}}

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([IP, f"<{IP}>", GONE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_token_names_host_and_key() -> None:
    assert IP == "%{cobweb:result:w-1:ip}"
    assert late_result("fe80::1", "ip") == "%{cobweb:result:fe80::1:ip}"


@pytest.mark.parametrize(("host", "key"), [("", "a"), ("h", ""), ("h", "a b"), ("h}", "a")])
def test_what_no_token_can_name_is_refused(host: str, key: str) -> None:
    with pytest.raises(ValueError, match="no result can have"):
        late_result(host, key)


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        (IP, "10.0.0.1"),
        (PORT, 80),
        (late_result("w-1", "all"), [1, {"a": "b"}]),
        (f"http://{IP}:{PORT}/", "http://10.0.0.1:80/"),
        (f"{late_result('w-1', 'on')} {late_result('w-1', 'all')}", 'true [1, {"a": "b"}]'),
        ({"a": [IP, 5, None], IP: "b"}, {"a": ["10.0.0.1", 5, None], IP: "b"}),
        (MappingProxyType({"a": (IP,)}), {"a": ["10.0.0.1"]}),
        ("%{cobweb:other}", "%{cobweb:other}"),
    ],
    ids=["text", "number", "list", "within", "within-as-json", "deep", "any-mapping", "no-token"],
)
def test_tokens_become_values(spec: Any, filled: Any) -> None:
    assert fill_in(spec, RESULTS) == (filled, ())
    assert has_late_values(spec) == (filled != spec)


def test_what_is_missing_stays_and_is_told() -> None:
    spec = {"a": f"{IP} {GONE}", "b": late_result("w-1", "id"), "c": [IP]}
    filled, missing = fill_in(spec, RESULTS)
    assert filled == {**spec, "c": ["10.0.0.1"]}
    assert missing == (("w-1", "id"), ("w-2", "ip"))


@pytest.mark.parametrize(
    ("known", "filled", "lacks"),
    [
        ({"a": ["x", "y"], "b": {"c": 5}}, {"a": ["x", "10.0.0.1"], "b": {"c": 5}}, False),
        ({"a": ["x", "y", "z"], "b": {"c": 5}}, {"a": [GONE, "10.0.0.1"], "b": {"c": 5}}, True),
        ({"a": "x", "b": 5}, {"a": [GONE, "10.0.0.1"], "b": {"c": GONE}}, True),
        (None, {"a": [GONE, "10.0.0.1"], "b": {"c": GONE}}, True),
    ],
    ids=["same-form", "longer-list", "other-form", "nothing"],
)
def test_what_is_known_stands_in_for_what_is_missing(known: Any, filled: Any, lacks: bool) -> None:  # noqa: FBT001
    spec = {"a": [GONE, IP], "b": {"c": GONE}}
    assert fill_in(spec, RESULTS, known=known) == (filled, (("w-2", "ip"),) * lacks)


@given(spec=plain)
def test_a_filled_spec_is_as_it_was_but_for_its_tokens(spec: Any) -> None:
    before = copy.deepcopy(spec)
    filled, missing = fill_in(spec, RESULTS)
    assert spec == before
    assert has_late_values(filled) == bool(missing)
    if not has_late_values(spec):
        assert filled == spec
    assert fill_in(filled, RESULTS) == (filled, missing)


def test_results_are_merged_by_key() -> None:
    assert merged_results({"a": 1, "b": 2}, {"b": None, "c": [3], "d": None}) == {"a": 1, "c": [3]}


def test_connection_variables_are_those_of_ansible() -> None:
    results = {"ansible_host": "10.0.0.1", "ansible_port": 22, "ip": "10.0.0.1"}
    assert connection_variables(results) == {"ansible_host": "10.0.0.1", "ansible_port": 22}


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ({}, ""),
        (OrderedDict({"a.b-c_1": [1, 2.5, None, {"x": "y"}]}), ""),
        ([("a", 1)], "results are a mapping"),
        ({"": 1}, "the key of a result is"),
        ({1: 1}, "the key of a result is"),
        ({"a": {"__ansible_vault": "x"}}, "the result a is vaulted"),
        ({"b": 1, "a": [{"c": {"__ansible_vault": "x"}}]}, "the result a is vaulted"),
        ({"a": {1, 2}}, "results are plain JSON data"),
        ({"a": float("inf")}, "results are plain JSON data"),
        ({"a": "x" * 65_536}, "results of 65545 characters"),
    ],
    ids=["none", "plain", "list", "no-key", "number", "vault", "deep", "set", "infinite", "long"],
)
def test_only_plain_data_of_some_length_and_no_secret_is_kept(results: Any, problem: str) -> None:
    assert results_problem(results).startswith(problem)
    assert bool(results_problem(results)) == bool(problem)
