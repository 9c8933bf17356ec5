"""Loopback ports: free ones, and whether somebody listens."""

from __future__ import annotations

import socket
from contextlib import ExitStack

__all__ = ["free_ports", "listens"]


def free_ports(number: int) -> tuple[int, ...]:
    """Return ports that nobody listens on now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)


def listens(port: int) -> bool:
    """Say whether a connection to a loopback port is accepted."""
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == 0
