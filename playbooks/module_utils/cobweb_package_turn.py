# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects for packages of one host take turns, and say whether services of packages may start.

Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any, Dict, Set

from ansible.module_utils.cobweb_packages import manager
from ansible.module_utils.cobweb_tools import Record, one_at_a_time, replace_file

LOOK_AGAIN_S = 0.2
BOOT = Path("/proc/sys/kernel/random/boot_id")
DENIED = "package-denied"
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_MARK = "# of cobweb, while packages are installed"
POLICY_TEXT = f"""#!/bin/sh
{POLICY_MARK}
[ "$(cat {BOOT})" = BOOT ] || exit 0
exit 101
"""
"""What a loss of power leaves forbids nothing any more."""


def take_turn(cob_id: str, limit_s: float) -> None:
    """Wait until no other object of this host is between its two parts, and be the one that is.

    Whoever was cut off there holds the others up for `lock_timeout`: so long the turn was the same,
    and no tool was at work.
    """
    tools = manager()
    mine = {"id": cob_id, "boot": _boot(), "begun": time.monotonic()}
    seen: Dict[str, Any] = {}
    since = time.monotonic()
    while True:
        with one_at_a_time("package"):
            holder = _turn().read()
            theirs = holder.get("boot") == mine["boot"] and holder.get("id") != mine["id"]
            if holder != seen or tools.at_work():
                seen, since = holder, time.monotonic()
            if not theirs or time.monotonic() - since >= limit_s:
                if theirs:
                    _deny(holder["id"], denied=False)
                _turn().write(mine)
                return
        time.sleep(LOOK_AGAIN_S)


def end_turn(cob_id: str) -> None:
    """Let the next object begin; nothing of the policy is left that this one has asked for."""
    with one_at_a_time("package"):
        _deny(cob_id, denied=False)
        if _turn().read().get("id") == cob_id:
            _turn().forget()


def _turn() -> Record:
    return Record("package-turn", "turn")


# --- services: whether those of a package may start


def set_policy(cob_id: str, *, denied: bool) -> None:
    """Let packages start nothing while this object is at work, or end that."""
    with one_at_a_time("package"):
        _deny(cob_id, denied=denied)


def _deny(cob_id: str, *, denied: bool) -> None:
    """Remember what one object wants; the policy stays as long as any does.

    One of somebody else's stays as it is. Never is a policy of ours there without who wants it.
    """
    if denied:
        Record(DENIED, cob_id).write({"boot": _boot()})
    others = _denying() - {Record(DENIED, cob_id).path}
    if (denied or others) and (_is_denied() or not POLICY.exists()):
        replace_file(POLICY, POLICY_TEXT.replace("BOOT", _boot()), mode=0o755)
    if not denied and not others and _is_denied():
        POLICY.unlink()
    if not denied:
        Record(DENIED, cob_id).forget()


def _denying() -> Set[Path]:
    """Return what the objects that want no services to start have remembered since the boot."""
    found = set()
    for path in Record(DENIED, "").path.parent.glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # its object has ended meanwhile
            if _boot() in path.read_text(encoding="utf-8"):
                found.add(path)
    return found


def has_denied(cob_id: str) -> bool:
    """Say whether this object was cut off while it wanted no services to start, or nobody does."""
    if Record(DENIED, cob_id).path.exists():
        return True
    return _is_denied() and not _denying()


def _is_denied() -> bool:
    try:
        return POLICY_MARK in POLICY.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _boot() -> str:
    return BOOT.read_text(encoding="ascii").strip()
