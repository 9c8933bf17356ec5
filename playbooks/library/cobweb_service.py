# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `service`: finds the state of a systemd unit, and moves it.

`up`: active, enabled as asked, healthy, started from the unit files that are there now and after
the last change of the watched ones; `outdated`: active and healthy, but not so, or the unit of an
earlier spec is; `broken`: we have brought it up, or it is enabled, and it is at rest, on its way or
not healthy; `down`: at rest, not enabled, and nothing of ours there.

A unit that is to be `masked`, or enabled without `running`, is held: what it was before is
remembered, and is so again after the way down. See cobweb_unit.py for what a start and a stop are.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Optional

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_systemd import full_name
from ansible.module_utils.cobweb_unit import Service

__all__ = ["Failed", "check", "down", "up"]


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    earlier = _earlier(cob)
    if earlier is not None and earlier.is_there():
        return {"state": "outdated" if earlier.state() in ("up", "outdated") else "broken"}
    service = Service(cob["id"], cob["spec"])
    state = service.state()
    if state in ("up", "outdated") and cob.get("reached") and service.was_restarted():
        message = f"{service.unit} has ended, and was started again by systemd"
        return {"state": "broken", "message": message}
    return {"state": state}


def up(cob: Dict[str, Any]) -> Answer:
    """Start, restart, reload, enable, hold: whatever is missing, and a restart where asked for.

    Where a start fails of what was down, it is down again.
    """
    earlier = _earlier(cob)
    if earlier is not None:
        earlier.take_down()
    try:
        done = Service(cob["id"], cob["spec"]).bring_up(renew=bool(cob.get("renew")))
    except (Failed, OSError):
        if cob.get("state") == "down":
            with contextlib.suppress(Failed, OSError):  # what comes first is told
                Service(cob["id"], cob["spec"]).take_down()
        raise
    return {"changed": bool(done or earlier), "done": done}


def down(cob: Dict[str, Any]) -> Answer:
    """Stop it, also at boot, and take away what is ours; what was held is as it was before.

    What others hold down must stay down if the host restarts meanwhile.
    """
    earlier = _earlier(cob)
    if earlier is not None:
        earlier.take_down()
    Service(cob["id"], cob["spec"]).take_down()
    return {"changed": True}


def _earlier(cob: Dict[str, Any]) -> Optional[Service]:
    """Return the service of an earlier spec, if that was another unit."""
    applied = cob.get("applied") or cob["spec"]
    if full_name(applied["unit"]) == full_name(cob["spec"]["unit"]):
        return None
    return Service(cob["id"], applied)


if __name__ == "__main__":
    run({"check": check, "up": up, "down": down})
