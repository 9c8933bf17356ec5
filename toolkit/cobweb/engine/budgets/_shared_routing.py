"""Where the messages of limits that engines share go (see `_capacity` for the protocol)."""

from __future__ import annotations

from collections.abc import Iterator

from cobweb.engine._machine import Machine
from cobweb.engine._values import Message, Send
from cobweb.engine.budgets._bank import Bank
from cobweb.engine.budgets._capacity import SLOTS, Ear, Voice, limit_of
from cobweb.engine.budgets._shared_transition_limits import BorrowedRooms, LentRooms, Rooms


class Shared:
    """The limits that an engine keeps for others, with an `Ear`, or asks for, with a `Voice`."""

    def __init__(self, machine: Machine, side: Ear | Voice) -> None:
        self._machine = machine
        self._side = side
        lender = machine.lender
        self._slots = None if lender is None else lender.bank or lender.borrower
        self._rooms: Rooms
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
            is_limit = any(it.name == name for it in self._machine.limits)
            if is_limit:
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
