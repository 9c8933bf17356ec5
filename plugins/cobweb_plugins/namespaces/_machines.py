"""The provider `namespaces`: machines to try Cobweb with, on one Linux machine, as root.

A machine is a set of namespaces with an sshd, over this machine's own root (see `_boot`). It
outlives the process that made it, is found again by its node's name, and goes wholly: its disk is
in memory, its cable and mounts end with it. It is no security boundary.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cobweb.errors import CredentialsError, ProviderError
from cobweb.plugin import Machine, NodeRequest
from cobweb_plugins.namespaces._boot import systemd_path
from cobweb_plugins.namespaces._disk import Init
from cobweb_plugins.namespaces._network import connect, cut, drop_bridge, ensure_bridge, says_ssh
from cobweb_plugins.namespaces._packages import REPOSITORY, fetch_packages
from cobweb_plugins.namespaces._provider import BRIDGE, CACHE_DIR, NETWORK, STATE_DIR
from cobweb_plugins.namespaces._records import Record, Records
from cobweb_plugins.namespaces._system import cgroup_root, remove_cgroup

_CGROUP = "cobweb-namespaces"
_IMAGES = {"plain": Init.SSHD, "systemd": Init.SYSTEMD}
_DISK_MB = 2048
_PROGRAMS = ("ip", "ssh", "ssh-keygen", "/usr/sbin/sshd")
_PROBE_S = 0.05
_SPAWN_S = 60.0
_CONSOLE_CHARS = 500
_GLOBAL = "all"


class NamespaceMachines:
    """Finds, makes, awaits and ends machines; see `NodeProvider`."""

    def find(self, request: NodeRequest) -> Machine | None:
        """Read the record of a node's machine; it is ready while its processes live."""
        records = _records(request)
        record = records.read(request)
        return None if record is None else _machine(records, request, record)

    def create(self, request: NodeRequest) -> Machine:
        """Start a machine; its record is there before anything else of it is."""
        _refuse_unable(request)
        records = _records(request)
        with _failing(request), records.locked(records.folder(request).name):
            record = records.read(request)
            if record is None:
                record = _prepared(records, request)
                _start(records, request, record)
            return _machine(records, request, record)

    def confirm(self, request: NodeRequest, machine: Machine) -> Machine:
        """Wait until its sshd answers; a machine that has ended will not."""
        records = _records(request)
        end = time.monotonic() + request.timeout_s
        while True:
            record = records.read(request)
            if record is None or record.id != machine.id:
                raise ProviderError(f"the machine {machine.id} is gone")
            if not _lives(records.folder(request)):
                said = _console(records.folder(request))
                raise ProviderError(f"the machine {machine.id} has ended{said}")
            if says_ssh(record.address):
                return _machine(records, request, record)
            if time.monotonic() > end:
                raise ProviderError(
                    f"no SSH at {record.address}{_console(records.folder(request))}"
                )
            time.sleep(_PROBE_S)

    def delete(self, request: NodeRequest, machine: Machine) -> None:
        """End a machine and take away all that it was made of; its record goes last."""
        records = _records(request)
        with _failing(request), records.locked(records.folder(request).name):
            record = records.read(request)
            if record is None or record.id != machine.id:
                return
            folder = records.folder(request)
            _end(folder, request)
            cut(record.port)
            with records.locked(_GLOBAL):
                records.remove(request)
                if not records.in_use(record.bridge):
                    drop_bridge(record.bridge)


def _records(request: NodeRequest) -> Records:
    return Records(Path(request.fields.get("state_dir", STATE_DIR)))


def _machine(records: Records, request: NodeRequest, record: Record) -> Machine:
    folder = records.folder(request)
    options = {
        "UserKnownHostsFile": str(folder / "known_hosts"),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "HostKeyAlias": record.id,
        "KexAlgorithms": "curve25519-sha256",
    }
    return Machine(
        id=record.id,
        addresses={"access_v4": record.address, "bind_v4": record.address},
        connection={
            "ansible_host": record.address,
            "ansible_port": 22,
            "ansible_user": request.image.get("user", "root"),
            "ansible_ssh_private_key_file": str(records.root / "key"),
            "ansible_ssh_common_args": " ".join(f"-o {key}={options[key]}" for key in options),
            "ansible_python_interpreter": "/usr/bin/python3",
        },
        ready=_lives(folder),
    )


