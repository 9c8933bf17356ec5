"""`cobweb cluster`: each operation is an edit of the site that is applied, or leaves no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cobweb_plugins.cluster._lock import read_lock
from tests.cli.conftest import Run
from tests.plugins.cluster.small import CATALOG, TASKS

pytestmark = [pytest.mark.full("each command after an apply; the gate has a cluster's life")]

SITE = """\
cobweb: 1
name: it  # a comment that stays
imports: [catalog.yml, clusters.yml]
"""
CLUSTERS = """\
# Clusters of this site.
clusters:
  # The first one.
  first: {template: stack, nodes: 2}  # two are enough
tenants:
  t: {clusters: 1, nodes: 4}
  u: {}
"""
SIMULATED = ("--yes", "--executor", "simulate")


class Site:
    """A site in a folder, and `cobweb` on it."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self._run = run
        (folder / TASKS).parent.mkdir()
        (folder / TASKS).write_text("- debug: {}\n")
        (folder / "site.yml").write_text(SITE)
        (folder / "catalog.yml").write_text(json.dumps({"catalog": CATALOG}))
        (folder / "clusters.yml").write_text(CLUSTERS)

    def cobweb(self, *words: str, code: int = 0) -> Any:
        ran = self._run("-C", self.folder, *words)
        assert ran.code == code, ran.out + ran.err
        return ran

    def cluster(self, *words: str, code: int = 0) -> Any:
        return self.cobweb("cluster", *words, code=code)

    def done(self, *words: str, code: int = 0) -> Any:
        return self.cluster(*words, *SIMULATED, code=code)

    def files(self) -> dict[str, bytes]:
        names = ("site.yml", "catalog.yml", "clusters.yml", "site.lock")
        return {name: (self.folder / name).read_bytes() for name in names if self.has(name)}

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def said(self, name: str) -> Any:
        return yaml.safe_load((self.folder / "clusters.yml").read_text())["clusters"].get(name)

    def nodes(self, name: str) -> dict[int, str]:
        locked = read_lock((self.folder / "site.lock").read_text())[name]
        return {number: " ".join(node.services) for number, node in locked.nodes.items()}

    def states(self, name: str) -> dict[str, dict[str, str]]:
        data = json.loads(self.cluster("status", name, "-o", "json").out)
        return {it["node"]: {"node": it["machine"], **it["services"]} for it in data["nodes"]}


@pytest.fixture
def site(tmp_path: Path, run: Run) -> Site:
    made = Site(tmp_path, run)
    made.done("sync")
    return made


@pytest.mark.gate("the life of a cluster, simulated")
def test_a_cluster_lives_from_create_to_delete(site: Site) -> None:
    site.done("create", "c", "--template", "stack", "--nodes", "3")
    up = {"node": "bootstrapped", "base": "started", "db": "started"}
    assert site.states("c")["c-1"] == up
    assert site.nodes("c") == {1: "base db", 2: "base db", 3: "base web"}
    site.done("scale", "c", "6")
    assert len(site.states("c")) == 6
    site.done("scale", "c", "4")
    assert list(site.nodes("c")) == [1, 2, 3, 4]
    site.done("add-service", "c", "cache")
    assert "cache" in str(site.nodes("c").values())
    site.done("remove-service", "c", "cache")
    assert "cache" not in str(site.nodes("c").values())
    site.done("stop", "c")
    assert {state["base"] for state in site.states("c").values()} == {"initialized"}
    assert {state["node"] for state in site.states("c").values()} == {"bootstrapped"}
    site.done("start", "c")
    assert {state["base"] for state in site.states("c").values()} == {"started"}
    site.done("delete", "c")
    assert site.said("c") is None
    assert "c-1/node" not in site.cobweb("status").out
    assert site.states("first")["first-1"]["node"] == "bootstrapped"


@pytest.mark.gate("what pipelines rely on")
@pytest.mark.parametrize(
    "words",
    [("create", "c", "--template", "stack", "--nodes", "2"), ("delete", "first"), ("sync",)],
    ids=lambda words: words[0],
)
def test_without_a_terminal_an_operation_takes_a_yes(site: Site, words: tuple[str, ...]) -> None:
    before = site.files()
    ran = site.cluster(*words, code=64)
    assert "nobody can be asked without a terminal (add --yes)" in ran.err
    assert site.files() == before


