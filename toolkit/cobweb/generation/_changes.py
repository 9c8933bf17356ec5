"""What changed between two sites, by the content digests of their objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cobweb.model import CobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Every id of the old and the new site in exactly one of four sorted tuples."""

    added: tuple[CobId, ...]
    removed: tuple[CobId, ...]
    changed: tuple[CobId, ...]
    same: tuple[CobId, ...]

    def __bool__(self) -> bool:
        """Say whether anything differs."""
        return bool(self.added or self.removed or self.changed)


def changes(old: Mapping[CobId, str], new: Mapping[CobId, str]) -> Changes:
    """Compare the content digests of two sites."""
    both = sorted(old.keys() & new.keys())
    return Changes(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(cob for cob in both if old[cob] != new[cob]),
        same=tuple(cob for cob in both if old[cob] == new[cob]),
    )
