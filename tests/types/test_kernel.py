"""The type `sysctl` on a host; it is made of YAML alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

KEY = "net.ipv4.ip_forward"
PORTS = "net.ipv4.ip_local_port_range"


@pytest.fixture
def host(fabric: Fabric, plain_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host whose parameters and files are in the end what they were."""
    seen = ("sh", "-c", f"sysctl {KEY} {PORTS}; ls -A /etc/sysctl.d /var/lib/cobweb/sysctl")
    fabric.run(plain_host, "mkdir", "-p", "/var/lib/cobweb/sysctl")
    before = fabric.run(plain_host, *seen).stdout
    yield plain_host
    assert fabric.run(plain_host, *seen).stdout == before


def read(fabric: Fabric, host: FabricHost, key: str) -> str:
    """Return the value of a parameter."""
    return " ".join(fabric.run(host, "sysctl", "-n", key).stdout.split())


def file_of(fabric: Fabric, host: FabricHost, name: str) -> str:
    """Return a file of /etc/sysctl.d, or nothing."""
    return fabric.run(host, "cat", f"/etc/sysctl.d/{name}", check=False).stdout


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    spec = {"key": PORTS, "value": "20000 50000"}
    live.check_type("sysctl", host, spec, {**spec, "value": "20001  50001"})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "sysctl")


def test_value_and_file_of_before_come_back(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """Also after another key, another file, and somebody's change."""
    before = read(fabric, host, KEY)
    fabric.run(host, "sh", "-c", f"echo '{KEY} = {before}' > /etc/sysctl.d/50-own.conf")
    cob = live.cob("sysctl", host, {"key": KEY, "value": 1 - int(before), "file": "50-own.conf"})
    try:
        cob.go("down", "up")
        assert read(fabric, host, KEY) == str(1 - int(before))
        assert file_of(fabric, host, "50-own.conf") == f"{KEY} = {1 - int(before)}\n"
        fabric.run(host, "sysctl", "-w", f"{KEY}={before}")
        assert cob.check() == "outdated"
        cob.go("outdated", "up")
        cob.applied, cob.spec = cob.spec, {"key": KEY, "value": 1 - int(before)}
        cob.go("outdated", "up")
        assert file_of(fabric, host, "50-own.conf") == f"{KEY} = {before}\n"
        assert file_of(fabric, host, f"90-cobweb-{KEY}.conf") == f"{KEY} = {1 - int(before)}\n"
        cob.applied, cob.spec = cob.spec, {"key": PORTS, "value": "20000 50000"}
        assert cob.check() == "outdated"
        cob.go("outdated", "up")
        assert read(fabric, host, KEY) == before
        assert file_of(fabric, host, f"90-cobweb-{KEY}.conf") == ""
        cob.applied = cob.spec
        cob.go("up", "down")
    finally:
        fabric.run(host, "rm", "-f", "/etc/sysctl.d/50-own.conf")


def test_a_file_of_before_outlives_a_change_that_fails(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """Done again it must not take the file that is there for ours; two objects share none."""
    before = read(fabric, host, KEY)
    fabric.run(host, "sh", "-c", "echo '# own' > /etc/sysctl.d/50-own.conf")
    cob = live.cob("sysctl", host, {"key": KEY, "value": 1 - int(before), "file": "50-own.conf"})
    fabric.run(host, "mkdir", "/etc/sysctl.d/60-own.conf")
    try:
        cob.go("down", "up")
        cob.applied, cob.spec = cob.spec, {**cob.spec, "file": "60-own.conf"}
        for _ in range(2):
            assert cob.move("outdated", "up").outcome is Outcome.FAILED
        cob.spec = cob.applied
        other = live.cob("sysctl", host, {"key": PORTS, "value": "1 9", "file": "50-own.conf"})
        assert "is the file of another object" in other.move("down", "up").message
        cob.go("outdated", "up")
        cob.go("up", "down")
        assert file_of(fabric, host, "50-own.conf") == "# own\n"
    finally:
        fabric.run(host, "rm", "-rf", "/etc/sysctl.d/50-own.conf", "/etc/sysctl.d/60-own.conf")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"key": "net.ipv4.no_such", "value": 1}, "cannot stat /proc/sys/net/ipv4/no_such"),
        ({"key": KEY, "value": "often"}, f'setting key "{KEY}": Invalid argument'),
        ({"key": PORTS, "value": "9 1"}, f'setting key "{PORTS}": Invalid argument'),
        ({"key": PORTS, "value": "20000"}, "20000"),
    ],
)
def test_bad_input_has_the_message_of_the_tool(
    live: Live, host: FabricHost, spec: dict[str, object], message: str
) -> None:
    """And no file stays; the fixture looks at that."""
    cob = live.cob("sysctl", host, spec)
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert message in report.message
    assert cob.check() == "down"
