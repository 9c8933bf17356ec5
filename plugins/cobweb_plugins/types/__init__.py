"""The built-in COB types: `file`, `process`, `script` and `service`, made of Ansible tasks."""

from __future__ import annotations

from cobweb.plugin import RegisteredType, hookimpl
from cobweb_plugins.types._builtin import FileType, ProcessType, ScriptType, ServiceType

__all__ = ["FileType", "ProcessType", "ScriptType", "ServiceType", "cobweb_register_types"]

cobweb_interface = 1


@hookimpl
def cobweb_register_types() -> list[type[RegisteredType]]:
    """Register the built-in types."""
    return [FileType, ProcessType, ScriptType, ServiceType]
