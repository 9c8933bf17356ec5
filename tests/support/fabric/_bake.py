"""The making of one layer: packages of this machine's own sources, installed above its root.

Run as a program, PID 1 of namespaces of its own: `_bake NAME IMAGE LOWER...`. IMAGE is a new file;
it becomes an ext4 whose folder `upper` is the layer. Whatever a package starts ends with us.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.fabric._boot import mount_system_folders
from tests.support.fabric._loop import mount_image
from tests.support.fabric._system import mount

__all__ = ["PACKAGES", "REPOSITORY"]

PACKAGES = (
    "attr",
    "busybox-static",
    "chrony",
    "conmon",
    "corosync",
    "cron",
    "crun",
    "glusterfs-client",
    "glusterfs-server",
    "gridengine-client",
    "gridengine-exec",
    "gridengine-master",
    "iproute2",
    "iptables",
    "iputils-arping",
    "logrotate",
    "lsof",
    "munge",
    "netavark",
    "nftables",
    "nginx",
    "pacemaker",
    "pacemaker-cli-utils",
    "podman",
    "postgresql-15",
    "resource-agents",
    "rsync",
    "slurm-client",
    "slurmctld",
    "slurmd",
)
"""What image `full` has installed, and what is there to be installed on image `deps`."""

REPOSITORY = "/srv/repo"
"""Where hosts with an image have the packages; their only source."""

# What this machine may have itself: a host of image `deps` shall be without.
_TAKEN_AWAY = ("postgresql", "postgresql-15")

_ALSO_NEEDED = ("e2fsprogs", "git", "psmisc", "python3-apt", "xfsprogs")

# A master of Grid Engine makes its cluster on the host, where its name resolves; here it does not.
_PRESEED = """\
gridengine-common shared/gridengineconfig boolean false
gridengine-master shared/gridengineconfig boolean false
"""

# Hosts start no units that the layer has enabled; systemd makes ones of enabled scripts at boot.
_WITHOUT_UNITS = ("gridengine-exec", "gridengine-master")

# Podman keeps images as plain folders, for overlays do not lie on overlays, and does without
# cgroups of its own: a host's cgroup has no controllers.
_PODMAN = {
    "storage.conf": """\
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
""",
    "containers.conf": """\
