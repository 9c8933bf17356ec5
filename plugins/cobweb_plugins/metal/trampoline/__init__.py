"""The trampoline: the small system that a machine boots from the network, to be told what to do.

It is a kernel of Debian and an archive with busybox, the drivers of network cards and disks, and
the script `init`, which is all it does. It is made of Debian's packages, with the tools of Debian.
The same packages make the same bytes, wherever and whenever that is done: its digest says which
trampoline a machine has booted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cobweb.errors import CobwebError

__all__ = ["DEFAULT_KERNEL", "FILES", "Built", "build", "pack"]

DEFAULT_KERNEL = "linux-image-amd64"
"""The package of the kernel where nobody says another; its newest one is found by its needs."""

FILES = ("vmlinuz", "initrd.gz")
"""What machines get, in the order of the digest."""

_RECORD = "trampoline.json"
_BUSYBOX = "busybox-static"
_TOOLS: Mapping[str, str] = {
    "apt-get": "apt",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "xz": "xz-utils",
}
"""What is needed, and the Debian package that has it."""

_ALIGNMENT = 4
"""Of what multiple of bytes the parts of an archive are."""

_DRIVERS = re.compile(
    r"""kernel/drivers/(
        virtio/virtio(_pci|_mmio)?
      | block/(virtio_blk|xen-blkfront)
      | char/hw_random/[^/]+
      | net/(virtio_net|xen-netfront|vmxnet3/.+|hyperv/.+)
      | net/ethernet/(
            amazon/.+ | amd/(pcnet32|xgbe/.+) | aquantia/.+
          | broadcom/(bnx2|bnx2x/.+|bnxt/.+|tg3)
          | chelsio/cxgb4/.+ | cisco/enic/.+ | emulex/benet/.+ | google/.+
          | intel/.+ | marvell/(skge|sky2)
          | mellanox/(mlx4/mlx4_(core|en)|mlx5/.+|mlxfw/.+)
          | qlogic/(qed|qede)/.+ | realtek/.+ )
      | ata/(ahci|ata_piix|ata_generic|sata_.+)
      | nvme/host/nvme | hv/.+
      | message/fusion/mpt(sas|spi)
      | scsi/(sd_mod|virtio_scsi|vmw_pvscsi|hv_storvsc|hpsa|aacraid/.+|arcmsr/.+|megaraid/.+
          |mpt3sas/.+|mpi3mr/.+|smartpqi/.+|isci/.+|mvsas/.+|pm8001/.+|sym53c8xx_2/.+)
    )\.ko(\.xz)?""",
    re.VERBOSE,
)
"""Drivers of network cards and of disks that servers and virtual machines have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A trampoline: SHA-256 over its files, their sizes in bytes, and the packages it is made of.

    A package is a mapping of `name`, `version` and `sha256`.
    """

    digest: str
    files: Mapping[str, int]
    packages: Sequence[Mapping[str, str]]


def build(out: Path, kernel: str = DEFAULT_KERNEL) -> Built:
    """Make the trampoline of a folder anew; takes a minute, and tens of MB from Debian's mirror.

    CobwebError where it cannot be made; the folder then has what it had.
    """
    missing = {name: it for name, it in _TOOLS.items() if _tool(name) is None}
    if missing:
        message = f"building a trampoline needs {', '.join(missing)}"
        raise CobwebError(message, hint=f"apt install {' '.join(missing.values())}")
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    if is_new:
        out.chmod(0o755)
    # In the folder itself, so that what is finished need only be renamed.
    with TemporaryDirectory(prefix=".building-", dir=out) as temporary:
        work = Path(temporary)
        image = _kernel_package(work, kernel)
        busybox = _download(work, _BUSYBOX)
        for package in (image, busybox):
            _run("dpkg-deb", "-x", str(package), str(work / "packages"))
        made = work / "made"
        made.mkdir()
        _assemble(work / "packages", work / "root")
        pack(work / "root", made / "initrd.gz")
        (vmlinuz,) = (work / "packages" / "boot").glob("vmlinuz-*")
        shutil.copyfile(vmlinuz, made / "vmlinuz")
        built = Built(
            digest=_digest(*(made / name for name in FILES)),
            files={name: (made / name).stat().st_size for name in FILES},
            packages=[_package(it) for it in (image, busybox)],
        )
        _publish(made, out, built)
    return built


def pack(tree: Path, archive: Path) -> None:
    """Pack a tree of folders and files as an initramfs.

    The same names, contents and programs make the same bytes. `cpio` would not: how many links a
    folder has depends on the file system.
    """
    plain = bytearray()
    for number, path in enumerate(sorted(tree.rglob("*")), start=1):
        is_folder = path.is_dir()
        kind = stat.S_IFDIR if is_folder else stat.S_IFREG
        is_program = is_folder or path.stat().st_mode & stat.S_IXUSR
        content = b"" if is_folder else path.read_bytes()
        mode = kind | (0o755 if is_program else 0o644)
        plain += _entry(number, mode, str(path.relative_to(tree)), content)
    plain += _entry(0, 0, "TRAILER!!!", b"")
    # The kernel knows no check but crc32.
    archive.write_bytes(_run("xz", "--check=crc32", "-9", "--threads=1", "-c", text=bytes(plain)))


def _entry(number: int, mode: int, name: str, content: bytes) -> bytes:
    """Return an entry of a cpio archive of the format newc; root's, of 1970."""
    spelled = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(spelled), 0)
    head = b"070701" + b"".join(b"%08X" % it for it in fields) + spelled
    return b"".join(it + bytes(-len(it) % _ALIGNMENT) for it in (head, content))


