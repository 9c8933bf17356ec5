"""The state-lock protocol of one pair (section 5.3 of the paper; design, section 5).

The holder says its whole mind under an ever higher stamp (incarnation, number): `request` (I want
`state` and do not hold it) or `release` (neither). The locked object answers under the same stamp:
`grant` (you have it) or `recall` (you have it, please give it back). Only the holder ends a lock,
by saying something newer; so an answer to anything but its last word is stale, and a word that is
not newer than the last one heard changes nothing. A word may therefore be lost and said again,
come twice, or late.

Between two objects of this engine a word is heard as it is said, and so is its answer: nothing is
lost or late there, and no stamp has to be compared. The hearer only notes it and is looked at
later, in the order of the words. To objects elsewhere the same words go as messages.
"""

from __future__ import annotations

from operator import itemgetter

from cobweb.engine._machine import Machine
from cobweb.engine._node import Node, Word
from cobweb.engine._values import (
    LockGranted,
    LockRecalled,
    LockReleased,
    LockRequested,
    Message,
    MessageKind,
    made,
)
from cobweb.model import CobId, State


def request(machine: Machine, node: Node, on: CobId, state: State) -> None:
    """Ask `on` to be in `state` and to stay there; gives back what was held of it before."""
    old = node.wishes.get(on)
    if old is not None and old.state:
        _give_back(machine, node, on, old)
    locked = machine.nodes.get(on)
    _speak(machine, node)
    word = node.wishes[on] = Word(state, node.incarnation, node.seq, node, locked)
    machine.effects.append(made(LockRequested, (on, node.id, state)))
    if locked is None:
        machine.send(_message(machine, node, on, word))
        return
    if old is not None:
        locked.drop(node.id, old)
    before = locked.target
    locked.put(node.id, word)
    locked.pusher = node.id
    is_plain = old is None and not (locked.serves or locked.grouped or machine.counts)
    if not is_plain or state == locked.state or locked.target is not before:
        machine.touch(locked)  # any other one is elsewhere, with the same aim: nothing is new to it


def release(machine: Machine, node: Node, on: CobId) -> None:
    """Take a request back or give a lock back; remembers the stamp where mail may be lost."""
    old = node.wishes[on]
    _give_back(machine, node, on, old)
    locked = old.locked
    _speak(machine, node)
    if locked is None:
        word = node.wishes[on] = Word("", node.incarnation, node.seq, node, None)
        machine.send(_message(machine, node, on, word))
        return
    del node.wishes[on]
    locked.drop(node.id, old)
    _let_go(machine, locked)
    machine.touch(locked)


def _let_go(machine: Machine, locked: Node) -> None:
    """Have the host of what is to be gone looked at: it waits until nobody counts on that."""
    if locked.removed and machine.hosts is not None:
        machine.hosts.stir(locked.cob.host)


def grant_all(machine: Machine, node: Node) -> None:
    """Lend the present state to all who ask for it."""
    words = node.lend(node.state)
    for cob in sorted(words) if len(words) > 1 else words:
        word = words[cob]
        word.recalled = False
        machine.effects.append(made(LockGranted, (node.id, cob, word.state)))
        holder = word.holder
        if holder is None:
            machine.send(_message(machine, node, cob, word))
        else:
            holder.missing -= 1
            if not holder.missing or machine.counts:
                machine.touch(holder)


def recall(machine: Machine, node: Node, cob: CobId, word: Word) -> None:
    """Ask the holder `cob` for its lock, once."""
    word.recalled = True
    node.at_rest -= 1
    machine.effects.append(LockRecalled(node.id, cob, word.state))
    if word.holder is None:
        machine.send(_message(machine, node, cob, word))
    else:
        _ask_back(word.holder, node.id)
        machine.touch(word.holder)


def restore(machine: Machine, locked: CobId, holder: CobId, state: State) -> bool:
    """Take over a grant of an earlier life, on both sides where both are owned.

    Says whether the holder is owned: its plan is not known any more.
    """
    lender, taker = machine.nodes.get(locked), machine.nodes.get(holder)
    word = Word(state, 0, 0, taker, lender, granted=True)
    if lender is not None:
        before = (lender.strangers or {}).get(holder) if taker is None else taker.wishes.get(locked)
        if before is not None:
            lender.drop(holder, before)
        lender.put(holder, word)
        machine.effects.append(LockGranted(locked, holder, state))
        if taker is None:
            word.restored = True
            _remember(lender, holder, word)
    if taker is not None:
        taker.wishes[locked] = word
    return taker is not None


