"""What is settled before a site is read: what plugins add, and what the user allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobweb.model import CobType
    from cobweb.plugin import Adapter, Extension
    from cobweb.plugin._values import Expander
    from cobweb.site.reading._files import DecisionReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """COB types by name, readers of inventories, further sections with their JSON Schemas.

    `expanders` are those of the sections that stand for hosts and objects. With `allow_outside` the
    site may use files outside of its repository. `decisions` are those of its sections, for which
    `extensions` are what other plugins add.
    """

    types: Mapping[str, CobType]
    adapters: Sequence[Adapter]
    sections: Mapping[str, Mapping[str, Any]]
    expanders: Sequence[Expander]
    allow_outside: bool = False
    decisions: DecisionReader = dict
    extensions: Sequence[type[Extension]] = ()
