"""Limits that several engines share: objects with a capacity, asked by the lock protocol.

Theory of operation. One engine, the lender, owns all limits; the others borrow. A limit is an
object of no host (`/NAME`), and `/` stands for the slots of all budgets. Like any holder a borrower
says its whole mind of a pair under an ever higher stamp (incarnation, number) with `request` or
`release`; the limit answers the last word with `grant`, and asks for a new one with `recall`. The
rules of stamps are those of `_state_locks`. So a lost word is said again by `resend`, a doubled or
late one changes nothing, and a grant that answers anything but the last word is stale: who has said
something newer has taken the older wish back.

Words. (1) Each member of a budget tells `/NAME` how its unit stands here: `new`, `in` or `out`,
`held` while it has a slot, `due` if it waits for one, and for canaries that it `changes`, `waits`
for the verdict, is `home`.
(2) One object of each borrower tells `/` which slots it holds, and which sets of slots it asks for;
a set is granted as a whole or not at all, so nobody holds one slot and waits for another. (3) A
member of a `transition:` limit asks `/NAME` for room (`want`), keeps it (`busy`), gives it back.

Rounds. The incarnation of a limit is the number of its round. Where somebody could be lent a slot
the lender begins a round: it recalls all words of the limit. A borrower has its members checked
that nobody has looked at for the limit's trust, then says its words anew, and names the round that
they are fresh for (`known`). Until a unit has told all in the present round it counts as out. So
nobody is waited for by the clock: who is silent takes room. A slot that comes back leaves its unit
in doubt until a later round: an older `in` may have been said before it went out.

Restarts. The lender keeps nothing of others: a new one begins a round above all earlier ones, and
in it every word says `held` where a slot is. A borrower's slots are durable (`SlotTaken`, before
anything goes out), it says them under its higher incarnation, and all grants to its earlier life
are stale. A borrower takes no grant of a lender's life before the last one that it has heard of: it
may have told the new one that it holds nothing. An old word reaches a new lender with an old
`known`, and counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from cobweb.engine._machine import RETURNS_PER_INCARNATION, Machine
from cobweb.engine._node import Word
from cobweb.engine._state_locks import answers, is_again, is_news
from cobweb.engine._values import Message, MessageKind, Send
from cobweb.model import CobId, State

Key = tuple[str, str]
"""The name of a limit and of one of its units."""

Sets = tuple[tuple[Key, ...], ...]

SLOTS = CobId("/")
"""The slots of all budgets; no object's id, as it has no host."""


def place_of(limit: str) -> CobId:
    """Return the id of a limit as an object that can be asked."""
    return CobId(f"/{limit}")


def limit_of(place: CobId) -> str:
    """Return the name of the limit whose id that is."""
    return place[1:]


@dataclass(slots=True)
class Line:
    """A word of one pair, and what goes with it; `known` is the round that it is fresh for.

    At the lender `given` is what was granted for it: a text, and slots.
    """

    word: Word
    known: int
    slots: Sets
    given: tuple[State, tuple[Key, ...]] = ("", ())


