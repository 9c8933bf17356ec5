"""A fabric as tests see it: hosts, the way into them, and what can happen to them."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.fabric._boot import systemd_path
from tests.support.fabric._layers import image_files
from tests.support.fabric._spec import FabricHost, Init, encode_host, host_address
from tests.support.fabric._system import cgroup_root, remove_cgroup
from tests.support.fabric._watch import Watch

__all__ = ["Fabric", "FabricError", "in_namespace", "what_is_missing"]

_CHECKOUT = Path(__file__).resolve().parents[3]
_BOOT_S = 110.0
_PROGRAMS = ("ip", "nsenter", "ssh", "ssh-keygen", "sudo", "/usr/sbin/sshd")


class FabricError(Exception):
    """The fabric could not do what it was asked for."""


def what_is_missing() -> str | None:
    """Say in one line what this machine lacks for hosts made of namespaces; None for nothing."""
    programs = [name for name in _PROGRAMS if shutil.which(name) is None]
    if systemd_path() is None:
        programs.append("systemd")
    if programs:
        return f"not installed: {', '.join(programs)}; run .ci/install-system as root"
    if os.geteuid() != 0:
        return "hosts made of namespaces need root; run the tests as root"
    if cgroup_root() is None:
        return "needs cgroup version 2: mount -t cgroup2 none /sys/fs/cgroup"
    return None


class Fabric:
    """Hosts of namespaces on a network of their own; all of it ends with `close`.

    `folder` is new and empty and holds the key that opens all hosts. Plain hosts (sshd is PID 1)
    are h01, h02, ...; hosts with systemd follow as s01, s02, ...; `names` are other ones in this
    order. Each host has `disks` empty disks of `disk_mb`, /dev/vdb and so on. `image` is one of
    `IMAGES`; without one hosts have installed what this machine has.
    """

    def __init__(  # noqa: PLR0913 - all but the folder are named, and few are given
        self,
        folder: Path,
        *,
        plain: int,
        systemd: int = 0,
        names: Sequence[str] = (),
        disks: int = 0,
        disk_mb: int = 512,
        image: str | None = None,
    ) -> None:
        files = image_files(image) if image else ()
        self._folder = folder
        self._lock = threading.Lock()
        self._closed = False
        self.key = folder / "key"
        self.known_hosts = folder / "known_hosts"
        self.cgroup_name = f"cobweb-fabric-{os.getpid()}-{id(self):x}"
        inits = [Init.SSHD] * plain + [Init.SYSTEMD] * systemd
        self.hosts = tuple(
            FabricHost(
                number=number,
                name=name,
                address=host_address(number),
                init=init,
                disks=disks,
                disk_mb=disk_mb,
            )
            for number, (name, init) in enumerate(
                zip(names or _names(plain, systemd), inits, strict=True)
            )
        )
        (folder / "disks").mkdir()
        self._stem = _start_keeper(folder / "disks", self.cgroup_name, files)
        self.keeper_pid: int = self._reply()
        self._keeper_end = os.pidfd_open(self.keeper_pid)
        try:
            self._boot()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def plain(self) -> tuple[FabricHost, ...]:
        """Return the hosts without systemd."""
        return tuple(host for host in self.hosts if host.init is Init.SSHD)

    @property
    def systemd(self) -> tuple[FabricHost, ...]:
        """Return the hosts with systemd."""
        return tuple(host for host in self.hosts if host.init is Init.SYSTEMD)

    @property
    def stem_pid(self) -> int:
        """Return the process that all of the fabric hangs on; it stands outside of it."""
        return self._stem.pid

    @property
    def network(self) -> Path:
        """Return the network namespace where `cobweb` stands."""
        return Path(f"/proc/{self.keeper_pid}/ns/net")

    @property
    def connection(self) -> dict[str, str]:
        """Return the Ansible variables that open all hosts; host keys are checked."""
        options = {
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "KexAlgorithms": "curve25519-sha256",
        }
        return {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(f"-o {key}={options[key]}" for key in options),
            "ansible_python_interpreter": "/usr/bin/python3",
        }

    def inventory(self, groups: Mapping[str, Sequence[FabricHost]]) -> dict[str, Any]:
        """Return an Ansible inventory of the hosts in `groups`, as a mapping for YAML.

        The hosts are shared on purpose: the tests come with many sites, one after the other.
        """
        used: dict[str, Any] = {}
        children: dict[str, Any] = {}
        for group, row in groups.items():
            used |= {host.name: {"ansible_host": host.address} for host in row}
            children[group] = {"hosts": {host.name: {} for host in row}}
        variables = {**self.connection, "cobweb_shared": True}
        return {"all": {"vars": variables, "hosts": used, "children": children}}

    def inside(self, *argv: str) -> list[str]:
        """Return the command line that runs `argv` on this machine in the fabric's network."""
        return ["nsenter", f"--net={self.network}", "--", *argv]

    def run(
        self, host: FabricHost, *argv: str, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside a host, past network and SSH."""
        return subprocess.run(
            self.inside_host(host, *argv),
            check=check,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def inside_host(self, host: FabricHost, *argv: str) -> list[str]:
        """Return the command line that runs `argv` inside a host, past network and SSH."""
        keeper = ["nsenter", "-t", str(self.keeper_pid), "-m", "-p", "--"]
        pid = str(self._ask("pid", [host]))
        return [*keeper, "nsenter", "-t", pid, "-m", "-p", "-n", "-u", "-i", "-C", "--", *argv]

    def root(self, host: FabricHost) -> Path:
        """Return the root of a host's disk as seen from here; it holds until the host is killed."""
        pid = str(self._ask("pid", [host]))
        return Path("/proc", str(self.keeper_pid), "root", "proc", pid, "root")

    def visitors(self) -> list[str]:
        """Return the command lines of this machine's processes in the fabric's network."""
        found = in_namespace("net", self.network.stat().st_ino)
        return [_command(folder) for folder in found if folder.name != str(self.keeper_pid)]

    def watch(self, ports: Mapping[str, tuple[FabricHost, int]]) -> Watch:
        """Return a watch, to be entered, over ports of hosts by names of the caller's choice."""
        places = {name: (host.address, port) for name, (host, port) in ports.items()}
        return Watch(self.network, places)

    def link_down(self, host: FabricHost) -> None:
        """Pull the cable of a host; what runs there runs on."""
        self._ask("link", [host], up=False)

    def link_up(self, host: FabricHost) -> None:
        """Plug the cable of a host in again."""
        self._ask("link", [host], up=True)

    def kill(self, host: FabricHost) -> None:
        """Cut the power of a host: its processes and memory are gone, its disk stays."""
        self._ask("cut_power", [host])

    def start(self, *hosts: FabricHost) -> None:
        """Boot hosts with their disks and wait until SSH answers."""
        silent = self._ask("start", hosts, timeout_s=_BOOT_S)
        if silent:
            raise FabricError(f"no SSH after {_BOOT_S:.0f} s; consoles: {silent}")

    def freeze(self, host: FabricHost) -> None:
        """Stop all processes of a host; ping and TCP still answer, SSH hangs."""
        self._ask("freeze", [host], frozen=True)

    def thaw(self, host: FabricHost) -> None:
        """Let the processes of a frozen host run on."""
        self._ask("freeze", [host], frozen=False)

    def close(self) -> None:
        """End the hosts and everything made for them; harmless when called again."""
        if self._closed:
            return
        self._closed = True
        for pipe in (self._stem.stdin, self._stem.stdout):
            if pipe is not None:
                pipe.close()
        if not select.select([self._keeper_end], [], [], _BOOT_S)[0]:
            os.kill(self.keeper_pid, signal.SIGKILL)
            select.select([self._keeper_end], [], [])
        os.close(self._keeper_end)
        self._stem.wait()
        remove_cgroup(self.cgroup_name)
        shutil.rmtree(self._folder)

    def _boot(self) -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fabric", "-f", self.key],
            check=True,
        )
        public_key = self.key.with_suffix(".pub").read_text(encoding="utf-8")
        keys = self._ask("make", self.hosts, public_key=public_key)
        lines = (f"{host.name},{host.address} {keys[host.name]}\n" for host in self.hosts)
        self.known_hosts.write_text("".join(lines), encoding="utf-8")
        self.start(*self.hosts)

    def _ask(self, what: str, hosts: Sequence[FabricHost], **more: Any) -> Any:
        request = {"do": what, "hosts": [encode_host(host) for host in hosts], **more}
        assert self._stem.stdin is not None
        with self._lock:
            self._stem.stdin.write(json.dumps(request) + "\n")
            self._stem.stdin.flush()
            return self._reply()

    def _reply(self) -> Any:
        assert self._stem.stdout is not None
        line = self._stem.stdout.readline()
        if not line:
            raise FabricError("the keeper of the fabric has ended; its message is on stderr")
        reply = json.loads(line)
        if "error" in reply:
            raise FabricError(reply["error"])
        return reply["result"]


def in_namespace(kind: str, inode: int) -> list[Path]:
    """Return the folders in /proc of the processes in one namespace of a `kind` (net, pid).

    A process that has ended and whose parent has not noticed yet (a zombie) does not count.
    """
    found = [entry for entry in _processes() if _inode(entry / "ns" / kind) == inode]
    return [entry for entry in found if _lives(entry)]


def _processes() -> Iterable[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(encoding="utf-8").replace("\0", " ").strip()
    except OSError:
        return f"process {process.name}, just ended"


def _lives(process: Path) -> bool:
    try:
        return ") Z" not in (process / "stat").read_text(encoding="utf-8")
    except OSError:
        return False


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _names(plain: int, systemd: int) -> list[str]:
    first = [f"h{i + 1:02}" for i in range(plain)]
    return first + [f"s{i + 1:02}" for i in range(systemd)]


def _start_keeper(folder: Path, name: str, images: Sequence[Path]) -> subprocess.Popen[str]:
    own = [sys.executable, "-m", "tests.support.fabric._keeper"]
    return subprocess.Popen(
        [*own, str(folder), name, *map(str, images)],
        cwd=_CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
