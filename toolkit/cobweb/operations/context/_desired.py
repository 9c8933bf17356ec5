"""What a run is to bring about: what the site's files say, or an earlier generation.

A run may depart from that by exceptions of its own, which are recorded with it.

Which Git commit a site is at: said of a generation, never asked to decide anything.

So whatever hinders the answer makes it empty: no Git, no repository, one that belongs to someone
else, a damaged one, one that takes too long.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from cobweb._resources import data_dir
from cobweb._text import did_you_mean
from cobweb.errors import UsageError
from cobweb.generation import OWN_ROOT, SITE_ROOT, EvaluatedSite, KeptFiles, kept_files, secrets_of
from cobweb.model import CobId, Graph, Host
from cobweb.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """A site, or the part of it that `limit` selects, as it is to become; `name` is for people.

    `graph` has the objects that take part, of which the `movable` ones may be moved. `hosts` are
    all hosts of the site, `groups` those of each group, `chosen` those that the limit selects (all
    without one). `evaluated` is `graph` as a generation has it, `whole` makes that of all of the
    site. `roots` are the folders that the paths of actions are relative to in a generation. `dir`
    is the site's folder, `commit` the Git commit that it is at. `files` are the kept files and the
    archives of file trees by their SHA-256 (none for an earlier generation: the state database has
    them), `secrets` the vaulted values of the site as it is now, by the digest that stands for each
    in a generation. `kept` are the files of the earlier generation that it is, if it is one. `only`
    are all that may be moved, where that was asked for; then `chosen` are the hosts of which
    nothing else is pending. `is_deletion` says that all of the site is to go. `decisions` are the
    revisions of sections that the site was evaluated with, `releases` says what these let go.
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
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kept: KeptFiles | None = None
    is_deletion: bool = False
    decisions: Mapping[str, int] = field(default_factory=dict)
    releases: Callable[[CobId], bool] = lambda _cob: False

    @property
    def is_whole(self) -> bool:
        """Whether all of the site is to come about."""
        return self.limit is None and self.only is None

    def chooses(self, host: str) -> bool:
        """Say whether a limit of the run, if it has one, selects a host."""
        return self.is_whole or host in self.chosen

    @property
    def movable(self) -> frozenset[CobId]:
        """The objects that may be moved: what is moved on demand only where it is asked for."""
        if self.only is not None:
            return self.only
        cobs = {cob: it for cob, it in self.graph.cobs.items() if not it.type.on_demand}
        if self.limit is None:
            return frozenset(cobs)
        return frozenset(cob for cob, it in cobs.items() if it.host in self.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceptions:
    """How one run departs from what the site says: each is asked for, and recorded with the run.

    `budgets` are other bounds, by name of the limit; with `new_canary` canaries are chosen again.
    Only the objects of `only`, and what they need, are moved (none: all); those of `renew` are
    taken for changed.
    """

    budgets: Mapping[str, int] = field(default_factory=dict)
    new_canary: bool = False
    only: frozenset[CobId] = frozenset()
    renew: frozenset[CobId] = frozenset()

    def bounded(self, graph: Graph) -> Graph:
        """Return a graph with these bounds; UsageError for a name that none of its limits has."""
        asked, known = self.budgets, sorted(it.name for it in graph.budgets)
        if not asked:
            return graph
        for name in asked:
            if name not in known:
                other = f"did you mean {known[0]}?" if known else "the site has none"
                hint = did_you_mean(name, known, otherwise=other)
                raise UsageError(f"no limit on what is out is called {name!r}", hint=hint)
        bounded = (
            replace(it, count=asked[it.name], percent=None) if it.name in asked else it
            for it in graph.budgets
        )
        return replace(graph, budgets=tuple(bounded))

    def __str__(self) -> str:
        words = [f" --budget {name}={count}" for name, count in sorted(self.budgets.items())]
        for option, cobs in (("--only", self.only), ("--renew", self.renew)):
            words += [f" {option} {cob}" for cob in sorted(cobs)[:_SHOWN]]
            words += [f" {option} ... ({len(cobs)} in all)"] if len(cobs) > _SHOWN else []
        return "".join([*words, " --new-canary" if self.new_canary else ""])


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
        groups=site.groups,
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
        decisions={name: found.revision for name, found in site.decisions.items()},
        releases=site.releases,
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
    shared = [kind.shared for kind in site.types.values()]
    specs = [cob.spec for cob in site.graph(None).cobs.values()]
    return secrets_of([*(host.variables for host in site.hosts.values()), *shared, *specs])


_SHOWN = 5
"""How many objects the command of a run names."""

CHANGED = "+changes"
"""What follows the commit where the folder is not as the commit has it."""

TIMEOUT_S = 10.0
"""How long one call of Git may take."""

_STATE = ":(exclude).cobweb"
"""The default place of the state database; each run changes it."""

_ELSEWHERE = frozenset(
    [
        *("GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_NAMESPACE"),
        *("GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE"),
    ]
)
"""Variables that point to another repository than the folder's; a Git hook is called with them."""


def commit_of(folder: Path) -> str:
    """Return the commit of the Git repository that has `folder`, in full; empty if none has.

    With `CHANGED` at its end if a file of the folder differs from the commit or is not in it;
    ignored files and `.cobweb` do not count. Only looks, and ends in bounded time.
    """
    try:
        # The second is the folder's own tree: a commit without the folder does not tell of it.
        commit = _git(folder, "rev-parse", "HEAD", "HEAD:./").partition("\n")[0]
        changes = _git(folder, "status", "--porcelain", "-z", "--", ".", _STATE)
    except (OSError, subprocess.SubprocessError):
        return ""
    return commit + (CHANGED if changes else "")


def _git(folder: Path, *arguments: str) -> str:
    """Return what Git says; OSError where there is none, SubprocessError where it cannot say it."""
    command = ("git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments)
    environment = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
        start_new_session=True,  # a group of its own: Git's helpers end with it
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output.decode(errors="replace")
