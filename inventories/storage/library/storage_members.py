# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the type `corosync-members` of this site (types/ha.yml).

corosync.conf is on all members before this is asked for, so a reload on one is one on all; who
comes second finds nothing to do. Where corosync does not run, nobody knows anything else: `up`.
"""

from __future__ import annotations

import re
import shutil
import time
from typing import Any

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_tools import SYSTEM_PATH, attempt

WAIT_S = 60.0
POLL_S = 0.5
ENTRY = re.compile(r"^nodelist\.node\.(\d+)\.(name|ring0_addr) \(str\) = (\S+)$", re.MULTILINE)
KNOWN = re.compile(r"^\d+ (\S+)", re.MULTILINE)


def check(cob: dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    members = _members()
    wanted = cob["spec"]["members"]
    same = members is None or (members == wanted and not _strangers(wanted))
    return {"state": "up" if same else "outdated"}


def reload(cob: dict[str, Any]) -> Answer:
    """Let corosync read its list again, and Pacemaker forget who is not on it."""
    wanted = cob["spec"]["members"]
    deadline = time.monotonic() + WAIT_S
    said = ""
    while check(cob)["state"] != "up":
        if time.monotonic() > deadline:
            raise Failed(
                f"corosync knows {_members()}, Pacemaker also {_strangers(wanted)}, and not just "
                f"{wanted} after {WAIT_S:g} s. {said}"
            )
        if _members() != wanted:
            said = attempt("corosync-cfgtool", "-R").message
        else:
            for name in _strangers(wanted):
                said = attempt("crm_node", "--force", f"--remove={name}").message
        time.sleep(POLL_S)
    return {"changed": bool(said)}


def _members() -> dict[str, str] | None:
    """Return addresses by name as corosync has them; None if it does not run."""
    shown = _ask("corosync-cmapctl", "-b", "nodelist.")
    if shown is None:
        return None
    entries: dict[str, dict[str, str]] = {}
    for number, key, value in ENTRY.findall(shown):
        entries.setdefault(number, {})[key] = value
    return {it["name"]: it["ring0_addr"] for it in entries.values() if len(it) > 1}


def _strangers(wanted: dict[str, str]) -> list[str]:
    """Return whom Pacemaker knows besides; nobody if it does not run."""
    return sorted(set(KNOWN.findall(_ask("crm_node", "--list") or "")) - set(wanted))


def _ask(*argv: str) -> str | None:
    """Return what a tool prints; None if it is not installed or its daemon does not run."""
    if shutil.which(argv[0], path=SYSTEM_PATH) is None:
        return None
    done = attempt(*argv)
    return done.out if done.status == 0 else None


if __name__ == "__main__":
    run({"check": check, "reload": reload})
