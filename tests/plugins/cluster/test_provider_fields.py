"""What the catalog says of a provider is shared by its nodes: by none of them held, known to all.

Machines are made by a provider in memory; the tasks of services do nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cobweb._cache import Cache
from cobweb.api import Site
from cobweb.generation import EvaluatedSite
from cobweb.model import Action, CobId, Job, JobKind, Outcome, Report, Role, Tasks
from cobweb.operations import desired_of
from cobweb.plugin import Machine, NodeRequest, Plugins, load_plugins
from cobweb.site import load_site
from cobweb.testing import FakeExecutor
from cobweb_plugins.cluster._lock import lock_text, read_lock
from tests.cli.conftest import Run
from tests.plugins.cluster.small import pinned, sections, write_site
from tests.support.cloud import Cloud

REAL = load_plugins()
FIRST, SECOND = "first", "second"
HOSTS = {"h1": {"address": "192.0.2.1"}, "h2": {"address": "192.0.2.2"}}
YES = ("--yes", "--executor", "quiet")


class Pool(Cloud):
    """Remembers what it was asked with, and refuses who has not the key."""

    fields: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"hosts": {"type": "object"}, "key": {"type": ["string", "object"]}},
        "additionalProperties": False,
    }

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[NodeRequest] = []

    def find(self, request: NodeRequest) -> Machine | None:
        self.asked.append(request)
        return super().find(request)


class Quiet(FakeExecutor):
    """Carries out task files by doing nothing; what is written in Python is really done."""

    name: ClassVar[str] = "quiet"
    actions: ClassVar[frozenset[type[Action]]] = frozenset((Role, Tasks))

    def __init__(self) -> None:
        super().__init__(answer=self._bootstrapped)

    def _bootstrapped(self, job: Job) -> Report | None:
        if job.type_name != "node" or job.kind is JobKind.CHECK:
            return None
        results = {"bootstrapped": job.cob_vars["results"]["provider_id"]}
        return Report(number=job.number, outcome=Outcome.OK, results=results)


class Lab:
    """A site with machines of a pool, and `cobweb` on it."""

    def __init__(self, folder: Path, run: Run, use: Callable[[Plugins], None]) -> None:
        self.folder, self.pool = folder, Pool()
        self._run = run
        use(
            replace(
                REAL,
                executors={**REAL.executors, "quiet": Quiet},
                providers={**REAL.providers, "cloud": self.pool},
            )
        )

    def write(self, clusters: Mapping[str, Any], **fields: Any) -> None:
        data = sections(clusters)
        said = {"type": "cloud", "fields": {"hosts": HOSTS, "key": FIRST, **fields}}
        data["catalog"]["providers"] = {"lab": said}
        for template in data["catalog"]["templates"].values():
            template["defaults"]["services"] = ["base"]
        write_site(self.folder, data, lock=False)
        (self.folder / "site.lock").write_text(lock_of(self.folder, data))

    def write_nothing(self) -> None:
        """Write the site without its cluster, template and provider."""
        write_site(self.folder, {"catalog": {}, "clusters": {}})

    def ran(self, *words: str) -> Any:
        return self._run("-C", self.folder, *words)

    def cobweb(self, *words: str) -> Any:
        ran = self.ran(*words)
        assert ran.code == 0, ran.out + ran.err
        return ran

    def machines(self) -> dict[str, str]:
        return {node: it.id for node, it in self.pool.machines}

    def evaluated(self) -> EvaluatedSite:
        with Site(self.folder) as session:
            return desired_of(session.evaluated).evaluated

    def keys(self) -> set[str]:
        """Return the keys that machines were asked for with since the last call."""
        found = {it.fields["key"] for it in self.pool.asked}
        self.pool.asked.clear()
        return found


def lock_of(folder: Path, data: Mapping[str, Any]) -> str:
    """Return the layouts of a site's clusters; those that are there keep their ids."""
    file = folder / "site.lock"
    before = read_lock(file.read_text()) if file.exists() else {}
    return lock_text(
        {
            name: replace(it, id=before[name].id if name in before else it.id)
            for name, it in pinned(data).items()
        }
    )


