"""The COB type of a service of the catalog: its life-cycle (Coopr paper, "Planner").

A service goes absent -> installed -> configured -> initialized -> started, each step one action of
the catalog; an action that it has not is a step without work. What runs by an older specification
is stopped first and gets it then, without being initialized again; until then it serves:

    outdated (running, older configuration) -> stale (stopped) -> initialized -> started
    obsolete (running, older version) -> shelved (stopped) -> stale -> initialized -> started
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.model import Action as CobAction
from cobweb.model import CobType, Nothing, PythonAction, Role, State, Tasks, Transition
from cobweb.plugin import CobContext

if TYPE_CHECKING:
    from cobweb_plugins.cluster._catalog import Action, Service

STATES = (
    *("obsolete", "outdated", "shelved", "stale"),
    *("absent", "installed", "configured", "initialized", "started"),
)
RUNNING = ("started", "outdated", "obsolete")
GROUPS: Mapping[str, tuple[State, ...]] = MappingProxyType(
    {
        "running": RUNNING,
        "stopped": ("initialized", "stale", "shelved", "configured", "installed", "absent"),
        "present": (
            *("installed", "configured", "initialized", "started"),
            *("stale", "outdated", "shelved", "obsolete"),
        ),
    }
)
"""What other services can need besides a state."""

_STEPS = (
    ("absent", "installed", "install"),
    ("installed", "configured", "configure"),
    ("configured", "initialized", "initialize"),
    ("initialized", "started", "start"),
    ("started", "initialized", "stop"),
    ("outdated", "stale", "stop"),
    ("obsolete", "shelved", "stop"),
    ("shelved", "stale", "upgrade"),
    ("stale", "initialized", "configure"),
    *((state, "absent", "remove") for state in GROUPS["stopped"] if state != "absent"),
)
_SPEC = MappingProxyType(
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["service", "version", "restarts", "config", "fields"],
        "properties": {
            "service": {"type": "string"},
            "version": {"type": "string"},
            "restarts": {"type": "integer"},
            "config": {"type": "object"},
            "fields": {"type": "object"},
        },
    }
)
_OLDER_VERSION = MappingProxyType(
    {
        **dict.fromkeys(RUNNING, "obsolete"),
        **dict.fromkeys(("initialized", "stale", "shelved"), "shelved"),
        **dict.fromkeys(("configured", "installed"), "absent"),
    }
)
_OLDER_CONFIG = MappingProxyType(
    {"started": "outdated", "initialized": "stale", "configured": "installed"}
)


def type_name(service: str) -> str:
    """Return the name of a service's COB type."""
    return f"service.{service}"


def service_type(service: Service, site_dir: Path) -> CobType:
    """Return the type of a service, whose actions all have tasks or a role; paths get absolute."""
    return _type_of(service.name, service.actions, site_dir)


def _type_of(service: str, actions: Mapping[str, Action], site_dir: Path) -> CobType:
    upgrade = actions.get("upgrade") or actions.get("install")
    known = {**actions, **({"upgrade": upgrade} if upgrade else {})}
    check = actions.get("check")
    return CobType(
        name=type_name(service),
        states=STATES,
        preferred="started",
        remove="absent",
        groups=dict(GROUPS),
        serving=RUNNING,
        check=_work(check, site_dir)
        if check
        else PythonAction(type_name=ServiceCheck.name, method="check"),
        check_timeout_s=check.timeout_s if check else None,
        spec_schema=dict(_SPEC),
        transitions=tuple(
            _transition(source, dest, known.get(action), site_dir)
            for source, dest, action in _STEPS
        ),
    )


def _transition(source: State, dest: State, action: Action | None, site_dir: Path) -> Transition:
    if action is None:
        return Transition(source=source, dest=dest, action=Nothing())
    return Transition(
        source=source,
        dest=dest,
        action=_work(action, site_dir),
        timeout_s=action.timeout_s,
        attempts=action.attempts,
    )


def _work(action: Action, site_dir: Path) -> CobAction:
    return Role(name=action.role) if action.role else Tasks(path=str(site_dir / action.tasks))


class ServiceCheck:
    """The check of services that have no `check` of their own; a type nobody writes in a site.

    What the journal knew last is believed; a specification that differs from the one that was
    applied makes it older.
    """

    name: ClassVar[str] = "cluster-service"

    def cob_type(self) -> CobType:
        """Return a service without any action."""
        return replace(_type_of(self.name, {}, Path()), name=self.name)

    def check(self, context: CobContext) -> State:
        """Find the state; asks no host."""
        cob = context.cob
        return found(cob.get("recorded"), cob["spec"], cob.get("applied"))


def found(
    recorded: State | None, spec: Mapping[str, Any], applied: Mapping[str, Any] | None
) -> State:
    """Return the state of a service that was last known to be in `recorded`.

    What was never started (`applied` is None) is configured and initialized once more: nobody knows
    by which specification it was.
    """
    if recorded not in STATES or recorded == "absent":
        return "absent"
    if applied is None:
        return recorded if recorded in RUNNING else "installed"
    if applied == spec:
        return recorded
    if _version(applied) != _version(spec):
        return _OLDER_VERSION[recorded]
    return _OLDER_CONFIG.get(recorded, recorded)


def _version(spec: Mapping[str, Any]) -> tuple[Any, Any]:
    return spec.get("version"), (spec.get("fields") or {}).get("install")
