"""The generations in the state database, read back; each at most once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from cobweb.generation import StoredSite, read_site
from cobweb.model import Graph
from cobweb.runtime._kept_work import KeptWork
from cobweb.store import Store

__all__ = ["Generations"]


class Generations:
    """Reads generations when they are asked for; StoreError where one is damaged.

    `roots` are the folders that the paths of actions are relative to. With `work` the actions are
    those that can be carried out now.
    """

    def __init__(
        self, store: Store, roots: Mapping[str, str], work: KeptWork | None = None
    ) -> None:
        self._store = store
        self._roots = roots
        self._work = work
        self._read: dict[int, tuple[StoredSite, Graph] | None] = {}

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All generations, the newest first."""
        return tuple(info.id for info in self._store.generations())

    @cached_property
    def active(self) -> Mapping[str, int]:
        """The generation that each host has switched to."""
        return self._store.host_generations()

    def find(self, generation: int) -> tuple[StoredSite, Graph] | None:
        """Return a site and its graph; None for a generation that is not there."""
        if generation not in self._read:
            found = self._store.generation(generation) if generation else None
            self._read[generation] = None if found is None else self._made(read_site(found.content))
        return self._read[generation]

    def _made(self, site: StoredSite) -> tuple[StoredSite, Graph]:
        graph = site.graph(self._roots)
        return site, self._work.graph(graph, site.files) if self._work else graph
