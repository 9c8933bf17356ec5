"""What a run has come to: shared by the loop and by what takes the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb.engine import Engine
from cobweb.model import CobId, Graph, Job, State
from cobweb.runtime._acts import Act
from cobweb.runtime._late import applied_now

__all__ = ["Progress"]


def _nothing() -> Act:
    graph = Graph(cobs={})
    return Act(graph=graph, engine=Engine(graph))


@dataclass(slots=True, kw_only=True)
class Progress:
    """What is true of a run at this moment; `act` is the one that goes on, on the `hosts`.

    `applied` has the specs applied last, `messages` what failed jobs said, `failed` the objects
    that failed, `lost` what was said of each host that cannot be reached, `missed` the hosts that
    could not be reached the last time and have not answered yet. `begun` counts the transitions
    that began, `transitions` those that ended well; `stopped` says why nothing new is started where
    it was not the user's wish. `results` are what tasks of this run and of those before have handed
    back, by host. `probes` are the numbers of jobs that only ask whether a host answers,
    `by_machine` the objects of which a state is about to be believed since their machine is not
    there. `recorded` are the states that this run has found or reached last.
    """

    act: Act = field(default_factory=_nothing)
    hosts: frozenset[str] = frozenset()
    applied: dict[CobId, Mapping[str, Any] | None] = field(default_factory=dict)
    messages: dict[CobId, str] = field(default_factory=dict)
    failed: set[CobId] = field(default_factory=set)
    results: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    probes: set[int] = field(default_factory=set)
    by_machine: set[CobId] = field(default_factory=set)
    recorded: dict[CobId, State] = field(default_factory=dict)
    checks: int = 0
    begun: int = 0
    transitions: int = 0
    stopped: str = ""
    halted: bool = False
    interrupted: bool = False
    now_s: float = 0.0

    def states(self, cob: CobId) -> tuple[State, ...]:
        """Return the states of an object of the act."""
        return self.act.graph.cobs[cob].type.states

    def remember_applied(self, job: Job, state: State) -> None:
        """Note what is applied now that a job has left or found its object in a state."""
        cob_type = self.act.graph.cobs[job.cob].type
        if state == cob_type.preferred:
            self.applied[job.cob] = applied_now(job, self.act.specs.get(job.cob, {}))
        elif state == cob_type.remove:
            self.applied[job.cob] = None
        elif state == self.act.graph.cobs[job.cob].want:
            self.applied[job.cob] = applied_now(job, self.act.specs.get(job.cob, {}))
