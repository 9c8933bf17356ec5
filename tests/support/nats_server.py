"""A real NATS server on the loopback, which knows some owners by their keys."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cobweb_plugins.agents._address import Address, token
from cobweb_plugins.agents._keys import certificate, now, public_key
from cobweb_plugins.agents._server import Server, config_text

PROGRAM = Path(sys.executable).parent / "nats-server"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class NatsServer:
    """A server that can be killed and started again at its port; `keys` are in a folder of its own.

    `routes` lead to the servers that it is one with.
    """

    def __init__(self, folder: Path, owners: Sequence[str], keys: Path | None = None) -> None:
        self.folder, self.keys, self.port = folder, keys or folder / "keys", free_port()
        self.routes: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None
        certificate(self.keys, "n1", ["127.0.0.1"], now())
        for name, source in (
            ("server.key", "servers/n1.key"),
            ("server.pem", "servers/n1.pem"),
            ("ca.pem",) * 2,
        ):
            (folder / name).write_bytes((self.keys / source).read_bytes())
        self.know(*owners)

    def know(self, *owners: str) -> None:
        """Have the server know these owners from its next start on."""
        public = {it: public_key(self.keys / f"{token(it)}.seed") for it in owners}
        server = Server(
            host=f"n{self.port}",
            address="127.0.0.1",
            port=self.port,
            folder=str(self.folder),
            listen="127.0.0.1",
            routes=self.routes,
        )
        text = config_text(server, public)
        (self.folder / "nats.conf").write_text(text, encoding="utf-8")

    def address(self, room: str = "site") -> str:
        """Return where owners find it."""
        return str(Address(servers=(f"127.0.0.1:{self.port}",), keys=self.keys, room=room))

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(PROGRAM), "-c", str(self.folder / "nats.conf")], stdout=log, stderr=log
            )
        while True:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return

    def kill(self) -> None:
        """End the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def nats_server(folder: Path, *owners: str) -> Iterator[NatsServer]:
    """Run a server that knows these owners."""
    server = NatsServer(folder, owners)
    server.start()
    try:
        yield server
    finally:
        server.kill()
