"""The executors as they are registered: how they work is imported when a run makes one."""

from __future__ import annotations

from typing import Any, ClassVar

from cobweb.model import Action, Role, Tasks
from cobweb.plugin import EndingExecutor, MarkingExecutor


class AnsibleLanes(MarkingExecutor, EndingExecutor):
    """Stands for `AnsibleExecutor`."""

    name: ClassVar[str] = "ansible"
    actions: ClassVar[frozenset[type[Action]]] = frozenset[type[Action]]((Tasks, Role))

    def __new__(cls) -> Any:
        """Return the executor itself."""
        from cobweb_plugins.ansible._lanes import AnsibleExecutor

        return AnsibleExecutor()


class AnsiblePlain(MarkingExecutor, EndingExecutor):
    """Stands for `AnsiblePlainExecutor`."""

    name: ClassVar[str] = "ansible-plain"
    actions: ClassVar[frozenset[type[Action]]] = frozenset[type[Action]]((Tasks, Role))

    def __new__(cls) -> Any:
        """Return the executor itself."""
        from cobweb_plugins.ansible._plain import AnsiblePlainExecutor

        return AnsiblePlainExecutor()
