"""`cobweb run`, `put`, `get` over SSH, seen from outside: hosts that freeze, cut links, kills."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.conftest import FabricMaker
from tests.support.fabric import Fabric, FabricHost
from tests.support.operator import Operator
from tests.support.pool_members import until

pytestmark = [pytest.mark.netns, pytest.mark.timeout(300)]

SITE = "cobweb: 1\nname: broadcast\ninventory: hosts.yml\n"


def operator_of(fabric: Fabric, folder: Path) -> Operator:
    folder.mkdir()
    (folder / "site.yml").write_text(SITE, encoding="utf-8")
    operator = Operator(fabric, folder)
    operator.write_inventory({"nodes": fabric.plain})
    return operator


@pytest.fixture
def operator(fabric: Fabric, tmp_path: Path) -> Operator:
    return operator_of(fabric, tmp_path / "site")


@pytest.fixture
def frozen(fabric: Fabric) -> Iterator[list[FabricHost]]:
    """Return two hosts that stand still while a test lasts: TCP answers, SSH does not."""
    hosts = list(fabric.plain[-2:])
    for host in hosts:
        fabric.freeze(host)
    yield hosts
    for host in hosts:
        fabric.thaw(host)


@pytest.mark.gate("the main path over SSH; the two frozen hosts take their time limit")
def test_who_answers_is_grouped_and_who_does_not_is_named(
    operator: Operator, frozen: list[FabricHost]
) -> None:
    run = operator.cobweb("run", "--on", "nodes", "--timeout", "4s", "--", "echo", "well met")
    assert run.code == 1
    assert run.out.splitlines() == [
        "h[01-04] (4 hosts): well met",
        "h[05-06] (2 hosts): no answer within 4 s",
    ]
    assert run.err.strip() == "4 of 6 hosts answered; missing: h[05-06]"
    assert [it.name for it in frozen] == ["h05", "h06"]


@pytest.mark.full("fifty hosts; the gate has six")
def test_fifty_hosts_of_which_two_are_frozen(fabric_maker: FabricMaker, tmp_path: Path) -> None:
    with fabric_maker(50, 0) as fabric:
        operator = operator_of(fabric, tmp_path / "site")
        for host in fabric.plain[20:22]:
            fabric.freeze(host)
        run = operator.cobweb(
            *["run", "--on", "all", "--timeout", "5s", "-o", "json", "--", "hostname"]
        )
        assert run.code == 1, run.err
        data = run.data()
        assert {(it["hosts"][0], it["output"].strip()) for it in data["answers"]} == {
            (it.name, it.name) for it in (*fabric.plain[:20], *fabric.plain[22:])
        }
        assert [it["hosts"] for it in data["missing"]] == [["h21", "h22"]]


PLACE = "/var/tmp"  # noqa: S108  # on a host of the test's own
COMMAND = f"echo begun; echo $$ >{PLACE}/new; mv {PLACE}/new {PLACE}/pid; sleep 1000; :"


def await_command(fabric: Fabric, *hosts: FabricHost) -> list[str]:
    """Wait until hosts are at COMMAND; return the ids of their processes."""
    files = [fabric.root(it) / PLACE[1:] / "pid" for it in hosts]
    until(lambda: all(it.exists() for it in files))
    pids = [it.read_text().strip() for it in files]
    for file in files:
        file.unlink()
    return pids


def runs(fabric: Fabric, host: FabricHost, pid: str) -> bool:
    """Say whether a host has this process."""
    return fabric.run(host, "kill", "-0", pid, check=False).returncode == 0


@pytest.mark.full("a process that is killed, and its commands on two hosts; the gate has one here")
def test_commands_on_hosts_end_when_cobweb_is_killed(fabric: Fabric, operator: Operator) -> None:
    hosts = fabric.plain[:2]
    names = ",".join(it.name for it in hosts)
    with operator.start("run", "--on", names, "--", COMMAND) as started:
        pids = await_command(fabric, *hosts)
        assert all(runs(fabric, *each) for each in zip(hosts, pids, strict=True))
        started.process.kill()
        started.end()
    until(lambda: not any(runs(fabric, *each) for each in zip(hosts, pids, strict=True)))


@pytest.mark.full("an interrupt with commands on two hosts; the gate has one here")
def test_an_interrupt_ends_commands_on_hosts(fabric: Fabric, operator: Operator) -> None:
    hosts = fabric.plain[:2]
    names = ",".join(it.name for it in hosts)
    with operator.start("run", "--on", names, "--", COMMAND) as started:
        pids = await_command(fabric, *hosts)
        started.process.send_signal(signal.SIGINT)
        run = started.end()
    assert run.code == 130
    assert run.out.splitlines() == ["h[01-02] (2 hosts): interrupted:", "  begun"]
    assert run.err.strip() == "0 of 2 hosts answered; missing: h[01-02]"
    until(lambda: not any(runs(fabric, *each) for each in zip(hosts, pids, strict=True)))


@pytest.mark.full("ssh's own time to connect")
def test_hosts_that_were_frozen_before_are_missing_without_a_time_limit(
    operator: Operator, frozen: list[FabricHost]
) -> None:
    run = operator.cobweb("run", "--on", "nodes", "-o", "json", "--", "echo", "hi")
    assert run.code == 1
    data = run.data()
    assert [it["hosts"] for it in data["answers"]] == [["h01", "h02", "h03", "h04"]]
    missing = [name for it in data["missing"] for name in it["hosts"]]
    assert missing == [it.name for it in frozen]
    assert all(it["reason"] for it in data["missing"])
    assert run.err.strip() == "4 of 6 hosts answered; missing: h[05-06]"


@pytest.mark.full("ssh's signs of life")
def test_a_host_that_freezes_at_a_command_is_missing_without_a_time_limit(
    fabric: Fabric, operator: Operator
) -> None:
    host = fabric.plain[0]
    with operator.start("run", "--on", host.name, "--", COMMAND) as started:
        (pid,) = await_command(fabric, host)
        fabric.freeze(host)
        try:
            run = started.end()
        finally:
            fabric.thaw(host)
    assert run.code == 1
    lost = "the connection was lost while the command ran"
    assert run.out.splitlines()[:2] == [f"{host.name}: {lost}:", "  begun"]  # ssh's words follow
    until(lambda: not runs(fabric, host, pid))  # sshd has noticed it, too


@pytest.mark.full("half a gigabyte, and ssh's signs of life")
def test_a_link_that_is_cut_in_the_middle_of_a_put_leaves_the_old_file(
    fabric: Fabric, operator: Operator, tmp_path: Path
) -> None:
    host, size = fabric.plain[0], 2**29
    with (tmp_path / "big").open("wb") as file:
        file.truncate(size)
    folder = fabric.root(host) / PLACE[1:] / "of-put"
    folder.mkdir()
    (folder / "big").write_text("old\n")
    dest = f"{PLACE}/of-put/big"
    with operator.start("put", "--on", host.name, str(tmp_path / "big"), dest) as started:
        until(lambda: any(it.stat().st_size for it in folder.glob("big.*")))
        fabric.link_down(host)
        try:
            run = started.end()
        finally:
            fabric.link_up(host)
    assert (run.code, run.err.strip()) == (1, f"0 of 1 host answered; missing: {host.name}")
    assert (folder / "big").read_text() == "old\n"
    digest = hashlib.sha256(b"new\n").hexdigest()
    (tmp_path / "big").write_text("new\n")
    words = ("put", "--on", host.name, "--sha256", digest, str(tmp_path / "big"), dest)
    assert operator.cobweb(*words).out == f"{host.name}: was put\n"
    assert (folder / "big").read_text() == "new\n"


@pytest.mark.gate("the main path of files over SSH")
def test_a_folder_goes_to_hosts_and_comes_back(
    fabric: Fabric, operator: Operator, tmp_path: Path
) -> None:
    (tmp_path / "conf" / "deep").mkdir(parents=True)
    (tmp_path / "conf" / "deep" / "a b").write_bytes(os.urandom(3 * 2**20))
    content = (tmp_path / "conf" / "deep" / "a b").read_bytes()
    put = operator.cobweb("put", "--on", "nodes", str(tmp_path / "conf"), f"{PLACE}/conf")
    assert (put.code, put.out) == (0, "h[01-06] (6 hosts): was unpacked\n"), put.err
    got = operator.cobweb("get", "--on", "nodes", f"{PLACE}/conf", str(tmp_path / "back"))
    assert (got.code, got.out) == (0, "h[01-06] (6 hosts): is here\n"), got.err
    for host in fabric.plain:
        assert (tmp_path / "back" / host.name / "conf" / "deep" / "a b").read_bytes() == content
