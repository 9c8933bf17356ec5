"""What the modules of Cobweb share: one function carries out an action, however it is called."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

COB = {"id": "h/a", "spec": {"content": "gRz7-secret"}}
Way = Callable[[str], tuple[int, dict[str, Any]]]


@pytest.fixture(params=["as Ansible does", "directly"])
def call(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    host_module: ModuleType,
) -> Way:
    """Call an action, by Ansible's wrapper or as a direct call; return exit code and answer."""

    def fail(cob: dict[str, Any]) -> dict[str, Any]:
        raise host_module.Failed(f"no {cob['id']}")

    actions = {
        "check": lambda cob: {"state": "up", "spec": cob["spec"]},
        "write": lambda _: {"changed": True, "msg": "kept an edit"},
        "fail": fail,
        "break": lambda _: Path("/nowhere/at/all").stat(),
    }

    def ask(action: str) -> tuple[int, dict[str, Any]]:
        arguments = {"action": action, "cob": COB, "_ansible_no_log": False}
        with monkeypatch.context() as patch, patch_module_args(arguments):
            if request.param == "directly":
                patch.setattr(sys.modules["__main__"], "cobweb_call", arguments, raising=False)
            with pytest.raises(SystemExit) as end:
                host_module.run(actions)
        return int(end.value.code or 0), json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize(
    ("action", "code", "answer"),
    [
        ("check", 0, {"changed": False, "state": "up", "spec": COB["spec"]}),
        ("write", 0, {"changed": True, "msg": "kept an edit", "cob_message": "kept an edit"}),
        ("fail", 1, {"failed": True, "msg": "no h/a"}),
    ],
)
def test_both_ways_give_the_same_answer(
    call: Way, action: str, code: int, answer: dict[str, Any]
) -> None:
    found = call(action)
    assert found == (code, {**answer, "invocation": {}})


def test_an_error_of_the_system_is_told(call: Way) -> None:
    code, answer = call("break")
    assert (code, answer["failed"]) == (1, True)
    assert "/nowhere/at/all" in answer["msg"]


def test_an_unknown_action_is_refused(call: Way) -> None:
    code, answer = call("fly")
    assert (code, answer["failed"]) == (1, True)
    said = "value of action must be one of: break, check, fail, write, got: fly"
    assert answer["msg"] == said


def test_nothing_of_a_spec_goes_to_syslog(call: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's own word, `no_log: false`, stands above that of a module that asks for silence."""
    written: list[str] = []
    monkeypatch.setattr(AnsibleModule, "log", lambda _, text, **__: written.append(str(text)))
    call("check")
    assert written == []
