"""Built-in plugin: the executor `simulate`, which runs a site without hosts on a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.plugin import Executor, hookimpl
from cobweb_plugins.simulate._executor import SimulateExecutor
from cobweb_plugins.simulate._options import SimulateOptions

__all__ = ["SimulateExecutor", "SimulateOptions", "cobweb_interface"]

cobweb_interface = 1


@hookimpl
def cobweb_register_executors() -> Sequence[type[Executor]]:
    """Register `simulate`."""
    return [SimulateExecutor]
