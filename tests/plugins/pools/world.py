"""A closed world for the decision: it does what is decided, and its services answer.

What services say of themselves is constant. What a member does, it does at once or rounds later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from cobweb_plugins.pools.decision import (
    Budget,
    Filter,
    Holding,
    Kpi,
    Member,
    MemberState,
    Observed,
    Order,
    Outcome,
    Phase,
    Policy,
    Pools,
    Priority,
    Resource,
    Seen,
    Service,
    ServiceState,
    Share,
    Slo,
    SloKind,
    View,
    decide,
)

HOST = frozenset({"host"})
START_S = 1_000_000.0

Answers = Mapping[str, Observed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round was given and what it has decided: `before` are the holdings of before."""

    now_s: float
    before: Mapping[str, Holding]
    members: Mapping[str, Member]
    answers: Answers
    outcome: Outcome

    def after(self) -> dict[str, Holding]:
        """Return the holdings of afterwards."""
        written = {**self.before, **self.outcome.writes}
        return {id_: it for id_, it in written.items() if it is not None}

    def grants(self) -> list[str]:
        """Return the resources that a need, or a `max`, has set in motion; these are the moves."""
        return [id_ for id_, it in self.outcome.writes.items() if self._is_grant(id_, it)]

    def _is_grant(self, id_: str, holding: Holding | None) -> bool:
        before = self.before.get(id_)
        if holding is None or holding.phase is Phase.FAILED:
            return False
        if before is None:
            return True
        if holding.phase is Phase.LEAVING:
            return before.phase is Phase.IN
        return before.phase is Phase.IN and before.service != holding.service

    def said(self, kind: str) -> dict[str, str]:
        """Return the notes of a kind, by subject."""
        return {note.subject: note.text for note in self.outcome.notes if note.kind == kind}


@dataclass(slots=True, kw_only=True)
class World:
    """Services and members that obey.

    `busy` resources have work whenever they are up; while they drain, for `drain_rounds` more. A
    member is up `join_rounds` after it has come, or ends as `ends` has it of a resource and a
    service. `lie` changes what services say.
    """

    pools: Pools
    policy: Policy = field(default_factory=Priority)
    holdings: dict[str, Holding] = field(default_factory=dict)
    kpis: Mapping[str, tuple[Kpi, ...]] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    join_rounds: int = 0
    drain_rounds: int = 0
    ends: Mapping[tuple[str, str], MemberState] = field(default_factory=dict)
    step_s: float = 60.0
    hurry: bool = False
    lie: Callable[[Answers], Answers] = lambda answers: answers
    now_s: float = START_S
    memory: Mapping[str, Any] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    _due_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for id_, holding in self.holdings.items():
            if not self.pools.services[holding.service].direct:
                self.members[id_] = Member(state=MemberState.UP)

    def round(self, wait_s: float | None = None) -> Round:
        """Let time pass, ask all services, decide, and carry it out."""
        self.now_s += self.step_s if wait_s is None else wait_s
        self._work()
        answers = self.lie(self.answers())
        members = dict(self.members)
        view = View(pools=self.pools, holdings=dict(self.holdings), members=members)
        outcome = decide(view, answers, self.memory, self.now_s, self.policy, hurry=self.hurry)
        done = Round(
            now_s=self.now_s,
            before=view.holdings,
            members=members,
            answers=answers,
            outcome=outcome,
        )
        self.memory = json.loads(json.dumps(outcome.memory))
        for id_, holding in outcome.writes.items():
            self._obey(id_, holding)
        self.rounds.append(done)
        return done

    def run(self, rounds: int, wait_s: float | None = None) -> list[Round]:
        """Return what some rounds have decided."""
        return [self.round(wait_s) for _ in range(rounds)]

    def answers(self) -> dict[str, Observed]:
        """Return what each registered service says now."""
        found: dict[str, dict[str, Seen]] = {name: {} for name in self.pools.services}
        for id_, holding in self.holdings.items():
            member = self.members.get(id_)
            if member is None or member.state in {MemberState.UP, MemberState.DRAINING}:
                idle = not self.is_at_work(id_)
                found[holding.service][id_] = Seen(
                    idle=idle, jobs=int(not idle), load=0.0 if idle else 0.9
                )
        return {
            name: Observed(
                state=ServiceState.RUNNING,
                kpis=self.kpis.get(name, ()),
                members=found[name],
                begun_s=self.now_s - 1,
                arrived_s=self.now_s,
            )
            for name, service in self.pools.services.items()
            if service.registered
        }

    def is_at_work(self, id_: str) -> bool:
        """Return whether a resource has jobs at this moment."""
        return self._works(id_, self.members.get(id_))

    def _works(self, id_: str, member: Member | None) -> bool:
        if id_ not in self.busy or member is None:
            return False
        if member.state is MemberState.DRAINING:
            return self._due_s.get(id_, 0.0) > self.now_s
        return member.state is MemberState.UP

    def looks_at_loads(self) -> bool:
        """Return whether there is an SLO on the load of members, of which no KPI tells."""
        every = [slo for it in self.pools.services.values() for slo in it.slos]
        return any(slo.kpi == SloKind.UTILISATION for slo in every)

    def at(self, service: str) -> set[str]:
        """Return who is in a service, those that leave it left out."""
        return {
            id_
            for id_, holding in self.holdings.items()
            if holding.service == service and holding.phase is Phase.IN
        }

    def _work(self) -> None:
        """Let members come up whose time has come."""
        for id_, member in self.members.items():
            is_due = self._due_s.get(id_, 0.0) <= self.now_s
            if is_due and member.state is MemberState.DOWN and self.holdings[id_].phase is Phase.IN:
                self._join(id_, self.now_s - 2)

    def _obey(self, id_: str, holding: Holding | None) -> None:
        before, member = self.holdings.pop(id_, None), self.members.pop(id_, None)
        is_other = before is None or holding is None or before.service != holding.service
        # R1: who lets a resource go has let go of its work before.
        assert not is_other or member is None or member.state is not MemberState.UP
        assert not is_other or not self._works(id_, member)
        if holding is None:
            return
        self.holdings[id_] = holding
        if self.pools.services[holding.service].direct:
            return
        if is_other or member is None:
            self.members[id_] = Member(state=MemberState.DOWN, since_s=self.now_s)
            self._due_s[id_] = self.now_s + self.join_rounds * self.step_s
            if not self.join_rounds:
                self._join(id_, self.now_s)
            return
        state = member.state
        if holding.phase is Phase.FAILED:
            state = MemberState.DOWN
        elif holding.phase is Phase.LEAVING and state is MemberState.UP:
            state = MemberState.DRAINING
            self._due_s[id_] = self.now_s + (self.drain_rounds + 0.5) * self.step_s
        elif holding.phase is Phase.IN and state is MemberState.DRAINING:
            state = MemberState.UP
        is_new = state is not member.state
        self.members[id_] = replace(
            member, state=state, since_s=self.now_s if is_new else member.since_s
        )

    def _join(self, id_: str, since_s: float) -> None:
        end = self.ends.get((id_, self.holdings[id_].service))
        self.members[id_] = Member(
            state=end or MemberState.UP, since_s=since_s, reason="it says no" if end else ""
        )


