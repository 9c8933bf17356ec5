"""The simulator: services, members and jobs on a virtual clock, and a round of decisions at a time.

Events happen in the order of their times; at the same moment jobs end first, then members have
joined or left, jobs come, services answer otherwise, and at last it is decided. A member that
leaves takes no new job; its job runs to its end, then it takes the trace's time to leave.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import IntEnum
from heapq import heappop, heappush
from typing import Any

from cobweb_plugins.pools.decision import (
    Holding,
    Kpi,
    Member,
    MemberState,
    NoteKind,
    Observed,
    Outcome,
    Phase,
    Policy,
    Seen,
    ServiceState,
    Slo,
    SloKind,
    View,
)
from cobweb_plugins.pools.simulation._jobs import Job, JobQueue
from cobweb_plugins.pools.simulation._referee import Referee
from cobweb_plugins.pools.simulation._result import Reason, Result, Series, ServiceResult
from cobweb_plugins.pools.simulation._trace import Trace

_HOUR_S = 3600.0
_REASONS = (NoteKind.UNMET, NoteKind.UNTRUSTED)
_IDLE = Seen()
_UP = Member(state=MemberState.UP)  # as members of spare pools are, which have no state
_BUSY = Seen(idle=False, jobs=1, load=1.0)
_NOBODY = ""
_SPENT = ("busy", "idle", "transit", "unmet")

Decide = Callable[[View, Mapping[str, Observed], Mapping[str, Any], float, Policy], Outcome]
"""What decides, as `cobweb_plugins.pools.decision.decide`, or in place of it."""


def simulate(trace: Trace, decide: Decide, policy: Policy) -> Result:
    """Return what comes of a trace; the same arguments give the same result."""
    return _Simulator(trace).run(decide, policy)


class _Event(IntEnum):
    """What happens, in the order in which it happens at the same moment."""

    END = 0
    JOINED = 1
    LEFT = 2
    ARRIVAL = 3
    ANSWER = 4
    ROUND = 5


class _Simulator:
    """The state of all at one moment: `now_s` counts from the start of the trace."""

    def __init__(self, trace: Trace) -> None:
        self.now_s = 0.0
        self._trace = trace
        self._services = trace.pools.services
        self._events: list[tuple[float, _Event, int, str, int]] = []
        self._pushed = 0
        self._holdings: dict[str, Holding] = {}
        self._members: dict[str, Member] = {}
        self._seen: dict[str, dict[str, Seen]] = {name: {} for name in self._services}
        self._jobs: dict[str, Job] = {}
        self._next: dict[str, tuple[_Event, int]] = {}
        """By resource, what happens to it next, as pushed so: what was pushed before is void."""
        self._referee = Referee(self._services)
        self._notes: Counter[str] = Counter()
        self._reasons: dict[tuple[str, str], tuple[str, int]] = {}
        self._moves = self._swings = 0
        self._left_s: dict[tuple[str, str], float] = {}
        """When a resource was taken from a service for the last time."""
        self._spent_s: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._uses: dict[str, tuple[tuple[str, str], float]] = {}
        """By resource, whose time is counted, as what, and up to when it is counted."""
        self._series = Series(
            times_s=[],
            members={name: [] for name in self._services},
            waiting={name: [] for name in self._services},
        )
        properties = {id_: it.properties for id_, it in trace.pools.resources.items()}
        self._queues: dict[str, JobQueue] = {}
        self._answers: dict[str, Observed | None] = {}
        for name in self._services:
            streams = trace.streams.get(name, ())
            self._queues[name] = JobQueue(streams, trace.until_s, properties)
            self._await_job(name)
            self._answers[name] = Observed(state=ServiceState.RUNNING)
            for at, (at_s, _) in enumerate(trace.answers[name]):
                self._push(at_s, _Event.ANSWER, name, at)

    def run(self, decide: Decide, policy: Policy) -> Result:
        trace, memory = self._trace, dict[str, Any]()
        long_ago_s = trace.starts_s - trace.pools.circle_s - trace.pools.immunity_s
        for id_ in sorted(trace.owners):
            self._holdings[id_] = Holding(service=trace.owners[id_], since_s=long_ago_s)
            self._begin_join(id_, trace.owners[id_])
            if self._next.pop(id_, None):  # it has joined before
                self._joined(id_)
        for id_ in sorted(trace.pools.resources):
            self._account(id_)
        self._referee.decides({}, self._holdings)
        self._referee.violations["R3"] = 0  # how it begins is nobody's decision
        happen = {_Event.END: self._end, _Event.JOINED: self._joined, _Event.LEFT: self._left}
        rounds = 0
        self._push(0.0, _Event.ROUND, _NOBODY, 0)
        while self._events[0][0] < trace.until_s:
            self.now_s, event, pushed, name, number = heappop(self._events)
            match event:
                case _Event.ROUND:
                    memory = dict(self._decided(decide, memory, policy).memory)
                    rounds += 1
                    self._push(rounds * trace.every_s, _Event.ROUND, _NOBODY, 0)
                case _Event.ANSWER:
                    self._answers[name] = trace.answers[name][number][1]
                case _Event.ARRIVAL:
                    if started := self._queues[name].arrive(number, self.now_s):
                        self._start(name, *started)
                        self._account(started[0])
                    self._await_job(name)
                case _ if self._next.get(name) == (event, pushed):
                    del self._next[name]
                    happen[event](name)
                    self._account(name)
        self.now_s = trace.until_s
        return self._result(rounds)

    def _decided(self, decide: Decide, memory: Mapping[str, Any], policy: Policy) -> Outcome:
        """Have a round decided and carry it out."""
        now_s = self._trace.starts_s + self.now_s
        observations = {
            name: found for name in self._services if (found := self._observed(name, now_s))
        }
        self._measure(observations, now_s)
        view = View(
            pools=self._trace.pools, holdings=dict(self._holdings), members=dict(self._members)
        )
        outcome = decide(view, observations, memory, now_s, policy)
        for note in outcome.notes:
            self._notes[note.kind] += 1
            if note.kind in _REASONS:
                count = self._reasons.get((note.subject, note.kind), ("", 0))[1]
                self._reasons[note.subject, note.kind] = (note.text, count + 1)
        self._referee.decides(self._holdings, outcome.writes)
        for id_ in sorted(outcome.writes):
            self._write(id_, outcome.writes[id_])
            self._account(id_)
        return outcome

    def _observed(self, name: str, now_s: float) -> Observed | None:
        """Return what a service answers now; None: nothing."""
        seen, queue, found = self._seen[name], self._queues[name], self._answers[name]
        if queue.streams:
            member_of = self._members.get
            up = [it for id_, it in seen.items() if member_of(id_, _UP).state is MemberState.UP]
            kpis = queue.kpis(sum(it is _BUSY for it in up), len(up))
            found = Observed(state=ServiceState.RUNNING, kpis=kpis, members=dict(seen))
        elif found:
            members = {id_: found.members.get(id_, _IDLE) for id_ in seen}
            found = replace(found, members=members)
        return found and replace(found, begun_s=now_s, arrived_s=now_s)

    def _measure(self, observations: Mapping[str, Observed], now_s: float) -> None:
        """Count which services lack something in this round, and keep what a chart shows."""
        lasts_s = min(self._trace.every_s, self._trace.until_s - self.now_s)
        self._series.times_s.append(self.now_s)
        for name, service in self._services.items():
            found = observations.get(name)
            kpis = found.kpis if found else ()
            names = service.work_kpis.union(it.kpi for it in self._queues[name].streams)
            numbers = (it.value for it in kpis if it.name in names)
            waiting = math.fsum(it for it in numbers if 0 < it < math.inf)
            self._series.members[name].append(self._referee.members[name])
            self._series.waiting[name].append(waiting)
            if not all(self._is_kept(slo, name, kpis, now_s) for slo in service.slos):
                self._spent_s[name, "unmet"] += lasts_s

    def _is_kept(self, slo: Slo, name: str, kpis: tuple[Kpi, ...], now_s: float) -> bool:
        """Return whether a service has what an objective asks for."""
        if not slo.applies(now_s):
            return True
        values = [it.value for it in kpis if it.name == slo.kpi]
        match slo.kind:
            case SloKind.MINIMUM:
                resources = self._trace.pools.resources
                there = (resources[id_].properties for id_ in self._seen[name])
                accepts = slo.filter.accepts if slo.filter else bool
                return sum(map(accepts, there)) >= slo.quantity
            case SloKind.PENDING:
                return max(values) <= slo.above if slo.per and values else sum(values) <= slo.above
            case SloKind.UTILISATION:
                return not values or max(values) <= slo.band[1]
            case SloKind.PERMANENT:
                return True

    def _write(self, id_: str, after: Holding | None) -> None:
        """Carry out the decision on a resource."""
        before = self._holdings.pop(id_, None)
        if after is not None:
            self._holdings[id_] = after
        if before is None or after is None or before.service != after.service:
            self._move(id_, before.service if before else _NOBODY, after)
        elif self._services[after.service].direct:
            pass  # its members need not leave
        elif (before.phase, after.phase) == (Phase.LEAVING, Phase.IN):
            self._take_back(id_, after.service)
        elif before.phase is Phase.IN and after.phase is not Phase.IN:
            self._begin_leave(id_, after.service)

    def _move(self, id_: str, source: str, after: Holding | None) -> None:
        """Take a resource from one service to another.

        One that is drained lets go of the first before it joins the other, as the engine has it;
        one that is at work, or still joins, is given to two: the referee will see that.
        """
        if source:
            self._seen[source].pop(id_, None)
            self._members.pop(id_, None)
            self._queues[source].withdraw(id_)
        if self._jobs.pop(id_, None):
            self._referee.loses(id_)
        if not self._is_letting_go(id_):
            self._next.pop(id_, None)
        self._moves += 1
        circle_s = self._trace.pools.circle_s
        self._left_s[id_, source] = self.now_s
        if after is None:
            return
        is_swing = self.now_s - self._left_s.get((id_, after.service), -math.inf) < circle_s
        self._swings += is_swing and not self._services[after.service].direct
        self._begin_join(id_, after.service)

    def _begin_join(self, id_: str, service: str) -> None:
        """Have a resource join a service, as soon as it is clear of the one that it comes from."""
        if self._services[service].direct:
            self._seen[service][id_] = _IDLE
            return
        self._set(id_, MemberState.DOWN)
        if not self._is_letting_go(id_):
            self._start_join(id_, service)

    def _start_join(self, id_: str, service: str) -> None:
        self._referee.joins(id_, service)
        self._await(_Event.JOINED, id_, self._trace.join_s)

    def _joined(self, id_: str) -> None:
        service = self._holdings[id_].service
        self._set(id_, MemberState.UP)
        self._seen[service][id_] = _IDLE
        self._offer(id_, service)

    def _begin_leave(self, id_: str, service: str) -> None:
        """Drain a member, also one that has not joined yet."""
        self._queues[service].withdraw(id_)
        self._set(id_, MemberState.DRAINING)
        if id_ not in self._jobs:
            self._await(_Event.LEFT, id_, self._trace.leave_s)

    def _left(self, id_: str) -> None:
        """Let a resource be clear of a service; what it was given to meanwhile begins to join."""
        self._referee.leaves(id_)
        holding = self._holdings.get(id_)
        if holding is None or self._services[holding.service].direct:
            return
        if holding.phase is Phase.IN:
            self._start_join(id_, holding.service)
        elif self._members[id_].state is MemberState.DRAINING:
            self._set(id_, MemberState.DOWN)
            self._seen[holding.service].pop(id_, None)

    def _take_back(self, id_: str, service: str) -> None:
        """Keep a member that was leaving: it works again at once, unless it has left already."""
        if id_ not in self._jobs:
            self._next.pop(id_, None)
        if id_ not in self._seen[service]:
            self._begin_join(id_, service)
            return
        self._set(id_, MemberState.UP)
        if id_ not in self._jobs:
            self._queues[service].withdraw(id_)  # what joined while it was leaving is idle already
            self._offer(id_, service)

    def _offer(self, id_: str, service: str) -> None:
        if job := self._queues[service].offer(id_, self.now_s):
            self._start(service, id_, job)

    def _start(self, service: str, id_: str, job: Job) -> None:
        self._jobs[id_] = job
        self._seen[service][id_] = _BUSY
        self._referee.starts(id_, service, job.number, self.now_s + job.lasts_s)
        self._await(_Event.END, id_, job.lasts_s)

    def _end(self, id_: str) -> None:
        """End the job of a member; it takes the next one, or leaves if it was asked to."""
        service = self._holdings[id_].service
        self._referee.ends(id_, service, self._jobs.pop(id_).number, self.now_s)
        self._queues[service].finished += 1
        self._seen[service][id_] = _IDLE
        if self._members[id_].state is MemberState.DRAINING:
            self._await(_Event.LEFT, id_, self._trace.leave_s)
        else:
            self._offer(id_, service)

    def _set(self, id_: str, state: MemberState) -> None:
        since_s = self._trace.starts_s + self.now_s
        self._members[id_] = Member(state=state, since_s=since_s)

    def _is_letting_go(self, id_: str) -> bool:
        """Return whether a resource is drained, and not clear yet of the service that had it."""
        return self._next.get(id_, (None,))[0] is _Event.LEFT

    def _account(self, id_: str) -> None:
        """Count the time of a resource up to now, and note what it does from now on."""
        holding = self._holdings.get(id_)
        is_there = self._members.get(id_, _UP).state is MemberState.UP
        what = "busy" if id_ in self._jobs else "idle" if is_there else "transit"
        now = (holding.service if holding else _NOBODY, what)
        before, since_s = self._uses.get(id_, (now, self.now_s))
        self._spent_s[before] += self.now_s - since_s
        self._uses[id_] = (now, self.now_s)

    def _await_job(self, service: str) -> None:
        if arrival := next(self._queues[service].arrivals, None):
            self._push(arrival[0], _Event.ARRIVAL, service, arrival[1])

    def _await(self, event: _Event, id_: str, after_s: float) -> None:
        """Have this, and nothing else, happen to a resource after a time."""
        self._push(self.now_s + after_s, event, id_, 0)
        self._next[id_] = (event, self._pushed)

    def _push(self, at_s: float, event: _Event, name: str, number: int) -> None:
        self._pushed += 1
        heappush(self._events, (at_s, event, self._pushed, name, number))

    def _result(self, rounds: int) -> Result:
        for id_ in self._trace.pools.resources:
            self._account(id_)
        return Result(
            rounds=rounds,
            moves=self._moves,
            swings=self._swings,
            violations=self._referee.violations,
            services={name: self._service_result(name) for name in self._services},
            unowned_h=self._spent_s[_NOBODY, "idle"] / _HOUR_S,
            notes={str(kind): count for kind, count in sorted(self._notes.items())},
            reasons=[
                Reason(service=name, kind=str(kind), count=count, text=text)
                for (name, kind), (text, count) in sorted(self._reasons.items())
            ],
            series=self._series,
        )

    def _service_result(self, name: str) -> ServiceResult:
        queue = self._queues[name]
        left_s = [self.now_s - job.came_s for job in queue.left()]
        self._referee.counts_jobs(name, queue.came, len(left_s), queue.finished)
        waits_s = sorted([*queue.waits, *left_s]) or [0.0]
        return ServiceResult(
            jobs=queue.came,
            finished=queue.finished,
            waiting=len(left_s),
            **{f"{it}_h": self._spent_s[name, it] / _HOUR_S for it in _SPENT},
            wait_mean_s=math.fsum(waits_s) / len(waits_s),
            wait_p95_s=waits_s[math.ceil(0.95 * len(waits_s)) - 1],
            wait_max_s=waits_s[-1],
        )
