"""What a run is to bring about: what the site's files say, or an earlier generation."""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cobweb._resources import data_dir
from cobweb.generation import OWN_ROOT, SITE_ROOT, EvaluatedSite, KeptFiles, kept_files, secrets_of
from cobweb.model import CobId, Graph, Host
from cobweb.operations.context._commit import commit_of
from cobweb.site import Site

__all__ = ["Desired", "desired_of", "roots_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A site, or the part of it that `limit` selects, as it is to become; `name` is for people.

    `graph` has the objects that take part, of which the `movable` ones may be moved. `hosts` are
    all hosts of the site, `chosen` those that the limit selects (all without one). `evaluated` is
    `graph` as a generation has it, `whole` makes that of all of the site. `roots` are the folders
    that the paths of actions are relative to in a generation. `dir` is the site's folder, `commit`
    the Git commit that it is at. `files` are the kept files and the archives of file trees by their
    SHA-256 (none for an earlier generation: the state database has them), `secrets` the vaulted
    values of the site as it is now, by the digest that stands for each in a generation. `kept` are
    the files of the earlier generation that it is, if it is one. `only` are all that may be moved,
    where that was asked for; then `chosen` are the hosts of which nothing else is pending.
    `is_deletion` says that all of the site is to go.
    """

    name: str
    graph: Graph
    hosts: Mapping[str, Host]
    chosen: frozenset[str]
    evaluated: EvaluatedSite
    whole: Callable[[], EvaluatedSite]
    roots: Mapping[str, str]
    dir: Path
    commit: Callable[[], str]
    files: Callable[[], Mapping[str, bytes]]
    secrets: Callable[[], Mapping[str, Mapping[str, Any]]]
    limit: str | None = None
    only: frozenset[CobId] | None = None
    kept: KeptFiles | None = None
    is_deletion: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all of the site is to come about."""
        return self.limit is None and self.only is None

    @property
    def movable(self) -> frozenset[CobId]:
        """The objects that may be moved."""
        cobs = self.graph.cobs
        if self.only is not None:
            return self.only
        if self.limit is None:
            return frozenset(cobs)
        return frozenset(cob for cob, it in cobs.items() if it.host in self.chosen)


def desired_of(site: Site, limit: str | None = None) -> Desired:
    """Return what the files of a site say; `limit` is a host pattern.

    SiteError with all findings, UsageError for a limit that selects nothing.
    """
    graph = site.graph(limit)
    evaluated = _evaluated(site, graph)
    return Desired(
        name=site.name,
        graph=graph,
        hosts=site.hosts,
        chosen=frozenset(site.hosts if limit is None else site.select(limit)),
        evaluated=evaluated,
        whole=lambda: evaluated if limit is None else _evaluated(site, site.graph(None)),
        roots=roots_of(site),
        dir=site.dir,
        commit=lambda: commit_of(site.dir),
        files=lambda: _files(site),
        secrets=lambda: _secrets(site),
        limit=limit,
        is_deletion=not graph.cobs and not site.is_present,
    )


def roots_of(site: Site) -> Mapping[str, str]:
    """Return the folders that a generation names by a word: the site's, the shipped playbooks'."""
    return {SITE_ROOT: str(site.dir.resolve()), OWN_ROOT: str(data_dir("playbooks"))}


def _evaluated(site: Site, graph: Graph) -> EvaluatedSite:
    hosts = {name: site.hosts[name] for name in graph.hosts()}
    files = kept_files(site.work_files())
    return EvaluatedSite(graph, hosts, roots=roots_of(site), files=files)


def _files(site: Site) -> Mapping[str, bytes]:
    kept = {hashlib.sha256(content).hexdigest(): content for content in site.work_files().values()}
    return ChainMap(kept, cast("MutableMapping[str, bytes]", site.trees()))  # which only reads


def _secrets(site: Site) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for host in site.hosts.values():
        found |= secrets_of(host.variables)
    for kind in site.types.values():
        found |= secrets_of(kind.shared)
    for cob in site.graph(None).cobs.values():
        found |= secrets_of(cob.spec)
    return found