[containers]
cgroups = "disabled"
[network]
network_backend = "netavark"
""",
}
_POLICY = "usr/sbin/policy-rc.d"
_SIZE = 4 << 30
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "DEBIAN_FRONTEND": "noninteractive",
}
_APT = (
    "apt-get",
    "-q",
    "-y",
    "--no-install-recommends",
    "-o",
    "Dpkg::Options::=--force-unsafe-io",
    "-o",
    "Dpkg::Use-Pty=0",
    "-o",
    "Acquire::Retries=3",
)
_NEEDS = re.compile(r"^(?:Pre-)?Depends: .*\n", re.MULTILINE)
_OFFERS = re.compile(r"^Provides: .*\n", re.MULTILINE)
_NAME = re.compile(r"(?<=[:,|] )[a-z0-9][a-z0-9+.-]+")
_TO_INSTALL = re.compile(r"^Inst (\S+) ", re.MULTILINE)


class _Chroot:
    """The system that the layer makes of this machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def say(self, *argv: str, told: str = "") -> str:
        """Run a program inside, `told` on its stdin, and return what it printed.

        Its errors go to our stderr.
        """
        done = subprocess.run(
            ["chroot", str(self.root), *argv],
            env=_ENVIRONMENT,
            input=told,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{' '.join(argv)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout

    def apt(self, *arguments: str) -> str:
        """Run apt-get."""
        return self.say(*_APT, *arguments)

    def to_install(self, packages: Iterable[str]) -> list[str]:
        """Return what apt would install or upgrade for `packages`."""
        return _TO_INSTALL.findall(self.apt("-s", "install", *packages))

    def installed(self, packages: Iterable[str]) -> list[str]:
        """Return which of `packages` are installed."""
        status = (self.root / "var/lib/dpkg/status").read_text(encoding="utf-8")
        present = {
            entry.splitlines()[0].removeprefix("Package: ")
            for entry in status.split("\n\n")
            if "\nStatus: install ok installed\n" in entry
        }
        return [name for name in packages if name in present]


def bake(name: str, image: Path, lowers: Iterable[Path]) -> None:
    """Fill the new file `image` with the layer `name` above `lowers`, the highest first."""
    with image.open("wb") as stream:
        stream.truncate(_SIZE)
    tune = ("-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard")
    subprocess.run(["mkfs.ext4", *tune, str(image)], check=True)
    desk = Path("/mnt")
    mount("tmpfs", desk, "tmpfs", options="mode=755")
    below = []
    for number, lower in enumerate(lowers):
        place = desk / f"lower{number}"
        place.mkdir()
        mount_image(lower, place, read_only=True)
        below.append(f"{place}/upper")
    layer, root = desk / "layer", desk / "root"
    layer.mkdir()
    root.mkdir()
    mount_image(image, layer, read_only=False)
    for part in ("upper", "work"):
        (layer / part).mkdir(mode=0o755)
    options = f"lowerdir={':'.join([*below, '/'])},upperdir={layer}/upper,workdir={layer}/work"
    mount("overlay", root, "overlay", options=options)
    mount_system_folders(root)
    mount("proc", root / "proc", "proc")
    _RECIPES[name](_Chroot(root))
    _end_strays()
    subprocess.run(["umount", "--recursive", str(root)], check=True)
    subprocess.run(["umount", str(layer)], check=True)


def _bake_deps(system: _Chroot) -> None:
    """Make the repository; install what the packages need and what does not need them in turn."""
    _forbid_starts(system)
    system.apt("update")
    taken = system.installed(_TAKEN_AWAY)
    if taken:
        system.apt("purge", *taken)
    wanted = [*_missing(system), *_ALSO_NEEDED]
    names = system.to_install(wanted)
    fetched = _make_repository(system, wanted)
    late = {name for name in PACKAGES if name in names}
    while more := _dependents(fetched, late) - late:
        late |= more
    early = [name for name in names if name not in late]
    pulled = set(system.to_install(early)) & late
    if pulled:
        sys.exit(f"what the packages need, needs some of them: {' '.join(sorted(pulled))}")
    system.say("debconf-set-selections", told=_PRESEED)
    system.apt("install", *early)
    (system.root / "var/lib/man-db/auto-update").unlink(missing_ok=True)  # seconds for each package
    settings = system.root / "etc/containers"
    settings.mkdir(exist_ok=True)
    for name, text in _PODMAN.items():
        (settings / name).write_text(text, encoding="utf-8")
    _allow_starts(system)


def _bake_full(system: _Chroot) -> None:
    """Install the packages themselves."""
    _forbid_starts(system)
    system.apt("install", *_missing(system))
    for script in _WITHOUT_UNITS:
        system.say("update-rc.d", script, "disable")
    _allow_starts(system)


_RECIPES = {"deps": _bake_deps, "full": _bake_full}


def _missing(system: _Chroot) -> list[str]:
    present = system.installed(PACKAGES)
    return [name for name in PACKAGES if name not in present]


def _dependents(fetched: Mapping[str, str], packages: set[str]) -> set[str]:
    """Return who names one of `packages`, or what it provides, as a need."""
    offered = packages | {
        name for package in packages & set(fetched) for name in _names(_OFFERS, fetched[package])
    }
    return {name for name, control in fetched.items() if _names(_NEEDS, control) & offered}


def _names(field: re.Pattern[str], control: str) -> set[str]:
    return set(_NAME.findall("".join(field.findall(control))))


def _make_repository(system: _Chroot, packages: Iterable[str]) -> dict[str, str]:
    """Fetch the packages and all that they need into the only source from now on.

    Return the control data of those that were fetched, by name.
    """
    folder = system.root / REPOSITORY.lstrip("/")
    (folder / "partial").mkdir(parents=True)
    archives = ("-o", f"Dir::Cache::archives={REPOSITORY}")
    system.apt(*archives, "--download-only", "install", *packages)
    (folder / "partial").rmdir()
    (folder / "lock").unlink(missing_ok=True)
    fetched = {}
    entries = []
    for number, file in enumerate(sorted(folder.glob("*.deb"))):
        # apt would decode the %2b of the names that it gave.
        name = file.name.split("_")[0]
        named = file.rename(folder / f"{name}-{number}.deb")
        control = system.say("dpkg-deb", "-f", f"{REPOSITORY}/{named.name}").strip()
        digest = hashlib.sha256(named.read_bytes()).hexdigest()
        size = named.stat().st_size
        entries.append(f"{control}\nFilename: ./{named.name}\nSize: {size}\nSHA256: {digest}\n\n")
        fetched[name] = control
    (folder / "Packages").write_text("".join(entries), encoding="utf-8")
    _use_only_repository(system)
    return fetched


def _use_only_repository(system: _Chroot) -> None:
    apt = system.root / "etc/apt"
    for source in (apt / "sources.list.d").iterdir():
        source.unlink()
    line = f"deb [trusted=yes] file:{REPOSITORY} ./\n"
    (apt / "sources.list").write_text(line, encoding="utf-8")
    for file in (system.root / "var/lib/apt/lists").iterdir():
        if file.is_file():
            file.unlink()
    system.apt("update")
    system.apt("clean")


def _forbid_starts(system: _Chroot) -> None:
    policy = system.root / _POLICY
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    policy.chmod(0o755)


def _allow_starts(system: _Chroot) -> None:
    """Let hosts start what they install, as fresh Debian does; also where this machine does not."""
    (system.root / _POLICY).unlink()


def _end_strays() -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    bake(sys.argv[1], Path(sys.argv[2]), [Path(each) for each in sys.argv[3:]])
