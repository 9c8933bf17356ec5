"""What goes between kernels that share a graph: the words of their engines, over a transport.

Words leave only after the journal has what they rely on. A link may lose, double, delay and reorder
them (rules of `engine._state_locks`), so the last ones are said again, first soon and then ever
more seldom while nothing new is said or heard. What is no word, or speaks for an object of somebody
else than its sender, is dropped and counted.

Greetings. A word counts only between owners of one goal, and only from the life of its speaker that
was greeted in. So an owner greets those whose objects are linked to its own: at the start of its
life, after its link was lost, and again until it is answered. Who is greeted answers and says all
at once again, for what it said before is lost to a new life. Of both, fields that a reader does not
know are left alone; the greeting of a later version is read, for who greets speaks ours as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from cobweb._foreign_json import JsonError, json_of
from cobweb.engine import Message, MessageKind, Send
from cobweb.errors import UsageError
from cobweb.model import CobId, Graph, host_of
from cobweb.plugin import Transport

OLDEST = PROTOCOL = 1
"""The versions of the protocol that are understood; an owner speaks the latest that both know."""

LONGEST_WORD = 2**20
"""How many bytes a word may have that is taken in."""

_HELLO = {"life": int, "goal": str, "heard": int, "asks": bool, "protocol": int}
_WORD: dict[str, type] = dict.fromkeys(("sender", "receiver", "state"), str)
_WORD |= dict.fromkeys(("incarnation", "seq", "generation", "known"), int)
_T = TypeVar("_T")

_SOONEST_S, _LATEST_S = 0.25, 30.0
"""After how long all is said again, at first and at last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """A greeting: the `life` of an owner and the `goal` that it brings about, as a text.

    `heard` is the life of the other one that it knows of (0: none), `asks` whether it wants to hear
    a greeting, and all of the other's last words once more. `protocol` is the latest that it knows.
    """

    life: int
    goal: str
    heard: int
    asks: bool
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a graph that one kernel owns, and how it speaks to those of the rest.

    `owner` is its name. `owners` names who owns each host; hosts that it does not name are those of
    `lender`, who keeps all limits. They meet at the `address` of the transport. `incarnation` is at
    least 1 and grows from one life of this owner to the next. `generation` is the number under
    which all of them know the goal (0: there is none), `goal` all by which they know it. `mark` is
    the id of the site in the marks on hosts ("": that of the owner's database).
    """

    owner: str
    lender: str
    transport: Transport
    address: str = ""
    owners: Mapping[str, str] = field(default_factory=dict)
    incarnation: int = 1
    generation: int = 0
    goal: str = ""
    mark: str = ""

    def owner_of(self, cob: CobId) -> str:
        """Return who owns an object or, under a name without a host, a limit."""
        return self.owners.get(host_of(cob), self.lender)

    def engine_options(self, graph: Graph) -> dict[str, Any]:
        """Return what tells an engine which objects it owns; UsageError where there are none."""
        owned = frozenset(cob for cob in graph.cobs if self.owner_of(cob) == self.owner)
        if not owned and self.owner != self.lender:
            known = ", ".join(sorted({self.lender, *self.owners.values()}))
            raise UsageError(f"{self.owner} owns no object of the site", hint=f"owners: {known}")
        lends, life = self.owner == self.lender, self.incarnation
        return {"owned": owned, "lends": lends, "incarnation": life, "generation": self.generation}

    def neighbours(self, graph: Graph) -> Iterator[str]:
        """Yield the owners of objects that this owner's are linked to, in no order, repeatedly."""
        pairs = [(need.cob, need.on) for need in graph.needs]
        for each in (*pairs, *((cob, CobId("/")) for cob in graph.bounded())):
            owners = {self.owner_of(cob) for cob in each}
            if self.owner in owners:
                yield from owners - {self.owner}


@dataclass(slots=True)
class _Other:
    """What is known of another owner: its last life and its goal (None: not heard yet).

    `knows` says whether it has answered the greeting of this life; `protocol` is what both speak.
    """

    life: int = 0
    goal: str | None = None
    knows: bool = False
    protocol: int = PROTOCOL


class Mail:
    """The words of one kernel, on their way out and in.

    `wake` is called when some have come, `say` with sentences for people.
    """

    def __init__(
        self, part: Part, graph: Graph, wake: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self._part = part
        self._say = say
        self._others = {owner: _Other() for owner in sorted(set(part.neighbours(graph)))}
        self._link = part.transport.connect(part.address, part.owner, wake)
        self._joined = 0
        self._greet: dict[str, bool] = {}
        self._due: set[str] = set()
        self._out: list[Message] = []
        self._pause_s, self._said_s = _SOONEST_S, 0.0
        self.dropped = 0
        """How many words were not taken in."""

    def put(self, message: Message) -> None:
        """Keep a word until `send`."""
        self._out.append(message)

    def stir(self) -> None:
        """Note that something new has happened; what is only said again is nothing new."""
        self._pause_s = _SOONEST_S

    def send(self) -> None:
        """Send what was kept; the journal has been written."""
        greet, self._greet, out, self._out = self._greet, {}, self._out, []
        life, goal = self._part.incarnation, self._part.goal
        for owner, asks in greet.items():
            hello = Hello(life=life, goal=goal, heard=self._others[owner].life, asks=asks)
            self._link.send(owner, encoded(hello))
        for message in out:
            owner = self._part.owner_of(message.receiver)
            other = self._others.setdefault(owner, _Other())
            if other.goal == goal:
                self._link.send(owner, encoded(message, life, other.protocol))

    def receive(self) -> Iterator[Message]:
        """Yield the words that have come."""
        for sender, data in self._link.receive():
            life, said = decoded(data) or (0, None)
            if isinstance(said, Hello) and self._is_owner(sender):
                self._hear(sender, said)
            elif isinstance(said, Message) and self._counts(sender, life, said):
                yield said
            else:
                self.dropped += 1

    def again(self, now_s: float, said: Callable[[], Iterable[Send]]) -> None:
        """Say all again if it is time, or some if they were asked for; `said` tells it then."""
        if (joined := getattr(self._link, "joined", 0)) != self._joined:
            self._joined = joined
            self.stir()
            self._due.update(self._others)
            for other in self._others.values():
                other.knows = False
        if not self.wait_s(now_s):
            self._said_s, self._pause_s = now_s, min(2 * self._pause_s, _LATEST_S)
            self._due.update(self._others)
        due, self._due = self._due, set()
        self._greet.update((it, True) for it in due if not self._others[it].knows)
        if any(self._others[it].goal == self._part.goal for it in due):
            words = (each.message for each in said())
            self._out.extend(it for it in words if self._part.owner_of(it.receiver) in due)

    def wait_s(self, now_s: float) -> float:
        """Return how long there is nothing to say again."""
        return max(0.0, self._said_s + self._pause_s - now_s)

    def close(self) -> None:
        """Give the link up."""
        self._link.close()

    def _is_owner(self, name: str) -> bool:
        part = self._part
        return name != part.owner and (name == part.lender or name in part.owners.values())

    def _hear(self, owner: str, hello: Hello) -> None:
        """Take a greeting in; one of an earlier life says nothing."""
        other = self._others.setdefault(owner, _Other())
        if hello.life < other.life:
            self.dropped += 1
            return
        if (hello.life, hello.goal) != (other.life, other.goal) and hello.goal != self._part.goal:
            self._say(
                f"note: {owner} brings about {hello.goal or 'something else'}, this owner"
                f" {self._part.goal}; they do not hear each other until both bring about the same"
            )
        other.life, other.goal = hello.life, hello.goal
        other.protocol = min(PROTOCOL, hello.protocol)
        other.knows = hello.heard == self._part.incarnation
        if hello.asks:
            self.stir()
            self._greet[owner] = not other.knows
            self._due.add(owner)

    def _counts(self, owner: str, life: int, message: Message) -> bool:
        """Say whether a word is from who it says, to this owner, in the life and for the goal."""
        part, other = self._part, self._others.get(owner, _Other())
        if life > other.life and self._is_owner(owner):
            self._others.setdefault(owner, other).knows = False  # its greeting was lost
        ends = (part.owner_of(message.sender), part.owner_of(message.receiver))
        return ends == (owner, part.owner) and (life, part.goal) == (other.life, other.goal)


def encoded(said: Message | Hello, life: int = 0, protocol: int = PROTOCOL) -> bytes:
    """Return a greeting, or a word in the `life` of an owner, as it is sent: a JSON object."""
    body = {} if isinstance(said, Message) else {"kind": "hello"}
    return json.dumps({"life": life, "protocol": protocol, **body, **asdict(said)}).encode()


def decoded(data: bytes) -> tuple[int, Message | Hello] | None:
    """Return what was said, and in which life of its speaker; None for what is none of it."""
    try:
        made = json_of(data, "message", max_bytes=LONGEST_WORD)
        life, protocol = _typed(made["life"], int), _typed(made["protocol"], int)
        if protocol < OLDEST:
            return None
        if made["kind"] == "hello":
            return life, Hello(**{name: _typed(made[name], kind) for name, kind in _HELLO.items()})
        if protocol > PROTOCOL:
            return None
        fields: dict[str, Any] = {name: _typed(made[name], kind) for name, kind in _WORD.items()}
        sets = _typed(made["slots"], list)
        slots = tuple(tuple(_key(key) for key in _typed(keys, list)) for keys in sets)
        return life, Message(kind=MessageKind(made["kind"]), slots=slots, **fields)
    except (JsonError, KeyError, TypeError, ValueError):
        return None


def _typed(value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind}")
    return value


def _key(data: Any) -> tuple[str, str]:
    limit, unit = _typed(data, list)
    return _typed(limit, str), _typed(unit, str)