def test_comments_stay_and_only_what_was_asked_for_changes(site: Site) -> None:
    before = (site.folder / "clusters.yml").read_text()
    site.done("scale", "first", "3")
    after = (site.folder / "clusters.yml").read_text()
    assert after.replace("nodes: 3", "nodes: 2") == before
    site.done("configure", "first", "--set", "port=8080", "--set", "deep.er=[1, x]")
    assert site.said("first")["config"] == {"port": 8080, "deep": {"er": [1, "x"]}}
    assert "# two are enough" in (site.folder / "clusters.yml").read_text()


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (
            ("configure", "c", "--set", "port=81"),
            ["outdated -> stale", "stale -> initialized", "initialized -> started"],
        ),
        (("restart", "c"), ["outdated -> stale", "stale -> initialized", "initialized -> started"]),
    ],
    ids=["configure", "restart"],
)
def test_what_runs_is_stopped_changed_and_started(
    site: Site, words: tuple[str, ...], steps: list[str]
) -> None:
    site.done("create", "c", "--template", "stack", "--nodes", "2")
    site.cluster(*words, "--no-apply")
    plan = json.loads(site.cobweb("plan", "-o", "json").out)
    found = [
        f"{step['from']} -> {step['to']}"
        for stage in plan["stages"]
        for step in stage
        if step["cob"] == "c-1/db"
    ]
    assert found == steps


def test_an_upgrade_is_another_version_until_it_is_that_of_the_catalog(site: Site) -> None:
    site.cluster("upgrade", "first", "db=2", "--no-apply")
    assert site.said("first")["versions"] == {"db": "2"}
    shown = json.loads(site.cobweb("show", "first-1", "-o", "json").out)
    versions = {cob["name"]: cob["spec"]["version"] for cob in _cobs(shown) if cob["name"] == "db"}
    assert versions == {"db": "2"}
    site.cluster("upgrade", "first", "--no-apply")
    assert "versions" not in site.said("first")


def _cobs(shown: Any) -> list[Any]:
    return [cob for host in shown["hosts"] for cob in host["cobs"]]


@pytest.mark.gate("a table of bad input")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("create", "first", "--template", "stack", "--nodes", "3"), 64, "a cluster first already"),
        (("create", "c", "--template", "stak", "--nodes", "2"), 3, "there is no template `stak`"),
        (("create", "C", "--template", "stack", "--nodes", "2"), 3, "C"),
        (("create", "c", "--template", "stack", "--nodes", "1"), 3, "db can't be with web"),
        (
            ("create", "c", "--template", "stack", "--nodes", "2", "--services", "web"),
            3,
            "`web` requires",
        ),
        (
            ("create", "c", "--template", "stack", "--nodes", "5", "--tenant", "t"),
            3,
            "the tenant `t` has 5 nodes, its limit is 4",
        ),
        (
            ("create", "c", "--template", "stack", "--nodes", "2", "--solver", "x"),
            64,
            "no solver x",
        ),
        (("scale", "frist", "3"), 64, "did you mean first?"),
        (("add-service", "first", "nothing"), 3, "there is no service `nothing`"),
        (("remove-service", "first", "db"), 3, "`web` requires `database`"),
        (("configure", "first", "--set", "port"), 64, "not of the form KEY=VALUE"),
        (("scale", "first", "3", "--tenant", "t"), 64, "not one of the tenant t"),
        (("extend", "first"), 64, "no lease"),
    ],
    ids=[
        "again",
        "no template",
        "no name",
        "impossible",
        "dependency",
        "quota",
        "solver",
        "no cluster",
        "no service",
        "needed",
        "no pair",
        "another tenant",
        "no lease",
    ],
)
def test_what_cannot_be_changes_nothing(
    site: Site, words: tuple[str, ...], code: int, message: str
) -> None:
    before = site.files()
    ran = site.done(*words, code=code)
    assert message in ran.out + ran.err
    assert site.files() == before


