"""The registered types: matrices, files that exist, schemas that tell right from wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cobweb.model import CobType, Tasks
from cobweb.plugin import load_plugins
from cobweb.testing import NamedCheck, TypeCase, type_checks
from tests.support.tasks import built_in, registered

TYPES = {name: built_in(name) for name in ("file", "process", "script", "service", "tree")}
FILE = {"path": "/etc/a", "content": "x"}
PROCESS = {"command": ["sleep", "1"]}
SCRIPT = {"check": "true", "do": "true"}
SERVICE = {"unit": "app"}
TREE = {"path": "/etc/app", "source": "files/app"}
PACKED = {"digest": "0" * 64, "files": 1, "bytes": 2}
CASES = (
    TypeCase(make=registered("file"), spec=FILE),
    TypeCase(make=registered("process"), spec=PROCESS),
    TypeCase(make=registered("script"), spec=SCRIPT),
    TypeCase(make=registered("service"), spec=SERVICE),
    TypeCase(make=registered("tree"), spec=TREE),
)
CHECKS = [check for case in CASES for check in type_checks(case)]


def test_the_plugin_registers_them() -> None:
    """They come by the same hook as a third party's."""
    assert set(TYPES) <= set(load_plugins(strict=True).types)


@pytest.mark.parametrize("made", TYPES.values(), ids=TYPES)
def test_the_matrix_is_that_of_the_design(made: CobType) -> None:
    """Three states, or four; from outdated and broken both ways; every task file is there."""
    middle = ("outdated", "broken") if "broken" in made.states else ("outdated",)
    assert made.states == (*middle, "down", "up")
    assert (made.preferred, made.remove) == ("up", "down")
    assert {(step.source, step.dest) for step in made.transitions} == {
        ("down", "up"),
        ("up", "down"),
        *((state, "up") for state in middle),
        *((state, "down") for state in middle),
    }
    for action in (made.check, *(step.action for step in made.transitions)):
        assert isinstance(action, Tasks)
        assert Path(action.path).is_absolute()
        assert Path(action.path).is_file()


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_the_types_pass_the_conformance_kit(check: NamedCheck) -> None:
    """The kit that plugin authors run holds for the built-in types."""
    check()


@pytest.mark.parametrize("made", TYPES.values(), ids=TYPES)
def test_unknown_keys_are_refused(made: CobType) -> None:
    """A misspelt key must not be ignored."""
    assert made.spec_schema is not None
    assert made.spec_schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("file", FILE),
        ("file", {**FILE, "mode": "0640", "owner": "root", "group": 0, "encoding": "base64"}),
        ("file", {"path": "/etc/a", "template": "a.j2"}),
        ("file", {"path": "/etc/a", "source": "a"}),
        ("file", {"path": "/etc/a", "line": {"text": "x", "match": "^x"}, "create": True}),
        ("file", {"path": "/etc/a", "block": {"text": "x", "marker": "; {mark}", "after": "a"}}),
        ("file", {**FILE, "validate": "visudo -cf %s"}),
        ("file", {**FILE, "validate": ["visudo", "-cf", "%s"]}),
        ("file", {**FILE, "validate": {"command": "nginx -t", "in_place": True, "timeout": 5}}),
        ("process", PROCESS),
        ("process", {"command": "exec x", "listen": 80, "env": {"A": 1}}),
        ("process", {"command": ["x", 1], "listen": "[::1]:80", "stop_signal": "SIGQUIT"}),
        ("script", SCRIPT),
        ("script", {"check": "true"}),
        ("script", {**SCRIPT, "undo": ""}),
        ("script", {"creates": "/x", "do": "true", "interpreter": "/bin/bash", "timeout": 1}),
        ("service", SERVICE),
        ("service", {"unit": "app@1.service", "enabled": False}),
        ("tree", TREE),
        ("tree", {"path": "/", "tree": PACKED, "modes": [{"match": "f/", "mode": "2770"}]}),
        ("tree", {**TREE, "validate": "nginx -t -c %s/nginx.conf", "on_conflict": "host"}),
    ],
)
def test_good_specs_pass(name: str, spec: dict[str, Any]) -> None:
    """What the documentation shows is accepted."""
    assert _errors(name, spec) == []


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("file", {"content": "x"}),
        ("file", {"path": "/etc/a"}),
        ("file", {**FILE, "path": "etc/a"}),
        ("file", {**FILE, "path": "/etc/"}),
        ("file", {**FILE, "mode": "rw"}),
        ("file", {**FILE, "mode": 420}),
        ("file", {**FILE, "contents": "x"}),
        ("file", {**FILE, "line": {"text": "x"}}),
        ("file", {"path": "/etc/a", "line": "x"}),
        ("file", {"path": "/etc/a", "line": {"match": "x"}}),
        ("file", {"path": "/etc/a", "block": {"text": "x", "marker": "#"}}),
        ("file", {**FILE, "validate": "nginx -t"}),
        ("file", {**FILE, "validate": {"in_place": True}}),
        ("process", {}),
        ("process", {"command": []}),
        ("process", {"command": ""}),
        ("process", {**PROCESS, "listen": 70000}),
        ("process", {**PROCESS, "listen": "here"}),
        ("process", {**PROCESS, "cwd": "x"}),
        ("process", {**PROCESS, "stop_signal": "TERM"}),
        ("process", {**PROCESS, "restart": "always"}),
        ("script", {"do": "true"}),
        ("script", {"check": "true", "undo": "true"}),
        ("script", {**SCRIPT, "args": "x"}),
        ("service", {}),
        ("service", {"unit": "a b"}),
        ("service", {**SERVICE, "enable": True}),
        ("tree", {"path": "/etc/app"}),
        ("tree", {**TREE, "path": "/etc/app/"}),
        ("tree", {**TREE, "path": "etc"}),
        ("tree", {**TREE, "mode": "0644"}),
        ("tree", {**TREE, "modes": [{"mode": "0644"}]}),
        ("tree", {**TREE, "modes": [{"match": "a", "mode": 420}]}),
        ("tree", {**TREE, "validate": "nginx -t"}),
        ("tree", {**TREE, "on_conflict": "ours"}),
        ("tree", {"path": "/etc/app", "tree": {**PACKED, "digest": "x"}}),
    ],
)
def test_bad_specs_do_not_pass(name: str, spec: dict[str, Any]) -> None:
    """What no module could carry out is found before anything runs."""
    assert _errors(name, spec)


def _errors(name: str, spec: dict[str, Any]) -> list[str]:
    schema = TYPES[name].spec_schema
    assert schema is not None
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(spec)]
