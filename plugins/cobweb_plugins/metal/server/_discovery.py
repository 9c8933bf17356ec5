"""Machines that nobody knows: for a while they get a trampoline that tells what they are.

Each is looked at once and started again; then it boots from its own disk.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cobweb_plugins.metal.server import _life as life

PREFIX = "_."
"""How tokens of unknown machines begin; no machine is called so."""

_MOST = 1000
"""How many machines are remembered; whoever is on the network can make some up."""


class Discovery:
    """What was found, kept in a file of `folder`; `until` is when the window closes, or 0.

    Times are seconds since the epoch.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self._path = folder / "found.json"
        self._peers: dict[str, tuple[str, str]] = {}
        self._looked_at: set[str] = set()
        self.until = 0.0
        self.found: dict[str, Mapping[str, Any]] = {}
        with suppress(FileNotFoundError, ValueError):  # a crash may have torn it: look again
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            self.found = kept["found"]
            self.until = kept["until"] if kept["until"] > now else 0.0

    def open(self, until: float) -> None:
        """Look for machines until then, 0 for no longer; also at those that were found before."""
        if not self.until:
            self._looked_at.clear()
            self._peers.clear()
        self.until = until
        self._write()

    def boot(self, mac: str, peer: str) -> tuple[str, str]:
        """Return the token of a firmware, "" for none, and what it is told: to go on, later on."""
        is_full = len(self._peers) >= _MOST or len(self.found) >= _MOST
        if not self.until or mac in self._looked_at or is_full:
            return "", life.DISK
        token = f"{PREFIX}{secrets.token_urlsafe(24)}"
        self._peers = {key: it for key, it in self._peers.items() if it[0] != mac}
        self._peers[token] = (mac, peer)
        return token, life.TO_TRAMPOLINE

    def spoken(self, token: str, peer: str) -> str:
        """Return the MAC of who speaks, "" where the server has not caused this boot."""
        mac, address = self._peers.get(token, ("", ""))
        return mac if peer == address else ""

    def keep(self, mac: str, hardware: Mapping[str, Any], now: float) -> None:
        """Remember what a machine is."""
        self._looked_at.add(mac)
        self.found[mac] = {"mac": mac, "time": now, "hardware": hardware}
        self._write()

    def forget(self, mac: str) -> None:
        """Look at a machine once more, if it comes again."""
        if self.found.pop(mac, None) is not None:
            self._write()

    def _write(self) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps({"until": self.until, "found": self.found}), encoding="utf-8")
        fresh.replace(self._path)
