"""Watch a cluster from outside: what its servers say of themselves, and what its files hold.

Made for servers that tell whoever connects, in a line of JSON, what they have read and what they
are linked to (`tests/hosts/sites/generations/link-server.py`).
"""

from __future__ import annotations

import errno
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.fabric import Fabric, FabricHost
from tests.support.fabric._system import Namespace, enter_namespace

__all__ = ["Probe", "Seen", "harm"]

_ANSWER_S = 0.25
_PAUSE_S = 0.01
_LONGEST_KNOCK_S = 0.1

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one round saw: which ports were up, what their servers said, what the files held.

    A port that is not up was refused by its host (`down`), or nothing was heard in time, which
    proves nothing. A server that was up and did not answer in time has no place in `said`; a file
    that was not there is None.
    """

    up: frozenset[str]
    down: frozenset[str] = frozenset()
    said: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)


class Probe:
    """Looks again and again, in rounds, while it is entered.

    `ports` and `files` are places on hosts by names of the caller's choice; a file is read past
    network and SSH. A round knocks at all ports at once, between two looks at the files. One in
    which a file changed, or a server could have gone while others were knocked at, is not kept.
    """

    def __init__(
        self,
        fabric: Fabric,
        ports: Mapping[str, tuple[FabricHost, int]],
        files: Mapping[str, tuple[FabricHost, str]],
    ) -> None:
        self._network = fabric.network
        self.places = {name: (host.address, port) for name, (host, port) in ports.items()}
        self._files = {name: fabric.root(host) / path for name, (host, path) in files.items()}
        self._log: list[Seen] = []
        self._rounds = 0
        self._news = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="probe", daemon=True)

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
    def log(self) -> tuple[Seen, ...]:
        """Return what was seen, in order, without repeats."""
        with self._news:
            return tuple(self._log)

    @property
    def rounds(self) -> int:
        """Return how many rounds were kept, repeats included."""
        with self._news:
            return self._rounds

    def wait_for(self, good: Callable[[Seen], bool], timeout_s: float = 90) -> None:
        """Wait for a round that saw what `good` asks for; TimeoutError if none comes."""
        with self._news:
            if not self._news.wait_for(lambda: bool(self._log) and good(self._log[-1]), timeout_s):
                raise TimeoutError(f"the last that was seen: {self._log[-1:]}")

    def _look_on(self) -> None:
        enter_namespace(self._network, Namespace.NETWORK)
        while not self._stop.wait(_PAUSE_S):
            seen = self._look()
            with self._news:
                self._rounds += seen is not None
                if seen is not None and (not self._log or self._log[-1] != seen):
                    self._log.append(seen)
                self._news.notify_all()

    def _look(self) -> Seen | None:
        before = self._read()
        begin = time.monotonic()
        doors = {_knock(place): name for name, place in self.places.items()}
        took_s = time.monotonic() - begin
        up, down, said = _listen(doors)
        if took_s > _LONGEST_KNOCK_S or self._read() != before:
            return None
        return Seen(up=frozenset(up), down=frozenset(down), said=said, files=before)

    def _read(self) -> dict[str, str | None]:
        return {name: _text(path) for name, path in self._files.items()}


def harm(seen: Seen, places: Mapping[str, Place]) -> list[str]:
    """Say what is wrong with what was seen at one moment; [] if nothing is.

    A server that is up must have none of those down that it says it is linked to, and have read
    what its file of the same name holds now.
    """
    names = {f"{host}:{port}": name for name, (host, port) in places.items()}
    found = []
    for name, said in sorted(seen.said.items()):
        missing = [names[other] for other in said["others"] if names[other] in seen.down]
        found += [f"{name} is up without {other}" for other in missing]
        if name in seen.files and said["config"] != seen.files[name]:
            found.append(f"{name} lives on {said['config']!r}, its file has {seen.files[name]!r}")
    return found


def _knock(place: Place) -> socket.socket:
    door = socket.socket()
    door.settimeout(0)
    door.connect_ex(place)
    return door


def _listen(doors: dict[socket.socket, str]) -> tuple[set[str], set[str], dict[str, Any]]:
    """Return whose doors opened, whose are shut, and what was said; the doors are closed again."""
    up: set[str] = set()
    down: set[str] = set()
    said: dict[str, Any] = {}
    waiting = dict(doors)
    while waiting:
        closed = [door for door, name in waiting.items() if name not in up]
        readable, writable, _ = select.select(list(waiting), closed, [], _ANSWER_S)
        if not (readable or writable):
            break
        for door in writable:
            error = door.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error in (0, errno.ECONNREFUSED):
                (down if error else up).add(waiting[door])
        for door in readable:
            name = waiting.pop(door)
            if name in up and (text := _line(door)):
                said[name] = json.loads(text)
    for door in doors:
        door.close()
    return up, down, said


def _line(door: socket.socket) -> str:
    """Return what a server says; it is short, and sent in one piece."""
    try:
        return door.recv(65536).decode()
    except OSError:
        return ""


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
