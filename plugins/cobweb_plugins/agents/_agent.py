"""The agent of one host: owns its objects, without a checkout, for as long as an order is open.

Theory of operation. An agent at rest holds a link and nothing else. An open order names a part by
its digest; what the agent has not got of it, it asks for. The part becomes a small site of its own
below the agent's folder, with a state database that stays: the agent's journal. Then the agent
opens a kernel on it, as any owner does, and steps it until the order is closed. It begins nothing
new when the order is closed, when it has lost its server, or was away itself (stopped, or starved):
only the coordinator can say whether the order is open still.
"""

from __future__ import annotations

import base64
import fcntl
import json
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import cobweb
from cobweb.errors import CobwebError
from cobweb.model import CobId, host_of
from cobweb_plugins.agents._address import address_of
from cobweb_plugins.agents._commands import Commands
from cobweb_plugins.agents._part import COORDINATOR, FORMAT, canonical, digest_of, stand_of
from cobweb_plugins.agents._signature import is_signed
from cobweb_plugins.agents._wire import LONGEST, NONSENSE, Mark, Marks, Wire

AWAY_S = 10.0
"""After how long without a step an agent takes itself to have been away."""

REPORT_S = 2.0
"""How often a report goes out at least while an order is open."""

_QUIET_S = 30.0
"""After how long at rest a process that has done something begins anew."""

_ASK_S = 1.0
"""After how long what was asked for is asked for again."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""It goes on while the machine sleeps."""

_OWN = ("version", "run.start", "run.end", "generation.switch")
"""Events of the agent's own run, which are none of the whole one's."""

_LOG = logging.getLogger(__name__)


