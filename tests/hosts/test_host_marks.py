"""Two sites that manage one host notice each other, by a mark on the host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.plugin import data_dir
from tests.support.fabric import OPERATOR, Fabric, FabricHost
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.full("marks of two sites on real hosts; the gate has them on the local connection"),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

EXECUTORS = ("ansible", "ansible-plain")
SITE = """\
cobweb: 1
name: {name}
inventory: hosts.yml
cobs:
  note: {{type: file, on: all, spec: {{path: "/tmp/{name}.txt", content: "{{{{ word }}}}\\n"}}}}
"""
EMPTY = "cobweb: 1\nname: {name}\ninventory: hosts.yml\ncobs: {{}}\n"


class Sites:
    """Sites of their own, each with one file on each of its hosts, which they claim for themselves.

    `variables` are those of all hosts.
    """

    def __init__(self, fabric: Fabric, folder: Path) -> None:
        self._fabric = fabric
        self._folder = folder
        self.hosts = fabric.plain[:2]

    def site(self, name: str, *, copy: str = "", **variables: Any) -> Operator:
        """Return who works on a new site; `copy` names another part of its folder's name."""
        folder = self._folder / (name + copy)
        folder.mkdir()
        (folder / "site.yml").write_text(SITE.format(name=name), encoding="utf-8")
        operator = Operator(self._fabric, folder)
        operator.set_variables(word="one")
        self.say(operator, **variables)
        return operator

    def say(self, operator: Operator, **variables: Any) -> None:
        """Write the inventory of a site anew; only the first host is not shared."""
        first, _ = self.hosts
        more = {first.name: {"cobweb_shared": False, **variables}}
        operator.write_inventory({"app": self.hosts}, more)

    def marks(self, host: FabricHost, folder: str = "/var/lib/cobweb") -> list[dict[str, Any]]:
        """Return the marks on a host, by the names of their sites."""
        place = self._fabric.root(host) / folder.lstrip("/") / "marks"
        found = [json.loads(path.read_text()) for path in place.glob("*")]
        return sorted(found, key=lambda mark: str(mark["name"]))

    def text(self, host: FabricHost, name: str) -> str:
        """Return what the file of a site holds on a host; "" where there is none."""
        path = self._fabric.root(host) / "tmp" / f"{name}.txt"
        return path.read_text() if path.exists() else ""

    def clean(self) -> None:
        """Leave the hosts without a trace of any site."""
        for host in self.hosts:
            root = self._fabric.root(host)
            for folder in ("var/lib/cobweb", f"home/{OPERATOR}/.local/state/cobweb"):
                shutil.rmtree(root / folder, ignore_errors=True)
            for path in (root / "tmp").glob("*.txt"):
                path.unlink()


@pytest.fixture
def sites(fabric: Fabric, tmp_path: Path) -> Iterator[Sites]:
    """Return what makes sites on the first two hosts, which have no marks before and after."""
    made = Sites(fabric, tmp_path)
    made.clean()
    yield made
    made.clean()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_second_site_is_refused_on_the_host_and_goes_on_elsewhere(
    sites: Sites, executor: str
) -> None:
    first, second = sites.hosts
    ours, theirs = sites.site("ours"), sites.site("theirs")
    assert ours.apply("--executor", executor).code == 0
    refused = theirs.apply("--executor", executor)
    assert refused.code == 1
    assert refused.transitions() == [(f"{second.name}/note", "up")]
    (mark,) = sites.marks(first)
    said = refused.err
    assert f"{first.name} is managed by another site: ours changed it last" in said
    assert f"/var/lib/cobweb/marks/{mark['site']}.{first.name} there" in said
    for part in (mark["run"], mark["who"], mark["time"], "cobweb_shared: true", "--adopt"):
        assert part in said
    assert sites.text(first, "theirs") == ""
    assert sites.text(second, "theirs") == "one\n"
    ours.set_variables(word="two")
    assert ours.apply("--executor", executor).code == 0
    assert sites.text(first, "ours") == "two\n"


def test_the_mark_is_as_its_schema_says(sites: Sites) -> None:
    import jsonschema

    first, _ = sites.hosts
    assert sites.site("ours").apply().code == 0
    (mark,) = sites.marks(first)
    path = data_dir("schemas") / "host-mark.schema.json"
    jsonschema.validate(mark, json.loads(path.read_text(encoding="utf-8")))
    assert (mark["name"], mark["host"]) == ("ours", first.name)


