"""Built-in plugin: the solvers `preference` and `cpsat`, from a cluster template to a layout."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.plugin import Solver, hookimpl
from cobweb_plugins.solvers._cpsat import CpsatSolver
from cobweb_plugins.solvers._preference import PreferenceSolver
from cobweb_plugins.solvers._problem import NodeLayout, by_services_then_names

__all__ = [
    "CpsatSolver",
    "NodeLayout",
    "PreferenceSolver",
    "by_services_then_names",
    "cobweb_interface",
]

cobweb_interface = 1


@hookimpl
def cobweb_register_solvers() -> Sequence[type[Solver]]:
    """Register `preference` and `cpsat`."""
    return [PreferenceSolver, CpsatSolver]
