"""Breaks circles that only the priority of states has made.

Two objects may each hold what the other needs in another state: the servers of a pair, say, of
which each is to be changed while the other one is up. Rule 1 gives each to the request of higher
priority, and both requesters wait. When nothing is in flight and nothing can happen any more, one
object in such a circle favours a request that it passed over, for as long as that request lasts.
This needs to know that nothing runs anywhere, so only an engine that owns all objects does it; each
request is favoured at most once, so it ends. All promises hold as before: only a target is chosen
differently.
"""

from __future__ import annotations

from collections.abc import Iterator

from cobweb.model import UNKNOWN, CobId
from tests.support.reference_engine._machine import Machine
from tests.support.reference_engine._node import Node

__all__ = ["untangle"]


def untangle(machine: Machine) -> bool:
    """Favour one passed-over request in a circle, smallest requester first; say whether any."""
    if any(canary.stage == "paused" for canary in machine.book.canaries.values()):
        return False
    for asker, locked in sorted(_passed_over(machine)):
        holder, node = machine.nodes[asker], machine.nodes[locked]
        if _in_a_circle(machine, holder, node) and not _hopeless(machine, holder, node):
            node.favours.add(asker)
            node.favoured = node.asks[asker].stands_for
            machine.touch(node)
            return True
    return False


def _passed_over(machine: Machine) -> Iterator[tuple[CobId, CobId]]:
    """Yield (asker, locked) for requests that wait only because another one comes first."""
    for node in machine.nodes.values():
        if not node.pending or node.stuck or not node.up or node.state == UNKNOWN:
            continue
        target = node.target()
        for state, askers in node.pending.items():
            if state != target and node.type.way(node.state, state) is not None:
                yield from ((asker, node.id) for asker in askers - node.favours)


def _in_a_circle(machine: Machine, asker: Node, locked: Node) -> bool:
    """Say whether those whom `locked` prefers wait, in the end, for `asker`."""
    first = [machine.nodes[cob] for cob in sorted(locked.asking(locked.target()))]
    return asker.id in _reached(machine, first, None)


def _hopeless(machine: Machine, asker: Node, locked: Node) -> bool:
    """Say whether `asker` also waits for something that will not come in this run."""
    others = _reached(machine, [asker], locked.id)
    return any(_dead(machine.nodes[cob]) for cob in others)


def _dead(node: Node) -> bool:
    if node.stuck or not node.up or node.state == UNKNOWN:
        return True
    return node.type.way(node.state, node.target()) is None


def _reached(machine: Machine, first: list[Node], but: CobId | None) -> set[CobId]:
    """Return all that `first` wait for, directly or not, without going through `but`."""
    stack, seen = list(first), {node.id for node in first}
    while stack:
        for after in _waits_for(machine, stack.pop()):
            if after not in seen and after != but:
                seen.add(after)
                stack.append(machine.nodes[after])
    return seen


def _waits_for(machine: Machine, node: Node) -> Iterator[CobId]:
    for on, wish in node.wishes.items():
        if wish.held or not wish.state:
            continue
        locked = machine.nodes[on]
        yield on
        if locked.target() != locked.means(node.id, wish.state):
            yield from locked.asking(locked.target())
    if node.plan.step is not None:
        yield from (holder for holders in node.lent.values() for holder in holders)
        yield from machine.book.in_the_way(node, node.plan.step)
