"""A COB type for runs that are to be fast: a text on a slate, which is a file of the coordinator.

`slates/HOST--NAME` of the site has a line for each transition that began and each that ended, and
the last that ended is what is on the slate. So nothing that was done can be lost or done in part,
whenever the run dies, and whatever was done twice is there twice.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import ClassVar

from cobweb.model import CobType, PythonAction, Transition
from cobweb.plugin import CobContext, hookimpl

cobweb_interface = 1

_MATRIX = (("down", "up"), ("up", "down"), ("outdated", "up"), ("outdated", "down"))


def _action(method: str) -> PythonAction:
    return PythonAction(type_name="slate", method=method)


class Slate:
    """A text on a slate: written, rewritten, wiped."""

    name: ClassVar[str] = "slate"

    def cob_type(self) -> CobType:
        """Return the usual matrix."""
        return CobType(
            name=self.name,
            states=("outdated", "down", "up"),
            preferred="up",
            remove="down",
            check=_action("check"),
            transitions=tuple(
                Transition(
                    source=source, dest=dest, action=_action("write" if dest == "up" else "wipe")
                )
                for source, dest in _MATRIX
            ),
            spec_schema={
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        )

    def check(self, context: CobContext) -> str:
        """Return `up` if the text is as wanted, `outdated` if it differs, `down` without one."""
        text = _text(_slate(context))
        if text is None:
            return "down"
        return "up" if text == context.cob["spec"]["text"] else "outdated"

    def write(self, context: CobContext) -> None:
        """Write the text."""
        _note(context, ["begin", "write", context.cob["spec"]["text"]])
        _note(context, ["end", "write", context.cob["spec"]["text"]])

    def wipe(self, context: CobContext) -> None:
        """Remove the text."""
        _note(context, ["begin", "wipe", None])
        _note(context, ["end", "wipe", None])


@hookimpl
def cobweb_register_types() -> list[type[Slate]]:
    """Register `slate`."""
    return [Slate]


def _slate(context: CobContext) -> Path:
    name: str = context.cob["id"]
    return context.site_dir / "slates" / name.replace("/", "--")


def _text(slate: Path) -> str | None:
    """Return what is on a slate."""
    if not slate.exists():
        return None
    lines = [json.loads(line) for line in slate.read_text(encoding="utf-8").splitlines()]
    texts: list[str | None] = [text for moment, _, text in lines if moment == "end"]
    return texts[-1] if texts else None


def _note(context: CobContext, what: list[str | None]) -> None:
    """Add a line, in one write."""
    descriptor = os.open(_slate(context), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, (json.dumps(what) + "\n").encode())
    os.close(descriptor)
