"""Conformance checks for transports; one may lose, so all is said until it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from cobweb.plugin import Kind, Link, Transport
from cobweb.testing._checks import Kit, bounded, expect, satisfies

_TRIES = 50
"""How often something is said before it is taken for never arriving."""

_WAIT_S = 0.2
"""How long an answer is waited for between two tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportCase:
    """What the kit needs to try a transport: how to make one, and an address for each check.

    `address` is called once for each check; two addresses do not hear each other.
    """

    make: Callable[[], Transport]
    address: Callable[[], str]


def what_is_sent_arrives_under_its_senders_name(case: TransportCase) -> None:
    """A message arrives, with the name of the owner that has sent it."""
    with closing(_Ends(case, "east", "west")) as ends:
        ends.said("east", "west", b"hello")


def any_bytes_come_unaltered(case: TransportCase) -> None:
    """Every byte value, and 60,000 bytes at once, come as they were sent."""
    with closing(_Ends(case, "east", "west")) as ends:
        for message in (bytes(range(256)), b"\x00", b"\n" * 10, b"x" * 60_000):
            ends.said("west", "east", message)


def only_the_receiver_hears(case: TransportCase) -> None:
    """What is sent to one owner comes to nobody else."""
    with closing(_Ends(case, "east", "west", "north")) as ends:
        ends.said("east", "west", b"for west")
        expect(not ends.links["north"].receive(), "a third owner hears it")
        expect(not ends.links["east"].receive(), "the sender hears it")


def whoever_waits_is_woken(case: TransportCase) -> None:
    """`wake` is called once something has come."""
    with closing(_Ends(case, "east", "west")) as ends:
        for _ in range(_TRIES):
            ends.links["east"].send("west", b"wake up")
            if ends.woken["west"].wait(_WAIT_S):
                break
        expect(ends.woken["west"].is_set(), "nobody was woken")


def nobody_there_is_no_error(case: TransportCase) -> None:
    """To send to an owner who is not there, or not any more, is a loss and no error."""
    with closing(_Ends(case, "east", "west")) as ends:
        ends.links["west"].close()
        for owner in ("west", "nobody"):
            bounded("send()", partial(ends.links["east"].send, owner, b"?"))


def a_later_life_is_heard(case: TransportCase) -> None:
    """An owner that has gone and comes back under its name is heard, and hears."""
    with closing(_Ends(case, "east", "west")) as ends:
        ends.links["west"].close()
        ends.connect(case, "west")
        ends.said("east", "west", b"again")
        ends.said("west", "east", b"here")


def close_may_be_called_again(case: TransportCase) -> None:
    """close() ends at once, also the second time."""
    ends = _Ends(case, "east")
    for _ in range(2):
        bounded("close()", ends.links["east"].close)


_KIT = Kit(
    always=[
        satisfies(Kind.TRANSPORTS),
        what_is_sent_arrives_under_its_senders_name,
        any_bytes_come_unaltered,
        only_the_receiver_hears,
        whoever_waits_is_woken,
        nobody_there_is_no_error,
        a_later_life_is_heard,
        close_may_be_called_again,
    ],
)
transport_checks, check_transport = _KIT.checks, _KIT.check


class _Ends:
    """The ends of some owners at one address."""

    def __init__(self, case: TransportCase, *owners: str) -> None:
        self._address = case.address()
        self.links: dict[str, Link] = {}
        self.woken: dict[str, threading.Event] = {}
        for owner in owners:
            self.connect(case, owner)

    def connect(self, case: TransportCase, owner: str) -> None:
        """Make the end of an owner, or make it anew."""
        self.woken[owner] = threading.Event()
        self.links[owner] = case.make().connect(self._address, owner, self.woken[owner].set)

    def said(self, sender: str, receiver: str, message: bytes) -> None:
        """Say something until it has come, perhaps in copies, and nothing else."""
        for _ in range(_TRIES):
            self.woken[receiver].clear()
            self.links[sender].send(receiver, message)
            self.woken[receiver].wait(_WAIT_S)
            came = self.links[receiver].receive()
            if came:
                others = [each for each in came if each != (sender, message)]
                expect(not others, f"something else came: {others!r:.200}")
                return
        raise AssertionError(f"{len(message)} bytes never came")

    def close(self) -> None:
        """Close all ends."""
        for link in self.links.values():
            link.close()
