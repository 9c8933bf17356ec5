"""What a fabric and its hosts are: the words that both sides of it share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cobweb_plugins.namespaces._disk import Init

__all__ = [
    "BRIDGE_ADDRESS",
    "OPERATOR",
    "PREFIX_LENGTH",
    "FabricHost",
    "Init",
    "decode_host",
    "encode_host",
    "host_address",
]

BRIDGE_ADDRESS = "10.77.0.1"
"""The fabric's own address, where `cobweb` and the tests stand."""

PREFIX_LENGTH = 16

OPERATOR = "operator"
"""A user on all hosts who is not root, logs in with the same key and may use sudo."""

_FIRST_HOST = 10
_HOSTS_PER_OCTET = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricHost:
    """One host of a fabric; `number` counts from 0 within it.

    It has `disks` empty disks of `disk_mb`: /dev/vdb, /dev/vdc, ...
    """

    number: int
    name: str
    address: str
    init: Init
    disks: int = 0
    disk_mb: int = 0

    @property
    def port(self) -> str:
        """Return the name of its end of the cable at the fabric's bridge."""
        return f"port{self.number}"

    @property
    def hardware_address(self) -> str:
        """Return the address of its network card, the same after each boot."""
        return f"02:77:00:00:{self.number >> 8:02x}:{self.number & 0xFF:02x}"


def host_address(number: int) -> str:
    """Return the address of a host; only namespaces of the fabric know it."""
    high, low = divmod(number, _HOSTS_PER_OCTET)
    return f"10.77.{high}.{low + _FIRST_HOST}"


def encode_host(host: FabricHost) -> dict[str, Any]:
    """Turn a host into plain data."""
    return asdict(host)


def decode_host(data: Mapping[str, Any]) -> FabricHost:
    """Turn plain data into a host."""
    return FabricHost(**{**data, "init": Init(data["init"])})
