"""The type `join`: one object that stands for many, so that n that need m cost n + m.

A join is always `up`, and lends `up` only while it holds what it needs of each of its members: the
same as if everyone who asks for the join had asked each member (promises P1 to P3).
"""

from __future__ import annotations

from typing import ClassVar

from cobweb.model import CobType, Nothing, PythonAction, State, Transition
from cobweb.plugin import CobContext

__all__ = ["Join"]


class Join:
    """A Python type without work on any host."""

    name: ClassVar[str] = "join"

    def cob_type(self) -> CobType:
        """Return the two states; nothing ever has to be done to be up."""
        return CobType(
            name=self.name,
            states=("down", "up"),
            preferred="up",
            remove="down",
            check=PythonAction(type_name=self.name, method="check"),
            spec_schema={"type": "object", "maxProperties": 0},
            transitions=(
                Transition(source="down", dest="up", action=Nothing()),
                Transition(source="up", dest="down", action=Nothing()),
            ),
        )

    def check(self, context: CobContext) -> State:
        """Find it up: there is nothing that it could be instead."""
        del context
        return "up"
