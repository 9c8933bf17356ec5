"""The report as plain data: what `cobweb report -o json` writes."""

from __future__ import annotations

from typing import Any

from cobweb_plugins.report._analysis import HostSum, Slow
from cobweb_plugins.report._columns import NONE
from cobweb_plugins.report._report import Report
from cobweb_plugins.report._values import Failure, Switched

FORMAT = 1
"""The version of the data that `report_data` returns."""


def report_data(report: Report) -> dict[str, Any]:
    """Return the report as plain JSON data; all times of events are seconds after its start."""
    story = report.story
    return {
        "format": FORMAT,
        "run": _run(report),
        "counts": dict(story.counts),
        "totals": {
            "events": story.events,
            "hosts": len(report.hosts),
            "cobs": len(story.cobs),
            "transitions": len(story.steps),
            "lock_requests": len(story.waits),
            "lock_recalls": story.recalls,
            "failed": len(story.failures),
            "waiting": len(report.waiting),
        },
        "unreachable": dict(sorted(story.unreachable.items())),
        "switches": [_switch(switch) for switch in story.switches],
        "failures": [_failure(failure) for failure in story.failures],
        "waiting": [
            {"cob": it.cob, "state": it.state, "chain": [dict(link) for link in it.chain]}
            for it in report.waiting
        ],
        "critical_path": [
            {
                **_slow(it.step),
                "reason": it.reason,
                "gap": _seconds(it.gap_ms),
                "limit": it.room.limit if it.room else None,
                "taken_by": it.room.unit if it.room else None,
            }
            for it in report.path
        ],
        "slowest": [_slow(it) for it in report.slow],
        "waited_for": [
            {
                "cob": it.cob,
                "state": it.state,
                "waits": it.holders,
                "seconds": _seconds(it.total_ms),
                "longest": {"cob": it.longest, "seconds": _seconds(it.most_ms)},
            }
            for it in report.waited
        ],
        "hosts": [_host(host) for host in report.hosts],
        "notes": list(report.notes),
    }


def _run(report: Report) -> dict[str, Any]:
    story, facts = report.story, report.facts
    return {
        "id": story.run,
        "command": facts.command,
        "user": facts.user,
        "host": facts.host,
        "started": facts.started,
        "ended": facts.ended,
        "goes_on": facts.goes_on,
        "generation": story.generation,
        "cobweb": story.cobweb,
        "result": story.result,
        "exit_code": story.exit_code,
        "seconds": _seconds(story.last_ms),
    }


def _switch(switch: Switched) -> dict[str, Any]:
    return {
        "at": _seconds(switch.at_ms),
        "hosts": list(switch.hosts),
        "generation": switch.generation,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "cob": failure.cob,
        "kind": failure.kind,
        "from": failure.source,
        "to": failure.dest,
        "at": _seconds(failure.at_ms),
        "attempt": failure.attempt,
        "message": failure.message,
        "tasks": [
            {"name": task.name, "status": task.status, "message": task.message}
            for task in failure.tasks
        ],
    }


def _slow(step: Slow) -> dict[str, Any]:
    return {
        "cob": step.cob,
        "from": step.source,
        "to": step.dest,
        "start": _seconds(step.start_ms),
        "seconds": _seconds(step.took_ms),
        "result": step.result,
    }


def _host(host: HostSum) -> dict[str, Any]:
    return {
        "name": host.name,
        "cobs": host.cobs,
        "transitions": host.transitions,
        "failed": host.failed,
        "waiting": host.waiting,
        "busy": _seconds(host.busy_ms),
        "start": None if host.start_ms == NONE else _seconds(host.start_ms),
        "end": None if host.end_ms == NONE else _seconds(host.end_ms),
    }


def _seconds(ms: int) -> float:
    return ms / 1000
