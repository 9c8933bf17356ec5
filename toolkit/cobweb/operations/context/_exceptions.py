"""What one run does otherwise than the site says: each is asked for, and recorded with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from cobweb.errors import UsageError
from cobweb.model import CobId, Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceptions:
    """How one run departs from the limits of the site.

    `budgets` are other bounds, by name of the limit; with `new_canary` canaries are chosen again.
    Only the objects of `only`, and what they need, are moved (none: all); those of `renew` are
    taken for changed.
    """

    budgets: Mapping[str, int] = field(default_factory=dict)
    new_canary: bool = False
    only: frozenset[CobId] = frozenset()
    renew: frozenset[CobId] = frozenset()

    @property
    def names(self) -> bool:
        """Whether they name objects."""
        return bool(self.only or self.renew)

    def bounded(self, graph: Graph) -> Graph:
        """Return a graph with these bounds; UsageError for a name that none of its limits has."""
        asked, known = self.budgets, [it.name for it in graph.budgets]
        if not asked:
            return graph
        for name in asked:
            if name not in known:
                close = get_close_matches(name, known, n=1) or sorted(known)
                hint = f"did you mean {close[0]}?" if close else "the site has none"
                raise UsageError(f"no limit on what is out is called {name!r}", hint=hint)
        bounded = (
            replace(it, count=asked[it.name], percent=None) if it.name in asked else it
            for it in graph.budgets
        )
        return replace(graph, budgets=tuple(bounded))

    def __str__(self) -> str:
        words = [f" --budget {name}={count}" for name, count in sorted(self.budgets.items())]
        words += [f" --only {cob}" for cob in sorted(self.only)]
        words += [f" --renew {cob}" for cob in sorted(self.renew)]
        return "".join([*words, " --new-canary" if self.new_canary else ""])