def host(id_: str, *, static: bool = False, **properties: str | int) -> Resource:
    """Return a host."""
    found = {**properties, "id": id_, "type": "host"}
    return Resource(id=id_, type="host", properties=found, static=static)


def hosts(*ids: str) -> dict[str, Resource]:
    """Return hosts without properties."""
    return {id_: host(id_) for id_ in ids}


def service(name: str, *slos: Slo, **words: Any) -> Service:
    """Return a service of hosts."""
    return Service(**{"name": name, "adapter": "x", "holds": HOST, "slos": slos, **words})


def services(*found: Service) -> dict[str, Service]:
    """Return services by name."""
    return {it.name: it for it in found}


def spare(**words: Any) -> Service:
    """Return a spare pool."""
    return service(
        "spare", Slo(name="all", kind=SloKind.PERMANENT, urgency=1), direct=True, **words
    )


def minimum(quantity: int, urgency: float = 50, **words: Any) -> Slo:
    """Return an SLO of so many members."""
    fields = {"name": "minimum", "kind": SloKind.MINIMUM, "quantity": quantity, "urgency": urgency}
    return Slo(**{**fields, **words})


def within(**places: str) -> dict[str, Holding]:
    """Return who holds what: `n1="spare"`."""
    return {id_: Holding(service=name) for id_, name in places.items()}


def one_need(**words: Any) -> World:
    """Return a world where A needs one of the two resources that the spare pool has."""
    pools = Pools(resources=hosts("n1", "n2"), services=services(service("A", minimum(1)), spare()))
    fields = {"pools": pools, "holdings": within(n1="spare", n2="spare"), **words}
    return World(**fields)


def with_lie(answers: Answers, name: str, lie: Callable[[Observed], Observed | None]) -> Answers:
    """Return the answers with one of them changed, or left out."""
    found = {it: lie(answer) if it == name else answer for it, answer in answers.items()}
    return {it: answer for it, answer in found.items() if answer is not None}


POLICIES: list[Policy] = [Priority(), Share()]

FILTERS = [
    None,
    Filter("cores >= 8"),
    Filter("arch == a"),
    Filter("not arch == a"),
    Filter("cores >= 8 and arch == b"),
]


