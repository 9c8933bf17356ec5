"""Frozen values that every other package speaks of; pure (no I/O, clock or randomness)."""

from __future__ import annotations

from cobweb.model.cob import (
    ANY,
    UNKNOWN,
    Action,
    Cob,
    CobId,
    CobType,
    Confirm,
    Missing,
    Nothing,
    PythonAction,
    Role,
    State,
    Tasks,
    Transition,
    cob_id,
    host_of,
    name_of,
)
from cobweb.model.expansion import Expansion
from cobweb.model.graph import Graph, Limit, LimitGroup, LimitScope, LockNeed, Need, TransitionNeed
from cobweb.model.host import Host
from cobweb.model.job import Job, JobKind, Outcome, Report, TaskOutput
from cobweb.model.result import (
    Results,
    connection_variables,
    fill_in,
    has_late_values,
    late_result,
    merged_results,
    results_problem,
)

__all__ = [
    "ANY",
    "UNKNOWN",
    "Action",
    "Cob",
    "CobId",
    "CobType",
    "Confirm",
    "Expansion",
    "Graph",
    "Host",
    "Job",
    "JobKind",
    "Limit",
    "LimitGroup",
    "LimitScope",
    "LockNeed",
    "Missing",
    "Need",
    "Nothing",
    "Outcome",
    "PythonAction",
    "Report",
    "Results",
    "Role",
    "State",
    "TaskOutput",
    "Tasks",
    "Transition",
    "TransitionNeed",
    "cob_id",
    "connection_variables",
    "fill_in",
    "has_late_values",
    "host_of",
    "late_result",
    "merged_results",
    "name_of",
    "results_problem",
]
