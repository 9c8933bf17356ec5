"""The adapter `gridengine` with a real Grid Engine, on hosts made of namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cobweb.plugin import data_dir, load_plugins, type_file
from cobweb_plugins.pools.kit import AdapterCase, check_adapter
from tests.support.fabric import Fabric
from tests.support.gridengine import GridEngine
from tests.support.live import live_on
from tests.support.needed import need_fabric
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.gate("the adapter with the system that it is for; nothing else has one"),
    pytest.mark.netns,
    pytest.mark.timeout(300),
]

NAMES = ("scm", "n01", "n02", "n03")
FOLDER = Path(str(data_dir("playbooks"))) / "pools"
SITE = """\
cobweb: 1
name: cluster
inventory: hosts.yml
pools:
  resources: {"n[01:03]": {type: host}}
  services:
    batch: {adapter: gridengine, on: scm}
    spare: {adapter: spare}
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridEngine]:
    """Return a master and three hosts that do not belong to it."""
    need_fabric()
    folder = tmp_path_factory.mktemp("fabric")
    with Fabric(folder, plain=4, names=NAMES, image="full") as fabric:
        made = GridEngine(fabric, fabric.hosts[0])
        made.make()
        yield made


@contextmanager
def held(cluster: GridEngine) -> Iterator[None]:
    """Have jobs wait that no further host would begin."""
    jobs = [cluster.submit("true", it) for it in ("-h", "-a 203012010101")]
    jobs.append(cluster.submit("true", f"-hold_jid {jobs[0]}"))
    try:
        yield
    finally:
        for job in jobs:
            cluster.let_end(job)


def test_it_passes_the_kit(cluster: GridEngine, tmp_path: Path) -> None:
    with live_on(cluster.fabric, tmp_path) as live:
        case = AdapterCase(
            adapter=load_plugins().extensions_at("service_adapter")["gridengine"],
            type=type_file(FOLDER / "pool-gridengine" / "type.yml"),
            entry_type=type_file(FOLDER / "pool-gridengine-entry" / "type.yml"),
            host="scm",
            resource="n01",
            executor=live.executor,
            busy=cluster.running,
            hold=lambda: held(cluster),
        )
        live.within(lambda: check_adapter(case))


def test_hosts_come_and_go_and_no_job_is_lost_or_run_twice(
    cluster: GridEngine, tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.yml").write_text(SITE, encoding="utf-8")
    operator = Operator(cluster.fabric, folder)
    operator.write_inventory({"all_hosts": cluster.fabric.hosts})

    def pool(*arguments: str, code: int = 0) -> str:
        ran = operator.cobweb("pool", *arguments, "--yes")
        assert ran.code == code, ran.out + ran.err
        return ran.out + ran.err

    def pending() -> float:
        services = operator.cobweb("pool", "services", "-o", "json").data()["services"]
        (kpis,) = [it["kpis"] for it in services if it["name"] == "batch"]
        return float(next(it["value"] for it in kpis if it["name"] == "pending"))

    first = cluster.submit("sleep 1")
    waits = cluster.submit("while [ ! -e /tmp/go ]; do sleep 0.2; done")
    pool("add", "n01", "batch")
    cluster.wait_for(lambda: cluster.ends(first) == 1, "the first job ends")
    cluster.wait_running(waits)
    never = [cluster.submit("true", it) for it in ("-l hostname=scm", "-l arch=none")]
    assert pending() == 0
    for job in never:
        cluster.let_end(job)

    pool("remove", "n01", code=2)
    assert cluster.state(waits) == "r"
    cluster.on(cluster.fabric.hosts[1], "touch /tmp/go")
    cluster.wait_for(lambda: cluster.ends(waits) == 1, "the job of the host that leaves ends")
    pool("remove", "n01")
    assert cluster.say("qconf -sel", check=False) == ""
    assert cluster.on(cluster.fabric.hosts[1], "pgrep sge_execd", check=False) == ""

    pool("add", "n02", "batch")
    moved = cluster.submit("[ $(hostname) = n03 ] || sleep 600")
    cluster.wait_running(moved)
    cluster.fabric.kill(cluster.fabric.hosts[2])
    pool("lost", "n02")
    cluster.wait_for(lambda: "qw" in cluster.state(moved) or "Rq" in cluster.state(moved), "waits")
    assert cluster.say("qconf -sel", check=False) == ""
    pool("add", "n03", "batch")
    cluster.wait_for(lambda: not cluster.state(moved), "the job of the lost host ends elsewhere")
    cluster.wait_for(lambda: cluster.ran_on(moved).count("n03") == 1, "it is in the accounting")
