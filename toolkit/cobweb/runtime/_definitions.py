"""What an object was when it was applied last, where the site says something else of it by now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cobweb.generation import reveal
from cobweb.model import Cob, CobId, Host, host_of
from cobweb.runtime._desired import Desired
from cobweb.runtime._generations import Generations
from cobweb.store import CobRecord, Store

__all__ = ["Definition", "Definitions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """An object as it was applied under a generation, and its host as it was reached then."""

    cob: Cob
    host: Host
    generation: int


class Definitions:
    """Finds definitions in the generations of the state database, the vaulted values in the site.

    Raises StoreError where a generation is damaged.
    """

    def __init__(self, store: Store, desired: Desired) -> None:
        self._generations = Generations(store, desired.roots)
        self._desired = desired

    def of(self, records: Iterable[CobRecord]) -> Mapping[CobId, Definition]:
        """Return the definitions that records were written for; some may not be known any more."""
        found = ((record.cob, self._definition(record)) for record in records)
        return {cob: made for cob, made in found if made is not None}

    def _definition(self, record: CobRecord) -> Definition | None:
        for generation in self._candidates(record):
            found = self._generations.find(generation)
            if found is None:
                continue
            site, graph = found
            if site.contents.get(record.cob) == record.content:
                return self._revealed(
                    Definition(
                        cob=graph.cobs[record.cob],
                        host=site.hosts[host_of(record.cob)],
                        generation=generation,
                    )
                )
        return None

    def _candidates(self, record: CobRecord) -> Iterator[int]:
        """Yield generations, the most likely first."""
        first = (self._generations.active.get(host_of(record.cob), 0), record.generation)
        yield from first
        yield from (each for each in self._generations.ids if each not in first)

    def _revealed(self, it: Definition) -> Definition | None:
        """Return a definition with its vaulted values; None where the site has them no more."""
        spec, missing = reveal(it.cob.spec, self._secrets)
        variables, unknown = reveal(it.host.variables, self._secrets)
        if missing or unknown:
            return None
        return replace(
            it, cob=replace(it.cob, spec=spec), host=replace(it.host, variables=variables)
        )

    @cached_property
    def _secrets(self) -> Mapping[str, Mapping[str, Any]]:
        return self._desired.secrets()
