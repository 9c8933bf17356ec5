"""The hosts made of namespaces are what the other tests of this folder take them for."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.conftest import FabricMaker
from tests.support.fabric import OPERATOR, Fabric, FabricHost, in_namespace, what_is_missing

pytestmark = [
    pytest.mark.full("what the tests themselves stand on; each test on real hosts uses it"),
    pytest.mark.netns,
]

MANY = 20
TIMEOUT_RC = 255
UNREACHABLE_RC = 4

PLAY = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.ping:
"""


def ssh(fabric: Fabric, host: FabricHost, command: str, *options: str) -> list[str]:
    """Return the command line of a login on a host, from the fabric's network."""
    checked = fabric.connection["ansible_ssh_common_args"].split()
    batch = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=2", "-F", "none"]
    user = [] if "-l" in options else ["-l", "root"]
    login = ["ssh", "-i", str(fabric.key), *checked, *batch, *options, *user, host.address]
    return fabric.inside(*login, command)


def say(argv: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line, with more environment variables, and return what it said."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=30, env=environment
    )


def play(fabric: Fabric, folder: Path, hosts: tuple[FabricHost, ...]) -> tuple[int, str]:
    """Ping hosts by ansible-playbook; return its exit code and what it said."""
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps(fabric.inventory({"all_of_them": hosts})), encoding="utf-8")
    book = folder / "ping.yml"
    book.write_text(PLAY, encoding="utf-8")
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = fabric.inside(str(program), "-i", str(inventory), "--forks", "20", str(book))
    done = say(argv, ANSIBLE_SSH_ARGS="-o ControlMaster=no -o ConnectTimeout=3")
    return done.returncode, done.stdout + done.stderr


def test_what_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert what_is_missing() == "hosts made of namespaces need root; run the tests as root"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    said = what_is_missing()
    assert said is not None
    assert said.startswith("not installed: ip, nsenter, ssh, ssh-keygen, sudo, ")
    assert said.endswith("; run .ci/install-system as root")


def test_every_host_answers_ssh_under_its_own_name_with_a_checked_key(fabric: Fabric) -> None:
    for host in fabric.hosts:
        done = say(ssh(fabric, host, "hostname; cat /proc/1/comm"))
        assert done.stdout.split() == [host.name, host.init]


def test_a_wrong_host_key_is_refused(fabric: Fabric, tmp_path: Path) -> None:
    first, second, *_ = fabric.plain
    keys = fabric.known_hosts.read_text(encoding="utf-8").splitlines()
    swapped = tmp_path / "known_hosts"
    _, key = next(line for line in keys if line.startswith(second.name)).split(" ", 1)
    swapped.write_text(f"{first.address} {key}\n", encoding="utf-8")
    login = ssh(fabric, first, "true")
    known = f"UserKnownHostsFile={fabric.known_hosts}"
    login[login.index(known)] = f"UserKnownHostsFile={swapped}"
    done = say(login)
    assert done.returncode == TIMEOUT_RC
    assert "HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_a_user_who_is_not_root_becomes_root_by_sudo(fabric: Fabric) -> None:
    done = say(ssh(fabric, fabric.plain[0], "id -un; sudo -n id -un", "-l", OPERATOR))
    assert done.stdout.split() == [OPERATOR, "root"]


def test_hosts_have_files_processes_and_names_of_their_own(fabric: Fabric) -> None:
    first, second, *_ = fabric.plain
    fabric.run(first, "sh", "-c", "echo mine > /etc/own")
    assert fabric.run(first, "cat", "/etc/own").stdout == "mine\n"
    assert fabric.run(second, "test", "-e", "/etc/own", check=False).returncode == 1
    assert not Path("/etc/own").exists()
    assert fabric.run(second, "hostname").stdout.strip() == second.name
    processes = fabric.run(second, "sh", "-c", "cat /proc/[0-9]*/comm").stdout
    assert "systemd" not in processes
    resolved = fabric.run(second, "getent", "hosts", first.name).stdout
    assert resolved.split()[0] == first.address


