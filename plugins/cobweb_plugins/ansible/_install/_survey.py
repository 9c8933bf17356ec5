"""How requirements, lock and folders of a site fit together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cobweb_plugins.ansible._install._lock import Lock
from cobweb_plugins.ansible._install._requirements import Kind, Package, Requirement
from cobweb_plugins.ansible._install._tree import NO_FOLDER, tree_digest

_SHOWN_DIGITS = 16


class State(StrEnum):
    """How a package stands; the words are those that a user reads."""

    UNCHANGED = "unchanged"
    MISSING = "missing"
    CHANGED = "changed by hand"
    NOT_LOCKED = "not locked"
    OWN = "own folder"
    OTHER = "other requirement"
    NOT_REQUIRED = "not required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A site's packages.

    `direct` are those that the requirements name, `nameless` requirements of collections whose name
    is not known yet. `states` has every package of requirements and lock, sorted, and `found` the
    digests of their folders.
    """

    lock: Lock
    direct: Mapping[Package, Requirement]
    nameless: tuple[Requirement, ...]
    states: Mapping[Package, State]
    found: Mapping[Package, str | None]

    def needing(self, states: Collection[State]) -> list[Package]:
        """Return the packages in one of these states."""
        return [package for package, state in self.states.items() if state in states]

    def is_as_locked(self, package: Package) -> bool:
        """Say whether the folder of a package is what its lock says."""
        return package in self.lock and self.found.get(package) == self.lock[package].sha256

    def is_by_hand(self, package: Package) -> bool:
        """Say whether the folder of a locked package is there and is not what its lock says."""
        found = self.found.get(package)
        return package in self.lock and found is not None and found != self.lock[package].sha256


def survey(site_dir: Path, requirements: Sequence[Requirement], lock: Lock) -> Survey:
    """Look at all packages of requirements and lock."""
    direct, nameless = named(requirements, lock)
    needed = closure(direct, lock)
    found = {it: tree_digest(site_dir / it.path, it.kind) for it in sorted({*needed, *lock})}
    states = {}
    for package, digest in found.items():
        locked, asked = lock.get(package), direct.get(package)
        if locked is None:
            states[package] = State.NOT_LOCKED if digest is None else State.OWN
        elif package not in needed:
            states[package] = State.NOT_REQUIRED
        elif asked is not None and asked.digest != locked.requirement:
            states[package] = State.OTHER
        elif digest is None:
            states[package] = State.MISSING
        else:
            states[package] = State.UNCHANGED if digest == locked.sha256 else State.CHANGED
    return Survey(lock=lock, direct=direct, nameless=nameless, states=states, found=found)


def named(
    requirements: Sequence[Requirement], lock: Lock
) -> tuple[dict[Package, Requirement], tuple[Requirement, ...]]:
    """Return the requirements by their packages, and those that have none that is known.

    A collection from Git or a URL is known by the lock, which has the digest of the entry.
    """
    direct: dict[Package, Requirement] = {}
    nameless = []
    for each in requirements:
        packages = [each.package] if each.package else _locked_by(each, lock)
        direct |= dict.fromkeys(packages, each)
        if not packages:
            nameless.append(each)
    return direct, tuple(nameless)


def closure(packages: Iterable[Package], lock: Lock) -> set[Package]:
    """Return packages with all that the locked ones among them depend on."""
    found: set[Package] = set()
    queue = list(packages)
    while queue:
        package = queue.pop()
        if package not in found:
            found.add(package)
            names = lock[package].dependencies if package in lock else ()
            queue += [Package(kind=package.kind, name=name) for name in names]
    return found


def short(digest: str | None) -> str:
    """Return a digest as people compare it."""
    if digest is None or digest == NO_FOLDER:
        return digest or "nothing"
    return f"sha256 {digest[:_SHOWN_DIGITS]}..."


def _locked_by(requirement: Requirement, lock: Lock) -> list[Package]:
    return [
        package
        for package, locked in lock.items()
        if package.kind is Kind.COLLECTION and locked.requirement == requirement.digest
    ]
