"""The wire between the coordinator and its Ansible processes: one JSON object per line.

Both ends run the same version of this file, in the same environment; the first message of each
connection says who speaks (`op` is `zygote` or `lane`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

SOCKET_VARIABLE = "COBWEB_ANSIBLE_SOCKET"
"""The environment variable that tells the started process where the coordinator listens."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return one line; mappings and sequences of any kind become objects and arrays."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    return str(value)


class LineBuffer:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages that are whole after `data`; ValueError for anything but JSON."""
        self._rest += data
        *lines, rest = self._rest.split(b"\n") if b"\n" in data else [self._rest]
        self._rest = bytearray(rest)
        return [json.loads(line) for line in lines]


class RubbishError(Exception):
    """The other side said what nobody says here; the text says what that was."""


class Messages:
    """Cuts a stream into lines of JSON, each with the bytes that it announces under `sizes`.

    `check` raises RubbishError for a line that is no message; a line that is longer than `longest`
    is none, if that is given. Nothing may be fed after an error.
    """

    def __init__(
        self, *sizes: str, check: Callable[[bytes], dict[str, Any]], longest: int | None = None
    ) -> None:
        self._sizes = sizes
        self._check = check
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0
        self._message: dict[str, Any] | None = None

    def feed(self, data: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield the messages that are whole after `data`; each byte is looked at once."""
        self._buffer += data
        while self._has_message():
            assert self._message is not None
            message, self._message = self._message, None
            yield message, self._take(self._size(message))

    def _has_message(self) -> bool:
        if self._message is None:
            end = self._buffer.find(b"\n", self._searched)
            self._searched = len(self._buffer)
            length = len(self._buffer) if end < 0 else end
            if self._longest is not None and length > self._longest:
                raise RubbishError(f"a line of more than {self._longest} bytes")
            if end < 0:
                return False
            self._message = self._check(self._take(end + 1)[:-1])
        return len(self._buffer) >= self._size(self._message)

    def _size(self, message: Mapping[str, Any]) -> int:
        return sum(message.get(name, 0) for name in self._sizes)

    def _take(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._searched = 0
        return data
