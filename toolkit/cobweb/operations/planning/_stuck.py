"""Who would wait for ever: told beforehand, as of a run that is set up from nothing (P9)."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.kernel._result import StuckError, Wait, stuck_waits
from cobweb.kernel._sentences import chain_lines, proof_lines
from cobweb.operations.context._context import ExecutionContext, context_from_nothing
from cobweb.operations.context._desired import Desired
from cobweb.operations.planning._prediction import predict_best

_SHOWN = 5
"""Of how many objects it is said why they would wait."""


def told_stuck(stuck: Sequence[Wait], context: ExecutionContext | None = None) -> StuckError:
    """Return the error that tells who would wait for ever, with the chains of a few, and why."""
    error = StuckError(stuck)
    for proof in () if context is None else context.proofs()[:_SHOWN]:
        for line in proof_lines(proof):
            error.add_note(line)
    for wait in stuck[:_SHOWN]:
        for line in chain_lines(wait):
            error.add_note(line)
    return error


def stuck_from_nothing(desired: Desired) -> tuple[Wait, ...]:
    """Return who would wait for ever if the site was set up from its `remove` states (P9)."""
    return stuck_waits(predict_best(context_from_nothing(desired))[1].waits)
