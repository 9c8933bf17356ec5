"""The link of the transport `nats`: one connection, which finds a server again for ever.

Theory of operation. A loop of asyncio in a thread of its own holds the connection. What is sent
while there is none is a loss, so nothing stale is said later; `joined` tells the owner that it can
be heard again. A server lets who has the key of an owner publish under that name alone, as the last
part of the subject: so the sender is what the server vouches for. Several rooms share a connection.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import stat
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import nats.errors
import nkeys
from nats.aio.client import Client
from nats.aio.msg import Msg

from cobweb.errors import CobwebError
from cobweb_plugins.agents._address import Address, address_of, name_of, subject, token

_REACHED_S = 10.0
"""How long a server may take to be found at first, and one to let an owner in."""

_LATEST_S = 10.0
"""The longest pause between two rounds over the servers."""

_FAREWELL_S = 1.0
"""How long a server may take to say good-bye."""

_PING_S = 15
"""How often a connection is tried; after two without an answer it is lost."""

_MOST_HELD = 2**26
"""How many bytes may wait to be sent, or to be received; what is more is lost."""

_LOG = logging.getLogger(__name__)
_WENT = (OSError, TimeoutError, nats.errors.Error)


def connect(
    address: str, owner: str, wake: Callable[[], None], within_s: float | None = None
) -> NatsLink:
    """Return the end of an owner; CobwebError where it cannot speak under that name in time."""
    logging.getLogger("asyncio").addFilter(_is_news)
    place = address_of(address)
    seed = place.keys / f"{token(owner)}.seed"
    _check_seed(seed, owner)
    link = NatsLink(place, owner, seed, wake)
    link.open(within_s or _REACHED_S)
    return link


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says each time that a TLS connection of nats-py ends."""
    return "eof_received" not in str(record.msg)


def _check_seed(path: Path, owner: str) -> None:
    """Raise CobwebError where a file is no seed, or others may read it."""
    hint = "`cobweb agents up` makes a key for each owner of the section `agents`"
    try:
        mode, data = path.stat().st_mode, bytearray(path.read_bytes().strip())
    except OSError as error:
        message = f"{path}: the key of {owner} cannot be read: {error.strerror}"
        raise CobwebError(message, hint=hint) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"{path}: others may read the key of {owner}"
        raise CobwebError(message, hint=f"`chmod 600`, or make it anew: {hint}")
    with suppress(nkeys.NkeysError, ValueError):
        if nkeys.from_seed(data).public_key.startswith(b"U"):
            return
    raise CobwebError(f"{path}: this is no key of a user of NATS", hint=hint)


class Room:
    """What is said in one room to one owner, over a connection that rooms share.

    `offer` takes what is to be sent, and to which subject.
    """

    def __init__(
        self, name: str, owner: str, wake: Callable[[], None], offer: Callable[[str, bytes], None]
    ) -> None:
        self._name, self._owner, self.wake, self._offer = name, owner, wake, offer
        self._came: deque[tuple[str, bytes]] = deque()
        self._came_size = self._taken_size = 0

    def send(self, owner: str, message: bytes) -> None:
        """Send a message; without a connection, or behind very many, it is lost."""
        self._offer(subject(token(self._name), token(owner), token(self._owner)), message)

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """Return what has come, each with the owner that has sent it."""
        came = [self._came.popleft() for _ in range(len(self._came))]
        self._taken_size += sum(len(message) for _, message in came)
        return came

    def take(self, sender: str, message: bytes) -> None:
        """Keep what has come, as far as there is room for it, and wake the owner."""
        if self._came_size - self._taken_size < _MOST_HELD:  # each is counted by one thread
            self._came_size += len(message)
            self._came.append((sender, message))
        self.wake()


