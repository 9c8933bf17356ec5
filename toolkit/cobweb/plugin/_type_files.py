"""COB types written in YAML: the same words as under `types` in a site, in a file of a plugin.

`type.yml` stands in a folder that is named like the type, beside its task files; paths are relative
to it. `spec` is a JSON Schema, or the path of one. The shell texts `revert` and `prepare` may stand
in files of their own beside it, `revert.sh.j2` and `prepare.sh.j2`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, ClassVar

from cobweb.errors import CobwebError
from cobweb.model import OUTDATED, Action, CobType, Nothing, Role, State, Tasks, Transition
from cobweb.plugin.protocols import RegisteredType

_ACTION_KEYS = frozenset(["tasks", "role", "vars", "facts", "together", "timeout", "attempts"])
_STEP_KEYS = _ACTION_KEYS | {"interrupts"}
_NAMES = "description states preferred remove spec check transitions revert prepare groups serving"
_KEYS = frozenset(f"{_NAMES} connection inputs facts together on_demand".split())
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("states", "serving", "connection", "inputs"), ((list,), "a list of words")),
    **dict.fromkeys(("interrupts", "together", "on_demand"), ((bool,), "true or false")),
    "facts": ((bool, list), "true, false or a list of subsets"),
    "vars": ((Mapping,), "a mapping"),
    **dict.fromkeys(("transitions", "groups"), ((Mapping, NoneType), "a mapping")),
    "spec": ((Mapping, str, NoneType), "a JSON Schema or the path of one"),
    "timeout": ((int, float), "a number of seconds"),
    "attempts": ((int,), "a whole number"),
}
"""What a value may be; one that is not here is a text."""


def type_file(path: Path) -> type[RegisteredType]:
    """Return a class to register for the COB type of a file; it is read when it is made.

    The type has the name of the file's folder. `cob_type()` raises CobwebError for a file that
    cannot be read or says what no type can have.
    """

    class FromFile:
        """A COB type made of Ansible tasks."""

        name: ClassVar[str] = path.parent.name

        def cob_type(self) -> CobType:
            """Read the file."""
            return _read(path)

    return FromFile


def _read(path: Path) -> CobType:
    body = _mapping(_yaml(path), f"{path}", _KEYS)
    try:
        check = _mapping(body["check"], f"{path}: `check`", _ACTION_KEYS | {"mode"})
        if "tasks" not in check and "role" not in check:
            raise CobwebError(f"{path}: `check` has neither `tasks` nor `role`")
        if "mode" in check and (check["mode"] != "check" or OUTDATED not in body["states"]):
            raise CobwebError(f"{path}: `mode` of `check` can be `check`, which finds `{OUTDATED}`")
        steps = body.get("transitions") or {}
        finds = (body["preferred"], OUTDATED, body["remove"]) if "mode" in check else ()
        return CobType(
            name=path.parent.name,
            states=tuple(body["states"]),
            preferred=body["preferred"],
            remove=body["remove"],
            check=_action(path, check, body, finds),
            check_timeout_s=check.get("timeout"),
            transitions=tuple(_transition(path, key, it, body) for key, it in steps.items()),
            spec_schema=_schema(path, body.get("spec")),
            revert=_shell_text(path, body, "revert"),
            prepare=_shell_text(path, body, "prepare"),
            groups=_groups(path, body.get("groups")),
            serving=tuple(body.get("serving", ())),
            connection=tuple(body.get("connection", ())),
            inputs=tuple(body["inputs"]) if "inputs" in body else None,
            on_demand=body.get("on_demand", False),
        )
    except KeyError as error:
        raise CobwebError(f"{path}: {error.args[0]} is missing") from None


def _yaml(path: Path) -> Any:
    import yaml

    try:
        return _parsed(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise CobwebError(f"{path} cannot be read: {error}") from error


@lru_cache(maxsize=256)  # every command loads all types, and a process may carry out many
def _parsed(text: bytes) -> Any:
    """Return what a text says; nobody changes it. Reads by the loader in C where there is one."""
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: TID251, S506


def _mapping(value: Any, what: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CobwebError(f"{what} is no mapping")
    if unknown := sorted(str(key) for key in value if key not in known):
        hint = f"it takes {sorted(known)}"
        raise CobwebError(f"{what} has unknown keys: {', '.join(unknown)}", hint=hint)
    for key in value.keys() - {"check"}:
        it, (kinds, said) = value[key], _KINDS.get(key, ((str,), "a text"))
        fits = isinstance(it, kinds) and not (type(it) is bool and bool not in kinds)
        if not fits or (kinds == (list,) and not all(isinstance(word, str) for word in it)):
            raise CobwebError(f"{what}: `{key}` must be {said}")
    if value.get("serving") == []:
        raise CobwebError(f"{what}: `serving` names no states", hint="leave it out, or name some")
    if value.get("attempts", 1) < 1 or value.get("timeout", 1) <= 0:
        raise CobwebError(f"{what}: `attempts` and `timeout` must be more than nothing")
    return value


def _transition(path: Path, key: str, value: Any, usual: Mapping[str, Any]) -> Transition:
    what = f"{path}: `{key}`"
    source, arrow, dest = (part.strip() for part in str(key).partition("->"))
    if not (source and arrow and dest):
        raise CobwebError(f"{what} is no transition", hint="write `down -> up`")
    body = _mapping(value or {}, what, _STEP_KEYS)
    return Transition(
        source=source,
        dest=dest,
        action=_action(path, body, usual),
        timeout_s=body.get("timeout"),
        attempts=body.get("attempts", 1),
        interrupts=body.get("interrupts", False),
    )


def _groups(path: Path, value: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    for name, states in (value or {}).items():
        if not isinstance(states, list) or not all(isinstance(it, str) for it in (name, *states)):
            raise CobwebError(f"{path}: group `{name}` must be a word with a list of words")
    return {name: tuple(states) for name, states in (value or {}).items()}


def _action(
    path: Path, body: Mapping[str, Any], usual: Mapping[str, Any], finds: Sequence[State] = ()
) -> Action:
    """Return what a body says to do; where it says nothing, what its type does counts."""
    whole = {"facts": "role" in body, "together": False, **usual, **body}
    facts = tuple(whole["facts"]) if isinstance(whole["facts"], list) else whole["facts"]
    said = {"facts": facts, "together": whole["together"], "finds": tuple(finds)}
    if "tasks" in body:
        return Tasks(path=str(path.parent / body["tasks"]), **said)
    if "role" in body:
        return Role(name=body["role"], vars=body.get("vars", {}), **said)
    return Nothing()


def _schema(path: Path, value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, str):
        return None if value is None else dict(value)
    try:
        schema = json.loads((path.parent / value).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CobwebError(f"{path}: the schema {value} cannot be read: {error}") from error
    if not isinstance(schema, dict):
        raise CobwebError(f"{path}: the schema {value} is no mapping")
    return schema


def _shell_text(path: Path, body: Mapping[str, Any], word: str) -> str:
    """Return a text of the dead-man switch; "" where the type has none."""
    beside = path.with_name(f"{word}.sh.j2")
    if word in body:
        return str(body[word])
    return beside.read_text(encoding="utf-8") if beside.is_file() else ""
