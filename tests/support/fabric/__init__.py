"""Hosts made of namespaces, each with an sshd, for tests on real systems (Linux, root).

    with Fabric(folder, plain=1, systemd=2) as fabric:                # h01, s01, s02
        fabric.run(fabric.systemd[0], "systemctl", "is-system-running")

    Fabric(folder, plain=0, systemd=2, names=["st1", "st2"], image="deps", disks=2, disk_mb=512)

- A host's root lies over this machine's own: what is installed here is installed there. An `image`
  puts layers between (Pacemaker, GlusterFS, Grid Engine, Slurm, nginx, podman, cron, ...): `full`
  has them installed, `deps` is bare and has them in /srv/repo, its only apt source. Images are
  built where they are missing, which takes minutes; do it beforehand, outside of a test:
  `python -m tests.support.fabric.images`. `_bake.PACKAGES` says what is in them.
- `disks` are loop devices on files in memory, as /dev/vdb, /dev/vdc, ... There is no udev: no
  links in /dev/disk, and systemd knows no units of devices; `mount` mounts, a mount unit waits.
- What a host may change of the kernel is its own: /proc/sys/net, its cgroup, mounts, nftables,
  FUSE. The rest of /proc/sys is read-only; modules, the clock and the kernel's log are the
  machine's.
- Podman (image `full`) keeps images as folders (vfs) and gives containers no cgroups; there is no
  registry: `tar -c . | podman import - localhost/NAME` makes an image, busybox is there for it.
- Hosts with systemd start at boot what is enabled in /etc/systemd/system, and nothing else. An
  installed package starts its services unless /usr/sbin/policy-rc.d says no.
- All of it ends with `close`, and by the kernel when the test run is killed.
"""

from __future__ import annotations

from tests.support.fabric._fabric import Fabric, FabricError, in_namespace, what_is_missing
from tests.support.fabric._layers import IMAGES, build_images
from tests.support.fabric._spec import BRIDGE_ADDRESS, OPERATOR, FabricHost, Init
from tests.support.fabric._watch import Change, Watch

__all__ = [
    "BRIDGE_ADDRESS",
    "IMAGES",
    "OPERATOR",
    "Change",
    "Fabric",
    "FabricError",
    "FabricHost",
    "Init",
    "Watch",
    "build_images",
    "in_namespace",
    "what_is_missing",
]
