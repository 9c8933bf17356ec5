# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `service`: finds the state of a systemd unit, and what to stop.

`up`: active, enabled as asked, and started from the unit files that systemd would read now; `down`:
neither active nor on its way; `outdated`: everything between, and a unit of an earlier spec that
still runs. The transitions use Ansible's own systemd module.
"""

from __future__ import annotations

import subprocess
from typing import Any, Dict, List

from ansible.module_utils.cobweb_host import Answer, Failed, run

ASKED = ("LoadState", "ActiveState", "UnitFileState", "NeedDaemonReload")
STARTS_AT_BOOT = ("enabled", "enabled-runtime")
HAS_NO_SWITCH = ("", "static", "alias", "indirect", "generated", "transient")
AT_REST = ("inactive", "failed")
TIMEOUT_S = 30


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    spec = cob["spec"]
    if any(_show(unit)["ActiveState"] not in AT_REST for unit in _earlier(cob)):
        return {"state": "outdated"}
    found = _show(spec["unit"])
    if found["ActiveState"] in AT_REST:
        return {"state": "down"}
    as_asked = (
        found["ActiveState"] in ("active", "reloading")
        and found["NeedDaemonReload"] == "no"
        and _is_enabled(found["UnitFileState"], asked=spec.get("enabled", True))
    )
    return {"state": "up" if as_asked else "outdated"}


def units(cob: Dict[str, Any]) -> Answer:
    """Return the units that systemd knows: `earlier` those of an earlier spec, `all` with our own.

    Only these can be stopped: the file of the one may be gone, that of the other not be there yet.
    """
    earlier = [unit for unit in _earlier(cob) if _is_known(unit)]
    own = [unit for unit in (cob["spec"]["unit"],) if _is_known(unit)]
    return {"earlier": earlier, "all": earlier + own}


def _earlier(cob: Dict[str, Any]) -> List[str]:
    unit = (cob.get("applied") or {}).get("unit")
    return [] if unit in (None, cob["spec"]["unit"]) else [unit]


def _is_known(unit: str) -> bool:
    found = _show(unit)
    return found["LoadState"] != "not-found" or found["ActiveState"] not in AT_REST


def _show(unit: str) -> Dict[str, str]:
    command = ["systemctl", "show", f"--property={','.join(ASKED)}", "--", unit]
    try:
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise Failed(
            "this host has no systemctl; a `service` needs systemd (without it, use a `process`)"
        ) from None
    except subprocess.TimeoutExpired:
        raise Failed(f"systemctl did not answer within {TIMEOUT_S} s") from None
    lines = (line.partition("=") for line in shown.stdout.splitlines())
    found = {key: value for key, _, value in lines}
    if shown.returncode != 0 or not set(ASKED) <= set(found):
        reason = shown.stderr.strip() or f"exit status {shown.returncode}"
        raise Failed(
            f"systemd does not answer on this host: {reason} (a `service` needs it; "
            "without systemd, use a `process`)"
        )
    return found


def _is_enabled(unit_file_state: str, *, asked: bool) -> bool:
    """Say whether a unit starts at boot as asked; one without a switch is right either way."""
    if unit_file_state in HAS_NO_SWITCH:
        return True
    return (unit_file_state in STARTS_AT_BOOT) == asked


if __name__ == "__main__":
    run({"check": check, "units": units})
