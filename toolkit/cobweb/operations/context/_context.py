"""What a run sets out with: what is believed, what is wanted, and how hosts get there.

One engine run knows both (COB paper, section 5.6): what is gone is removed under what its host
stands in, hosts switch as the engine lets them, and the site comes about. Hosts of which nothing is
removed, and that no budget holds back, have switched when the run begins.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cobweb.engine import Blocked, Changeover, Engine, Lending, WaitKind
from cobweb.errors import UsageError
from cobweb.generation import contents as contents_of
from cobweb.kernel._context import Context
from cobweb.kernel._result import Wait, waits_of, with_given_up
from cobweb.model import OUTDATED, Cob, CobId, Graph, State, host_of
from cobweb.operations.context._desired import Desired
from cobweb.operations.context._known_states import (
    KnownStates,
    Refresh,
    known_states,
    lending_of,
    limited_hosts,
    old_locks,
    outdated_in,
)
from cobweb.operations.context._removal import (
    Removal,
    gone_of,
    old_needs,
    removal_of,
    retyped,
    union_of,
    with_machines,
)
from cobweb.operations.context._renames import first_names
from cobweb.store import Forgotten, GrantGone, HostForgotten, HostSwitched

if TYPE_CHECKING:
    from cobweb.engine import Foreseen, Proof
    from cobweb.kernel._events import EventBody
    from cobweb.operations.context._known_states import Lock
    from cobweb.operations.context._orders import Orders
    from cobweb.operations.context._stored_work import KeptWork
    from cobweb.store import CobRecord, Entry, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext(Context):
    """The way from what is believed to what is desired.

    `believed` are the records that a plan is based on, `records` those with what is gone elsewhere.
    `retyped` are objects whose type is another one now (then, now): they are removed and made anew.
    `desired` has the hosts of removed objects as well, `graph` the objects of both generations, of
    one that is in both as it is wanted. `before` is what is believed against that, `past` against
    what hosts stand in, of the objects of which that differs and whose hosts switch in the run.
    `dead` are old locks that are not in force any more, `orders` those that the look-ahead has
    found beforehand. `Context` says what else there is.
    """

    desired: Desired
    believed: Mapping[CobId, CobRecord]
    records: Mapping[CobId, CobRecord]
    before: KnownStates
    past: KnownStates
    refresh: Refresh = Refresh.CHANGED
    removal: Removal
    retyped: Mapping[CobId, tuple[str, str]]
    active: Mapping[str, int] = field(default_factory=dict)
    lending: Lending = field(default_factory=Lending)
    dead: tuple[Lock, ...] = ()
    movable: frozenset[CobId] = frozenset()
    orders: tuple[Foreseen, ...] = ()

    @property
    def removed(self) -> frozenset[CobId]:
        """The objects that are to be removed."""
        return self.removal.removed & self.removal.gone

    @property
    def looked_at(self) -> frozenset[CobId]:
        """What is checked whatever is known of it: what is removed, and its machines."""
        if self.refresh is Refresh.NONE:
            return self.removed & self.past.found.keys()
        return frozenset(with_machines(self.removed, self.graph))

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose objects may be moved."""
        hosts = frozenset(map(host_of, {*self.desired.movable, *self.removal.removed}))
        return hosts - self.given_up

    @property
    def given_up(self) -> frozenset[str]:
        """The hosts that are neither counted nor contacted."""
        return self.lending.given_up

    def guess(self, cob: CobId, *, in_base: bool) -> State:
        """Return the state that an object most likely is in."""
        side = self.past if in_base and cob in self.past.contents else self.before
        return side.known.get(cob) or side.found.get(cob) or self.graph.cobs[cob].type.remove

    @property
    def expected(self) -> Mapping[CobId, State]:
        """The state in which each object most likely is when the run begins."""
        new = ChainMap(dict(self.before.known), dict(self.before.found))
        return ChainMap(dict(self.past.known), dict(self.past.found), new)

    def content(self, cob: CobId, *, in_base: bool) -> str | None:
        """Return the digest of what an object is, by what its host knows."""
        side = self.past if in_base and cob in self.past.contents else self.before
        return side.contents.get(cob)

    def spec(self, cob: CobId, *, in_base: bool) -> Mapping[str, Any]:
        """Return the spec of an object, redacted."""
        side = self.past if in_base and cob in self.past.contents else self.before
        return side.specs.get(cob, {})

    def applied(self, cob: CobId) -> Mapping[str, Any] | None:
        """Return the spec that was applied last, as the journal has it."""
        return (self.past if cob in self.past.applied else self.before).applied.get(cob)

    def recorded(self, cob: CobId) -> State | None:
        """Return the state that the journal knew for certain last."""
        return (self.past if cob in self.past.recorded else self.before).recorded.get(cob)

    def is_new(self, cob: CobId) -> bool:
        """Say whether the goal gives an object another content than was applied last."""
        return cob in self.before.changed

    def can_probe(self, cob: CobId) -> bool:
        """Say whether an object may be asked only to see whether its host answers."""
        machine = self.graph.cobs[cob].machine
        return cob in self.desired.movable and (machine is None or machine in self.before.known)

    def found_after(self, cob: CobId, state: State) -> State:
        """Return what a check finds when an object in `state` has gone over to the goal."""
        it, change = self.graph.cobs[cob], self.change
        if change is None or cob not in change.changed | change.anew:
            return state
        if cob in change.anew:
            base = change.base[cob].type.remove
            return it.type.remove if state == base else state
        return outdated_in(it, state)

    def outdates(self) -> Mapping[CobId, Mapping[str, Any]]:
        """Return what a simulated check finds against the new contents, by object and state.

        The states are those of the type that an object has for its host before that switches.
        """
        if self.change is None:
            return {}
        new, base = sorted(self.change.changed | self.change.anew), self.change.base
        kinds = {cob: base.get(cob, self.graph.cobs[cob]).type for cob in new}
        return {
            cob: {
                "content": self.before.contents[cob],
                "states": {it: self.found_after(cob, it) for it in kind.states},
            }
            for cob, kind in kinds.items()
        }

    @property
    def away(self) -> frozenset[CobId]:
        """Objects in another state than the journal says, since their machines are not there."""
        return self.before.away | self.past.away

    @property
    def known(self) -> dict[CobId, State]:
        """The states that the run goes on from without a check."""
        change = self.change
        if change is None:
            return dict(self.before.known)
        late = self.past.contents.keys() | change.added
        known = {cob: state for cob, state in self.before.known.items() if cob not in late}
        seen = self.looked_at
        return {c: s for c, s in {**known, **self.past.known}.items() if c not in seen}

    @property
    def changed(self) -> frozenset[CobId]:
        """Objects with another content whose host has switched when the run begins."""
        changed = self.before.changed - (self.change.changed if self.change else frozenset())
        return frozenset(cob for cob in changed if host_of(cob) not in self.given_up)

    def without(self, stuck: Sequence[Wait]) -> ExecutionContext:
        """Return the context that leaves alone all that needs or limits tie to stuck objects."""
        needs = (*self.graph.needs, *(self.change.needs if self.change else ()))
        ties = [(need.cob, need.on) for need in needs]
        for budget in self.graph.budgets:
            ties += pairwise(cob for unit in budget.units for cob in sorted(unit.members))
        near: dict[CobId, list[CobId]] = {}
        for first, second in ties:
            near.setdefault(first, []).append(second)
            near.setdefault(second, []).append(first)
        found = {wait.cob: wait for wait in stuck}
        todo = sorted(found)
        while todo:
            cob = todo.pop()
            more = [other for other in near.get(cob, ()) if other not in found]
            found.update(dict.fromkeys(more, found[cob]))
            todo += more
        told = {wait.cob for wait in stuck}
        tied = (
            _tied(cob, found[cob], self.expected[cob])
            for cob in sorted((self.removed & found.keys()) - told)
        )
        return replace(self, movable=self.movable - found.keys(), left=(*stuck, *tied))

    def engine(self, **options: Any) -> Engine:
        """Return an engine that was not started yet, with more `options` of an `Engine`."""
        options = {"generation": self.generation, "returns": True, **options}
        return Engine(
            self.graph, movable=self.movable, change=self.change, lending=self.lending, **options
        )

    def on_hosts(self, hosts: AbstractSet[str]) -> ExecutionContext:
        """Return the context of an owner of hosts: what others go through is theirs to know."""
        if (change := self.change) is None:
            return self
        base = {cob: it for cob, it in change.base.items() if host_of(cob) in hosts}
        changed = frozenset(cob for cob in change.changed if host_of(cob) in hosts)
        added = frozenset(cob for cob in change.added if host_of(cob) in hosts)
        own = replace(change, stay=change.stay & hosts, base=base, changed=changed, added=added)
        return replace(self, change=own)

    def beliefs(self) -> dict[str, Any]:
        """Return what an engine is told of those that are not known, as arguments of `start`."""
        known, cobs = self.known, self.graph.cobs
        return {
            "believed": {
                cob: record.state
                for cob, record in self.records.items()
                if cob in cobs and cob not in known and record.in_transition is None
            },
            "changed": self.changed,
            "fresh": frozenset(() if self.change is None else self._fresh()),
            "still": frozenset(self._still()),
            "renew": self.renew,
            "orders": self.orders,
        }

    def proofs(self) -> tuple[Proof, ...]:
        """Return which needs and budgets leave no order from where all is believed to be."""
        return self.engine().prove(self.expected)

    def foreseen(self) -> ExecutionContext:
        """Return the context with the orders that a search finds from where all begins.

        Where hosts have to switch that is an order up to there.
        """
        return self if self.renew else replace(self, orders=self.engine().foresee(self.expected))

    def _fresh(self) -> Iterator[CobId]:
        """Yield objects that no run has brought to what the goal says of them."""
        for cob, it in self.desired.graph.cobs.items():
            record = self.records.get(cob)
            is_there = record is not None and record.state == it.preferred
            if record is None or not (is_there or record.applied == self.before.specs.get(cob)):
                yield cob

    def _still(self) -> Iterator[CobId]:
        """Yield objects that only their content has made outdated, some time ago."""
        for cob, record in self.records.items():
            if record.state != OUTDATED or record.in_transition is not None:
                continue
            it = self.graph.cobs.get(cob)
            if it is None or it.type.serves(OUTDATED) or record.applied_json is None:
                continue
            if cob not in self.before.changed and record.applied != self.before.specs.get(cob):
                yield cob

    def first(self) -> Iterator[Entry]:
        """Yield what the journal has to know when the run begins."""
        for cob, holder, _ in self.dead:
            yield GrantGone(cob=cob, holder=holder)
        for hosts in self.at_once:
            yield from self.switched(hosts)

    def switched(self, hosts: Iterable[str]) -> Iterator[Entry]:
        """Yield what the journal has to know of hosts that go over to the goal."""
        peopled = set(self.desired.graph.hosts())
        for host in hosts:
            if host in peopled:
                yield HostSwitched(host=host, generation=self.generation)
            else:
                yield HostForgotten(host=host)
        there = set(hosts)
        for cob in sorted(self.removed):
            if host_of(cob) in there:
                yield Forgotten(cob=cob)

    def told(self, hosts: Iterable[str]) -> Iterator[EventBody]:
        """Yield the event of hosts that go over together, but for those that stood in nothing."""
        if had_one := sorted(host for host in hosts if self.active.get(host)):
            yield "generation.switch", {"hosts": had_one, "generation": self.generation}

    def waits(self, engine: Engine) -> tuple[Wait, ...]:
        """Return why objects are not where they should be, when an engine has come to rest."""
        first = (*self.removal.waits(self.records), *self.left, *self._held_up(engine))
        known = {wait.cob for wait in first}
        waits = [wait for wait in waits_of(engine) if wait.cob not in known]
        found = (*first, *(self._explained(wait, first) for wait in waits))
        given_up = self.given_up
        return tuple(
            replace(wait, chain=with_given_up(wait.chain, given_up)) if given_up else wait
            for wait in found
            if host_of(wait.cob) not in given_up
        )

    def _held_up(self, engine: Engine) -> Iterator[Wait]:
        """Yield why removed objects stay whose hosts wait for others that a limit leaves alone."""
        elsewhere = self.removal.elsewhere
        held = self.removal.held(elsewhere) if elsewhere else {}
        for cob in sorted(self.removed):
            if (on := held.get(host_of(cob))) is not None:
                chain = (
                    Blocked(cob=cob, kind=WaitKind.UNSWITCHED, on=on, detail=host_of(cob)),
                    Blocked(cob=on, kind=WaitKind.EXCLUDED),
                )
                yield Wait(cob=cob, state=engine.state(cob), chain=chain)

    def _explained(self, wait: Wait, first: Iterable[Wait]) -> Wait:
        """Return a wait whose chain goes on to what nobody knows how to remove, or may not now."""
        if not wait.chain:
            return wait
        end, on = wait.chain[-1], wait.chain[-1].on
        for other in first:
            if other.cob == end.cob and other.chain[0].kind is WaitKind.UNSWITCHED:
                return replace(wait, chain=(*wait.chain[:-1], *other.chain))
        more = next((it.chain for it in first if it.cob == on), None)
        is_elsewhere = on is not None and not self.desired.chooses(host_of(on))
        if more is None and on is not None and end.kind is WaitKind.UNSWITCHED and is_elsewhere:
            more = (Blocked(cob=on, kind=WaitKind.EXCLUDED),)
        return wait if more is None else replace(wait, chain=(*wait.chain, *more))


