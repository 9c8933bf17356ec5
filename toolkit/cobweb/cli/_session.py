"""One place that finds the site and loads what a command needs of it, each thing once."""

from __future__ import annotations

import logging
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from cobweb.cli._request import Request
from cobweb.errors import CobwebError, Finding, Place, SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cobweb._cache import Cache
    from cobweb.model import Graph, Host
    from cobweb.plugin import Adapter, Plugins
    from cobweb.site import Site
    from cobweb.store import Store

__all__ = ["Session", "open_site"]

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


class Session:
    """What one call of `cobweb` works on: plugins, site, graph and state database.

    Everything is loaded when it is first asked for, so that a command pays for what it uses only.
    Errors are those of the packages asked: SiteError for a missing or invalid site, PluginError
    for a broken plugin where `strict_plugins` is set, StoreError for the state database.
    Files outside of the site's repository, and programs that tell its hosts, are refused where
    they are not allowed. A session is a context manager that closes the store.
    """

    def __init__(
        self,
        site_path: Path | None = None,
        *,
        strict_plugins: bool = False,
        no_cache: bool = False,
        allow_outside: bool = False,
        trust_inventory: bool = False,
    ) -> None:
        self._wanted = site_path
        self._strict = strict_plugins
        self._no_cache = no_cache
        self.allow_outside = allow_outside
        self._trust_inventory = trust_inventory
        self._stores: dict[bool, Store] = {}

    @cached_property
    def path(self) -> Path:
        """The site's folder or file: as given, or the nearest `site.yml` upwards."""
        from cobweb.site import find_site

        if self._wanted is None:
            return find_site(_here())
        if not self._wanted.exists():
            message, hint = "there is no site here", "make one with `cobweb init`"
            raise SiteError(
                [Finding(place=Place(file=str(self._wanted)), message=message, hint=hint)]
            )
        return self._wanted

    @cached_property
    def cache(self) -> Cache:
        """What was worked out before; keeps nothing where the user wants none."""
        from cobweb._cache import Cache, open_cache

        return Cache(None) if self._no_cache else open_cache(os.environ)

    @cached_property
    def plugins(self) -> Plugins:
        """All plugins that could be loaded, and what was left out."""
        from cobweb.plugin import load_plugins

        plugins = load_plugins(strict=self._strict)
        for failed in plugins.failed:
            _LOG.warning("plugin left out: %s", failed)
        _LOG.info("plugins: %s", ", ".join(plugin.name for plugin in plugins.loaded))
        return plugins

    @cached_property
    def site(self) -> Site:
        """The evaluated site; SiteError with all findings where it is invalid."""
        from cobweb.site import load_site

        path, plugins = self.path, self.plugins
        adapters = plugins.adapters.values()
        readers = adapters if self._trust_inventory else map(_distrusted, adapters)
        _LOG.info("site: %s", path)
        try:
            return load_site(
                path,
                types=plugins.types,
                adapters=tuple(readers),
                sections={name: section.schema for name, section in plugins.sections.items()},
                expanders=tuple(plugins.expanders.values()),
                allow_outside=self.allow_outside,
                cache=self.cache,
            )
        except SiteError as error:
            for plugin in plugins.failed:
                error.add_note(f"plugin {plugin.name} was left out, see `cobweb plugins`")
            raise

    def graph(self, limit: str | None = None) -> Graph:
        """Return the COBs of the hosts that `limit` selects (None: all) and what they reach."""
        return self.site.graph(limit)

    def store(self, *, create: bool = False) -> Store:
        """Open the state database, once; without `create` a missing one reads as empty."""
        from cobweb.store import open_store

        if create not in self._stores:
            site = self.site
            self._stores[create] = open_store(site.state_url, site.dir, create=create)
        return self._stores[create]

    def history(self, *, create: bool = False) -> Store:
        """Open the state database, once, whatever is wrong with the rest of the site.

        Neither plugins nor the inventory are asked; `create` is as for `store`.
        """
        from cobweb.site import find_state
        from cobweb.store import open_store

        if create not in self._stores:
            url, folder = find_state(self.path, allow_outside=self.allow_outside)
            self._stores[create] = open_store(url, folder, create=create)
        return self._stores[create]

    def close(self) -> None:
        """Close what was opened; may be called again."""
        while self._stores:
            self._stores.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def open_site(request: Request, *, runs_tasks: bool = False) -> Session:
    """Return the session that the shared options ask for; nothing is read yet.

    A command that `runs_tasks` of the site, or plans them, lets its inventory run programs, too.
    """
    return Session(
        request.site,
        strict_plugins=request.strict_plugins,
        no_cache=request.no_cache,
        allow_outside=request.allow_outside,
        trust_inventory=request.trust_inventory or runs_tasks,
    )


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        message = f"the current folder cannot be read: {error.strerror}"
        raise CobwebError(message, hint="name the site with -C") from error


def _distrusted(adapter: Adapter) -> Adapter:
    """Return an adapter that tells no hosts: what it reads may be a program, or start one."""

    class Distrusted:
        name: ClassVar[str] = adapter.name
        reads = staticmethod(adapter.reads)

        def hosts(self, source: Path) -> Iterable[Host]:
            raise CobwebError(
                f"`{source.name}` may run programs, which this command lets no inventory do",
                hint="`--trust-inventory` if you trust all who write this site, or write YAML",
            )

    return Distrusted()
