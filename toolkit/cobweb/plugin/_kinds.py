"""The kinds of things that a plugin can register, and the hook of each."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a hook registers; the value is the last word of the hook's name."""

    TYPES = "types"
    EXECUTORS = "executors"
    SOLVERS = "solvers"
    PLANNERS = "planners"
    ADAPTERS = "adapters"
    COMMANDS = "commands"
    SECTIONS = "sections"
    OBSERVERS = "observers"
    TRANSPORTS = "transports"

    @property
    def hook(self) -> str:
        """The name of the hook that registers this kind."""
        return f"cobweb_register_{self.value}"
