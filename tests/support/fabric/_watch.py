"""Look from outside, again and again, which ports accept connections."""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.fabric._system import Namespace, enter_namespace

__all__ = ["Change", "Watch"]

Change = tuple[str, bool]
"""A name and whether it is up from now on."""

_ANSWER_S = 0.25
_PAUSE_S = 0.01


class Watch:
    """Polls all ports at once in rounds, from the fabric's network, while it is entered.

    A round connects to every port at the same moment, so what one round saw up was up together.
    `snapshots` holds the sets of names that were up, in order, without repeats.
    """

    def __init__(self, network: Path, ports: Mapping[str, tuple[str, int]]) -> None:
        self._network = network
        self._ports = dict(ports)
        self._snapshots: list[frozenset[str]] = []
        self._seen = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for(lambda _: True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all ports."""
        return tuple(self._ports)

    @property
    def snapshots(self) -> tuple[frozenset[str], ...]:
        """Return what was up, one set for each change."""
        with self._seen:
            return tuple(self._snapshots)

    def changes(self) -> tuple[Change, ...]:
        """Return who went up or down, in order; those of the same round are sorted by name."""
        seen = self.snapshots
        return tuple(
            (name, name in after)
            for before, after in itertools.pairwise(seen)
            for name in sorted(before ^ after)
        )

    def wait_for(self, good: Callable[[frozenset[str]], bool], timeout_s: float = 30) -> None:
        """Wait for a round that saw what `good` asks for; TimeoutError if none comes."""
        with self._seen:
            if not self._seen.wait_for(
                lambda: bool(self._snapshots) and good(self._snapshots[-1]), timeout_s
            ):
                raise TimeoutError(f"still up: {sorted(self._snapshots[-1])}")

    def _poll(self) -> None:
        enter_namespace(self._network, Namespace.NETWORK)
        while not self._stop.wait(_PAUSE_S):
            now = frozenset(_accepting(self._ports))
            with self._seen:
                if not self._snapshots or self._snapshots[-1] != now:
                    self._snapshots.append(now)
                self._seen.notify_all()


def _accepting(ports: Mapping[str, tuple[str, int]]) -> Iterable[str]:
    """Return the names whose ports took a connection within `_ANSWER_S`."""
    waiting: dict[socket.socket, str] = {}
    up = []
    for name, place in ports.items():
        connection = socket.socket()
        connection.settimeout(0)
        waiting[connection] = name
        connection.connect_ex(place)
    while waiting:
        _, ready, _ = select.select([], list(waiting), [], _ANSWER_S)
        if not ready:
            break
        for connection in ready:
            name = waiting.pop(connection)
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                up.append(name)
            connection.close()
    for connection in waiting:
        connection.close()
    return up
