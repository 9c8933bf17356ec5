"""Deciders: policy as a pure function from what is seen to what is decided.

A plugin registers a class at the point `decider`; docs/plugins/write-a-decider.md has the tutorial,
and `kit` what its own tests try it with. The controller gives deciders their turns.
"""

from __future__ import annotations

from cobweb_plugins.controller.deciders._values import (
    DECIDER_LIMIT_S,
    Decider,
    DeciderView,
    ObjectState,
    ObserveContext,
    Outcome,
)

__all__ = [
    "DECIDER_LIMIT_S",
    "Decider",
    "DeciderView",
    "ObjectState",
    "ObserveContext",
    "Outcome",
]
