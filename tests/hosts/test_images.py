"""Hosts with images, disks and names of their own: what is in them, and that they leave nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.conftest import FabricMaker
from tests.support.fabric import IMAGES, Fabric, FabricHost

pytestmark = [
    pytest.mark.full("what the tests themselves stand on; each test of a type uses it"),
    pytest.mark.netns,
]

NAMES = ("st1", "st2")
PROGRAMS = (
    *("corosync", "glusterd", "nft", "nginx", "podman", "crm_resource", "arping", "cron"),
    *("sge_qmaster", "sge_execd", "qconf", "slurmctld", "slurmd", "scontrol", "munged"),
)


@pytest.fixture(scope="module")
def full(fabric_maker: FabricMaker) -> Iterator[Fabric]:
    """Return a plain host and one with systemd that have all packages and two disks."""
    with fabric_maker(1, 1, names=NAMES, image="full", disks=2, disk_mb=64) as made:
        yield made


def shell(fabric: Fabric, host: FabricHost, script: str) -> str:
    """Run a shell script on a host and return what it printed, its errors too."""
    done = fabric.run(host, "bash", "-c", script, check=False, timeout_s=60)
    return (done.stdout + done.stderr).strip()


def test_hosts_have_the_names_that_were_asked_for_and_know_each_other(full: Fabric) -> None:
    first, second = full.hosts
    assert [shell(full, host, "hostname") for host in full.hosts] == list(NAMES)
    assert shell(full, second, "getent hosts st1").split() == [first.address, "st1"]


def test_an_image_has_programs_that_this_machine_may_be_without(full: Fabric) -> None:
    for host in full.hosts:
        found = shell(full, host, f"type -P {' '.join(PROGRAMS)}").splitlines()
        assert [Path(path).name for path in found] == list(PROGRAMS)


@pytest.mark.parametrize("unit", ["cron", "munge", "nginx", "nftables"])
def test_units_of_an_image_start_when_asked_and_not_before(full: Fabric, unit: str) -> None:
    host = full.systemd[0]
    said = shell(full, host, f"systemctl is-active {unit}; systemctl start {unit}; echo $?")
    assert said.split() == ["inactive", "0"]
    said = shell(full, host, f"systemctl is-active {unit}; systemctl stop {unit}; echo $?")
    assert said.split() == ["active", "0"]


def test_no_service_of_an_image_starts_at_boot(full: Fabric) -> None:
    assert shell(full, full.systemd[0], "systemctl is-system-running --wait") == "running"
    daemons = "sge_qmaster|sge_execd|slurmctld|slurmd|munged|corosync|glusterd|nginx"
    for host in full.hosts:
        assert shell(full, host, f"ps -eo comm= | grep -Ex '{daemons}'") == ""
    said = shell(full, full.systemd[0], "systemctl is-active gridengine-exec gridengine-master")
    assert set(said.split()) == {"inactive"}


def test_an_enabled_unit_starts_at_boot(full: Fabric) -> None:
    host = full.systemd[0]
    shell(full, host, "systemctl enable cron")
    full.kill(host)
    full.start(host)
    assert shell(full, host, "systemctl is-system-running --wait") == "running"
    assert (
        shell(full, host, "systemctl is-active cron; systemctl -q disable --now cron") == "active"
    )


def test_disks_hold_file_systems_and_outlive_a_host(full: Fabric) -> None:
    for host in full.hosts:
        script = "mkfs.ext4 -q /dev/vdc && mount /dev/vdc /srv && echo kept > /srv/file && sync"
        assert shell(full, host, script) == ""
        full.kill(host)
    full.start(*full.hosts)
    for host in full.hosts:
        said = shell(full, host, "mount /dev/vdc /srv && cat /srv/file; umount /srv; ls /dev/vd*")
        assert said.split() == ["kept", "/dev/vdb", "/dev/vdc"]


def test_a_host_sets_up_its_own_network_and_packet_filter(full: Fabric) -> None:
    for host in full.hosts:
        script = "sysctl -qw net.ipv4.ip_forward=1; cat /proc/sys/net/ipv4/ip_forward"
        assert shell(full, host, script) == "1"
        assert shell(full, host, "nft add table inet own; nft list tables") == "table inet own"
        assert "ermission denied" in shell(full, host, "sysctl -w kernel.panic=7")


def test_a_bare_host_installs_from_its_repository(fabric_maker: FabricMaker) -> None:
    with fabric_maker(1, 0, image="deps") as made:
        (host,) = made.hosts
        assert shell(made, host, "type -P cron") == ""
        policy = "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod +x $_"
        shell(made, host, f"{policy}; apt-get -q -y install cron")
        assert shell(made, host, "type -P cron") == "/usr/sbin/cron"


def test_loop_devices_are_free_when_the_test_run_is_killed(fabric_maker: FabricMaker) -> None:
    with fabric_maker(1, 0, image=IMAGES[0], disks=1, disk_mb=16) as made:
        folder = made.key.parent
        shell(made, made.hosts[0], "mkfs.ext4 -q /dev/vdb && mount /dev/vdb /srv")
        assert str(folder) in loops()
        end = os.pidfd_open(made.keeper_pid)
        os.kill(made.stem_pid, signal.SIGKILL)
        assert select.select([end], [], [], 20)[0]
        os.close(end)
        assert str(folder) not in loops()


def loops() -> str:
    """Return what loop devices hold."""
    return subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
