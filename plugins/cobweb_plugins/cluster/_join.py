"""The type `join`: one object that stands for many, so that n that need m cost n + m.

A join is always `up`, and lends `up` only while it holds what it needs of each of its members: the
same as if everyone who asks for the join had asked each member (promises P1 to P3).
"""

from __future__ import annotations

from typing import ClassVar

from cobweb.model import CobType, PythonAction, State
from cobweb.plugin import CobContext


class Join:
    """A Python type without work on any host."""

    name: ClassVar[str] = "join"

    def cob_type(self) -> CobType:
        """Return the one state that it is ever in."""
        return CobType(
            name=self.name,
            states=("up",),
            preferred="up",
            remove="up",
            serving=("up",),
            check=PythonAction(type_name=self.name, method="check"),
            spec_schema={"type": "object", "maxProperties": 0},
            transitions=(),
        )

    def check(self, context: CobContext) -> State:
        """Find it up: there is nothing that it could be instead."""
        del context
        return "up"
