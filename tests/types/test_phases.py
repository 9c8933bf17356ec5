"""The type `phase` on a host: over SSH, and on a disk that its output fills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live
from tests.support.tasks import OneCob, registered

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full(
        "a disk that is full; the gate has what a supervisor does when it cannot write"
    ),
    pytest.mark.timeout(600),
]

PLACE = "/srv/tiny"
SPEC = {"application": "ring", "phase": "compute", "instance": "i1", "state_dir": PLACE}


@pytest.fixture
def disk(fabric: Fabric, plain_host: FabricHost) -> Iterator[str]:
    """Return the folder of the application, on a disk of a megabyte."""
    folder = f"{PLACE}/applications/ring/{plain_host.name}"
    told = json.dumps({"instance": "i1", "hosts": [plain_host.name]})
    mount = f"mkdir {PLACE} && mount -t tmpfs -o size=1m none {PLACE} && mkdir -p {folder}"
    fabric.run(plain_host, "sh", "-c", f"{mount} && echo '{told}' > {folder}/hosts.json")
    yield folder
    fabric.run(plain_host, "sh", "-c", f"umount {PLACE} && rmdir {PLACE}")


@pytest.mark.parametrize("code", [0, 3])
def test_on_a_disk_that_it_fills_its_end_is_told(
    fabric: Fabric, live: Live, plain_host: FabricHost, disk: str, code: int
) -> None:
    """What could not be kept is counted; it can be stopped."""
    state = "broken" if code else "done"
    spec = {**SPEC, "run": f"head -c 50000000 /dev/zero; exit {code}"}
    cob = OneCob(registered("applications/phase")().cob_type(), live, spec, host=plain_host.name)
    assert cob.check() == "down"
    cob.move("down", "running")
    fabric.run(plain_host, "flock", "--shared", f"{disk}/compute/lock", "true")
    assert cob.check() == state
    status = told(fabric, plain_host, disk)
    size = int(fabric.run(plain_host, "stat", "-c", "%s", f"{disk}/compute/output").stdout)
    assert status["code"] == code
    assert status["lost_bytes"] + size == 50_000_000
    cob.go(state, "down")
    assert told(fabric, plain_host, disk)["state"] == "stopped"


def told(fabric: Fabric, host: FabricHost, disk: str) -> dict[str, Any]:
    """Return what the supervisor has told last."""
    found: dict[str, Any] = json.loads(
        fabric.run(host, "cat", f"{disk}/compute/status.json").stdout
    )
    return found
