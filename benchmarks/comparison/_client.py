"""A client of the database that writes every few milliseconds until it is told to stop.

`python _client.py HOST` prints "at work" after its first write and, ended by SIGTERM, one JSON
object: `writes`, `broken` (how often it lost its session), `longest_s` (between two writes).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

PAUSE_S = 0.005


def work(address: str) -> None:
    """Write until SIGTERM, with a new session whenever one is lost."""
    import psycopg

    going = True

    def end(*_: Any) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, end)
    writes = broken = 0
    longest_s = 0.0
    last = 0.0
    session: psycopg.Connection[Any] | None = None
    where = f"host={address} user=writer dbname=postgres connect_timeout=2"
    while going:
        try:
            if session is None:
                session = psycopg.connect(where, autocommit=True)
            session.execute("INSERT INTO heartbeat DEFAULT VALUES")
        except psycopg.Error:
            broken += session is not None
            session = None
        else:
            now = time.monotonic()
            longest_s = max(longest_s, now - last) if writes else 0.0
            writes, last = writes + 1, now
            if writes == 1:
                print("at work", flush=True)
        time.sleep(PAUSE_S)
    print(json.dumps({"writes": writes, "broken": broken, "longest_s": longest_s}))


if __name__ == "__main__":
    work(sys.argv[1])
