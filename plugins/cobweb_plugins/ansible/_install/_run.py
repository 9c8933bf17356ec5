"""What `cobweb install` does: compare, fetch, check against the lock, move into place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cobweb.errors import RefusedError, UsageError
from cobweb.plugin import SiteAccess
from cobweb_plugins.ansible._install._fetch import Fetched, Fetcher, own_folder
from cobweb_plugins.ansible._install._galaxy import Galaxy
from cobweb_plugins.ansible._install._lock import LOCK_FILE, Lock, Locked, lock_text, read_lock
from cobweb_plugins.ansible._install._requirements import Kind, Package, read_requirements
from cobweb_plugins.ansible._install._staging import Move, Staging, refuse_places
from cobweb_plugins.ansible._install._survey import State, Survey, closure, short, survey
from cobweb_plugins.ansible._install._tree import tree_digest

_SOUND = (State.UNCHANGED, State.NOT_REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user asks for: `names` are those to `update`, all without any."""

    update: bool = False
    names: tuple[str, ...] = ()
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A role or collection as it is told; `state` is what was done, or how it stands."""

    kind: Kind
    name: str
    version: str
    sha256: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told at the end: all items, sorted, and notes for people."""

    items: tuple[Item, ...]
    notes: tuple[str, ...]
    wrote_lock: bool = False

    @property
    def differing(self) -> list[Item]:
        """What is not as the lock says."""
        return [it for it in self.items if it.state not in _SOUND]

    def data(self) -> dict[str, Any]:
        """Return plain data, after schemas/install.schema.json."""
        keys = ("kind", "name", "version", "sha256", "state")
        items = [{key: str(getattr(it, key)) for key in keys} for it in self.items]
        return {"format": 1, "items": items}


def check(site: SiteAccess) -> Outcome:
    """Compare a site with its lock, and change nothing."""
    found = _look(site)
    items = [_item(it, found.lock.get(it), state) for it, state in found.states.items()]
    items += [
        Item(kind=it.kind, name=it.label, version="", sha256="", state=State.NOT_LOCKED)
        for it in found.nameless
    ]
    stale = found.needing([State.NOT_REQUIRED])
    return Outcome(items=tuple(items), notes=_notes_of_stale(stale))


def install(site: SiteAccess, wish: Wish) -> Outcome:
    """Install what is missing; RefusedError or CobwebError where nothing was changed."""
    with Staging(site.dir, site.summary) as staging:
        found = _look(site)
        named = _named(found, wish)
        anew = _anew(found, wish, named)
        _refuse(found, wish, anew)
        refuse_places([it for it in found.states if it not in _stale(found)], site.dir)
        galaxy = Galaxy(site.dir, staging.folder, staging.held, site.summary)
        fetcher = Fetcher(
            site_dir=site.dir,
            folder=staging.folder,
            galaxy=galaxy,
            survey=found,
            anew=anew,
            named=named,
        )
        fetched = fetcher.fetch()
        _refuse_fetched(site, found, fetched, wish, anew)
        lock = _new_lock(found, fetched)
        stale = sorted(lock.keys() - closure(fetched.direct, lock))
        dropped = [it for it in stale if wish.update and (not wish.names or it in named)]
        kept = {package: it for package, it in lock.items() if package not in dropped}
        moves = [*_arrivals(site, fetched), *_departures(found, dropped)]
        wrote = kept != found.lock
        if moves or wrote:
            staging.commit(moves, lock_text(kept))
    left = [it for it in dropped if found.is_by_hand(it)]
    notes = _notes_of_stale([it for it in stale if it not in dropped]) + _notes_of_left(left)
    return Outcome(items=_items(lock, moves, stale), notes=notes, wrote_lock=wrote)


def _look(site: SiteAccess) -> Survey:
    requirements = read_requirements(site.dir, site.read)
    return survey(site.dir, requirements, read_lock(site.read(LOCK_FILE)))


def _named(found: Survey, wish: Wish) -> list[Package]:
    """Return the packages that the user has named; UsageError for a name that there is not."""
    known = {it.name for it in found.states} | {it.label for it in found.nameless}
    unknown = [name for name in wish.names if name not in known]
    if unknown:
        hint = f"known are {', '.join(sorted(known))}" if known else "there are no requirements"
        raise UsageError(f"neither requirements nor lock have {unknown[0]}", hint=hint)
    return [it for it in found.states if it.name in wish.names]


