"""Has ansible-galaxy install what is missing into the private folder, dependencies included.

Of roles, Cobweb follows the dependencies itself: galaxy would follow a name such as `../x` out of
the folder. Those of collections are galaxy's business, for it knows which versions there are; what
is intact in the site is shown to it by links, so that it is not fetched again. One that names
itself (from Git or a URL) is fetched as an archive first: galaxy would follow the name anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from cobweb.errors import CobwebError, RefusedError
from cobweb.plugin import JsonError, json_file
from cobweb_plugins.ansible._install._galaxy import Galaxy
from cobweb_plugins.ansible._install._lock import Locked
from cobweb_plugins.ansible._install._requirements import (
    COLLECTION_NAME,
    ROLE_KEYS,
    Item,
    Kind,
    Package,
    Requirement,
    entries_below,
    is_from_server,
    name_inside,
    role_item,
    scalars,
)
from cobweb_plugins.ansible._install._survey import Survey, closure
from cobweb_plugins.ansible._install._tree import tree_digest

MOST_ROLES = 1000
"""How many roles a site may require, with all that they depend on."""

_META = ("meta/main.yml", "meta/main.yaml")
_META_REQUIREMENTS = ("meta/requirements.yml", "meta/requirements.yaml")
_DOTS_OF_A_ROLE_INSIDE = 2
_MOST_META_BYTES = 1 << 20


@dataclass(kw_only=True)
class Fetched:
    """What was installed into the private folder, and what the lock is to say of it.

    `direct` are the requirements by package; the names of all are known now.
    """

    direct: dict[Package, Requirement]
    locked: dict[Package, Locked] = field(default_factory=dict)

    def add(self, folder: Path, package: Package) -> None:
        """Add what is in the private folder `folder`, at the path that it has in the site."""
        tree = folder / package.path
        version, dependencies = _facts(tree, package)
        digest = tree_digest(tree, package.kind) or ""
        self.locked[package] = Locked(
            version=version, sha256=digest, dependencies=tuple(sorted({*dependencies}))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches what a survey lacks; `anew` are packages that are fetched as if they were not there.

    `named` are those of them that the user has named.
    """

    site_dir: Path
    folder: Path
    galaxy: Galaxy
    survey: Survey
    anew: Collection[Package]
    named: Collection[Package]

    def fetch(self) -> Fetched:
        """Install what is missing, and return it; CobwebError as galaxy fails."""
        fetched = Fetched(direct=dict(self.survey.direct))
        self._roles(fetched)
        self._collections(fetched)
        return fetched

    def _is_there(self, package: Package) -> bool:
        return package not in self.anew and self.survey.is_as_locked(package)

    def _locked(self, package: Package) -> Locked | None:
        """Return what the lock holds a package to."""
        return None if package in self.anew else self.survey.lock.get(package)

    def _roles(self, fetched: Fetched) -> None:
        direct = {p: it for p, it in fetched.direct.items() if p.kind is Kind.ROLE}
        wave: dict[Package, Item] = {package: it.item for package, it in direct.items()}
        known: set[Package] = set()
        while wave:
            known |= wave.keys()
            if len(known) > MOST_ROLES:
                raise CobwebError(f"more than {MOST_ROLES} roles, with what they depend on")
            trees = {it: self.site_dir / it.path for it in wave if self._is_there(it)}
            missing = {it: item for it, item in wave.items() if it not in trees}
            self._install_roles(missing, fetched)
            trees |= {it: self.folder / it.path for it in missing}
            wave = {
                package: item
                for tree in trees.values()
                for package, item in _role_dependencies(tree)
                if package not in known
            }

    def _install_roles(self, missing: dict[Package, Item], fetched: Fetched) -> None:
        own = [it for it in missing if it not in self.survey.lock and self._is_taken(it)]
        if own:
            raise RefusedError([own_folder(it) for it in own])
        if not missing:
            return
        items = [_pinned_role(item, self._locked(it)) for it, item in missing.items()]
        self.galaxy.roles(items, self.folder / "roles")
        for package in missing:
            if not (self.folder / package.path).is_dir():
                raise CobwebError(f"ansible-galaxy has not installed {package}")
            fetched.add(self.folder, package)

    def _is_taken(self, package: Package) -> bool:
        path = self.site_dir / package.path
        return path.exists() or path.is_symlink()

    def _collections(self, fetched: Fetched) -> None:
        required = closure(fetched.direct, self.survey.lock)
        needed = sorted(it for it in required if it.kind is Kind.COLLECTION)
        missing = [it for it in needed if not self._is_there(it)]
        archives = self._archives(missing, fetched)
        items: list[Item] = [{"name": str(it), "type": "file"} for it in archives.values()]
        items += [item for it in missing if it not in archives and (item := self._item(it))]
        if not items:
            return
        into = self.folder / "collections"
        intact = [it for it in needed if it not in missing and it not in archives]
        self._link(intact, into)
        held = [{"name": it.name, "version": f"=={self._version(it)}"} for it in intact]
        self.galaxy.collections(items, into, held=held)
        for package in _installed(into):
            fetched.add(self.folder, package)

    def _archives(self, missing: Iterable[Package], fetched: Fetched) -> dict[Package, Path]:
        """Fetch archives of collections that name themselves, and look at the names first."""
        direct = (self.survey.direct.get(it) for it in missing)
        asked = {it.digest: it for it in direct if it is not None and it.package is None}
        asked |= {it.digest: it for it in self.survey.nameless}
        found: dict[Package, Path] = {}
        for number, each in enumerate(asked.values()):
            paths = self.galaxy.archives(each.item, self.folder / f"archives-{number}")
            if not paths:
                raise CobwebError(f"ansible-galaxy has fetched nothing of {each.label}")
            packages = {Package(kind=Kind.COLLECTION, name=_own_name(it)): it for it in paths}
            others = {it: asks for it, asks in fetched.direct.items() if asks is not each}
            fetched.direct = {**others, **dict.fromkeys(packages, each)}
            found |= packages
        return found

    def _item(self, package: Package) -> Item | None:
        """Return what galaxy is asked for; None for what comes with others, or names itself."""
        locked, direct = self._locked(package), self.survey.direct.get(package)
        if direct is None:
            if locked is None:
                return {"name": package.name} if package in self.named else None
            return {"name": package.name, "version": f"=={locked.version}"}
        if direct.package is None:
            return None
        if locked is None or not is_from_server(direct.item):
            return direct.item
        # The entry is the one that was locked, so the version is one that it allows.
        return {**direct.item, "version": f"=={locked.version}"}

    def _version(self, package: Package) -> str:
        return self.survey.lock[package].version

    def _link(self, packages: Iterable[Package], into: Path) -> None:
        """Show galaxy what is there; it is held to these versions, and would replace no link."""
        for package in packages:
            link = into.parent / package.path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((self.site_dir / package.path).absolute())