class Voice:
    """A borrower's side of all pairs: what was said last; `life` is that of the lender."""

    def __init__(self, machine: Machine, incarnation: int) -> None:
        self._machine = machine
        self._incarnation = incarnation
        self._seq = 0
        self.life = 0
        self.said: dict[tuple[CobId, CobId], Line] = {}

    def say(self, cob: CobId, place: CobId, state: State, known: int, slots: Sets = ()) -> None:
        """Say something unless it was the last word."""
        old = self.said.get((cob, place))
        if old is not None and (old.word.state, old.known, old.slots) == (state, known, slots):
            return
        self._seq += 1
        line = Line(Word(state, self._incarnation, self._seq, None, None), known, slots)
        self.said[cob, place] = line
        self._machine.send(self._message(cob, place, line))

    def hear(self, message: Message) -> Line | None:
        """Return the word that a grant answers; None where it is stale."""
        self.note(message)
        line = self.said.get((message.receiver, message.sender))
        is_late = message.incarnation // RETURNS_PER_INCARNATION < self.life
        return None if line is None or is_late or not answers(message, line.word) else line

    def note(self, message: Message) -> None:
        """Note which life of the lender speaks."""
        self.life = max(self.life, message.incarnation // RETURNS_PER_INCARNATION)

    def again(self, cob: CobId, place: CobId) -> None:
        """Say the last word of a pair again, if there is one."""
        line = self.said.get((cob, place))
        if line is not None:
            self._machine.send(self._message(cob, place, line))

    def repeat(self) -> Iterable[Send]:
        """Yield all last words again."""
        for (cob, place), line in sorted(self.said.items(), key=itemgetter(0)):
            yield Send(self._message(cob, place, line))

    def _message(self, cob: CobId, place: CobId, line: Line) -> Message:
        return Message(
            kind=MessageKind.REQUEST if line.word.state else MessageKind.RELEASE,
            sender=cob,
            receiver=place,
            state=line.word.state,
            incarnation=line.word.incarnation,
            seq=line.word.seq,
            generation=self._machine.generation,
            known=line.known,
            slots=line.slots,
        )


class Ear:
    """The lender's side of all pairs: what was heard last, and the rounds of limits."""

    def __init__(self, machine: Machine, incarnation: int) -> None:
        self._machine = machine
        self._first = incarnation
        self.rounds: dict[CobId, int] = {}
        self.heard: dict[tuple[CobId, CobId], Line] = {}

    def round(self, place: CobId) -> int:
        """Return the number of the present round of a limit; the first is never begun."""
        return self.rounds.get(place, self._first)

    def hear(self, message: Message) -> tuple[Line | None, Line] | None:
        """Return the word of before and the new one; None where it is no news."""
        pair = (message.receiver, message.sender)
        old = self.heard.get(pair)
        if not is_news(message, None if old is None else old.word):
            if old is not None and old.word.granted and is_again(message, old.word):
                self._machine.send(self._message(pair, old, MessageKind.GRANT))
            return None
        word = Word(message.state, message.incarnation, message.seq, None, None)
        line = self.heard[pair] = Line(word, message.known, message.slots)
        return old, line

    def grant(self, pair: tuple[CobId, CobId], state: State, slots: tuple[Key, ...] = ()) -> None:
        """Grant the last word of a pair."""
        line = self.heard[pair]
        line.word.granted = True
        line.given = (state, slots)
        self._machine.send(self._message(pair, line, MessageKind.GRANT))

    def begin(self, place: CobId, holders: Iterable[CobId], state: State = "") -> None:
        """Begin a round: ask all holders of a limit for a new word."""
        self.rounds[place] = self.round(place) + 1
        for holder in holders:
            self.ask(place, holder, state)

    def ask(self, place: CobId, holder: CobId, state: State = "") -> None:
        """Ask one holder for a word that is fresh for the present round."""
        self._machine.send(self.question(place, holder, state))

    def question(self, place: CobId, holder: CobId, state: State) -> Message:
        """Return what one holder is asked for such a word."""
        line = Line(Word(state, 0, 0, None, None), 0, (), given=(state, ()))
        return self._message((place, holder), line, MessageKind.RECALL)

    def is_told(self, place: CobId, holder: CobId, since: int = 0) -> bool:
        """Say whether a word of a holder is fresh for the present round, or a later one."""
        line = self.heard.get((place, holder))
        return line is not None and line.known >= max(self.round(place), since)

    def _message(self, pair: tuple[CobId, CobId], line: Line, kind: MessageKind) -> Message:
        state, slots = line.given
        return Message(
            kind=kind,
            sender=pair[0],
            receiver=pair[1],
            state=state,
            incarnation=self.round(pair[0]),
            seq=line.word.seq,
            generation=self._machine.generation,
            known=line.word.incarnation,
            slots=(slots,) if slots else (),
        )
