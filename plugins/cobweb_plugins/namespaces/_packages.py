"""What machines can install: packages of this machine's own apt sources, fetched once for all.

Machines have no way out of their network. They see a folder of packages as their only apt source;
it has what was named and all that these need beside what this machine has installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cobweb.errors import ProviderError

REPOSITORY = "/srv/repo"
"""Where machines have the packages."""

_STATUS = Path("/var/lib/dpkg/status")
_APT_S = 900.0


def repository_folder(cache: Path, packages: Sequence[str]) -> Path:
    """Return the folder of these packages for this machine as it is now; it need not exist."""
    key = hashlib.sha256(_STATUS.read_bytes() + "\n".join(sorted(packages)).encode())
    return cache / f"packages-{key.hexdigest()[:16]}"


def fetch_packages(cache: Path, packages: Sequence[str]) -> Path:
    """Return the folder of these packages; they are fetched where it is missing.

    The caller holds a lock. Nothing of this machine's own apt is changed.
    """
    folder = repository_folder(cache, packages)
    if folder.exists():
        return folder
    draft = folder.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "lists" / "partial").mkdir(parents=True)
    (draft / "partial").mkdir()
    options = ("-q", "-y", "--no-install-recommends", "-o", "Debug::NoLocking=1")
    places = ("-o", f"Dir::State::Lists={draft}/lists", "-o", f"Dir::Cache={draft}/lists")
    _run("apt-get", *options, *places, "update")
    archives = ("-o", f"Dir::Cache::Archives={draft}")
    _run("apt-get", *options, *places, *archives, "--download-only", "install", *packages)
    shutil.rmtree(draft / "lists")
    shutil.rmtree(draft / "partial")
    (draft / "lock").unlink(missing_ok=True)
    _write_index(draft)
    draft.rename(folder)
    return folder


def _write_index(folder: Path) -> None:
    entries = []
    for number, file in enumerate(sorted(folder.glob("*.deb"))):
        # apt would decode the %2b of the names that it gave.
        named = file.rename(folder / f"{file.name.split('_')[0]}-{number}.deb")
        control = _run("dpkg-deb", "-f", str(named)).strip()
        digest = hashlib.sha256(named.read_bytes()).hexdigest()
        size = named.stat().st_size
        entries.append(f"{control}\nFilename: ./{named.name}\nSize: {size}\nSHA256: {digest}\n\n")
    (folder / "Packages").write_text("".join(entries), encoding="utf-8")


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_APT_S,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"cannot fetch packages: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[-400:]
        raise ProviderError(
            f"cannot fetch packages: {argv[0]}: {said}",
            hint="does `apt-get update` work on this machine?",
        )
    return done.stdout
