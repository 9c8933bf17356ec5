"""The first moments of a host of a fabric; how it boots is the provider's of such hosts."""

from __future__ import annotations

from typing import NoReturn

from cobweb_plugins.namespaces import _boot
from cobweb_plugins.namespaces._boot import mount_system_folders, systemd_path
from cobweb_plugins.namespaces._disk import Disk
from tests.support.fabric._spec import BRIDGE_ADDRESS, PREFIX_LENGTH, FabricHost

__all__ = ["become_host", "mount_system_folders", "systemd_path"]


def become_host(host: FabricHost, disk: Disk, network_ready: int) -> NoReturn:
    """Become `host`: see `cobweb_plugins.namespaces._boot.become_host`."""
    boot = _boot.Boot(
        name=host.name,
        address=f"{host.address}/{PREFIX_LENGTH}",
        gateway=BRIDGE_ADDRESS,
        init=host.init,
        disk=disk,
    )
    _boot.become_host(boot, network_ready)
