"""The coordinator's side of a run with agents: what they are told, and what they report.

Theory of operation. Papers may be lost, so each side says what is so until the other side's paper
shows that it knows. The coordinator has an *order* for each agent, open or closed, and says it
again until a report answers it. An agent asks for what the order names by its digest, and reports:
its events from the first that is not acknowledged, whether it is idle, why objects wait, and
digests of the words that it has said and heard. Events are merged when those that they rest on
are. The run is over when everybody is idle and has heard what was said to it, or is silent.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from cobweb.errors import CobwebError, UsageError
from cobweb.model import CobId, host_of
from cobweb_plugins.agents._address import Address
from cobweb_plugins.agents._part import COORDINATOR, Part, Parts, canonical, kept_back, stand_of
from cobweb_plugins.agents._report import EventBody, Report, report_of
from cobweb_plugins.agents._signature import signature
from cobweb_plugins.agents._wire import NONSENSE, Mark, Marks, Wire

SILENT_S = 15.0
"""After how long without a paper of it an agent counts as silent."""

SLICE = 2**19
"""How many bytes of a blob go in one paper."""

_AGAIN_S = (0.5, 5.0)
"""After how long an order is said again, at first and at last."""

_END_S = 5.0
"""How long agents may take to answer that the run is over."""

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Agent:
    """What the coordinator knows of one agent in a run.

    `signed` is its order as it is said. `report` is its last one, `events` those that wait for
    others, `at` the last one that was taken and `merged` the last one that was told. `heard_s` is
    when it was heard last.
    """

    part: Part
    order: dict[str, Any]
    heard_s: float
    signed: dict[str, str] = field(default_factory=dict)
    said_s: float = 0.0
    pause_s: float = _AGAIN_S[0]
    report: Report | None = None
    events: deque[tuple[Mark, EventBody, Marks]] = field(default_factory=deque)
    at: Mark = (0, 0)
    merged: Mark = (0, 0)


class Company:
    """The agents of a site for one run; see `cobweb.operations.Company`.

    `agents` are the hosts that are owners, each of itself.
    """

    def __init__(self, agents: Iterable[str], wire: Wire, place: Address) -> None:
        from cobweb.operations import Part as Share

        self._agents = {host: host for host in agents}
        self._wire = wire
        self._seed = place.keys / f"{COORDINATOR}.seed"
        self.part = Share(
            owner=COORDINATOR,
            lender=COORDINATOR,
            transport=wire,
            address=str(place),
            owners=self._agents,
        )

    @contextmanager
    def at_work(
        self, part: Any, run: Any, desired: Any, orders: Any, store: Any
    ) -> Iterator[Fellows]:
        """Have the agents bring about what is desired, for as long as the context lasts.

        Where only some objects are moved, those of their hosts do, and no others.
        """
        asked = self._asked(desired)
        parts = Parts(
            json.loads(desired.whole().text()),
            self._agents,
            desired.hosts,
            desired.groups,
            name=desired.name,
            budgets=orders.exceptions.budgets,
        )
        common = {
            "epoch": part.incarnation,
            "run": run.id,
            "generation": part.generation,
            "goal": part.goal,
            "mark": store.site_id(),
            "open": True,
            "number": 1,
            "orders": {**orders_data(orders), "only": desired.only and sorted(desired.only)},
        }
        made = {it: parts.of(it) for it in asked}
        fellows = Fellows(self._wire, made, common, store, self._seed)
        try:
            fellows.say()
            yield fellows
        finally:
            fellows.end()

    def _asked(self, desired: Any) -> list[str]:
        """Return the agents of a run; UsageError where one would leave changes of its host out."""
        if desired.only is None:
            return sorted(self._agents)
        asked = sorted(self._agents.keys() & {host_of(it) for it in desired.only})
        if left := [it for it in asked if it not in desired.chosen]:
            message = f"other changes are pending on hosts with agents, as on {left[0]}"
            raise UsageError(message, hint="`cobweb apply` brings all of them about")
        return asked


def company_of(site: Any, desired: Any, orders: Any) -> Company | None:
    """Return the agents that a run has to do with; None where it has none.

    UsageError for a run of a part of the site that has to do with agents.
    """
    from cobweb_plugins.agents import Nats
    from cobweb_plugins.agents._section import NAME

    if NAME not in site.evaluated.sections:
        return None
    hosts = agents_of(site, desired)
    if not hosts:
        return None
    exceptions = orders.exceptions
    if desired.limit is not None or exceptions.renew:
        message = f"a part of a site that reaches hosts with agents ({hosts[0]}) is not applied yet"
        raise UsageError(message, hint="apply all of it, or `--only` some objects")
    place = place_of(site)
    wire = Wire(
        lambda wake: Nats().connect(str(place), COORDINATOR, wake), COORDINATOR, is_kept=False
    )
    return Company(hosts, wire, place)


def place_of(site: Any) -> Address:
    """Return where agents are met; CobwebError where the coordinator's key is elsewhere."""
    from cobweb_plugins.agents._section import NAME, keys_of, servers_of

    servers = servers_of(site.evaluated.sections[NAME])
    places = tuple(f"{it.address}:{it.port}" for it in servers)
    place = Address(servers=places, keys=keys_of(site.evaluated.dir))
    if not (place.keys / f"{COORDINATOR}.seed").exists():
        hint = "copy the folder from where `cobweb agents up` was called"
        raise CobwebError(f"{place.keys}: the coordinator's key is not here", hint=hint)
    return place


