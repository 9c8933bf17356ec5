"""A made-up world of several kernels: each has its own executor, journal and life, mail is lost.

The world judges by what is real: what starts must find its needs met and nobody moving that has to
stand still (P1), and start from where it says (P4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from cobweb.kernel._dispatch import Dispatcher
from cobweb.kernel._events import EventPublisher
from cobweb.kernel._kernel import Kernel, RunSetting
from cobweb.kernel._mail import Part
from cobweb.kernel._record import Record
from cobweb.model import CobId, Graph, Host, Job, JobKind, Outcome, Report, State, TransitionNeed
from cobweb.plugin import ExecutorSetting
from cobweb.store import (
    Entry,
    GrantGone,
    GrantWritten,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
)
from cobweb.testing import FakeExecutor
from tests.support.contexts import context_over

__all__ = ["Kernels", "Mishaps", "Post"]

MAX_ROUNDS = 20_000
"""How often a kernel may be stepped before a run is held to be endless."""

QUIET_S = 600.0
"""How long nothing may happen, by the clock of each kernel, before a run is held to be over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mishaps:
    """Probabilities: `lose` and `double` by message, `kill` of a kernel by step, `fail` by job."""

    lose: float = 0.0
    double: float = 0.0
    kill: float = 0.0
    fail: float = 0.0


@dataclass
class Post:
    """A transport within the process that loses, doubles and shuffles."""

    name: ClassVar[str] = "post"
    random: Random
    mishaps: Mishaps
    boxes: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    sent: int = 0

    def connect(self, _address: str, owner: str, _wake: Callable[[], None]) -> _Box:
        return _Box(self, owner)


@dataclass
class _Box:
    post: Post
    owner: str

    def send(self, owner: str, message: bytes) -> None:
        random, mishaps = self.post.random, self.post.mishaps
        self.post.sent += 1
        copies = 0 if random.random() < mishaps.lose else 1 + (random.random() < mishaps.double)
        self.post.boxes.setdefault(owner, []).extend([(self.owner, message)] * copies)

    def receive(self) -> Sequence[tuple[str, bytes]]:
        box = self.post.boxes.pop(self.owner, [])
        self.post.random.shuffle(box)
        late = self.post.random.randint(0, len(box))
        self.post.boxes[self.owner] = box[late:]
        return box[:late]

    def close(self) -> None:
        pass