def _tied(cob: CobId, stuck: Wait, state: State) -> Wait:
    """Return why a removed object stays: it is tied to one that is stuck."""
    detail = f"is left alone: needs or limits tie it to {stuck.cob}"
    return Wait(
        cob=cob,
        state=state,
        chain=(Blocked(cob=cob, kind=WaitKind.HALTED, on=stuck.cob, detail=detail), *stuck.chain),
    )


def beliefs(store: Store, desired: Desired) -> Mapping[CobId, CobRecord]:
    """Return what the journal says of the objects that take part and of what is gone.

    With a limit that is read object by object and host by host.
    """
    if desired.limit is None:
        return store.states()
    return {**store.states_of(desired.graph.cobs), **store.states_on(desired.chosen)}


def context_of(  # noqa: PLR0913  # what a run needs to know, from three sides
    desired: Desired,
    store: Store,
    orders: Orders,
    *,
    generation: int,
    records: Mapping[CobId, CobRecord] | None = None,
    work: KeptWork | None = None,
    at_once: bool = False,
) -> ExecutionContext:
    """Return the context of a run that brings about `generation`, which is what is desired.

    `records` are all that the journal has; without them what is gone elsewhere than on the hosts of
    a limit is only looked for if something is gone there. `work` finds the files of earlier
    generations for a context that is to be run. With `at_once` all hosts have switched when it
    begins. StoreError where the state database is damaged, UsageError for exceptions from limits
    that are not there, and for removals `at_once`.
    """
    believed = beliefs(store, desired) if records is None else records
    records, gone = _with_gone(desired, store, believed, everywhere=records is not None)
    known, contents = partial(known_states, results=store.results()), desired.evaluated.contents
    refresh = orders.refresh
    before = known(desired.graph, records, refresh=refresh, contents=contents)
    others = retyped(store, desired, before.changed)
    changed = {} if at_once else _late(desired, store, before)
    removal = removal_of(store, desired, gone | others.keys(), work, changed)
    desired = _carried_out(desired, removal, work)
    active, exceptions = store.host_generations(), orders.exceptions
    graph = exceptions.bounded(union_of(removal.graph, desired.graph))
    given_up = store.given_up()
    due = _due(desired, removal, active, generation=generation) - given_up
    waiting, groups = _switching(desired, removal, active, before, due, at_once=at_once)
    based = Graph(cobs=_based(removal, before, waiting, desired))
    again = Refresh.ALL if refresh is Refresh.ALL else Refresh.CHANGED
    past = known(based, records, refresh=again, contents=contents_of(based))
    whole, locks = desired.limit is None, store.locks()
    held, dead = old_locks(graph, records, locks, whole=whole, given_up=given_up)
    return ExecutionContext(
        desired=desired,
        generation=generation,
        believed=believed,
        records=records,
        before=before,
        past=past,
        refresh=refresh,
        removal=removal,
        retyped=others,
        graph=graph,
        change=_changeover(desired, removal, before, past, waiting, others, refresh),
        at_once=groups,
        active=active,
        lending=lending_of(store, before.contents, records, graph, anew=exceptions.new_canary),
        held=held,
        dead=dead,
        movable=_movable(desired, removal),
        renew=exceptions.renew,
        first_names=first_names(store.renames()),
    )