def receive(machine: Machine, message: Message) -> None:
    """Take one message in; the receiver is owned. What is owned here speaks from here alone."""
    if message.generation != machine.generation or message.sender in machine.nodes:
        return
    heard = machine.heard.get(message.sender, 0)
    machine.heard[message.sender] = max(heard, message.incarnation)
    node = machine.nodes[message.receiver]
    if message.kind in (MessageKind.REQUEST, MessageKind.RELEASE):
        _take_word(machine, node, message)
    else:
        _take_answer(machine, node, message)


def is_news(message: Message, old: Word | None) -> bool:
    """Say whether a word is newer than the last one that its speaker was heard to say."""
    return old is None or (message.incarnation, message.seq) > (old.incarnation, old.seq)


def is_again(message: Message, old: Word) -> bool:
    """Say whether a word is the last one once more: its answer may have been lost."""
    return (message.incarnation, message.seq) == (old.incarnation, old.seq)


def answers(message: Message, word: Word) -> bool:
    """Say whether an answer is one to this word, and not to one that was taken back."""
    return (message.known, message.seq) == (word.incarnation, word.seq)


def repeat(machine: Machine, node: Node) -> list[Message]:
    """Return what the object has said last to each neighbour elsewhere, for lost mail."""
    said = [
        _message(machine, node, on, word)
        for on, word in sorted(node.wishes.items(), key=itemgetter(0))
        if word.locked is None and word.incarnation
    ]
    answered = [
        _message(machine, node, holder, word)
        for holder, word in sorted((node.strangers or {}).items(), key=itemgetter(0))
        if word.granted
    ]
    return said + answered


def _give_back(machine: Machine, node: Node, on: CobId, old: Word) -> None:
    if node.recalled:
        node.recalled.discard(on)
    machine.effects.append(made(LockReleased, (on, node.id, old.state)))


def _ask_back(node: Node, on: CobId) -> None:
    if node.recalled is None:
        node.recalled = set()
    node.recalled.add(on)


def _remember(node: Node, holder: CobId, word: Word) -> None:
    if node.strangers is None:
        node.strangers = {}
    node.strangers[holder] = word


def _speak(machine: Machine, node: Node) -> None:
    """Count a word, and give its speaker a place in the queue, for the answer that may come."""
    node.seq += 1
    if not node.queued:
        node.queued = True
        machine.queue.append(node)


# --- what goes to and comes from objects elsewhere


def _message(machine: Machine, node: Node, other: CobId, word: Word) -> Message:
    """Return a word of an object to another one, or its answer to one of the other's."""
    if word.holder is node:
        kind = MessageKind.REQUEST if word.state else MessageKind.RELEASE
        known = machine.heard.get(other, 0)
    else:
        kind = MessageKind.RECALL if word.recalled else MessageKind.GRANT
        known = word.incarnation
    return Message(
        kind=kind,
        sender=node.id,
        receiver=other,
        state=word.state,
        incarnation=node.incarnation,
        seq=word.seq,
        generation=machine.generation,
        known=known,
    )


def _take_word(machine: Machine, node: Node, message: Message) -> None:
    old = (node.strangers or {}).get(message.sender)
    if old is not None and old.restored:
        if message.known < node.incarnation:
            return
        if message.state == old.state:
            # A restored grant is the answer to this word: the holder may still count on it.
            old.restored = False
            old.incarnation, old.seq = message.incarnation, message.seq
            machine.effects.append(LockGranted(node.id, message.sender, old.state))
            machine.send(_message(machine, node, message.sender, old))
            return
    elif not is_news(message, old):
        if old is not None and old.granted and is_again(message, old):
            machine.send(_message(machine, node, message.sender, old))
        return
    _replace(machine, node, old, message)


def _replace(machine: Machine, node: Node, old: Word | None, message: Message) -> None:
    holder = message.sender
    if old is not None and old.state:
        if old.granted:
            machine.effects.append(LockReleased(node.id, holder, old.state))
        node.drop(holder, old)
        _let_go(machine, node)
    word = Word(message.state, message.incarnation, message.seq, None, node)
    _remember(node, holder, word)
    if message.state:
        node.put(holder, word)
        node.pusher = holder
    machine.touch(node)


def _take_answer(machine: Machine, node: Node, message: Message) -> None:
    on = message.sender
    word = node.wishes.get(on)
    is_stale = word is None or (word.incarnation and not answers(message, word))
    if word is None or is_stale or message.state != word.state or not word.state:
        if node.frozen:
            return
        if word is None:
            _speak(machine, node)
            word = node.wishes[on] = Word("", node.incarnation, node.seq, node, None)
        machine.send(_message(machine, node, on, word))
        return
    if not word.granted:
        word.granted = True
        node.missing -= 1
    if message.kind is MessageKind.RECALL:
        _ask_back(node, on)
    machine.touch(node)
