"""What a solver gives up on, which is not to be mistaken for a proof that there is no layout."""

from __future__ import annotations

from cobweb.errors import CobwebError


def too_many(what: str, hint: str) -> CobwebError:
    """Return the error for a limit that was reached: nothing is known about a layout."""
    return CobwebError(f"{what}; whether there is a layout is not known", hint=hint)
