# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the adapter `counter`: members that are no hosts, such as licences.

It works in the folder of the service (see cobweb_pool_folder.py for what that holds). A licence is
`up` while its owner's file is there and no mark that it drains. Who takes it makes a file in its
`uses`, and removes that in the end; both under the licence's lock, for that is what a drain takes.
Every step may be repeated and interrupted anywhere.
"""

from __future__ import annotations

from typing import Any, Dict

from ansible.module_utils.cobweb_host import Answer, run
from ansible.module_utils.cobweb_pool_folder import USES, Member, locked, there
from ansible.module_utils.cobweb_pool_member import (
    claim,
    drop_mark,
    is_left,
    members_of,
    observed,
    observed_members,
    refuse_work,
    release,
    require,
    set_mark,
    stranger,
)


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    now, *earlier = members_of(cob, USES)
    for member in earlier:
        if is_left(member):
            return {"state": "draining", "message": f"is still a member in {member.folder}"}
    if not is_left(now):
        other = stranger(now)
        return {"state": "down", "message": f"is a member of the service {other}" if other else ""}
    if not there(now.owner):
        return {"state": "draining", "message": f"{now.owner} is gone"}
    return {"state": "draining" if there(now.mark) or not there(now.jobs) else "up"}


def join(cob: Dict[str, Any]) -> Answer:
    """Let it be used."""
    now, *earlier = members_of(cob, USES)
    for member in earlier:
        _leave(member, mark_first=True)
    now.folder.mkdir(parents=True, exist_ok=True)
    with locked(now):
        if check(cob)["state"] == "up":
            return {"changed": False}
        claim(now)
        drop_mark(now)
    return {"changed": True}


def drain(cob: Dict[str, Any]) -> Answer:
    """Let no new use begin."""
    members = members_of(cob, USES)
    found = [member for member in members if is_left(member)] or members[:1]
    changed = [_drain(member) for member in found]
    return {"changed": any(changed)}


def leave(cob: Dict[str, Any]) -> Answer:
    """Remove it from the service, unless it is used."""
    changed = [_leave(member) for member in members_of(cob, USES)]
    return {"changed": any(changed)}


def observe(cob: Dict[str, Any]) -> Answer:
    """Say what the service has."""
    members = observed_members(cob["spec"], USES)
    used = sum(member["jobs"] for member in members.values())
    return observed(cob["spec"], members, {"used": used})


def _drain(member: Member) -> bool:
    with locked(require(member)):
        return set_mark(member)


def _leave(member: Member, *, mark_first: bool = False) -> bool:
    if not there(member.folder):
        return False
    with locked(member):
        if not is_left(member):
            return False
        if mark_first:
            set_mark(member)
        refuse_work(member, "uses")
        release(member)
    return True


if __name__ == "__main__":
    steps = {"join": join, "drain": drain, "resume": join, "leave": leave}
    run({"check": check, "observe": observe, **steps})
