"""What goes between kernels that share a graph: the words of their engines, over a transport.

Words leave only after the journal has what they rely on. A link may lose, double, delay and reorder
them (rules of `engine._state_locks`), so the last ones are said again, first soon and then ever
more seldom while nothing new is said or heard. What is no word, or speaks for an object of somebody
else than its sender, is dropped and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cobweb._foreign_json import JsonError, json_of
from cobweb.engine import Message, MessageKind, Send
from cobweb.errors import UsageError
from cobweb.model import CobId, Graph, host_of
from cobweb.plugin import Transport

LONGEST_WORD = 2**20
"""How many bytes a word may have that is taken in."""

_SOONEST_S, _LATEST_S = 0.25, 30.0
"""After how long all is said again, at first and at last."""

_FIELDS = {
    "sender": str,
    "receiver": str,
    "state": str,
    "incarnation": int,
    "seq": int,
    "generation": int,
    "known": int,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a graph that one kernel owns, and how it speaks to those of the rest.

    `owner` is its name. `owners` names who owns each host; hosts that it does not name are those of
    `lender`, who keeps all limits. They meet at the `address` of the transport. `incarnation` is at
    least 1 and grows from one life of this owner to the next.
    """

    owner: str
    lender: str
    transport: Transport
    address: str = ""
    owners: Mapping[str, str] = field(default_factory=dict)
    incarnation: int = 1

    def owner_of(self, cob: CobId) -> str:
        """Return who owns an object or, under a name without a host, a limit."""
        return self.owners.get(host_of(cob), self.lender)

    def engine_options(self, graph: Graph) -> dict[str, Any]:
        """Return what tells an engine which objects it owns; UsageError where there are none."""
        owned = frozenset(cob for cob in graph.cobs if self.owner_of(cob) == self.owner)
        if not owned:
            known = ", ".join(sorted({self.lender, *self.owners.values()}))
            raise UsageError(f"{self.owner} owns no object of the site", hint=f"owners: {known}")
        lends = self.owner == self.lender
        return {"owned": owned, "lends": lends, "incarnation": self.incarnation}


class Mail:
    """The words of one kernel, on their way out and in; `wake` is called when some have come."""

    def __init__(self, part: Part, wake: Callable[[], None]) -> None:
        self._part = part
        self._link = part.transport.connect(part.address, part.owner, wake)
        self._out: list[Message] = []
        self._pause_s = _SOONEST_S
        self._said_s = 0.0
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
        out, self._out = self._out, []
        for message in out:
            self._link.send(self._part.owner_of(message.receiver), encoded(message))

    def receive(self) -> Iterator[Message]:
        """Yield the words that have come."""
        for sender, data in self._link.receive():
            if (message := decoded(data)) is None or not self._is_meant(sender, message):
                self.dropped += 1
            else:
                yield message

    def again(self, now_s: float, said: Callable[[], Iterable[Send]]) -> None:
        """Say all again if it is time; what was said last is only asked for then."""
        if self.wait_s(now_s):
            return
        self._out.extend(each.message for each in said())
        self._said_s, self._pause_s = now_s, min(2 * self._pause_s, _LATEST_S)

    def wait_s(self, now_s: float) -> float:
        """Return how long there is nothing to say again."""
        return max(0.0, self._said_s + self._pause_s - now_s)

    def close(self) -> None:
        """Give the link up."""
        self._link.close()

    def _is_meant(self, sender: str, message: Message) -> bool:
        part = self._part
        to, by = part.owner_of(message.receiver), part.owner_of(message.sender)
        return to == part.owner and by == sender != part.owner


def encoded(message: Message) -> bytes:
    """Return a word as it is sent: JSON, an object of the fields of a `Message`."""
    fields: dict[str, Any] = {name: getattr(message, name) for name in _FIELDS}
    return json.dumps({"kind": message.kind, **fields, "slots": message.slots}).encode()


def decoded(data: bytes) -> Message | None:
    """Return the word that was sent; None for what is none."""
    try:
        made = json_of(data, "message", max_bytes=LONGEST_WORD)
        fields = {name: made.pop(name) for name in _FIELDS}
        kind = MessageKind(made.pop("kind"))
        said = made.pop("slots")
        slots = tuple(tuple((limit, unit) for limit, unit in keys) for keys in said)
    except (JsonError, AttributeError, KeyError, TypeError, ValueError):
        return None
    texts = (text for keys in slots for key in keys for text in key)
    whole = all(type(fields[name]) is wanted for name, wanted in _FIELDS.items())
    whole = whole and said == [[[*key] for key in keys] for keys in slots]
    if made or not whole or not all(type(text) is str for text in texts):
        return None
    return Message(kind=kind, slots=slots, **fields)
