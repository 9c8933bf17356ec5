"""In which order servers leave the volume of the storage site, and all of it goes; simulated."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cobweb.cli import main
from cobweb_plugins.storage import StorageCluster

pytestmark = [pytest.mark.full("random orders of a large example")]

SITE = Path(__file__).parents[2] / "inventories" / "storage"
HEAD = "cobweb: 1\nname: gluster\ninventory: hosts.yml\nimports: [types/gluster.yml{}]\n"
OBJECTS = ", objects.yml, modules/gluster.yml"
SERVERS = ("st1", "st2", "st3", "st4")

Arrivals = list[tuple[str, str]]


@pytest.fixture
def apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Arrivals]:
    """Simulate an apply with these servers, or nothing, and return all arrivals in their order."""
    monkeypatch.delenv("COBWEB_SITE", raising=False)
    shutil.copytree(SITE / "types", tmp_path / "types")
    (tmp_path / "modules").mkdir()
    shutil.copy(SITE / "modules/gluster.yml", tmp_path / "modules")

    def call(
        servers: tuple[str, ...], parallel: int, *, gone: bool = False, code: int = 0
    ) -> Arrivals:
        hosts, objects = (
            json.dumps(it) for it in StorageCluster().generate(model(servers)).values()
        )
        (tmp_path / "hosts.yml").write_text(hosts, encoding="utf-8")
        (tmp_path / "objects.yml").write_text(objects, encoding="utf-8")
        text = HEAD.format("" if gone else OBJECTS)
        (tmp_path / "site.yml").write_text(text, encoding="utf-8")
        capsys.readouterr()
        options = ["--executor", "simulate", "--yes", "--max-removals", "100%"]
        options += ["--events", "-", "--parallel", str(parallel)]
        options += ["--budget", f"one-server-busy={len(SERVERS)}"] if gone else []
        ended = main(["-C", str(tmp_path), "apply", *options])
        shown = capsys.readouterr()
        assert ended == code, shown.err
        events = [json.loads(line) for line in shown.out.splitlines()]
        return [(it["cob"], it["to"]) for it in events if it["type"] == "transition.end"]

    return call


def model(servers: tuple[str, ...]) -> dict[str, object]:
    return {
        "cluster": "test",
        "network": {"prefix": 24, "virtual_ip": "192.0.2.9"},
        "servers": {
            name: {
                "address": f"192.0.2.1{name[-1]}",
                "number": int(name[-1]),
                "pair": "a" if name < "st3" else "b",
                "disks": ["/dev/vdb"],
            }
            for name in servers
        },
        "clients": {"cl1": {"address": "192.0.2.21"}, "cl2": {"address": "192.0.2.22"}},
        "postgres": {"primary": servers[0], "standbys": [servers[1]]},
    }


def in_order(arrivals: Arrivals, *wanted: tuple[str, str]) -> bool:
    """Say whether the first arrivals of each kind come one after the other."""
    places = [arrivals.index(it) for it in wanted]
    return places == sorted(places)


@pytest.mark.parametrize("parallel", [1, 50])
@pytest.mark.parametrize("leaving", SERVERS[1:])
def test_a_server_leaves_the_volume_pool_and_daemon_in_this_order(
    apply: Callable[..., Arrivals], leaving: str, parallel: int
) -> None:
    """Volume and mounts stay as they are, and no daemon comes back for anybody."""
    apply(SERVERS, parallel)
    left = apply(tuple(name for name in SERVERS if name != leaving), parallel)
    own = [
        (name, state) for cob, state in left for host, name in [cob.split("/")] if host == leaving
    ]
    steps = [("heal-gate", "busy"), ("bricks", "down"), ("peer", "down"), ("glusterd", "down")]
    assert in_order(own, *steps, ("gluster-unit", "down"))
    assert Counter(name for name, _ in own)["glusterd"] == 1
    others = {(cob, state) for cob, state in left if not cob.startswith(f"{leaving}/")}
    assert not any(state in {"stopped", "absent", "down"} for _, state in others)


@pytest.mark.parametrize("parallel", [1, 50])
def test_mounts_volume_bricks_pool_and_daemons_go_in_this_order(
    apply: Callable[..., Arrivals], parallel: int
) -> None:
    apply(SERVERS, parallel)
    gone = apply(SERVERS, parallel, gone=True)
    for client in ("cl1", "cl2"):
        assert in_order(gone, (f"{client}/data-mount", "down"), ("st1/volume", "stopped"))
    for name in SERVERS:
        steps = [(f"{name}/bricks", "down"), (f"{name}/glusterd", "down")]
        assert in_order(gone, ("st1/volume", "stopped"), ("st1/volume", "absent"), *steps)
    for name in SERVERS[1:]:
        assert in_order(gone, (f"{name}/bricks", "down"), (f"{name}/peer", "down"))
        assert in_order(gone, (f"{name}/peer", "down"), ("st1/glusterd", "down"))
    moved = Counter(cob for cob, _ in gone)
    assert [moved[f"{name}/glusterd"] for name in SERVERS] == [1] * len(SERVERS)


def test_the_volume_is_not_stopped_when_its_first_server_alone_is_taken_out(
    apply: Callable[..., Arrivals],
) -> None:
    """The volume is an object of this server; the run says that it cannot go."""
    apply(SERVERS, 50)
    arrivals = apply(SERVERS[1:], 50, code=4)
    assert not [cob for cob, _ in arrivals if cob.endswith(("/volume", "/bricks", "/glusterd"))]
