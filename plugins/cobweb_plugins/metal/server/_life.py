"""The life of a machine, as pure functions from what the book says and what happened.

off -> trampoline -> primed -> active, and by power back to off from anywhere. The server goes to
any goal from any phase: what coordinators ask for step by step it does in one go after a fault.
Nothing here knows a clock, a network or a power switch: `now` is in seconds since the epoch, and
what has to be done next is read from the phase (`_server.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cobweb_plugins.metal.server._records import (
    ACTIVE,
    BOOTING,
    MIXED,
    NONE,
    OFF,
    ON_TRAMPOLINE,
    PRIMED,
    PRIMING,
    STARTING,
    STOPPING,
    TRAMPOLINE,
    UNDER_WAY,
    UNKNOWN,
    Boot,
    Disk,
    Goal,
    Record,
)

_LIMIT_OF = {STARTING: TRAMPOLINE, PRIMING: PRIMED, BOOTING: ACTIVE, STOPPING: OFF}
"""Whose time limit a phase goes by."""

_ON_THE_WAY = {
    STARTING: "it was not on the trampoline",
    PRIMING: "its disk was not primed",
    BOOTING: "its system did not answer at {address}:{port}",
    STOPPING: "it was not off",
}

DISK, HELD, TO_TRAMPOLINE = "disk", "held", "trampoline"
"""What the firmware is told: to boot from the disk, to switch off, to load the trampoline."""


class NotCurrentError(Exception):
    """Who speaks is of a boot that is over, or was never caused by the server."""


# --- what is asked for


def aimed(record: Record, goal: Goal, key: str, now: float) -> Record:
    """Return a machine that is to go to a goal, by an order with a key.

    The order that it has is not carried out twice. The same goal under way is adopted by another
    order; another one under way is ended by power first, unless it begins with the same start.
    """
    if key == record.key:
        return record
    goes_on = goal.same_as(record.goal) or (record.phase == STARTING and goal.state != OFF)
    # A trampoline that is priming has an order which says how to wipe.
    goes_on &= record.phase != PRIMING or goal.wipe == record.goal.wipe
    record = replace(record, goal=goal, key=key, failure="")
    if record.over:
        return _advanced(replace(record, over=False), now)
    return record if goes_on or record.phase == STOPPING else _stopping(record, now)


def again(record: Record, now: float) -> Record:
    """Return a machine that goes to the goal that it has once more, from the power on."""
    return _stopping(replace(record, over=False, failure=""), now)


def _advanced(record: Record, now: float) -> Record:
    """Return a machine that rested and has begun the next thing, or has reached its goal."""
    goal, phase = record.goal, record.phase
    if phase == OFF:
        return _rests(record, OFF, now) if goal.state == OFF else _starting(record, now)
    if goal.state == OFF or phase == UNKNOWN:
        return _stopping(record, now)
    if phase == ACTIVE:
        reached = goal.state == ACTIVE and _runs(record, goal)
        return (
            _rests(replace(record, runs=goal), ACTIVE, now) if reached else _stopping(record, now)
        )
    return _from_trampoline(record, now)


def _from_trampoline(record: Record, now: float) -> Record:
    goal = record.goal
    if goal.state == TRAMPOLINE:
        return _rests(replace(record, runs=None), TRAMPOLINE, now)
    record = replace(record, runs=goal)
    if not _holds(record, goal):
        if target_disk(record) is None:
            size = (goal.image or {}).get("bytes", 0)
            return failed(record, f"none of its disks holds the {size} bytes of the image", now)
        # What is on the disks is not known from here on, whatever becomes of them.
        content = goal.vcluster if record.vcluster == goal.vcluster else MIXED
        record = replace(record, disk=None, host_keys=(), vcluster=content)
        return _entered(record, PRIMING, now)
    if goal.state == PRIMED:
        return _rests(record, PRIMED, now)
    boot = replace(record.boot, requests=0, is_clear=False)
    lent = {"name": goal.name, "address": goal.address}
    lent |= {"domain": goal.domain} if goal.domain else {}
    return _entered(replace(record, boot=boot, lent=lent), BOOTING, now)


def _runs(record: Record, goal: Goal) -> bool:
    """Say whether what a machine runs is what a goal asks for."""
    return record.runs is not None and replace(record.runs, state=ACTIVE).same_as(
        replace(goal, state=ACTIVE)
    )


def _holds(record: Record, goal: Goal) -> bool:
    """Say whether the disk has the image: unchanged since, or of the same owner.

    What has content of another virtual cluster is primed always: other disks may have some too.
    """
    disk = record.disk
    if disk is None or disk.sha256 != goal.digest or record.vcluster != goal.vcluster:
        return False
    serials = {it.get("serial") for it in (record.hardware or {}).get("disks", ())}
    return disk.serial in serials and (not disk.booted or disk.owner == goal.owner)


def target_disk(record: Record) -> Mapping[str, Any] | None:
    """Return the disk that is primed: the first one that the image fits on."""
    size = (record.goal.image or {}).get("bytes", 0)
    disks = (record.hardware or {}).get("disks", ())
    return next((it for it in disks if it.get("bytes", 0) >= size), None)


# --- what machines say


def asked_to_boot(record: Record, peer: str, token: str, now: float) -> tuple[Record, str]:
    """Return what becomes of a machine whose firmware asks what to boot, and what it is told.

    Only a boot that the server caused gets the `token`. One that is not to run is told to switch
    off: without an answer a firmware boots from the disk whatever is on it.
    """
    record = _heard(record, f"its firmware asked what to boot, from {peer}", now)
    if record.phase == STARTING:
        return replace(record, boot=Boot(token=token, peer=peer)), TO_TRAMPOLINE
    if record.phase == ACTIVE:
        return record, DISK
    if record.phase == BOOTING:
        return _asked_while_booting(record, now)
    if record.phase == PRIMING:
        record = failed(record, "it started again while it was primed", now)
    elif record.phase != STOPPING:  # at rest, where nobody has asked it to start
        record = _entered(replace(record, boot=Boot()), UNKNOWN, now)
    return record, HELD


def _asked_while_booting(record: Record, now: float) -> tuple[Record, str]:
    requests = record.boot.requests + 1
    if requests > record.goal.boots:
        often = "again" if record.goal.boots == 1 else f"more than {record.goal.boots} times"
        cause = f"a failed boot: it asked {often} what to boot before it was ready"
        return failed(record, cause, now), HELD
    disk = record.disk and replace(record.disk, booted=True)
    return replace(record, boot=Boot(requests=requests, is_clear=True), disk=disk), DISK


def said_hello(
    record: Record, hardware: Mapping[str, Any], peer: tuple[str, str], now: float
) -> Record:
    """Return a machine that is on the trampoline; `peer` is the token and the address."""
    record = replace(spoken(record, peer), hardware=hardware)
    record = _heard(record, "it is on the trampoline", now)
    if record.phase == STARTING:
        return _advanced(_entered(record, TRAMPOLINE, now), now)
    return record


def told(record: Record, word: str, text: str, now: float) -> Record:
    """Return a machine whose trampoline has told how priming goes on: priming, primed, failed."""
    record = _heard(record, f"{word}: {text}" if text else word, now)
    if record.phase != PRIMING or word == PRIMING:
        return record
    disk = target_disk(record)
    if word != PRIMED or disk is None:
        return failed(record, text or "its disk could not be primed", now)
    if text != record.goal.digest:
        return failed(record, f"what was read back from its disk has the SHA-256 {text}", now)
    place = {key: disk[key] for key in ("name", "serial")}
    written = Disk(**place, sha256=text, owner=record.goal.owner, written=now)
    record = replace(record, disk=written, vcluster=record.goal.vcluster)
    return _advanced(_entered(record, PRIMED, now), now)


def spoken(record: Record, peer: tuple[str, str]) -> Record:
    """Return the machine that speaks; NotCurrentError where it is of a boot that is over."""
    token, address = peer
    if not token or (token, address) != (record.boot.token, record.boot.peer):
        raise NotCurrentError
    return record


def spoken_late(record: Record, token: str, now: float) -> Record:
    """Return a machine of which an old boot may have spoken: if it was said to be off, it is not.

    Who has no token of that boot says nothing.
    """
    if not token or token != record.ended or not (record.phase == OFF and record.over):
        return record
    return _entered(_heard(record, "a boot that is over has spoken", now), UNKNOWN, now)


def cleared(record: Record, _now: float) -> Record:
    """Return a machine at whose address nobody answers before its system does: it may boot."""
    return replace(record, boot=replace(record.boot, is_clear=True))


def answered(record: Record, now: float, host_keys: tuple[str, ...] = ()) -> Record:
    """Return a machine whose system is ready; before it has booted that is another one's answer.

    The host keys that it has first count until its disk is primed anew.
    """
    if record.phase != BOOTING:
        return record
    if record.boot.requests:
        if record.host_keys and host_keys and not set(host_keys) & set(record.host_keys):
            return failed(record, "its system has other host keys than before", now)
        record = replace(record, host_keys=record.host_keys or host_keys)
        return _advanced(_entered(_heard(record, "its system is ready", now), ACTIVE, now), now)
    if record.boot.is_clear:  # it boots just now
        return record
    where = f"{record.goal.address}:{record.goal.port}"
    return failed(record, f"something else answers at {where}", now)


# --- power and time


def switched_off(record: Record, now: float) -> Record:
    """Return a machine that is off for sure."""
    if record.phase != STOPPING:
        return record
    record = _heard(record, "it was switched off", now)
    record = _entered(replace(record, boot=Boot(), runs=None), OFF, now)
    if record.failure:
        return replace(record, over=True)
    return _advanced(record, now)


def seen(record: Record, power: str, now: float, word: str = "") -> Record:
    """Return a machine whose power was looked at: on, off, unknown; `word` is what showed it."""
    if not record.over:
        lost = power == "off" and record.phase != STOPPING
        return failed(record, "its power was found off", now) if lost else record
    if power == "off" and record.phase != OFF:
        record = _heard(record, "its power was found off", now)
        return _entered(replace(record, boot=Boot(), runs=None), OFF, now)
    if power == "on" and record.phase == OFF:
        return _entered(_heard(record, word or "its power was found on", now), UNKNOWN, now)
    return record


def overdue(record: Record, now: float, said: str = "") -> Record:
    """Return a machine whose phase may have lasted too long; `said` is what hindered it."""
    if record.deadline is None or now < record.deadline:
        return record
    limit_s = record.goal.limits[_LIMIT_OF[record.phase]]
    missed = _ON_THE_WAY[record.phase].format(address=record.goal.address, port=record.goal.port)
    cause = f"{missed} within {limit_s:g} s" + (f": {said}" if said else "")
    if record.phase == STOPPING:
        cause = f"{record.failure}, and {cause}" if record.failure else cause
        return replace(_entered(record, UNKNOWN, now), failure=cause, over=True)
    return failed(record, cause, now)


def failed(record: Record, cause: str, now: float) -> Record:
    """Return a machine that is switched off because its goal was not reached."""
    last = f" (phase {record.phase}; last heard: {record.word or 'nothing'})"
    return _stopping(replace(record, failure=cause + last), now)


def restarted(record: Record, now: float, *, can_stop: bool) -> Record:
    """Return a machine after the server was away, when it may have missed a word.

    Trampolines repeat theirs. What was starting or booting is started anew, by power where the
    server can do that itself.
    """
    if record.phase in {STARTING, BOOTING} and can_stop:
        return _stopping(record, now)
    if record.phase in UNDER_WAY:
        return _entered(record, record.phase, now)
    return record


def _heard(record: Record, word: str, now: float) -> Record:
    return replace(record, word=word, word_time=now)


def _entered(record: Record, phase: str, now: float) -> Record:
    limit = _LIMIT_OF.get(phase)
    deadline = now + record.goal.limits[limit] if limit else None
    return replace(record, phase=phase, since=now, deadline=deadline)


def _rests(record: Record, phase: str, now: float) -> Record:
    since = record.since if record.phase == phase else now
    return replace(_entered(record, phase, now), since=since, over=True)


def _starting(record: Record, now: float) -> Record:
    return _entered(replace(record, boot=Boot(), runs=None, lent=None), STARTING, now)


def _stopping(record: Record, now: float) -> Record:
    """Return a machine that is being switched off; no token of it counts any more."""
    ended = record.boot.token or record.ended
    return _entered(replace(record, boot=Boot(), ended=ended, over=False), STOPPING, now)


def order(record: Record) -> tuple[str, ...]:
    """Return the words of the order that a trampoline gets; `format` of the image is missing."""
    if record.phase == PRIMING:
        disk = target_disk(record)
        assert disk is not None  # else it would not be primed
        goal = record.goal
        assert goal.image is not None
        wipe = NONE if record.vcluster == goal.vcluster else goal.wipe
        return ("prime", goal.digest, str(goal.image["bytes"]), disk["name"], wipe)
    if record.phase == BOOTING:
        return ("boot",) if record.boot.is_clear else ("wait",)
    return ("wait",) if record.phase in ON_TRAMPOLINE else ("off",)
