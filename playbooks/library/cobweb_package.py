# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `package`: what comes before and after a transaction.

A transition has three parts: `prepare` or `prepare_removal` looks, remembers, brings what was cut
off to an end and plans; Ansible's own `package` installs and removes; `finish` or `finish_removal`
marks and verifies. If one of them fails, `give_up` tidies and says why, in the words of the tool.
Between the parts the object has its turn: no other one of this host begins. While one that wants no
services to start is at work a policy says so; one file per object remembers who wants that.

For each package the record says what was there before (`before`: version and hold, or null), what
came along with it (`pulled`), and whether it was put back (`left`). It is written before anything
is installed: what has no record was there before us, and is never removed.

The states: `up` if all packages are installed as asked; `down` if none is, if one is missing and
nothing is ours, or if what was there before us has been put back; `broken` where one of ours is
missing or half installed; else `outdated`.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Set

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_package_sources import (
    add_repository,
    has_repository,
    leave_repository,
    source_file,
)
from ansible.module_utils.cobweb_package_turn import end_turn, has_denied, set_policy, take_turn
from ansible.module_utils.cobweb_packages import Apt, Dnf, Package, Packages, fits, manager, told
from ansible.module_utils.cobweb_tools import Record, digest

LOCK_S = 60.0

Spec = Dict[str, Any]


class Site(NamedTuple):
    """One object on this host: what it asks for, and what there is."""

    cob: Dict[str, Any]
    spec: Spec
    tools: Apt | Dnf
    found: Packages
    """Of all its packages, the earlier spec's too."""

    @property
    def names(self) -> List[str]:
        """Return the packages that are asked for."""
        return _names(self.spec)

    @property
    def earlier(self) -> List[str]:
        """Return the packages that only the applied spec has."""
        return [name for name in _names(self.cob.get("applied") or {}) if name not in self.names]

    @property
    def lock_s(self) -> float:
        """Return how long to wait for others."""
        return _lock_s(self.spec)

    def version(self, name: str) -> Any:
        """Return the installed version."""
        return self.found[name].version if name in self.found else None


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    return {"state": _state(_look(cob))}


def prepare(cob: Dict[str, Any]) -> Answer:
    """Get ready to install; return what Ansible has to do, and nothing if all is there."""
    site = _repair(_start(cob))
    _remember(site)
    with _repositories(site):
        wanted = [name for name in site.names if _lacks(site, name)]
        words = [_word(site, name) for name in wanted]
        _guard_holds(site, wanted)
        removed = [name for name in site.earlier if _is_ours(name) and name in site.found]
        change_held = _may_change_held(site)
        pulled = _plan(site, words, change_held=change_held) - set(wanted) if words else set()
        extra = _removal(site, removed)
        for name in wanted:
            _update(name, pulled=sorted({*_record(name).get("pulled", []), *pulled}))
    set_policy(cob["id"], denied=bool(words) and not site.spec.get("start", False))
    return _answer(site, install=words, remove=removed + extra, change_held=change_held)


def finish(cob: Dict[str, Any]) -> Answer:
    """Mark what was installed, clear away what an earlier spec asked for, and verify."""
    set_policy(cob["id"], denied=False)
    site = _look(cob)
    for name in site.names:
        held = site.spec.get("hold")
        if held is not None and name in site.found and site.found[name].held != held:
            site.tools.hold([name], held=held)
    _restore_holds(site, site.earlier)
    for name in site.earlier:
        _close(site, name)
    leave_repository(cob["id"], cob.get("applied") or {}, but=site.spec)
    if _state(_look(cob)) != "up":
        # Others that are no objects may be at work on the same packages.
        site.tools.wait_for_locks(site.lock_s)
    if _state(_look(cob)) != "up":
        raise Failed(f"{_describe(_look(cob))}, although the installation ended well")
    end_turn(cob["id"])
    return {}


def prepare_removal(cob: Dict[str, Any]) -> Answer:
    """Get ready to remove what is ours, and to bring back the versions that were there before."""
    site = _discard(_start(cob))
    names = [*site.names, *site.earlier]
    ours = [
        name
        for name in names
        if _is_ours(name) and name in site.found and (_there(site, name) or _purges(site))
    ]
    marked = [name for name in ours if site.found[name].held]
    if marked:
        site.tools.hold(marked, held=False)
    back = [name for name in names if _was(name) not in (None, site.version(name))]
    words = [
        site.tools.pin(name, str(_was(name)))
        for name in back
        if _was(name) in site.tools.candidates(name)
    ]
    extra = _removal(site, [name for name in ours if _there(site, name)])
    return _answer(site, install=words, remove=ours + extra, change_held=True)


