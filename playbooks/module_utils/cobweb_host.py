# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules of the built-in COB types share: answers without secrets, folders for state.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Dict, NoReturn
from urllib.parse import quote

from ansible.module_utils.basic import AnsibleModule

NAME_LIMIT = 120


class Failed(Exception):  # noqa: N818 - what happened, not a kind of error
    """The action cannot be carried out; the message is for the operator."""


Answer = Dict[str, Any]
Action = Callable[[Dict[str, Any]], Answer]


def run(actions: Dict[str, Action]) -> NoReturn:
    """Carry out the action that was asked for, with the whole variable `cob`.

    The answer never repeats what the module was given, and nothing of it goes to the host's syslog:
    a spec may hold secrets.
    """
    arguments = {
        "action": {"type": "str", "required": True, "choices": sorted(actions)},
        "cob": {"type": "dict", "required": True},
    }
    module = AnsibleModule(arguments, no_log=True)
    try:
        answer = actions[module.params["action"]](module.params["cob"])
    except (Failed, OSError) as error:
        module.fail_json(msg=str(error), invocation={})
    said = {"cob_message": answer["msg"]} if answer.get("msg") else {}
    module.exit_json(invocation={}, **said, **answer)


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
