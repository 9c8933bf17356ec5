# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages as the tools of a host tell of them: dpkg and apt, or rpm and dnf.

Only what looks, plans and marks; what installs and removes is Ansible's own `package`.
Runs on the managed host: Python 3.8 or newer, nothing beyond it and Ansible's own module_utils.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import re
import shutil
import struct
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Set

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tools import attempt, call

LOOK_AGAIN_S = 0.2
SIMULATE_S = 120.0
UPDATE_S = 300.0
APT_LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock")
RPM_LOCKS = ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock")
INSTALLED = ("installed", "triggers-awaited", "triggers-pending", "config-files")
"""Of dpkg: a trigger runs at the end of somebody's transaction, the package itself is complete."""
APT_QUERY = (
    "${Package}\\t${db:Status-Want}\\t${db:Status-Status}\\t${db:Status-Eflag}\\t${Version}\\n"
)
RPM_QUERY = "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"
TOLD = re.compile(r"^(E: |dpkg: error|dpkg: dependency problems|Error: |Failed |No package )")


class Package(NamedTuple):
    """One package on this host; `whole` is false for one that is half installed.

    `version` is None where nothing but configuration files is left.
    """

    version: Optional[str]
    whole: bool = True
    held: bool = False


class Steps(NamedTuple):
    """What a transaction would install, and what it would remove."""

    install: Set[str]
    remove: Set[str]


Packages = Dict[str, Package]


class Apt:
    """Debian and its kin."""

    name = "apt"
    sources = Path("/etc/apt/sources.list.d")
    keys = Path("/etc/apt/keyrings")

    def look(self, names: Sequence[str]) -> Packages:
        """Return those of the packages that are there, if only their configuration is."""
        said = attempt("dpkg-query", "--show", f"--showformat={APT_QUERY}", "--", *names).out
        return parse_dpkg(said)

    def interrupted(self) -> bool:
        """Say whether dpkg was ended in the midst of its work."""
        return any(entry.name.isdigit() for entry in Path("/var/lib/dpkg/updates").iterdir())

    def repair(self, names: Sequence[str]) -> str:
        """Let dpkg end what it had begun; return what it says if one of `names` stays broken."""
        first = attempt("dpkg", "--configure", "-a", timeout_s=UPDATE_S)
        broken = [name for name, package in self.look(names).items() if not package.whole]
        if not broken:
            return ""
        last = attempt("apt-get", "-q", "-y", "install", *broken, timeout_s=UPDATE_S)
        return told(f"{last.out}\n{last.err}") or told(first.err) or last.message

    def discard(self, names: Sequence[str]) -> None:
        """Remove what is half installed, which Ansible takes for not installed."""
        done = attempt("apt-get", "-q", "-y", "remove", *names, timeout_s=UPDATE_S)
        if done.status != 0:
            raise Failed(told(f"{done.out}\n{done.err}") or done.message)

    def candidates(self, name: str) -> List[str]:
        """Return the versions that can be installed, the newest first."""
        rows = call("apt-cache", "madison", name).splitlines()
        return list(dict.fromkeys(row.split("|")[1].strip() for row in rows if "|" in row))

    def simulate(self, words: Sequence[str], *, change_held: bool) -> Steps:
        """Return what apt-get would do; Failed with its own words if it would not."""
        allow = ["--allow-downgrades", *(["--allow-change-held-packages"] if change_held else [])]
        done = attempt("apt-get", "-s", "-y", "-q", *allow, *words, timeout_s=SIMULATE_S)
        if done.status != 0:
            raise Failed(told(f"{done.out}\n{done.err}") or done.message)
        return parse_simulation(done.out)

    def pin(self, name: str, version: str) -> str:
        """Return how to ask for a version."""
        return f"{name}={version}"

    def hold(self, names: Sequence[str], *, held: bool) -> None:
        """Let upgrades leave packages alone, or no longer."""
        call("apt-mark", "hold" if held else "unhold", *names)

    def source_file(self, name: str, text: str) -> Path:
        """Return where a repository is said."""
        deb822 = text.lstrip().startswith("Types:")
        return self.sources / f"{name}.{'sources' if deb822 else 'list'}"

    def refresh(self, source: Optional[Path]) -> None:
        """Fetch what repositories have, or what one has; Failed if one cannot be reached."""
        argv = ["apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any"]
        if source is not None:
            argv += ["-o", f"Dir::Etc::sourcelist={source}", "-o", "Dir::Etc::sourceparts=-"]
            argv += ["-o", "APT::Get::List-Cleanup=0"]
        done = attempt(*argv, timeout_s=UPDATE_S)
        if done.status != 0:
            raise Failed(told(done.err) or done.message)

    def at_work(self) -> Optional[int]:
        """Return the process that works on packages; None if there is none."""
        return next((pid for pid in map(_holder, APT_LOCKS) if pid), None)

    def wait_for_locks(self, limit_s: float) -> None:
        """Wait until nobody else works on packages; Failed says who still does."""
        deadline = time.monotonic() + limit_s
        while True:
            holder = self.at_work()
            if holder is None:
                return
            if time.monotonic() >= deadline:
                raise Failed(
                    f"{_command(holder)} (process {holder}) still works on the packages of this "
                    f"host after {limit_s:g} s"
                )
            time.sleep(LOOK_AGAIN_S)