def finish_removal(cob: Dict[str, Any]) -> Answer:
    """Verify, and forget what was ours; say what stays because it was there before."""
    set_policy(cob["id"], denied=False)
    site = _look(cob)
    names = [*site.names, *site.earlier]
    left = [name for name in names if _is_ours(name) and _there(site, name)]
    if left:
        raise Failed(f"{', '.join(left)} is still installed, although the removal ended well")
    _restore_holds(site, names)
    kept = [_close(site, name) for name in names]
    for spec in (cob["spec"], cob.get("applied") or {}):
        leave_repository(cob["id"], spec)
    end_turn(cob["id"])
    told_kept = "; ".join(text for text in kept if text)
    return {"changed": True, **({"msg": told_kept} if told_kept else {})}


def give_up(cob: Dict[str, Any]) -> Answer:
    """Tidy after a failure, and fail with the tool's own message."""
    end_turn(cob["id"])
    failure = cob["failure"]
    said = told(f"{failure.get('stdout') or ''}\n{failure.get('stderr') or ''}")
    raise Failed(said or str(failure.get("msg") or "the tasks of this object failed"))


# --- looking


def _look(cob: Dict[str, Any]) -> Site:
    tools = manager()
    site = Site(cob, cob["spec"], tools, {})
    return site._replace(found=tools.look([*site.names, *site.earlier]))


def _start(cob: Dict[str, Any]) -> Site:
    """Look, when nobody else is at work on the packages of the host."""
    take_turn(cob["id"], _lock_s(cob["spec"]))
    site = _look(cob)
    site.tools.wait_for_locks(site.lock_s)
    return site


def _repair(site: Site) -> Site:
    """Bring to its end what was cut off; Failed with the tool's words if that cannot be."""
    broken = _broken(site)
    if not broken and not site.tools.interrupted():
        return site
    set_policy(site.cob["id"], denied=not site.spec.get("start", False))
    try:
        said = site.tools.repair(broken)
    finally:
        set_policy(site.cob["id"], denied=False)
    if said:
        raise Failed(said)
    return _look(site.cob)


def _discard(site: Site) -> Site:
    """Remove what is half installed and was not there before us."""
    if site.tools.interrupted():
        site.tools.repair([])
    broken = [name for name in _broken(site) if _is_ours(name)]
    if not broken:
        return site
    site.tools.discard(broken)
    return _look(site.cob)


def _broken(site: Site) -> List[str]:
    return [name for name, package in site.found.items() if not package.whole]


def _state(site: Site) -> str:
    left = [name for name in site.earlier if _is_ours(name) and name in site.found]
    if left:
        return "outdated" if all(_is_whole(site, name) for name in left) else "broken"
    missing = [name for name in site.names if not _there(site, name)]
    if _is_put_back(site):
        return "down"
    ours = [name for name in site.names if _record(name)]
    if len(missing) == len(site.names) or (missing and not ours):
        remains = _purges(site) and any(_is_ours(name) and name in site.found for name in ours)
        return "broken" if remains else "down"
    if not all(_is_whole(site, name) for name in site.names):
        return "broken"
    as_asked = not any(_lacks(site, name) or _wrong_hold(site, name) for name in site.names)
    return (
        "up"
        if as_asked and has_repository(site.tools, site.cob) and not has_denied(site.cob["id"])
        else "outdated"
    )


def _is_put_back(site: Site) -> bool:
    """Say whether all that is there is what was there before, as we left it."""
    there = [name for name in site.names if _there(site, name)]
    return bool(there) and all(
        _record(name).get("left") == digest(site.found[name]) for name in there
    )


def _there(site: Site, name: str) -> bool:
    return site.version(name) is not None


def _is_whole(site: Site, name: str) -> bool:
    package = site.found.get(name, Package(None))
    return package.whole and package.version is not None


def _lacks(site: Site, name: str) -> bool:
    package = site.found.get(name, Package(None))
    return not (package.whole and fits(package.version, site.spec.get("version")))


def _wrong_hold(site: Site, name: str) -> bool:
    return site.spec.get("hold") not in (None, site.found[name].held)


def _describe(site: Site) -> str:
    """Say of the first package that is not as asked how it is."""
    name = next((name for name in site.names if _lacks(site, name)), site.names[0])
    package = site.found.get(name, Package(None))
    if package.version is None:
        return f"{name} is not installed"
    if not package.whole:
        return f"{name} {package.version} is half installed"
    return f"{name} {package.version} is not as asked"


def _names(spec: Spec) -> List[str]:
    return [spec["name"]] if "name" in spec else list(spec.get("names", []))


def _lock_s(spec: Spec) -> float:
    return float(spec.get("lock_timeout", LOCK_S))


def _purges(site: Site) -> bool:
    return bool(site.spec.get("purge", False))


# --- planning


