"""Where the messages of limits that engines share go (see `_capacity` for the protocol).

Here are also the rooms in `transition:` limits, its words of the third kind. A member that has no
room says `want`, the lender grants it while there is room, and the member says `release` when its
transition has ended, or it does not want it any more. All rooms of a step are asked for in the
order of the limits, and kept meanwhile. Who has not told the lender takes room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cobweb.engine._limits import Counter, LimitBook
from cobweb.engine._machine import Machine
from cobweb.engine._values import Message, MessageKind, Send
from cobweb.engine.budgets._bank import Bank
from cobweb.engine.budgets._capacity import SLOTS, Ear, Voice, limit_of, place_of
from cobweb.model import CobId


class Shared:
    """The limits that an engine keeps for others, with an `Ear`, or asks for, with a `Voice`."""

    def __init__(self, machine: Machine, side: Ear | Voice) -> None:
        self._machine = machine
        self._side = side
        lender = machine.lender
        self._slots = None if lender is None else lender.bank or lender.borrower
        self._rooms: LentRooms | BorrowedRooms
        counters = machine.book.share(machine.nodes)
        if isinstance(side, Ear):
            self._rooms = LentRooms(machine.book, side, counters)
        else:
            self._rooms = BorrowedRooms(machine, side, counters)
        machine.book.rooms = self._rooms

    def open(self) -> None:
        """Begin, now that all objects are there; a lender asks nothing before it needs room."""
        if isinstance(self._rooms, BorrowedRooms):
            self._rooms.open()

    def receive(self, message: Message) -> bool:
        """Take a message in that is from or to a limit; say whether it was."""
        if isinstance(self._side, Ear):
            place, other = message.receiver, message.sender
            is_mine = place.startswith(SLOTS) and other not in self._machine.nodes
        else:
            place = message.sender
            is_mine = place.startswith(SLOTS) and message.receiver in self._machine.nodes
        if is_mine and message.generation == self._machine.generation:
            name = limit_of(place)
            if any(it.name == name for it in self._machine.limits):
                self._rooms.hear(message)
            elif self._slots is not None:
                self._slots.hear(message)
        return is_mine

    def let_on(self) -> None:
        """Give room in limits on, or back."""
        self._rooms.let_on()

    def repeat(self) -> Iterator[Send]:
        """Yield all that may have been lost."""
        for each in (self._side, self._rooms, self._slots):
            if isinstance(each, Voice | LentRooms | Bank):  # a voice has all that a borrower says
                yield from each.repeat()


class LentRooms:
    """The rooms of a lender; each limit has one round, in which it asks who has room there."""

    def __init__(self, book: LimitBook, ear: Ear, counters: Iterable[Counter]) -> None:
        self._book = book
        self._ear = ear
        self._asking: set[tuple[CobId, CobId]] = set()
        self._counters: dict[CobId, list[Counter]] = {}
        for counter in counters:
            self._counters.setdefault(place_of(counter.limit.name), []).append(counter)
            counter.away.update(counter.far)

    def hear(self, message: Message) -> None:
        """Take in what a member elsewhere says."""
        place, cob = message.receiver, message.sender
        mine = [it for it in self._counters.get(place, ()) if cob in it.far]
        if not mine or self._ear.hear(message) is None:
            return
        is_told = self._ear.is_told(place, cob)
        if not is_told and place in self._ear.rounds:
            self._ear.ask(place, cob)
        self._asking.discard((place, cob))
        if message.state == "want":
            self._asking.add((place, cob))
        for counter in mine:
            if message.state == "busy" or not is_told:
                counter.away.add(cob)
            else:
                counter.away.discard(cob)
                self._book.free(counter)

    def want(self, counter: Counter, cob: CobId) -> None:  # noqa: ARG002 - as a borrower does
        """Ask who has room elsewhere if nobody has been asked yet."""
        place = place_of(counter.limit.name)
        if counter.far and place not in self._ear.rounds:
            holders = {cob for it in self._counters[place] for cob in it.far}
            self._ear.begin(place, sorted(holders))

    def let_on(self) -> None:
        """Give room to members elsewhere; none of this engine can start for that."""
        for place, cob in sorted(self._asking):
            for counter in self._counters[place]:
                if cob not in counter.far:
                    continue
                if place not in self._ear.rounds:
                    self.want(counter, cob)
                elif self._ear.is_told(place, cob) and counter.room:
                    self._asking.discard((place, cob))
                    counter.away.add(cob)
                    self._ear.grant((place, cob), "busy")

    def repeat(self) -> Iterator[Send]:
        """Yield the questions that have no answer yet."""
        for place, counters in self._counters.items():
            if place in self._ear.rounds:
                for cob in sorted(cob for it in counters for cob in it.far):
                    if not self._ear.is_told(place, cob):
                        yield Send(self._ear.question(place, cob, ""))


class BorrowedRooms:
    """The rooms of a borrower."""

    def __init__(self, machine: Machine, voice: Voice, counters: Iterable[Counter]) -> None:
        self._machine = machine
        self._voice = voice
        self._counters = {
            (cob, place_of(counter.limit.name)): counter
            for counter in counters
            for cob in sorted(counter.group.members)
            if cob in machine.nodes
        }
        self._rounds: dict[CobId, int] = {}
        self._wants: set[CobId] = set()
        for counter in self._counters.values():
            counter.lent = set()

    def open(self) -> None:
        """Begin: what an earlier life had is not needed any more."""
        for cob, place in self._counters:
            self._say(cob, place, "")

    def hear(self, message: Message) -> None:
        """Take in what the lender says of a limit."""
        cob, place = message.receiver, message.sender
        counter = self._counters.get((cob, place))
        if counter is None or counter.lent is None:
            return
        if message.kind is MessageKind.RECALL:
            self._voice.note(message)
            self._rounds[place] = max(message.incarnation, self._rounds.get(place, 0))
            line = self._voice.said[cob, place]
            if line.known < message.incarnation:
                self._say(cob, place, "busy" if cob in counter.lent else line.word.state)
            else:
                self._voice.again(cob, place)
        elif self._voice.hear(message) is not None:
            counter.lent.add(cob)
            self._machine.touch(self._machine.nodes[cob])

    def want(self, counter: Counter, cob: CobId) -> None:
        """Ask for room for a member."""
        self._say(cob, place_of(counter.limit.name), "want")
        self._wants.add(cob)

    def let_on(self) -> None:
        """Give back what nothing is done with any more."""
        for cob in sorted(self._wants):
            counters = self._machine.book.counters(cob)
            if self._machine.nodes[cob].is_ready:
                continue
            for counter in counters:
                if cob not in counter.busy and counter.lent is not None:
                    counter.lent.discard(cob)
                    self._say(cob, place_of(counter.limit.name), "")
            if not any(counter.lent and cob in counter.lent for counter in counters):
                self._wants.discard(cob)

    def _say(self, cob: CobId, place: CobId, state: str) -> None:
        self._voice.say(cob, place, state, self._rounds.get(place, 0))
