"""The type `container` on hosts with podman, with systemd and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, run_page_example

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

IMAGE = "docker.io/library/nginx:1.27"
MAKE_IMAGE = f"""
mkdir -p /srv/image/bin /srv/image/tmp; cd /srv/image; cp /bin/busybox bin/busybox; touch index.html
for name in sh sleep httpd wget; do ln -sf busybox bin/$name; done
tar -c . | podman import -q --change 'CMD ["httpd", "-f", "-h", "/"]' - {IMAGE}
"""
SPEC = {"image": IMAGE, "network": "host", "command": ["sleep", "600"], "stop_timeout": 0}
ARCHIVE = "/srv/box.tar"
UNIT = "cobweb-container-it.service"
CLEAN = """
cd /etc/systemd/system; ls -d *container* /var/lib/cobweb/container/* 2> /dev/null
podman ps --all --format '{{.Names}}'
if [ -d /run/systemd/system ]; then
  for unit in cobweb-container-*; do [ ! -e "$unit" ] || systemctl -q disable --now "$unit"; done
  rm -f cobweb-container-*; systemctl daemon-reload; systemctl reset-failed
fi
for turn in 1 2 3 4 5; do
  ids=$(podman ps --all --quiet); [ "$ids" ] || break
  podman rm --force $ids
done > /dev/null 2>&1
rm -rf /var/lib/cobweb/container
"""
"""Says what is left, and removes it: one test that fails is no reason for the next one to fail."""
REFUSED: list[tuple[Mapping[str, Any], str]] = [
    ({"image": "localhost/none:1", "pull": "never"}, "there is no image localhost/none:1 on"),
    ({"image": "localhost/none:1", "archive": "/no.tar"}, "/no.tar: no such file or directory"),
    ({"volumes": ["/nowhere:/x"]}, "/nowhere: no such file or directory"),
    ({"options": ["--nonsense"]}, "unknown flag: --nonsense"),
    ({"network": "nowhere"}, "unable to find network with name or ID nowhere"),
    ({"env": {"A": "1\n2"}}, "`env` has a value of several lines"),
]
FAILING: list[tuple[Mapping[str, Any], str]] = [
    ({"command": ["no-such-program"]}, "no-such-program"),
    ({"command": ["sh", "-c", "echo last words of $T; exit 3"]}, "last words of ********"),
    ({"health": "echo too ill; exit 1", "health_timeout": 1}, "is not healthy after 1 s: too"),
]


@pytest.fixture(scope="module")
def images(fabric: Fabric) -> None:
    """Give hosts an image of that name, made of nothing but busybox."""
    for host in (fabric.plain[0], fabric.systemd[0]):
        fabric.run(host, "sh", "-ec", MAKE_IMAGE)


@pytest.fixture(
    params=["plain", pytest.param("systemd", marks=pytest.mark.full("another host, the same kit"))]
)
def host(fabric: Fabric, images: None, request: pytest.FixtureRequest) -> Iterator[FabricHost]:
    """Return a host that has neither containers nor units of them in the end."""
    del images
    found: FabricHost = getattr(fabric, request.param)[0]
    yield found
    assert fabric.run(found, "sh", "-c", CLEAN, timeout_s=120).stdout == ""


only_systemd = pytest.mark.parametrize("host", ["systemd"], indirect=True)


def inspect(fabric: Fabric, host: FabricHost, field: str) -> str:
    """Return what podman says of the container."""
    return fabric.run(host, "podman", "inspect", "-f", f"{{{{{field}}}}}", "it").stdout.strip()


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    changed = {"env": {"LEVEL": "2"}, "health": "test $LEVEL = 2", "restart": "no", "boot": False}
    live.check_type("container", host, SPEC, {**SPEC, **changed})


@only_systemd
def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "container")


@only_systemd
def test_an_archive_brings_the_image(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """And a newer image of the same name makes the container outdated."""
    name = "localhost/box:1"
    make = f"podman tag {IMAGE} {name}; podman save -qo {ARCHIVE} {name}; podman rmi {name}"
    fabric.run(host, "sh", "-ec", make)
    cob = live.cob("container", host, {**SPEC, "image": name, "archive": ARCHIVE})
    cob.go("down", "up")
    newer = f"cd /srv/image; touch newer; tar -c . | podman import -q - {name}"
    fabric.run(host, "sh", "-ec", newer)
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    cob.go("up", "down")
    fabric.run(host, "podman", "rmi", name)


@only_systemd
def test_one_that_ends_is_started_again(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """By systemd; one that is stopped by hand is broken, by whatever spec."""
    cob = live.cob("container", host, SPEC)
    cob.go("down", "up")
    first = inspect(fabric, host, ".State.Pid")
    fabric.run(host, "kill", "-9", first)
    again = f"until podman inspect it | grep -q '\"Pid\": [1-9]' && ! kill -0 {first}; do :; done"
    fabric.run(host, "timeout", "100", "sh", "-c", again)
    fabric.run(host, "timeout", "100", "sh", "-c", f"until systemctl is-active {UNIT}; do :; done")
    assert cob.check() == "up"
    cob.words = {"reached": "up"}
    assert cob.check() == "broken", "what this run has started did not last"
    cob.words = {}
    fabric.run(host, "systemctl", "stop", UNIT)
    assert cob.check() == "broken"
    cob.applied, cob.spec = SPEC, {**SPEC, "name": "renamed"}
    assert cob.check() == "broken"
    cob.go("broken", "up")
    assert fabric.run(host, "podman", "ps", "-a", "--format={{.Names}}").stdout == "renamed\n"
    cob.go("up", "down")


@only_systemd
def test_no_command_line_has_a_secret(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """Nor a unit; the file of the environment is root's, and gone with the container."""
    cob = live.cob("container", host, {**SPEC, "env": {"TOKEN": "open-sesame"}})
    cob.go("down", "up")
    environment = f"tr '\\0' '\\n' < /proc/{inspect(fabric, host, '.State.Pid')}/environ"
    assert "TOKEN=open-sesame" in fabric.run(host, "sh", "-c", environment).stdout
    shown = "cat /proc/[0-9]*/cmdline /etc/systemd/system/*container* 2> /dev/null | tr '\\0' ' '"
    assert "sesame" not in fabric.run(host, "sh", "-c", shown).stdout
    modes = fabric.run(host, "stat", "-c", "%a", "/var/lib/cobweb/container/it/env").stdout
    assert modes == "600\n"
    cob.go("up", "down")


@only_systemd
def test_what_podman_refuses_changes_nothing(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """The old container goes on; the message is that of podman."""
    cob = live.cob("container", host, SPEC)
    cob.go("down", "up")
    before = inspect(fabric, host, ".State.Pid")
    cob.applied = SPEC
    for change, message in REFUSED:
        cob.spec = {**SPEC, **change}
        report = cob.move("outdated", "up")
        assert report.outcome is Outcome.FAILED
        assert message in report.message
    cob.spec = SPEC
    assert cob.check() == "up"
    assert inspect(fabric, host, ".State.Pid") == before
    cob.go("up", "down")


def test_one_that_does_not_stay_up_fails(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """With its last words; it is not left to start again and again."""
    cob = live.cob("container", host, SPEC)
    for change, message in FAILING:
        cob.spec = {**SPEC, **change, "env": {"T": "open-sesame"}}
        report = cob.move("down", "up")
        assert report.outcome is Outcome.FAILED
        assert message in report.message
        assert "sesame" not in str(report)
        assert fabric.run(host, "podman", "ps", "-q").stdout == ""
    cob.go("broken", "down")


@only_systemd
def test_a_container_of_somebody_else_stays(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """One that Cobweb did not make is never replaced."""
    fabric.run(host, "podman", "create", "-q", "--name", "it", "--network=host", IMAGE)
    cob = live.cob("container", host, SPEC)
    assert cob.check() == "down"
    assert "a container it is there that Cobweb did not make" in cob.move("down", "up").message
    cob.go("up", "down")
    fabric.run(host, "podman", "rm", "it")