def test_a_run_that_changes_nothing_writes_nothing_and_asks_for_no_mark(sites: Sites) -> None:
    """Not even where another site has meanwhile taken the host over."""
    first, _ = sites.hosts
    ours, theirs = sites.site("ours"), sites.site("theirs")
    assert ours.apply().code == 0
    assert theirs.apply("--adopt", first.name).code == 0
    before = sites.marks(first)
    again = ours.apply("--refresh", "all")
    assert (again.code, again.transitions()) == (0, [])
    assert sites.marks(first) == before


@pytest.mark.parametrize("executor", EXECUTORS)
def test_sites_that_share_a_host_on_purpose_go_on_both(sites: Sites, executor: str) -> None:
    """Each says so for itself: one that does not is refused, the other is not."""
    first, _ = sites.hosts
    ours, theirs = sites.site("ours"), sites.site("theirs", cobweb_shared=True)
    assert ours.apply("--executor", executor).code == 0
    assert theirs.apply("--executor", executor).code == 0
    assert [mark["name"] for mark in sites.marks(first)] == ["ours", "theirs"]
    ours.set_variables(word="two")
    refused = ours.apply("--executor", executor)
    assert refused.code == 1
    assert "managed by another site: theirs" in refused.err
    sites.say(ours, cobweb_shared=True)
    assert ours.apply("--executor", executor).code == 0
    assert sites.text(first, "ours") == "two\n"


def test_a_new_state_database_is_another_site_until_it_adopts_the_hosts(sites: Sites) -> None:
    first, second = sites.hosts
    ours = sites.site("ours")
    assert ours.apply().code == 0
    (before,) = sites.marks(first)
    shutil.move(ours.folder / ".cobweb", ours.folder / "kept")
    ours.set_variables(word="two")
    lost = ours.apply()
    assert lost.code == 1
    assert "state database that was lost" in lost.err
    assert sites.text(first, "ours") == "one\n"
    assert ours.apply("--adopt", "all").code == 0
    (after,) = sites.marks(first)
    assert after["site"] != before["site"]
    assert len(sites.marks(second)) == 2
    shutil.rmtree(ours.folder / ".cobweb")
    shutil.move(ours.folder / "kept", ours.folder / ".cobweb")
    ours.set_variables(word="three")
    assert ours.apply("--adopt", first.name).code == 0
    assert [mark["site"] for mark in sites.marks(first)] == [before["site"]]


def test_a_host_that_was_installed_anew_is_marked_anew(sites: Sites) -> None:
    first, _ = sites.hosts
    ours = sites.site("ours")
    assert ours.apply().code == 0
    sites.clean()
    again = ours.apply("--refresh", "all")
    assert again.code == 0
    assert len(again.transitions()) == 2
    assert [mark["name"] for mark in sites.marks(first)] == ["ours"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_mark_goes_with_the_last_object_of_the_host(sites: Sites, executor: str) -> None:
    """And then the host is free for another site; so where the inventory loses it."""
    first, second = sites.hosts
    ours = sites.site("ours")
    assert ours.apply("--executor", executor).code == 0
    (ours.folder / "site.yml").write_text(EMPTY.format(name="ours"), encoding="utf-8")
    assert ours.apply("--executor", executor).code == 0
    assert sites.marks(first) == []
    assert sites.marks(second) == []
    theirs = sites.site("theirs")
    assert theirs.apply("--executor", executor).code == 0
    theirs.write_inventory({"app": [second]})
    assert theirs.apply("--executor", executor).code == 0
    assert sites.marks(first) == []
    assert [mark["name"] for mark in sites.marks(second)] == ["theirs"]


def test_without_root_the_mark_is_in_the_users_own_folder(sites: Sites) -> None:
    """There sites see each other that come as the same user, and those that came as root."""
    first, _ = sites.hosts
    operator: Mapping[str, Any] = {"ansible_user": OPERATOR}
    ours, theirs = sites.site("ours", **operator), sites.site("theirs", **operator)
    assert ours.apply().code == 0
    assert sites.marks(first) == []
    home = f"/home/{OPERATOR}/.local/state/cobweb"
    assert [mark["name"] for mark in sites.marks(first, home)] == ["ours"]
    assert theirs.apply().code == 1
    root = sites.site("root")
    assert root.apply().code == 0
    ours.set_variables(word="two")
    assert "managed by another site: root" in ours.apply().err


def test_a_host_where_no_mark_can_be_written_is_managed_without_one(
    fabric: Fabric, sites: Sites
) -> None:
    first, _ = sites.hosts
    folder = fabric.root(first) / "var/lib/cobweb"
    folder.mkdir()
    (folder / "marks").write_text("no folder")
    run = sites.site("ours").apply()
    assert run.code == 0, run.err
