"""The evaluation of a site whose files are read: its graphs.

A property of a type's schema with `x-cobweb: watch` lists paths that objects of the type read. What
an object of the same host writes there, on which the watching one has a need, is found from the
specs: each path gets a word that is another one as soon as one of them is changed. So the watching
object is changed whenever what it reads is, and its check can see that beforehand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from cobweb._garbage import no_collections
from cobweb.errors import Finding
from cobweb.model import Cob, CobId, CobType, Graph, Need, State, cob_id, host_of
from cobweb.plugin import ActionUse
from cobweb.site.hosts._patterns import Patterns
from cobweb.site.hosts._scope import EvaluationError, Evaluator, text_of
from cobweb.site.hosts._variables import Hosts
from cobweb.site.objects._bulk import make_all
from cobweb.site.objects._cobs import CobDef, Cobs, no_state
from cobweb.site.objects._drift import Ignored
from cobweb.site.objects._limits import Limits
from cobweb.site.objects._needs import Expansion
from cobweb.site.objects._references import References
from cobweb.site.objects._specs import Specs, marked_properties
from cobweb.site.reading._files import Files
from cobweb.site.reading._findings import bounded
from cobweb.site.templates._rendering import is_template


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a site is made of, once its files are read; `foreign` are the types of plugins.

    One that shares something of this site is the site's own. A site that is not `present` has no
    objects: all that it had go. `looks` are the methods `look_at` of adapters.
    """

    base_key: Callable[[], str]
    name: str
    state_url: str
    present: bool
    types: Mapping[str, CobType]
    foreign: frozenset[str]
    uses: tuple[ActionUse, ...]
    looks: tuple[Callable[..., tuple[Sequence[Finding], Sequence[Finding]]], ...]
    files: Files
    evaluator: Evaluator
    patterns: Patterns
    cobs: Cobs
    references: References
    limits: Limits
    ignored: tuple[Ignored, ...]
    sections: Mapping[str, Any]
    releases: frozenset[str]


class Evaluation:
    """Evaluates objects that are asked for, per host; mistakes are the findings of a SiteError."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.hosts = Hosts(parts.evaluator.inventory, parts.evaluator.variables)
        self._findings = parts.files.findings
        self.specs = Specs(parts.evaluator, parts.files)
        references = parts.references
        self._expansion = Expansion(parts.cobs.defs, references.links, references.varying)

    def graph(self, hosts: frozenset[str] | None = None) -> Graph:
        """Return the graph, with `hosts` of their objects and what their needs reach.

        With `hosts` and what the budgets of these count, so that it is known how many are out.
        """
        if not self.parts.present:
            return self._made({}, hosts)
        defs = self.parts.cobs.defs.values()
        if hosts is None:
            return self._made({cob.name: cob.hosts for cob in defs}, None)
        seeds = {cob.name: [host for host in cob.hosts if host in hosts] for cob in defs}
        for name, counted in self.parts.limits.beside(hosts, self._expansion).items():
            seeds[name] += counted
        return self._made(seeds, hosts)

    def _made(self, seeds: Mapping[str, Sequence[str]], chosen: frozenset[str] | None) -> Graph:
        with no_collections(), bounded(self.parts.files.site_file):
            instances, needs = self._expansion.reach(seeds)
            cobs = self._cobs(instances)
            fill_watches(cobs, needs, self.parts.cobs.defs)
            limits = self.parts.limits.of(cobs)
            budgets = self.parts.limits.budgets_of(chosen) if cobs else ()
            self._findings.raise_if_any()
            return Graph(cobs=cobs, needs=needs, limits=limits, budgets=budgets)

    def _cobs(self, instances: Mapping[CobId, tuple[str, str]]) -> dict[CobId, Cob]:
        defs = [self.parts.cobs.defs[name] for _, name in instances.values()]
        hosts = [host for host, _ in instances.values()]
        both = list(zip(defs, hosts, strict=True))
        made = make_all(
            Cob,
            len(instances),
            id=instances,
            type=[each.type for each in defs],
            spec=list(map(self.specs.evaluate, defs, hosts)),
            confirm=[each.confirm for each in defs],
            want=list(map(self._want, defs, hosts)),
            machine=[cob_id(host, it.machine) if it.machine else None for it, host in both],
            protect=[each.protect for each in defs],
            was=[cob_id(host, it.was) if it.was else None for it, host in both],
            trust_s=[each.trust_s for each in defs],
            place=[each.place for each in defs],
        )
        return dict(zip(instances, made, strict=True))

    def _want(self, cob: CobDef, host: str) -> State:
        """Return where an object goes by itself; "" where its type says it."""
        if not is_template(cob.want):
            return cob.want
        place = cob.body.items["want"].place
        try:
            want = text_of(self.parts.evaluator.scope(host).render(cob.want, place), place)
        except EvaluationError as error:
            self._findings.add(error.place, error.message, error.hint, host=host)
            return ""
        problem = no_state(cob.type, want)
        if problem:
            message = f"`want` of COB `{cob.name}`: {problem[0]}"
            self._findings.add(place, message, problem[1], host=host)
        return "" if problem else want


_WATCH = "watch"
_PATH = "path"
_LETTERS = 16


def fill_watches(cobs: dict[CobId, Cob], needs: Iterable[Need], defs: Mapping[str, CobDef]) -> None:
    """Give each watched path of the objects in `cobs` its word; it is empty if none writes there.

    A writer is an object whose spec has a `path` that is the watched one, or in it, or around it.
    """
    watching = _watching(cobs, defs)
    if not watching:
        return
    writers: dict[CobId, dict[CobId, Cob]] = {cob: {} for cob in watching}
    for need in needs:
        if need.cob in watching and host_of(need.on) == host_of(need.cob):
            writers[need.cob][need.on] = cobs[need.on]
    for cob, name in watching.items():
        spec = cobs[cob].spec
        words = {path: _word(path, writers[cob].values()) for path in spec[name]}
        cobs[cob] = replace(cobs[cob], spec={**spec, name: words})


def _watching(cobs: Mapping[CobId, Cob], defs: Mapping[str, CobDef]) -> dict[CobId, str]:
    """Return the property of each object that lists paths; a site may also say the words itself."""
    found = {}
    for cob in defs.values():
        name = next(iter(marked_properties(cob.type, (_WATCH,))), None)
        if name is None or cob.spec is None or name not in cob.spec.items:
            continue
        for each in (cob_id(host, cob.name) for host in cob.hosts):
            if each in cobs and isinstance(cobs[each].spec.get(name), list):
                found[each] = name
    return found


def _word(path: str, writers: Iterable[Cob]) -> str:
    found = {str(cob.id): cob.spec for cob in writers if _meet(path, cob.spec.get(_PATH))}
    if not found:
        return ""
    text = json.dumps(found, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LETTERS]


def _meet(path: str, written: object) -> bool:
    if not isinstance(written, str):
        return False
    one, other = PurePosixPath(path), PurePosixPath(written)
    return one == other or one in other.parents or other in one.parents
