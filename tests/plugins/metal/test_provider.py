"""The provider `metal`: it finds what the boot server runs, and takes it away by its power."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import CobwebError, ProviderError
from cobweb.plugin import NodeRequest, load_plugins
from cobweb.testing import ProviderCase, provider_checks
from cobweb_plugins.metal._provider import Metal
from tests.plugins.metal.fake import FakeServer, view
from tests.plugins.metal.real_server import HARDWARE, IMAGE_SHA256, RealServer

ADDRESS, VCLUSTER = "127.0.0.1", "shop/1790000000"
SAME = {"name": "shop-1", "address": ADDRESS, "vcluster": VCLUSTER}
DISK = {"written": 1790000000.5}
ID = "m01@1790000000.5"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    """Yield a boot server that is up."""
    server = RealServer(tmp_path)
    server.start()
    yield server
    server.kill()


def asked(url: str, folder: Path, **more: Any) -> NodeRequest:
    """Return a request for shop-1 on m01."""
    image = {"machine": "m01", **SAME, "port": 22, "user": "root", "key": "", **more}
    fields = {"url": url, "folder": str(folder), "power": {}}
    return NodeRequest(
        node="shop-1", owner="o", cluster="shop", number=1, fields=fields, image=image
    )


def request(fake: FakeServer, **more: Any) -> NodeRequest:
    """Return a request for shop-1 on m01 of the fake server."""
    return asked(fake.url, fake.folder, **more)


def test_it_is_a_provider_by_the_protocol(tmp_path: Path) -> None:
    assert "metal" in load_plugins().providers
    node = asked("http://127.0.0.1:7480", tmp_path)
    satisfies, *_ = provider_checks(ProviderCase(make=Metal, request=node, neighbour=node))
    satisfies()


def test_a_machine_that_runs_the_node_is_found(fake: FakeServer) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    found = Metal().find(request(fake, key="keys/shop", port=2222))
    assert found is not None
    assert (found.id, found.ready) == (ID, True)
    assert found.addresses == {"access_v4": ADDRESS, "bind_v4": ADDRESS}
    assert found.connection == {
        "ansible_host": ADDRESS,
        "ansible_port": 2222,
        "ansible_user": "root",
        "ansible_ssh_private_key_file": "keys/shop",
    }
    assert Metal().create(request(fake, key="keys/shop", port=2222)) == found
    found = Metal().find(request(fake))
    assert found is not None
    assert "ansible_ssh_private_key_file" not in found.connection


@pytest.mark.parametrize(
    "said",
    [
        *({"phase": it} for it in ("off", "starting", "primed", "booting", "stopping", "unknown")),
        {"name": "shop-2"},
        {"address": "127.0.0.2"},
        {"vcluster": "shop/1790000001"},
        {"phase": "off", "name": "", "address": "", "vcluster": "", "disk": None},
        None,
    ],
)
def test_a_machine_that_runs_something_else_is_none(
    fake: FakeServer, said: dict[str, Any] | None
) -> None:
    if said is not None:
        fake.views["m01"] = view(**{**SAME, "disk": DISK, "failure": "no word", **said})
    assert Metal().find(request(fake)) is None
    with pytest.raises(ProviderError, match="m01 does not run shop-1: it is ") as raised:
        Metal().create(request(fake))
    phase = (said or {}).get("phase", "active")
    assert str(raised.value.message).endswith("not known" if said is None else f"{phase}, no word")
    assert "cobweb metal show m01" in raised.value.hint


def test_of_a_server_that_does_not_answer_the_book_counts(fake: FakeServer) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    fake.refused["GET", "machines"] = 0
    assert Metal().find(request(fake)) is None, "its folder has no book: it never was there"
    fake.refused["GET", "machines"] = 409
    with pytest.raises(CobwebError, match="GET of machines is refused"):
        Metal().find(request(fake))


def test_a_node_of_a_catalog_written_by_hand_is_refused(fake: FakeServer) -> None:
    with pytest.raises(ProviderError, match="shop-1 has no machine") as raised:
        Metal().find(replace(request(fake), image={}))
    assert "the section `metal` makes it" in raised.value.hint


def test_a_machine_is_confirmed_once_it_accepts_connections(fake: FakeServer) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    with closing(socket.create_server((ADDRESS, 0))) as listener:
        wanted = request(fake, port=listener.getsockname()[1])
        machine = Metal().create(wanted)
        assert Metal().confirm(wanted, machine) == machine
    with pytest.raises(ProviderError, match=f"no connection to {ADDRESS} port "):
        Metal().confirm(replace(wanted, timeout_s=0.1), machine)


def test_a_machine_is_switched_off_and_awaited(fake: FakeServer) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    fake.polls = [{"phase": "stopping"}, {"phase": "off", "over": True}]
    machine = Metal().create(request(fake))
    Metal().delete(request(fake), machine)
    assert fake.of("POST") == [{"action": "off", "power": None}]
    assert fake.polls == []
    Metal().delete(request(fake), machine)
    assert len(fake.of("POST")) == 1


def test_a_machine_that_was_primed_since_is_left_alone(fake: FakeServer) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    machine = Metal().create(request(fake))
    fake.views["m01"]["disk"] = {"written": 1790000001}
    Metal().delete(request(fake), machine)
    assert fake.of("POST") == []


@pytest.mark.parametrize(
    ("said", "timeout_s", "cause"),
    [
        ({"phase": "unknown", "over": True, "failure": "the BMC says no"}, 60, "the BMC says no"),
        ({"phase": "stopping", "asks": "switch m01 off"}, 0.1, "stopping, switch m01 off"),
        ({"phase": "starting", "over": True}, 60, "starting"),
    ],
)
def test_a_machine_that_does_not_go_off_is_told(
    fake: FakeServer, said: dict[str, Any], timeout_s: float, cause: str
) -> None:
    fake.views["m01"] = view(**SAME, disk=DISK)
    fake.polls = [said]
    wanted = replace(request(fake), timeout_s=timeout_s)
    machine = Metal().create(wanted)
    with pytest.raises(ProviderError, match=f"m01 is not off: it is .*{cause}"):
        Metal().delete(wanted, machine)


@pytest.mark.gate("a boot server of its own, and a machine that starts three times")
def test_each_priming_makes_another_machine_and_a_restart_does_not(server: RealServer) -> None:
    server.store()
    ids = []
    for owner in ("first", "first", "second"):
        with closing(socket.socket()) as system:
            system.bind((ADDRESS, 0))
            port = system.getsockname()[1]
            wanted = asked(f"http://{server.address}:7480", server.folder / "server", port=port)
            server.order("active", **SAME, ready={"tcp": port}, owner=owner)
            server.booted()
            assert server.say("hello", HARDWARE)[0] == 200
            if server.view()["phase"] == "priming":
                server.say("word?word=primed", IMAGE_SHA256.encode())
            assert server.say("order", method="GET") == (200, b"boot\n")
            assert Metal().find(wanted) is None
            server.boot()
            system.listen()
            assert server.over()["phase"] == "active"
            machine = Metal().create(wanted)
            ids.append(machine.id)
            assert Metal().confirm(wanted, machine) == machine
        Metal().delete(wanted, machine)
        assert (server.power_folder / "state").read_text() == "off"
        assert Metal().find(wanted) is None
    assert ids[0] == ids[1] != ids[2]
