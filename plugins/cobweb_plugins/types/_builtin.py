"""The matrices of the built-in types; their tasks stand in playbooks/, their schemas in schemas/.

All four have the same states and transitions (design, section 4): `outdated` is left for `up` or
`down`, so that what must be down while a content changes is asked for first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from cobweb.model import CobType, Tasks, Transition
from cobweb.plugin import data_dir

__all__ = ["FileType", "ProcessType", "ScriptType", "ServiceType"]


class FileType:
    """One file with content, mode and owner; what it replaced is kept and put back."""

    name: ClassVar[str] = "file"

    def cob_type(self) -> CobType:
        """Return the type; going up writes, going down puts back what was there before."""
        return _cob_type(self.name, renew="write", up="write", down="remove")


class ProcessType:
    """A supervised process without an init system."""

    name: ClassVar[str] = "process"

    def cob_type(self) -> CobType:
        """Return the type; a start ends what runs by another spec first."""
        return _cob_type(self.name, renew="start", up="start", down="stop")


class ScriptType:
    """Whatever scripts of the site check, do and undo."""

    name: ClassVar[str] = "script"

    def cob_type(self) -> CobType:
        """Return the type; `do` leads up, also from outdated, and `undo` down."""
        return _cob_type(self.name, renew="do", up="do", down="undo")


class ServiceType:
    """A systemd unit."""

    name: ClassVar[str] = "service"

    def cob_type(self) -> CobType:
        """Return the type; from outdated the unit is restarted."""
        return _cob_type(self.name, renew="restart", up="start", down="stop")


def _cob_type(name: str, *, renew: str, up: str, down: str) -> CobType:
    ways = {
        ("down", "up"): up,
        ("up", "down"): down,
        ("outdated", "up"): renew,
        ("outdated", "down"): down,
    }
    return CobType(
        name=name,
        states=("outdated", "down", "up"),
        preferred="up",
        remove="down",
        check=_tasks(name, "check"),
        transitions=tuple(
            Transition(source=source, dest=dest, action=_tasks(name, file))
            for (source, dest), file in ways.items()
        ),
        spec_schema=_schema(name),
        revert=_shell_text(name, "revert"),
        prepare=_shell_text(name, "prepare"),
    )


def _tasks(name: str, file: str) -> Tasks:
    return Tasks(path=str(Path(str(data_dir("playbooks"))) / name / f"{file}.yml"))


def _shell_text(name: str, file: str) -> str:
    """Return a text of the dead-man switch; "" where the type has none."""
    path = data_dir("playbooks") / name / f"{file}.sh.j2"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _schema(name: str) -> Mapping[str, Any]:
    text = (data_dir("schemas") / "types" / f"{name}.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
