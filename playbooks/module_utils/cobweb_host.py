# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of the built-in COB types share: answers without secrets, folders for state.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, NoReturn
from urllib.parse import quote

NAME_LIMIT = 120
CALL = "cobweb_call"
"""The name in `__main__` of the arguments of a module that is called without Ansible's wrapper."""


class Failed(Exception):  # noqa: N818 - what happened, not a kind of error
    """The action cannot be carried out; the message is for the operator."""


Answer = Dict[str, Any]
Action = Callable[[Dict[str, Any]], Answer]


def run(actions: Dict[str, Action]) -> NoReturn:
    """Carry out the action that was asked for, with the whole variable `cob`.

    The answer never repeats what the module was given, and nothing of it goes to the host's syslog:
    a spec may hold secrets.
    """
    call = vars(sys.modules["__main__"]).get(CALL)
    if call is None:
        _run_as_ansible_does(actions)
    answer = _answer(actions, call["action"], call["cob"])
    sys.stdout.write(json.dumps(answer))
    sys.exit(1 if answer.get("failed") else 0)


def _run_as_ansible_does(actions: Dict[str, Action]) -> NoReturn:
    # Imported here, for it costs a host more than most actions do.
    from ansible.module_utils.basic import AnsibleModule

    class SilentModule(AnsibleModule):  # type: ignore[misc]  # ansible-core has no types
        def _log_invocation(self) -> None:
            """Write no arguments to syslog, where Ansible's own word on that is `no_log: false`."""

    arguments = {
        "action": {"type": "str", "required": True, "choices": sorted(actions)},
        "cob": {"type": "dict", "required": True},
    }
    module = SilentModule(arguments)
    answer = _answer(actions, module.params["action"], module.params["cob"])
    if answer.get("failed"):
        module.fail_json(**answer)
    module.exit_json(**answer)


def _answer(actions: Dict[str, Action], action: str, cob: Dict[str, Any]) -> Answer:
    if action not in actions:
        known = ", ".join(sorted(actions))
        wrong = f"value of action must be one of: {known}, got: {action}"  # as Ansible says it
        return {"failed": True, "msg": wrong, "invocation": {}}
    try:
        answer = actions[action](cob)
    except (Failed, OSError) as error:
        return {"failed": True, "msg": str(error), "invocation": {}}
    said = {"cob_message": answer["msg"]} if answer.get("msg") else {}
    return {"changed": False, "invocation": {}, **said, **answer}


def state_dir(spec: Dict[str, Any]) -> Path:
    """Return the folder for what must be remembered: as specified, the system's or the user's."""
    if spec.get("state_dir"):
        return Path(spec["state_dir"])
    if os.geteuid() == 0:
        return Path("/var/lib/cobweb")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "cobweb"


def file_name(text: str) -> str:
    """Turn any text into one file name, readable if it is short; different texts stay different."""
    name = quote(text, safe="")
    if len(name) <= NAME_LIMIT:
        return name
    return f"{name[:NAME_LIMIT]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
