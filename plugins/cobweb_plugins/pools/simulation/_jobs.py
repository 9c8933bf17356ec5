"""The closed loop: jobs come, wait, run on idle members one at a time, and end.

First come, first served among the jobs that a member can run. Nothing is drawn by chance: arrivals
are evenly spaced at the rate of the hour, and lengths follow the golden ratio's sequence, of which
any stretch is spread evenly over the distribution.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge

from cobweb_plugins.pools.decision import Kpi, Value
from cobweb_plugins.pools.simulation._trace import Stream, pieces

_GOLDEN = (math.sqrt(5) - 1) / 2

_Place = tuple[int, list[int], str]
"""What orders members that are idle: how many streams they can run, which, and their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of a service; `number` counts arrivals of all its streams from 0."""

    number: int
    stream: int
    came_s: float
    lasts_s: float


class JobQueue:
    """The jobs of one service that wait, and its members without a job.

    A member can run the streams whose filters its properties fit; members that fit the same ones
    are alike, and the one with the lowest id goes first; one that fits fewer goes before all that
    fit more.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        until_s: float,
        properties: Mapping[str, Mapping[str, Value]],
    ) -> None:
        self.waits: list[float] = []
        """How long each job that was started has waited, in seconds."""
        self.came = 0
        self.finished = 0
        self.streams = streams
        self._waiting: list[deque[Job]] = [deque() for _ in streams]
        self._properties = properties
        self._places: dict[str, _Place] = {}
        self._idle: list[_Place] = []
        self.arrivals = merge(*(_arrivals(it, at, until_s) for at, it in enumerate(streams)))
        """When the next job comes, and of which stream."""
        self._lengths = [_lengths(stream) for stream in streams]

    def arrive(self, stream: int, now_s: float) -> tuple[str, Job] | None:
        """Take a job; return the idle member that starts it at once, if there is one."""
        lasts_s = next(self._lengths[stream])
        job = Job(number=self.came, stream=stream, came_s=now_s, lasts_s=lasts_s)
        self.came += 1
        for at, (_, fits, member) in enumerate(self._idle):
            if stream in fits:
                del self._idle[at]
                self.waits.append(0.0)
                return member, job
        self._waiting[stream].append(job)
        return None

    def offer(self, member: str, now_s: float) -> Job | None:
        """Return the job that a member without one starts; with None it is idle from now on."""
        _, fits, _ = place = self._place_of(member)
        heads = [self._waiting[at][0] for at in fits if self._waiting[at]]
        if not heads:
            insort(self._idle, place)
            return None
        job = min(heads, key=lambda it: it.number)
        self._waiting[job.stream].popleft()
        self.waits.append(now_s - job.came_s)
        return job

    def withdraw(self, member: str) -> None:
        """Give no more jobs to a member."""
        place = self._place_of(member)
        at = bisect_left(self._idle, place)
        if self._idle[at : at + 1] == [place]:
            del self._idle[at]

    def left(self) -> list[Job]:
        """Return the jobs that wait."""
        return [job for queue in self._waiting for job in queue]

    def kpis(self, busy: int, members: int) -> tuple[Kpi, ...]:
        """Return how many jobs wait, by KPI, and which part of the members is at work."""
        counts: Counter[str] = Counter()
        for stream, queue in zip(self.streams, self._waiting, strict=True):
            counts[stream.kpi] += len(queue)
        load = busy / members if members else float(any(counts.values()))
        pending = (Kpi(name=name, value=counts[name]) for name in sorted(counts))
        return *pending, Kpi(name="utilisation", value=load)

    def _place_of(self, member: str) -> _Place:
        if member not in self._places:  # only members are looked at
            own = self._properties[member]
            fits = [
                at
                for at, stream in enumerate(self.streams)
                if stream.needs is None or stream.needs.accepts(own)
            ]
            self._places[member] = (len(fits), fits, member)
        return self._places[member]


def _arrivals(stream: Stream, at: int, until_s: float) -> Iterator[tuple[float, int]]:
    """Yield when jobs come: one whenever the rates have summed up to a whole one."""
    owed = 0.0
    for from_s, end_s, rate in pieces(stream.rates, until_s):
        came = 0
        while rate and (next_s := from_s + (came + 1 - owed) / rate) < end_s:
            yield next_s, at
            came += 1
        owed += rate * (end_s - from_s) - came


def _lengths(stream: Stream) -> Iterator[float]:
    """Yield how long jobs take, in seconds."""
    point = 0.5
    while True:
        yield -stream.lasts_s * math.log(1 - point) if stream.exponential else stream.lasts_s
        point = (point + _GOLDEN) % 1
