"""A host of the pool is lent to one node at a time, to its tenant only, and comes back."""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import ProviderError
from cobweb.plugin import NodeRequest, field_problems
from cobweb.testing import ProviderCase, provider_checks
from cobweb_plugins.providers._static import Static

NOWHERE = NodeRequest(node="", owner="", cluster="", number=1)
NAMES = [
    check.name
    for check in provider_checks(ProviderCase(make=Static, request=NOWHERE, neighbour=NOWHERE))
]


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Return ports of this machine where something answers as an SSH server does."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in "12"]

    def answer(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"SSH-2.0-test\r\n")

    threads = [threading.Thread(target=answer, args=(it,), daemon=True) for it in servers]
    for thread in threads:
        thread.start()
    yield [server.getsockname()[1] for server in servers]
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
    for thread in threads:
        thread.join(10)


def request(
    folder: Path, hosts: Mapping[str, Any], node: str = "web1-1", **more: Any
) -> NodeRequest:
    fields = {"hosts": dict(hosts)}
    assert field_problems(Static.fields, fields) == ()
    base = NodeRequest(
        node=node, owner="site", cluster="web1", number=1, site_dir=folder, timeout_s=5
    )
    return replace(base, fields=fields, **more)


@pytest.mark.parametrize("name", NAMES)
def test_it_conforms(tmp_path: Path, ports: list[int], name: str) -> None:
    hosts = {f"h{port}": {"address": "127.0.0.1", "port": port} for port in ports}
    case = ProviderCase(
        make=Static, request=request(tmp_path, hosts), neighbour=request(tmp_path, hosts, "web1-2")
    )
    (check,) = [it for it in provider_checks(case) if it.name == name]
    check()


def test_the_smallest_host_that_is_large_enough_is_lent(tmp_path: Path) -> None:
    hosts = {
        "big": {"address": "192.0.2.1", "cores": 16},
        "fit": {"address": "192.0.2.2", "cores": 4},
        "small": {"address": "192.0.2.3", "cores": 2},
    }
    asked = request(tmp_path, hosts, hardware={"name": "medium", "cores": 3})
    assert Static().create(asked).id == "fit#1"


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "too small": ({"cores": 2}, "h: cores 2 of 8"),
    "other tenant": ({"tenant": "b"}, "h: for the tenant b only"),
    "other hardware": ({"hardwaretypes": ["small"]}, "h: not of the hardware type large"),
}


@pytest.mark.parametrize("case", sorted(UNFIT))
def test_a_host_that_does_not_fit_is_not_lent_and_the_error_says_why(
    tmp_path: Path, case: str
) -> None:
    more, why = UNFIT[case]
    hosts = {"h": {"address": "192.0.2.1", **more}}
    asked = request(tmp_path, hosts, hardware={"name": "large", "cores": 8}, tenant="a")
    with pytest.raises(ProviderError, match=why):
        Static().create(asked)
    assert Static().find(asked) is None


def test_a_host_is_not_lent_twice_and_the_error_says_who_has_it(tmp_path: Path) -> None:
    hosts = {"h": {"address": "192.0.2.1"}}
    Static().create(request(tmp_path, hosts))
    with pytest.raises(ProviderError, match="h: lent to web1-1"):
        Static().create(request(tmp_path, hosts, "web2-1"))


def test_a_host_with_two_names_is_one_host(tmp_path: Path) -> None:
    Static().create(request(tmp_path, {"a": {"address": "192.0.2.1"}}))
    with pytest.raises(ProviderError, match="lent to web1-1"):
        Static().create(request(tmp_path, {"b": {"address": "192.0.2.1"}}, "web2-1"))


def test_what_is_lent_stays_lent_where_the_pool_forgets_it(tmp_path: Path) -> None:
    Static().create(request(tmp_path, {"h": {"address": "192.0.2.1"}}))
    found = Static().find(request(tmp_path, {}))
    assert found is not None
    assert found.connection["ansible_host"] == "192.0.2.1"


def _take(folder: Path, number: int) -> str | None:
    """Return the host that a node gets; None where none is left."""
    hosts = {f"h{it}": {"address": f"192.0.2.{it}"} for it in range(10)}
    try:
        machine = Static().create(request(folder, hosts, f"web1-{number}"))
    except ProviderError:
        return None
    return machine.addresses["access_v4"]


def test_processes_that_ask_at_once_get_hosts_of_their_own(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        lent = pool.starmap(_take, [(tmp_path, number) for number in range(14)])
    assert sorted(it for it in lent if it) == sorted(f"192.0.2.{it}" for it in range(10))
    assert lent.count(None) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is damaged"), ('{"format": 2, "hosts": {}}', "has the format 2"), ("[]", "is damaged")],
    ids=["broken", "newer", "list"],
)
def test_a_file_that_cannot_be_read_is_not_overwritten(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / ".cobweb" / "static.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(ProviderError, match=said):
        Static().create(request(tmp_path, {"h": {"address": "192.0.2.1"}}))
    assert file.read_text() == text


def test_a_host_without_ssh_is_not_confirmed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    asked = request(tmp_path, {"h": {"address": "127.0.0.1", "port": port}}, timeout_s=0.1)
    machine = Static().create(asked)
    with pytest.raises(ProviderError, match=f"no SSH at 127.0.0.1 port {port}"):
        Static().confirm(asked, machine)


def test_the_assignments_can_stand_where_others_see_them(tmp_path: Path) -> None:
    hosts = {"h": {"address": "192.0.2.1"}}
    asked = request(tmp_path / "one", hosts)
    asked = replace(asked, fields={**asked.fields, "assignments": str(tmp_path / "shared.json")})
    Static().create(asked)
    elsewhere = replace(asked, site_dir=tmp_path / "two", node="web2-1", owner="two")
    with pytest.raises(ProviderError, match="lent to web1-1"):
        Static().create(elsewhere)
    assert json.loads((tmp_path / "shared.json").read_text())["format"] == 1
