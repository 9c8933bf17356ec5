# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd says of a unit, and what it is told to do with it.

Runs on the managed host: Python 3.8 or newer, nothing beyond it.
"""

from __future__ import annotations

import subprocess
import time
from typing import AbstractSet, Dict, Sequence

from ansible.module_utils.cobweb_host import Failed

ASKED = (
    "LoadState",
    "LoadError",
    "ActiveState",
    "SubState",
    "Result",
    "ExecMainStatus",
    "UnitFileState",
    "NeedDaemonReload",
    "NRestarts",
    "InvocationID",
    "FragmentPath",
    "DropInPaths",
    "TriggeredBy",
    "Type",
    "RemainAfterExit",
    "ActiveEnterTimestampMonotonic",
    "ExecMainStartTimestampMonotonic",
)
NEEDED = ("LoadState", "ActiveState", "UnitFileState")
KINDS = (
    "service",
    "socket",
    "timer",
    "target",
    "path",
    "mount",
    "automount",
    "swap",
    "slice",
    "scope",
    "device",
)
ENABLED = "enabled"
HAS_NO_SWITCH = (
    "",
    "static",
    "alias",
    "indirect",
    "generated",
    "transient",
    "enabled-runtime",  # by a generator, or until the host restarts
)
AT_REST = ("inactive", "failed")
MASKED = "masked"
SHOW_S = 30
JOURNAL_LINES = 10
JOURNAL_LIMIT = 1_500
POLLS, SHORTEST_POLL_S, LONGEST_POLL_S = 2, 0.1, 0.5
"""How often a unit is looked at while it settles: each look has systemd and a process at work."""


class Unit:
    """A unit as systemd has it, by the names of systemd's properties."""

    def __init__(self, name: str, found: Dict[str, str]) -> None:
        self.name = name
        self._found = found

    def __getitem__(self, name: str) -> str:
        """Return a property; one that this systemd or kind of unit does not have is empty."""
        return self._found.get(name, "")

    @property
    def is_at_rest(self) -> bool:
        """Whether it neither runs nor is on its way."""
        return self["ActiveState"] in AT_REST

    @property
    def runs(self) -> bool:
        """Whether it does what it should; a timer that will never elapse again does not."""
        if self["ActiveState"] not in ("active", "reloading"):
            return False
        return not (self.name.endswith(".timer") and self["SubState"] == "elapsed")

    @property
    def is_masked(self) -> bool:
        """Whether it cannot be started."""
        return self["LoadState"] == MASKED

    @property
    def is_known(self) -> bool:
        """Whether it can be stopped: its file may be gone, or not be there yet."""
        return self["LoadState"] != "not-found" or not self.is_at_rest

    @property
    def comes_to_rest(self) -> bool:
        """Whether it is inactive again after each start."""
        return self["Type"] == "oneshot" and self["RemainAfterExit"] == "no"

    def is_enabled(self, *, asked: bool) -> bool:
        """Say whether it starts at boot as asked; one without a switch is right either way."""
        state = self["UnitFileState"]
        return state in HAS_NO_SWITCH or (state == ENABLED) == asked


def full_name(unit: str) -> str:
    """Return the name of a unit with its kind."""
    return unit if unit.rpartition(".")[2] in KINDS and "." in unit else f"{unit}.service"


def show(unit: str) -> Unit:
    """Ask systemd for a unit."""
    command = ["systemctl", "show", f"--property={','.join(ASKED)}", "--", unit]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=SHOW_S, check=False)
    except FileNotFoundError:
        raise Failed(
            "this host has no systemctl; a `service` needs systemd (without it, use a `process`)"
        ) from None
    except subprocess.TimeoutExpired:
        raise Failed(f"systemctl did not answer within {SHOW_S} s") from None
    lines = (line.partition("=") for line in shown.stdout.splitlines())
    found = {key: value for key, _, value in lines}
    if shown.returncode != 0 or not set(NEEDED) <= set(found):
        reason = shown.stderr.strip() or f"exit status {shown.returncode}"
        raise Failed(
            f"systemd does not answer on this host: {reason} (a `service` needs it; "
            "without systemd, use a `process`)"
        )
    return Unit(unit, found)


def tell(action: str, *units: str) -> None:
    """Have systemd do something; Failed with its message, and the last of the unit's journal."""
    began = time.time()
    command = ["systemctl", "--quiet", action, *(["--", *units] if units else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip() or f"exit status {done.returncode}"
        what = " ".join(["systemctl", action, *units])
        raise Failed(f"`{what}` has failed: {reason}{journal(units, began)}")


def journal(units: Sequence[str], since: float) -> str:
    """Return what units have last written since then, to follow a message; nothing if nothing.

    It is read backwards: with `--since`, some versions of journalctl give the first lines.
    """
    if not units:
        return ""
    sync = ["journalctl", "--sync"]
    command = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--since=@{since:.3f}"]
    command += ["--reverse", f"--lines={JOURNAL_LINES}", *(f"--unit={unit}" for unit in units)]
    try:
        subprocess.run(sync, capture_output=True, timeout=SHOW_S, check=False)
        read = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SHOW_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    text = "\n".join(reversed(read.stdout.splitlines())).strip()[-JOURNAL_LIMIT:]
    return f"; journal: {text}" if text else ""


def settle(name: str, began: float, settle_s: float, restarts: AbstractSet[str]) -> Unit:
    """Wait until a unit has been active for so long; Failed if it ends, or is started anew.

    `restarts` are the numbers of restarts by systemd that it may have.
    """
    unit = show(name)
    deadline = time.monotonic() + settle_s
    poll_s = min(max(settle_s / POLLS, SHORTEST_POLL_S), LONGEST_POLL_S)
    while unit.runs and unit["NRestarts"] in restarts:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return unit
        time.sleep(min(poll_s, left_s))
        unit = show(name)
    if unit.is_at_rest and unit.comes_to_rest and unit["Result"] == "success":
        raise Failed(
            f"{name} comes to rest after each start (Type=oneshot), so that it is never up; "
            "give it RemainAfterExit=yes, or start it by a timer"
        )
    how = f"{unit['ActiveState']} ({unit['SubState']}), result {unit['Result']}"
    if unit["ExecMainStatus"] not in ("", "0"):
        how += f", exit status {unit['ExecMainStatus']}"
    raise Failed(f"{name} has started and ended: {how}{journal([name], began)}")
