"""Results and the tokens that stand for them in specs."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb.model import (
    PythonAction,
    Tasks,
    connection_problem,
    connection_variables,
    fill_in,
    has_late_values,
    late_result,
    merged_results,
    results_problem,
)
from tests.support.graphs import SIMPLE

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
    ("key", "value", "problem"),
    [
        ("ip", {"any": ["thing"]}, ""),
        ("ansible_host", "10.0.0.1", ""),
        ("ansible_host", "node-1.example.org", ""),
        ("ansible_host", "fe80::1%eth0", ""),
        ("ansible_host", None, ""),
        ("ansible_host", "-oProxyCommand=id", "no name or address"),
        ("ansible_host", "a b", "no name or address"),
        ("ansible_host", "{{ lookup('pipe', 'id') }}", "no name or address"),
        ("ansible_host", "a" * 300, "no name or address"),
        ("ansible_host", "a\n", "no name or address"),
        ("ansible_host", "fe80::1%;id", "no address"),
        ("ansible_host", "fe80::g", "no address"),
        ("ansible_host", ["h"], "no name or address"),
        ("ansible_port", 22, ""),
        ("ansible_port", "2222", ""),
        ("ansible_port", 0, "no number"),
        ("ansible_port", 65536, "no number"),
        ("ansible_port", True, "no number"),
        ("ansible_port", "22 -v", "no number"),
        ("ansible_port", 22.5, "no number"),
        ("ansible_user", "ann.b@example.org", ""),
        ("ansible_user", "-l", "no name of a user"),
        ("ansible_user", "a;id", "no name of a user"),
        ("ansible_user", 5, "no name of a user"),
        ("ansible_ssh_host", "h", "not for results"),
        ("ansible_ssh_common_args", "-v", "not for results"),
        ("ansible_connection", "local", "not for results"),
        ("ansible_become", True, "not for results"),
        ("ansible_python_interpreter", "/usr/bin/python3", "not for results"),
        ("ansible_anything", 1, "not for results"),
    ],
)
def test_a_host_says_little_of_its_connection(key: str, value: Any, problem: str) -> None:
    found = connection_problem({key: value})
    assert (found is None) == (not problem)
    assert found is None or (found[0] == key and problem in found[1])


def test_what_a_type_opens_is_checked_as_well() -> None:
    names = ("ansible_ssh_host", "ansible_timeout", "ansible_ssh_private_key_file")
    good = {"ansible_ssh_host": "h", "ansible_timeout": 5, "ansible_ssh_private_key_file": "/k"}
    assert connection_problem(good, names) is None
    for key, value in (("ansible_ssh_host", "-v"), ("ansible_timeout", "1\n2"), (names[2], ["k"])):
        assert connection_problem({**good, key: value}, names) is not None


@pytest.mark.parametrize(
    "name",
    [
        *("ansible_connection", "ansible_become", "ansible_become_exe", "ansible_become_method"),
        *("ansible_ssh_common_args", "ansible_ssh_executable", "ansible_python_interpreter"),
        *("ansible_paramiko_proxy_command", "ansible_winrm_kinit_cmd", "ansible_playbook_python"),
        "ansible_ssh_pkcs11_provider",
    ],
)
def test_what_can_name_a_program_is_opened_for_python_alone(name: str) -> None:
    """That is code of the controller already; a task says what a host has told it."""
    action = Tasks(path="/t.yml")
    kind = replace(SIMPLE, check=action, connection=(name, "ansible_timeout"))
    assert kind.opens(action) == {"ansible_timeout"}
    assert kind.opens(PythonAction(type_name="t", method="check")) == {name, "ansible_timeout"}


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
