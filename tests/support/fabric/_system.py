"""The few calls of Linux that hosts are made with; they are the provider's of such hosts."""

from __future__ import annotations

from cobweb_plugins.namespaces._system import (
    Capability,
    MountFlag,
    Namespace,
    cgroup_root,
    die_with_parent,
    drop_capability,
    enter_namespace,
    mount,
    pivot_root,
    remove_cgroup,
    unshare,
)

__all__ = [
    "Capability",
    "MountFlag",
    "Namespace",
    "cgroup_root",
    "die_with_parent",
    "drop_capability",
    "enter_namespace",
    "mount",
    "pivot_root",
    "remove_cgroup",
    "unshare",
]
