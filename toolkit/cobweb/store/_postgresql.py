"""A connection to PostgreSQL that does not wait for ever for a server that is frozen.

The kernel of its machine acknowledges what it is sent, so that no time limit of TCP finds it out,
and a time limit of its own does not count while it is frozen. Yet a statement may take long for
good reasons. So after some time without a word a new connection is tried.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

SILENCE_S = 10
"""How long a server may leave a statement without an answer until a new connection is tried."""


class WatchfulConnection(psycopg.Connection[Any]):
    """Psycopg's own; it is lost where the server is silent and answers no new connection either."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Do what psycopg does, which asks `gen` every now and then while nothing comes."""
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        ready, heard_s = None, time.monotonic()
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                return end.value
            ready = yield wanted
            if ready:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > SILENCE_S:
                self._ask()
                heard_s = time.monotonic()

    def _ask(self) -> None:
        """Raise OperationalError, with this connection closed, where no new one is answered."""
        try:
            psycopg.connect(self.info.dsn, password=self.info.password).close()
        except psycopg.OperationalError as error:
            if error.sqlstate is None:
                self.close()
                raise
