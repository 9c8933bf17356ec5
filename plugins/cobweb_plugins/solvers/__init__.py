"""Built-in plugin: the solvers `preference` and `cpsat`, from a cluster template to a layout."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.plugin import Solver, hookimpl
from cobweb_plugins.solvers._solvers import CpsatSolver, PreferenceSolver

__all__ = ["CpsatSolver", "PreferenceSolver", "cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_solvers() -> Sequence[type[Solver]]:
    """Register `preference` and `cpsat`."""
    return [PreferenceSolver, CpsatSolver]