def test_a_tenant_acts_only_where_nothing_else_is_pending(site: Site) -> None:
    site.done("create", "c", "--template", "stack", "--nodes", "2", "--tenant", "t")
    assert site.said("c")["tenant"] == "t"
    site.cluster("scale", "first", "3", "--no-apply")
    before = site.files()
    ran = site.done("scale", "c", "3", "--tenant", "t", code=64)
    assert "has changes that are not applied" in ran.err
    assert site.files() == before
    site.cobweb("apply", *SIMULATED)
    site.done("scale", "c", "3", "--tenant", "t")
    listed = json.loads(site.cluster("list", "--tenant", "t", "-o", "json").out)
    assert [it["name"] for it in listed["clusters"]] == ["c"]


def test_a_lease_ends_the_cluster(site: Site) -> None:
    text = (site.folder / "catalog.yml").read_text()
    data = json.loads(text)
    data["catalog"]["templates"]["stack"]["lease"] = {"initial": "1h", "max": "3h", "step": "1h"}
    (site.folder / "catalog.yml").write_text(json.dumps(data))
    site.done("create", "c", "--template", "stack", "--nodes", "2")
    site.done("extend", "c")
    site.done("extend", "c", "--by", "1h")
    assert "longer than its template allows" in site.done("extend", "c", code=64).err
    site.cluster("scale", "first", "3", "--no-apply")
    assert "nothing to do" in site.done("expire").err
    site.cobweb("plan", "--detailed-exitcode", code=2)
    assert site.said("c")
    clusters = (site.folder / "clusters.yml").read_text()
    ended = clusters.replace(site.said("c")["lease"]["expires"], "2020-01-01T00:00:00+00:00")
    (site.folder / "clusters.yml").write_text(ended)
    site.done("expire")
    assert site.said("c") is None
    assert site.said("first")


@pytest.mark.gate("the command once")
def test_solve_prints_the_contract(site: Site) -> None:
    words = ("solve", "--template", "stack", "--nodes", "7", "-o", "json")
    data = json.loads(site.cluster(*words).out)
    assert set(data) == {"format", "layout", "solver", "seconds"}
    assert data["layout"] == [
        {
            "count": count,
            "hardwaretype": "small",
            "imagetype": "debian",
            "services": ["base", name],
        }
        for count, name in ((2, "db"), (5, "web"))
    ]
    by_paper = json.loads(site.cluster(*words, "--solver", "preference").out)
    assert (by_paper["layout"], by_paper["solver"]) == (data["layout"], "preference")
    declared = json.loads(site.cluster("solve", "first", "-o", "json").out)
    assert [it["count"] for it in declared["layout"]] == [1, 1]


def test_solve_says_what_is_in_conflict(site: Site) -> None:
    words = ("solve", "--template", "stack", "--nodes", "1")
    data = json.loads(site.cluster(*words, "-o", "json", code=4).out)
    assert data["layout"] is None
    assert data["conflict"]
    text = site.cluster(*words, code=4).out
    assert all(each in text for each in data["conflict"])


@pytest.mark.parametrize("planner", ["stages", "event"])
def test_plan_prints_the_contract(site: Site, planner: str) -> None:
    words = ("plan", "--template", "stack", "--nodes", "2", "--planner", planner, "-o", "json")
    data = json.loads(site.cluster(*words).out)
    first = [{"node": f"node-{number}", "action": "create", "service": None} for number in (1, 2)]
    assert data["stages"][0] == first
    assert {"node": "node-1", "action": "start", "service": "db"} in [
        task for stage in data["stages"] for task in stage
    ]
    assert set(data["makespan"]) == {"event", "stages"}
    stop = ("plan", "first", "--operation", "stop", "--planner", planner, "-o", "json")
    stages = json.loads(site.cluster(*stop).out)["stages"]
    assert [[task["service"] for task in stage] for stage in stages] == [["web"], ["db"]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("solve",), "name a cluster, or say --template and --nodes"),
        (("solve", "first", "--template", "stack"), "not in the site"),
        (("plan", "first", "--planner", "x"), "no planner x"),
        (("plan", "first", "--only", "web,x"), "the cluster has no service x"),
    ],
    ids=["nothing", "both", "planner", "service"],
)
def test_wrong_usage_of_looks(site: Site, words: tuple[str, ...], message: str) -> None:
    ran = site.cluster(*words, code=64)
    assert message in ran.err


@pytest.mark.parametrize("text", ['{"start": -1}', '{"start": NaN}', '{"start": "x"}', "[]"])
def test_durations_that_are_none_are_refused(site: Site, text: str) -> None:
    (site.folder / "d.json").write_text(text)
    ran = site.cluster("plan", "first", "--durations", str(site.folder / "d.json"), code=64)
    assert "duration" in ran.err


@pytest.mark.parametrize(
    "text",
    [
        CLUSTERS,
        "clusters:  # all\n  first:\n    template: stack\n    nodes: 2\n    # last\ntenants: {}\n",
        "clusters:\n\n  # one\n\n  first: {template: stack, nodes: 2}\n",
        "clusters: {first: {template: stack, nodes: 2}}\n",
    ],
    ids=["before", "beside", "lines", "flow"],
)
def test_the_last_cluster_goes_whatever_comments_are_there(site: Site, text: str) -> None:
    (site.folder / "clusters.yml").write_text(text)
    site.cluster("delete", "first", "--no-apply")
    assert yaml.safe_load((site.folder / "clusters.yml").read_text())["clusters"] == {}


def test_a_delete_by_force_that_is_not_applied_forgets_nothing(site: Site) -> None:
    before = site.states("first")
    text = (site.folder / "clusters.yml").read_text()
    lock = (site.folder / "site.lock").read_text()
    site.cluster("delete", "first", "--force", "--no-apply")
    (site.folder / "clusters.yml").write_text(text)
    (site.folder / "site.lock").write_text(lock)
    assert "absent" not in str(before)
    assert site.states("first") == before


def test_a_second_time_does_nothing(site: Site) -> None:
    before = site.files()
    ran = site.done("sync")
    assert site.files() == before
    assert "transitions" not in ran.err or "0 transitions" in ran.err


def test_a_link_of_all_nodes_of_a_service_is_one_for_each(site: Site) -> None:
    data = json.loads((site.folder / "catalog.yml").read_text())
    urls = ("http://%host.service.web%:80", "x://%host.service.db[0]%", "static")
    links = [{"label": str(place), "url": url} for place, url in enumerate(urls)]
    data["catalog"]["templates"]["stack"]["links"] = links
    (site.folder / "catalog.yml").write_text(json.dumps(data))
    site.cluster("create", "c", "--template", "stack", "--nodes", "4", "--no-apply")
    status = json.loads(site.cluster("status", "c", "-o", "json").out)
    assert [link["url"] for link in status["links"]] == [
        "http://c-3:80",
        "http://c-4:80",
        "x://c-1",
        "static",
    ]


def test_an_edit_leaves_what_it_is_not_about_as_it_is_written(site: Site) -> None:
    text = CLUSTERS.replace(
        "nodes: 2}  # two are enough",
        "nodes: 2, config: {pw: !vault '$ANSIBLE_VAULT;1.1;AES256', port: !force 5}}",
    )
    (site.folder / "clusters.yml").write_text(text)
    site.cluster("scale", "first", "3", "--no-apply")
    after = (site.folder / "clusters.yml").read_text()
    assert "!vault '$ANSIBLE_VAULT;1.1;AES256'" in after
    assert "port: !force 5" in after
    assert "nodes: 3" in after


