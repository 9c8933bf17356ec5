"""The generations in the state database, read back; each at most once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING

from cobweb.generation import StoredSite, read_site
from cobweb.model import Graph
from cobweb.operations.context._renames import names_since

if TYPE_CHECKING:
    from cobweb.operations.context._stored_work import KeptWork
    from cobweb.store import Store


class Generations:
    """Reads generations when they are asked for; StoreError where one is damaged.

    `site` and `find` return a generation, and it with its graph; None for one that is not there.
    Objects have the names that they have now. `roots` are the folders that the paths of actions are
    relative to. With `work` the actions are those that can be carried out now.
    """

    def __init__(
        self, store: Store, roots: Mapping[str, str], work: KeptWork | None = None
    ) -> None:
        self._store = store
        self._roots = roots
        self._work = work
        self.site = cache(self._read)
        self.find = cache(self._find)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All generations, the newest first."""
        return tuple(info.id for info in self._store.generations())

    @cached_property
    def active(self) -> Mapping[str, int]:
        """The generation that each host has switched to."""
        return self._store.host_generations()

    def _find(self, generation: int) -> tuple[StoredSite, Graph] | None:
        if (site := self.site(generation)) is None:
            return None
        graph = site.graph(self._roots)
        return site, (self._work.graph(graph, site.files) if self._work else graph)

    def _read(self, generation: int) -> StoredSite | None:
        found = self._store.generation(generation) if generation else None
        if found is None:
            return None
        return read_site(found.content).renamed(names_since(self._store.renames(), generation))
