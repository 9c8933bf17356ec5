"""The boot server of a real network, as machines and coordinators find it; dnsmasq is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb_plugins.metal.server._network import Network, host_keys
from cobweb_plugins.metal.server._records import Goal, Record
from cobweb_plugins.metal.server._server import BootServer
from tests.plugins.metal.real_server import HARDWARE, IMAGE, LIMIT_S, MAC, RealServer, until

STRANGER = "52:54:00:00:00:99"
ANYBODY = "*:*:*:*:*:*,120\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    """Return a boot server with a trampoline of two files."""
    server = RealServer(tmp_path, domain="cod.test")
    trampoline = tmp_path / "server" / "trampoline"
    trampoline.mkdir(parents=True)
    (trampoline / "vmlinuz").write_bytes(b"a kernel")
    (trampoline / "initrd.gz").write_bytes(b"an archive")
    server.start()
    yield server
    server.kill()


def lines(server: RealServer) -> str:
    return (server.folder / "server" / "dhcp" / "hosts").read_text()


def window(server: RealServer, seconds: float | None = None) -> dict[str, Any]:
    """Return what discovery has found, with `seconds` after it was opened for so long."""
    said = ("GET", None) if seconds is None else ("PUT", {"seconds": seconds})
    status, body = server.ask(said[0], "/v1/discovery", said[1])
    assert status == 200, body
    return dict(json.loads(body))


def script(server: RealServer, mac: str) -> tuple[int, str]:
    status, body = server.ask("GET", f"/boot?mac={mac}", key="")
    return status, body.decode()


def test_the_files_of_the_trampoline_are_handed_out(server: RealServer) -> None:
    assert server.ask("GET", "/trampoline/vmlinuz", key="") == (200, b"a kernel")
    assert server.ask("GET", "/trampoline/initrd.gz", key="") == (200, b"an archive")
    (server.folder / "server" / "trampoline" / "vmlinuz").unlink()
    assert server.ask("GET", "/trampoline/vmlinuz", key="")[0] == 404


def test_without_a_trampoline_no_machine_is_touched(server: RealServer) -> None:
    (server.folder / "server" / "trampoline" / "initrd.gz").unlink()
    for method, path, body in (
        ("PUT", "/v1/machines/m01", server.goal("trampoline")),
        ("PUT", "/v1/discovery", {"seconds": 60}),
    ):
        status, answer = server.ask(method, path, body)
        assert (status, "build-trampoline" in answer.decode()) == (409, True)
    assert server.asked() == []


def test_without_an_answer_of_dhcp_no_machine_is_switched_on(server: RealServer) -> None:
    server.order("trampoline")
    found = server.over()
    assert found["phase"] == "off"
    assert "the DHCP server does not answer" in found["failure"]
    assert "on" not in server.asked()
    assert lines(server) == f"{MAC},120\n"


def test_files_that_were_damaged_are_written_anew(server: RealServer) -> None:
    server.order("trampoline")
    server.over()
    (server.folder / "server" / "dhcp" / "hosts").write_bytes(b"\xff\xfe no text")
    server.order("trampoline")
    server.over()
    assert lines(server) == f"{MAC},120\n"


@pytest.mark.parametrize("domain", ["shop.test", "cod.test", ""])
def test_a_name_in_a_domain_is_known_while_its_system_may_run(tmp_path: Path, domain: str) -> None:
    network = Network(tmp_path, "127.0.0.1", "cod.test")
    goal = Goal(state="active", name="web1", address="127.0.0.2", domain=domain)
    lent = {"name": goal.name, "address": goal.address} | ({"domain": domain} if domain else {})
    record = Record(id="m01", mac=MAC, power={}, goal=goal, phase="active", runs=goal, lent=lent)
    network.tell([replace(record, host_keys=("rsa A",))], is_open=False)
    own = ",web1.shop.test" if domain == "shop.test" else ""
    known = (tmp_path / "known_hosts").read_text()
    assert known == f"web1,127.0.0.2,web1.cod.test{own} rsa A\n"
    folder = tmp_path / "dhcp"
    assert (folder / "hosts").read_text() == f"{MAC},127.0.0.2,web1,120\n"
    assert (folder / "names").read_text() == (f"127.0.0.2 web1.{domain}\n" if domain else "")
    assert (folder / "domains").read_text() == (f"server=/{domain}/\n" if domain else "")
    network.tell([replace(record, phase="off", runs=None)], is_open=False)
    assert (folder / "names").read_text() + (tmp_path / "known_hosts").read_text() == ""


@pytest.mark.parametrize("said", [b"", b"HT", b"HTTP/1.0", None])
def test_a_system_that_speaks_no_ssh_has_no_host_keys(said: bytes | None) -> None:
    """`said` is what it says before it hangs up; None: it neither says anything nor hangs up."""
    ended = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said is None:
            await reader.read()
        else:
            writer.write(said)
        writer.close()
        ended.set()

    async def ask() -> tuple[str, ...] | None:
        async with await asyncio.start_server(speak, "127.0.0.1", 0) as listener:
            _, port = listener.sockets[0].getsockname()
            found = await host_keys("127.0.0.1", port, LIMIT_S)
            await ended.wait()
            return found

    assert asyncio.run(ask()) == ()


def test_a_stranger_is_looked_at_once_while_the_window_is_open(server: RealServer) -> None:
    assert "sanboot" in script(server, STRANGER)[1]
    assert window(server) == {"until": 0.0, "found": []}
    assert window(server, 60)["until"] > 0
    assert lines(server) == ANYBODY
    status, text = script(server, STRANGER)
    assert (status, "/trampoline/vmlinuz" in text) == (200, True)
    token = text.split("cobweb.token=")[1].split()[0]
    assert server.say("hello", HARDWARE, token=token, source="127.0.0.2")[0] == 200
    assert window(server)["found"] == []
    assert server.say("hello", b"[" * 100_000, token=token)[0] == 400
    assert server.say("hello", {**HARDWARE, "cores": 10**400}, token=token)[0] == 400
    assert server.say("hello", {"cores": "many"}, token=token)[0] == 400
    assert server.say("hello", HARDWARE, token=token)[0] == 200
    assert server.say("order", method="GET", token=token) == (200, b"boot\n")
    assert server.say("image", method="GET", token=token)[0] == 403
    (found,) = window(server)["found"]
    assert (found["mac"], found["hardware"]["disks"]) == (STRANGER, HARDWARE["disks"])
    assert "sanboot" in script(server, STRANGER)[1], "it gets back to its own disk"
    server.restart()
    until(lambda: lines(server) == ANYBODY)
    assert server.say("hello", HARDWARE, token=token)[0] == 200
    assert server.say("order", method="GET", token=token) == (200, b"boot\n"), "nobody goes off"
    assert [it["mac"] for it in window(server)["found"]] == [STRANGER]
    assert server.ask("DELETE", f"/v1/discovery/{STRANGER.upper()}")[0] == 204
    assert window(server)["found"] == []


def test_the_window_closes_by_itself_and_at_once(server: RealServer) -> None:
    window(server, 1)
    server.restart()
    until(lambda: window(server)["until"] == 0)
    until(lambda: lines(server) == "")
    window(server, 60)
    assert window(server, 0)["until"] == 0
    assert lines(server) == ""
    assert "sanboot" in script(server, STRANGER)[1]


def test_a_window_whose_time_is_over_as_the_server_starts_is_closed(tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text('{"until": 50, "found": {}}')
    now = [49.0]

    async def start() -> None:
        server = BootServer(tmp_path, "", lambda: now[0], Network(tmp_path, "127.0.0.1", ""))
        now[0] = 51.0
        server.start()
        async with asyncio.timeout(LIMIT_S):
            while server.discovery.until:  # noqa: ASYNC110  # a timer, of which nothing tells
                await asyncio.sleep(0)
        await server.stop()

    asyncio.run(start())
    assert (tmp_path / "dhcp" / "hosts").read_text() == ""


@pytest.mark.parametrize("seconds", [-1, 1e9, "60", None, [1]])
def test_a_window_that_makes_no_sense_is_refused(server: RealServer, seconds: object) -> None:
    assert server.ask("PUT", "/v1/discovery", {"seconds": seconds})[0] == 400


def test_a_server_without_a_network_has_no_window(tmp_path: Path) -> None:
    server = RealServer(tmp_path / "loopback")
    server.start()
    try:
        status, answer = server.ask("PUT", "/v1/discovery", {"seconds": 60})
        assert (status, "interface" in answer.decode()) == (409, True)
        server.primed()
        status, answer = server.ask("POST", "/v1/machines/m01/power", {"action": "scan"})
        assert (status, "m01 is primed" in answer.decode()) == (409, True)
        server.order("off")
        server.over()
        server.ask("POST", "/v1/machines/m01/power", {"action": "scan"})
        server.booted()
        server.say("hello", HARDWARE)
        assert server.over()["phase"] == "trampoline"
    finally:
        server.kill()


def test_an_image_is_handed_out_from_an_offset_on(tmp_path: Path) -> None:
    server = RealServer(tmp_path / "loopback")
    server.start()
    try:
        server.store()
        server.on_trampoline()
        server.order("primed")
        for offset, found in (
            ("0", (200, IMAGE)),
            ("1000", (200, IMAGE[1000:])),
            (str(len(IMAGE)), (200, b"")),
        ):
            assert server.say(f"image?offset={offset}", method="GET") == found
        for offset in (str(len(IMAGE) + 1), "-1", "x", ""):
            assert server.say(f"image?offset={offset}", method="GET")[0] == 416
    finally:
        server.kill()