def _word(site: Site, name: str) -> str:
    """Return how to ask for a package: by the newest version that fits, if one is asked for."""
    wanted = site.spec.get("version")
    if wanted is None:
        return name
    offered = site.tools.candidates(name)
    fitting = [version for version in offered if fits(version, wanted)]
    if not fitting:
        known = (
            f"known are {', '.join(offered)}"
            if offered
            else "none is known (`update_cache: true` reads the lists first)"
        )
        raise Failed(f"there is no version {wanted} of {name}; {known}")
    return site.tools.pin(name, fitting[0])


def _may_change_held(site: Site) -> bool:
    return "hold" in site.spec or "hold" in (site.cob.get("applied") or {})


def _guard_holds(site: Site, wanted: List[str]) -> None:
    held = [name for name in wanted if _there(site, name) and site.found[name].held]
    if held and not _may_change_held(site):
        raise Failed(
            f"{', '.join(held)} is on hold on this host, and not by this object; "
            f"end that there, or say `hold` in the spec"
        )


def _plan(site: Site, words: List[str], *, change_held: bool) -> Set[str]:
    """Return what comes along; Failed if something else would have to go."""
    steps = site.tools.simulate(["install", *words], change_held=change_held)
    if steps.remove:
        raise Failed(f"{', '.join(words)} would remove {', '.join(sorted(steps.remove))}")
    return steps.install


def _removal(site: Site, names: List[str]) -> List[str]:
    """Return what goes along: what had come along and nobody else needs; nothing else may."""
    if not names:
        return []
    pulled = {name for each in names for name in _record(each).get("pulled", [])}
    steps = site.tools.simulate(["remove", *names], change_held=True)
    others = steps.remove - set(names) - pulled
    if others:
        raise Failed(
            f"{', '.join(sorted(others))} needs {', '.join(names)} and is not of this object"
        )
    lonely = site.tools.simulate(["remove", "--auto-remove", *names], change_held=True)
    return sorted((lonely.remove & pulled) - set(names))


def _answer(site: Site, *, install: List[str], remove: List[str], change_held: bool) -> Answer:
    """Return what Ansible's `package` has to be told."""
    return {
        "changed": bool(install or remove),
        "manager": site.tools.name,
        "install": install,
        "remove": remove,
        "purge": _purges(site),
        "autoremove": bool(site.spec.get("autoremove", False)),
        "change_held": change_held,
        "lock_timeout": int(site.lock_s),
    }


# --- what is remembered


def _record(name: str) -> Dict[str, Any]:
    return Record("package", name).read()


def _update(name: str, **values: Any) -> None:
    Record("package", name).write({**_record(name), **values})


def _remember(site: Site) -> None:
    """Remember what was there before us; a package that we left is somebody's again."""
    for name in site.names:
        known = _record(name)
        if "before" in known and "left" not in known:
            continue
        package = site.found.get(name)
        before = None
        if package is not None and package.version is not None:
            before = {"version": package.version, "held": package.held}
        Record("package", name).write({"before": before})


def _is_ours(name: str) -> bool:
    """Say whether it was not there before our first transition."""
    known = _record(name)
    return "before" in known and known["before"] is None and "left" not in known


def _was(name: str) -> Any:
    """Return the version that was there before us; None if there was none, or nothing is known."""
    known = _record(name)
    return None if "left" in known else (known.get("before") or {}).get("version")


def _restore_holds(site: Site, names: List[str]) -> None:
    for name in names:
        before = _record(name).get("before")
        if before and _there(site, name) and site.found[name].held != before["held"]:
            site.tools.hold([name], held=before["held"])


def _close(site: Site, name: str) -> str:
    """Forget a package that is gone; remember as left one that stays, and say so."""
    package = site.tools.look([name]).get(name)
    if package is None or package.version is None or _is_ours(name):
        Record("package", name).forget()
        return ""
    was = _was(name)
    Record("package", name).write({"left": digest(package)})
    if was not in (None, package.version):
        return f"{name} stays in version {package.version}: {was}, which was there, is not offered"
    return f"{name} stays: it was there before"


# --- repositories


@contextlib.contextmanager
def _repositories(site: Site) -> Iterator[None]:
    """Add the repository and look what it has; it goes again where the rest fails."""
    added = add_repository(site.tools, site.cob)
    try:
        if added:
            site.tools.refresh(source_file(site.tools, site.spec["repository"]))
        elif site.spec.get("update_cache", False):
            site.tools.refresh(None)
        yield
    except Failed:
        if added:
            leave_repository(site.cob["id"], site.spec)
        raise


if __name__ == "__main__":
    run(
        {
            "check": check,
            "prepare": prepare,
            "finish": finish,
            "prepare_removal": prepare_removal,
            "finish_removal": finish_removal,
            "give_up": give_up,
        }
    )
