"""GlusterFS of the storage site on three servers and a client: set up, changed, broken, taken away.

Only its own part of the site: types/gluster.yml and modules/gluster.yml, with disks as they are
generated. A test begins with the whole cluster, whatever the one before has left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.storage import StorageCluster
from tests.support.fabric import Fabric, FabricHost
from tests.support.needed import need_fabric
from tests.support.operator import Operator, Run
from tests.support.storage import Probe, ProbeResult

pytestmark = [
    pytest.mark.full(
        "minutes of GlusterFS; its module and its order are in the gate without servers"
    ),
    pytest.mark.netns,
    pytest.mark.timeout(600),
]

SITE = Path(__file__).parents[2] / "inventories" / "storage"
SERVERS = ("st1", "st2", "st3")
CLIENT = "cl1"
BRICK = "/bricks/d1/brick"
ID = "trusted.glusterfs.volume-id"
HEAD = """\
cobweb: 1
name: gluster
inventory: hosts.yml
imports: [types/gluster.yml, objects.yml, modules/gluster.yml]
"""
EMPTY = """\
cobweb: 1
name: gluster
inventory: hosts.yml
imports: [types/gluster.yml]
"""


class Cluster:
    """The operator's view of it, and what can be done to it past Cobweb."""

    def __init__(self, fabric: Fabric, folder: Path) -> None:
        self._fabric = fabric
        self._level = "INFO"
        self.operator = Operator(fabric, folder)
        self.hosts: Mapping[str, FabricHost] = {host.name: host for host in fabric.hosts}
        shutil.copytree(SITE / "types", folder / "types")
        shutil.copytree(SITE / "library", folder / "library")
        shutil.copytree(SITE / "module_utils", folder / "module_utils")
        (folder / "modules").mkdir()
        shutil.copy(SITE / "modules/gluster.yml", folder / "modules")

    def want(
        self,
        *servers: str,
        level: str | None = None,
        heal_wait_s: int = 60,
        wipe: bool = True,
    ) -> None:
        """Write what is wanted: the servers of the volume, and a new log level of their daemons."""
        self._level = level or self._level
        made = StorageCluster().generate(self._model(servers or SERVERS))
        everyone = made["hosts.yml"]["all"]["vars"]
        everyone["volume"] |= {"heal_wait_s": heal_wait_s, "wipe": wipe}
        everyone |= self._fabric.connection
        self._write("hosts.yml", json.dumps(made["hosts.yml"]))
        self._write("objects.yml", json.dumps(made["objects.yml"]))
        self._write("site.yml", HEAD)

    def want_nothing(self) -> None:
        """Write that nothing is wanted any more."""
        self._write("site.yml", EMPTY)

    def run(self, host: str, *argv: str) -> str:
        """Run a program on a host and return what it says."""
        done = self._fabric.run(self.hosts[host], *argv, check=False)
        return done.stdout + done.stderr

    @contextmanager
    def client_at_work(self) -> Iterator[list[ProbeResult]]:
        """Have the client use the volume meanwhile; what it saw is in the list afterwards."""
        seen: list[ProbeResult] = []
        probe = Probe(self._fabric, self.hosts[CLIENT], "/mnt/data/probe")
        try:
            yield seen
            seen.append(probe.end())
        finally:
            probe.kill()

    def bricks(self) -> list[str]:
        """Return the bricks of the volume, as the first server tells them."""
        lines = self.run("st1", "gluster", "volume", "info", "data").splitlines()
        return [line.split(": ")[1] for line in lines if line.startswith("Brick") and ": " in line]

    def _model(self, servers: tuple[str, ...]) -> dict[str, Any]:
        return {
            "cluster": "test",
            "network": {"prefix": 16, "virtual_ip": "10.77.9.9"},
            "servers": {
                name: {
                    "address": self.hosts[name].address,
                    "number": SERVERS.index(name) + 1,
                    "pair": "a" if name in SERVERS[:2] else "b",
                    "disks": ["/dev/vdb", "/dev/vdc"],
                }
                for name in servers
            },
            "clients": {CLIENT: {"address": self.hosts[CLIENT].address}},
            "postgres": {"primary": servers[0], "standbys": [servers[1]]},
            "volume": {
                "name": "data",
                "log_level": self._level,
                "options": {"network.ping-timeout": 5},
            },
        }

    def _write(self, name: str, text: str) -> None:
        (self.operator.folder / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_fabric()
    folder = tmp_path_factory.mktemp("fabric")
    names = [*SERVERS, CLIENT]
    with Fabric(folder, plain=0, systemd=4, names=names, disks=2, image="full") as fabric:
        yield Cluster(fabric, tmp_path_factory.mktemp("site"))


@pytest.fixture
def cluster(made: Cluster) -> Cluster:
    """Return the whole cluster, at rest."""
    made.want()
    ended(made.operator.apply())
    return made


def ended(run: Run, code: int = 0) -> Run:
    assert run.code == code, run.out + run.err
    return run


def places(run: Run) -> dict[tuple[str, str], int]:
    """Return the place of each arrival; the last one counts."""
    return {arrival: place for place, arrival in enumerate(run.transitions())}


def test_a_cluster_comes_about_and_stays(cluster: Cluster) -> None:
    """Six bricks in the order of the sets; nothing is done twice, and nothing has drifted."""
    assert cluster.bricks() == [f"{s}:/bricks/{d}/brick" for d in ("d1", "d2") for s in SERVERS]
    assert cluster.run(CLIENT, "stat", "-f", "-c", "%T", "/mnt/data").strip() == "fuseblk"
    again = ended(cluster.operator.apply())
    assert again.transitions() == []
    assert ended(cluster.operator.cobweb("drift")).code == 0


def test_a_change_goes_through_the_servers_while_a_client_works(cluster: Cluster) -> None:
    """A brick that cannot come back stops it at its server; mended, it goes on where it stopped."""
    for name in SERVERS:  # whoever is first, its brick does not start again
        cluster.run(name, "sh", "-c", f"cd / && getfattr -d -e hex -n {ID} {BRICK} > /var/tmp/kept")
        cluster.run(name, "setfattr", "-n", ID, "-v", "0x" + "0" * 31 + "1", BRICK)
    cluster.want(level="WARNING", heal_wait_s=10)
    with cluster.client_at_work() as seen:
        broken = ended(cluster.operator.apply(), 1)
        for name in SERVERS:
            cluster.run(name, "sh", "-c", "cd / && setfattr --restore=/var/tmp/kept")
        cluster.want()
        mended = ended(cluster.operator.apply())
    (failed,) = {cob.split("/")[0] for cob, _ in broken.transitions()}
    waiting = [name for name in SERVERS if name != failed]
    assert f"Volume id mismatch for brick {failed}:{BRICK}" in broken.err
    for name in waiting:
        assert f"{name}/gluster-unit waits for room in a limit (one-server-busy)" in broken.err
    done = places(mended)
    first, second = sorted(waiting, key=lambda name: done[f"{name}/glusterd", "down"])
    assert done[f"{failed}/heal-gate", "healed"] < done[f"{first}/heal-gate", "busy"]
    assert done[f"{first}/heal-gate", "healed"] < done[f"{second}/heal-gate", "busy"]
    assert cluster.operator.broken_promises([mended]) == []
    assert (seen[0].errors, seen[0].messages) == (0, [])
    assert seen[0].rounds > 0


def test_a_server_goes_and_comes_back_while_a_client_works(cluster: Cluster) -> None:
    cluster.want("st1", "st2")
    with cluster.client_at_work() as seen:
        away = ended(cluster.operator.apply())
        left = cluster.bricks()
        on_disk = cluster.run("st3", "ls", "-A", "/bricks", "/var/lib/glusterd/vols")
        cluster.want()
        ended(cluster.operator.apply())
    done = places(away)
    names = ("bricks", "disk-d1", "peer", "glusterd")
    bricks, disk, peer, daemon = (done[f"st3/{name}", "down"] for name in names)
    assert bricks < disk
    assert bricks < peer < daemon
    assert not any(cob.startswith(("st1/", "st2/", "cl1/")) for cob, _ in away.transitions())
    assert left == [f"{s}:/bricks/{d}/brick" for d in ("d1", "d2") for s in ("st1", "st2")]
    assert "brick" not in on_disk.replace("/bricks", "")
    assert len(cluster.bricks()) == 6
    assert "file0" in cluster.run("st3", "sh", "-c", "ls /bricks/*/brick/probe")
    assert (seen[0].errors, seen[0].messages) == (0, [])


def test_all_goes_in_order(cluster: Cluster) -> None:
    """Mounts, volume, bricks, pool, daemons; what the bricks hold stays on the disks."""
    cluster.run(CLIENT, "sh", "-c", "echo kept > /mnt/data/kept")
    cluster.want_nothing()
    refused = ended(cluster.operator.apply(), 4)
    assert (
        "(one-server-busy: st1, st2, st3 at once; --budget one-server-busy=3 lets them)"
        in refused.err
    )
    run = ended(cluster.operator.apply("--budget", f"one-server-busy={len(SERVERS)}"))
    done = places(run)
    mount, stop = done["cl1/data-mount", "down"], done["st1/volume", "stopped"]
    bricks = [done[f"{name}/bricks", "down"] for name in SERVERS]
    peers = [done[f"{name}/peer", "down"] for name in SERVERS[1:]]
    daemons = [done[f"{name}/glusterd", "down"] for name in SERVERS]
    assert mount < stop < done["st1/volume", "absent"] < min(bricks)
    assert max(bricks[1:]) < max(peers)
    assert max(peers) < daemons[0]
    for name in SERVERS:
        assert cluster.run(name, "pgrep", "-a", "gluster") == ""
    cluster.run("st1", "mount", "-o", "ro", "/dev/vdb", "/media")
    cluster.run("st1", "mount", "-o", "ro", "/dev/vdc", "/srv")
    assert "kept" in cluster.run("st1", "sh", "-c", "ls /media/brick /srv/brick")
    cluster.run("st1", "umount", "/media", "/srv")


def test_a_volume_whose_creation_was_refused_half_way_is_created(made: Cluster) -> None:
    """The first server has marked its bricks when another one refuses; nothing else is in them."""
    made.want()
    made.want_nothing()
    ended(made.operator.apply())
    for name in SERVERS:
        made.run(name, "sh", "-c", "for it in b c; do mkfs.ext4 -qF /dev/vd$it; done")
    mark = f"mount /dev/vdb /media && setfattr -n {ID} -v 0x{1:032x} /media && umount /media"
    assert made.run("st2", "sh", "-c", mark) == ""
    made.want(wipe=False)
    refused = ended(made.operator.apply(), 1)
    assert "st1/volume failed in this run: create the volume" in refused.err
    assert "already part of a volume" in refused.err
    assert ID in made.run("st1", "getfattr", "-d", "-m", ID, BRICK)
    assert made.run("st2", "setfattr", "-x", ID, "/bricks/d1") == ""
    ended(made.operator.apply())
    assert len(made.bricks()) == 6
