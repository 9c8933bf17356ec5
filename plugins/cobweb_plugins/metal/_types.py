"""The COB types `machine` and `machine-image`: what the boot server is asked for, and awaited.

A machine's life is the boot server's. A transition gives it a goal, under the key of the attempt,
and waits: the goal that a killed run has left is adopted, never begun twice. Settings of power,
MACs, limits and what `ready` means are no content (`CobType.shared`): another BMC re-images
nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import CobwebError
from cobweb.model import OUTDATED, CobType, PythonAction, State, Transition
from cobweb.plugin import CobContext, Found

if TYPE_CHECKING:
    from cobweb_plugins.metal._client import Client, View

_CHECK_S = 180.0
_PATIENCE_S = 90.0
"""How long a step waits for a server that does not answer: its supervisor starts it again."""

_BACKSTOP_S = 6 * 3600.0
"""The engine's own bound on a transition: the boot server's limits end it long before."""

_TAKEN_PAUSE_S = 0.5

_TEXT: Mapping[str, Any] = {"type": "string"}
_SHA256: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


class Machine:
    """A machine, which leaves `active` by its power only."""

    name: ClassVar[str] = "machine"

    def cob_type(self) -> CobType:
        """Return the life cycle: off, trampoline, primed, active; outdated runs what is old."""
        step = {
            "trampoline": self.to_trampoline,
            "primed": self.to_primed,
            "active": self.to_active,
            "off": self.to_off,
        }
        matrix = (
            ("off", "trampoline"),
            ("trampoline", "primed"),
            ("primed", "active"),
            ("active", "trampoline"),
            (OUTDATED, "trampoline"),
            *((source, "off") for source in ("active", OUTDATED, "trampoline", "primed")),
        )
        return CobType(
            name=self.name,
            states=(OUTDATED, "off", "trampoline", "primed", "active"),
            preferred="active",
            remove="off",
            serving=("active", OUTDATED),
            check=_python(self.name, self.check),
            check_timeout_s=_CHECK_S,
            transitions=tuple(_step(self.name, *it, step[it[1]]) for it in matrix),
            spec_schema=_MACHINE_SPEC,
        )

    def check(self, context: CobContext) -> State:
        """Have the boot server look; where none answers, its book has the last word."""
        from cobweb_plugins.metal._client import NoAnswerError
        from cobweb_plugins.metal.server import kept_machine

        order = _Order(context)
        try:
            view = _looked(order)
        except NoAnswerError:
            view = kept_machine(order.folder, order.name)
        return found_state(view, order.wanted)

    def to_trampoline(self, context: CobContext) -> None:
        """Switch it on, or on again, so that it asks the boot server for orders."""
        _reach(context, "trampoline")

    def to_primed(self, context: CobContext) -> None:
        """Have it write its image to its disk, and read it back."""
        _reach(context, "primed")

    def to_active(self, context: CobContext) -> None:
        """Have it start its system, until that is ready."""
        _reach(context, "active")

    def to_off(self, context: CobContext) -> None:
        """Switch it off."""
        _reach(context, "off")


class MachineImage:
    """An image that the boot server keeps by the SHA-256 of its content."""

    name: ClassVar[str] = "machine-image"

    def cob_type(self) -> CobType:
        """Return the life cycle: absent, stored; outdated is there with an older content."""
        return CobType(
            name=self.name,
            states=(OUTDATED, "absent", "stored"),
            preferred="stored",
            remove="absent",
            serving=("stored", OUTDATED),
            check=_python(self.name, self.check),
            check_timeout_s=_CHECK_S,
            transitions=(
                _step(self.name, "absent", "stored", self.store),
                _step(self.name, OUTDATED, "stored", self.store),
                _step(self.name, "stored", "absent", self.delete),
                _step(self.name, OUTDATED, "absent", self.delete),
            ),
            spec_schema=_IMAGE_SPEC,
        )

    def check(self, context: CobContext) -> State | Found:
        """Ask for the image, and for the one that it replaces."""
        client, sha256, old = _image(context, patience_s=0.0)
        is_there = _has(client, context, sha256)
        if old and _has(client, context, old):
            return OUTDATED
        return Found(state="stored", results=_held(context, sha256)) if is_there else "absent"

    def store(self, context: CobContext) -> Mapping[str, Any]:
        """Send the image; the one that it replaces goes once this one is there."""
        from cobweb_plugins.metal._client import AnswerError

        client, sha256, old = _image(context)
        if client.image(sha256) is None:
            said = context.cob["spec"]["file"]
            try:
                client.store_image(sha256, context.site_dir / Path(said).expanduser())
            except OSError as error:
                message = f"the image {said} cannot be read: {error.strerror or error}"
                raise CobwebError(
                    message, hint="`file` is relative to the site's folder"
                ) from error
        applied = (context.cob.get("applied") or {}).get("sha256", "")
        older = {applied, old, *_kept(context)} - {"", sha256, *_others(context)}
        used = context.shared.get("used", ())
        for each in sorted(older.difference(used)):
            # A machine that still gets it is ordered otherwise soon; the next check finds the file.
            with contextlib.suppress(AnswerError):
                client.delete_image(each)
        kept = {f"{_KEPT}{context.cob['name']}": sorted(older.intersection(used))} if older else {}
        return {**_held(context, sha256), **kept}

    def delete(self, context: CobContext) -> Mapping[str, Any]:
        """Take the image away, and the one that it was to replace."""
        client, sha256, old = _image(context)
        for each in {sha256, old, *_kept(context)} - {"", *_others(context)}:
            client.delete_image(each)
        gone = {f"{_KEPT}{context.cob['name']}": None} if _kept(context) else {}
        return {**_held(context, None), **gone}


def found_state(view: View, wanted: Mapping[str, Any]) -> State:
    """Return the state of a machine; CobwebError for one that is silent, which nothing mends.

    What is on its way counts as the state that it has left, so that the goal that it was given is
    given again, and adopted. One that starts, or is in doubt, is `trampoline`: no system runs on
    it, and its power has to be seen to.
    """
    match view["phase"]:
        case "active":
            return _active_state(view, wanted)
        case "off" | "new":
            return OUTDATED if view["power"] == "on" else "off"
        case phase:
            is_ready = phase in ("primed", "booting") and _is_primed(view, wanted)
            return "primed" if is_ready else "trampoline"


def _is_primed(view: View, wanted: Mapping[str, Any]) -> bool:
    disk = view.get("disk") or {}
    return _is_wanted(view, wanted) and disk.get("sha256") == wanted["image"]


def _active_state(view: View, wanted: Mapping[str, Any]) -> State:
    if not _is_wanted(view, wanted):
        return OUTDATED
    if view.get("ready") is False:
        name = view["id"]
        message = f"{name} is silent: {wanted['name']} at {wanted['address']} does not answer"
        hint = f"`cobweb metal power {name} reset` starts its system again; it is not re-imaged"
        raise CobwebError(message, hint=hint)
    return "active"


def _is_wanted(view: View, wanted: Mapping[str, Any]) -> bool:
    """Say whether a machine is what is wanted: image, name, address, whose it is."""
    has = {**view, "image": (view.get("image") or {}).get("sha256")}
    keys = ("image", "name", "address", "domain", "vcluster")
    return bool(wanted) and all(has.get(key, "") == wanted.get(key, "") for key in keys)


class _Order:
    """What a machine is asked for, of its spec and of what its type shares."""

    def __init__(self, context: CobContext, patience_s: float = 0.0) -> None:
        from cobweb_plugins.metal._client import Client

        shared = context.shared
        self.name = context.host.name
        self.wanted: Mapping[str, Any] = context.cob["spec"].get("wanted") or {}
        self.limits: Mapping[str, float] = shared["limits"]
        self.machine: Mapping[str, Any] = shared["machines"][self.name]
        self.folder = Path(shared["server"]["folder"])
        self.client = Client(**shared["server"], patience_s=patience_s)
        self._key = context.key

    def goal(self, goal: State) -> dict[str, Any]:
        """Return a goal as the boot server is told it."""
        found = {"key": self._key, "goal": goal, "limits": self.limits, **self.machine}
        if goal == "off" or not self.wanted:
            return found
        sha256 = self.wanted["image"]
        image = self.client.image(sha256)
        if image is None:
            hint = "`cobweb drift` looks at images again, `cobweb apply` stores them"
            raise CobwebError(f"the boot server has no image {sha256[:12]}", hint=hint)
        more = {key: it for key, it in self.wanted.items() if key != "image"}
        size = {key: image[key] for key in ("sha256", "bytes")}
        owner = self.wanted.get("vcluster") or self.name
        return {**found, **more, "image": size, "owner": owner}


def _reach(context: CobContext, goal: State) -> None:
    """Give a machine a goal and wait for its end; CobwebError with what the server says of it."""
    from cobweb_plugins.metal._client import LONG_POLL_S

    limits = context.shared["limits"]
    order = _Order(context, _PATIENCE_S)
    if order.name in context.shared.get("undecided", ()):
        _refuse_node(order)
    view = _ordered(order, goal, time.monotonic() + limits[goal])
    end = time.monotonic() + _BACKSTOP_S
    while not view["over"]:
        if time.monotonic() > end:
            raise CobwebError(f"{order.name}: the boot server did not end `{goal}` in 6 hours")
        found = order.client.machine(order.name, wait_s=LONG_POLL_S)
        if found is None:
            raise CobwebError(f"the boot server has forgotten {order.name}")
        view = found
    if view["failure"]:
        hint = f"`cobweb metal show {order.name}` says more; its console says all"
        raise CobwebError(f"{order.name}: {view['failure']}", hint=hint)
    if view["goal"] not in (goal, None):
        hint = "was it switched by hand meanwhile, or by another run?"
        raise CobwebError(f"{order.name} was told to be {view['goal']} instead", hint=hint)


def _looked(order: _Order) -> View:
    """Have the boot server look at a machine, once it is off where it is being switched off.

    A node that goes has it switched off, and nobody awaits that here. One that does not answer may
    just be going: it is looked at twice.
    """
    from cobweb_plugins.metal._client import LONG_POLL_S

    end = time.monotonic() + _CHECK_S / 2
    view = order.client.look(order.name, order.machine)
    if view["ready"] is False:
        view = order.client.look(order.name, order.machine)
    while view["phase"] == "stopping" and view["goal"] == "off" and not view["asks"]:
        if time.monotonic() > end:
            break
        order.client.machine(order.name, wait_s=LONG_POLL_S)
        view = order.client.look(order.name, order.machine)
    return view


def _refuse_node(order: _Order) -> None:
    """Raise CobwebError where a machine runs a node that no decision knows, and none lets go."""
    view = order.client.machine(order.name)
    if view and view["phase"] == "active" and view.get("vcluster"):
        cluster = view["vcluster"].partition("/")[0]
        message = f"{order.name} runs {view['name']} of the virtual cluster `{cluster}`"
        hint = f"were decisions lost? `cobweb metal power {order.name} off` ends it"
        raise CobwebError(f"{message}, and nothing is decided of it", hint=hint)


def _ordered(order: _Order, goal: State, end: float) -> View:
    """Give a machine a goal; wait for what another machine still has: a name, an address, a MAC."""
    from cobweb_plugins.metal._client import AnswerError

    while True:
        try:
            return order.client.order(order.name, order.goal(goal))
        except AnswerError as error:
            if error.kind != "taken" or time.monotonic() > end:
                raise
            time.sleep(_TAKEN_PAUSE_S)


def _has(client: Client, context: CobContext, sha256: str) -> bool:
    """Say whether the server has an image; where it does not answer, its folder is looked at."""
    from cobweb_plugins.metal._client import NoAnswerError
    from cobweb_plugins.metal.server import has_image

    try:
        return client.image(sha256) is not None
    except NoAnswerError:
        return has_image(Path(context.cob["spec"]["folder"]), sha256)


def _image(context: CobContext, patience_s: float = _PATIENCE_S) -> tuple[Client, str, str]:
    """Return client, digest, and the digest of an older content that nothing else is of ("")."""
    from cobweb_plugins.metal._client import Client

    spec = context.cob["spec"]
    client = Client(spec["url"], spec["folder"], patience_s=patience_s)
    old = (context.cob.get("applied") or {}).get("sha256", "")
    used = {spec["sha256"], *_others(context), *context.shared.get("used", ())}
    return client, spec["sha256"], "" if old in used else old


def _held(context: CobContext, sha256: str | None) -> dict[str, Any]:
    """Return the result by which other images of the host know the digest of this one."""
    return {f"{_HELD}{context.cob['name']}": sha256}


def _kept(context: CobContext) -> list[str]:
    """Return the digests of older contents that nodes had when the image became another one."""
    found = (context.cob.get("results") or {}).get(f"{_KEPT}{context.cob['name']}")
    return found if isinstance(found, list) else []


def _others(context: CobContext) -> set[str]:
    """Return the digests of all other images of the host: one under a new name keeps its file."""
    results = (context.cob.get("results") or {}).items()
    own = f"{_HELD}{context.cob['name']}"
    return {it for key, it in results if key.startswith(_HELD) and key != own}


def _python(type_name: str, method: Callable[..., Any]) -> PythonAction:
    return PythonAction(type_name=type_name, method=method.__name__)


def _step(type_name: str, source: State, dest: State, method: Callable[..., Any]) -> Transition:
    action = _python(type_name, method)
    return Transition(source=source, dest=dest, action=action, timeout_s=_BACKSTOP_S)


_HELD = "metal_digest_of_"
"""How the results begin that say which digest an image of this host has."""

_KEPT = "metal_kept_by_"
"""How the results begin that say which older contents an image of this host has left there."""

_WANTED: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "image": _SHA256,
        "name": _TEXT,
        "address": _TEXT,
        "domain": _TEXT,
        "vcluster": _TEXT,
    },
    "dependentRequired": {"image": ["name", "address"], "name": ["image"]},
}

_MACHINE_SPEC: Mapping[str, Any] = {
    "type": "object",
    "properties": {"wanted": _WANTED},
    "additionalProperties": False,
}

_IMAGE_SPEC: Mapping[str, Any] = {
    "type": "object",
    "properties": {"file": _TEXT, "sha256": _SHA256, "url": _TEXT, "folder": _TEXT},
    "required": ["file", "sha256", "url", "folder"],
    "additionalProperties": False,
}
