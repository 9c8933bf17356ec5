"""Giving objects up: Cobweb knows nothing of them any more and leaves them as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from cobweb.errors import UsageError
from cobweb.inventory import Site
from cobweb.model import CobId, host_of
from cobweb.store import CobRecord, Entry, Forgotten, HostForgotten, Store

__all__ = ["Farewell", "farewell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell:
    """What is to be given up: objects with all that is known of them, and hosts.

    `locks` are the state locks that end with them, as in `Store.locks`.
    """

    cobs: Mapping[CobId, CobRecord] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    locks: tuple[tuple[CobId, CobId, str], ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield what the journal has to know."""
        for cob in self.cobs:
            yield Forgotten(cob=cob)
        for host in self.hosts:
            yield HostForgotten(host=host)


def farewell(site: Site, store: Store, cobs: Sequence[str], hosts: Sequence[str]) -> Farewell:
    """Return what it means to give up `cobs`, and all objects of `hosts`.

    A host goes with its last object, unless the site has it. UsageError for what the state database
    does not know, and for what is still in the site: that is removed there first.
    """
    records = store.states()
    known = {host_of(cob) for cob in records} | store.host_generations().keys()
    _refuse_unknown("object", cobs, records)
    _refuse_unknown("host", hosts, known)
    _refuse_wanted("object", cobs, site.graph(None).cobs)
    _refuse_wanted("host", hosts, site.hosts)
    chosen = {cob for cob in records if host_of(cob) in set(hosts)} | {CobId(cob) for cob in cobs}
    left = {host_of(cob) for cob in records.keys() - chosen} | site.hosts.keys()
    return Farewell(
        cobs={cob: records[cob] for cob in sorted(chosen)},
        hosts=tuple(sorted(({host_of(cob) for cob in chosen} | set(hosts)) - left)),
        locks=tuple(lock for lock in store.locks() if lock[0] in chosen or lock[1] in chosen),
    )


def _refuse_unknown(kind: str, names: Sequence[str], known: Collection[str]) -> None:
    candidates = sorted(known)
    unknown = sorted(set(names) - set(candidates))
    if unknown:
        close = get_close_matches(unknown[0], candidates, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `cobweb status`"
        raise UsageError(f"the state database knows no {kind} {unknown[0]!r}", hint=hint)


def _refuse_wanted(kind: str, names: Sequence[str], wanted: Collection[str]) -> None:
    kept = sorted(name for name in names if name in wanted)
    if kept:
        raise UsageError(
            f"the {kind} {kept[0]} is still in the site",
            hint="remove it there first; to have it looked at anew: `cobweb apply --refresh all`",
        )
