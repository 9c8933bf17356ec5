"""What the methods of a Python type answer, as the report of a job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cobweb.model import Job, JobKind, Outcome, Report
from cobweb.plugin.protocols import Found


def answered(job: Job, answer: object) -> Report:
    """Return the report of a job whose method returned `answer`: a check's or a transition's."""
    done = partial(Report, number=job.number, outcome=Outcome.OK)
    if job.kind is JobKind.TRANSITION:
        return done(results=answer if isinstance(answer, Mapping) else {})
    if isinstance(answer, Found):
        return done(state=answer.state, message=answer.message, results=answer.results)
    return done(state=str(answer or ""))
