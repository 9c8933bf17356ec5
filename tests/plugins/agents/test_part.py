"""What an agent is given: its own objects as they are, of others no more than locks need."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cobweb.api import Site
from cobweb.model import CobId, host_of, late_result
from cobweb_plugins.agents._part import COORDINATOR, Part, Parts, kept_back, stand_of

SITE = """\
cobweb: 1
name: parts
inventory:
  all:
    hosts:
      db1: {ansible_connection: local, colour: secret-of-db1}
      web1: {ansible_connection: local, colour: secret-of-web1}
      web2: {ansible_connection: local, colour: secret-of-web2}
    children: {web: {hosts: {web1: , web2: }}}
types:
  keeper:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: tasks/check.yml}
    transitions:
      down -> up: {tasks: tasks/up.yml}
      up -> down: {tasks: tasks/down.yml}
cobs:
  conf: {type: keeper, on: db1, spec: {colour: "{{ colour }}"}}
  page: {type: file, on: web, spec: {path: "/srv/{{ colour }}", content: x}, requires: [conf@db1]}
limits:
  web: {on: web, cob: page, max: 1}
"""
TASKS = "- ansible.builtin.debug: {msg: tasks of db1}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks").mkdir()
    for name in ("check", "up", "down"):
        (tmp_path / "tasks" / f"{name}.yml").write_text(TASKS + f"# {name}\n", encoding="utf-8")
    (tmp_path / "site.yml").write_text(SITE, encoding="utf-8")
    return tmp_path


def parts_of(site: Site, owners: Mapping[str, str], **budgets: int) -> Parts:
    desired = site.desired()
    content = json.loads(desired.whole().text())
    hosts, groups = desired.hosts, desired.groups
    return Parts(content, owners, hosts, groups, name=desired.name, budgets=budgets)


OWN = {it: it for it in ("db1", "web1", "web2")}


def test_a_part_tells_nothing_of_others_but_what_locks_need(folder: Path) -> None:
    with Site(folder) as site:
        parts = {name: parts_of(site, OWN).of(name) for name in OWN}
    for name, part in parts.items():
        said = {other for other in OWN if f"secret-of-{other}".encode() in part.data}
        assert said == {name}
    assert len(parts["db1"].blobs) == 3
    assert not parts["web1"].blobs
    web1 = json.loads(parts["web1"].data)
    assert web1["owners"] == {"db1": "db1", "web1": "web1"}
    assert web1["content"]["cobs"]["db1/conf"] == {"type": "foreign keeper", "spec": {}}
    assert "web2/page" not in web1["content"]["cobs"]
    assert [it["name"] for it in web1["content"]["budgets"][0]["units"]] == ["web1"]
    assert web1["groups"] == {"all": ["web1"], "web": ["web1"]}


def test_each_object_is_in_the_part_of_its_owner_as_the_site_has_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An agent that reads its part back finds the digests that the coordinator knows."""
    with Site(folder) as site:
        desired = site.desired()
        contents, files = dict(desired.evaluated.contents), dict(desired.files())
        parts = {name: parts_of(site, OWN).of(name) for name in OWN}
    found: dict[Any, str] = {}
    for name, part in parts.items():
        own = tmp_path_factory.mktemp(name)
        (own / "site.yml").write_text(
            f"cobweb: 1\nname: x\ninventory: {{all: {{hosts: {{{name}: }}}}}}\n", encoding="utf-8"
        )
        with Site(own) as agent:
            text = json.dumps(
                json.loads(part.data)["content"], sort_keys=True, separators=(",", ":")
            )
            number = agent.keep(text, {it: files[it] for it in part.blobs})
            mine = agent.desired(generation=number)
            found |= {it: d for it, d in mine.evaluated.contents.items() if host_of(it) == name}
            assert {it for it in mine.graph.cobs if host_of(it) == name} == part.cobs.keys()
            assert number == agent.keep(text, {})
    assert found == contents


def test_parts_are_the_same_whoever_else_has_an_agent(folder: Path) -> None:
    with Site(folder) as site:
        alone = parts_of(site, {"web2": "web2"}).of("web2")
        among = parts_of(site, OWN).of("web2")
    first, second = json.loads(alone.data), json.loads(among.data)
    assert first["owners"] == {"db1": COORDINATOR, "web2": "web2"}
    assert {**first, "owners": 0} == {**second, "owners": 0}


def test_journals_that_believe_the_same_have_one_digest() -> None:
    """What one owner has moved since another one looked is checked again."""

    def stand(**changes: str) -> str:
        record = SimpleNamespace(**{"state": "up", "content": "c", **changes})
        return stand_of(["a/x", "a/y"], {CobId("a/x"): record})

    known = [stand(), stand(state="down"), stand(content="d"), stand_of(["a/x", "a/y"], {})]
    assert len(set(known)) == len(known)
    assert stand(since="0") == known[0]


def test_a_budget_of_one_run_counts_in_the_parts(folder: Path) -> None:
    def bound(part: Part) -> int:
        return int(json.loads(part.data)["content"]["budgets"][0]["count"])

    with Site(folder) as site:
        assert bound(parts_of(site, OWN).of("web1")) == 1
        assert bound(parts_of(site, OWN, web=2).of("web1")) == 2


@pytest.mark.parametrize(
    ("change", "host", "why"),
    [
        (lambda text: text, None, ""),
        (
            lambda text: text.replace(
                "      web1: {ansible_connection: local, colour: secret-of-web1}",
                "      web1:\n        colour: red\n        key: !vault |\n"
                "          $ANSIBLE_VAULT;1.1;AES256\n          6162",
            ),
            "web1",
            "a variable of it is vaulted",
        ),
        (
            lambda text: text.replace("tasks/up.yml", "tasks/up.yml, together: true"),
            "db1",
            "db1/conf goes together with others",
        ),
        (
            lambda text: text.replace("content: x", f"content: '{late_result('db1', 'ip')}'"),
            "db1",
            "waits for what its tasks hand back",
        ),
    ],
    ids=["plain", "vaulted", "together", "late"],
)
def test_hosts_that_stay_with_the_coordinator(
    folder: Path, change: Callable[[str], str], host: str | None, why: str
) -> None:
    (folder / "site.yml").write_text(change(SITE), encoding="utf-8")
    with Site(folder) as site:
        found = kept_back(site.desired())
    if host is None:
        assert not found
    else:
        assert why in found[host]
