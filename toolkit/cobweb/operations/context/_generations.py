"""The generations in the state database, read back; each at most once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from cobweb.generation import StoredSite, read_site
from cobweb.model import CobId, Graph, host_of
from cobweb.operations.context._renames import names_since

if TYPE_CHECKING:
    from cobweb.operations.context._stored_work import KeptWork
    from cobweb.store import Store


class Generations:
    """Reads generations when they are asked for; StoreError where one is damaged.

    Objects have the names that they have now. `roots` are the folders that the paths of actions are
    relative to. With `work` the actions are those that can be carried out now.
    """

    def __init__(
        self, store: Store, roots: Mapping[str, str], work: KeptWork | None = None
    ) -> None:
        self._store = store
        self._roots = roots
        self._work = work
        self._sites: dict[int, StoredSite | None] = {}
        self._read: dict[int, tuple[StoredSite, Graph] | None] = {}

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All generations, the newest first."""
        return tuple(info.id for info in self._store.generations())

    @cached_property
    def active(self) -> Mapping[str, int]:
        """The generation that each host has switched to."""
        return self._store.host_generations()

    def type_of(self, cob: CobId) -> str | None:
        """Return the type that an object has for its host; None where it does not know it."""
        site = self._site(self.active.get(host_of(cob), 0))
        return None if site is None else site.type_names.get(cob)

    def has_limits(self, generation: int) -> bool:
        """Say whether a generation has limits."""
        site = self._site(generation)
        return site is not None and site.has_limits

    def find(self, generation: int) -> tuple[StoredSite, Graph] | None:
        """Return a site and its graph; None for a generation that is not there."""
        if generation not in self._read:
            self._read[generation] = None
            if (site := self._site(generation)) is not None:
                graph = site.graph(self._roots)
                graph = self._work.graph(graph, site.files) if self._work else graph
                self._read[generation] = site, graph
        return self._read[generation]

    def _site(self, generation: int) -> StoredSite | None:
        if generation not in self._sites:
            found = self._store.generation(generation) if generation else None
            site = None if found is None else read_site(found.content)
            names = names_since(self._store.renames(), generation) if site else {}
            self._sites[generation] = site.renamed(names) if site and names else site
        return self._sites[generation]