@st.composite
def slos(draw: st.DrawFn, number: int) -> Slo:
    """Draw an SLO of any kind; what has a KPI has one of its own, with the number in its name."""
    kind = draw(st.sampled_from(SloKind))
    kpi = f"k{number}" if kind in {SloKind.PENDING, SloKind.UTILISATION} else ""
    if kind is SloKind.UTILISATION and draw(st.sampled_from([False, False, True])):
        kpi = "utilisation"  # of which nothing is said but the load of the members
    return Slo(
        name=f"slo{number}",
        kind=kind,
        urgency=draw(st.sampled_from([0, 1, 10, 10, 20, 50])),
        quantity=draw(st.integers(1, 4)),
        filter=draw(st.sampled_from(FILTERS)),
        kpi=kpi,
        above=draw(st.sampled_from([0, 10])),
        per="arch" if kind is SloKind.PENDING and draw(st.booleans()) else "",
        band=(0.3, 0.8),
        for_s=draw(st.sampled_from([None, None, 0.0, 120.0])),
        atomic=draw(st.booleans()),
    )


def _kpis_of(draw: st.DrawFn, slo: Slo) -> Iterator[Kpi]:
    if slo.kind is SloKind.UTILISATION and slo.kpi != "utilisation":
        yield Kpi(name=slo.kpi, value=draw(st.sampled_from([0.0, 0.1, 0.5, 0.9])))
    if slo.kind is SloKind.PENDING:
        for value in ("a", "b") if slo.per else ("",):
            waiting = draw(st.sampled_from([0, 5, 20]))
            yield Kpi(name=slo.kpi, value=waiting, properties={"arch": value} if slo.per else {})


@st.composite
def _services(draw: st.DrawFn, name: str) -> Service:
    low = draw(st.sampled_from([0, 0, 1, 2]))
    high = draw(st.sampled_from([None, None, 0, 2, 4]))
    return Service(
        name=name,
        adapter="x",
        holds=HOST,
        direct=draw(st.sampled_from([False, False, True])),
        priority=draw(st.sampled_from([1, 2, 3])),
        share=draw(st.sampled_from([0, 20, 30])),
        min=low,
        max=None if high is None else low + high,
        slos=tuple(draw(slos(number)) for number in range(draw(st.integers(0, 3)))),
        registered=draw(st.sampled_from([True] * 7 + [False])),
    )


def _ends(
    resources: list[str], names: list[str]
) -> st.SearchStrategy[dict[tuple[str, str], MemberState]]:
    pairs = st.tuples(st.sampled_from(resources), st.sampled_from(names))
    bad = st.sampled_from([MemberState.FAILED, MemberState.REJECTED, MemberState.REJECTED])
    return st.dictionaries(pairs, bad, max_size=12)


@st.composite
def worlds(draw: st.DrawFn, *, ends: bool = False) -> World:
    """Draw a system of up to 12 resources and 4 services, at some moment of its life.

    With `ends` some joins fail, and some services reject some resources.
    """
    found = [draw(_services(name)) for name in "ABCD"[: draw(st.integers(1, 4))]]
    resources, holdings = {}, {}
    for number in range(draw(st.integers(1, 12))):
        id_ = f"n{number:02d}"
        cores, arch = draw(st.sampled_from([4, 8])), draw(st.sampled_from("ab"))
        static = draw(st.sampled_from([False] * 7 + [True]))
        resources[id_] = host(id_, static=static, cores=cores, arch=arch)
        place = draw(st.sampled_from([None, *(it.name for it in found)]))
        if place is not None:
            held = draw(st.sampled_from([None] * 7 + [START_S + 86_400 * 365]))
            order = Order(slo="", weight=1, at_s=START_S) if draw(st.booleans()) else None
            holdings[id_] = Holding(service=place, held_until_s=held, order=order, since_s=START_S)
    return World(
        pools=Pools(
            resources=resources,
            services={it.name: it for it in found},
            immunity_s=draw(st.sampled_from([0.0, 600.0])),
            grow_after_s=draw(st.sampled_from([0.0, 30.0, 150.0])),
            shrink_after_s=draw(st.sampled_from([0.0, 300.0])),
            gain=draw(st.sampled_from([0.0, 5.0])),
            budget=draw(st.sampled_from([None, Budget(moves=2, per_s=600.0)])),
        ),
        policy=draw(st.sampled_from(POLICIES)),
        holdings=holdings,
        kpis={
            it.name: tuple(kpi for slo in it.slos for kpi in _kpis_of(draw, slo)) for it in found
        },
        busy=draw(st.frozensets(st.sampled_from(sorted(resources)), max_size=6)),
        join_rounds=draw(st.integers(0, 2)),
        drain_rounds=draw(st.integers(0, 2)),
        ends=draw(_ends(sorted(resources), [it.name for it in found])) if ends else {},
        step_s=draw(st.sampled_from([60.0, 400.0])),
        hurry=draw(st.sampled_from([False, False, False, True])),
    )


def counted(holdings: Mapping[str, Holding]) -> tuple[Counter[str], Counter[str]]:
    """Return how many members services have, and how many more are on their way to them."""
    members = Counter(it.service for it in holdings.values() if it.phase is Phase.IN)
    coming = Counter(
        it.to for it in holdings.values() if it.phase is Phase.LEAVING and it.to is not None
    )
    return members, coming
