"""`drift`: which objects `cobweb drift` takes no notice of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cobweb.model import CobId, host_of, name_of
from cobweb.site.reading._findings import Findings, did_you_mean
from cobweb.site.reading._settings import as_map, known_keys, texts

if TYPE_CHECKING:
    from cobweb.errors import Place
    from cobweb.site.hosts._select import Selector
    from cobweb.site.objects._cobs import Cobs
    from cobweb.site.reading._nodes import Node

_KEYS = ("ignore",)
_WHAT = "`drift`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Objects whose drift is of no interest: a glob of names, on `hosts` (None: on all)."""

    name: str
    hosts: frozenset[str] | None

    def covers(self, cob: CobId) -> bool:
        """Say whether an object is one of them, in the site or gone from it."""
        is_there = self.hosts is None or host_of(cob) in self.hosts
        return is_there and fnmatchcase(name_of(cob), self.name)


def read_drift(
    node: Node | None, cobs: Cobs, selector: Selector, findings: Findings
) -> tuple[Ignored, ...]:
    """Read the section; an entry that matches no object is a finding and is left out."""
    section = as_map(node, _WHAT, findings)
    if section is None:
        return ()
    known_keys(section, _KEYS, _WHAT, findings)
    return tuple(_entries(texts(section, "ignore", _WHAT, findings), cobs, selector, findings))


def _entries(
    written: tuple[tuple[str, Place], ...], cobs: Cobs, selector: Selector, findings: Findings
) -> Iterator[Ignored]:
    for text, place in written:
        name, sign, pattern = (part.strip() for part in text.partition("@"))
        found = [each for known, each in cobs.defs.items() if fnmatchcase(known, name)]
        if not found:
            is_written = any(fnmatchcase(known, name) for known in cobs.written)
            if not is_written and not selector.quiet:
                hint = did_you_mean(name, cobs.defs, otherwise="a name or a glob, as in `log-*`")
                findings.add(place, f"no COB is called `{name}`", hint)
            continue
        if not sign:
            yield Ignored(name=name, hosts=None)
            continue
        hosts = frozenset(selector.some(pattern, place, f"`ignore` of {_WHAT}"))
        if any(hosts & each.host_set for each in found):
            yield Ignored(name=name, hosts=hosts)
        elif hosts and not selector.quiet:
            findings.add(place, f"`{text}` matches no object", "mend the host pattern")