def context_from_nothing(desired: Desired) -> ExecutionContext:
    """Return the context of a site of which nobody knows anything."""
    before = known_states(desired.graph, {}, contents=desired.evaluated.contents)
    return ExecutionContext(
        desired=desired,
        generation=0,
        believed={},
        records={},
        before=before,
        past=known_states(Graph(cobs={}), {}),
        removal=Removal(graph=Graph(cobs={})),
        retyped={},
        graph=desired.graph,
        movable=desired.movable,
    )


def _with_gone(
    desired: Desired, store: Store, records: Mapping[CobId, CobRecord], *, everywhere: bool
) -> tuple[Mapping[CobId, CobRecord], AbstractSet[CobId]]:
    """Return what is gone, and the records: all of them where something is gone under a limit."""
    gone = gone_of(desired, records, everywhere=everywhere)
    if not gone or everywhere or desired.limit is None:
        return records, gone
    every = store.states()
    return every, gone_of(desired, every, everywhere=True)


def _due(
    desired: Desired, removal: Removal, active: Mapping[str, int], *, generation: int
) -> set[str]:
    """Return the hosts that do not stand in the goal, of those that take part."""
    peopled = set(desired.graph.hosts())
    hosts = (peopled & desired.chosen) | {host_of(cob) for cob in removal.gone}
    due = {host for host in hosts if active.get(host) != generation}
    return due | (active.keys() - peopled) if desired.is_whole else due


