"""What a run writes down before it acts (design, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cobweb.store import Entry


class Journal(Protocol):
    """A durable place for the entries of a run."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Store all entries in one transaction; return when they are safe."""


class NoJournal:
    """For runs that touch nothing: simulations and plans."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Forget the entries."""
