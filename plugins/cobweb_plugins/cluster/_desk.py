"""What all operations work on: catalog and clusters of the site, layouts, and edits of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from cobweb.errors import CobwebError, ModelError, SiteError, UsageError
from cobweb.model import CobId, host_of
from cobweb.plugin import SiteAccess, Solver, field_problems
from cobweb_plugins.cluster._catalog import Catalog, Service
from cobweb_plugins.cluster._catalog_read import read_catalog
from cobweb_plugins.cluster._compile import host_of_node
from cobweb_plugins.cluster._edit import SiteEdit
from cobweb_plugins.cluster._lock import LOCK_FILE, LockedCluster, lock_text, read_lock
from cobweb_plugins.cluster._pin import pin, request_digest
from cobweb_plugins.cluster._problems import Problem
from cobweb_plugins.cluster._template import Resolved, resolve

DEFAULT_SOLVER = "cpsat"
SITE_FILE = "site.yml"
CLUSTERS = "clusters"

Said = Mapping[str, Any]


class Desk:
    """The clusters of a site as one command sees them; with `tenant` those of one tenant alone."""

    def __init__(self, access: SiteAccess, tenant: str | None = None) -> None:
        self.access = access
        self.tenant = tenant

    @cached_property
    def sections(self) -> Mapping[str, Any]:
        """The sections of the site, as they were when the command began."""
        return self.access.sections()

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog; SiteError with the places of what is wrong."""
        return self.catalog_of(self.sections)

    @cached_property
    def _lock_text(self) -> str:
        return self.access.read(LOCK_FILE) or ""

    @cached_property
    def locked(self) -> Mapping[str, LockedCluster]:
        """The layouts that are pinned, of clusters that the site has.

        Others are what an interrupted delete has left: a new cluster of that name has none.
        """
        known = self.sections.get(CLUSTERS) or {}
        found = read_lock(self._lock_text or None)
        return {name: it for name, it in found.items() if name in known}

    @property
    def clusters(self) -> Mapping[str, Said]:
        """All clusters as the site writes them, those of the tenant if there is one."""
        every: Mapping[str, Said] = self.sections.get(CLUSTERS) or {}
        if self.tenant is None:
            return every
        return {name: said for name, said in every.items() if said.get("tenant") == self.tenant}

    def said(self, name: str) -> Said:
        """Return what the site says of a cluster; UsageError if it is none, or another tenant's."""
        every = self.sections.get(CLUSTERS) or {}
        if name not in every:
            close = get_close_matches(name, list(self.clusters), n=1)
            known = ", ".join(self.clusters) or "none"
            hint = f"did you mean {close[0]}?" if close else f"there is {known}"
            raise UsageError(f"there is no cluster {name}", hint=hint)
        if name not in self.clusters:
            raise UsageError(f"the cluster {name} is not one of the tenant {self.tenant}")
        said: Said = every[name]
        return said

    def resolved(self, name: str, said: Said) -> Resolved:
        """Return a cluster as it would be if the site said so; SiteError where it cannot be."""
        sections = {**self.sections, CLUSTERS: {**self.sections.get(CLUSTERS, {}), name: said}}
        return self.resolve(self.catalog_of(sections), name)

    def services(self, name: str, said: Said) -> tuple[str, ...]:
        """Return the services of a cluster, its own or those of its template, as written."""
        own = said.get("services")
        if own is not None:
            return tuple(own)
        return self.resolved(name, said).template.defaults.services

    def objects_of(self, names: Iterable[str]) -> frozenset[CobId]:
        """Return the known objects on the nodes of some clusters, as these are laid out by now.

        Those on the host that stands for a cluster as a whole are among them.
        """
        hosts: set[str] = set()
        for name in self.locked.keys() & set(names):
            hosts |= {name, *(host_of_node(name, number) for number in self.locked[name].nodes)}
        states = self.access.states() if hosts else {}
        return frozenset(cob for cob in states if host_of(cob) in hosts)

    @property
    def catalog_services(self) -> Mapping[str, Service]:
        """The services of the catalog, whatever is wrong with the clusters of the site."""
        return self.catalog_of({"catalog": self.sections.get("catalog")}).services

    def catalog_of(self, sections: Mapping[str, Any]) -> Catalog:
        """Return the catalog of some sections; SiteError with the places of what is wrong."""
        try:
            return read_catalog(sections)
        except ModelError as error:
            raise self.access.placed(error) from error

    def resolve(self, catalog: Catalog, name: str) -> Resolved:
        """Return a cluster with what its template says; SiteError where it cannot be."""
        try:
            return resolve(catalog, catalog.clusters[name])
        except ModelError as error:
            raise self.access.placed(error) from error

    def solver(self, resolved: Resolved, name: str | None = None) -> Solver:
        """Return the solver that is asked for: by the command, by the cluster, or the default."""
        wanted = name or resolved.cluster.solver or DEFAULT_SOLVER
        known = self.access.plugins.solvers
        if wanted not in known:
            hint = f"there is {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"there is no solver {wanted}", hint=hint)
        return known[wanted]

    def is_pinned(self, name: str, resolved: Resolved) -> bool:
        """Say whether the layout of a cluster is that of what it asks for."""
        locked = self.locked.get(name)
        return locked is not None and locked.request == request_digest(resolved)

    def layout(self, resolved: Resolved, solver: str | None = None) -> LockedCluster:
        """Return the layout of a cluster: the pinned one, or else one that is solved now."""
        name = resolved.cluster.name
        if solver is None and self.is_pinned(name, resolved):
            return self.locked[name]
        return pin(resolved, self.solver(resolved, solver), self.locked.get(name))

    def change(self, edit: SiteEdit, changes: Mapping[str, Said | None]) -> bool:
        """Write clusters anew (None: there is none any more) and their layouts; say if any differ.

        All that `changes` follow from was read since the edit began.
        """
        every = {**(self.sections.get(CLUSTERS) or {}), **changes}
        after = {name: said for name, said in every.items() if said is not None}
        catalog = self.catalog_of({**self.sections, CLUSTERS: after})
        locked = {name: it for name, it in self.locked.items() if name in after}
        for name in changes:
            if name in after:
                resolved = self.resolve(catalog, name)
                self._refuse_provider(resolved)
                locked[name] = self.layout(resolved)
        is_changed = False
        for name, said in changes.items():
            before = (self.sections.get(CLUSTERS) or {}).get(name)
            if said != before:
                is_changed |= _write(edit, self._file(name), name, before, said)
        return edit.write(LOCK_FILE, lock_text(locked), self._lock_text) or is_changed

    def _refuse_provider(self, resolved: Resolved) -> None:
        """Refuse a provider that no plugin has, or fields that it does not take: SiteError."""
        said, known = resolved.provider, self.access.plugins.providers
        path = ("catalog", "providers", said.name)
        problems: list[Problem]
        if said.type not in known:
            hint = f"there is {', '.join(sorted(known)) or 'none'}"
            problems = [((*path, "type"), f"there is no kind of provider `{said.type}`", hint)]
        else:
            problems = [
                ((*path, "fields", *keys), message, hint)
                for keys, message, hint in field_problems(known[said.type].fields, said.fields)
            ]
        if problems:
            raise self.access.placed(ModelError(problems))

    def _file(self, name: str) -> str:
        """Return the file that has a cluster, or the one that has clusters, or `site.yml`."""
        if CLUSTERS not in self.sections:
            return SITE_FILE
        path = (CLUSTERS, name) if name in (self.sections[CLUSTERS] or {}) else (CLUSTERS,)
        error = ModelError([(path, "", "")])
        found: SiteError = self.access.placed(error)
        return found.findings[0].place.file


