"""The site: hosts, COB types and change objects, evaluated on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobweb.errors import Finding, UsageError
from cobweb.inventory._bulk import make_all, no_collections
from cobweb.inventory._cobs import Cobs
from cobweb.inventory._explain import Explainer, Explanation
from cobweb.inventory._files import Files
from cobweb.inventory._findings import Findings
from cobweb.inventory._key import site_key
from cobweb.inventory._limits import Limits
from cobweb.inventory._needs import Expansion
from cobweb.inventory._patterns import PatternError, Patterns
from cobweb.inventory._references import References
from cobweb.inventory._scope import Evaluator
from cobweb.inventory._specs import Specs
from cobweb.inventory._tasks import missing_actions
from cobweb.inventory._types import ActionUse
from cobweb.inventory._variables import Hosts
from cobweb.model import Cob, CobId, CobType, Graph, Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a site is made of, once its files are read."""

    base_key: Callable[[], str]
    name: str
    state_url: str
    types: Mapping[str, CobType]
    uses: tuple[ActionUse, ...]
    files: Files
    evaluator: Evaluator
    patterns: Patterns
    cobs: Cobs
    references: References
    limits: Limits
    sections: Mapping[str, Any]


class Site:
    """A site whose files are read and whose references are resolved; see `load_site`.

    Specs are evaluated when `graph` asks for them, per host. All errors in them are findings of the
    `SiteError` that it raises. Not safe for use by several threads at once.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._findings = parts.files.findings
        self._specs = Specs(parts.evaluator, parts.files)
        references = parts.references
        self._expansion = Expansion(parts.cobs.defs, references.links, references.varying)
        self._hosts = Hosts(parts.evaluator.inventory, parts.evaluator.variables)
        self._graph: Graph | None = None

    @property
    def name(self) -> str:
        """The site's name; that of its folder if it gives none."""
        return self._parts.name

    @property
    def dir(self) -> Path:
        """The folder of `site.yml`, absolute."""
        return self._parts.files.site_dir

    @property
    def state_url(self) -> str:
        """The URL of the state database as written; a relative SQLite path is relative to `dir`."""
        return self._parts.state_url

    @property
    def types(self) -> Mapping[str, CobType]:
        """All COB types by name, those of plugins included."""
        return self._parts.types

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name in the inventory's order; each is made when it is asked for."""
        return self._hosts

    @property
    def sections(self) -> Mapping[str, Any]:
        """The top-level sections of plugins, as plain data."""
        return self._parts.sections

    def content_key(self) -> str | None:
        """Return the digest of everything that the site was made from so far, to keep results by.

        Equal keys mean equal evaluated sites. None where hosts come from a plugin or a program:
        what these say is never kept. Ask after `graph`: files are noted as they are read.
        """
        files = self._parts.files
        return None if files.foreign else site_key(self._parts.base_key(), files.notes)

    def select(self, pattern: str) -> tuple[str, ...]:
        """Return the hosts that an Ansible host pattern selects, in order; perhaps none.

        UsageError for unknown names and wrong syntax.
        """
        try:
            return self._parts.patterns.select(pattern)
        except PatternError as error:
            raise UsageError(str(error), hint=error.hint) from error

    def graph(self, limit: str | None = None) -> Graph:
        """Return the evaluated objects, their needs and limits.

        With `limit`, a host pattern, only the objects of those hosts and those elsewhere that their
        needs reach. SiteError with all findings of the evaluation; UsageError for a limit that
        selects nothing.
        """
        if limit is None:
            if self._graph is None:
                self._graph = self._made(self._seeds(None))
            return self._graph
        hosts = self.select(limit)
        if not hosts:
            raise UsageError(
                f"the limit `{limit}` selects no host", hint="`cobweb show` lists them"
            )
        return self._made(self._seeds(frozenset(hosts)))

    def explain(self, ref: str) -> Explanation:
        """Return where a value came from: `host/cob`, `host/cob.spec.path` or `host.variable`.

        UsageError for what does not exist; SiteError if it cannot be evaluated.
        """
        explainer = Explainer(self._parts.evaluator, self._parts.cobs.defs, self._specs)
        explanation = explainer.explain(ref)
        self._findings.raise_if_any()
        return explanation

    def findings_of_files(self) -> tuple[Finding, ...]:
        """Return what is wrong with the files that only a run needs, and in unused variables.

        Task files and roles of the types in use that do not exist or are no task files, and
        mistakes in host_vars of hosts without objects. Reads all of them.
        """
        self._parts.evaluator.variables.read_all()
        found = Findings()
        used = {cob.type.name for cob in self._parts.cobs.defs.values()}
        for use in self._parts.uses:
            if use.type_name in used:
                found.extend(missing_actions(use, self._parts.files))
        found.extend(self._findings.sorted())
        return found.sorted()

    def _seeds(self, hosts: frozenset[str] | None) -> dict[str, Sequence[str]]:
        return {
            cob.name: [host for host in cob.hosts if host in hosts] if hosts else cob.hosts
            for cob in self._parts.cobs.defs.values()
        }

    def _made(self, seeds: Mapping[str, Sequence[str]]) -> Graph:
        with no_collections():
            instances, needs = self._expansion.reach(seeds)
            cobs = self._cobs(instances)
            limits = self._parts.limits.of(cobs, self._parts.evaluator)
            self._findings.raise_if_any()
            return Graph(cobs=cobs, needs=needs, limits=limits)

    def _cobs(self, instances: Mapping[CobId, tuple[str, str]]) -> dict[CobId, Cob]:
        defs = [self._parts.cobs.defs[name] for _, name in instances.values()]
        hosts = [host for host, _ in instances.values()]
        made = make_all(
            Cob,
            len(instances),
            id=instances,
            type=[each.type for each in defs],
            spec=list(map(self._specs.evaluate, defs, hosts)),
            place=[each.place for each in defs],
        )
        return dict(zip(instances, made, strict=True))