# Packages.


def _kernel_package(work: Path, name: str) -> Path:
    """Download a kernel; a package that has none names the one that has."""
    for _ in range(3):
        package = _download(work, name)
        contents = _run("dpkg-deb", "--contents", str(package)).decode()
        if re.search(r" \./boot/vmlinuz-\S+$", contents, re.MULTILINE):
            return package
        needs = _run("dpkg-deb", "--field", str(package), "Depends").decode()
        found = re.search(r"\blinux-image-\S+", needs)
        if found is None:
            break
        name = found[0].rstrip(",")
    hint = f"name a package of Debian with a kernel in it, as `{DEFAULT_KERNEL}`"
    raise CobwebError(f"the package `{name}` has no kernel", hint=hint)


def _download(work: Path, name: str) -> Path:
    """Return the newest package of a name that apt knows."""
    folder = work / name
    folder.mkdir()
    # It runs as whoever calls, and apt's own user cannot write here.
    _run("apt-get", "-q", "-o", "APT::Sandbox::User=", "download", name, folder=folder)
    (package,) = folder.glob("*.deb")
    return package


def _package(path: Path) -> dict[str, str]:
    field = ("dpkg-deb", "--field", str(path))
    return {
        "name": _run(*field, "Package").decode().strip(),
        "version": _run(*field, "Version").decode().strip(),
        "sha256": _digest(path),
    }


# What the machine gets.


def _assemble(packages: Path, root: Path) -> None:
    """Lay out the tree of the initramfs: busybox, `init`, and drivers with what they need."""
    (root / "bin").mkdir(parents=True)
    (busybox,) = (it for it in packages.glob("**/bin/busybox") if not it.is_symlink())
    shutil.copy(busybox, root / "bin" / "busybox")
    shutil.copyfile(Path(__file__).with_name("init"), root / "init")
    (root / "init").chmod(0o755)
    (modules,) = packages.glob("**/lib/modules/*")
    kept = root / "lib" / "modules" / modules.name
    for name in _needed(modules):
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(modules / name, kept / name)
    if packed := sorted(str(it) for it in kept.rglob("*.xz")):
        _run("xz", "--decompress", *packed)
    for name in ("modules.builtin", "modules.order"):
        shutil.copyfile(modules / name, kept / name)
    _run("depmod", "-b", str(root), modules.name)
    for path in kept.iterdir():  # what busybox reads is enough
        if path.is_file() and path.name not in {"modules.alias", "modules.builtin", "modules.dep"}:
            path.unlink()


def _needed(modules: Path) -> set[str]:
    """Return the drivers among the modules of a kernel, and the modules that these need."""
    _run("depmod", "-b", str(modules.parents[2]), modules.name)
    lines = (modules / "modules.dep").read_text(encoding="utf-8").splitlines()
    needs = {name: rest.split() for name, _, rest in (it.partition(":") for it in lines)}
    picked = {name for name in needs if _DRIVERS.fullmatch(name)}
    return picked.union(*(needs[name] for name in picked))


def _publish(made: Path, out: Path, built: Built) -> None:
    """Put a trampoline into its folder, each file at once and for all to read."""
    record = {
        "format": 1,
        "digest": built.digest,
        "packages": built.packages,
        "files": {
            name: {"bytes": size, "sha256": _digest(made / name)}
            for name, size in built.files.items()
        },
    }
    (made / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name in (*FILES, _RECORD):
        (made / name).chmod(0o644)
        (made / name).replace(out / name)


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _tool(name: str) -> str | None:
    """Return where a program is; those of the administrator are not on everybody's PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _run(name: str, *arguments: str, folder: Path | None = None, text: bytes = b"") -> bytes:
    """Return what a program writes; CobwebError with its last words where it fails."""
    done = subprocess.run(
        (_tool(name) or name, *arguments),
        cwd=folder,
        input=text,
        capture_output=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        said = " ".join((name, *arguments))
        hint = "`apt-get update`, if apt does not find it" if name == "apt-get" else ""
        raise CobwebError(f"`{said}` failed: {words[-1]}", hint=hint)
    return done.stdout