def test_a_link_stays_a_link_and_a_file_its_owners(site: Site, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere.yml"
    (site.folder / "clusters.yml").rename(real)
    (site.folder / "clusters.yml").symlink_to(real)
    real.chmod(0o640)
    owner = (real.stat().st_uid, real.stat().st_gid)
    site.cluster("scale", "first", "3", "--no-apply")
    assert (site.folder / "clusters.yml").is_symlink()
    assert "nodes: 3" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    assert (real.stat().st_uid, real.stat().st_gid) == owner


def test_what_cannot_be_written_is_said_and_nothing_has_changed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = site.files()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("cobweb_plugins.cluster._edit._replace", refuse)
    assert "cannot write" in site.cluster("scale", "first", "3", "--no-apply", code=1).err
    assert site.files() == before


def test_a_section_without_a_value_gets_its_first_cluster(site: Site) -> None:
    (site.folder / "clusters.yml").write_text("clusters:\n")
    refused = site.cluster(
        "create", "c", "--template", "stack", "--nodes", "2", "--no-apply", code=1
    )
    assert "9 removals, of 9 known objects, are more than 3" in refused.err
    assert site.said("c") == {"template": "stack", "nodes": 2}


def test_a_cluster_may_go_whole_and_nothing_else(site: Site) -> None:
    site.done("create", "c", "--template", "stack", "--nodes", "3")
    text = (site.folder / "clusters.yml").read_text()
    (site.folder / "clusters.yml").write_text(text.replace("  first:", "  # first:"))
    before = site.files()
    ran = site.done("delete", "c", code=1)
    assert "9 removals, of " in ran.err
    assert "note: nothing was changed, neither in the site nor on hosts" in ran.err
    assert site.files() == before
    site.done("delete", "c", "--max-removals", "9")
    assert "c-1/node" not in site.cobweb("status").out


def test_what_is_protected_on_its_nodes_keeps_a_cluster(site: Site) -> None:
    spec = "{check: 'true', do: 'true'}"
    guarded = f"cobs:\n  data: {{type: script, on: '*-1', protect: true, spec: {spec}}}\n"
    site.done("create", "c", "--template", "stack", "--nodes", "2")
    (site.folder / "site.yml").write_text(SITE + guarded)
    site.cobweb("apply", *SIMULATED)
    before = site.files()
    ran = site.done("delete", "first", code=1)
    assert "protected, so not removed: first-1/data by generation" in ran.err
    assert site.files() == before


@pytest.mark.parametrize("text", ["clusters: 5\n", "clusters: [a]\n"], ids=["number", "list"])
def test_a_section_that_is_no_mapping_is_a_finding(site: Site, text: str) -> None:
    (site.folder / "clusters.yml").write_text(text)
    assert "clusters.yml:1:11: section `clusters`" in site.cluster("list", code=3).err


def test_a_new_cluster_has_no_layout_that_an_interrupted_delete_left(site: Site) -> None:
    site.cluster("scale", "first", "5", "--no-apply")
    site.cluster("scale", "first", "3", "--no-apply")
    (site.folder / "clusters.yml").write_text("clusters: {}\n")
    site.cluster("create", "first", "--template", "stack", "--nodes", "4", "--no-apply")
    assert list(site.nodes("first")) == [1, 2, 3, 4]


def test_values_of_the_command_line_are_read_as_the_files_are(site: Site) -> None:
    words = ("create", "c", "--template", "stack", "--nodes", "2", "--no-apply")
    site.cluster(*words, "--set", "country=NO", "--set", "mode=0644", "--set", "port=81")
    shown = json.loads(site.cobweb("show", "c-1", "-o", "json").out)
    config = next(cob["spec"]["config"] for cob in _cobs(shown) if cob["name"] == "db")
    assert config == {"country": "NO", "mode": "0644", "port": 81}


@pytest.mark.parametrize("name", ["all", "clusters", "localhost", "nowhere", "ungrouped"])
def test_no_cluster_is_called_like_a_group_of_every_site(site: Site, name: str) -> None:
    ran = site.cluster("create", name, "--template", "stack", "--nodes", "2", code=3)
    assert f"a cluster cannot be named `{name}`" in ran.err


def test_clusters_whose_groups_would_be_one_are_refused(site: Site) -> None:
    catalog = json.loads((site.folder / "catalog.yml").read_text())
    catalog["catalog"]["services"] |= {"b-c": {}, "c": {}}
    (site.folder / "catalog.yml").write_text(json.dumps(catalog))
    rest = ("--template", "stack", "--nodes", "2", "--no-apply", "--services")
    site.cluster("create", "a", *rest, "base,b-c")
    before = site.files()
    ran = site.cluster("create", "a-b", *rest, "base,c", code=3)
    assert "the clusters `a` and `a-b` both have a group `a_b_c`" in ran.err
    assert site.files() == before
