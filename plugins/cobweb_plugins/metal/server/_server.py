"""The boot server itself: the book, the power, and one worker for each machine.

A worker does what the phase of its machine asks for, and waits for news or the deadline. What it
does may be done twice, so that a server that was killed goes on from the book alone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobweb.errors import CobwebError
from cobweb_plugins.metal.server import IMAGES
from cobweb_plugins.metal.server import _life as life
from cobweb_plugins.metal.server._book import Book
from cobweb_plugins.metal.server._discovery import Discovery
from cobweb_plugins.metal.server._images import Images
from cobweb_plugins.metal.server._network import LEASE_S, Network, host_keys
from cobweb_plugins.metal.server._records import (
    ACTIVE,
    BOOTING,
    MIXED,
    OFF,
    PRIMING,
    STARTING,
    STOPPING,
    TRAMPOLINE,
    UNKNOWN,
    Goal,
    Record,
)
from cobweb_plugins.metal.server._switch import PowerError, Switch

_log = logging.getLogger("cobweb.metal")

_RETRY_S = 1.0
_LOOK_S = 45.0
"""Less than coordinators wait for an answer."""
_WATCH_S = 10.0
_DHCP_S = 1.0
_TELL_S = 10.0
_PROBE_S = 0.3
_PROBE_LIMIT_S = 2.0
_CLEAR_LIMIT_S = 0.5
"""How long somebody else may take to answer; where nobody has the address nothing comes back."""


class RefusedError(CobwebError):
    """What is asked for cannot be; nothing was changed. `kind` is for programs."""

    def __init__(self, message: str, *, kind: str = "refused", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class BootServer:
    """Owns the life of machines; `now` gives seconds since the epoch, `url` is its own.

    Without a `network` nothing gives names and addresses to machines, and nothing is told to it.
    """

    def __init__(
        self, folder: Path, url: str, now: Callable[[], float], network: Network | None = None
    ) -> None:
        self.url = url
        self.folder = folder
        self.network = network
        self.discovery = Discovery(folder, now())
        self.now = now
        self.book = Book(folder)
        self.images = Images(folder / IMAGES)
        self.switch = Switch(folder / "power", url)
        self._news: dict[str, asyncio.Event] = {}
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._turned_on: dict[str, float] = {}
        self._watched: dict[str, float] = {}
        self._served: dict[str, tuple[float, str]] = {}
        self._closing: asyncio.TimerHandle | None = None
        self._teller: asyncio.Task[None] | None = None
        self.hindrances: dict[str, str] = {}

    def start(self) -> None:
        """Go on with all machines of the book."""
        for record in self.book:
            can_stop = self.switch.can(record, "off")
            self.put(life.restarted(record, self.now(), can_stop=can_stop))
            self._look_after(record.id)
        if self.network is not None:
            self._close_later()
            self._teller = asyncio.create_task(self._tell_again())

    async def stop(self) -> None:
        """End the workers; the book has all that they know."""
        workers = [*self._workers.values(), *([self._teller] if self._teller else [])]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self.book.close()

    def put(self, record: Record) -> bool:
        """Keep what became of a machine, and say whether that is something new."""
        before = self.book.get(record.id)
        if record == before:
            return False
        self.book.write(record)
        if before is None or (before.phase, before.failure) != (record.phase, record.failure):
            _log.info(": ".join(it for it in (record.id, record.phase, record.failure) if it))
        self._news.pop(record.id, asyncio.Event()).set()
        return True

    def tell(self) -> None:
        """Have the network know what machines get now."""
        if self.network is not None:
            self.network.tell(self.book, is_open=bool(self.discovery.until))

    async def _tell_again(self) -> None:
        """Mend what becomes of the files that the network is told by: leases go by them."""
        while True:
            try:
                self.tell()
            except OSError as error:  # a full disk, say
                _log.info("the network cannot be told of machines: %s", error)
            await asyncio.sleep(_TELL_S)

    def news(self, id_: str) -> asyncio.Event:
        """Return what is set when a machine changes next."""
        return self._news.setdefault(id_, asyncio.Event())

    def with_mac(self, mac: str) -> Record | None:
        """Return the machine that has a MAC address, in lower case."""
        return next((it for it in self.book if it.mac == mac), None)

    # --- what coordinators ask for

    def aim(self, id_: str, goal: Goal, said: Mapping[str, Any]) -> Record:
        """Send a machine to a goal; `said` has key, mac and power. RefusedError where it cannot."""
        site, epoch, _ = said["key"].rsplit("/", 2)
        record = self.book.get(id_) or self._fresh(id_, said)
        self._refuse_stale(record, site, int(epoch))
        had = self.with_mac(said["mac"])
        if had and had.vcluster != record.vcluster:  # the same machine, by another id
            record = replace(record, vcluster=MIXED)
        self._refuse_taken(record, goal, said["mac"])
        if goal.image and self.images.find(goal.digest) is None:
            raise RefusedError(f"the boot server has no image {goal.digest[:12]}")
        if goal.state != OFF:
            self._refuse_without_trampoline()
        record = replace(record, mac=said["mac"], power=said["power"], site=site, epoch=int(epoch))
        self.put(life.aimed(record, goal, said["key"], self.now()))
        self._look_after(id_)
        found = self.book.get(id_)
        assert found is not None
        return found

    def _fresh(self, id_: str, said: Mapping[str, Any]) -> Record:
        """Return a machine that nobody has asked for before: it may run anything."""
        record = Record(id=id_, mac=said["mac"], power=said["power"], since=self.now())
        return replace(record, phase=UNKNOWN) if self.switch.can(record, "off") else record

    def _refuse_stale(self, record: Record, site: str, epoch: int) -> None:
        newest = max((it.epoch for it in self.book if it.site == site), default=0)
        if epoch < newest:
            message = f"a newer run of the site has given orders (epoch {newest}, not {epoch})"
            raise RefusedError(message, kind="stale")
        free = record.over and record.phase == OFF and record.goal.state == OFF
        if record.site not in ("", site) and not free:
            message = f"{record.id} is used by the site {record.site}"
            raise RefusedError(message, kind="stale", hint="it is free once that site has it off")

    def _refuse_without_trampoline(self) -> None:
        missing = self.network.missing() if self.network else ()
        if missing:
            hint = "make it with `cobweb metal build-trampoline`"
            raise RefusedError(f"there is no trampoline: {missing[0]} is missing", hint=hint)

    def _refuse_taken(self, record: Record, goal: Goal, mac: str) -> None:
        """Refuse a MAC, name or address that another machine has; one that is gone has none."""
        others = [it for it in self.book if it.id != record.id]
        for other in others:
            if other.mac == mac and not (other.over and other.phase == OFF):
                raise RefusedError(f"{other.id} has the MAC {mac} as well", kind="taken")
            both = self._shared(other, goal) if goal.state == ACTIVE else ""
            if both:
                raise RefusedError(f"{other.id} still has the {both}", kind="taken")
        for other in others:
            if other.mac == mac:
                self.book.forget(other.id)

    def _shared(self, other: Record, goal: Goal) -> str:
        """Return which name or address of a goal another machine has, or is to have; "" for none.

        One that is off has them until its lease is over: if it runs all the same, it renews it.
        """
        wanted = {("name", goal.name), ("address", goal.address)}
        has = set((other.lent or {}).items()) & wanted
        if has and other.phase == OFF and not self._is_leased(other):
            self.put(replace(other, lent=None))
            has = set()
        if other.goal.state == ACTIVE and not other.over:
            has |= {("name", other.goal.name), ("address", other.goal.address)} & wanted
        return " ".join(min(has)) if has else ""

    def _is_leased(self, record: Record) -> bool:
        if self.network is None or record.lent is None:
            return False
        return self.network.lent_until(record.mac, record.lent["address"]) > self.now()

    def by_hand(self, id_: str, action: str, power: Mapping[str, Any] | None) -> Record:
        """Switch a machine off, start its system again, or take a person's word that it is off.

        `power` has the settings that count from now on, None for those that are known.
        """
        record = self.book.get(id_)
        if record is None:
            raise RefusedError(f"there is no machine {id_}", kind="unknown")
        record = replace(record, power=power or record.power)
        if action == "done":
            if record.phase not in (STOPPING, UNKNOWN) or self.switch.can(record, "off"):
                raise RefusedError(f"nobody was asked to switch {id_} off")
            if record.phase == STOPPING:
                record = life.switched_off(record, self.now())
            else:
                record = life.seen(record, "off", self.now())
        elif action == "reset":
            if record.phase != ACTIVE:
                raise RefusedError(f"{id_} is {record.phase}, and runs no system")
            record = life.again(record, self.now())
        else:
            if action == "scan":
                self._refuse_scan(record)
            state = TRAMPOLINE if action == "scan" else OFF
            goal = Goal(state=state, limits=record.goal.limits)
            record = life.aimed(record, goal, f"by hand {self.now()}", self.now())
        self.put(record)
        return self.book.get(id_) or record

    def _refuse_scan(self, record: Record) -> None:
        if record.phase not in (OFF, TRAMPOLINE) or not record.over:
            hint = "it has to be off, or on the trampoline"
            raise RefusedError(f"{record.id} is {record.phase}", hint=hint)
        self._refuse_without_trampoline()

    async def look(self, record: Record, port: int) -> tuple[Record, str, bool | None]:
        """Ask a machine's power and, where it is active, its system; return what is known then."""
        try:
            power = await asyncio.wait_for(self.switch.status(record), _LOOK_S)
        except TimeoutError:  # another command of its power may be at work for long
            power = "unknown"
        self._see(record, power)
        if record.phase == OFF and record.lent and self.network is not None:
            heard_s = self.network.lent_until(record.mac, record.lent["address"]) - LEASE_S
            if heard_s > record.since + 1:  # its lease knows whole seconds
                self._see(record, "on", "it has renewed its lease though its power was off")
        current = self.book.get(record.id) or record
        address = current.runs.address if current.runs else ""
        ready = await _answers(address, port) if current.phase == ACTIVE else None
        return self.book.get(record.id) or current, power, ready

    def _see(self, before: Record, power: str, word: str = "") -> None:
        """Take what power said of a machine, if that is where it was when it was asked."""
        record = self.book.get(before.id)
        if record is None or not self._is_there(before):
            return
        if record.phase != STARTING or self._turned_on.get(record.id) == record.since:
            self.put(life.seen(record, power, self.now(), word))

    def _is_there(self, before: Record) -> bool:
        """Say whether a machine is still where it was before something was awaited."""
        record = self.book.get(before.id)
        return record is not None and (record.phase, record.since) == (before.phase, before.since)

    def asks(self, record: Record) -> str:
        """Return what a person is to do, "" for nothing."""
        can = self.switch.can
        if record.phase == STOPPING and not can(record, "off"):
            return f"switch {record.id} off, then: cobweb metal power {record.id} done"
        if record.phase == STARTING and not can(record, "on"):
            return f"switch {record.id} on; it has to boot from the network"
        return ""

    # --- what machines say

    def boot(self, mac: str, peer: str) -> tuple[Record, str] | None:
        """Return what the firmware of a machine is told; None where nobody knows it."""
        record = self.with_mac(mac)
        if record is None:
            return None
        token = f"{record.id}.{secrets.token_urlsafe(24)}"
        record, told = life.asked_to_boot(record, peer, token, self.now())
        self.put(record)
        return record, told

    def discover(self, seconds: float) -> None:
        """Look at machines that nobody knows for some seconds from now on, 0 for no longer."""
        if self.network is None:
            hint = "give `network` of the section `metal` an `interface`"
            raise RefusedError("this boot server serves no network", hint=hint)
        if seconds:
            self._refuse_without_trampoline()
        self.discovery.open(self.now() + seconds if seconds else 0.0)
        self._close_later()
        self.tell()

    def _close_later(self) -> None:
        """End discovery when its time is over, if it is open."""
        if self._closing is not None:
            self._closing.cancel()
        left_s = max(0.0, self.discovery.until - self.now())
        loop, is_open = asyncio.get_running_loop(), self.discovery.until
        self._closing = loop.call_later(left_s, self.discover, 0) if is_open else None

    def found(self, mac: str, hardware: Mapping[str, Any]) -> None:
        """Keep what a machine is that nobody knows."""
        _log.info("found %s", mac)
        self.discovery.keep(mac, hardware, self.now())

    def speaker(self, token: str, peer: str) -> Record:
        """Return the machine that speaks with a token; NotCurrentError where nobody does."""
        record = self.book.get(token.partition(".")[0])
        if record is None:
            raise life.NotCurrentError
        try:
            return life.spoken(record, (token, peer))
        except life.NotCurrentError:
            self.put(life.spoken_late(record, token, self.now()))
            raise

    # --- what is done

    def _look_after(self, id_: str) -> None:
        if id_ not in self._workers or self._workers[id_].done():
            self._workers[id_] = asyncio.create_task(self._work(id_))

    async def _work(self, id_: str) -> None:
        """Do what a machine's phase asks for, until nobody keeps a record of it."""
        while (record := self.book.get(id_)) is not None:
            news = self.news(id_)
            try:
                said = self.hindrances.get(id_) or self.asks(record)
                if self.put(life.overdue(record, self.now(), said)):
                    self.hindrances.pop(id_, None)
                    continue
                left_s = None if record.deadline is None else record.deadline - self.now()
                async with asyncio.timeout(left_s):
                    pause_s = await self._act(record)
                self.hindrances.pop(id_, None)
            except Exception as error:  # noqa: BLE001 - the other machines go on, this one later
                if not isinstance(error, (PowerError, TimeoutError)):
                    _log.exception("%s: %s", id_, record.phase)
                self._note(record, str(error))
                pause_s = _RETRY_S
            if record.deadline is not None:
                left_s = max(0.0, record.deadline - self.now())
                pause_s = left_s if pause_s is None else min(pause_s, left_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), pause_s)

    def _note(self, record: Record, hindrance: str) -> None:
        """Remember what was in vain; without words it is time that ran out at a power command."""
        if not hindrance and record.phase in (STARTING, STOPPING):
            hindrance = "its power command was still at work"
        if hindrance and self.hindrances.get(record.id) != hindrance:
            _log.info("%s: %s, in vain: %s", record.id, record.phase, hindrance)
            self.hindrances[record.id] = hindrance

    async def _act(self, record: Record) -> float | None:
        """Do what a phase asks for; return after how many seconds again, None: at news only."""
        if record.phase == STOPPING and self.switch.can(record, "off"):
            # Also where its status is off: one that was just switched on may say so for a while.
            await self.switch.turn(record, "off")
            self._apply(record.id, life.switched_off)
            self.tell()
        elif record.phase == STARTING:
            self.tell()
            return await self._turn_on(record) if self.switch.can(record, "on") else None
        elif record.phase == PRIMING:
            return await self._watch(record, _WATCH_S)
        elif record.phase == BOOTING:
            await self._boot(record)
            return await self._watch(record, _PROBE_S)
        return None

    async def _turn_on(self, record: Record) -> float:
        """Switch a machine on, unless it could not get its orders; return a pause.

        Without an answer of DHCP a firmware boots from the disk what was to go: a machine is not
        switched on without it, and is off again if it goes before the trampoline has spoken.
        """
        lack = await self._dhcp_lack(record, self.network) if self.network else ""
        if lack and self._is_there(record):
            self._apply(record.id, lambda it, now: life.failed(it, lack, now))
            return 0.0
        if self._turned_on.get(record.id) != record.since:
            await self.switch.turn(record, "on")
            self._turned_on[record.id] = record.since
        return await self._watch(record, _WATCH_S if self.network is None else _DHCP_S)

    async def _dhcp_lack(self, record: Record, network: Network) -> str:
        """Return why a machine cannot get its orders, "" where it can."""
        process = network.process()
        since, first = self._served.get(record.id, (0.0, ""))
        if since != record.since:
            first = process
            self._served[record.id] = (record.since, process)
        if not process or not await network.answers():
            return "the DHCP server does not answer"
        return "" if process == first else "the DHCP server was away while it started"

    async def _boot(self, record: Record) -> None:
        """See whether the system of a machine is there; before its boot, that nobody else is."""
        address, port = record.goal.address, record.goal.port
        if self.network is not None:
            limit_s = _PROBE_LIMIT_S if record.boot.is_clear else _CLEAR_LIMIT_S
            keys = await host_keys(address, port, limit_s)
        else:
            keys = () if await _answers(address, port) else None
        if keys is not None:
            self._apply(record.id, lambda it, now: life.answered(it, now, keys))
            self.tell()
        elif not record.boot.is_clear:
            self.tell()
            # What answers has read what it was told: the order to boot may not overtake that.
            if self.network is None or await self.network.answers():
                self._apply(record.id, life.cleared)

    async def _watch(self, record: Record, pause_s: float) -> float:
        """See now and then that a machine on its way has not lost its power; return a pause."""
        last = self._watched.get(record.id, record.since)
        if self.now() - max(last, record.since) >= _WATCH_S:
            self._watched[record.id] = self.now()
            self._see(record, await self.switch.status(record))
        return pause_s

    def _apply(self, id_: str, change: Callable[[Record, float], Record]) -> None:
        record = self.book.get(id_)
        if record is not None:
            self.put(change(record, self.now()))


async def _answers(address: str, port: int) -> bool:
    """Say whether the system of a machine accepts a connection where it is to be ready."""
    try:
        connection = asyncio.open_connection(address, port)
        _, writer = await asyncio.wait_for(connection, _PROBE_LIMIT_S)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
