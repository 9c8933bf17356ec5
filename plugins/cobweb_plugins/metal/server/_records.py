"""What the boot server knows of a machine: values that its book keeps, as plain JSON data.

Phases `off`, `trampoline`, `primed` and `active` are those that a machine rests in; the others have
a deadline. `unknown` is the one from which only power leads out: nothing is believed of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OFF = "off"
STARTING = "starting"
TRAMPOLINE = "trampoline"
PRIMING = "priming"
PRIMED = "primed"
BOOTING = "booting"
ACTIVE = "active"
STOPPING = "stopping"
UNKNOWN = "unknown"

DISCARD, ZERO, NONE = "discard", "zero", "none"
"""How disks are wiped: by telling them to forget, by writing zeros, not at all."""

MIXED = "?"
"""Whose content disks may have that are being wiped or written: equal to no virtual cluster."""

UNDER_WAY = frozenset({STARTING, PRIMING, BOOTING, STOPPING})
ON_TRAMPOLINE = frozenset({TRAMPOLINE, PRIMING, PRIMED})

LIMITS_S: Mapping[str, float] = {TRAMPOLINE: 600, PRIMED: 3600, ACTIVE: 900, OFF: 300}
"""How long the way to a state may take, in seconds, where a goal does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Where a machine is to be, and what it is to run there.

    `image` is {sha256, bytes} of the unpacked image. `owner` is whose content the disk has from
    then on, `port` where the system answers once it is ready, `boots` how often it may boot from
    the network until then. `limits` are seconds by state. `domain` is that of its name, "" for the
    network's own. `vcluster` is the virtual cluster that it is of, "" for none: of another one it
    is to see nothing, so its disks are wiped before, by the method `wipe`.
    """

    state: str
    image: Mapping[str, Any] | None = None
    name: str = ""
    address: str = ""
    owner: str = ""
    vcluster: str = ""
    domain: str = ""
    wipe: str = DISCARD
    port: int = 22
    boots: int = 1
    limits: Mapping[str, float] = field(default_factory=lambda: dict(LIMITS_S))

    @property
    def digest(self) -> str:
        """The SHA-256 of the image, "" without one."""
        return self.image["sha256"] if self.image else ""

    def same_as(self, other: Goal | None) -> bool:
        """Say whether another goal asks for the same, however it is seen to be reached."""
        if other is None:
            return False
        manner = {key: getattr(self, key) for key in ("limits", "port", "boots", "wipe")}
        return dataclasses.replace(other, **manner) == self


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """A boot that the server caused; who has its token speaks for the machine.

    The token is bound to the address `peer` that asked for it. `requests` counts how often the
    firmware has been told to boot from the disk. `is_clear` says that nobody else answers where the
    system is to.
    """

    token: str = ""
    peer: str = ""
    requests: int = 0
    is_clear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What was written to a disk, for whom and when (seconds since the epoch).

    `booted` says that it may have changed since.
    """

    name: str
    serial: str
    sha256: str
    owner: str
    written: float = 0.0
    booted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One machine in the book; `since` and `deadline` are seconds since the epoch.

    `over` says that nothing is done for the goal any more: it is reached, or there is a `failure`.
    `runs` is the goal by which it was primed and booted, `ended` the token of the boot that was
    ended last. `lent` is the name and address that DHCP gives it, None for any while it boots; with
    a `domain` DNS knows the name there as well. `vcluster` is the virtual cluster whose content its
    disks may have, "" for none, or `MIXED`. `host_keys` are those that its system had first. `word`
    is the last that was heard.
    """

    id: str
    mac: str
    power: Mapping[str, Any]
    site: str = ""
    epoch: int = 0
    key: str = ""
    goal: Goal = Goal(state=OFF)
    over: bool = True
    failure: str = ""
    phase: str = OFF
    since: float = 0.0
    deadline: float | None = None
    runs: Goal | None = None
    boot: Boot = Boot()
    ended: str = ""
    lent: Mapping[str, str] | None = None
    host_keys: tuple[str, ...] = ()
    disk: Disk | None = None
    vcluster: str = ""
    hardware: Mapping[str, Any] | None = None
    word: str = ""
    word_time: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dataclasses.asdict(self)


def record_of(data: Mapping[str, Any]) -> Record:
    """Return the record that `as_json` made plain."""
    known = {it.name for it in dataclasses.fields(Record)}
    values = {key: value for key, value in data.items() if key in known}
    values["goal"] = Goal(**values["goal"])
    values["boot"] = Boot(**values["boot"])
    values["host_keys"] = tuple(values.get("host_keys", ()))
    for key, made in (("runs", Goal), ("disk", Disk)):
        values[key] = values[key] and made(**values[key])
    return Record(**values)


def view_of(record: Record, asks: str = "", hindrance: str = "") -> dict[str, Any]:
    """Return what coordinators and people see of a machine: no token, no password.

    `asks` is what a person is to do, `hindrance` what was tried in vain and is tried again.
    """
    runs = record.runs
    disk = record.disk
    return {
        "id": record.id,
        "mac": record.mac,
        "phase": record.phase,
        "since": record.since,
        "goal": record.goal.state,
        "over": record.over,
        "failure": record.failure if record.over else hindrance,
        "asks": asks,
        "image": runs.image if runs else None,
        "name": runs.name if runs else "",
        "address": runs.address if runs else "",
        "domain": runs.domain if runs else "",
        "vcluster": runs.vcluster if runs else "",
        "power": "on" if record.phase in {*ON_TRAMPOLINE, BOOTING} else "unknown",
        "ready": None,
        "disk": disk
        and {
            "sha256": disk.sha256,
            "owner": disk.owner,
            "serial": disk.serial,
            "written": disk.written,
            "booted": disk.booted,
        },
        "hardware": record.hardware,
        "host_keys": list(record.host_keys),
        "word": {"time": record.word_time, "text": record.word} if record.word else None,
        "site": record.site,
        "key": record.key,
    }
