"""The evaluated site as data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cobweb.errors import Place
from cobweb.generation import EvaluatedSite, KeptFiles, canonical_json, content_of, digest
from cobweb.model import (
    Cob,
    CobId,
    CobType,
    Confirm,
    Graph,
    Host,
    Limit,
    LimitGroup,
    LockNeed,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Transition,
    TransitionNeed,
)
from tests.support.graphs import graphs
from tests.support.plain_site import evaluated_site

A, B = CobId("h1/a"), CobId("h2/b")
SECRET = {"__ansible_vault": "61626364"}


def a_site(folder: str, line: int = 1) -> tuple[Graph, dict[str, Host], dict[str, str]]:
    kind = CobType(
        name="simple",
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=Tasks(path=f"{folder}/tasks/check.yml"),
        check_timeout_s=5.0,
        revert="undo",
        prepare="keep",
        transitions=(
            Transition(source="down", dest="up", action=Role(name=f"{folder}/roles/nginx")),
            Transition(source="up", dest="down", action=Role(name="galaxy.nginx"), attempts=3),
            Transition(source="outdated", dest="up", action=Nothing(), timeout_s=1.5),
            Transition(
                source="outdated",
                dest="down",
                action=PythonAction(type_name="simple", method="clean"),
            ),
        ),
        place=Place(file=f"{folder}/site.yml", line=line),
    )
    cobs = {
        A: Cob(id=A, type=kind, spec={"port": 1, "key": SECRET}, place=kind.place),
        B: Cob(id=B, type=kind, confirm=Confirm(within_s=60.0, revert="x"), place=kind.place),
    }
    needs = (
        TransitionNeed(cob=B, source="down", dest="up", on=A, state="up", place=kind.place),
        LockNeed(cob=B, within="up", on=A, state="up", place=kind.place),
    )
    limit = Limit(
        name="rolling",
        groups=(LimitGroup(name="r1", members=frozenset([B, A]), bound=1),),
        source="up",
        dest="down",
        place=kind.place,
    )
    hosts = {
        "h2": Host(name="h2", groups=("db",), variables={"rack": "r1"}),
        "h1": Host(name="h1", variables={"ansible_host": "10.0.0.1", "ansible_password": SECRET}),
    }
    roots = {"site": folder, "tasks": f"{folder}/tasks/"}
    return Graph(cobs=cobs, needs=needs, limits=(limit,)), hosts, roots


def test_everything_that_matters_is_written_and_no_secret() -> None:
    graph, hosts, roots = a_site("/home/ann/site")
    files = KeptFiles(digests={"tasks:check.yml": "ab"})
    text = EvaluatedSite(graph, hosts, roots=roots, files=files).text()
    data = json.loads(text)
    secret = data["cobs"]["h1/a"]["spec"]["key"]
    assert list(secret) == ["__cobweb_secret"]
    assert data == {
        "format": 4,
        "budgets": [],
        "hosts": {
            "h1": {
                "groups": [],
                "variables": {"ansible_host": "10.0.0.1", "ansible_password": secret},
            },
            "h2": {"groups": ["db"], "variables": {"rack": "r1"}},
        },
        "types": {
            "simple": {
                "states": ["outdated", "down", "up"],
                "preferred": "up",
                "remove": "down",
                "check": {"tasks": "tasks:check.yml"},
                "check_timeout_s": 5.0,
                "folder": "",
                "revert": "undo",
                "prepare": "keep",
                "transitions": [
                    step("down", "up", {"role": "site:roles/nginx"}),
                    step("up", "down", {"role": "galaxy.nginx"}, attempts=3),
                    step("outdated", "up", {}, timeout_s=1.5),
                    step("outdated", "down", {"python": "simple.clean"}),
                ],
            }
        },
        "cobs": {
            "h1/a": {"type": "simple", "spec": {"port": 1, "key": secret}},
            "h2/b": {"type": "simple", "spec": {}},
        },
        "confirm": {"h2/b": {"within_s": 60.0, "revert": "x", "prepare": ""}},
        "files": {"tasks:check.yml": "ab"},
        "needs": [
            {"cob": "h2/b", "from": "down", "to": "up", "on": "h1/a", "state": "up"},
            {"cob": "h2/b", "in": "up", "on": "h1/a", "state": "up"},
        ],
        "limits": [
            {
                "name": "rolling",
                "from": "up",
                "to": "down",
                "groups": [{"name": "r1", "members": ["h1/a", "h2/b"], "bound": 1}],
            }
        ],
    }
    assert canonical_json(data) == text
    assert SECRET["__ansible_vault"] not in text


def step(
    source: str,
    dest: str,
    action: dict[str, str],
    *,
    timeout_s: float | None = None,
    attempts: int = 1,
) -> dict[str, object]:
    return {
        "from": source,
        "to": dest,
        "action": action,
        "timeout_s": timeout_s,
        "attempts": attempts,
    }


def test_same_files_elsewhere_give_the_same_digest() -> None:
    digests = set()
    for folder, line in [("/home/ann/site", 1), ("/builds/site", 7)]:
        graph, hosts, roots = a_site(folder, line)
        digests.add(EvaluatedSite(graph, hosts, roots=roots).digest)
    assert len(digests) == 1


def test_changed_spec_gives_another_digest() -> None:
    graph, hosts, _ = a_site("/site")
    changed = replace(graph.cobs[A], spec={"port": 2})
    other = replace(graph, cobs={**graph.cobs, A: changed})
    before, after = EvaluatedSite(graph, hosts), EvaluatedSite(other, hosts)
    assert before.digest != after.digest
    assert (before.contents[A] != after.contents[A], before.contents[B]) == (
        True,
        after.contents[B],
    )


def test_what_a_type_shares_is_written_once_without_secrets_and_is_no_content() -> None:
    graph, hosts, roots = a_site("/home/ann/site")
    shared = {"lab": {"hosts": ["h1"], "key": SECRET}}
    kind = replace(graph.cobs[A].type, shared=shared)
    other = replace(graph, cobs={cob: replace(it, type=kind) for cob, it in graph.cobs.items()})
    before, after = (EvaluatedSite(it, hosts, roots=roots) for it in (graph, other))
    assert after.contents == before.contents
    assert after.digest != before.digest
    written = json.loads(after.text())["types"]["simple"]["shared"]["lab"]
    assert written["hosts"] == ["h1"]
    assert list(written["key"]) == ["__cobweb_secret"]


def test_without_roots_paths_stay_as_they_are() -> None:
    graph, hosts, _ = a_site("/site")
    check = json.loads(EvaluatedSite(graph, hosts).text())["types"]["simple"]["check"]
    assert check == {"tasks": "/site/tasks/check.yml"}


def test_the_digest_of_a_known_site_never_changes() -> None:
    """Journals and saved plans hold it: a new value would make every one of them stale."""
    graph, hosts, roots = a_site("/site")
    known = "8fd56d30c9c76a21533e4f6620834e311d3d50832083fdf2a5204b7ac43b8e38"
    assert EvaluatedSite(graph, hosts, roots=roots).digest == known


@given(graphs(), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.floats())))
def test_the_pieces_are_the_canonical_json_of_the_whole(graph: Graph, spec: dict[str, Any]) -> None:
    """The text, its digest and those of the objects are what the plain data gives."""
    specs = {cob: {"at": cob, **spec} for cob in graph.cobs}
    cobs = {cob: replace(it, spec=specs[cob], trust_s=None) for cob, it in graph.cobs.items()}
    graph = replace(graph, cobs=dict(reversed(cobs.items())))
    hosts = {host: Host(name=host, groups=("all", "\u00e9")) for host in graph.hosts()}
    site, data = EvaluatedSite(graph, hosts), evaluated_site(graph, hosts)
    assert site.text() == canonical_json(data)
    assert site.digest == digest(data)
    assert site.contents == {cob: content_of(graph.cobs[cob]) for cob in graph.cobs}
    assert list(site.contents) == sorted(graph.cobs)
