"""Whether a person can be asked before hosts change, and the refusal where nobody can be."""

from __future__ import annotations

import sys

from cobweb.errors import UsageError


def can_ask() -> bool:
    """Say whether somebody sees a question and can answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def refuse_unasked(hint: str = "add --yes") -> None:
    """Raise UsageError where nobody can be asked; `hint` says how to agree beforehand."""
    if not can_ask():
        raise UsageError("nothing was done: nobody can be asked without a terminal", hint=hint)