def _anew(found: Survey, wish: Wish, named: Sequence[Package]) -> frozenset[Package]:
    """Return what is fetched as if it were not there: with it what only that depends on."""
    if not wish.update:
        return frozenset()
    if not wish.names:
        return frozenset(found.states)
    below = closure(named, found.lock)
    return frozenset(it for it in below if it in named or it not in found.direct)


def _stale(found: Survey) -> list[Package]:
    return found.needing([State.NOT_REQUIRED])


def _refuse(found: Survey, wish: Wish, anew: Iterable[Package]) -> None:
    """Refuse what can be known before anything is fetched."""
    reasons = [own_folder(it) for it in found.needing([State.OWN])]
    needed = [it for it in found.states if it not in _stale(found)]
    if not wish.force:
        reasons += [_by_hand(found, it) for it in needed if found.is_by_hand(it)]
    reasons += [
        f"{found.direct[it].place}: the requirement of {it} is not the one that was locked;"
        f" `cobweb install --update {it.name}` locks it anew"
        for it in found.needing([State.OTHER])
        if it not in anew
    ]
    if reasons:
        raise RefusedError(reasons)


def _by_hand(found: Survey, package: Package) -> str:
    have, want = short(found.found[package]), short(found.lock[package].sha256)
    return (
        f"{package.path} was changed by hand: it is {have}, and locked is {want};"
        " `cobweb install --force` replaces it"
    )


def _refuse_fetched(
    site: SiteAccess, found: Survey, fetched: Fetched, wish: Wish, anew: Iterable[Package]
) -> None:
    """Refuse what was fetched and is not what was locked, or would overwrite something."""
    reasons = []
    for package, now in sorted(fetched.locked.items()):
        locked = found.lock.get(package)
        if locked is None:
            if tree_digest(site.dir / package.path, package.kind) is not None:
                reasons.append(own_folder(package))
        elif package not in anew and now.sha256 != locked.sha256:
            reasons.append(
                f"{package} is not what was locked: what came is {short(now.sha256)}, and locked"
                f" is {short(locked.sha256)}; if that is right,"
                f" `cobweb install --update {package.name}` locks it anew"
            )
        elif package in _stale(found) and found.is_by_hand(package) and not wish.force:
            reasons.append(_by_hand(found, package))
    if reasons:
        raise RefusedError(reasons)
    refuse_places(list(fetched.locked), site.dir)


def _new_lock(found: Survey, fetched: Fetched) -> dict[Package, Locked]:
    """Return the lock with what was fetched, and with who asks for what now."""
    merged = {**found.lock, **fetched.locked}
    needed = closure(fetched.direct, merged)
    lock = {}
    for package, locked in merged.items():
        asked = fetched.direct.get(package)
        digest = asked.digest if asked else ""
        lock[package] = replace(locked, requirement=digest) if package in needed else locked
    return lock


def _arrivals(site: SiteAccess, fetched: Fetched) -> list[Move]:
    moves = []
    for package, locked in sorted(fetched.locked.items()):
        before = tree_digest(site.dir / package.path, package.kind)
        if before != locked.sha256:
            moves.append(Move(package=package, arrives=True, before=before))
    return moves


def _departures(found: Survey, dropped: Iterable[Package]) -> list[Move]:
    """Return the folders of dropped packages that nobody has changed."""
    return [
        Move(package=it, arrives=False, before=found.found[it])
        for it in dropped
        if found.is_as_locked(it)
    ]


def _items(lock: Lock, moves: Sequence[Move], stale: Sequence[Package]) -> tuple[Item, ...]:
    done = {move.package: "installed" if move.arrives else "removed" for move in moves}
    return tuple(
        _item(it, lock[it], done.get(it, State.NOT_REQUIRED if it in stale else State.UNCHANGED))
        for it in sorted(lock)
    )


def _item(package: Package, locked: Locked | None, state: str) -> Item:
    version, sha256 = (locked.version, locked.sha256) if locked else ("", "")
    return Item(
        kind=package.kind, name=package.name, version=version, sha256=sha256, state=str(state)
    )


def _notes_of_stale(stale: Iterable[Package]) -> tuple[str, ...]:
    return tuple(
        f"no requirement names {it} any more; `cobweb install --update {it.name}` removes it"
        for it in stale
    )


def _notes_of_left(left: Iterable[Package]) -> tuple[str, ...]:
    return tuple(
        f"{it.path} was changed by hand and is left; the lock knows it no longer" for it in left
    )
