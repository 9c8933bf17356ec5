"""From the data model of a storage cluster to an inventory and objects (COB paper, section 6).

What all hosts of a group have stands in modules that a site keeps by hand; what depends on how many
servers, disks and pairs there are is made here. The words of the model are in
schemas/models/storage.schema.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cobweb.errors import ModelError
from cobweb.plugin import data_dir

if TYPE_CHECKING:
    from cobweb_plugins.storage._model import Cluster


class StorageCluster:
    """Makes `hosts.yml` and `objects.yml`."""

    name: ClassVar[str] = "storage"
    schema: ClassVar[Mapping[str, Any]] = json.loads(
        (data_dir("schemas") / "models" / "storage.schema.json").read_text(encoding="utf-8")
    )

    def generate(self, model: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Return the inventory and the objects; ModelError names all that does not fit."""
        from cobweb_plugins.storage._model import problems, read_cluster
        from cobweb_plugins.storage._objects import objects

        found = list(problems(model))
        if found:
            raise ModelError(found)
        cluster = read_cluster(model)
        return {
            "hosts.yml": inventory(cluster),
            "objects.yml": {"present": cluster.present, "cobs": dict(objects(cluster))},
        }


def inventory(cluster: Cluster) -> dict[str, Any]:
    """Return the Ansible inventory: groups by what hosts do, and what tasks must know of each."""
    hosts = {
        **{
            server.name: {
                "ansible_host": server.address,
                "address": server.address,
                "number": server.number,
                "pair": server.pair,
                "disks": [vars_of_disk(disk) for disk in server.disks],
            }
            for server in cluster.servers
        },
        **{
            name: {"ansible_host": address, "address": address}
            for name, address in cluster.clients.items()
        },
    }
    groups = {name: {"hosts": dict.fromkeys(names)} for name, names in _groups(cluster).items()}
    return {"all": {"vars": _variables(cluster), "hosts": hosts, "children": groups}}


def vars_of_disk(disk: Any) -> dict[str, str]:
    """Return a disk as tasks see it."""
    return {"name": disk.name, "device": disk.device, "path": disk.path}


def _groups(cluster: Cluster) -> dict[str, list[str]]:
    servers = [server.name for server in cluster.servers]
    database = [cluster.primary, *cluster.standbys]
    return {
        "cluster_hosts": [*servers, *cluster.clients],
        "servers": servers,
        "clients": list(cluster.clients),
        "storage": [server.name for server in cluster.storage()],
        "first_server": servers[:1],
        "db": database,
        "db_primary": database[:1],
        "db_standbys": database[1:],
        **{
            f"pair_{pair.replace('-', '_')}": [it.name for it in members]
            for pair, members in cluster.pairs().items()
        },
    }


def _variables(cluster: Cluster) -> dict[str, Any]:
    members = [
        {"name": it.name, "address": it.address, "number": it.number, "pair": it.pair}
        for it in cluster.servers
    ]
    bricks = [
        {"server": server.name, "disk": disk.name, "path": disk.brick}
        for server, disk in cluster.bricks()
    ]
    postgres = {
        "version": cluster.postgres_version,
        "primary": cluster.primary,
        "standbys": list(cluster.standbys),
        "settings": dict(cluster.postgres_settings),
    }
    return {
        **cluster.connection,
        "cluster": cluster.name,
        "domain": cluster.domain,
        "interface": cluster.interface,
        "prefix": cluster.prefix,
        "virtual_ip": cluster.virtual_ip,
        "power": {"url": cluster.power_url},
        "members": members,
        "client_members": [
            {"name": name, "address": address} for name, address in cluster.clients.items()
        ],
        "volume": {
            "name": cluster.volume,
            "mount": cluster.mount,
            "options": dict(cluster.volume_options),
            "log_level": cluster.log_level,
            "heal_wait_s": cluster.heal_wait_s,
            "bricks": bricks,
        },
        "postgres": postgres,
        "monitoring": {"port": cluster.monitoring_port},
    }
