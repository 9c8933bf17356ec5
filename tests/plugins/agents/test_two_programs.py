"""Two programs of the page on transports over a real NATS server: kills, histories, forgery."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from cobweb.api import Site
from tests.support.nats_server import NatsServer, nats_server
from tests.support.shared_site import Shared, end, line_of

pytestmark = pytest.mark.gate("processes that own hosts, over a real server: the main path")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    with nats_server(folder, "east", "west") as made:
        yield made


@pytest.fixture
def shared(tmp_path: Path, server: NatsServer) -> Shared:
    folder = tmp_path / "site"
    folder.mkdir()
    return Shared(folder, server.address())


def test_one_that_was_killed_comes_back_and_both_are_settled(shared: Shared) -> None:
    """The histories of their databases are not equal, either."""
    for version in ("a", "b"):
        shared.write(version)
        with Site(shared.folder / "east") as site:
            assert site.apply().exit_code == 0
    shared.write("one")
    with shared.part("west") as west:
        with shared.part("east") as east:
            assert line_of(east) == "settled"
            assert line_of(west) == "settled"
            east.kill()
            east.wait()
        (shared.folder / "page").unlink()
        (shared.folder / "db.conf").unlink()
        assert end(west) == 0
    for owner in ("east", "west"):
        (shared.folder / owner / ".cobweb").rename(shared.folder / f"lost {owner}")
    with shared.part("west") as west, shared.part("east") as east:
        assert line_of(east) == "settled"
        assert line_of(west) == "settled"
        assert (shared.read("db.conf"), shared.read("page")) == ("one", "one")
        assert (end(west), end(east)) == (0, 0)


def test_they_go_on_when_the_server_does(shared: Shared, server: NatsServer) -> None:
    with shared.part("west") as west:
        server.kill()
        server.start()
        with shared.part("east") as east:
            assert line_of(east) == "settled"
            assert line_of(west) == "settled"
            assert (end(west), end(east)) == (0, 0)


class Speaker:
    """Who has the key of an owner and says what it likes."""

    def __init__(self, server: NatsServer, owner: str) -> None:
        self._server, self._owner = server, owner
        self._client = Client()
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.errors: list[str] = []

    async def connect(self) -> None:
        async def note(error: Exception) -> None:
            self.errors.append(str(error))

        async def take(message: Msg) -> None:
            self.heard.put_nowait(json.loads(message.data))

        await self._client.connect(
            [f"nats://127.0.0.1:{self._server.port}"],
            nkeys_seed=str(self._server.keys / f"{self._owner}.seed"),
            tls=ssl.create_default_context(cafile=str(self._server.keys / "ca.pem")),
            tls_handshake_first=True,
            error_cb=note,
        )
        await self._client.subscribe(f"cobweb.site.{self._owner}.*", cb=take)
        await self._said()

    async def say(self, word: dict[str, Any], sender: str) -> None:
        """Say something to west under a name, and wait until the server has it."""
        await self._client.publish(f"cobweb.site.west.{sender}", json.dumps(word).encode())
        await self._said()

    async def _said(self) -> None:
        for _ in range(2):  # the first question may overtake what was published
            await self._client.flush()

    async def hear(self, kind: str) -> dict[str, Any]:
        """Return the next word of a kind that west says."""
        while (word := await asyncio.wait_for(self.heard.get(), 60))["kind"] != kind:
            pass
        return word

    async def close(self) -> None:
        await self._client.close()


async def forge(server: NatsServer, *, as_east: bool) -> list[str]:
    """Grant west what it waits for: with north's key under both names, then perhaps as east.

    North knows what only east can have heard. Return what the server says to it.
    """
    east, north = Speaker(server, "east"), Speaker(server, "north")
    await east.connect()
    await north.connect()
    theirs = await east.hear("hello")
    hello = {**theirs, "life": 2**50, "heard": theirs["life"], "asks": True}
    await east.say(hello, "east")
    request = await east.hear("request")
    ends = {"sender": request["receiver"], "receiver": request["sender"]}
    grant = {**request, **ends, "kind": "grant", "life": 2**50, "known": request["incarnation"]}
    grant["incarnation"] = 2**50 << 20
    for sender in ("north", "east"):
        await north.say(hello, sender)
        await north.say(grant, sender)
    await east.say(grant if as_east else hello, "east")
    await east.hear("release" if as_east else "request")  # by then all of north's was heard
    await east.close()
    await north.close()
    return north.errors


def test_words_under_another_key_are_refused(shared: Shared, server: NatsServer) -> None:
    server.kill()
    server.know("east", "west", "north")
    server.start()
    with shared.part("west") as west:
        errors = asyncio.run(forge(server, as_east=False))
        assert set(errors) == {'nats: permissions violation for publish to "cobweb.site.west.east"'}
        assert end(west) == 0
    with Site(shared.folder / "west") as site:
        assert "transition.start" not in {it["type"] for it in site.watch()}
    with shared.part("west") as west:  # the same words with the right key: they are what counts
        asyncio.run(forge(server, as_east=True))
        assert line_of(west) == "settled"
        assert end(west) == 0
