"""What commands on virtual clusters work on: what is written, decided, and known of machines."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cobweb.errors import CobwebError, ConflictError, UsageError
from cobweb.model import CobId, State, cob_id, host_of, name_of
from cobweb.plugin import SiteAccess
from cobweb_plugins.metal._commands import _server
from cobweb_plugins.metal._power import POINT as POWERS
from cobweb_plugins.metal._power import ManualPower
from cobweb_plugins.metal._section import GROUP, NAME, place_of
from cobweb_plugins.metal._section import MACHINE as MACHINE_COB
from cobweb_plugins.metal.vclusters._changes import Ground, Writes
from cobweb_plugins.metal.vclusters._choice import Machine, Properties, Stock
from cobweb_plugins.metal.vclusters._expand import NODE, goal_of
from cobweb_plugins.metal.vclusters._grants import (
    MACHINE,
    Grants,
    Member,
    Request,
    grants_of,
)
from cobweb_plugins.metal.vclusters._written import GRACE, IMMUNITY, POINT, Place, span_of

if TYPE_CHECKING:
    from cobweb_plugins.metal._client import View

_FAILED, INTERRUPTED = 1, 130
"""The exit codes of an apply in which something has failed, and of one that was interrupted."""

_ATTEMPTS = 10
"""How often a decision is made anew where others decide at the same moment."""


def now_s() -> float:
    """Return seconds since the epoch."""
    return datetime.now(UTC).timestamp()


class Desk:
    """The virtual clusters of a site as one command sees them; `wait` is the text of `--wait`."""

    def __init__(self, access: SiteAccess, reason: str = "", wait: str | None = None) -> None:
        self.access = access
        self._reason = reason
        self._wait = wait
        self.forget()

    def forget(self) -> None:
        """Read anew what is decided."""
        self.decisions = self.access.decisions(NAME)
        self.grants: Grants = grants_of(self.decisions.by_key)

    @cached_property
    def section(self) -> Mapping[str, Any]:
        """What is written."""
        section, _ = _server(self.access)
        return section

    @cached_property
    def place(self) -> Place:
        """What requests are looked at in."""
        found = place_of(self.section, self.access.plugins.extensions_at(POINT))
        if found is None:
            raise UsageError("`network.address` of the section `metal` is none")
        return found

    @cached_property
    def views(self) -> Mapping[str, View]:
        """What the boot server knows of machines; nothing where it is not there (yet)."""
        from cobweb_plugins.metal._client import Client, NoAnswerError

        _, server = _server(self.access)
        with suppress(NoAnswerError):
            return {it["id"]: it for it in Client(server.url, server.folder).machines()}
        return {}

    @property
    def grace_s(self) -> float:
        """How long nodes that nobody gave a lease may take to go."""
        return span_of(GRACE)

    def request(self, name: str) -> Request:
        """Return what a virtual cluster asks for; UsageError where there is none."""
        found = self.grants.requests.get(name)
        if found is None:
            known = ", ".join(sorted(self.grants.requests)) or "none"
            hint = f"there are {known}"
            raise UsageError(f"there is no virtual cluster `{name}`", hint=hint)
        return found

    def ground(self) -> Ground:
        """Return what choices are made on, as it is now."""
        machines = self.section.get("machines") or {}
        free = {name: said for name, said in machines.items() if "template" not in said}
        asked = self.grants.requests
        members = {key: it for key, it in self.grants.members.items() if it.vcluster in asked}
        stock = Stock(
            machines=[self._machine(name, said) for name, said in free.items()],
            grants=replace(self.grants, members=members),
            accepts=self._accepts,
            now=now_s(),
            immunity_s=span_of(self.section.get("immunity", IMMUNITY)),
        )
        return Ground(
            stock=stock,
            network=self.place.network,
            pinned=[it["address"] for it in machines.values() if "address" in it],
            names={*machines, *(it["name"] for it in machines.values() if "name" in it)},
            images=self.images,
        )

    @property
    def images(self) -> Mapping[str, str]:
        """The SHA-256 of what templates stand for now."""
        images = self.section.get("images") or {}
        templates = (self.section.get("templates") or {}).items()
        return {
            name: images[it["image"]]["sha256"] for name, it in templates if it["image"] in images
        }

    def _accepts(self, text: str, properties: Properties) -> bool:
        assert self.place.filters is not None  # the section is sound
        return self.place.filters.accepts(text, properties)

    def _machine(self, name: str, said: Mapping[str, Any]) -> Machine:
        kind: Any = self.access.plugins.extensions_at(POWERS).get(
            said["power"]["kind"], ManualPower
        )
        settings = {key: it for key, it in said["power"].items() if key != "kind"}
        view, unfit, asked = self.views.get(name), "", self.grants.requests
        if lacks := {"on", "off"} - kind.can(settings):
            unfit = f"has no power that can switch it {' and '.join(sorted(lacks))}"
        elif view and view["over"] and view["failure"]:
            unfit = f"has failed: {view['failure'].partition(' (phase ')[0]}"
        elif (member := self.grants.members.get(name)) and member.vcluster not in asked:
            unfit = f"is {member.host}, which nobody asks for"
        elif view and view["vcluster"] and f"{MACHINE}{name}" not in self.grants.by_key:
            unfit = f"runs {view['name']}, of which nothing is decided"
        phase = view["phase"] if view else "new"
        return Machine(
            name=name,
            properties=properties_of(name, said, view),
            unfit=unfit,
            is_warm=phase == "trampoline",
            may_run=phase != "off" and bool(view and view["name"]),
        )

    # --- what is decided and carried out

    def decide(self, change: Callable[[], Writes]) -> Writes:
        """Decide what a function returns, and again where others have decided meanwhile."""
        for left in range(_ATTEMPTS, 0, -1):
            known = {key: it.body for key, it in self.grants.by_key.items()}
            writes = {key: it for key, it in change().items() if known.get(key) != it}
            if not writes:
                return {}
            try:
                self.access.decide(NAME, self.decisions.revision, writes, self._reason)
            except ConflictError:
                if left == 1:
                    raise
                self.forget()
            else:
                self.forget()
                return writes
        raise AssertionError("the last attempt returns or raises")

    def is_settled(self, name: str | None = None) -> bool:
        """Say whether all nodes are there as they are wanted, and none that was let go.

        With a `name` those of that virtual cluster.
        """
        states = self.access.states()
        left = {host for it in self.grants.left.values() for host in it}
        left = {it for it in left if name in (None, it.rpartition("-")[0])}
        are_gone = left.isdisjoint({host_of(it) for it in states} - self._hosts())
        members = self.grants.members.values() if name is None else self.grants.of(name)
        return are_gone and all(self.is_ready(it, states) for it in members)

    def is_ready(self, member: Member, states: Mapping[CobId, State]) -> bool:
        """Say whether a node is there as it is wanted, as far as is known."""
        template = self.grants.requests[member.vcluster].parts[member.part].template
        goal = goal_of((self.section.get("templates") or {}).get(template, {}))
        machine = states.get(cob_id(member.machine, MACHINE_COB))
        return machine == "active" and states.get(cob_id(member.host, NODE)) == goal

    def _hosts(self) -> set[str]:
        return {it.host for it in self.grants.members.values()}

    def carry_out(self, name: str | None = None) -> int:
        """Have all that is pending in the site carried out; return the exit code.

        A part of it would leave out what is on nodes that are gone from the site. With the `name`
        of a virtual cluster, what else has failed is told, and does not count.
        """
        waits = ("--wait", self._wait) if self._wait else ()
        words = ("--yes", "--message", f"vcluster: {self._reason}", *waits)
        is_text = self.access.output == "text"
        try:
            with nullcontext() if is_text else redirect_stdout(io.StringIO()):
                code = self.access.run("apply", *words)
        except CobwebError as error:
            error.add_note("what was decided stays: `cobweb apply` carries it out")
            raise
        self._clear()
        is_own = name is not None and code == _FAILED and self.is_settled(name)
        return 0 if is_own else code

    def _clear(self) -> None:
        """Decide that nodes which machines were are gone, where they are."""
        self.forget()
        there = {host_of(it) for it in self.access.states()}
        writes: dict[str, Any] = {}
        for name, hosts in self.grants.left.items():
            if hosts and not (there - self._hosts()).intersection(hosts):
                key = f"{MACHINE}{name}"
                body = self.grants.by_key[key].body
                writes[key] = {key: it for key, it in body.items() if key not in ("left", "until")}
        if writes:
            with suppress(ConflictError):  # the next one does it
                self.access.decide(NAME, self.decisions.revision, writes, self._reason)
            self.forget()

    def look(self) -> None:
        """Have the machines looked at: nobody tells when one loses its power.

        SiteError where the site is wrong: nothing could be carried out.
        """
        self.access.graph()
        if self.grants.members:
            with suppress(CobwebError):
                self._quietly("drift", "--limit", GROUP)
        vars(self).pop("views", None)

    def clear_failure(self, machine: str) -> None:
        """Have the boot server forget why a machine has failed: it is told to be off anew."""
        if machine in self.views:
            _, server = _server(self.access)
            from cobweb_plugins.metal._client import Client

            said = self.section["machines"].get(machine, {})
            Client(server.url, server.folder).power(machine, "off", said.get("power"))

    def cut(self, hosts: Collection[str]) -> None:
        """Give up what is on nodes that are to go by power: nothing of it is waited for."""
        known = self.access.states()
        given = sorted(it for it in known if host_of(it) in hosts and name_of(it) != NODE)
        if given:
            self._quietly("forget", "--yes", *given)

    def _quietly(self, *words: str) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            self.access.run(*words)


def properties_of(name: str, said: Mapping[str, Any], view: View | None) -> Properties:
    """Return what filters see of a machine: what was found in it, and what is written of it."""
    hardware = (view or {}).get("hardware") or {}
    found: dict[str, Any] = {"id": name}
    found |= {key: it for key, it in hardware.items() if isinstance(it, str | int | float)}
    sizes: Sequence[int] = [it.get("bytes", 0) for it in hardware.get("disks", ())]
    if hardware:
        found |= {"disks": len(sizes), "disk_gb": max(sizes, default=0) / 1e9}
        found |= {"nics": len(hardware.get("nics", ()))}
    return {**found, **said.get("properties", {})}


def machine_of(key: str) -> str:
    """Return the machine that a key of a decision is about, "" where it is about none."""
    return key.removeprefix(MACHINE) if key.startswith(MACHINE) else ""
