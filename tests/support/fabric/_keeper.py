"""The keeper of a fabric: PID 1 of a PID namespace that all of its hosts live in.

Run as a program. Its first process stays outside and prints the keeper's pid; the keeper takes
requests, one JSON object a line, on stdin and answers each on stdout. All that a fabric is made of
(processes, mounts, bridge, cables, addresses) is in the keeper's namespaces, so when it ends, by
the end of stdin or by any signal, the kernel takes everything away with it. Only the empty cgroups
have to be removed by hand, which `Fabric.close` does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.fabric._boot import become_host
from tests.support.fabric._disk import Disk, make_disk
from tests.support.fabric._loop import mount_image
from tests.support.fabric._spec import (
    BRIDGE_ADDRESS,
    PREFIX_LENGTH,
    FabricHost,
    Init,
    decode_host,
)
from tests.support.fabric._system import (
    MountFlag,
    Namespace,
    cgroup_root,
    die_with_parent,
    mount,
    unshare,
)

__all__: list[str] = []

_HOST = (
    Namespace.PID
    | Namespace.MOUNT
    | Namespace.NETWORK
    | Namespace.UTS
    | Namespace.IPC
    | Namespace.CGROUP
)
_BRIDGE = "bridge"
_PROBE_S = 0.02
_CONNECT_S = 0.1
_CONSOLE_CHARS = 2000
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_INSTANCES = 4096


class Keeper:
    """Makes hosts and does to them what can happen to hosts."""

    def __init__(self, folder: Path, name: str, images: Sequence[str]) -> None:
        root = cgroup_root()
        if root is None:
            raise OSError("this machine has no cgroup version 2 mounted")
        self._folder = folder
        self._cgroup = root / name
        self._disks: dict[str, Disk] = {}
        self._pids: dict[str, int] = {}
        mount("none", Path("/"), flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
        mount("proc", Path("/proc"), "proc")
        mount("tmpfs", folder, "tmpfs", options="mode=755")
        self._layers = [
            _mount_layer(Path(image), folder / f"layer{number}")
            for number, image in enumerate(images)
        ]
        self._cgroup.mkdir()
        _ip(
            "link set lo up",
            f"link add {_BRIDGE} type bridge forward_delay 0 stp_state 0 mcast_snooping 0",
            f"addr add {BRIDGE_ADDRESS}/{PREFIX_LENGTH} brd + dev {_BRIDGE}",
            f"link set {_BRIDGE} up",
        )

    def make(self, hosts: Sequence[FabricHost], public_key: str) -> dict[str, str]:
        """Make the disks; return the hosts' public SSH keys by name."""
        if any(host.init is Init.SYSTEMD for host in hosts):
            _raise_inotify()
        keys = {}
        for host in hosts:
            disk = Disk(self._folder / host.name, self._layers)
            keys[host.name] = make_disk(disk, host, hosts, public_key)
            self._disks[host.name] = disk
        return keys

    def start(self, hosts: Sequence[FabricHost]) -> None:
        """Start hosts with the disks that they have."""
        gates = []
        for host in hosts:
            (self._cgroup / host.name).mkdir(exist_ok=True)
            self._pids[host.name], gate = self._spawn(host)
            gates.append(gate)
        _ip(*(line for host in hosts for line in self._cable(host)))
        for gate in gates:
            os.write(gate, b"g")
            os.close(gate)

    def pid(self, host: FabricHost) -> int:
        """Return the pid of the host's PID 1 as the keeper's namespace counts it."""
        return self._pids[host.name]

    def cut_power(self, host: FabricHost) -> None:
        """End the host at once; nothing of its end reaches the network."""
        _ip(f"link del {host.port}")
        pid = self._pids.pop(host.name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def set_link(self, host: FabricHost, *, up: bool) -> None:
        """Pull or plug the host's cable."""
        _ip(f"link set {host.port} {'up' if up else 'down'}")

    def freeze(self, host: FabricHost, *, frozen: bool) -> None:
        """Stop or continue all processes of the host; its kernel still answers."""
        group = self._cgroup / host.name
        (group / "cgroup.freeze").write_text(str(int(frozen)), encoding="ascii")
        while f"frozen {int(frozen)}" not in (group / "cgroup.events").read_text(encoding="ascii"):
            time.sleep(_PROBE_S)

    def wait_for_ssh(self, hosts: Sequence[FabricHost], timeout_s: float) -> dict[str, str]:
        """Wait until the hosts answer; return the consoles of those that did not in time."""
        deadline = time.monotonic() + timeout_s
        left = [host for host in hosts if not _says_ssh(host.address)]
        while left and time.monotonic() < deadline:
            time.sleep(_PROBE_S)
            left = [host for host in left if not _says_ssh(host.address)]
        return {host.name: self._console(host) for host in left}

    def _spawn(self, host: FabricHost) -> tuple[int, int]:
        """Fork a host; return its pid and the pipe that tells it that its cable is there."""
        ready, gate = os.pipe()
        answer, tell = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(gate)
            self._become(host, ready, tell)
        os.close(ready)
        os.close(tell)
        os.waitpid(first, 0)
        pid = os.read(answer, 32)
        os.close(answer)
        if not pid:
            raise OSError(f"{host.name} did not start: {self._console(host)}")
        return int(pid), gate

    def _become(self, host: FabricHost, ready: int, tell: int) -> None:
        """Join the host's cgroup, make its namespaces, and let a child of ours be its PID 1."""
        code = 1
        try:
            console = os.open(self._console_file(host), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(console, 1)
            os.dup2(console, 2)
            procs = self._cgroup / host.name / "cgroup.procs"
            procs.write_text("0", encoding="ascii")
            unshare(_HOST)
            child = os.fork()
            if child == 0:
                os.close(tell)
                become_host(host, self._disks[host.name], ready)
            os.write(tell, str(child).encode())
            code = 0
        except OSError:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _cable(self, host: FabricHost) -> tuple[str, ...]:
        far_end = f"eth0 address {host.hardware_address} netns {self._pids[host.name]}"
        return (
            f"link add {host.port} type veth peer name {far_end}",
            f"link set {host.port} master {_BRIDGE} up",
        )

    def _console(self, host: FabricHost) -> str:
        text = self._console_file(host).read_text(encoding="utf-8", errors="replace")
        return text[-_CONSOLE_CHARS:]

    def _console_file(self, host: FabricHost) -> Path:
        return self._folder / host.name / "console.log"


def answer(keeper: Keeper, request: Mapping[str, Any]) -> Any:
    """Carry out one request; return the plain data of its answer."""
    hosts = [decode_host(data) for data in request["hosts"]]
    match request["do"]:
        case "make":
            return keeper.make(hosts, request["public_key"])
        case "start":
            keeper.start(hosts)
            return keeper.wait_for_ssh(hosts, request["timeout_s"])
        case "pid":
            return keeper.pid(hosts[0])
        case "cut_power":
            keeper.cut_power(hosts[0])
        case "link":
            keeper.set_link(hosts[0], up=request["up"])
        case "freeze":
            keeper.freeze(hosts[0], frozen=request["frozen"])
        case unknown:
            raise ValueError(f"unknown request {unknown!r}")
    return None


def serve(folder: Path, name: str, images: Sequence[str]) -> None:
    """Answer requests until stdin ends; an error is an answer too."""
    keeper = Keeper(folder, name, images)
    for line in sys.stdin:
        try:
            reply = {"result": answer(keeper, json.loads(line))}
        except (OSError, subprocess.CalledProcessError, LookupError, ValueError):
            reply = {"error": traceback.format_exc()}
        _say(reply)


def main() -> None:
    """Make the fabric's namespaces, print the pid of the keeper, and wait for its end."""
    unshare(Namespace.PID)
    child = os.fork()
    if child == 0:
        die_with_parent()
        unshare(Namespace.MOUNT | Namespace.NETWORK)
        serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
        return
    _say({"result": child})
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) != 0)


def _say(reply: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def _raise_inotify() -> None:
    """Let many systemd run on this machine: each needs some five instances of inotify."""
    now = int(_INOTIFY.read_text(encoding="ascii"))
    if now < _INOTIFY_INSTANCES:
        _INOTIFY.write_text(str(_INOTIFY_INSTANCES), encoding="ascii")
        sys.stderr.write(f"fabric: raised {_INOTIFY} from {now} to {_INOTIFY_INSTANCES}\n")


def _mount_layer(image: Path, place: Path) -> Path:
    place.mkdir()
    mount_image(image, place, read_only=True)
    return place / "upper"


def _ip(*commands: str) -> None:
    subprocess.run(
        ["ip", "-batch", "-"],
        input="".join(f"{command}\n" for command in commands),
        text=True,
        check=True,
    )


def _says_ssh(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), _CONNECT_S) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


if __name__ == "__main__":
    main()
