"""What there is of machines: a folder each, with what it is in `machine.json`, for every process.

The record is written before anything of a machine exists, and goes after all of it is gone, so that
whoever asks later, in whatever process, finds what an interrupted call has left.
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cobweb.errors import ProviderError
from cobweb.plugin import NodeRequest

_FORMAT = 1
_FIRST = 2
"""The first address of the network that a machine can have; the one before is the bridge's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One machine: whose it is, where it is reached, and what it hangs on."""

    id: str
    node: str
    owner: str
    address: str
    bridge: str
    format: int = _FORMAT

    @property
    def port(self) -> str:
        """The name of its cable's end at the bridge, at most 15 letters."""
        return f"cw{int(ipaddress.IPv4Address(self.address)):08x}"


class Records:
    """The records in a folder of the machine's, `root`; what changes them holds a lock."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, request: NodeRequest) -> Path:
        """Return where all is that belongs to a node's machine; it need not exist."""
        return self.root / "machines" / f"{request.node}@{_digest(request.owner)}"

    def hosts_file(self, owner: str) -> Path:
        """Return the file that an owner's machines have as /etc/hosts."""
        return self.root / f"hosts-{_digest(owner)}"

    def read(self, request: NodeRequest) -> Record | None:
        """Return what there is of a node's machine; None for nothing."""
        return _read(self.folder(request) / "machine.json")

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Be the only one, of all threads and processes, that holds the lock `name`."""
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def add(self, request: NodeRequest, identity: str, bridge: str, network: str) -> Record:
        """Write down a machine that is to be, with an address of its own, under the lock."""
        record = Record(
            id=identity,
            node=request.node,
            owner=request.owner,
            address=self._free_address(ipaddress.IPv4Network(network)),
            bridge=bridge,
        )
        folder = self.folder(request)
        if folder.exists():  # of a machine whose record has gone already
            shutil.rmtree(folder)
        folder.mkdir(parents=True, mode=0o700)
        _write(folder / "machine.json", json.dumps(asdict(record), indent=1))
        self.write_hosts(request.owner)
        return record

    def remove(self, request: NodeRequest) -> None:
        """Forget a machine; the caller has the lock."""
        folder = self.folder(request)
        (folder / "machine.json").unlink()
        shutil.rmtree(folder)
        self.write_hosts(request.owner)

    def in_use(self, bridge: str) -> bool:
        """Say whether a machine hangs on a bridge."""
        return any(record.bridge == bridge for record in self._all())

    def write_hosts(self, owner: str) -> None:
        """Let the machines of an owner know each other by name.

        The file is written in its place, for they have mounted it; it goes with the last of them.
        """
        file = self.hosts_file(owner)
        mine = [record for record in self._all() if record.owner == owner]
        if not mine:
            file.unlink(missing_ok=True)
            return
        lines = sorted(f"{it.address} {it.node}" for it in mine)
        text = "\n".join(["127.0.0.1 localhost", *lines, ""]).encode()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        finally:
            os.close(descriptor)

    def _free_address(self, network: ipaddress.IPv4Network) -> str:
        """Return a free address of the network: not the one that was given back last."""
        used = {record.address for record in self._all()}
        last = self.root / f"last-{network.network_address}"
        places = network.num_addresses - _FIRST - 1
        start = int(last.read_text(encoding="ascii")) if last.exists() else -1
        for step in range(1, places + 1):
            number = (start + step) % places
            address = str(network[_FIRST + number])
            if address not in used:
                _write(last, str(number))
                return address
        raise ProviderError(
            f"all {places} addresses of {network} are in use", hint="give a larger `network`"
        )

    def _all(self) -> list[Record]:
        found = [_read(file) for file in sorted(self.root.glob("machines/*/machine.json"))]
        return [record for record in found if record is not None]


def _read(file: Path) -> Record | None:
    try:
        data: Mapping[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return Record(**data)  # type: ignore[arg-type]  # what we wrote
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ProviderError(f"{file} cannot be used: {error}") from error


def _write(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


def _digest(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:12]
