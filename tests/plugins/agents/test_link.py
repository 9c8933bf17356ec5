"""The transport `nats` on a real server: the kit, keys, and a server that goes and comes back."""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import socket
import ssl
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import nkeys
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from cobweb.errors import CobwebError, UsageError
from cobweb.plugin import Link
from cobweb.testing import NamedCheck, TransportCase, transport_checks
from cobweb_plugins.agents import Nats
from cobweb_plugins.agents._address import Address, address_of, name_of, token
from cobweb_plugins.agents._keys import certificate, now, public_key
from cobweb_plugins.agents._server import ROUTES
from tests.support.nats_server import NatsServer, free_port, nats_server

NUMBERS = count()


class _Shared:
    server: NatsServer


CASE = TransportCase(make=Nats, address=lambda: _Shared.server.address(f"room {next(NUMBERS)}"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats"), "east", "west", "north") as made:
        _Shared.server = made
        yield made


@pytest.mark.parametrize("check", transport_checks(CASE), ids=str)
@pytest.mark.usefixtures("server")
def test_nats_conforms(check: NamedCheck) -> None:
    check()


class Heard:
    """A `wake` that can be waited for."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self) -> None:
        self.event.set()

    def wait(self) -> None:
        assert self.event.wait(30)
        self.event.clear()


def joined(link: Link, times: int, heard: Heard) -> None:
    """Wait until a link has found a server so often."""
    while link.joined < times:  # type: ignore[attr-defined]
        heard.wait()


def said(one: Link, name: str, other: Link, heard: Heard, message: bytes) -> Sequence[Any]:
    """Say something until the other hears, and return all that it has heard."""
    one.send(name, message)
    came: list[tuple[str, bytes]] = []
    while not came or came[-1][1] != message:
        heard.wait()
        came += other.receive()
    return came


BAD = [
    "",
    "nats://",
    "nats://127.0.0.1:4222",
    "nats://127.0.0.1?keys=K",
    "nats://127.0.0.1:x/?keys=K",
    "nats://127.0.0.1:0/?keys=K",
    "nats://127.0.0.1:4222,/?keys=K",
    "nats://me:secret@127.0.0.1:4222/?keys=K",
    "nats://127.0.0.1:4222/a/b?keys=K",
    "nats://127.0.0.1:4222/?keys=",
    "nats://127.0.0.1:4222/?keys=K&keys=L",
    "nats://127.0.0.1:4222/?keys=K&more=1",
    "nats://127.0.0.1:4222/?keys=K#x",
    "http://127.0.0.1:4222/?keys=K",
    "nats://[::1:4222/?keys=K",
]


@pytest.mark.parametrize("address", BAD)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of NATS servers"):
        Nats().connect(address, "east", lambda: None)


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cobweb_plugins.agents._link", None)
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(CobwebError, match="there is no package") as caught:
        Nats().connect(BAD[2], "east", lambda: None)
    assert "extra `agents`" in (caught.value.hint or "")


SERVERS = st.lists(
    st.tuples(
        st.sampled_from(["c1", "c1.example.org", "10.0.0.1", "[::1]"]), st.integers(1, 65535)
    ).map(lambda it: f"{it[0]}:{it[1]}"),
    min_size=1,
    max_size=3,
).map(tuple)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(SERVERS, TEXTS, TEXTS)
def test_an_address_says_what_it_was_made_of(
    servers: tuple[str, ...], room: str, folder: str
) -> None:
    made = Address(servers=servers, keys=Path(folder), room=room)
    assert address_of(str(made)) == made


@given(TEXTS, TEXTS)
def test_a_name_is_one_token_of_a_subject_and_no_others(one: str, other: str) -> None:
    made = token(one)
    assert name_of(made) == one
    assert (made == token(other)) == (one == other)
    assert re.fullmatch(r"[A-Za-z0-9_%-]+", made)


def _no_file(seed: Path) -> None:
    seed.unlink()


def _readable(seed: Path) -> None:
    seed.chmod(0o644)


def _damaged(seed: Path) -> None:
    seed.write_bytes(seed.read_bytes()[:-4])


def _of_an_account(seed: Path) -> None:
    seed.write_bytes(nkeys.encode_seed(bytes(32), nkeys.PREFIX_BYTE_ACCOUNT))


def _of_nobody(seed: Path) -> None:
    seed.unlink()
    public_key(seed)


def _of_another(seed: Path) -> None:
    seed.write_bytes((seed.parent / "west.seed").read_bytes())


def _other_authority(seed: Path) -> None:
    for name in ("ca.key", "ca.pem"):
        (seed.parent / name).unlink()
    certificate(seed.parent, "n2", ["127.0.0.1"], now())


def _no_authority(seed: Path) -> None:
    (seed.parent / "ca.pem").write_text("none")


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (_no_file, "east.seed: the key of east cannot be read", "cobweb agents up"),
        (_readable, "others may read the key of east", "chmod 600"),
        (_damaged, "this is no key of a user", "cobweb agents up"),
        (_of_an_account, "this is no key of a user", "cobweb agents up"),
        (_of_nobody, "does not let east in: Authorization Violation", "does not know the key"),
        (_of_another, "does not let east in: permissions violation", "key of another owner"),
        (_other_authority, "does not let east in", "its certificate is none of"),
        (_no_authority, "ca.pem: this is no certificate", "cobweb agents up"),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_who_has_not_the_key_of_an_owner_is_refused(
    damage: Callable[[Path], None], message: str, hint: str, server: NatsServer, tmp_path: Path
) -> None:
    keys = shutil.copytree(server.keys, tmp_path / "keys")
    damage(keys / "east.seed")
    address = address_of(server.address())
    with pytest.raises(CobwebError) as caught:
        Nats().connect(str(replace(address, keys=keys)), "east", lambda: None)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


@pytest.mark.gate("nobody answers: that is known when the time for it is over")
def test_a_server_that_is_not_there_is_told(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobweb_plugins.agents._link._REACHED_S", 2.0)
    address = replace(address_of(server.address()), servers=(f"127.0.0.1:{free_port()}",))
    with pytest.raises(CobwebError, match=r"lets east in within 2 s: 127.0.0.1:\d+: .*Connect"):
        Nats().connect(str(address), "east", lambda: None)


def test_nothing_is_left_of_a_connection_that_is_reset_before_its_handshake(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = TcpTransport.connect

    async def connect_and_reset(transport: TcpTransport, *place: Any, **limits: Any) -> None:
        await connect(transport, *place, **limits)
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        assert transport._bare_io_reader is not None
        with suppress(ConnectionResetError):  # from here on asyncio knows of the reset
            await transport._bare_io_reader.read()

    monkeypatch.setattr(TcpTransport, "connect", connect_and_reset)
    monkeypatch.setattr("cobweb_plugins.agents._link._REACHED_S", 1.0)
    gc.collect()  # what other tests have left
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        warnings.catch_warnings(record=True, action="always") as warned,
    ):
        servers = (f"127.0.0.1:{listener.getsockname()[1]}",)
        address = replace(address_of(server.address()), servers=servers)
        with pytest.raises(CobwebError, match="lets east in within 1 s"):
            Nats().connect(str(address), "east", lambda: None)
        gc.collect()
    assert [str(it.message) for it in warned] == []


async def _tried(server: NatsServer, owner: str, to: str) -> list[str]:
    """Publish and listen on a subject with an owner's key; return what the server says."""
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error))

    client = Client()
    await client.connect(
        [f"nats://127.0.0.1:{server.port}"],
        nkeys_seed=str(server.keys / f"{owner}.seed"),
        tls=ssl.create_default_context(cafile=str(server.keys / "ca.pem")),
        tls_handshake_first=True,
        error_cb=note,
    )
    await client.publish(to, b"forged")
    await client.subscribe(to)
    for _ in range(2):  # the first question may overtake the subscription
        await client.flush()
    await client.close()
    return [
        re.sub(r'^nats: permissions violation for (\w+) to ".*', r"\1", it.lower()) for it in errors
    ]


