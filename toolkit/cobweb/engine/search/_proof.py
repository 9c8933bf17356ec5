"""Why there is no order: the needs and budgets that together leave none (design, section 5b).

An exhausted search says that there is no order, not why. So needs and budgets are left out, half
of them at first, for as long as there still is none: what remains is a set of which none can be
spared. Most of what has no order has none even if nothing that was reached were ever lost again
(`_reach`), which is seen without any search; for the rest the search is asked, within a bound of
its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cobweb.engine.analysis._patterns import Patterns
from cobweb.engine.analysis._reach import Reach
from cobweb.engine.search._moves import Moves
from cobweb.engine.search._problem import Problem, by_cob
from cobweb.engine.search._search import GaveUp, NoOrder, find_order
from cobweb.model import Budget, Cob, CobId, Graph, Need, State

EXPLAINED_CAP = 100_000
"""How many situations all searches for one explanation expand together."""

_Reason = Need | Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The needs and budgets that leave no order, in the order of the graph.

    `unreached` are the (object, state it should get to) that can never be had, whatever is done
    first: if there is one, this alone leaves no order. `smallest` says that none of `needs` and
    `budgets` can be spared; otherwise the search for a smaller set ended at its cap.
    """

    needs: tuple[Need, ...]
    budgets: tuple[Budget, ...]
    unreached: tuple[tuple[CobId, State], ...]
    smallest: bool


def explain(
    problem: Problem, cobs: Collection[CobId] | None = None, cap: int = EXPLAINED_CAP
) -> Proof:
    """Return why no order exists; only for what `find_order` has shown to have none."""
    return _Explanation(problem, cobs, cap).run()


class _Explanation:
    """One explanation; `_left` is how many situations may still be expanded."""

    def __init__(self, problem: Problem, cobs: Collection[CobId] | None, cap: int) -> None:
        self._problem = problem
        self._moves = Moves(problem, cobs)
        self._cobs = cobs
        self._left = cap
        self._whole = True
        self._limited = [
            budget
            for budget in problem.budgets
            if any(cob in self._moves.at for unit in budget.units for cob in unit.members)
        ]
        self._needs = [need for cob in self._moves.cobs for need in problem.needs.get(cob, ())]
        asked = {need.on for need in self._needs} - self._moves.at.keys()
        looked_at = (*self._moves.cobs, *sorted(asked))
        self._relaxed = Graph(cobs={cob: self._only_moves(cob) for cob in looked_at})

    def run(self) -> Proof:
        """Leave out what can be spared: budgets first, then needs."""
        unreached = self._unreached(self._needs)
        kept: list[_Reason] = [*self._needs] if unreached else [*self._limited, *self._needs]
        size = len(kept)
        while size:
            at = 0
            while at < len(kept):  # every run of so many reasons is left out that can be spared
                rest = kept[:at] + kept[at + size :]
                if self._suffices(rest):
                    kept = rest
                else:
                    at += size
            size //= 2
        needs = {need for need in kept if not isinstance(need, Budget)}
        return Proof(
            needs=tuple(need for need in self._needs if need in needs),
            budgets=tuple(it for it in kept if isinstance(it, Budget)),
            unreached=unreached,
            smallest=self._whole,
        )

    def _suffices(self, reasons: Iterable[_Reason]) -> bool:
        """Say whether some reasons alone leave no order; False where the cap was reached."""
        budgets = tuple(it for it in reasons if isinstance(it, Budget))
        needs = [it for it in reasons if not isinstance(it, Budget)]
        if self._unreached(needs):
            return True
        problem = replace(self._problem, needs=by_cob(needs), budgets=budgets)
        found = find_order(problem, self._cobs, self._left)
        self._left -= found.expanded
        self._whole = self._whole and not isinstance(found, GaveUp)
        return isinstance(found, NoOrder)

    def _unreached(self, needs: Collection[Need]) -> tuple[tuple[CobId, State], ...]:
        """Return who does not get where it should be, even if nothing is ever lost."""
        graph = replace(self._relaxed, needs=tuple(needs))
        states = {cob: self._problem.states[cob] for cob in graph.cobs}
        reached = Reach(graph, Patterns(graph), states).reached
        aims = self._moves.aims(self._cobs)
        pairs = zip(self._moves.cobs, aims, strict=True)
        return tuple(pair for pair in pairs if pair not in reached)

    def _only_moves(self, cob: CobId) -> Cob:
        """Return an object with those steps alone that may be taken.

        The search does not look at some, which stay as they are.
        """
        it, at = self._problem.graph.cobs[cob], self._moves.at.get(cob)
        by_state = {} if at is None else self._moves.operators[at]
        steps = {operator.number for some in by_state.values() for operator in some}
        left = tuple(step for number, step in enumerate(it.type.transitions) if number in steps)
        return replace(it, type=replace(it.type, transitions=left))
