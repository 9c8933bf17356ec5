"""A COB type and a section for sites that a controller keeps: texts on boards, in one folder.

The folder of `spec.home` is outside of the site, so that all checkouts of a site have the same
boards. There are

- `boards/HOST--NAME`: the text of an object that is up; the test may change it behind its back;
- `log`: a line of JSON for each transition that begins and each that ends, of all objects;
- `hold/HOST--NAME`, made by the test: a transition of this object waits until the file is gone;
- `fail/HOST--NAME`, made by the test: each transition of this object fails.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cobweb.model import CobType, Decided, Expansion, PythonAction, Transition
from cobweb.plugin import CobContext, ExpandContext, hookimpl

cobweb_interface = 1

_MATRIX = (("down", "up"), ("up", "down"), ("outdated", "up"), ("outdated", "down"))
_POLL_S = 0.02
_HOLD_S = 120.0
"""How long a test may hold a transition: then it fails, so that no process stays for ever."""


def _action(method: str) -> PythonAction:
    return PythonAction(type_name="board", method=method)


class Board:
    """A text on a board; with the old text it serves as well."""

    name: ClassVar[str] = "board"

    def cob_type(self) -> CobType:
        """Return the usual matrix."""
        return CobType(
            name=self.name,
            states=("outdated", "down", "up"),
            preferred="up",
            remove="down",
            serving=("up", "outdated"),
            check=_action("check"),
            transitions=tuple(
                Transition(
                    source=source, dest=dest, action=_action("write" if dest == "up" else "wipe")
                )
                for source, dest in _MATRIX
            ),
            spec_schema={
                "type": "object",
                "properties": {"text": {"type": "string"}, "home": {"type": "string"}},
                "required": ["text", "home"],
                "additionalProperties": False,
            },
        )

    def check(self, context: CobContext) -> str:
        """Return `up` if the text is as wanted, `outdated` if it differs, `down` without one."""
        try:
            text = _file(context, "boards").read_text(encoding="utf-8")
        except FileNotFoundError:
            return "down"
        return "up" if text == context.cob["spec"]["text"] else "outdated"

    def write(self, context: CobContext) -> None:
        """Write the text."""
        text = context.cob["spec"]["text"]
        _begin(context, text)
        _file(context, "boards").write_text(text, encoding="utf-8")
        _note(context, "end", text)

    def wipe(self, context: CobContext) -> None:
        """Wipe the board."""
        _begin(context, None)
        _file(context, "boards").unlink(missing_ok=True)
        _note(context, "end", None)


class Switches:
    """The section `switches`: on each of its hosts a board `switch` with the text that is decided.

    A decision with `client` has the board need the object `server` of `on`, so that it goes out
    with that; one with `stops` has the board stop this object when the text changes; one that is
    `gone` takes the board away.
    """

    name: ClassVar[str] = "switches"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "hosts": {"type": "array", "items": {"type": "string"}},
            "home": {"type": "string"},
        },
        "required": ["hosts", "home"],
        "additionalProperties": False,
    }
    decision_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "client": {"type": "string"},
            "stops": {"type": "string"},
            "gone": {"type": "boolean"},
        },
        "minProperties": 1,
        "additionalProperties": False,
    }

    def expand(self, sections: Mapping[str, Any], context: ExpandContext) -> Expansion:
        """Return a board for each host."""
        data = sections[self.name]
        cobs: dict[str, Mapping[str, Any]] = {}
        gone: list[str] = []
        for host in data["hosts"]:
            decision = context.decisions.get(host)
            body = {} if decision is None else decision.body
            text: Any = "off"
            if decision is not None:
                text = Decided(body.get("text", "off"), decision)
            if body.get("gone"):
                gone.append(f"{host}/switch-{host}")
                continue
            cob: dict[str, Any] = {
                "type": "board",
                "on": host,
                "spec": {"text": text, "home": data["home"]},
            }
            if "client" in body:
                cob["requires"] = [body["client"]]
            if "stops" in body:
                cob["stops"] = [body["stops"]]
            cobs[f"switch-{host}"] = cob
        return Expansion(cobs=cobs, releases=gone)


@hookimpl
def cobweb_register_types() -> list[type[Board]]:
    """Register `board`."""
    return [Board]


@hookimpl
def cobweb_register_sections() -> list[type[Switches]]:
    """Register `switches`."""
    return [Switches]


def _file(context: CobContext, folder: str) -> Path:
    name: str = context.cob["id"]
    return Path(context.cob["spec"]["home"]) / folder / name.replace("/", "--")


def _begin(context: CobContext, text: str | None) -> None:
    """Tell that a transition begins, then wait and fail as the test has it."""
    _note(context, "begin", text)
    until = time.monotonic() + _HOLD_S
    while _file(context, "hold").exists():
        if time.monotonic() > until:
            raise RuntimeError("the test has held this board for too long")
        time.sleep(_POLL_S)
    if _file(context, "fail").exists():
        raise RuntimeError("the test has this board fail")


def _note(context: CobContext, moment: str, text: str | None) -> None:
    """Add a line, in one write."""
    log = Path(context.cob["spec"]["home"]) / "log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(descriptor, (json.dumps([moment, context.cob["id"], text]) + "\n").encode())
    os.close(descriptor)
