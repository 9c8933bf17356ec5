"""The state-lock protocol of one pair (section 5.3 of the paper; design, section 5).

The holder says its whole mind under an ever higher stamp (incarnation, number): `request` (I want
`state` and do not hold it) or `release` (neither). The locked object answers under the same stamp:
`grant` (you have it) or `recall` (you have it, please give it back). Only the holder ends a lock,
by saying something newer; so an answer to anything but its last word is stale, and a word that is
not newer than the last one heard changes nothing. A word may therefore be lost and said again,
come twice, or late.
"""

from __future__ import annotations

from cobweb.engine import (
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Message,
    MessageKind,
)
from cobweb.model import CobId, State
from tests.support.reference_engine._machine import Machine
from tests.support.reference_engine._node import Ask, Node, Wish

__all__ = ["grant", "recall", "receive", "release", "repeat", "request"]


def request(machine: Machine, node: Node, on: CobId, state: State) -> None:
    """Ask `on` to be in `state` and to stay there; gives back what was held of it before."""
    _give_back(machine, node, on)
    _say(machine, node, on, state)
    machine.effects.append(LockRequested(cob=on, holder=node.id, state=state))
    machine.post(_word(machine, node, on))


def release(machine: Machine, node: Node, on: CobId) -> None:
    """Take a request back or give a lock back; remembers the stamp where mail may be lost."""
    _give_back(machine, node, on)
    _say(machine, node, on, "")
    machine.post(_word(machine, node, on))
    if on in machine.nodes:
        del node.wishes[on]


def grant(machine: Machine, node: Node, holder: CobId) -> None:
    """Lend the present state to a holder that asks for it."""
    ask = node.asks[holder]
    ask.recalled = False
    node.drop_ask(holder)
    ask.granted = True
    node.put_ask(holder, ask)
    machine.effects.append(LockGranted(cob=node.id, holder=holder, state=ask.state))
    machine.post(_answer(machine, node, holder))


def recall(machine: Machine, node: Node, holder: CobId) -> None:
    """Ask a holder for its lock, once."""
    ask = node.asks[holder]
    ask.recalled = True
    node.at_rest.discard(holder)
    machine.effects.append(LockRecalled(cob=node.id, holder=holder, state=ask.state))
    machine.post(_answer(machine, node, holder))


def receive(machine: Machine, message: Message) -> None:
    """Take one message in; the receiver is owned."""
    if message.generation != machine.generation:
        return
    if message.sender not in machine.nodes:
        heard = machine.heard.get(message.sender, 0)
        machine.heard[message.sender] = max(heard, message.incarnation)
    node = machine.nodes[message.receiver]
    if message.kind in (MessageKind.REQUEST, MessageKind.RELEASE):
        _take_word(machine, node, message)
    else:
        _take_answer(machine, node, message)


def repeat(machine: Machine, node: Node) -> list[Message]:
    """Return what the object has said last to each foreign neighbour, for lost mail."""
    said = [
        _word(machine, node, on)
        for on in sorted(node.wishes)
        if on not in machine.nodes and node.wishes[on].incarnation
    ]
    answered = [
        _answer(machine, node, holder)
        for holder in sorted(node.asks)
        if holder not in machine.nodes and node.asks[holder].granted
    ]
    return said + answered


def _give_back(machine: Machine, node: Node, on: CobId) -> None:
    wish = node.wishes.get(on)
    node.recalled.discard(on)
    if wish is not None and wish.state:
        machine.effects.append(LockReleased(cob=on, holder=node.id, state=wish.state))


def _say(machine: Machine, node: Node, on: CobId, state: State) -> None:
    node.seq += 1
    node.wishes[on] = Wish(state=state, incarnation=node.incarnation, seq=node.seq)
    machine.touch(node)


def _word(machine: Machine, node: Node, on: CobId) -> Message:
    wish = node.wishes[on]
    kind = MessageKind.REQUEST if wish.state else MessageKind.RELEASE
    return machine.message(kind, node, on, (wish.state, wish.seq, machine.known(on)))


def _answer(machine: Machine, node: Node, holder: CobId) -> Message:
    ask = node.asks[holder]
    kind = MessageKind.RECALL if ask.recalled else MessageKind.GRANT
    return machine.message(kind, node, holder, (ask.state, ask.seq, ask.incarnation))


def _take_word(machine: Machine, node: Node, message: Message) -> None:
    ask = node.asks.get(message.sender)
    if ask is not None and ask.restored:
        if message.known < node.incarnation:
            return
        if message.state == ask.state:
            _adopt(machine, node, ask, message)
            return
    elif ask is not None and (message.incarnation, message.seq) <= (ask.incarnation, ask.seq):
        if ask.granted and (message.incarnation, message.seq) == (ask.incarnation, ask.seq):
            machine.post(_answer(machine, node, message.sender))
        return
    _replace(machine, node, message)


def _adopt(machine: Machine, node: Node, ask: Ask, message: Message) -> None:
    """Take a restored grant as the answer to this word: the holder may still count on it."""
    ask.restored = False
    ask.incarnation, ask.seq = message.incarnation, message.seq
    machine.effects.append(LockGranted(cob=node.id, holder=message.sender, state=ask.state))
    machine.post(_answer(machine, node, message.sender))


def _replace(machine: Machine, node: Node, message: Message) -> None:
    holder = message.sender
    foreign = holder not in machine.nodes
    ask = node.asks.get(holder)
    if foreign and ask is not None and ask.granted:
        machine.effects.append(LockReleased(cob=node.id, holder=holder, state=ask.state))
    if message.state or foreign:
        new = Ask(state=message.state, incarnation=message.incarnation, seq=message.seq)
        node.put_ask(holder, new)
        node.pusher = holder if message.state else node.pusher
    else:
        node.drop_ask(holder)
    machine.touch(node)


def _take_answer(machine: Machine, node: Node, message: Message) -> None:
    on = message.sender
    wish = node.wishes.get(on)
    if wish is None or not _speaks_of(message, wish):
        if on not in machine.nodes and not node.frozen:
            _say_again(machine, node, on)
        return
    if not wish.held:
        wish.held = True
        node.missing -= 1
    if message.kind is MessageKind.RECALL:
        node.recalled.add(on)
    machine.touch(node)


def _speaks_of(message: Message, wish: Wish) -> bool:
    if not wish.state or message.state != wish.state:
        return False
    if not wish.incarnation:
        return True
    return (message.known, message.seq) == (wish.incarnation, wish.seq)


def _say_again(machine: Machine, node: Node, on: CobId) -> None:
    if on not in node.wishes:
        _say(machine, node, on, "")
    machine.post(_word(machine, node, on))
