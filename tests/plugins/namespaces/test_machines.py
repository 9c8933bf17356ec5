"""Machines of namespaces are real, outlive whoever made them, and go without a trace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cobweb.errors import CredentialsError, ProviderError
from cobweb.plugin import Machine, NodeRequest
from cobweb_plugins.namespaces import _machines
from cobweb_plugins.namespaces._provider import Namespaces
from cobweb_plugins.namespaces._records import Records
from tests.support.cloud import KilledError
from tests.support.machines import OWNER, Corner

pytestmark = [
    pytest.mark.full("real machines in each way; the gate has a cluster that comes about"),
    pytest.mark.netns,
]

CREATE = """
import json, os, sys
from cobweb.plugin import NodeRequest
from cobweb_plugins.namespaces import _machines, _records
fields, place = json.loads(sys.argv[1]), sys.argv[2]

def dying(inner):
    def call(*arguments):
        inner(*arguments)
        os._exit(9)
    return call

if place == "record":
    _records.Records.add = dying(_records.Records.add)
elif place:
    setattr(_machines, place, dying(getattr(_machines, place)))
request = NodeRequest(
    node="web1-1", owner="tests", cluster="web1", number=1, fields=fields, image={"image": "plain"}
)
print(_machines.NamespaceMachines().create(request).id)
"""
"""A process that makes a machine, and dies on its way if it is told a place."""

PLACES = ("ensure_bridge", "record", "_make_key", "_plan", "connect")


def made(request: NodeRequest) -> Machine:
    provider = Namespaces()
    return provider.confirm(request, provider.create(request))


def deleted(request: NodeRequest) -> None:
    provider = Namespaces()
    machine = provider.find(request)
    if machine is not None:
        provider.delete(request, machine)


def created_elsewhere(corner: Corner, place: str = "") -> subprocess.CompletedProcess[str]:
    """Make the machine in a process of its own, which has ended."""
    argv = [sys.executable, "-c", CREATE, json.dumps(dict(corner.fields)), place]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def until(happened: Callable[[], bool]) -> None:
    """Wait for what no event tells; AssertionError if it does not happen."""
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_machine_outlives_the_process_that_made_it(
    corner: Corner, request_for: NodeRequest
) -> None:
    done = created_elsewhere(corner)
    assert done.returncode == 0, done.stderr
    provider = Namespaces()
    machine = provider.find(request_for)
    assert machine is not None
    assert machine.id == done.stdout.strip()
    confirmed = provider.confirm(request_for, machine)
    assert corner.run(confirmed, "hostname") == "web1-1"
    provider.delete(request_for, confirmed)
    assert corner.traces() == []


@pytest.mark.parametrize("place", PLACES)
def test_a_create_that_is_killed_leaves_nothing_that_is_not_found(
    corner: Corner, request_for: NodeRequest, place: str
) -> None:
    assert created_elsewhere(corner, place).returncode == 9
    deleted(request_for)
    assert set(corner.traces()) <= {corner.bridge}
    assert corner.run(made(request_for), "hostname") == "web1-1"
    deleted(request_for)
    assert corner.traces() == []


@pytest.mark.parametrize("place", [place for place in PLACES if place != "record"])
def test_a_create_that_fails_leaves_nothing_that_is_not_found(
    corner: Corner, request_for: NodeRequest, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(_machines, place, fail)
        with pytest.raises(ProviderError, match="web1-1: no space left"):
            Namespaces().create(request_for)
    deleted(request_for)
    assert set(corner.traces()) <= {corner.bridge}
    made(request_for)
    deleted(request_for)
    assert corner.traces() == []


@pytest.mark.parametrize("place", ["_end", "cut", "drop_bridge"])
def test_a_delete_that_ends_half_way_is_done_by_the_next_one(
    corner: Corner, request_for: NodeRequest, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Namespaces().create(request_for)
    real = getattr(_machines, place)

    def last(*arguments: object) -> None:
        real(*arguments)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(_machines, place, last)
        with pytest.raises(KilledError):
            Namespaces().delete(request_for, machine)
    Namespaces().delete(request_for, machine)
    assert Namespaces().find(request_for) is None
    assert corner.traces() == []


def test_machines_know_their_owners_machines_by_name(
    corner: Corner, request_for: NodeRequest
) -> None:
    first = made(request_for)
    neighbour = corner.request("web1-2")
    made(neighbour)
    stranger = replace(corner.request("web9-1"), owner="somebody else")
    Namespaces().create(stranger)
    known = corner.run(first, "cat /etc/hosts").splitlines()
    assert [line.split()[1] for line in known] == ["localhost", "web1-1", "web1-2"]
    assert corner.run(first, "exec 3<>/dev/tcp/web1-2/22; head -c3 <&3") == "SSH"
    deleted(neighbour)
    assert "web1-2" not in corner.run(first, "cat /etc/hosts")
    deleted(stranger)
    deleted(request_for)


def test_a_machine_that_has_ended_is_not_ready_and_goes_as_any_other(
    corner: Corner, request_for: NodeRequest
) -> None:
    machine = made(request_for)
    folder = Records(corner.state).folder(request_for)
    (_machines._cgroup(folder) / "cgroup.kill").write_text("1")
    provider = Namespaces()

    def ended() -> bool:
        found = provider.find(request_for)
        return found is not None and not found.ready

    until(ended)
    with pytest.raises(ProviderError, match=f"the machine {machine.id} has ended"):
        provider.confirm(request_for, machine)
    provider.delete(request_for, machine)
    assert corner.traces() == []
    with pytest.raises(ProviderError, match="is gone"):
        provider.confirm(request_for, machine)


def test_an_image_with_systemd_runs_services(corner: Corner) -> None:
    request = corner.request("web1-1", "systemd")
    machine = made(request)
    command = "systemctl is-system-running --wait || systemctl --failed"
    assert corner.run(machine, command) == "running"
    deleted(request)
    assert corner.traces() == []


def test_its_disk_has_the_size_that_its_hardware_says(corner: Corner) -> None:
    request = replace(corner.request("web1-1"), hardware={"disk_mb": 300})
    machine = made(request)
    assert corner.run(machine, "df --output=size -BM / | tail -1") == "300M"
    deleted(request)


REFUSED = {
    "image": ({}, {"image": "windows"}, "no image 'windows' .*plain and systemd"),
    "network": ({"network": "10.1.2.3/24"}, {}, "'10.1.2.3/24' is no network"),
    "in use": ({"network": "127.0.0.0/8"}, {}, "lo of this machine has 127.0.0.1"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_be_is_refused_before_anything_is_made(corner: Corner, case: str) -> None:
    fields, image, said = REFUSED[case]
    request = replace(corner.request("web1-1", **fields), image=image)
    with pytest.raises(ProviderError, match=said):
        Namespaces().create(request)
    assert corner.traces() == []


def test_without_root_it_is_refused(
    request_for: NodeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(CredentialsError, match=r"need root \(run cobweb as root\)"):
        Namespaces().create(request_for)


def test_an_address_that_was_given_back_waits_for_its_turn(tmp_path: Path) -> None:
    records = Records(tmp_path)
    request = NodeRequest(node="web1-1", owner=OWNER, cluster="web1", number=1)
    given = []
    for _ in range(7):
        given.append(records.add(request, "m", "b", "10.0.0.0/29").address)
        records.remove(request)
    assert given == [*(f"10.0.0.{number}" for number in range(2, 7)), "10.0.0.2", "10.0.0.3"]


def test_a_full_network_is_an_error(tmp_path: Path) -> None:
    records = Records(tmp_path)
    request = NodeRequest(node="", owner=OWNER, cluster="web1", number=1)
    for number in range(5):
        records.add(replace(request, node=f"web1-{number}"), "m", "b", "10.0.0.0/29")
    with pytest.raises(ProviderError, match=r"all 5 addresses of 10.0.0.0/29 are in use"):
        records.add(replace(request, node="web1-9"), "m", "b", "10.0.0.0/29")