def test_a_host_cannot_change_the_kernel_of_the_machine(fabric: Fabric) -> None:
    for host in (fabric.plain[0], fabric.systemd[0]):
        for path in ("/proc/sys/kernel/panic", "/proc/sysrq-trigger", "/sys/kernel/profiling"):
            done = fabric.run(host, "sh", "-c", f": >> {path}", check=False)
            assert done.returncode != 0, path


def test_systemd_runs_and_has_only_the_units_of_the_host(fabric: Fabric) -> None:
    host = fabric.systemd[0]
    done = fabric.run(host, "systemctl", "is-system-running", "--wait", check=False)
    assert done.stdout.strip() == "running"
    listed = fabric.run(host, "systemctl", "list-units", "--type=service", "--plain").stdout
    assert "fabric-sshd.service" in listed
    assert "postgresql" not in listed


def test_systemd_carries_a_service_up_and_down(fabric: Fabric) -> None:
    host = fabric.systemd[1]
    unit = "[Service]\\nExecStart=/bin/sleep infinity\\n"
    fabric.run(host, "sh", "-c", f"printf '{unit}' > /etc/systemd/system/sleeper.service")
    fabric.run(host, "systemctl", "daemon-reload")
    fabric.run(host, "systemctl", "start", "sleeper")
    assert fabric.run(host, "systemctl", "is-active", "sleeper").stdout.strip() == "active"
    fabric.run(host, "systemctl", "stop", "sleeper")
    done = fabric.run(host, "systemctl", "is-active", "sleeper", check=False)
    assert done.stdout.strip() == "inactive"


def test_a_pulled_cable_cuts_the_host_off_while_it_runs_on(fabric: Fabric) -> None:
    host, other, *_ = fabric.plain
    fabric.link_down(host)
    try:
        assert say(ssh(fabric, host, "true")).returncode == TIMEOUT_RC
        assert fabric.run(host, "hostname").stdout.strip() == host.name
        assert say(ssh(fabric, other, "true")).returncode == 0
    finally:
        fabric.link_up(host)
    assert say(ssh(fabric, host, "true", "-o", "ConnectTimeout=20")).returncode == 0


@pytest.mark.parametrize("kind", ["plain", "systemd"])
def test_a_killed_host_loses_its_processes_and_keeps_its_disk(fabric: Fabric, kind: str) -> None:
    host = getattr(fabric, kind)[0]
    fabric.run(host, "sh", "-c", "echo stays > /var/lib/kept; echo goes > /run/lost")
    fabric.kill(host)
    assert say(ssh(fabric, host, "true")).returncode == TIMEOUT_RC
    fabric.start(host)
    done = say(ssh(fabric, host, "cat /var/lib/kept; test -e /run/lost || echo gone"))
    assert done.stdout.split() == ["stays", "gone"]


@pytest.mark.parametrize("kind", ["plain", "systemd"])
def test_a_frozen_host_takes_connections_and_says_nothing(fabric: Fabric, kind: str) -> None:
    host = getattr(fabric, kind)[0]
    fabric.freeze(host)
    try:
        with fabric.watch({"ssh": (host, 22)}) as seen:
            seen.wait_for(lambda up: up == {"ssh"})
        assert say(ssh(fabric, host, "true")).returncode == TIMEOUT_RC
    finally:
        fabric.thaw(host)
    assert say(ssh(fabric, host, "true", "-o", "ConnectTimeout=20")).returncode == 0


def test_a_watch_sees_ports_come_and_go_in_their_order(fabric: Fabric) -> None:
    first, second, *_ = fabric.plain
    with fabric.watch({"one": (first, 4000), "two": (second, 4000)}) as seen:
        seen.wait_for(lambda up: not up)
        with listening(fabric, first):
            seen.wait_for(lambda up: up == {"one"})
            with listening(fabric, second):
                seen.wait_for(lambda up: up == {"one", "two"})
            seen.wait_for(lambda up: up == {"one"})
        seen.wait_for(lambda up: not up)
    assert seen.changes() == (("one", True), ("two", True), ("two", False), ("one", False))