def _refuse_unable(request: NodeRequest) -> None:
    """Say what is missing here before anything is made."""
    if os.geteuid() != 0:
        raise CredentialsError("machines of namespaces need root", hint="run cobweb as root")
    image = request.image.get("image", "plain")
    if image not in _IMAGES:
        known = " and ".join(_IMAGES)
        raise ProviderError(f"there is no image {image!r}", hint=f"there are {known}")
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if _IMAGES[image] is Init.SYSTEMD and systemd_path() is None:
        missing.append("systemd")
    if missing:
        raise ProviderError(f"not installed on this machine: {', '.join(missing)}")
    if cgroup_root() is None:
        raise ProviderError(
            "this machine has no cgroup version 2", hint="mount -t cgroup2 none /sys/fs/cgroup"
        )
    network = request.fields.get("network", NETWORK)
    try:
        ipaddress.IPv4Network(network)
    except ValueError as error:
        raise ProviderError(f"{network!r} is no network: {error}") from error


def _prepared(records: Records, request: NodeRequest) -> Record:
    """Return a new record, with keys, packages and a bridge to hang on."""
    fields = request.fields
    network, bridge = fields.get("network", NETWORK), fields.get("bridge", BRIDGE)
    if fields.get("packages"):
        cache = Path(fields.get("cache_dir", CACHE_DIR))
        with Records(cache).locked("packages"):
            fetch_packages(cache, fields["packages"])
    with records.locked(_GLOBAL):
        if not (records.root / "key").exists():
            _make_key(records.root / "key")
        ensure_bridge(bridge, ipaddress.IPv4Network(network))
        identity = f"{request.node}-{secrets.token_hex(4)}"
        return records.add(request, identity, bridge, network)


def _start(records: Records, request: NodeRequest, record: Record) -> None:
    folder = records.folder(request)
    _make_key(folder / "host_key")
    public = (folder / "host_key.pub").read_text(encoding="ascii")
    (folder / "known_hosts").write_text(f"{record.id} {public}", encoding="ascii")
    cgroup = _cgroup(folder)
    cgroup.mkdir(parents=True, exist_ok=True)
    (folder / "boot.json").write_text(
        json.dumps(_plan(records, request, record, cgroup)), encoding="utf-8"
    )
    with (folder / "console.log").open("ab") as console:
        starter = subprocess.Popen(
            [sys.executable, "-m", "cobweb_plugins.namespaces._spawn", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=console,
            start_new_session=True,
            cwd="/",
        )
    said, gate = starter.stdout, starter.stdin
    assert said is not None
    assert gate is not None
    with said, gate:
        pid = said.readline().strip()
        if starter.wait(_SPAWN_S) or not pid:
            raise ProviderError(f"the machine did not start{_console(folder)}")
        connect(record.port, record.bridge, int(pid))
        gate.write(b"g")


def _plan(
    records: Records, request: NodeRequest, record: Record, cgroup: Path
) -> Mapping[str, Any]:
    fields = request.fields
    network = ipaddress.IPv4Network(fields.get("network", NETWORK))
    packages = fields.get("packages") or []
    binds = {"/etc/hosts": str(records.hosts_file(record.owner))}
    if packages:
        cache = Path(fields.get("cache_dir", CACHE_DIR))
        binds[REPOSITORY] = str(fetch_packages(cache, packages))
    return {
        "name": request.node,
        "address": f"{record.address}/{network.prefixlen}",
        "gateway": str(network[1]),
        "init": _IMAGES[request.image.get("image", "plain")],
        "public_key": (records.root / "key.pub").read_text(encoding="ascii"),
        "cgroup": str(cgroup),
        "disk_mb": request.hardware.get("disk_mb", _DISK_MB),
        "binds": binds,
        "packages": packages,
    }


def _make_key(file: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "cobweb", "-f", str(file)]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def _cgroup(folder: Path) -> Path:
    root = cgroup_root()
    assert root is not None
    return root / _CGROUP / folder.name


def _lives(folder: Path) -> bool:
    """Say whether there are processes of a machine."""
    try:
        events = (_cgroup(folder) / "cgroup.events").read_text(encoding="ascii")
    except OSError:
        return False
    return "populated 1" in events


def _end(folder: Path, request: NodeRequest) -> None:
    """End all processes of a machine at once, and wait until they are gone."""
    end = time.monotonic() + request.timeout_s
    while _lives(folder):
        (_cgroup(folder) / "cgroup.kill").write_text("1", encoding="ascii")
        if time.monotonic() > end:
            raise ProviderError(f"processes of {request.node} do not end")
        time.sleep(_PROBE_S)
    remove_cgroup(f"{_CGROUP}/{folder.name}")


def _console(folder: Path) -> str:
    """Return the last that a machine said, to be put behind a sentence."""
    try:
        text = (folder / "console.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = " ".join(text.split())[-_CONSOLE_CHARS:]
    return f"; its console: {said}" if said else ""


@contextmanager
def _failing(request: NodeRequest) -> Iterator[None]:
    """Turn what the machine below refuses into an error of the provider."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        said = error.stderr if isinstance(error.stderr, str) else (error.stderr or b"").decode()
        raise ProviderError(f"{request.node}: {error.cmd[0]}: {said.strip()}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"{request.node}: {error}") from error
