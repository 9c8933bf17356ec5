"""Drives the engine: executors, journal, site lock, signals, events."""

from __future__ import annotations

from cobweb.runtime._again import desired_again, original_of, to_go_back_to
from cobweb.runtime._baseline import Refresh, is_another
from cobweb.runtime._collection import KEPT, collect_generations
from cobweb.runtime._desired import Desired, desired_of
from cobweb.runtime._drift import DriftResult, drift_data
from cobweb.runtime._events import Sink, json_lines
from cobweb.runtime._exceptions import Exceptions
from cobweb.runtime._forgetting import Farewell, farewell, welcome
from cobweb.runtime._frame import DEFAULT_PARALLEL, DEFAULT_TIMEOUT_S, Caller, Orders
from cobweb.runtime._generated import (
    FileChange,
    MadeFile,
    made_files,
    write_made,
    written_digest,
)
from cobweb.runtime._looking import drift_site
from cobweb.runtime._only import refuse_pending
from cobweb.runtime._operations import (
    apply_site,
    plan_site,
    rehearse_site,
    simulate_site,
    stuck_from_nothing,
    told_stuck,
)
from cobweb.runtime._past import why_in_run
from cobweb.runtime._plan import MAX_PLAN_BYTES, Change, Plan, PlanFile, plan_text, read_plan
from cobweb.runtime._prose import chain_lines, link_text
from cobweb.runtime._refusals import refusals_of, refuse
from cobweb.runtime._result import Ending, RunResult, Wait, chain_data, wait_data
from cobweb.runtime._signals import Interrupts, handle_signals, signals_as_interrupt
from cobweb.runtime._stale import refuse_stale
from cobweb.runtime._trees import TreeComparison, archives_of, file_data
from cobweb.runtime._why import Reason, goes_on, why

__all__ = [
    "DEFAULT_PARALLEL",
    "DEFAULT_TIMEOUT_S",
    "KEPT",
    "MAX_PLAN_BYTES",
    "Caller",
    "Change",
    "Desired",
    "DriftResult",
    "Ending",
    "Exceptions",
    "Farewell",
    "FileChange",
    "Interrupts",
    "MadeFile",
    "Orders",
    "Plan",
    "PlanFile",
    "Reason",
    "Refresh",
    "RunResult",
    "Sink",
    "TreeComparison",
    "Wait",
    "apply_site",
    "archives_of",
    "chain_data",
    "chain_lines",
    "collect_generations",
    "desired_again",
    "desired_of",
    "drift_data",
    "drift_site",
    "farewell",
    "file_data",
    "goes_on",
    "handle_signals",
    "is_another",
    "json_lines",
    "link_text",
    "made_files",
    "original_of",
    "plan_site",
    "plan_text",
    "read_plan",
    "refusals_of",
    "refuse",
    "refuse_pending",
    "refuse_stale",
    "rehearse_site",
    "signals_as_interrupt",
    "simulate_site",
    "stuck_from_nothing",
    "to_go_back_to",
    "told_stuck",
    "wait_data",
    "welcome",
    "why",
    "why_in_run",
    "write_made",
    "written_digest",
]