def _carried_out(desired: Desired, removal: Removal, work: KeptWork | None) -> Desired:
    """Return what is desired with the files of then, and with the hosts of what is removed."""
    if work and desired.kept:
        desired = replace(desired, graph=work.graph(desired.graph, desired.kept))
    return replace(desired, hosts={**desired.hosts, **removal.hosts}) if removal.hosts else desired


def _switching(  # noqa: PLR0913  # the two sides, and what is asked of them
    desired: Desired,
    removal: Removal,
    active: Mapping[str, int],
    before: KnownStates,
    due: AbstractSet[str],
    *,
    at_once: bool,
) -> tuple[frozenset[str], tuple[tuple[str, ...], ...]]:
    """Return the hosts that switch in the run, and those that have when it begins, in groups.

    A host of which no generation is known cannot go on with what it had, and does not wait.
    """
    if at_once and removal:
        message = f"{min(removal.removed | removal.undefined)} is to be removed"
        raise UsageError(f"{message}, which several owners cannot do yet", hint="docs/agents.md")
    ordered = {host for group in removal.order.groups for host in group}
    ordered |= {host_of(cob) for cob in removal.undefined | removal.removed}
    changing = {host_of(cob) for cob in before.changed | before.added}
    budgets = (*desired.graph.budgets, *removal.graph.budgets)
    limited = {host_of(cob) for it in budgets for unit in it.units for cob in unit.members}
    unknown = {host_of(cob) for cob in before.changed if not active.get(host_of(cob))}
    limited = (limited & changing) - unknown
    waiting = frozenset(() if at_once else due & (ordered | limited))
    rest = due - waiting
    known = {host for host in rest if active.get(host)}
    groups = (tuple(sorted(known)), tuple(sorted(rest - known)))
    return waiting, tuple(group for group in groups if group)