@pytest.mark.parametrize(
    ("to", "refused"),
    [
        ("cobweb.site.east.west", {"subscription"}),
        ("cobweb.site.west.east", {"publish"}),
        ("cobweb.site.east.north", {"publish", "subscription"}),
        ("cobweb.>", {"publish", "subscription"}),
        (">", {"publish", "subscription"}),
        ("cobweb.site.east", {"publish", "subscription"}),
        ("$SYS.>", {"publish", "subscription"}),
    ],
)
def test_a_key_speaks_under_one_name_and_hears_what_is_meant_for_it(
    to: str, refused: set[str], server: NatsServer
) -> None:
    heard = Heard()
    east = Nats().connect(server.address(), "east", heard)
    assert set(asyncio.run(_tried(server, "west", to))) == refused
    west_heard = Heard()
    west = Nats().connect(server.address(), "west", west_heard)
    came = said(west, "east", east, heard, b"mine")
    expected = [("west", b"forged")] if to == "cobweb.site.east.west" else []
    assert came == [*expected, ("west", b"mine")]
    for link in (east, west):
        link.close()


def test_nobody_without_a_key_or_without_tls_is_let_in(server: NatsServer) -> None:
    connect = b'CONNECT {"verbose":false}\r\nPING\r\n'
    tls = ssl.create_default_context(cafile=str(server.keys / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", server.port), 10) as plain,
        tls.wrap_socket(plain, server_hostname="127.0.0.1") as sealed,
    ):
        sealed.sendall(connect)
        heard = b"".join(iter(lambda: sealed.recv(4096), b""))
        assert heard.endswith(b"-ERR 'Authorization Violation'\r\n")
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        plain.sendall(connect)
        assert b"INFO" not in b"".join(iter(lambda: plain.recv(4096), b""))


@pytest.mark.gate("a server that is killed and started again: nothing else shows what a link does")
def test_a_server_that_comes_back_is_found_and_nothing_stale_is_said(tmp_path: Path) -> None:
    with nats_server(tmp_path, "a.b *", "west") as server:
        heard_east, heard_west = Heard(), Heard()
        dead = f"127.0.0.1:{free_port()}"
        both = replace(address_of(server.address()), servers=(dead, f"127.0.0.1:{server.port}"))
        east = Nats().connect(str(both), "a.b *", heard_east)
        west = Nats().connect(server.address(), "west", heard_west)
        assert said(east, "west", west, heard_west, b"one") == [("a.b *", b"one")]
        server.kill()
        while east._client is not None:  # type: ignore[attr-defined]
            time.sleep(0.001)
        east.send("west", b"stale")
        server.start()
        joined(east, 2, heard_east)
        joined(west, 2, heard_west)
        assert said(east, "west", west, heard_west, b"two") == [("a.b *", b"two")]
        assert said(west, "a.b *", east, heard_east, b"three") == [("west", b"three")]
        for link in (east, west):
            link.close()


def test_very_many_messages_are_sent_without_waiting(server: NatsServer) -> None:
    heard = Heard()
    east = Nats().connect(server.address("many"), "east", lambda: None)
    west = Nats().connect(server.address("many"), "west", heard)
    for number in range(5_000):
        east.send("west", b"%d" % number)
    came = said(east, "west", west, heard, b"last")
    assert [data for _, data in came[:-1]] == [b"%d" % number for number in range(5_000)]
    for link in (east, west):
        link.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[NatsServer]]:
    """Run three servers that are one."""
    made = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        made.append(NatsServer(tmp_path / name, (), tmp_path / "keys"))
    for server in made:
        others = (it.port for it in made if it is not server)
        server.routes = [f"127.0.0.1:{port + ROUTES}" for port in others]
        server.know("east", "west")
        server.start()
    try:
        yield made
    finally:
        for server in made:
            server.kill()


