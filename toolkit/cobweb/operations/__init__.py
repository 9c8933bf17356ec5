"""Drives the engine: executors, journal, site lock, signals, events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb._lazy import on_demand

if TYPE_CHECKING:
    from cobweb.kernel._events import Sink, json_lines
    from cobweb.kernel._kernel import Kernel
    from cobweb.kernel._mail import Part
    from cobweb.kernel._result import Ending, RunResult, Wait, chain_data, link_of, wait_data
    from cobweb.kernel._run import Fellows
    from cobweb.kernel._sentences import chain_lines, given_up_text, link_text
    from cobweb.kernel._signals import Interrupts, handle_signals, signals_as_interrupt
    from cobweb.operations._decisions import check_decisions
    from cobweb.operations._observers import MOST_BEHIND, Observers
    from cobweb.operations._operations import (
        Company,
        apply_site,
        open_site,
        rehearse_site,
        simulate_site,
    )
    from cobweb.operations._questions import Questions
    from cobweb.operations.context._desired import Desired, Exceptions, desired_of
    from cobweb.operations.context._known_states import Refresh, is_another
    from cobweb.operations.context._narrowed import refuse_pending
    from cobweb.operations.context._orders import (
        DEFAULT_PARALLEL,
        DEFAULT_TIMEOUT_S,
        Caller,
        Orders,
    )
    from cobweb.operations.drift._drift_check import DriftResult, drift_data
    from cobweb.operations.drift._drift_run import drift_site
    from cobweb.operations.history._collection import (
        Garbage,
        Retention,
        collect_garbage,
        garbage_of,
    )
    from cobweb.operations.history._forget import ForgetReport, forget, take_back
    from cobweb.operations.history._rollback import (
        desired_again,
        no_generation,
        original_of,
        takes_rollback_back,
        to_go_back_to,
    )
    from cobweb.operations.history._why import Reason, run_of, why, why_in_run
    from cobweb.operations.planning._foresight import (
        graph_warnings,
        old_content_warnings,
        stuck_from_nothing,
        told_stuck,
        trouble_findings,
    )
    from cobweb.operations.planning._plan import (
        MAX_PLAN_BYTES,
        Plan,
        PlanFile,
        TreeComparison,
        file_data,
        plan_text,
        read_plan,
    )
    from cobweb.operations.planning._prediction import LimitUse
    from cobweb.operations.planning._refusals import refusals_of, refuse
    from cobweb.operations.planning._site_plan import archives_of, plan_site
    from cobweb.operations.planning._stale import refuse_stale
else:
    __getattr__ = on_demand(
        __name__,
        {
            "cobweb.kernel._events": "Sink json_lines",
            "cobweb.kernel._kernel": "Kernel",
            "cobweb.kernel._mail": "Part",
            "cobweb.kernel._run": "Fellows",
            "cobweb.kernel._result": "Ending RunResult Wait chain_data link_of wait_data",
            "cobweb.kernel._sentences": "chain_lines given_up_text link_text",
            "cobweb.kernel._signals": "Interrupts handle_signals signals_as_interrupt",
            "cobweb.operations._decisions": "check_decisions",
            "cobweb.operations._observers": "MOST_BEHIND Observers",
            "cobweb.operations._operations": (
                "Company apply_site open_site rehearse_site simulate_site"
            ),
            "cobweb.operations._questions": "Questions",
            "cobweb.operations.context._desired": "Desired Exceptions desired_of",
            "cobweb.operations.context._known_states": "Refresh is_another",
            "cobweb.operations.context._narrowed": "refuse_pending",
            "cobweb.operations.context._orders": "DEFAULT_PARALLEL DEFAULT_TIMEOUT_S Caller Orders",
            "cobweb.operations.drift._drift_check": "DriftResult drift_data",
            "cobweb.operations.drift._drift_run": "drift_site",
            "cobweb.operations.history._collection": "Garbage Retention collect_garbage garbage_of",
            "cobweb.operations.history._forget": "ForgetReport forget take_back",
            "cobweb.operations.history._rollback": (
                "desired_again no_generation original_of takes_rollback_back to_go_back_to"
            ),
            "cobweb.operations.history._why": "Reason run_of why why_in_run",
            "cobweb.operations.planning._foresight": (
                "graph_warnings old_content_warnings stuck_from_nothing told_stuck trouble_findings"
            ),
            "cobweb.operations.planning._plan": (
                "MAX_PLAN_BYTES Plan PlanFile TreeComparison file_data plan_text read_plan"
            ),
            "cobweb.operations.planning._prediction": "LimitUse",
            "cobweb.operations.planning._refusals": "refusals_of refuse",
            "cobweb.operations.planning._site_plan": "archives_of plan_site",
            "cobweb.operations.planning._stale": "refuse_stale",
        },
    )

__all__ = [
    "DEFAULT_PARALLEL",
    "DEFAULT_TIMEOUT_S",
    "MAX_PLAN_BYTES",
    "MOST_BEHIND",
    "Caller",
    "Company",
    "Desired",
    "DriftResult",
    "Ending",
    "Exceptions",
    "Fellows",
    "ForgetReport",
    "Garbage",
    "Interrupts",
    "Kernel",
    "LimitUse",
    "Observers",
    "Orders",
    "Part",
    "Plan",
    "PlanFile",
    "Questions",
    "Reason",
    "Refresh",
    "Retention",
    "RunResult",
    "Sink",
    "TreeComparison",
    "Wait",
    "apply_site",
    "archives_of",
    "chain_data",
    "chain_lines",
    "check_decisions",
    "collect_garbage",
    "desired_again",
    "desired_of",
    "drift_data",
    "drift_site",
    "file_data",
    "forget",
    "garbage_of",
    "given_up_text",
    "graph_warnings",
    "handle_signals",
    "is_another",
    "json_lines",
    "link_of",
    "link_text",
    "no_generation",
    "old_content_warnings",
    "open_site",
    "original_of",
    "plan_site",
    "plan_text",
    "read_plan",
    "refusals_of",
    "refuse",
    "refuse_pending",
    "refuse_stale",
    "rehearse_site",
    "run_of",
    "signals_as_interrupt",
    "simulate_site",
    "stuck_from_nothing",
    "take_back",
    "takes_rollback_back",
    "to_go_back_to",
    "told_stuck",
    "trouble_findings",
    "wait_data",
    "why",
    "why_in_run",
]