class Agent:
    """The agent of the host `name`; `folder` is where it keeps all that it has.

    `pinned` is the public key of who may order.
    """

    def __init__(
        self, name: str, folder: Path, wire: Wire, pinned: str, say: Callable[[str], None]
    ) -> None:
        self._name, self._folder, self._wire, self._say = name, folder, wire, say
        self._pinned = pinned
        self._order: dict[str, Any] | None = None
        self._stirred, self._ended = Event(), Event()
        self._is_ending = False
        self._nonce = secrets.token_hex(16)
        self._done: dict[str, Any] = {}
        self._outbox: list[tuple[Mark, list[Any]]] = []
        self._acked: Mark = (0, 0)
        self._sent, self._sent_s = 0, 0.0
        self._last: dict[str, Any] = {}
        self._blobs: dict[str, bytearray] = {}
        self._sizes: dict[str, int] = {}

    def end(self, *_signal: object) -> None:
        """Begin nothing new, and end when what is at work has; safe in a signal handler."""
        self._is_ending = True
        self._stirred.set()
        self._wire.wake()

    def run(self) -> bool:
        """Do what orders say; return whether it was ended, else it is to be started anew.

        CobwebError where no server lets this agent in.
        """
        self._wire.open()
        self._wire.connect("", "", self._stirred.set)
        self._ask()
        Thread(target=self._beat, daemon=True).start()
        commands = Commands(self._pinned, self._wire.room)
        self._say(f"{self._name} is there")
        joined = self._wire.joined
        while not self._is_ending:
            self._wire.take()
            self._read()
            if self._wire.joined != joined:
                joined = self._wire.joined
                self._ask()
            if self._is_open() and self._order != self._done:
                self._obey()
                self._wire.connect("", "", self._stirred.set)
                continue
            if self._last and not self._sent_s:
                self._send_report()
            is_quiet = not self._stirred.wait(_QUIET_S)
            self._stirred.clear()
            if is_quiet and self._last and commands.is_idle():
                break  # what a run has loaded would stay in memory
        self._ended.set()
        commands.close()
        self._wire.shut()
        return self._is_ending

    def _ask(self) -> None:
        """Ask for an order that is of now: what is sent again by others has another number."""
        self._wire.tell(COORDINATOR, "here", nonce=self._nonce)

    def _beat(self) -> None:
        """Tell the coordinator again and again that this agent lives, however busy it is."""
        while not self._ended.wait(REPORT_S):
            if self._is_open():
                self._wire.tell(COORDINATOR, "alive")

    # --- papers

    def _read(self) -> None:
        """Take what the coordinator has said; what is no paper of it is left alone."""
        while self._wire.papers:
            sender, paper = self._wire.papers.popleft()
            if sender != COORDINATOR:
                continue
            try:
                self._take(paper)
            except CobwebError as error:
                self._say(str(error))
            except NONSENSE as error:
                _LOG.warning("a paper of the coordinator is none: %r", error)

    def _take(self, paper: Mapping[str, Any]) -> None:
        kind = paper["paper"]
        if kind == "order":
            text = paper["order"].encode()
            if is_signed(self._pinned, text, paper["signature"]):
                self._take_order(json.loads(text))
        elif kind == "seen" and paper["epoch"] == self._last.get("epoch"):
            self._take_seen((int(paper["at"][0]), int(paper["at"][1])))
        elif kind == "blob":
            self._take_slice(paper)

    def _take_order(self, order: dict[str, Any]) -> None:
        stamp = [order["epoch"], order["number"]]
        if stamp < self._newest():
            self._say(f"refused: an order of {order['run']} that is older than the last one")
            return
        if order["open"] and order != self._done and order["nonce"] != self._nonce:
            self._ask()
            return
        if stamp > self._newest():
            _write(self._folder / "order", canonical(stamp))
        if self._last.get("epoch") == order["epoch"]:
            self._sent_s = 0.0  # it has not heard the last report
        self._order = order

    def _take_seen(self, at: Mark) -> None:
        if at > self._acked:
            self._acked = at
            self._outbox = [it for it in self._outbox if it[0] > at]
            self._sent_s = 0.0 if self._outbox else self._sent_s

    def _take_slice(self, paper: Mapping[str, Any]) -> None:
        digest, data = str(paper["digest"]), base64.b64decode(paper["data"])
        got = self._blobs.get(digest)
        if got is not None and int(paper["offset"]) == len(got):
            got += data
            self._sizes[digest] = int(paper["size"])

    def _is_open(self) -> bool:
        return self._order is not None and bool(self._order["open"])

    def _newest(self) -> list[int]:
        """Return epoch and number of the newest order so far, whichever process has seen it."""
        with suppress(OSError, ValueError):
            return list(json.loads((self._folder / "order").read_text(encoding="utf-8")))
        return [0, 0]

    # --- one order

    def _obey(self) -> None:
        """Do what an open order says until it is closed, or another one has come."""
        assert self._order is not None
        order = self._done = self._order
        self._nonce = secrets.token_hex(16)  # it is good for one order
        self._begin_life(order)
        try:
            part = self._part_of(order)
            if part is not None:
                self._work(order, part)
        except CobwebError as error:
            self._say(f"refused: {error}")
            self._last |= {"stage": "refused", "idle": True, "message": str(error)}
            self._send_report()

    def _begin_life(self, order: Mapping[str, Any]) -> None:
        """Note a new life for an order; no event of it was told yet."""
        self._last = {"epoch": order["epoch"], "stage": "fetch", "idle": False, "settled": False}
        self._last |= {"waits": [], "said": {}, "heard": {}, "message": ""}
        last = max([self._wire.at[0], *map(int, self._lives())])
        self._wire.begin(max(time.time_ns() // 1_000_000, last + 1))
        self._outbox, self._acked, self._sent = [], (0, 0), 0
        self._send_report()

    def _part_of(self, order: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the part that an order names, once all of it is here; None if it was closed."""
        data = self._fetched(order, order["part"])
        if data is None:
            return None
        part: dict[str, Any] = json.loads(data)
        if part["format"] != FORMAT or part["owner"] != self._name:
            message = f"the part is one of format {part['format']} for {part['owner']}"
            raise CobwebError(
                message, hint=f"Cobweb {cobweb.__version__} of {self._name} knows {FORMAT}"
            )
        for digest in part["blobs"]:
            if self._fetched(order, digest) is None:
                return None
        for path in (self._folder / "blobs").iterdir():  # what no part has any more
            if path.name not in (*part["blobs"], order["part"]):
                path.unlink()
        return part

    def _fetched(self, order: Mapping[str, Any], digest: str) -> bytes | None:
        """Return the bytes of a digest, asked for if they are not here; None if it was closed."""
        place = self._folder / "blobs" / digest
        with suppress(OSError):
            data = place.read_bytes()
            if digest_of(data) == digest:
                return data
        got = self._blobs[digest] = bytearray()
        while not self._is_ending and self._order == order:
            if len(got) == self._sizes.get(digest, -1):
                if digest_of(bytes(got)) != digest:
                    got.clear()
                    self._sizes.pop(digest)
                    continue
                del self._blobs[digest], self._sizes[digest]
                _write(place, bytes(got))
                return bytes(got)
            before = len(got)
            self._wire.tell(COORDINATOR, "get", digest=digest, offset=before)
            until = time.monotonic() + _ASK_S
            while len(got) == before != self._sizes.get(digest) and time.monotonic() < until:
                self._stirred.wait(_ASK_S)
                self._stirred.clear()
                self._wire.take()
                self._read()
            self._send_report()
        return None

    def _work(self, order: Mapping[str, Any], part: Mapping[str, Any]) -> None:
        """Bring about a part until the order is closed."""
        from cobweb.api import Site
        from cobweb.operations import Caller, Exceptions, Orders, Refresh

        asked = dict(order["orders"])
        may, canary, only = (asked.pop(it) for it in ("may_go_out", "new_canary", "only"))
        orders = Orders(
            **{**asked, "refresh": Refresh(asked["refresh"])},
            may_go_out=None if may is None else frozenset(may),
            exceptions=Exceptions(new_canary=canary),
        )
        folder = self._folder / "site"
        _write(folder / "site.yml", canonical(_site(part)))
        caller = Caller(sinks=(self._hear,), say=self._say)
        with Site(folder) as site:
            self._recall(site)
            own = [it for it in part["content"]["cobs"] if host_of(CobId(it)) in part["hosts"]]
            known = site.store(create=True).states_of(map(CobId, own))
            if orders.refresh is Refresh.CHANGED and stand_of(own, known) != order["stands"]:
                orders = replace(orders, refresh=Refresh.ALL)  # others may have moved something
            files = {it: (self._folder / "blobs" / it).read_bytes() for it in part["blobs"]}
            number = site.keep(canonical(part["content"]).decode(), files)
            desired = site.desired(generation=number)
            if only is not None:
                chosen = frozenset(part["owners"])  # the coordinator leaves out nothing on them
                desired = replace(desired, only=frozenset(map(CobId, only)), chosen=chosen)
            with site.open(
                self._name,
                lender=COORDINATOR,
                owners=part["owners"],
                transport=self._wire,
                generation=order["generation"],
                mark=order["mark"],
                goal=order["goal"],
                desired=desired,
                orders=orders,
                caller=caller,
            ) as kernel:
                self._step(order, kernel)
                self._state("work", kernel)
        self._last["stage"] = "ended"
        self._send_report()

    def _step(self, order: Mapping[str, Any], kernel: Any) -> None:
        """Step a kernel until nothing is at work and nothing new may begin."""
        joined, halted = self._wire.joined, False
        while not (halted and kernel.is_idle()):
            before_s = time.clock_gettime(_CLOCK)
            kernel.take(REPORT_S / 2)
            self._read()
            away = time.clock_gettime(_CLOCK) - before_s > AWAY_S
            lost = self._wire.joined != joined or not self._wire.is_connected()
            if not halted and (away or lost or self._is_ending or self._order != order):
                halted = True
                kernel.halt()
                if away or lost:
                    self._done = {}
                    self._order = None if self._order == order else self._order
            kernel.flush()
            self._state("work", kernel)
        if self._order is None:
            self._ask()

    # --- reports

    def _hear(self, event: Mapping[str, Any]) -> None:
        """Take an event of the kernel: it is told with what it rests on."""
        life, number = self._wire.at
        if event["type"] == "run.start":
            lives = {**self._lives(), str(life): event["run"]}
            _write(self._folder / "lives", canonical([self._last["epoch"], lives]))
        if event["type"] not in _OWN:
            marks, self._wire.pending = self._wire.pending, {}
            self._wire.at = (life, number + 1)
            self._put(self._wire.at, event, marks)

    def _put(self, mark: Mark, event: Mapping[str, Any], marks: Marks) -> None:
        data = {key: value for key, value in event.items() if key not in ("seq", "time", "type")}
        self._outbox.append((mark, [*mark, event["type"], data, marks]))

    def _recall(self, site: Any) -> None:
        """Put what earlier lives have told under the same order before all else, from the journal.

        What has been taken of it already is passed over there; what it rested on is not known.
        """
        for life, run in self._lives().items():
            number = 0
            with suppress(CobwebError):  # without the journal it is lost
                for event in site.watch(run):
                    if event["type"] not in _OWN:
                        number += 1
                        self._put((int(life), number), event, {})

    def _lives(self) -> dict[str, str]:
        """Return the runs of the lives so far under the present order, by life."""
        with suppress(OSError, ValueError):
            epoch, lives = json.loads((self._folder / "lives").read_text(encoding="utf-8"))
            return dict(lives) if epoch == self._last["epoch"] else {}
        return {}

    def _state(self, stage: str, kernel: Any) -> None:
        """Report how all stands, if that is another thing than before, or it is time."""
        idle = kernel.is_idle()
        settled = idle and kernel.is_settled()
        said, heard = self._wire.digests()
        now = {"stage": stage, "idle": idle, "settled": settled, "said": said, "heard": heard}
        now["waits"] = kernel.waits() if idle and not settled else []
        is_new = any(self._last.get(name) != it for name, it in now.items())
        self._last |= now
        if is_new or self._wire.at[1] > self._sent or time.monotonic() - self._sent_s > REPORT_S:
            self._send_report()

    def _send_report(self) -> None:
        """Send what has no answer yet, as much as goes in one paper."""
        events: list[Any] = []
        size = 0
        for _, event in self._outbox:
            size += len(json.dumps(event))
            if size > LONGEST // 2 and events:
                break
            events.append(event)
        self._sent, self._sent_s = self._wire.at[1], time.monotonic()
        self._wire.tell(
            COORDINATOR,
            "report",
            **self._last,
            at=self._outbox[-1][0] if self._outbox else self._acked,
            acked=self._acked,
            events=events,
        )


def _site(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the site that an agent has in the place of a checkout: its hosts, and no object."""
    hosts = {
        name: {**variables, "ansible_connection": "local"}
        for name, variables in part["hosts"].items()
    }
    groups = {
        name: {"hosts": dict.fromkeys(it)} for name, it in part["groups"].items() if name != "all"
    }
    everything = {"hosts": hosts, **({"children": groups} if groups else {})}
    return {"cobweb": 1, "name": part["name"], "inventory": {"all": everything}}


def _write(path: Path, data: bytes) -> None:
    """Put a file in its place, whole."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.new")
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise CobwebError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of an agent's folder; CobwebError where another agent has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        hint = "end it first, or take another --folder"
        raise CobwebError(f"{folder}: another agent is at work here", hint=hint) from error
    except OSError as error:
        message = f"{folder}: an agent cannot work here: {error.strerror or error}"
        raise CobwebError(message, hint="name another --folder") from error


@contextmanager
def ending(agent: Agent) -> Iterator[None]:
    """Have SIGTERM and SIGINT end an agent for as long as the context lasts."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, agent.end) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def run(name: str, address: str, folder: Path) -> None:
    """Run an agent until it is ended; CobwebError where no server lets it in.

    At rest again it becomes a new process under the same number, which needs half of the memory.
    """
    from cobweb_plugins.agents import Nats

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    wire = Wire(lambda wake: Nats().connect(address, name, wake), name)
    pinned = address_of(address).keys / f"{COORDINATOR}.pub"
    try:
        key = pinned.read_text(encoding="utf-8").strip()
    except OSError as error:
        message = f"{pinned}: whose orders to take cannot be read: {error.strerror}"
        raise CobwebError(message, hint="`cobweb agents up` writes it; copy it") from error
    agent = Agent(name, folder, wire, key, say)
    with alone(folder), ending(agent):
        if not agent.run():
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself
