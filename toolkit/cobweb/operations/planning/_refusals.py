"""What a run would take away although nobody said so: refused before anything runs (promise P12).

An object is protected by the generation that its host stands in, or the newest one, not by the
site's files: taking the object out of these is no permission to remove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cobweb._text import some_of
from cobweb.errors import RefusedError
from cobweb.generation import PROTECTED, quoted, read_site
from cobweb.model import CobId, host_of
from cobweb.operations.context._removal import gone_of
from cobweb.operations.context._renames import names_since

if TYPE_CHECKING:
    from cobweb.operations.context._desired import Desired
    from cobweb.store import CobRecord, Store

_SHOWN = 5
"""How many objects a refusal names; its data have all."""


class RefusalKind(StrEnum):
    """Why a run is refused."""

    PROTECTED = "protected"
    REMOVALS = "removals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason why a run is not begun; `cobs` are the objects that it would take away."""

    kind: RefusalKind
    cobs: tuple[CobId, ...]
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})"

    def as_data(self) -> dict[str, Any]:
        """Return the refusal as plain JSON data."""
        data = {"kind": str(self.kind), "cobs": list(self.cobs)}
        return {**data, "message": self.message, "hint": self.hint}


def refuse(refusals: Iterable[Refusal]) -> None:
    """Raise RefusedError where there is any reason to."""
    if reasons := list(map(str, refusals)):
        raise RefusedError(reasons)


def refusals_of(
    desired: Desired,
    store: Store,
    records: Mapping[CobId, CobRecord],
    *,
    max_removals: Callable[[int], int] | None = None,
    deletes: AbstractSet[CobId] = frozenset(),
) -> tuple[Refusal, ...]:
    """Return why a run must not bring about what is desired; `records` are what is believed.

    `max_removals` turns the number of known objects into how many may be removed (None: all), not
    counting `deletes`, what decisions let go, nor any where the whole site is to go.
    Reads generations only where something is gone, or is another thing under its name.
    """
    gone = gone_of(desired, records)
    removed = frozenset[CobId]()
    if not desired.is_deletion:
        removed = frozenset(cob for cob in gone - deletes if not desired.releases(cob))
    found: list[Refusal] = []
    if removed and max_removals is not None:
        known = len(records) if desired.limit is None else len(store.states())
        found += _too_many(removed, known, max_removals(known))
    contents = desired.evaluated.contents
    changed = {
        cob
        for cob in desired.movable & records.keys()
        if records[cob].content and records[cob].content != contents[cob]
    }
    types = {cob: desired.graph.cobs[cob].type.name for cob in changed}
    guards = dict(_protecting(store, gone, types)) if gone or changed else {}
    return (*([_protection(guards)] if guards else []), *found)


def _too_many(removed: AbstractSet[CobId], known: int, most: int) -> Iterator[Refusal]:
    """Yield the refusal of so many removals, if there are more than may be."""
    if len(removed) > most:
        number = "1 removal" if len(removed) == 1 else f"{len(removed)} removals"
        are = "is" if len(removed) == 1 else "are"
        yield Refusal(
            kind=RefusalKind.REMOVALS,
            cobs=tuple(sorted(removed)),
            message=f"{number}, of {known} known objects, {are} more than {most}",
            hint=f"if `cobweb plan` shows what is meant: --max-removals {len(removed)}",
        )


def _protection(guards: Mapping[CobId, int]) -> Refusal:
    """Return the refusal of removals; `guards` are the generations that forbid them."""
    cobs = tuple(sorted(guards))
    each = [f"{cob} by generation {guards[cob]}" for cob in cobs]
    return Refusal(
        kind=RefusalKind.PROTECTED,
        cobs=cobs,
        message=f"protected, so not removed: {some_of(each, _SHOWN)}",
        hint="apply it without `protect: true` first, while it is in the site; then take it out",
    )


def _protecting(
    store: Store, gone: AbstractSet[CobId], types: Mapping[CobId, str]
) -> Iterator[tuple[CobId, int]]:
    """Yield removed objects that a generation protects, with the generation.

    So are those that have another type now, by `types`: they are removed as what they were.
    """
    active = store.host_generations()
    newest = next((info.id for info in store.generations()), 0)
    of: dict[int, set[CobId]] = {}
    for cob in {*gone, *types}:
        for generation in {active.get(host_of(cob), 0), newest}:
            of.setdefault(generation, set()).add(cob)
    for generation in sorted(of):
        found = store.generation(generation) if generation else None
        if found is None or f"{quoted(PROTECTED)}:{{" not in found.content:
            continue  # it is not there, or protects nothing
        site = read_site(found.content).renamed(names_since(store.renames(), generation))
        for cob in sorted(site.protected & of[generation]):
            if cob in gone or site.type_names[cob] != types[cob]:
                yield cob, generation
