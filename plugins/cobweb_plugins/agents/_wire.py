"""What goes over the link of one owner: the words of its kernel, and papers beside them.

Papers are JSON objects with a `paper`: what it is (an order, a report, and so on). Words are the
kernel's; each takes along which events it may rest on (`after`), so that who merges events tells
causes first: of each owner the last one that was told before, by the life and its number in that.
Of those that its speaker had heard of it says what no event of its own has said since.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from cobweb.plugin import Link
    from cobweb_plugins.agents._link import NatsLink, Room

Mark = tuple[int, int]
"""An event of an owner: the life, and the number in it; later ones are greater."""

Marks = dict[str, Mark]
"""The last event of each owner, by name."""

NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of reading what is no word and no paper: anybody with a key may have sent it."""

LONGEST = 2**20
"""How many bytes a paper may have, at most; the servers take twice as many."""


def merge(marks: Marks, others: Mapping[str, Mark]) -> None:
    """Take the later event of each owner."""
    for owner, mark in others.items():
        marks[owner] = max(mark, marks.get(owner, (0, 0)))


class Wire:
    """One owner's link, shared; as a transport it gives its kernel the words alone.

    `may_hear` says of the marks of a word whether it may be heard yet; it is asked again whenever
    words are taken. `at` is the last event that this owner has told. With `is_kept` the link
    outlives the kernel.
    """

    name: ClassVar[str] = "nats"

    def __init__(
        self, connect: Callable[[Callable[[], None]], Link], owner: str, *, is_kept: bool = True
    ) -> None:
        self._wake: Callable[[], None] = lambda: None
        self._owner = owner
        self._connect, self._is_kept = connect, is_kept
        self._link: Link | None = None
        self._held: list[tuple[str, dict[str, Any], bytes, Marks]] = []
        self._lives: dict[str, int] = {}
        self._words: list[tuple[str, bytes]] = []
        self.papers: deque[tuple[str, dict[str, Any]]] = deque()
        self.may_hear: Callable[[Marks], bool] = lambda _marks: True
        self.at: Mark = (0, 0)
        self.pending: Marks = {}
        self.said: dict[str, dict[tuple[str, str], bytes]] = {}
        self.heard: dict[str, dict[tuple[str, str], bytes]] = {}

    def open(self) -> None:
        """Open the link; CobwebError where it cannot be."""
        if self._link is None:
            self._link = self._connect(self.wake)

    def room(self, name: str, wake: Callable[[], None]) -> Room:
        """Return another room of the open link, in which this owner is heard as well."""
        return cast("NatsLink", self._link).room(name, wake)

    def shut(self) -> None:
        """Give the link up."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def begin(self, life: int) -> None:
        """Begin a life: nothing was said or heard in it."""
        self.at, self.pending = (life, 0), {}
        self.said, self.heard, self._lives, self._held, self._words = {}, {}, {}, [], []

    def tell(self, owner: str, paper: str, **data: Any) -> None:
        """Send a paper to an owner; it may be lost."""
        if self._link is not None:
            self._link.send(owner, json.dumps({"paper": paper, **data}).encode())

    def take(self) -> None:
        """Take what has come: words, and papers."""
        assert self._link is not None
        for sender, data in self._link.receive():
            try:
                made = json.loads(data)
                if "paper" in made:
                    self.papers.append((sender, made))
                else:
                    marks = {it: (int(life), int(at)) for it, (life, at) in made["after"].items()}
                    self._held.append((sender, made, data, marks))
            except NONSENSE:
                self._words.append((sender, data))  # the kernel counts what is none

    def digests(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return what was said last to each owner, and heard last of each, as short digests."""
        return _digests(self.said), _digests(self.heard)

    # --- as a transport and its link

    def connect(self, _address: str, _owner: str, wake: Callable[[], None]) -> Link:
        """Return this, for the kernel."""
        self.open()
        self._wake = wake
        return self

    @property
    def joined(self) -> int:
        """How often the link has found a server."""
        return getattr(self._link, "joined", 0)

    def is_connected(self) -> bool:
        """Say whether there is a server, as far as is known."""
        return bool(getattr(self._link, "is_connected", True))

    def send(self, owner: str, message: bytes) -> None:
        """Send a word with the events that it rests on."""
        assert self._link is not None
        marks: dict[str, Any] = dict(self.pending)
        if self.at[1]:
            marks[self._owner] = self.at
        _note(self.said, owner, json.loads(message))
        self._link.send(owner, message[:-1] + b', "after": ' + json.dumps(marks).encode() + b"}")

    def receive(self) -> Sequence[tuple[str, bytes]]:
        """Return the words that have come and may be heard."""
        self.take()
        words, self._words = self._words, []
        left = []
        for each in self._held:
            sender, made, data, marks = each
            if self.may_hear(marks):
                words.append((sender, data))
                merge(self.pending, {it: mark for it, mark in marks.items() if it != self._owner})
                self._hear(sender, made)
            else:
                left.append(each)
        self._held = left
        return words

    def _hear(self, owner: str, word: Mapping[str, Any]) -> None:
        """Note a word, if it counts for the kernel: in the life that its speaker greeted in."""
        with suppress(*NONSENSE):
            life, known = int(word["life"]), self._lives.get(owner, 0)
            if word["kind"] == "hello" and life > known:
                self._lives[owner] = life
                self.heard.pop(owner, None)
                _note(self.heard, owner, word)
            elif life == known:
                _note(self.heard, owner, word)

    def has_held(self) -> bool:
        """Say whether words wait for events."""
        return bool(self._held)

    def wake(self) -> None:
        """End a wait of the kernel."""
        self._wake()

    def close(self) -> None:
        """End the kernel's part in it; where the link is kept the owner goes on with it."""
        self._wake = lambda: None
        if not self._is_kept:
            self.shut()


def _note(
    kept: dict[str, dict[tuple[str, str], bytes]], owner: str, word: Mapping[str, Any]
) -> None:
    """Keep the latest word of a pair of objects; of greetings, in which life their speaker is."""
    if word.get("kind") == "hello":
        kept.setdefault(owner, {})["", ""] = str(word["life"]).encode()
        return
    holds = "1" if word["kind"] in ("request", "release") else "0"
    pair = (word["sender"], word["receiver"] + holds)
    text = json.dumps({it: word[it] for it in sorted(word) if it not in _VARYING})
    kept.setdefault(owner, {})[pair] = text.encode()


_VARYING = ("after", "life", "protocol")
"""Fields that are no part of what is said."""


def _digests(kept: Mapping[str, Mapping[tuple[str, str], bytes]]) -> dict[str, str]:
    def texts(words: Mapping[tuple[str, str], bytes]) -> Iterator[bytes]:
        yield from (words[pair] for pair in sorted(words))

    return {
        owner: hashlib.sha256(b"\n".join(texts(words))).hexdigest()[:16]
        for owner, words in kept.items()
        if words
    }