def listening(fabric: Fabric, host: FabricHost) -> subprocess.Popen[bytes]:
    """Listen on port 4000 of a host until its stdin ends, as the end of `with` does."""
    program = (
        "import socketserver as s, sys, threading;"
        "server = s.TCPServer(('', 4000), s.BaseRequestHandler);"
        "threading.Thread(target=server.serve_forever, daemon=True).start();"
        "sys.stdin.read()"
    )
    argv = fabric.inside_host(host, "/usr/bin/python3", "-c", program)
    return subprocess.Popen(argv, stdin=subprocess.PIPE)


def test_ansible_pings_all_hosts_and_tells_who_is_cut_off(fabric: Fabric, tmp_path: Path) -> None:
    code, said = play(fabric, tmp_path, fabric.hosts)
    assert code == 0, said
    assert said.count("ok=1") == len(fabric.hosts)
    fabric.kill(fabric.plain[0])
    try:
        code, said = play(fabric, tmp_path, fabric.hosts)
    finally:
        fabric.start(fabric.plain[0])
    assert code == UNREACHABLE_RC, said
    assert said.count("unreachable=1") == 1


def traces(fabric: Fabric, namespaces: dict[str, int]) -> list[str]:
    """Return what of a fabric this machine shows: processes, mounts, devices, cgroups."""
    found = [line for line in lines("/proc/self/mounts") if str(fabric.key.parent) in line]
    found += [line for line in lines("/proc/net/dev") if "port" in line or "bridge" in line]
    found += [str(path) for path in Path("/sys/fs/cgroup").rglob(fabric.cgroup_name)]
    processes = set().union(*(in_namespace(*each) for each in namespaces.items()))
    processes |= {path for path in Path("/proc").glob("[0-9]*") if in_cgroup(path, fabric)}
    return found + [f"process {path.name}" for path in processes]


def namespaces_of(fabric: Fabric) -> dict[str, int]:
    """Return the inodes of the keeper's namespaces by kind."""
    return {kind: (fabric.network.parent / kind).stat().st_ino for kind in ("net", "mnt", "pid")}


def lines(path: str) -> list[str]:
    """Return the lines of a file of the kernel's."""
    return Path(path).read_text(encoding="utf-8").splitlines()


def in_cgroup(process: Path, fabric: Fabric) -> bool:
    """Say whether a process, if it still is one, lives in a fabric's cgroup."""
    try:
        return fabric.cgroup_name in (process / "cgroup").read_text(encoding="utf-8")
    except OSError:
        return False


def test_twenty_hosts_boot_answer_and_leave_nothing(fabric_maker: FabricMaker) -> None:
    with fabric_maker(MANY, 0) as made:
        namespaces = namespaces_of(made)
        logins = [
            subprocess.Popen(ssh(made, host, "hostname"), stdout=subprocess.PIPE, text=True)
            for host in made.hosts
        ]
        said = [login.communicate()[0].strip() for login in logins]
        assert said == [host.name for host in made.hosts]
        running = traces(made, namespaces)
        assert sum(trace.startswith("process") for trace in running) > MANY
        assert not any(word in trace for trace in running for word in ("overlay", "bridge"))
    assert traces(made, namespaces) == []
    assert not made.key.parent.exists()


def test_a_fabric_with_hosts_cut_frozen_and_killed_leaves_nothing(
    fabric_maker: FabricMaker,
) -> None:
    with fabric_maker(3, 1) as made:
        namespaces = namespaces_of(made)
        made.link_down(made.hosts[0])
        made.freeze(made.hosts[1])
        made.kill(made.hosts[2])
        made.freeze(made.hosts[3])
    assert traces(made, namespaces) == []


def test_when_the_test_run_is_killed_the_kernel_ends_all_hosts(fabric_maker: FabricMaker) -> None:
    with fabric_maker(2, 1) as made:
        namespaces = namespaces_of(made)
        assert len(traces(made, namespaces)) > len(made.hosts)
        with closing_pidfd(made.keeper_pid) as end:
            os.kill(made.stem_pid, signal.SIGKILL)
            assert select.select([end], [], [], 20)[0]
        left = traces(made, namespaces)
        assert [each for each in left if each.startswith("process")] == []
    assert traces(made, namespaces) == []


@contextmanager
def closing_pidfd(pid: int) -> Iterator[int]:
    """Give a descriptor that becomes readable when a process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
