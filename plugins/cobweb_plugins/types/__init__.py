"""The built-in COB types, made of Ansible tasks: each a folder of playbooks/ with a `type.yml`."""

from __future__ import annotations

from pathlib import Path

from cobweb.plugin import RegisteredType, data_dir, hookimpl, type_file

__all__ = ["cobweb_register_types"]

cobweb_interface = 1


@hookimpl
def cobweb_register_types() -> list[type[RegisteredType]]:
    """Register the built-in types."""
    folder = Path(str(data_dir("playbooks")))
    return [type_file(path) for path in sorted(folder.glob("*/type.yml"))]
