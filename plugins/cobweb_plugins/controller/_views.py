"""What people and programs see of a controller: what waits, what is admitted, how far that is."""

from __future__ import annotations

import shutil
import textwrap
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cobweb.plugin import Column, SiteAccess, Tone, plain
from cobweb_plugins.controller._memory import OPEN, Fate, Input, Memory

if TYPE_CHECKING:
    from cobweb.api import Site

_COLUMNS = (
    Column(title="ID"),
    Column(title="STATE"),
    Column(title="OUT", right=True),
    Column(title="GONE", right=True),
    Column(title="SINCE"),
    Column(title="WHAT", flexible=True),
    Column(title="WHY", flexible=True),
)

_SHOWN = 10
"""How many objects or lines of an input are shown."""

_FIELDS = (
    "id",
    "source",
    "input",
    "what",
    "state",
    "reason",
    "since",
    "by",
    "said",
    "at",
)
_LISTS = ("outages", "removals", "more", "findings")


def status_data(memory: Memory, site: Site) -> dict[str, Any]:
    """Return what `cobweb approvals -o json` writes: schemas/approvals.schema.json."""
    goal, pin, held = memory.goal, memory.pin, memory.held
    ordered = sorted(memory.inputs, key=lambda it: it.state not in OPEN)
    commit = goal.files if goal and memory.uses_git else None
    made = {name: it for name, it in goal.decisions.items() if it} if goal else {}
    return {
        "format": 1,
        "approvals": [_input_data(it) for it in ordered],
        "admitted": goal and {"commit": commit, "files": goal.files, "decisions": made},
        "newest": {"files": memory.newest},
        "goal": _goal_data(memory),
        "pin": pin
        and {
            "generation": pin.generation,
            "commit": pin.commit or None,
            "by": pin.by,
            "reason": pin.reason,
            "time": pin.time,
        },
        "held": held and {"generation": held.generation, "since": held.since},
        "leader": _leader_data(site),
    }


def tell_status(access: SiteAccess, memory: Memory, data: Mapping[str, Any]) -> None:
    """Write the same for people."""
    waiting = [it for it in memory.inputs if it.state in OPEN]
    width = shutil.get_terminal_size().columns
    access.table(_COLUMNS, [_row(it) for it in waiting])
    for it in waiting:
        for title, found in (
            ("out", it.outages),
            ("gone", it.removals),
            ("more than was approved", it.more),
            ("", it.findings),
        ):
            if found:
                more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
                shown = (", " if title else "; ").join(found[:_SHOWN])
                said = f"{it.id}: {title + ': ' if title else ''}{shown}{more}"
                for line in textwrap.wrap(said, width, subsequent_indent="  "):
                    access.line(line)
    if not waiting:
        access.summary("nothing waits")
    elif any(it.state == Fate.WAITING for it in waiting):
        access.summary("`cobweb approve ID` admits one, `cobweb reject ID` does not")
    tell_controller(access, memory, data)


def tell_controller(access: SiteAccess, memory: Memory, data: Mapping[str, Any]) -> None:
    """Write for people what is admitted, what holds it, and who leads."""
    width = shutil.get_terminal_size().columns
    for text, tone in _lines(memory, data):
        for line in textwrap.wrap(plain(text), width, subsequent_indent="  "):
            access.summary(line, tone)


def input_line(it: Input) -> str:
    """Return in a line how it is with an input that is not admitted."""
    how = f": `cobweb approve {it.id}`" if it.state == Fate.WAITING else ""
    return f"{it.id} ({it.what}) is {it.state}{f', {it.reason}' if it.reason else ''}{how}"


def is_reached(memory: Memory) -> bool:
    """Say whether all is as admitted."""
    return memory.goal is not None and _goal_data(memory)["state"] == "reached"


def goal_line(memory: Memory) -> str:
    """Return how far what is admitted is brought about."""
    goal = _goal_data(memory)
    again = f", again at {_clock(goal['again'])}" if goal["again"] else ""
    run = f", run {goal['run']}" if goal["run"] else ""
    why = f": {goal['reason']}" if goal["reason"] else ""
    if memory.held is not None:
        why = f": generation {memory.held.generation}, which was applied by hand"
    return f"what is admitted is {goal['state']}{run}{again}{why}"


def _lines(memory: Memory, data: Mapping[str, Any]) -> list[tuple[str, Tone]]:
    admitted, goal, left_out = data["admitted"], data["goal"], memory.left_out
    found = [
        (f"the newest, {it.what}, was {it.reason}", Tone.CAREFUL)
        for it in memory.inputs
        if it.state == Fate.REJECTED and (it.input == memory.newest or it is left_out(it.source))
    ]
    if admitted is None:
        found.append(("nothing is admitted yet", Tone.CAREFUL))
    else:
        what = f"commit {admitted['commit'][:8]}" if admitted["commit"] else "the files"
        made = [f"{name} {it}" for name, it in sorted(admitted["decisions"].items()) if it]
        also = f", decisions of {', '.join(made)}" if made else ""
        found.append((f"admitted: {what}{also}", Tone.NONE))
        tone = Tone.GOOD if goal["state"] == "reached" else Tone.CAREFUL
        found.append((goal_line(memory), tone))
    if memory.pin is not None:
        pin = memory.pin
        until = "`cobweb unpin` ends that"
        said = f"generation {pin.generation} is pinned by {pin.by}: {pin.reason}; {until}"
        found.append((said, Tone.CAREFUL))
    if memory.held is not None:
        said = f"generation {memory.held.generation}, applied by hand, is held"
        found.append((f"{said} until the next commit or `cobweb unpin`", Tone.CAREFUL))
    leader = data["leader"]
    led = f"led by {leader['owner']}" if leader else "no controller is at work: `cobweb serve`"
    found.append((led, Tone.NONE))
    return found


def _row(it: Input) -> tuple[str, ...]:
    since = _clock(it.since)
    number = (str(len(it.outages) or ""), str(len(it.removals) or ""))
    return (it.id, it.state, *number, since, it.what, it.reason)


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _input_data(it: Input) -> dict[str, Any]:
    return {
        **{name: getattr(it, name) for name in _FIELDS},
        **{name: list(getattr(it, name)) for name in _LISTS},
    }


def _goal_data(memory: Memory) -> dict[str, Any]:
    goal, tried = memory.goal, memory.tried
    same = tried if tried and goal and tried.key == goal.key else None
    state = same.state if same else "pending"
    return {
        "state": "held" if memory.held else state,
        "reason": same.reason if same else "",
        "run": same.run if same else None,
        "exit_code": same.exit_code if same else None,
        "failures": same.failures if same else 0,
        "again": same.again_s if same else None,
    }


def _leader_data(site: Site) -> dict[str, Any] | None:
    lock = site.history().site_lock(clock=time.time, leads=True)
    owner = lock.show()
    if owner is None or "takes the lock over" in lock.doubt(owner):
        return None
    return {"owner": f"{owner.user}@{owner.host} pid {owner.pid}", "since": owner.since}