def _late(desired: Desired, store: Store, before: KnownStates) -> Mapping[CobId, bool]:
    """Return of each changed object whether its host may switch late, or not at all."""
    limited = limited_hosts(desired, store, before)
    elsewhere = {c for c in before.changed if desired.only and not desired.chooses(host_of(c))}
    return {cob: host_of(cob) in limited or cob in elsewhere for cob in before.changed}


def _based(
    removal: Removal, before: KnownStates, waiting: AbstractSet[str], desired: Desired
) -> dict[CobId, Cob]:
    """Return the objects that are something else for their hosts than they are wanted to be."""
    base = removal.graph.cobs
    changed = {
        cob
        for cob in before.changed
        if cob in base and (host_of(cob) in waiting or not desired.chooses(host_of(cob)))
    }
    return {cob: base[cob] for cob in sorted(removal.removed | changed)}


def _changeover(  # noqa: PLR0913, PLR0917  # the two sides, and what lies between
    desired: Desired,
    removal: Removal,
    before: KnownStates,
    past: KnownStates,
    waiting: frozenset[str],
    others: Mapping[CobId, tuple[str, str]],
    refresh: Refresh,
) -> Changeover | None:
    """Return what the engine has to know of hosts that have not switched; None where all have."""
    left = {it for it in before.added if desired.only and not desired.chooses(host_of(it))}
    if not waiting and not past.contents and not left:
        return None
    base, goal = removal.graph.cobs, desired.graph.cobs
    changed = frozenset(
        cob for cob in before.changed - removal.removed if host_of(cob) in waiting
    ) | (past.contents.keys() - removal.removed)
    added = left | {cob for cob in before.added if host_of(cob) in waiting}
    stay = {host_of(cob) for cob in past.contents.keys() | left} - waiting
    guesses = {cob: before.known.get(cob) or before.found[cob] for cob in changed | added}
    gone = {cob: past.known.get(cob) or past.found[cob] for cob in removal.removed}
    trusted = before.known.keys() & changed if refresh is Refresh.NONE else frozenset()
    return Changeover(
        hosts=waiting,
        stay=frozenset(stay),
        held=removal.held(frozenset()),
        base={cob: base[cob] for cob in past.contents if cob in goal},
        removed=removal.removed,
        anew=frozenset(others.keys() & removal.removed),
        changed=changed,
        added=frozenset(added),
        trusted=frozenset(trusted),
        guesses={**gone, **guesses},
        needs=old_needs(removal.graph, desired.graph),
        order=tuple((step.hosts, step.after) for step in removal.order.steps),
        asked=frozenset(removal.order.reached - removal.removed),
    )


def _movable(desired: Desired, removal: Removal) -> frozenset[CobId]:
    """Return what may be moved: nothing is removed while something elsewhere must be before."""
    held = removal.held(removal.elsewhere) if removal.elsewhere else {}
    removed = {
        cob for cob in removal.removed if host_of(cob) not in held and desired.chooses(host_of(cob))
    }
    asked = removal.graph.cobs.keys() - desired.graph.cobs.keys() - removal.removed
    return desired.movable - removal.removed | removed | asked
