"""A site that was evaluated before and has not changed since: what it says without evaluating it.

Three entries: under the base key what the disk said at that time with the site's head, under the
site's key its graph, and under the place's key nothing at all: it says that there is a large site.
The first is good only while the disk still says the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cobweb._cache import Cache
from cobweb.model import CobType, Graph
from cobweb.site._key import place_key, site_key
from cobweb.site._packed import pack, unpack
from cobweb.site.objects._drift import Ignored
from cobweb.site.reading._files import Files, Notes, unchanged

MIN_COBS = 5000
"""Smaller sites are evaluated in the time that it takes to look."""

_LARGE, _SITE, _GRAPH = "large", "site", "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a site says without its objects; `hosts` are names in the inventory's order."""

    name: str
    dir: Path
    state_url: str
    types: Mapping[str, CobType]
    sections: Mapping[str, Any]
    ignored: tuple[Ignored, ...]
    hosts: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A site as it was kept; `key` is that of its content, `notes` are what it was made from."""

    cache: Cache
    key: str
    head: Head
    notes: Notes

    def graph(self) -> Graph | None:
        """Return the whole graph; None if it is not there any more."""
        data = self.cache.get(_GRAPH, self.key)
        return None if data is None else unpack(data, self.head.types)


def find_kept(
    cache: Cache, site_file: Path, base_key: Callable[[], str], foreign: Mapping[str, CobType]
) -> Kept | None:
    """Return the site that was kept under a base key, if nothing that it was made from differs.

    `foreign` are the types of plugins, which are not kept. Reads every file of the site; where no
    large site was kept, neither these nor the base key, which takes a look at all of Cobweb's own.
    """
    if cache.get(_LARGE, place_key(site_file)) is None:
        return None
    base = base_key()
    data = cache.get(_SITE, base)
    if data is None:
        return None
    head, notes = pickle.loads(data)  # noqa: S301  the cache is the user's own
    if head.dir != site_file.parent.resolve() or not unchanged(notes):
        return None
    whole = replace(head, types={**foreign, **head.types})
    return Kept(cache=cache, key=site_key(base, notes), head=whole, notes=notes)


def keep(cache: Cache, files: Files, base: str, head: Head, graph: Graph) -> None:
    """Keep a site without mistakes; `head.types` are those that the site itself defines."""
    packed = pack(graph)
    if packed is not None:
        cache.put(_GRAPH, site_key(base, files.notes), packed)
        cache.put(_SITE, base, pickle.dumps((head, dict(files.notes))))
        cache.put(_LARGE, place_key(files.site_file), b"")
