"""A plugin with an observer that writes the types of events into a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cobweb.plugin import Observer, hookimpl

cobweb_interface = 1


class Listening:
    """Writes a line per event, and the result."""

    name: ClassVar[str] = "listening"

    def open(self, argument: str) -> None:
        self.file = Path(argument)
        self.lines: list[str] = []

    def take(self, event: Mapping[str, Any]) -> None:
        self.lines.append(event["type"])

    def close(self, result: Mapping[str, Any] | None) -> None:
        self.file.write_text("\n".join([*self.lines, str(result)]))


@hookimpl
def cobweb_register_observers() -> Sequence[type[Observer]]:
    return [Listening]