def own_folder(package: Package) -> str:
    """Return why a package cannot be installed where the user has a folder of that name."""
    return (
        f"{package.path} is a folder of your own: no lock knows it, and it is not overwritten;"
        f" move it away, or take {package.name} out of the requirements"
    )


def _own_name(path: Path) -> str:
    try:
        return name_inside(path)
    except ValueError as error:
        raise CobwebError(f"this collection cannot be installed: {error}") from error


def _pinned_role(item: Item, locked: Locked | None) -> Item:
    if locked is None or not locked.version or item.get("version") or not is_from_server(item):
        return item
    return {**item, "version": locked.version}


def _installed(into: Path) -> Iterator[Package]:
    """Yield the collections that galaxy has put below a folder, sorted; links are not its own."""
    for path in sorted((into / "ansible_collections").glob("*/*")):
        if path.is_dir() and not path.is_symlink():
            name = f"{path.parent.name}.{path.name}"
            if not COLLECTION_NAME.fullmatch(name):
                raise CobwebError(f"ansible-galaxy has installed {name}, no name of a collection")
            yield Package(kind=Kind.COLLECTION, name=name)


def _facts(tree: Path, package: Package) -> tuple[str, Iterable[str]]:
    """Return the version of an installed package, and the names that it depends on."""
    if package.kind is Kind.ROLE:
        info = scalars(_yaml_of(tree, ("meta/.galaxy_install_info",)) or _NOTHING)
        return info.get("version") or "", [it.name for it, _ in _role_dependencies(tree)]
    try:
        known = json_file(tree / "MANIFEST.json")["collection_info"]
        version, names = str(known["version"]), [*map(str, known.get("dependencies") or ())]
    except (OSError, JsonError, KeyError, TypeError) as error:
        raise CobwebError(f"{package} has no MANIFEST.json that can be read: {error}") from error
    wrong = [name for name in names if not COLLECTION_NAME.fullmatch(name)]
    if wrong:
        raise CobwebError(f"{package} depends on {wrong[0]}, which is no NAMESPACE.NAME")
    return version, names


_NOTHING = yaml.MappingNode("", [])


def _role_dependencies(tree: Path) -> list[tuple[Package, Item]]:
    """Return the roles that a role needs of a server or repository, as galaxy chooses them.

    A dependency without a dot in its name and with no source is a role beside it, which whoever
    wrote the role has to bring, and one of three names is in a collection.
    """
    meta = _yaml_of(tree, _META)
    more = _yaml_of(tree, _META_REQUIREMENTS)
    nodes = entries_below(meta, "dependencies")
    if nodes is None:
        raise CobwebError(f"the role {tree.name} has dependencies that are no list")
    nodes += more.value if isinstance(more, yaml.SequenceNode) else []
    found: list[tuple[Package, Item]] = []
    for node in nodes:
        known = {key: it for key, it in scalars(node).items() if key in ROLE_KEYS and it}
        try:
            item = role_item(node.value if isinstance(node, yaml.ScalarNode) else known)
        except ValueError as error:
            message = f"a dependency of the role {tree.name} cannot be installed: {error}"
            raise CobwebError(message) from error
        is_inside = item["src"].count(".") == _DOTS_OF_A_ROLE_INSIDE and is_from_server(item)
        if ("." in item["name"] + item["src"] or item.get("scm")) and not is_inside:
            found.append((Package(kind=Kind.ROLE, name=item["name"]), item))
    return found


def _yaml_of(tree: Path, names: Iterable[str]) -> yaml.Node | None:
    """Return the YAML of the first of these files that is there."""
    path = next((tree / name for name in names if (tree / name).is_file()), None)
    if path is None:
        return None
    try:
        with path.open(encoding="utf-8") as file:
            node: yaml.Node | None = yaml.compose(file.read(_MOST_META_BYTES), yaml.SafeLoader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CobwebError(f"cannot read {path.name} of the role {tree.name}: {error}") from error
    return node
