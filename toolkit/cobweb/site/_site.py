"""The site: hosts, COB types and change objects, evaluated on demand or known from before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobweb._cache import Cache
from cobweb._lazy import Lazy
from cobweb.errors import Finding, SiteError, UsageError
from cobweb.model import CobId, CobType, Decisions, Graph, Host, host_of
from cobweb.site._cache import Head, Kept, keep
from cobweb.site._key import site_key
from cobweb.site.reading._files import DECISIONS, DecisionReader, Notes, unchanged
from cobweb.site.reading._findings import Findings, bounded

if TYPE_CHECKING:
    from cobweb.site._evaluation import Evaluation, Parts
    from cobweb.site._explain import Explanation


class Site:
    """A site whose files are read and whose references are resolved; see `load_site`.

    Specs are evaluated when `graph` asks for them, per host. All errors in them are findings of the
    `SiteError` that it raises. Not safe for use by several threads at once.
    """

    def __init__(
        self,
        read: Callable[[], Parts],
        *,
        kept: Kept | None = None,
        cache: Cache | None = None,
        decisions: DecisionReader = dict,
    ) -> None:
        """Make a site of what `read` reads, or of what was `kept`: then that is read if needed."""
        self._read = read
        self._kept = kept
        self._cache = kept.cache if kept else cache
        self._graph: Graph | None = None
        self._decisions = decisions

    @cached_property
    def _parts(self) -> Parts:
        return self._read()

    @cached_property
    def _evaluation(self) -> Evaluation:
        from cobweb.site._evaluation import Evaluation

        return Evaluation(self._parts)

    @cached_property
    def _head(self) -> Head:
        return self._kept.head if self._kept else self._made_head(self._parts.types)

    @property
    def name(self) -> str:
        """The site's name; that of its folder if it gives none."""
        return self._head.name

    @property
    def dir(self) -> Path:
        """The folder of `site.yml`, absolute."""
        return self._head.dir

    @property
    def state_url(self) -> str:
        """The URL of the state database as written; a relative SQLite path is relative to `dir`."""
        return self._head.state_url

    @property
    def types(self) -> Mapping[str, CobType]:
        """All COB types by name, those of plugins included."""
        return self._head.types

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """The hosts by name in the inventory's order; each is made when it is asked for."""
        return Lazy(dict.fromkeys(self._head.hosts), lambda name: self._evaluation.hosts[name])

    @property
    def groups(self) -> Mapping[str, Sequence[str]]:
        """The hosts of each group, those below it among them, in the inventory's order."""
        return self._head.groups

    @property
    def is_present(self) -> bool:
        """Whether the site has its objects; with `present: false` all of them are to go."""
        return self._parts.present

    @property
    def sections(self) -> Mapping[str, Any]:
        """The top-level sections of plugins, as plain data."""
        return self._head.sections

    @property
    def decisions(self) -> Mapping[str, Decisions]:
        """What was decided in the sections that take decisions, as the site was made from it."""
        asked = (section for question, section in self._notes if question == DECISIONS)
        return {name: self._decisions().get(name, Decisions()) for name in asked}

    def releases(self, cob: CobId) -> bool:
        """Say whether decisions let go an object that may not be in the site any more."""
        return not self._head.releases.isdisjoint((cob, f"{host_of(cob)}/*"))

    def is_current(self, decisions: DecisionReader) -> bool:
        """Say whether disk and decisions still say what the site was made from so far."""
        return unchanged(self._notes, decisions)

    @property
    def _notes(self) -> Notes:
        return self._kept.notes if self._kept else self._parts.files.notes

    def ignores_drift(self, cob: CobId) -> bool:
        """Say whether `drift: {ignore: [...]}` names an object, in the site or gone from it."""
        return any(ignored.covers(cob) for ignored in self._head.ignored)

    @property
    def is_kept(self) -> bool:
        """Whether the site is known from before and did not have to be read and evaluated."""
        return self._kept is not None

    def content_key(self) -> str | None:
        """Return the digest of everything that the site was made from so far, to keep results by.

        Equal keys mean equal evaluated sites. None where hosts come from a plugin or a program:
        what these say is never kept; nor where a file changed while the site was read. Ask after
        `graph`: files are noted as they are read.
        """
        if self._kept is not None and "_parts" not in self.__dict__:
            return self._kept.key
        files = self._parts.files
        if not files.tell_all:
            return None
        if self._kept is None:
            return site_key(self._parts.base_key(), files.notes)
        return self._kept.key if files.notes.items() <= self._kept.notes.items() else None

    def select(self, pattern: str) -> tuple[str, ...]:
        """Return the hosts that an Ansible host pattern selects, in order; perhaps none.

        UsageError for unknown names and wrong syntax.
        """
        from cobweb.site.hosts._patterns import PatternError

        try:
            return self._parts.patterns.select(pattern)
        except PatternError as error:
            raise UsageError(str(error), hint=error.hint) from error

    def graph(self, limit: str | None = None) -> Graph:
        """Return the evaluated objects, their needs, limits and budgets.

        With `limit`, a host pattern, only the objects of those hosts, those elsewhere that their
        needs reach, and all members of budgets that have a member on these hosts. SiteError with
        all findings of the evaluation; UsageError for a limit that selects nothing.
        """
        if limit is None:
            if self._graph is None:
                self._graph = (self._kept and self._kept.graph()) or self._evaluated()
            return self._graph
        hosts = self.select(limit)
        if not hosts:
            raise UsageError(
                f"the limit `{limit}` selects no host", hint="`cobweb show` lists them"
            )
        return self._evaluation.graph(frozenset(hosts))

    def explain(self, ref: str) -> Explanation:
        """Return where a value came from: `host/cob`, `host/cob.spec.path` or `host.variable`.

        UsageError for what does not exist; SiteError if it cannot be evaluated.
        """
        from cobweb.site._explain import Explainer
        from cobweb.site.hosts._scope import EvaluationError

        parts = self._parts
        explainer = Explainer(parts.evaluator, parts.cobs.defs, self._evaluation.specs)
        with bounded(parts.files.site_file):
            try:
                explanation = explainer.explain(ref)
            except EvaluationError as error:
                found = Finding(place=error.place, message=error.message, hint=error.hint)
                raise SiteError([found]) from error
        parts.files.findings.raise_if_any()
        return explanation

    def work_files(self) -> Mapping[str, bytes]:
        """Return the contents of the site's files that the types in use work with.

        The names are those of a generation (`site:tasks/up.yml`). That is the folder of a task file
        with all below, or a role; see `site/objects/_work_files.py` for bounds.
        """
        from cobweb.site.objects._work_files import work_files

        types = {cob.type.name: cob.type for cob in self._parts.cobs.defs.values()}
        return work_files(types.values(), self._parts.files)

    def trees(self) -> Mapping[str, bytes]:
        """Return the archives of the file trees that all specs of the site have, by digest.

        Each is made when it is asked for; SiteError where its folder has changed since the site was
        evaluated.
        """
        from cobweb.site.objects._specs import marked_properties

        parts, specs = self._parts, self._evaluation.specs
        for cob in parts.cobs.defs.values() if parts.present else ():
            if "tree" in marked_properties(cob.type).values():
                for host in cob.hosts:
                    specs.evaluate(cob, host)
        parts.files.findings.raise_if_any()
        return specs.trees.archives

    def findings_of_files(self) -> tuple[Finding, ...]:
        """Return what is wrong with the files that only a run needs, and in unused variables.

        What adapters find wrong with the task files and roles of the types in use, and mistakes in
        host_vars of hosts without objects. Reads all of them.
        """
        return () if self._kept else self._read_what_is_left()

    def notes(self) -> tuple[Finding, ...]:
        """Return what is no mistake but worth a word: words of YAML 1.1, idle limits."""
        if self._kept:
            self._read_what_is_left()  # as was done before it was kept
        return (*self._parts.files.warnings.sorted(), *self._parts.limits.notes)

    def _evaluated(self) -> Graph:
        graph = self._evaluation.graph()
        parts = self._parts
        if not self._cache or parts.files.foreign:
            return graph
        sound = not self._read_what_is_left()
        if sound and parts.files.tell_all:  # a site with mistakes is never kept
            own = {name: it for name, it in parts.types.items() if name not in parts.foreign}
            head = self._made_head(own)
            keep(self._cache, parts.files, parts.base_key(), head, graph)
        return graph

    def _made_head(self, types: Mapping[str, CobType]) -> Head:
        """Return what the site says without its objects, and with these of its types."""
        parts = self._parts
        return Head(
            name=parts.name,
            dir=parts.files.site_dir,
            state_url=parts.state_url,
            types=types,
            sections=parts.sections,
            ignored=parts.ignored,
            releases=parts.releases,
            hosts=tuple(self._evaluation.hosts),
            groups=dict(parts.evaluator.groups),
        )

    def _read_what_is_left(self) -> tuple[Finding, ...]:
        """Return what is wrong with the files that only a run needs, and in unused variables."""
        parts = self._parts
        with bounded(parts.files.site_file):
            parts.evaluator.variables.read_all()
        found = Findings()
        found.extend(self._mistakes_of_actions)
        found.extend(parts.files.findings.sorted())
        self.work_files()
        return found.sorted()

    @cached_property
    def _mistakes_of_actions(self) -> tuple[Finding, ...]:
        """What is wrong with the actions of the types in use; what is worth a word is kept, too."""
        parts, found = self._parts, list[Finding]()
        hosts: dict[str, int] = {}
        for cob in parts.cobs.defs.values():
            hosts[cob.type.name] = max(len(cob.hosts), hosts.get(cob.type.name, 0))
        used = [it for it in parts.uses if it.type_name in hosts]
        uses = [replace(it, spans_hosts=hosts[it.type_name] > 1) for it in used]
        for look_at in parts.looks:
            wrong, notes = look_at(uses, parts.files)
            found += wrong
            parts.files.warnings.extend(notes)
        return tuple(found)
