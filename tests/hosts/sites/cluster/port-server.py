#!/usr/bin/python3
"""port-server PORT [HOST:PORT ...]: listen, but only if the others answer at the start.

As picky as real services are: one that needs another ends at once where the other is not there.
"""

from __future__ import annotations

import signal
import socket
import sys

for other in sys.argv[2:]:
    host, port = other.rsplit(":", 1)
    socket.create_connection((host, int(port)), timeout=5).close()

signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with socket.create_server(("", int(sys.argv[1])), backlog=64) as server:
    while True:
        server.accept()[0].close()