def agents_of(site: Any, desired: Any) -> list[str]:
    """Return the hosts with objects that have agents, once `agents up` has made keys."""
    asked = hosts_with_keys(site) & set(desired.graph.hosts())
    return sorted(asked - stays(site, desired).keys()) if asked else []


def hosts_with_keys(site: Any) -> set[str]:
    """Return the hosts that may have agents: the section names them, and they have keys."""
    from cobweb_plugins.agents._section import NAME, OWNER

    decisions = site.decided.get(NAME)
    keys = {} if decisions is None else decisions.by_key
    if f"{OWNER}{COORDINATOR}" not in keys:
        return set()
    on = site.evaluated.sections[NAME].get("on", "all:!all")
    return {it for it in site.evaluated.select(on) if f"{OWNER}{it}" in keys}


def stays(site: Any, desired: Any) -> Mapping[str, str]:
    """Return the hosts that stay the coordinator's, whatever `on` says, and why."""
    from cobweb_plugins.agents._section import NAME, servers_of

    servers = servers_of(site.evaluated.sections[NAME])
    return {**kept_back(desired), **{it.host: "a NATS server is on it" for it in servers}}


def orders_data(orders: Any) -> dict[str, Any]:
    """Return what agents have to know of the orders of a run."""
    may = orders.may_go_out
    return {
        "refresh": str(orders.refresh),
        "parallel": orders.parallel,
        "timeout_s": orders.timeout_s,
        "seed": orders.seed,
        "verbosity": orders.verbosity,
        "returns": orders.returns,
        "trust_s": orders.trust_s,
        "new_canary": orders.exceptions.new_canary,
        "may_go_out": None if may is None else sorted(may),
    }


