"""The two solvers; what they do is imported when they are asked, for each command loads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from cobweb_plugins.solvers._problem import NodeLayout


class PreferenceSolver:
    """Writes out all service sets, then node layouts, and searches counts by preference.

    Exact, and exponential in the number of services: for small clusters, and to check others by.
    A subclass may have another `comparator`.
    """

    name: ClassVar[str] = "preference"

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """See `Solver.solve`."""
        from cobweb_plugins.solvers import _preference

        return _preference.solve(template, constraints, self.comparator)

    @staticmethod
    def comparator(layout: NodeLayout) -> Any:
        """Return the key that node layouts are sorted by; keys of different layouts differ."""
        return (-len(layout.services), layout.hardwaretype, layout.imagetype, layout.services)


class CpsatSolver:
    """Finds the layout that `preference` finds, for any number of nodes and dozens of services.

    A subclass may prefer types in another order, by `rank`; that more services come first is what
    the method rests on.
    """

    name: ClassVar[str] = "cpsat"

    def solve(
        self, template: Mapping[str, Any], constraints: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """See `Solver.solve`; CobwebError without OR-tools, where a question comes to need them."""
        from cobweb_plugins.solvers import _cpsat

        return _cpsat.solve(template, constraints, self.rank)

    @staticmethod
    def rank(hardwaretype: str, imagetype: str) -> Any:
        """Return the key that pairs of types are sorted by, among layouts of as many services."""
        return (hardwaretype, imagetype)
