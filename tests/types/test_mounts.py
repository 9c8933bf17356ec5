"""The type `mount` on a host: tmpfs, bind mounts, a formatted disk, fstab."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobweb.model import Outcome
from tests.support.fabric import Fabric, FabricHost
from tests.support.live import Live, live_on, run_page_example
from tests.support.tasks import OneCob

pytestmark = [
    pytest.mark.netns,
    pytest.mark.full("the stories of the type; the gate has its conformance kit"),
    pytest.mark.timeout(600),
]

PLACE = "/srv/mnt"
TMPFS = {"path": PLACE, "source": "scratch", "fstype": "tmpfs", "options": "size=1m,noexec"}
CLEAN = f"""
while umount {PLACE}; do :; done 2> /dev/null
sed -i '\\, /srv/,d' /etc/fstab; systemctl daemon-reload
rm -rf {PLACE} "{PLACE} 2" /srv/other /var/lib/cobweb/mount
"""
EXT4 = {"fstype": "ext4", "options": "defaults"}


@pytest.fixture
def host(fabric: Fabric, systemd_host: FabricHost) -> Iterator[FabricHost]:
    """Return a host whose mounts and fstab are in the end what they were."""
    before = fabric.run(systemd_host, "cat", "/etc/fstab", "/proc/mounts").stdout
    yield systemd_host
    after = fabric.run(systemd_host, "cat", "/etc/fstab", "/proc/mounts").stdout
    fabric.run(systemd_host, "sh", "-c", CLEAN)
    assert after == before


def mounted(fabric: Fabric, host: FabricHost, path: str = PLACE) -> str:
    """Return kind and options of what is mounted at a path."""
    found = fabric.run(host, "findmnt", "-n", "-o", "FSTYPE,OPTIONS", path, check=False)
    return " ".join(found.stdout.split())


def fstab(fabric: Fabric, host: FabricHost, path: str = PLACE) -> str:
    """Return the lines of fstab for a path."""
    lines = fabric.run(host, "cat", "/etc/fstab").stdout.splitlines()
    return "\n".join(line for line in lines if f" {path} " in line)


@pytest.mark.gate("the type once on a real host")
def test_it_passes_the_conformance_kit(live: Live, host: FabricHost) -> None:
    """Check, every transition, a changed spec, and back."""
    live.check_type("mount", host, TMPFS, {**TMPFS, "options": "size=2m,nosuid"})


def test_the_example_of_its_page_works(fabric: Fabric, host: FabricHost, tmp_path: Path) -> None:
    """Applied, again without a change, and removed."""
    run_page_example(fabric, host, tmp_path, "mount")


def test_options_are_changed_under_those_who_use_it(
    fabric: Fabric, live: Live, host: FabricHost
) -> None:
    """By a remount; what somebody else remounts is found and mended."""
    cob = live.cob("mount", host, TMPFS)
    cob.go("down", "up")
    fabric.run(host, "touch", f"{PLACE}/kept")
    cob.applied, cob.spec = TMPFS, {**TMPFS, "options": "size=2m,noatime"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert "noatime" in mounted(fabric, host)
    assert "size=2048k" in mounted(fabric, host)
    assert "noexec" not in mounted(fabric, host)
    assert fstab(fabric, host) == f"scratch {PLACE} tmpfs size=2m,noatime 0 0"
    fabric.run(host, "mount", "-o", "remount,ro", PLACE)
    assert cob.check() == "outdated"
    cob.applied = cob.spec
    cob.go("outdated", "up")
    assert mounted(fabric, host).startswith("tmpfs rw")
    cob.go("up", "down")
    assert fabric.run(host, "test", "-e", PLACE, check=False).returncode == 1


def test_a_folder_is_seen_elsewhere(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """A bind mount, not at boot; another path moves it, a mount that is gone is made again."""
    fabric.run(host, "sh", "-c", "mkdir -p /srv/other; echo text > /srv/other/file")
    spec = {"path": PLACE, "source": "/srv/other", "fstype": "none", "options": "bind,ro"}
    cob = live.cob("mount", host, {**spec, "boot": False})
    cob.go("down", "up")
    assert fabric.run(host, "cat", f"{PLACE}/file").stdout == "text\n"
    assert fstab(fabric, host) == ""
    assert "ro" in mounted(fabric, host).split()[1].split(",")
    cob.applied, cob.spec = cob.spec, {**spec, "path": f"{PLACE} 2"}
    assert cob.check() == "outdated"
    cob.go("outdated", "up")
    assert mounted(fabric, host) == ""
    assert fstab(fabric, host, r"/srv/mnt\0402") == r"/srv/other /srv/mnt\0402 none bind,ro 0 0"
    fabric.run(host, "umount", f"{PLACE} 2")
    assert cob.check() == "broken"
    cob.applied, cob.spec = cob.spec, {**spec, "path": f"{PLACE} 3"}
    assert cob.check() == "broken"
    cob.go("broken", "up")
    cob.go("up", "down")


def test_what_was_mounted_there_comes_back(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """With its line in fstab."""
    fabric.run(host, "mkdir", PLACE)
    line = f"elder {PLACE} tmpfs size=3m 0 0"
    fabric.run(host, "sh", "-c", f"cp -a /etc/fstab /tmp/; echo '{line}' >> /etc/fstab")
    fabric.run(host, "mount", PLACE)
    try:
        cob = live.cob("mount", host, TMPFS)
        assert cob.check() == "outdated"
        cob.go("outdated", "up")
        assert "size=1024k" in mounted(fabric, host)
        cob.go("up", "down")
        assert "size=3072k" in mounted(fabric, host)
        assert fstab(fabric, host) == line
    finally:
        fabric.run(host, "umount", PLACE)
        fabric.run(host, "sh", "-c", "cat /tmp/fstab > /etc/fstab; systemctl daemon-reload")


def test_who_uses_it_is_named(fabric: Fabric, live: Live, host: FabricHost) -> None:
    """A busy mount is not taken away from anybody, unless the spec says so."""
    cob = live.cob("mount", host, TMPFS)
    cob.go("down", "up")
    command = f"cd {PLACE}; sleep 600 < /dev/null > /dev/null 2>&1 & echo $!"
    pid = fabric.run(host, "sh", "-c", command).stdout.strip()
    try:
        report = cob.move("up", "down")
        assert report.outcome is Outcome.FAILED
        assert f"umount: {PLACE}: target is busy. Used by {pid} (sleep)." in report.message
        assert cob.check() == "up"
        cob.applied, cob.spec = TMPFS, {**TMPFS, "lazy": True}
        cob.go("up", "down")
    finally:
        fabric.run(host, "kill", pid)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": "nonsense=1"}, "wrong fs type, bad option, bad superblock on scratch"),
        ({"source": "/dev/nowhere", **EXT4}, "special device /dev/nowhere does not exist."),
        ({"source": "/dev/nowhere", "format": "ext4"}, "there is no device /dev/nowhere on this"),
        ({"source": "/etc/passwd", "format": "ext4"}, "/etc/passwd is no block device"),
        ({"source": "UUID=1-2", "format": "xfs"}, "findfs: unable to resolve 'UUID=1-2'"),
        ({"source": "/dev/nowhere", **EXT4, "wait": 1}, "(tried for 1 s)"),
    ],
)
def test_bad_input_has_the_message_of_the_tool(
    fabric: Fabric, live: Live, host: FabricHost, change: dict[str, object], message: str
) -> None:
    """And neither a mount nor a line stays; the fixture looks at that."""
    cob = live.cob("mount", host, {**TMPFS, **change})
    report = cob.move("down", "up")
    assert report.outcome is Outcome.FAILED
    assert message in report.message
    assert cob.check() == "down"
    assert fabric.run(host, "test", "-e", PLACE, check=False).returncode == 1


def test_a_disk_is_formatted_only_if_it_is_blank(tmp_path: Path) -> None:
    """Made once and never again; what else is on a disk is left alone."""
    (tmp_path / "fabric").mkdir()
    (tmp_path / "live").mkdir()
    with (
        Fabric(tmp_path / "fabric", plain=1, disks=2, disk_mb=320, image="full") as fabric,
        live_on(fabric, tmp_path / "live") as live,
    ):
        host = fabric.plain[0]
        spec = {"path": "/bricks/d1", "source": "/dev/vdb", "fstype": "ext4", "format": "ext4"}
        cob = live.cob("mount", host, spec)
        cob.go("down", "up")
        fabric.run(host, "sh", "-c", "echo data > /bricks/d1/file")
        cob.go("up", "down")
        cob.go("down", "up")
        assert fabric.run(host, "cat", "/bricks/d1/file").stdout == "data\n"
        cob.go("up", "down")
        swap = live.cob("mount", host, {**spec, "source": "/dev/vdc"}, name="swap")
        fabric.run(host, "mkswap", "/dev/vdc")
        message = swap.move("down", "up").message
        assert "/dev/vdc is not formatted: it holds swap (wipe it if that may go)" in message
        fabric.run(host, "wipefs", "-qa", "/dev/vdc")
        fabric.run(host, "sh", "-c", "echo unknown | dd of=/dev/vdc bs=1 seek=9999")
        assert "/dev/vdc is not formatted: it is not blank" in swap.move("down", "up").message
        swap.spec = {**swap.spec, "fstype": "xfs", "format": "xfs"}
        _format_again(fabric, host, swap)


def _format_again(fabric: Fabric, host: FabricHost, disk: OneCob) -> None:
    """Find what the module has written before it formats, as after a kill: it may format again.

    But only what is its own: somebody may have used the disk meanwhile, or it is another one.
    """
    path = "/var/lib/cobweb/mount/%2Fbricks%2Fd1.json"
    record: dict[str, object] = {"ours": True, "line": None, "mounted": None, "folders": []}

    def remember(name: str) -> None:
        begun = {"device": "/dev/vdc", "uuid": name}
        text = json.dumps({**record, "formatting": begun})
        fabric.run(host, "sh", "-c", f"echo '{text}' > {path}")

    names = [str(uuid.uuid4()) for _ in range(2)]
    remember(names[0])
    disk.go("down", "up")
    fabric.run(host, "sh", "-c", "echo data > /bricks/d1/file")
    disk.go("up", "down")
    # Somebody has made that file system meanwhile, or the disk is another one.
    remember(names[1])
    disk.go("down", "up")
    assert fabric.run(host, "cat", "/bricks/d1/file").stdout == "data\n"
    disk.go("up", "down")
    # Ours, cut off in the midst of it.
    fabric.run(host, "mkfs.xfs", "-qf", "-m", f"uuid={names[0]}", "/dev/vdc")
    remember(names[0])
    disk.go("down", "up")
    assert "formatting" not in fabric.run(host, "cat", path).stdout
    disk.go("up", "down")