class Dnf:
    """Fedora, Red Hat and their kin."""

    name = "dnf"
    sources = Path("/etc/yum.repos.d")
    keys = Path("/etc/pki/rpm-gpg")

    def look(self, names: Sequence[str]) -> Packages:
        """Return those of the packages that are there."""
        found = parse_rpm(attempt("rpm", "-q", f"--queryformat={RPM_QUERY}", "--", *names).out)
        locked = attempt("dnf", "-q", "versionlock", "list").out
        return {name: it._replace(held=is_locked(name, locked)) for name, it in found.items()}

    def interrupted(self) -> bool:
        """Say no: rpm has no half installed packages."""
        return False

    def repair(self, names: Sequence[str]) -> str:
        """Do nothing."""
        del names
        return ""

    def discard(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def candidates(self, name: str) -> List[str]:
        """Return the versions that can be installed, the newest first."""
        query = ("--queryformat", "%{version}-%{release}\\n")
        return call("dnf", "-q", "repoquery", "--latest-limit=-1", *query, name).split()[::-1]

    def simulate(self, words: Sequence[str], *, change_held: bool) -> Steps:
        """Return nothing: dnf takes back its own needs, and says itself what it cannot do."""
        del words, change_held
        return Steps(set(), set())

    def pin(self, name: str, version: str) -> str:
        """Return how to ask for a version."""
        return f"{name}-{version}"

    def hold(self, names: Sequence[str], *, held: bool) -> None:
        """Let upgrades leave packages alone, or no longer; needs the plugin versionlock."""
        call("dnf", "-q", "versionlock", "add" if held else "delete", *names)

    def source_file(self, name: str, text: str) -> Path:
        """Return where a repository is said."""
        del text
        return self.sources / f"{name}.repo"

    def refresh(self, source: Optional[Path]) -> None:
        """Fetch what repositories have."""
        del source
        call("dnf", "-q", "makecache", timeout_s=UPDATE_S)

    def at_work(self) -> Optional[int]:
        """Return the process that works on packages; None if there is none."""
        return next((pid for pid in map(_holder, RPM_LOCKS) if pid), None)

    def wait_for_locks(self, limit_s: float) -> None:
        """Do nothing: dnf waits itself."""
        del limit_s


def manager() -> Apt | Dnf:
    """Return what manages the packages of this host."""
    if shutil.which("apt-get"):
        return Apt()
    if shutil.which("dnf"):
        return Dnf()
    raise Failed("this host has neither apt nor dnf")


def parse_dpkg(text: str) -> Packages:
    """Read the answer of dpkg-query; what was removed with its configuration is not there."""
    found = {}
    for line in text.splitlines():
        name, want, status, flag, version = line.split("\t")
        if status == "not-installed":
            continue
        there = None if status == "config-files" else version
        whole = status in INSTALLED and flag == "ok"
        found[name] = Package(there, whole, want == "hold")
    return found


def parse_rpm(text: str) -> Packages:
    """Read the answer of rpm; of several versions the last counts."""
    rows = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {name: Package(version) for name, version in rows}


def parse_simulation(text: str) -> Steps:
    """Read what `apt-get -s` said."""
    rows = [line.split() for line in text.splitlines()]
    return Steps(
        {row[1].split(":")[0] for row in rows if row[:1] == ["Inst"]},
        {row[1].split(":")[0] for row in rows if row[:1] in (["Remv"], ["Purg"])},
    )


def is_locked(name: str, listed: str) -> bool:
    """Say whether `dnf versionlock list` names a package: name-[epoch:]version-release.*."""
    return any(re.match(rf"{re.escape(name)}-(\d+:)?\d", line) for line in listed.splitlines())


def fits(version: Optional[str], wanted: Optional[str]) -> bool:
    """Say whether an installed version is the one asked for; rpm's release may be left out."""
    if version is None or wanted is None:
        return version is not None
    return fnmatch.fnmatchcase(version, wanted) or fnmatch.fnmatchcase(
        version.rpartition("-")[0], wanted
    )


def told(text: str) -> str:
    """Return of a tool's output what it says has gone wrong, its cause first."""
    found: List[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if TOLD.match(line):
            more = lines[number + 1] if number + 1 < len(lines) else ""
            found.append(f"{line} {more.strip()}" if more.startswith(" ") else line)
    # apt's last word is that dpkg has failed, dpkg's own comes before.
    return "\n".join(dict.fromkeys(found))


def _holder(path: str) -> Optional[int]:
    """Return the process that has locked a file, if it is another one."""
    if not Path(path).exists():
        return None
    with Path(path).open("r+b") as file:
        asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return "another program"
