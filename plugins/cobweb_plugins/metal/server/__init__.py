"""The boot server: it owns the life of machines, and knows no site.

It listens at one address, keeps all that it has in one folder, and is ended by SIGTERM. Machines go
on without it, as far as they get.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError

KEY_FILE = "key"
IMAGES = "images"
_STOP_S = 2


def serve(folder: Path, listen: str, domain: str | None = None) -> None:
    """Run the boot server of a folder at ADDRESS:PORT until a signal ends it.

    With a `domain`, which may be "", it tells dnsmasq in its folder what machines get.

    CobwebError where the address is not to be had, or another server has the folder.
    """
    import asyncio

    _log_to_stderr()
    os.umask(0o077)  # the book has tokens, and what opens the power
    address, _, port = listen.rpartition(":")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    key = key_of(folder)  # who sees the server listen finds the key
    try:
        listener = socket.create_server((address, int(port)), backlog=512)
    except (OSError, ValueError, OverflowError) as error:
        message = f"cannot listen at {listen}: {getattr(error, 'strerror', None) or error}"
        hint = "`network` of the section `metal` names an address of this machine and a free port"
        raise CobwebError(message, hint=hint) from error
    with listener:
        asyncio.run(_serve(folder, listener, key, domain))


def _log_to_stderr() -> None:
    """Have the changes of machines told, whatever the command line has set for its own log."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("cobweb.metal")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


async def _serve(folder: Path, listener: socket.socket, key: str, domain: str | None) -> None:
    import uvicorn

    from cobweb_plugins.metal.server._network import Network
    from cobweb_plugins.metal.server._server import BootServer
    from cobweb_plugins.metal.server._web import application

    address, port = listener.getsockname()[:2]
    network = None if domain is None else Network(folder, address, domain)
    server = BootServer(folder, f"http://{address}:{port}", time.time, network)
    config = uvicorn.Config(
        application(server, key),
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=_STOP_S,
        server_header=False,
    )
    server.start()
    try:
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        await server.stop()


def kept_machine(folder: Path, id_: str) -> dict[str, Any]:
    """Return what the book of a folder says of a machine, as the server would; "new" for nothing.

    It is read beside a server, if there is one. CobwebError where the book is damaged.
    """
    from cobweb_plugins.metal.server._book import records_in
    from cobweb_plugins.metal.server._records import Record, view_of

    record = records_in(folder).get(id_)
    if record is None:
        return {**view_of(Record(id=id_, mac="", power={})), "phase": "new"}
    return view_of(record)


def has_image(folder: Path, sha256: str) -> bool:
    """Say whether the server of a folder has an image."""
    from cobweb_plugins.metal.server._images import image_in

    return image_in(folder / IMAGES, sha256) is not None


def key_of(folder: Path) -> str:
    """Return the key that coordinators have; it is made where there is none."""
    path = folder / KEY_FILE
    if not path.exists():
        fresh = folder / f".{KEY_FILE}.{os.getpid()}"
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_urlsafe(32))
        fresh.replace(path)
    return path.read_text(encoding="ascii").strip()