@pytest.fixture
def lab(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Lab:
    def use(plugins: Plugins) -> None:
        monkeypatch.setattr("cobweb.plugin.load_plugins", lambda **_options: plugins)

    return Lab(tmp_path, run, use)


# What is by reference.


def test_another_pool_or_key_is_no_other_content_of_a_node(lab: Lab) -> None:
    lab.write({"c": {"nodes": 2}})
    lab.cobweb("apply", *YES)
    before = lab.evaluated()
    lab.write({"c": {"nodes": 2}}, hosts={**HOSTS, "h3": {"address": "192.0.2.3"}}, key=SECOND)
    after = lab.evaluated()
    assert after.contents == before.contents
    assert after.digest != before.digest
    lab.keys()
    assert "(0 transitions, 0 checks" in lab.cobweb("apply", *YES).err
    assert lab.keys() == set()


def test_a_new_node_is_made_by_what_the_catalog_says_now(lab: Lab) -> None:
    lab.write({"c": {"nodes": 1}})
    lab.cobweb("apply", *YES)
    assert lab.keys() == {FIRST}
    lab.write({"c": {"nodes": 2}}, key=SECOND)
    lab.cobweb("apply", *YES)
    assert lab.keys() == {SECOND}
    assert lab.machines() == {"c-1": "m1", "c-2": "m2"}
    lab.cobweb("drift", "--executor", "quiet")
    assert lab.keys() == {SECOND}


def test_what_a_plan_is_made_from_grows_with_nodes_and_pool_not_with_their_product(
    lab: Lab,
) -> None:
    sizes = []
    for nodes in (20, 200):
        hosts = {f"h{number}": {"address": f"host-{number}.example"} for number in range(nodes)}
        lab.write({"c": {"nodes": nodes}}, hosts=hosts)
        with Site(lab.folder) as session:
            desired = desired_of(session.evaluated)
        specs = [json.dumps(dict(it.spec)) for it in desired.graph.cobs.values()]
        variables = [json.dumps(dict(it.variables)) for it in desired.hosts.values()]
        sizes.append([sum(map(len, part)) for part in (specs, variables, desired.evaluated.text())])
    small, large = sizes
    assert all(after < 11 * before for before, after in zip(small, large, strict=True)), sizes


# Nodes that are there already.


@pytest.mark.parametrize("gone", [False, True], ids=["edited", "removed"])
def test_a_node_is_removed_by_the_provider_that_it_was_made_by(lab: Lab, *, gone: bool) -> None:
    lab.write({"c": {"nodes": 2}})
    lab.cobweb("apply", *YES)
    lab.keys()
    if gone:
        lab.write_nothing()
    else:
        lab.write({"c": {"nodes": 1}}, key=SECOND)
    lab.cobweb("apply", *YES, "--max-removals", "100%")
    removed = {it.fields["key"] for it in lab.pool.asked if it.node == "c-2"}
    assert removed == {FIRST}
    assert sorted(lab.machines()) == ([] if gone else ["c-1"])


def test_a_change_that_was_applied_before_counts_for_a_removal(lab: Lab) -> None:
    for key in (FIRST, SECOND):
        lab.write({"c": {"nodes": 1}}, key=key)
        lab.cobweb("apply", *YES)
    lab.keys()
    lab.write_nothing()
    lab.cobweb("apply", *YES, "--max-removals", "100%")
    assert (lab.keys(), lab.machines()) == ({SECOND}, {})


def test_a_generation_that_is_gone_back_to_has_its_own_provider(lab: Lab) -> None:
    lab.write({"c": {"nodes": 1}})
    lab.cobweb("apply", *YES)
    lab.write_nothing()
    lab.cobweb("apply", *YES, "--max-removals", "100%")
    assert lab.machines() == {}
    lab.keys()
    lab.cobweb("rollback", "1", *YES)
    assert lab.keys() == {FIRST}
    assert lab.machines() == {"c-1": "m2"}


# Secrets.


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every cipher text stand for itself."""
    from cobweb_plugins.providers import _secrets

    monkeypatch.setattr(_secrets, "_decrypt", lambda _name, cipher, _dir: f"clear {cipher}")


def vaulted(lab: Lab, cipher: str) -> None:
    """Write the provider's key as a vaulted value, in YAML that is not JSON."""
    file = lab.folder / "site.yml"
    file.write_text(file.read_text().replace(f'"{FIRST}"', f'!vault "{cipher}"'))


@pytest.mark.usefixtures("vault")
def test_a_vaulted_key_is_in_no_generation_and_found_again_for_a_removal(lab: Lab) -> None:
    lab.write({"c": {"nodes": 1}})
    vaulted(lab, "abc")
    assert '"abc"' not in lab.evaluated().text()
    lab.cobweb("apply", *YES)
    assert lab.keys() == {"clear abc"}
    lab.write({})
    vaulted(lab, "abc")
    lab.cobweb("apply", *YES, "--max-removals", "100%")
    assert (lab.keys(), lab.machines()) == ({"clear abc"}, {})


@pytest.mark.usefixtures("vault")
def test_where_the_key_is_another_one_by_now_that_is_taken(lab: Lab) -> None:
    lab.write({"c": {"nodes": 2}})
    vaulted(lab, "abc")
    lab.cobweb("apply", *YES)
    lab.keys()
    lab.write({"c": {"nodes": 1}})
    vaulted(lab, "def")
    lab.cobweb("apply", *YES)
    assert (lab.keys(), lab.machines()) == ({"clear def"}, {"c-1": "m1"})


@pytest.mark.usefixtures("vault")
def test_a_key_that_is_gone_is_told_by_who_needs_it(lab: Lab) -> None:
    lab.write({"c": {"nodes": 1}})
    vaulted(lab, "abc")
    lab.cobweb("apply", *YES)
    lab.write_nothing()
    ran = lab.ran("apply", *YES, "--max-removals", "100%")
    assert ran.code == 1
    assert "the vaulted value of the provider's field `key` is not in the site any more" in ran.err
    assert lab.machines() == {"c-1": "m1"}
    ran = lab.ran("rollback", "1", *YES)
    assert "type node: shared.providers.lab.key: its vaulted value is not in the site" in ran.err


# Large sites.


def test_a_site_that_is_not_evaluated_again_knows_its_providers(lab: Lab) -> None:
    lab.write({"c": {"nodes": 1}})
    known: dict[str, Any] = {
        "types": REAL.types,
        "sections": {name: it.schema for name, it in REAL.sections.items()},
        "expanders": tuple(REAL.expanders.values()),
        "cache": Cache(lab.folder / "cache"),
    }
    load_site(lab.folder, **known).graph()
    site = load_site(lab.folder, **known)
    assert site.is_kept
    shared = site.graph().cobs[CobId("c-1/node")].type.shared
    assert shared == {"providers": {"lab": {"hosts": HOSTS, "key": FIRST}}}