class NatsLink:
    """One owner's end; see `cobweb.plugin.Link`. `joined` is how often it has found a server."""

    def __init__(self, place: Address, owner: str, seed: Path, wake: Callable[[], None]) -> None:
        self._place, self._owner, self._seed = place, owner, seed
        self._rooms: dict[str, Room] = {}
        self._own = self.room(place.room, wake)
        self._servers = deque(place.servers)
        self._tls = _tls_of(place.keys / "ca.pem")
        self._unsent: deque[tuple[str, bytes]] = deque()
        self._unsent_size = 0
        self._client: Client | None = None
        self._opened: Future[None] = Future()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._stirred = asyncio.Event()
        self._is_closing = False
        self._failure = ""
        self._joining: asyncio.Future[None] = self._loop.create_future()
        self._joining.set_result(None)
        self._writing = self._joining
        self._thread = threading.Thread(target=self._run, name=f"nats {owner}", daemon=True)
        self.joined = 0

    def room(self, name: str, wake: Callable[[], None]) -> Room:
        """Return another room; `wake` is called when something has come there."""
        made = self._rooms[token(name)] = Room(name, self._owner, wake, self._post)
        return made

    def open(self, within_s: float) -> None:
        """Find a server; CobwebError where none lets this owner in."""
        self._thread.start()
        try:
            self._opened.result(within_s)
        except TimeoutError:
            message = f"no server of {self._place} lets {self._owner} in within {within_s:g} s"
            hint = "`cobweb agents up` starts them"
            failure = CobwebError(f"{message}{self._failure}", hint=hint)
            self.close()
            raise failure from None
        except CobwebError:
            self.close()
            raise

    def send(self, owner: str, message: bytes) -> None:
        """Send a message in the link's own room."""
        self._own.send(owner, message)

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """Return what has come in the link's own room."""
        return self._own.receive()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._client is not None

    def _post(self, to: str, message: bytes) -> None:
        with suppress(RuntimeError):  # after close
            self._loop.call_soon_threadsafe(self._offer, to, message)

    def close(self) -> None:
        """Give the connection up; what waits to be sent is sent first, for a moment."""
        self._is_closing = True
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)
        self._thread.join(2 * _REACHED_S)

    # --- in the thread

    def _run(self) -> None:
        with self._runner:  # which ends what nats-py leaves behind
            self._runner.run(self._hold())

    def _end(self) -> None:
        self._stirred.set()
        self._joining.cancel()

    def _offer(self, to: str, message: bytes) -> None:
        if self._client is not None and self._unsent_size < _MOST_HELD:
            self._unsent.append((to, message))
            self._unsent_size += len(message)
            if self._writing.done():
                self._writing = self._loop.create_task(self._write(self._client))

    async def _write(self, client: Client) -> None:
        while self._unsent:
            to, message = self._unsent.popleft()
            self._unsent_size -= len(message)
            with suppress(*_WENT):  # a loss
                await client.publish(to, message)

    async def _take(self, message: Msg) -> None:
        _, name, _, sender = message.subject.split(".")
        if room := self._rooms.get(name):
            room.take(name_of(sender), message.data)

    async def _hold(self) -> None:
        """Hold a connection until the link is closed; the next server first, then with pauses."""
        failures = 0
        while not self._is_closing:
            server = self._servers[0]
            self._servers.rotate(-1)
            client = Client()
            self._joining = asyncio.ensure_future(self._join(client, server))
            try:
                await asyncio.wait_for(self._joining, _REACHED_S)
            except asyncio.CancelledError:
                pass  # it is closed
            except _WENT as error:
                failures += 1
                self._note_failure(server, error, failures)
            else:
                failures = 0
                await self._use(client)
            await _drop(client)
            if failures >= len(self._servers) and not self._is_closing:
                most_s = min(_LATEST_S, 0.1 * 2 ** min(failures, 10))
                await self._wait(most_s * (1 + secrets.randbelow(1000)) / 1000)

    async def _wait(self, most_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), most_s)
        self._stirred.clear()

    async def _use(self, client: Client) -> None:
        """Be there for the owner until the connection is lost or given up."""
        self._client = client
        self.joined += 1
        _LOG.info("%s speaks over %s", self._owner, client.connected_url)
        if not self._opened.done():
            self._opened.set_result(None)
        self._own.wake()
        while client.is_connected and not self._is_closing:
            await self._wait(_FAREWELL_S)  # the client tells of a loss only after the farewell
        self._client = None
        if self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._writing, _FAREWELL_S)
            return
        self._unsent.clear()
        self._unsent_size = 0
        _LOG.warning("%s has lost its server; it looks for another one", self._owner)

    async def _join(self, client: Client, server: str) -> None:
        """Have a server let this owner in, and hear what is meant for it."""
        refused: list[Exception] = []

        async def note(error: Exception) -> None:
            refused.append(error)

        async def lose() -> None:
            self._stirred.set()

        try:
            await client.connect(
                [f"nats://{server}"],
                error_cb=note,
                disconnected_cb=lose,
                name=self._owner,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=int(_REACHED_S),
                ping_interval=_PING_S,
                no_echo=True,
                tls=self._tls,
                tls_handshake_first=self._tls is not None,
                nkeys_seed=str(self._seed),
            )
        except nats.errors.NoServersError as error:
            raise (refused or [error])[-1] from None  # which says why
        own = subject("*", token(self._owner), "*")
        await client.subscribe(own, cb=self._take)
        for _ in range(2):  # the first question may overtake the subscription
            await client.flush(int(_REACHED_S))
        if refused:
            raise refused[-1]

    def _note_failure(self, server: str, error: Exception, failures: int) -> None:
        """Tell why a server did not let this owner in; end the start if it is not for now alone."""
        said = str(error).removeprefix("nats: ").strip("'") or type(error).__name__
        self._failure = f": {server}: {said}"
        log = _LOG.warning if failures == len(self._servers) else _LOG.info
        log("%s: the server %s does not let it in: %s", self._owner, server, said)
        hint = ""
        if "authorization violation" in said.lower():
            hint = f"the server does not know the key {self._seed}; `cobweb agents up` tells it"
        elif "permissions violation" in said.lower():
            hint = f"{self._seed} is the key of another owner"
        elif isinstance(error, ssl.SSLCertVerificationError):
            hint = f"its certificate is none of {self._place.keys / 'ca.pem'}"
        if hint and failures >= len(self._servers) and not self._opened.done():
            message = f"the server {server} does not let {self._owner} in: {said}"
            self._opened.set_exception(CobwebError(message, hint=hint))


async def _drop(client: Client) -> None:
    """Close a connection; asyncio would wait for the farewell of a dead peer for half a minute."""
    transport = client._transport  # noqa: SLF001
    if transport is None:
        return  # it was given up before it began
    with suppress(*_WENT):
        await asyncio.wait_for(client.close(), _FAREWELL_S)
    for name in ("_io_writer", "_bare_io_writer"):
        if writer := getattr(transport, name, None):
            writer.transport.abort()
            await asyncio.sleep(0)  # for what the transport still has to do
    # asyncio tells of a loss once: not the protocol of a handshake that began after it.
    bare = getattr(transport, "_bare_io_writer", None)
    if bare and (protocol := bare.transport.get_protocol()):
        protocol.connection_lost(None)


def _tls_of(path: Path) -> ssl.SSLContext | None:
    """Return what a server has to show, by the CA of the owners; None where they have none."""
    if not path.exists():
        return None
    try:
        return ssl.create_default_context(cafile=str(path))
    except OSError as error:
        message = f"{path}: this is no certificate: {error.strerror or error}"
        raise CobwebError(
            message, hint="`cobweb agents up` makes one where there is none"
        ) from error
