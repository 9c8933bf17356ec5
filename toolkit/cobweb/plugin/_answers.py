"""What the methods of a Python type answer, as the report of a job."""

from __future__ import annotations

from collections.abc import Mapping

from cobweb.model import Job, JobKind, Outcome, Report
from cobweb.plugin.protocols import Found


def answered(job: Job, answer: object) -> Report:
    """Return the report of a job whose method returned `answer`: a check's or a transition's."""
    if job.kind is JobKind.TRANSITION:
        results = answer if isinstance(answer, Mapping) else {}
        return Report(number=job.number, outcome=Outcome.OK, results=results)
    if isinstance(answer, Found):
        return Report(
            number=job.number,
            outcome=Outcome.OK,
            state=answer.state,
            message=answer.message,
            results=answer.results,
        )
    return Report(number=job.number, outcome=Outcome.OK, state=str(answer or ""))
