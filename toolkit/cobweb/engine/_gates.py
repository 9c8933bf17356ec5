"""Gates: objects with a `trust` of their own, checked again before anything relies on them.

Before a step starts that holds locks on gates, all of these at which nobody has looked for longer
than they are trusted are checked, side by side; it starts with the end of the last of these checks,
if they find what they found before. To other engines a gate is lent after such a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobweb.engine._node import IDLE, Node
from cobweb.model import CobId, Graph

if TYPE_CHECKING:
    from cobweb.engine._machine import Machine


@dataclass(slots=True)
class _Round:
    """The checks for one step, of those `left`; the last one has ended at `done_s`.

    It is about `gates`: all that the step relies on, also those that were fresh when it began.
    """

    gates: frozenset[CobId]
    left: set[CobId]
    done_s: float = 0.0


class Gates:
    """Knows when somebody has looked at each gate of a graph, and which steps wait for a look.

    `trust_s` has all gates, each with how long it is trusted.
    """

    def __init__(self, graph: Graph) -> None:
        self.trust_s = {it.id: it.trust_s for it in graph.cobs.values() if it.trust_s is not None}
        self._looked_s: dict[CobId, float] = {}
        self._rounds: dict[CobId, _Round] = {}

    def looked_at(self, machine: Machine, node: Node) -> None:
        """Take note of the end of a check, and have those looked at that have waited for it."""
        self._looked_s[node.id] = machine.now_s
        holders = {cob for words in node.lent.values() for cob in words}
        for holder in sorted(holders & self._rounds.keys()):
            self._rounds[holder].left.discard(node.id)
            self._rounds[holder].done_s = machine.now_s
            machine.touch(machine.nodes[holder])

    def let_start(self, machine: Machine, node: Node) -> bool:
        """Say whether a step may start; if not, the gates that it relies on are being checked."""
        locks = (on for on, word in node.wishes.items() if word.state and on in machine.nodes)
        gates = frozenset(on for on in locks if on in self.trust_s)
        round_ = self._rounds.pop(node.id, None)
        if round_ is not None and gates == round_.gates:
            if round_.left:
                self._rounds[node.id] = round_
                return False
            if round_.done_s == machine.now_s:
                return True
        old = {on for on in gates if self._is_old(machine, on)}
        if not old:
            return True
        self._rounds[node.id] = _Round(gates=gates, left=old)
        for gate in sorted(old):
            if machine.nodes[gate].activity is IDLE and machine.nodes[gate].up:
                machine.check(machine.nodes[gate])
        return False

    def let_lend(self, machine: Machine, node: Node) -> bool:
        """Say whether an object may be lent to all who ask; if not, it is being checked."""
        asking = node.pending[node.state].values()
        if not self._is_old(machine, node.id) or all(it.holder is not None for it in asking):
            return True
        machine.check(node)
        return False

    def _is_old(self, machine: Machine, cob: CobId) -> bool:
        """Say whether an object is a gate and was looked at longer ago than it is trusted."""
        trust_s, looked_s = self.trust_s.get(cob), self._looked_s.get(cob)
        return trust_s is not None and (looked_s is None or machine.now_s - looked_s > trust_s)
