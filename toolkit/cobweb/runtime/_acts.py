"""The acts of a run, one after the other: first what is gone is removed, then the site comes about.

Each act has a graph and an engine of its own. Between them hosts switch from one generation to the
next (COB paper, section 5.6), so what an act begins with is only known when the one before has
ended: an act is made by its opening.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.engine import Canary, Engine
from cobweb.model import Cob, CobId, Graph, State
from cobweb.runtime._baseline import Lock
from cobweb.runtime._events import Told
from cobweb.runtime._result import Wait, waits_of
from cobweb.store import Entry

__all__ = ["Act", "Opening", "SoFar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What the acts before have left, of the objects that took part in them.

    `contents` are the digests that they were found against. `lost` are hosts that could not be
    reached, `failed` objects of which a transition or check failed, `applied` the specs applied
    last, `locks` those that are still out, `canaries` those of the limits, `waits` the reasons why
    objects did not get where they should. `halted` says that nothing new is to be started.
    """

    states: Mapping[CobId, State] = field(default_factory=dict)
    contents: Mapping[CobId, str] = field(default_factory=dict)
    applied: Mapping[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    locks: tuple[Lock, ...] = ()
    canaries: Mapping[str, Canary] = field(default_factory=dict)
    failed: frozenset[CobId] = frozenset()
    lost: frozenset[str] = frozenset()
    waits: tuple[Wait, ...] = ()
    halted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act: an engine that was not started yet, and what it works on.

    `known` and `held` are the states and locks that it starts with; `found` is what a check of each
    other object will most likely find. `contents` are the digests of the contents, `specs` the
    specs fit for the journal (secrets replaced), `applied` those applied last as the journal has
    them. `changed` are objects whose content differs from the journal's, `away` those that are in
    another state than it says, since their machines are not there. `recorded` are the states that
    it knew for certain last. `first` and `told` are
    entries of the journal and events ahead of all others. `judge` returns why objects are not where
    they should be when the engine has come to rest. `probes` are objects of later acts: on each
    host that this act does not ask itself one of them is checked, to see whether the host answers;
    what else that finds is not believed. An act that `supersedes` those before says anew what they
    said of objects that are not where they should be.
    """

    graph: Graph
    engine: Engine
    generation: int = 0
    known: Mapping[CobId, State] = field(default_factory=dict)
    found: Mapping[CobId, State] = field(default_factory=dict)
    held: tuple[Lock, ...] = ()
    contents: Mapping[CobId, str] = field(default_factory=dict)
    specs: Mapping[CobId, Mapping[str, Any]] = field(default_factory=dict)
    applied: Mapping[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    changed: frozenset[CobId] = frozenset()
    away: frozenset[CobId] = frozenset()
    recorded: Mapping[CobId, State | None] = field(default_factory=dict)
    first: tuple[Entry, ...] = ()
    told: tuple[Told, ...] = ()
    probes: tuple[Cob, ...] = ()
    judge: Callable[[Engine], tuple[Wait, ...]] = waits_of
    supersedes: bool = False


Opening = Callable[[SoFar], Act | None]
"""Makes an act from what the acts before have left; None where it has nothing to do."""