@pytest.mark.gate("three servers, of which two go: what one is for when others are dead")
def test_three_servers_are_one_and_two_may_go(three: list[NatsServer]) -> None:
    heard_east, heard_west = Heard(), Heard()
    addresses = [address_of(it.address()) for it in three]
    every = replace(addresses[0], servers=tuple(it.servers[0] for it in addresses))
    east = Nats().connect(str(every), "east", heard_east)
    west = Nats().connect(str(addresses[2]), "west", heard_west)
    while not west.receive():  # the servers may not have found each other yet
        east.send("west", b"one")
        heard_west.event.wait(0.05)
    for server in three[:2]:
        server.kill()
    joined(east, 2, heard_east)
    assert said(west, "east", east, heard_east, b"two")[-1] == ("west", b"two")
    for link in (east, west):
        link.close()


def test_who_is_no_server_is_not_heard_where_servers_speak(three: list[NatsServer]) -> None:
    tls = ssl.create_default_context(cafile=str(three[0].keys / "ca.pem"))

    def ask() -> bytes:
        place = ("127.0.0.1", three[0].port + ROUTES)
        with (
            socket.create_connection(place, 10) as plain,
            tls.wrap_socket(plain, server_hostname="127.0.0.1") as sealed,
        ):
            return sealed.recv(4096)

    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        ask()
