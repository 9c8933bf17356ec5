"""What the verdict of a canary is about: the contents in the scopes of units (section 5b)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property

from cobweb.engine.budgets._units import tie, tied
from cobweb.model import CobId, Graph, Unit


class Contents:
    """The contents of all objects in the goal, as digests; {} where nobody has told them."""

    def __init__(self, contents: Mapping[CobId, str], graph: Graph) -> None:
        self._contents = contents
        self._graph = graph

    def of(self, units: Iterable[Unit]) -> str:
        """Return a digest of what is in the scopes of units in the goal, "" for nothing."""
        found = set[CobId]()
        for unit in units if self._contents else ():
            found |= tied(unit.members & self._contents.keys(), self._near)
        text = "".join(f"{cob} {self._contents[cob]}\n" for cob in sorted(found))
        return hashlib.sha256(text.encode()).hexdigest() if text else ""

    @cached_property
    def _near(self) -> Mapping[CobId, set[CobId]]:
        """Whom the needs of the goal tie to each object."""
        near: dict[CobId, set[CobId]] = {}
        tie(near, (it for it in self._graph.needs if self._contents.keys() >= {it.cob, it.on}))
        return near
