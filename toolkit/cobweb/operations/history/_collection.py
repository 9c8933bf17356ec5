"""Which generations may go: those that nothing refers to, and that nobody goes back to."""

from __future__ import annotations

from collections.abc import Sequence

from cobweb.errors import StoreError
from cobweb.generation import read_site
from cobweb.model import CobId
from cobweb.store import Generation, GenerationInfo, Store

KEPT = 10
"""How many generations are kept where nobody says otherwise."""

_REACHED = 2
"""How many generations that were reached are kept however old they are: something to go back to."""


def collect_generations(store: Store, *, keep: int = KEPT) -> tuple[GenerationInfo, ...]:
    """Delete old generations and return them, the newest first; the caller holds the site lock.

    Kept are the newest `keep` (from 1), the newest ones that were reached, what hosts have switched
    to, and what says how an object of the journal was applied that is not as the current one has
    it: a removed one most of all. A damaged one is of no use, and goes unless it is the current
    one. Reads every content.
    """
    infos = store.generations()
    kept = {info.id for info in infos[:keep]} | set(store.host_generations().values())
    kept |= set([info.id for info in infos if info.reached is not None][:_REACHED])
    sound, defining = _look_through(store, infos)
    kept = (kept | defining) & sound | {info.id for info in infos[:1]}
    deleted = tuple(info for info in infos if info.id not in kept)
    if deleted:
        store.delete_generations(info.id for info in deleted)
    return deleted


class _Sought:
    """What objects were when they were applied last, looked for from the newest generation on.

    `changed` are objects whose definition is not found yet, with the digests that they were applied
    with, `gone` those that no generation so far has at all.
    """

    def __init__(self, changed: dict[CobId, str]) -> None:
        self.changed = changed
        self.gone = set(changed)

    def found_in(self, generation: Generation) -> bool:
        """Say whether a generation defines something that no newer one does, and seek on."""
        if not (self.changed or self.gone):
            return False
        contents = read_site(generation.content).contents
        same = {cob for cob, content in self.changed.items() if contents.get(cob) == content}
        had = self.gone & contents.keys()
        self.changed = {cob: it for cob, it in self.changed.items() if cob not in same}
        self.gone -= had
        return bool(same or had)


def _look_through(store: Store, infos: Sequence[GenerationInfo]) -> tuple[set[int], set[int]]:
    """Return the generations that are not damaged, and those that define what is needed."""
    sought = _Sought({cob: record.content for cob, record in store.states().items()})
    sound: set[int] = set()
    defining: set[int] = set()
    for info in infos:
        generation = _sound(store, info.id)
        if generation is not None:
            sound.add(info.id)
            if sought.found_in(generation):
                defining.add(info.id)
    return sound, defining


def _sound(store: Store, generation: int) -> Generation | None:
    try:
        return store.generation(generation)
    except StoreError:
        return None
