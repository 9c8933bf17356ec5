"""The wire between the coordinator and its Ansible processes: one JSON object per line.

Both ends run the same version of this file, in the same environment; the first message of each
connection says who speaks (`op` is `zygote` or `lane`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SOCKET_VARIABLE", "LineBuffer", "encode"]

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
