"""The adapter `slurm` with a real Slurm, on hosts made of namespaces, with systemd and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cobweb.plugin import data_dir, load_plugins, type_file
from cobweb_plugins.pools.kit import AdapterCase, check_adapter
from tests.support.fabric import Fabric
from tests.support.live import live_on
from tests.support.needed import need_fabric
from tests.support.operator import Operator
from tests.support.slurm import Slurm

pytestmark = [
    pytest.mark.gate("the adapter with the system that it is for; nothing else has one"),
    pytest.mark.netns,
    pytest.mark.timeout(300),
]

NAMES = ("slc", "n01", "n02", "s01", "n03")
FOLDER = Path(str(data_dir("playbooks"))) / "pools"
CONF = "CPUs=2 RealMemory=500"
SITE = f"""\
cobweb: 1
name: cluster
inventory: hosts.yml
pools:
  resources: {{"n[01:03]": {{type: host}}, s01: {{type: host}}}}
  services:
    batch: {{adapter: slurm, on: slc, with: {{conf: {CONF}}}}}
    spare: {{adapter: spare}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Return a controller and hosts that do not belong to it; slurm.conf names `s01`."""
    need_fabric()
    folder = tmp_path_factory.mktemp("fabric")
    with Fabric(folder, plain=4, systemd=1, names=NAMES, image="full") as fabric:
        made = Slurm(fabric, fabric.hosts[0], static=["s01"])
        made.make()
        yield made


@contextmanager
def held(cluster: Slurm) -> Iterator[None]:
    """Have jobs wait that no further host would begin."""
    jobs = [cluster.submit("true", it) for it in ("-H", "--begin=now+1hour", "-c 64", "-w s01")]
    jobs.append(cluster.submit("true", f"-d afterok:{jobs[0]}"))
    cluster.wait_for(lambda: reason(cluster, jobs[2]) == "PartitionConfig", "they were looked at")
    try:
        yield
    finally:
        cluster.say(f"scancel {' '.join(jobs)}")


def reason(cluster: Slurm, job: str) -> str:
    """Return why a job waits."""
    (found,) = [it for it in cluster.jobs() if str(it["job_id"]) == job]
    return str(found["state_reason"])


def test_it_passes_the_kit(cluster: Slurm, tmp_path: Path) -> None:
    with live_on(cluster.fabric, tmp_path) as live:
        case = AdapterCase(
            adapter=load_plugins().extensions_at("service_adapter")["slurm"],
            type=type_file(FOLDER / "pool-slurm" / "type.yml"),
            entry_type=type_file(FOLDER / "pool-slurm-entry" / "type.yml"),
            settings={"conf": CONF},
            host="slc",
            resource="n03",
            executor=live.executor,
            busy=cluster.running,
            hold=lambda: held(cluster),
        )
        live.within(lambda: check_adapter(case))


class Site:
    """An operator's site, whose hosts may work for the cluster."""

    def __init__(self, cluster: Slurm, folder: Path) -> None:
        self.operator = Operator(cluster.fabric, folder)
        self.operator.write_inventory({"all_hosts": cluster.fabric.hosts})
        (folder / "site.yml").write_text(SITE, encoding="utf-8")

    def pool(self, *arguments: str, code: int = 0) -> str:
        """Run a command of `pool`, which ends with a code; return what it said as one line."""
        ran = self.operator.cobweb("pool", *arguments, "--yes")
        assert ran.code == code, ran.out + ran.err
        return " ".join((ran.out + ran.err).split())


@pytest.fixture
def site(cluster: Slurm, tmp_path: Path) -> Site:
    return Site(cluster, tmp_path)


def job_of(cluster: Slurm, job: str) -> Any:
    """Return what the controller says of a job."""
    (found,) = [it for it in cluster.jobs() if str(it["job_id"]) == job]
    return found


def test_a_host_leaves_after_its_job_which_runs_once(cluster: Slurm, site: Site) -> None:
    n01 = cluster.fabric.hosts[1]
    work = "echo x >> /tmp/ran; while [ ! -e /tmp/go ]; do sleep 0.2; done"
    job = cluster.submit(work)
    site.pool("add", "n01", "batch")
    cluster.wait_state(job, "RUNNING")
    said = site.pool("remove", "n01", code=2)
    assert "n01 drains: 1 at work there" in said
    assert cluster.state(job) == "RUNNING"

    cluster.on(n01, "touch /tmp/go")
    cluster.wait_state(job, "COMPLETED")
    site.pool("remove", "n01")
    assert cluster.nodes() == ["s01"]
    assert cluster.on(n01, "pgrep slurmd", check=False) == ""
    assert (cluster.on(n01, "cat /tmp/ran"), job_of(cluster, job)["restart_cnt"]) == ("x", 0)


def test_a_node_that_slurm_conf_names_stays(cluster: Slurm, site: Site) -> None:
    cluster.on(cluster.fabric.hosts[3], "slurmd --conf-server slc")
    site.pool("add", "s01", "batch")
    said = site.pool("remove", "s01", code=1)
    assert "s01 cannot leave, slurm.conf names it" in said
    assert "static: true" in said
    cluster.say("scontrol reconfigure; scontrol ping")
    assert cluster.nodes() == ["s01"]
    cluster.say("scontrol update nodename=s01 state=drain reason=test")


def test_jobs_of_a_host_that_is_lost_begin_elsewhere_once(cluster: Slurm, site: Site) -> None:
    site.pool("add", "n02", "batch")
    job = cluster.submit("echo x >> /tmp/moved; [ $SLURM_RESTART_COUNT ] || sleep 600")
    cluster.wait_state(job, "RUNNING")
    cluster.fabric.kill(cluster.fabric.hosts[2])
    site.pool("lost", "n02")
    assert cluster.nodes() == ["s01"]
    site.pool("add", "n03", "batch")
    cluster.wait_state(job, "COMPLETED")
    found = job_of(cluster, job)
    assert (found["nodes"], found["restart_cnt"]) == ("n03", 1)
    assert cluster.on(cluster.fabric.hosts[4], "cat /tmp/moved") == "x"
