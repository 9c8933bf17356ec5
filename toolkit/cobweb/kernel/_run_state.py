"""What a run has come to: shared by the loop and by what takes the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.engine import Engine
from cobweb.kernel._context import Context
from cobweb.kernel._deferred_values import applied_now
from cobweb.model import CobId, Job, State

BY_MACHINE = "machine"
"""The reason of a state that is believed because of the machine."""


@dataclass(slots=True, kw_only=True)
class RunState:
    """What is true of a run at this moment.

    `context` is what it set out with, `engine` decides; `hosts` are all of both. `applied` has the
    specs applied last, `messages` what failed jobs said, `failed` the objects that failed, `cut`
    the transitions that the user has stopped in the middle, by object, `lost` what was said of each
    host that cannot be reached, `missed` the hosts that could not be reached the last time and have
    not answered yet. `begun` counts the transitions that began, `transitions` those that ended
    well; `stopped` says why nothing new is started where it was not the user's wish. `results` are
    what tasks of this run and of those before have handed back, by host. `probes` are the numbers
    of jobs that only ask whether a host answers, `by_machine` the objects of which a state is about
    to be believed since their machine is not there. `recorded` are the states that this run has
    found or reached last, `reached` those that serve and that its transitions have led to, by the
    goal ("" for others).
    """

    context: Context
    engine: Engine
    hosts: frozenset[str] = frozenset()
    applied: dict[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    messages: dict[CobId, str] = field(default_factory=dict)
    failed: set[CobId] = field(default_factory=set)
    cut: dict[CobId, str] = field(default_factory=dict)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    probes: set[int] = field(default_factory=set)
    by_machine: set[CobId] = field(default_factory=set)
    recorded: dict[CobId, State] = field(default_factory=dict)
    reached: dict[CobId, State] = field(default_factory=dict)
    checks: int = 0
    begun: int = 0
    transitions: int = 0
    stopped: str = ""
    halted: bool = False
    interrupted: bool = False
    now_s: float = 0.0

    def applied_to(self, cob: CobId) -> Mapping[str, Any] | None:
        """Return the spec that was applied last."""
        return self.applied[cob] if cob in self.applied else self.context.applied(cob)

    def remember_applied(self, job: Job, state: State) -> None:
        """Note what is applied now that a job has left or found its object in a state."""
        it = self.engine.cob(job.cob)
        if state in (it.type.preferred, it.want):
            spec = self.context.spec(job.cob, in_base=self.engine.stands_in_base(job.cob))
            self.applied[job.cob] = applied_now(job, spec)
        if state == it.type.remove != it.type.preferred:
            self.applied[job.cob] = None
