"""Giving objects up: Cobweb knows nothing of them any more and leaves them as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from cobweb.errors import UsageError
from cobweb.model import CobId, host_of
from cobweb.site import Site
from cobweb.store import (
    CobRecord,
    Entry,
    Forgotten,
    GrantGone,
    HostForgotten,
    HostGivenUp,
    HostLost,
    Store,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReport:
    """What is to be given up: objects with all that is known of them, and hosts.

    Hosts `given_up` are in the site: they stay known, and are left alone until they are
    `taken_back`. `locks` are the state locks that end with them, as in `Store.locks`.
    """

    cobs: Mapping[CobId, CobRecord] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    locks: tuple[tuple[CobId, CobId, str], ...] = ()
    given_up: tuple[str, ...] = ()
    taken_back: tuple[str, ...] = ()

    def entries(self, now: float) -> Iterator[Entry]:
        """Yield what the journal has to know; of what is taken back all is to be checked."""
        for cob, holder, _ in self.locks if self.given_up else ():
            yield GrantGone(cob=cob, holder=holder)
        for host in self.given_up:
            yield HostGivenUp(host=host, given_up=True)
        for host in self.taken_back:
            yield HostGivenUp(host=host, given_up=False)
            yield HostLost(host=host, time=now)
        for cob in self.cobs:
            yield Forgotten(cob=cob)
        for host in self.hosts:
            yield HostForgotten(host=host)


def take_back(store: Store, hosts: Sequence[str]) -> ForgetReport:
    """Return what it means to take hosts back; UsageError for one that is not given up."""
    _refuse_unknown("host that is given up", hosts, store.given_up())
    return ForgetReport(taken_back=tuple(sorted(set(hosts))))


def forget(site: Site, store: Store, cobs: Sequence[str], hosts: Sequence[str]) -> ForgetReport:
    """Return what it means to give up `cobs`, and all objects of `hosts`.

    A host goes with its last object, unless the site has it: then it stays known and is left alone.
    UsageError for what the state database does not know, and for objects that are still in the
    site: these are removed there first.
    """
    records = store.states()
    given_up = tuple(sorted(set(hosts) & site.hosts.keys()))
    hosts = [host for host in hosts if host not in site.hosts]
    known = {host_of(cob) for cob in records} | store.host_generations().keys()
    _refuse_unknown("object", cobs, records)
    _refuse_unknown("host", hosts, known)
    wanted = site.graph(None).cobs
    if kept := sorted(name for name in cobs if name in wanted):
        raise UsageError(
            f"the object {kept[0]} is still in the site",
            hint="remove it there first; to have it looked at anew: `cobweb apply --refresh all`",
        )
    chosen = {cob for cob in records if host_of(cob) in set(hosts)} | {CobId(cob) for cob in cobs}
    left = {host_of(cob) for cob in records.keys() - chosen} | site.hosts.keys()
    return ForgetReport(
        cobs={cob: records[cob] for cob in sorted(chosen)},
        hosts=tuple(sorted(({host_of(cob) for cob in chosen} | set(hosts)) - left)),
        locks=tuple(
            lock
            for lock in store.locks()
            if any(cob in chosen or host_of(cob) in given_up for cob in lock[:2])
        ),
        given_up=given_up,
    )


def _refuse_unknown(kind: str, names: Sequence[str], known: Collection[str]) -> None:
    candidates = sorted(known)
    if unknown := sorted(set(names) - set(candidates)):
        close = get_close_matches(unknown[0], candidates, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `cobweb status`"
        raise UsageError(f"the state database knows no {kind} {unknown[0]!r}", hint=hint)