class _Journal:
    """What is durable of one kernel."""

    def __init__(self) -> None:
        self.states: dict[CobId, State] = {}
        self.moving: set[CobId] = set()
        self.locks: dict[tuple[CobId, CobId], State] = {}

    def write(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            match entry:
                case StateWritten(cob=cob, state=state) | TransitionFinished(cob=cob, state=state):
                    self.states[cob] = state
                    self.moving.discard(cob)
                case TransitionBegan(cob=cob):
                    self.moving.add(cob)
                case GrantWritten(cob=cob, holder=holder, state=state):
                    self.locks[cob, holder] = state
                case GrantGone(cob=cob, holder=holder):
                    self.locks.pop((cob, holder), None)
                case _:
                    pass

    def known(self, graph: Graph) -> dict[CobId, State]:
        return {
            cob: state
            for cob, state in self.states.items()
            if cob not in self.moving and state in graph.cobs[cob].type.states
        }


class _Hosts(FakeExecutor):
    """The real hosts of one kernel: a job ends when it is looked at, perhaps only later."""

    def __init__(self, world: Kernels) -> None:
        super().__init__()
        self._world = world
        self.jobs_at_work: list[Job] = []

    def submit(self, job: Job) -> None:
        if job.kind is JobKind.TRANSITION:
            self._world.judge(job)
        self.jobs_at_work.append(job)

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        random = self._world.random
        ended = [job for job in self.jobs_at_work if random.randrange(2)]
        self.jobs_at_work = [job for job in self.jobs_at_work if job not in ended]
        self._now_s += 0.1 if self.jobs_at_work or ended else timeout_s or 0.0
        return [self._world.end(job) for job in ended]


@dataclass(kw_only=True)
class Kernels:
    """One graph, who owns which host of it, and what is real.

    `events` are those of all kernels in the order in which they were told.
    """

    graph: Graph
    owners: Mapping[str, str]
    truth: dict[CobId, State]
    random: Random
    mishaps: Mishaps = field(default_factory=Mishaps)
    kills: int = 6
    events: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    moving: dict[CobId, Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.post = Post(self.random, self.mishaps)
        self.journals = {owner: _Journal() for owner in sorted(set(self.owners.values()))}
        self.lives = dict.fromkeys(self.journals, 0)
        self.hosts: dict[str, _Hosts] = {}
        self.kernels: dict[str, Kernel] = {}
        for owner in self.journals:
            self._begin(owner)

    def run(self) -> None:
        """Step the kernels until nothing happens any more; AssertionError if that has no end."""
        quiet_since = dict.fromkeys(self.journals, 0.0)
        for _ in range(MAX_ROUNDS):
            owner = self.random.choice(sorted(self.kernels))
            if self.kills and self.random.random() < self.mishaps.kill:
                self.kills -= 1
                self._kill(owner)
            told = len(self.events)
            self.kernels[owner].poll(30.0)
            now_s = {one: hosts.now() for one, hosts in self.hosts.items()}
            if len(self.events) > told or any(h.jobs_at_work for h in self.hosts.values()):
                quiet_since = now_s
            elif all(now_s[one] - quiet_since[one] > QUIET_S for one in now_s):
                return
        raise AssertionError("the kernels do not come to rest")

    def unsettled(self) -> list[CobId]:
        """Return the objects that are not where they should be, as their kernels see it."""
        return [cob for it in self.kernels.values() for cob in it.engine.unsettled()]

    def judge(self, job: Job) -> None:
        """Note what is wrong with a transition that starts now."""
        if job.cob in self.moving or self.truth[job.cob] != job.source:
            self.broken.append(f"P4: {job.cob} {job.source} -> {job.dest}")
        for need in self._needs_of(job):
            kind = self.graph.cobs[need.on].type
            if need.on in self.moving or self.truth[need.on] not in kind.members(need.state):
                self.broken.append(f"P1: {job.cob} starts and {need} does not hold")
        for other in self.moving.values():
            if any(need.on == job.cob for need in self._needs_of(other)):
                self.broken.append(f"P1: {job.cob} moves under {other.cob}")
        self.moving[job.cob] = job

    def end(self, job: Job) -> Report:
        """Do what a job does, in the real world, and report it."""
        if job.kind is JobKind.CHECK:
            return Report(number=job.number, outcome=Outcome.OK, state=self.truth[job.cob])
        self.moving.pop(job.cob, None)
        if self.random.random() < self.mishaps.fail:
            return Report(number=job.number, outcome=Outcome.FAILED, message="bad luck")
        self.truth[job.cob] = job.dest
        return Report(number=job.number, outcome=Outcome.OK)

    def _needs_of(self, job: Job) -> list[TransitionNeed]:
        needs = self.graph.transition_needs()
        return [n for n in needs if n.cob == job.cob and n.covers(job.source, job.dest)]

    def _kill(self, owner: str) -> None:
        """Kill one kernel; what it had at work comes to its end, or was never begun."""
        for job in self.hosts[owner].jobs_at_work:
            if self.random.randrange(2):
                self.end(job)
            self.moving.pop(job.cob, None)
        self._begin(owner)

    def _begin(self, owner: str) -> None:
        self.lives[owner] += 1
        hosts = self.hosts[owner] = _Hosts(self)
        journal = self.journals[owner]
        names = {cob.host for cob in self.graph.cobs.values()}
        setting = ExecutorSetting(
            hosts={name: Host(name=name) for name in names},
            site_dir=Path(),
            work_dir=Path(),
            parallel=10,
            timeout_s=60,
        )
        locks = tuple((cob, holder, state) for (cob, holder), state in journal.locks.items())
        context = context_over(self.graph, journal.known(self.graph), held=locks)
        lender = min(self.journals)
        kernel = Kernel(
            RunSetting(
                run=f"{owner}-{self.lives[owner]}",
                context=context,
                graph=self.graph,
                part=Part(
                    owner=owner,
                    lender=lender,
                    transport=self.post,
                    owners=self.owners,
                    incarnation=self.lives[owner],
                ),
            ),
            Dispatcher(hosts, setting),
            Record(journal, EventPublisher([self._hear], hosts.now)),
        )
        kernel.start()
        kernel.flush()
        self.kernels[owner] = kernel

    def _hear(self, event: Any) -> None:
        if event["type"] not in ("version", "run.start"):
            self.events.append({**event, "seq": len(self.events) + 3})

    def merged(self) -> list[dict[str, Any]]:
        """Return the events of all as those of one run."""
        code = 4 if self.unsettled() else 0
        return [
            {"seq": 1, "type": "version", "events": 1},
            {"seq": 2, "type": "run.start"},
            *self.events,
            {"seq": len(self.events) + 3, "type": "run.end", "exit_code": code},
        ]