class Fellows:
    """The agents in one run; see `cobweb.operations.Fellows`. Names are those of owners."""

    def __init__(
        self,
        wire: Wire,
        parts: Mapping[str, Part],
        order: Mapping[str, Any],
        store: Any,
        seed: Path,
    ) -> None:
        self._wire, self._store, self._seed = wire, store, seed
        self._epoch, self._open = order["epoch"], True
        now = time.monotonic()
        self._agents: dict[str, Agent] = {}
        for name, part in parts.items():
            asked = dict(order["orders"])
            for key in ("may_go_out", "only"):
                if (cobs := asked[key]) is not None:
                    asked[key] = [it for it in cobs if it in part.cobs]
            stands = stand_of(part.cobs, store.states_of(part.cobs))
            mine = {**order, "part": part.digest, "orders": asked, "stands": stands, "nonce": ""}
            self._agents[name] = Agent(part, mine, now)
        self._joined = wire.joined
        self._over: set[tuple[str, str]] = set()
        wire.may_hear = self._may_hear

    # --- as `cobweb.operations.Fellows`

    def news(self) -> list[EventBody]:
        """Return what they have told since the last call, causes first."""
        self._read()
        self.say()
        told = list(self._merged())
        if told and self._wire.has_held():
            self._wire.wake()
        return told

    def at_rest(self) -> bool:
        """Say whether nothing will happen there but by what this owner begins."""
        live = {name: it for name, it in self._agents.items() if not self._is_silent(it)}
        if any(not self._is_idle(it) for it in live.values()) or self._wire.has_held():
            return False
        if not self._open:
            return True
        said, heard = self._wire.digests()
        reports = {name: it.report for name, it in live.items() if it.report}
        words = {it: (own.said, own.heard) for it, own in reports.items() if own.stage == "work"}
        words[COORDINATOR] = (said, heard)
        return all(
            words[other][1].get(name) == digest
            for name, (all_said, _) in words.items()
            for other, digest in all_said.items()
            if other in words
        )

    def halt(self) -> None:
        """Have them begin nothing new."""
        if self._open:
            self._open = False
            for it in self._agents.values():
                it.order |= {"open": False, "number": 2}
                it.signed.clear()
                it.said_s, it.pause_s = 0.0, _AGAIN_S[0]
            self.say()

    def waits(self) -> Sequence[Mapping[str, Any]]:
        """Return why objects are not where they should be."""
        found: list[Mapping[str, Any]] = []
        for name, it in sorted(self._agents.items()):
            report = it.report
            if report is not None and report.settled and self._is_idle(it):
                continue
            if report is None or self._is_silent(it):
                found += _untold(it.part, self._store, f"the agent of {name} is silent")
            elif report.stage == "refused":
                found += _untold(it.part, self._store, f"its agent: {report.message}")
            else:
                found += report.waits
        return joined(found)

    # --- the run

    def say(self) -> None:
        """Say orders again that were not answered."""
        now = time.monotonic()
        if self._wire.joined != self._joined:  # who came back before this owner was not heard
            self._joined = self._wire.joined
            for it in self._agents.values():
                it.said_s, it.pause_s, it.report = 0.0, _AGAIN_S[0], None
        for name, it in self._agents.items():
            if now - it.said_s >= it.pause_s and not self._answered(it):
                it.said_s, it.pause_s = now, min(2 * it.pause_s, _AGAIN_S[1])
                if not it.signed:
                    text = canonical(it.order)
                    made = signature(self._seed, text)
                    it.signed |= {"order": text.decode(), "signature": made}
                self._wire.tell(name, "order", **it.signed)

    def end(self) -> None:
        """Close all orders, and wait a moment until everybody who can has answered."""
        self.halt()
        stirred = Event()
        self._wire.connect("", "", stirred.set)
        until = time.monotonic() + _END_S
        while time.monotonic() < until:
            live = [it for it in self._agents.values() if not self._is_silent(it)]
            if all(map(self._answered, live)):
                return
            stirred.wait(_AGAIN_S[0])
            stirred.clear()
            self._wire.take()
            self._read()
            self.say()

    def _answered(self, it: Agent) -> bool:
        """Say whether the last report of an agent is one on its order as it is now."""
        return it.report is not None and (self._open or it.report.stage in ("ended", "refused"))

    def _is_idle(self, it: Agent) -> bool:
        """Say whether an agent has told that it has nothing to do, and all of its events."""
        report = it.report
        if report is None or it.events or it.merged < report.at:
            return False
        ends = report.stage == ("work" if self._open else "ended")  # who ends by itself goes away
        return (report.idle and ends) or report.stage == "refused"

    def _is_silent(self, it: Agent) -> bool:
        return time.monotonic() - it.heard_s > SILENT_S

    def _may_hear(self, marks: Marks) -> bool:
        known = ((self._agents[it], mark) for it, mark in marks.items() if it in self._agents)
        return all(it.merged >= mark or self._is_silent(it) for it, mark in known)

    # --- papers

    def _read(self) -> None:
        while self._wire.papers:
            sender, paper = self._wire.papers.popleft()
            it = self._agents.get(sender)
            if it is None:
                continue
            it.heard_s = time.monotonic()
            try:
                if paper["paper"] == "get":
                    self._answer(sender, it, paper)
                elif paper["paper"] == "here":
                    it.order["nonce"] = str(paper["nonce"])
                    it.signed.clear()
                    it.said_s, it.pause_s, it.report = 0.0, _AGAIN_S[0], None
                elif paper["paper"] == "report" and paper["epoch"] == self._epoch:
                    self._take(sender, it, report_of(paper, it.part.cobs.keys()))
            except NONSENSE as error:
                _LOG.warning("a paper of %s is none: %r", sender, error)

    def _answer(self, sender: str, it: Agent, paper: Mapping[str, Any]) -> None:
        """Send a slice of a part, a file or a tree, of those that belong to the asker's part."""
        digest, at = str(paper["digest"]), int(paper["offset"])
        data: bytes | None = None
        if digest == it.part.digest:
            data = it.part.data
        elif digest in it.part.blobs:
            data = self._store.file(digest)
        if data is not None:
            text = base64.b64encode(data[at : at + SLICE]).decode()
            size = {"size": len(data), "offset": at, "data": text}
            self._wire.tell(sender, "blob", digest=digest, **size)

    def _take(self, sender: str, it: Agent, report: Report) -> None:
        """Take a report: events that follow those that were taken, and how all stands."""
        before = it.at
        for mark, event, marks in report.events:
            if mark <= it.at:
                continue
            if mark != (it.at[0], it.at[1] + 1) and (mark[0] == it.at[0] or mark[1] != 1):
                break  # one before it was lost: all of them come again
            it.at = mark
            it.events.append((mark, event, marks))
        it.report = report
        if it.at != before or it.at != report.acked:
            self._wire.tell(sender, "seen", epoch=self._epoch, at=it.at)

    def _merged(self) -> Iterator[EventBody]:
        """Yield the events whose causes were told."""
        moved = True
        while moved:
            moved = False
            for it in self._agents.values():
                while it.events and self._may_hear(it.events[0][2]):
                    it.merged, event, _ = it.events.popleft()
                    moved = True
                    if not self._is_double(event):
                        yield event

    def _is_double(self, event: EventBody) -> bool:
        """Say whether an event is told by the other owner, too: both tell of a lock that ends."""
        kind, data = event
        if kind not in ("lock.grant", "lock.release"):
            return False
        lock = (data["cob"], data["holder"])
        if not all(host_of(CobId(it)) in self._agents for it in lock):
            return kind == "lock.release"  # the coordinator's own kernel tells it
        was_over = lock in self._over
        (self._over.discard if kind == "lock.grant" else self._over.add)(lock)
        return was_over and kind == "lock.release"


def _untold(part: Part, store: Any, why: str) -> Iterator[Mapping[str, Any]]:
    """Yield that nothing is known of the objects of an agent but what the journal says."""
    records = store.states_of(part.cobs)
    for cob in sorted(part.cobs):
        state = records[cob].state if cob in records else "unknown"
        link = {"cob": cob, "kind": "unreachable", "on": None, "state": "", "detail": why}
        yield {"cob": cob, "state": state, "message": "", "chain": [{**link, "together": []}]}


def joined(waits: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return waits whose chains go on where that of another owner's object does."""
    by_cob = {it["cob"]: it for it in waits}
    made: list[Mapping[str, Any]] = []
    for wait in by_cob.values():
        chain = list(wait["chain"])
        seen = {link["cob"] for link in chain}
        while chain and (on := chain[-1]["on"]) in by_cob and on not in seen:
            more = [link for link in by_cob[on]["chain"] if link["cob"] not in seen]
            seen.update(link["cob"] for link in more)
            chain += more
            if not more:
                break
        made.append({**wait, "chain": chain})
    return made
