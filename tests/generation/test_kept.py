"""What a generation keeps of hosts and files, and where paths are."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobweb._text import is_below
from cobweb.errors import Place
from cobweb.generation import EvaluatedSite, KeptFiles, kept_files, lent_variables
from cobweb.generation._kept_files import HostVariables
from cobweb.model import (
    Action,
    Cob,
    CobId,
    CobType,
    Confirm,
    Graph,
    Host,
    Nothing,
    PythonAction,
    Role,
    Tasks,
)
from tests.support.graphs import SIMPLE

ROOTS = {"site": "/s", "cobweb": "/c"}
VARIABLES = {
    "ansible_host": "{{ address }}",
    "ansible_password": {"__ansible_vault": "61"},
    "address": "10.0.0.1",
    "pool": [{"size": "{{ cores * 2 }}"}, "{% if big %}x{% endif %}", ("{{ tuple }}",)],
    "cores": 4,
    "big": True,
    "tuple": "{{ pool }}",
    "rack": "r1",
    "text": "no pool, no rack",
}


def named(value: object) -> str:
    """Return the same name for a parameter in every process."""
    return str(sorted(value)) if isinstance(value, set | frozenset) else str(value)


def kept_of(
    action: Action, files: dict[str, bytes], place: str = "site.yml", spec: Any = None
) -> dict[str, Any]:
    """Return what a generation keeps of one host whose one object does `action`."""
    kind = replace(SIMPLE, check=action, place=Place(file=place))
    cob = CobId("h/a")
    graph = Graph(cobs={cob: Cob(id=cob, type=kind, spec=spec or {})})
    hosts = {"h": Host(name="h", variables=VARIABLES)}
    site = EvaluatedSite(graph, hosts, roots=ROOTS, files=kept_files(files))
    data: dict[str, Any] = json.loads(site.text())
    assert data["files"] == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    return data


def variables_of(data: dict[str, Any]) -> set[str]:
    return set(data["hosts"]["h"]["variables"])


CONNECTION = {"ansible_host", "ansible_password", "address"}


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b"- ping:", set()),
        (b"- debug: {msg: '{{ rack }}'}", {"rack"}),
        (b"- debug:\n  when: rack == 'r1' and text", {"rack", "text"}),
        (b"- debug: {msg: '{{ pool }}'}", {"pool", "cores", "big", "tuple"}),
        (b"- debug: {msg: '{{ tuple }}'}", {"pool", "cores", "big", "tuple"}),
        (b"\xff\x00rack\xff", {"rack"}),
        (b"- include_role: {name: web}", set(VARIABLES)),
        (b"- import_role: {name: web}", set(VARIABLES)),
    ],
)
def test_variables_that_tasks_name_are_kept_with_what_they_need(
    text: bytes, more: set[str]
) -> None:
    data = kept_of(Tasks(path="/s/t/up.yml"), {"site:t/up.yml": text})
    assert variables_of(data) == CONNECTION | more


def test_words_of_all_files_beside_the_tasks_count() -> None:
    files = {"site:t/up.yml": b"- ping:", "site:t/web.conf.j2": b"{{ rack }}"}
    assert variables_of(kept_of(Tasks(path="/s/t/up.yml"), files)) == CONNECTION | {"rack"}


@pytest.mark.parametrize(
    ("action", "files", "expected"),
    [
        (Tasks(path="/c/file/write.yml"), {}, CONNECTION),
        (Role(name="/s/roles/web"), {"site:roles/web/tasks/main.yml": b""}, CONNECTION),
        (Role(name="/s/roles/web"), {"site:roles/web2/tasks/main.yml": b""}, set(VARIABLES)),
        (Role(name="galaxy.web"), {}, set(VARIABLES)),
        (Tasks(path="/s/t/large.yml"), {}, set(VARIABLES)),
        (Tasks(path="/opt/plugin/up.yml"), {}, set(VARIABLES)),
        (PythonAction(type_name="t", method="check"), {}, set(VARIABLES)),
        (Nothing(), {}, CONNECTION),
    ],
    ids=named,
)
def test_where_nobody_can_look_into_the_work_every_variable_is_kept(
    action: Action, files: dict[str, bytes], expected: set[str]
) -> None:
    assert variables_of(kept_of(action, files)) == expected


def test_what_variables_of_a_role_name_is_kept() -> None:
    action = Role(name="/s/roles/web", vars={"port": "{{ rack }}", "more": [{"a": "{{ cores }}"}]})
    kept = variables_of(kept_of(action, {"site:roles/web/tasks/main.yml": b""}))
    assert kept == CONNECTION | {"rack", "cores"}


def test_a_variable_that_is_content_is_kept_where_no_file_names_it() -> None:
    files = {"site:roles/web/tasks/main.yml": b""}
    kept = kept_of(Role(name="/s/roles/web"), files, spec={"inputs": {"rack": "r1", "gone": 1}})
    assert variables_of(kept) == CONNECTION | {"rack"}
    own = kept_of(Role(name="/s/roles/web"), files, spec={"inputs": ["rack"]})
    assert variables_of(own) == CONNECTION


def test_hosts_that_share_a_text_keep_each_what_they_have_of_it() -> None:
    chosen = HostVariables(frozenset(["pool"]))
    shared = {"pool": "{{ size }} {{ rack }}"}
    hosts = [Host(name=name, variables={**shared, name: 1}) for name in ("size", "rack", "x")]
    assert [set(chosen.of(host)) for host in hosts] == [
        {"pool", "size"},
        {"pool", "rack"},
        {"pool"},
    ]


@pytest.mark.parametrize(
    ("now", "asked", "lent"),
    [
        ({}, frozenset(), {"a", "b"}),
        ({}, frozenset(["a"]), {"b"}),
        ({"b": 2}, frozenset(), {"a"}),
        ({"c": "{{ a }}"}, frozenset(), {"b"}),
        ({"c": "a"}, frozenset(), {"a", "b"}),
        ({}, None, set()),
    ],
    ids=named,
)
def test_lost_variables_are_lent_that_nothing_now_can_ask_for(
    now: dict[str, Any], asked: frozenset[str] | None, lent: set[str]
) -> None:
    old = Host(name="h", variables={"a": 1, "b": 1, "ansible_host": "x"})
    found = lent_variables(old, Host(name="h", variables=now), asked)
    assert found == dict.fromkeys(lent, 1)


def test_secrets_in_variables_are_not_kept() -> None:
    data = kept_of(Tasks(path="/s/t/up.yml"), {"site:t/up.yml": b""})
    assert list(data["hosts"]["h"]["variables"]["ansible_password"]) == ["__cobweb_secret"]


@pytest.mark.parametrize(
    ("path", "place", "written"),
    [
        ("/s/t/up.yml", "site.yml", "site:t/up.yml"),
        ("/common/t/up.yml", "../common/ntp.yml", "site:../common/t/up.yml"),
        ("/common/t/up.yml", "site.yml", "/common/t/up.yml"),
        ("/elsewhere/up.yml", "../common/ntp.yml", "/elsewhere/up.yml"),
    ],
)
def test_paths_beside_an_imported_file_are_written_from_the_site(
    path: str, place: str, written: str
) -> None:
    data = kept_of(Tasks(path=path), {}, place)
    assert data["types"]["simple"]["check"] == {"tasks": written}


def test_the_words_of_no_file_are_none() -> None:
    assert kept_files({}) == KeptFiles()


@given(st.dictionaries(st.text(), st.binary()))
def test_the_order_of_the_files_makes_no_difference(files: dict[str, bytes]) -> None:
    assert kept_files(files) == kept_files(dict(reversed(files.items())))


@pytest.mark.parametrize(("path", "folder"), [("/s/a", "/s"), ("/s/a", "/s/")])
def test_below_is_inside(path: str, folder: str) -> None:
    assert is_below(path, folder)


@pytest.mark.parametrize(("path", "folder"), [("/sa", "/s"), ("/s", "/s")])
def test_beside_is_not_below(path: str, folder: str) -> None:
    assert not is_below(path, folder)


def test_variables_that_a_dead_man_switch_names_are_kept() -> None:
    kind = CobType(
        name="t",
        states=("down", "up"),
        preferred="up",
        remove="down",
        check=Nothing(),
        transitions=(),
        prepare="echo {{ cores }}",
    )
    switch = Confirm(within_s=60, revert="rm {{ rack }}")
    cob = Cob(id=CobId("h/a"), type=kind, confirm=switch)
    host = Host(name="h", variables={"rack": 1, "cores": 2, "other": 3})
    site = EvaluatedSite(Graph(cobs={cob.id: cob}), {"h": host})
    data = json.loads(site.text())
    assert data["hosts"]["h"]["variables"] == {"rack": 1, "cores": 2}
