"""A site whose mount fails: what needs it waits and says for what, the rest goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("what waits for a mount, as the simulator has it in the gate"),
    pytest.mark.timeout(600),
]

BROKEN = {"path": "/srv/data", "source": "/dev/nowhere", "fstype": "ext4"}
MENDED = {"path": "/srv/data", "source": "data", "fstype": "tmpfs"}


def site(mount: dict[str, str]) -> str:
    """Return a site with a job for a user on a mount, and a parameter that needs none of them."""
    job = {"schedule": "@daily", "user": "clerk", "job": "ls /srv/data"}
    cobs = {
        "data": {"type": "mount", "on": "hosts", "spec": mount},
        "clerk": {"type": "user", "on": "hosts", "spec": {"name": "clerk"}},
        "tidy": {"type": "cron", "on": "hosts", "spec": job, "requires": ["data", "clerk"]},
        "loose": {
            "type": "sysctl",
            "on": "hosts",
            "spec": {"key": "net.ipv4.conf.all.rp_filter", "value": 2},
        },
    }
    return json.dumps({"cobweb": 1, "name": "x", "inventory": "hosts.yml", "cobs": cobs})


def test_what_needs_a_mount_waits_for_it(
    fabric: Fabric, systemd_host: FabricHost, tmp_path: Path
) -> None:
    """The report has the tool's own message; once mended all is up, and goes in the right order."""
    operator = Operator(fabric, tmp_path)
    operator.write_inventory({"hosts": [systemd_host]})
    name = systemd_host.name
    (tmp_path / "site.yml").write_text(site(BROKEN))
    run = operator.apply()
    said = " ".join(run.err.split())
    assert run.code == 1
    assert "special device /dev/nowhere does not exist" in said
    assert {cob for cob, _ in run.transitions()} == {f"{name}/clerk", f"{name}/loose"}
    assert f"{name}/data" in said.partition(f"{name}/tidy ")[2].partition("failed")[0]
    assert fabric.run(systemd_host, "ls", "/etc/cron.d/cobweb-tidy", check=False).returncode != 0

    (tmp_path / "site.yml").write_text(site(MENDED))
    mended = operator.apply()
    assert mended.code == 0, mended.err
    assert [cob for cob, _ in mended.transitions()] == [f"{name}/data", f"{name}/tidy"]
    assert operator.broken_promises([run, mended]) == []

    (tmp_path / "site.yml").write_text(site(MENDED).partition(', "cobs"')[0] + ', "cobs": {}}')
    gone = operator.apply()
    assert gone.code == 0, gone.err
    order = [cob for cob, _ in gone.transitions()]
    assert order.index(f"{name}/tidy") < min(
        order.index(f"{name}/{it}") for it in ("data", "clerk")
    )
    assert set(order) == {f"{name}/{it}" for it in ("data", "clerk", "tidy", "loose")}
    fabric.run(systemd_host, "rm", "-rf", "/home/clerk")