def _write(edit: SiteEdit, file: str, name: str, before: Said | None, said: Said | None) -> bool:
    def change(data: Any) -> None:
        if not isinstance(data, dict):
            raise CobwebError(f"cannot edit {file}: it is no mapping")
        clusters = data.get(CLUSTERS)
        if not clusters:  # an empty one may be written as `{}`, which stays in one line for ever
            clusters = data[CLUSTERS] = {}
        if said is None:
            del clusters[name]
            if not clusters:
                _empty(data, CLUSTERS)
        elif before is not None and name in clusters:
            _become(clusters[name], before, said)
        else:
            clusters[name] = dict(said)

    return edit.change(file, change)


def _empty(data: Any, key: str) -> None:
    """Write `{}` beside a key; comments between the two would push it out of the mapping."""
    nothing = type(data[key])()
    nothing.fa.set_flow_style()
    data[key] = nothing
    comments = data.ca.items.get(key)
    if comments:
        comments[3] = None


def _become(here: Any, before: Any, said: Said) -> None:
    """Write into a mapping of a file only what differs between `before` and `said`.

    All else stays as it is written there: comments, vaulted values, priorities.
    """
    for key in [key for key in before if key not in said]:
        here.pop(key, None)
    for key, value in said.items():
        old = before.get(key)
        if key in before and old == value:
            continue
        if all(isinstance(it, Mapping) for it in (value, old, here.get(key))):
            _become(here[key], old, value)
        else:
            here[key] = value
