"""Which history may go: generations and runs that nothing refers to, and that nobody goes back to.

What is known of objects, hosts and budgets stands in tables of its own. Of runs it takes but a few:
what the last apply left waiting, how that was left which has drifted, and what a rollback did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from cobweb.errors import StoreError
from cobweb.generation import read_site
from cobweb.model import CobId
from cobweb.operations.drift._drift_check import DRIFT
from cobweb.operations.history._rollback import original_of, rollback_of_current
from cobweb.store import CobRecord, Generation, GenerationInfo, RunRecord, Store

_REACHED = 2
"""How many that were reached and say different things are kept however old they are: whatever is
desired, there is one to go back to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What history is kept: the newest `generations` and `runs` (from 1), and what is younger.

    That is what was made, or began, less than `older_s` ago; None: age counts for nothing.
    """

    generations: int = 10
    runs: int = 50
    older_s: float | None = None

    def is_young(self, time: float, now: float) -> bool:
        """Say whether something of this time is kept for its age."""
        return self.older_s is not None and now - time < self.older_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """History that nothing needs, the newest first; a run goes with its events."""

    generations: tuple[GenerationInfo, ...]
    runs: tuple[RunRecord, ...]


def collect_garbage(store: Store, retention: Retention, now: float) -> Garbage:
    """Delete old history in one transaction and return it; the caller holds the site lock.

    Then room is given back. Whoever is killed before that leaves it to the next call.
    """
    garbage = garbage_of(store, retention, now)
    if garbage.generations or garbage.runs:
        store.delete_history(
            generations=[info.id for info in garbage.generations],
            runs=[run.info.id for run in garbage.runs],
        )
    store.compact()
    return garbage


def garbage_of(store: Store, retention: Retention, now: float) -> Garbage:
    """Return what `collect_garbage` deletes; reads every record, every content and every run."""
    records = store.states()
    return Garbage(
        generations=_old_generations(store, retention, records, now),
        runs=_old_runs(store, retention, records, now),
    )


def _old_runs(
    store: Store, retention: Retention, records: Mapping[CobId, CobRecord], now: float
) -> tuple[RunRecord, ...]:
    """Return the runs that may go: that have ended, and of which nothing more is asked.

    Kept are the last run, the last one that was no drift check (which says what still waits), those
    that found something drifted that is so still, and the rollback behind the current generation.
    """
    kept: set[str | None] = {it.run for it in records.values() if it.reason == DRIFT}
    last = store.last_run(but=DRIFT)
    kept |= {rollback_of_current(store), last.info.id if last else None}
    return tuple(
        run
        for run in islice(store.runs(None), retention.runs, None)
        if run.ended is not None
        and run.info.id not in kept
        and not retention.is_young(run.info.started, now)
    )


def _old_generations(
    store: Store, retention: Retention, records: Mapping[CobId, CobRecord], now: float
) -> tuple[GenerationInfo, ...]:
    """Return the generations that may go; a damaged one is of no use, unless it is the current one.

    Kept are the newest, the newest that were reached, what hosts have switched to, what the current
    one says again or took back, and what says how an object of the journal was applied that is not
    as the current one has it: a removed one most of all.
    """
    infos = store.generations()
    sound, kept = _look_through(store, infos, records)
    reached = {
        info.digest: info.id
        for info in infos[::-1]
        if info.reached is not None and info.id in sound
    }
    kept |= set(sorted(reached.values())[-_REACHED:]) | set(store.host_generations().values())
    kept |= {info.id for info in infos[: retention.generations]} | set(original_of(store))
    kept |= {info.id for info in infos if retention.is_young(info.time, now)}
    if rollback_of_current(store):
        kept |= {infos[0].parent}
    kept = kept & sound | {info.id for info in infos[:1]}
    return tuple(info for info in infos if info.id not in kept)


def _look_through(
    store: Store, infos: Sequence[GenerationInfo], records: Mapping[CobId, CobRecord]
) -> tuple[set[int], set[int]]:
    """Return the generations that are not damaged, and those that define what is needed.

    From the newest on they are asked what objects were when they were applied last: `changed` are
    those whose definition is not found yet, with the digests that they were applied with, `gone`
    those that no generation so far has at all.
    """
    changed = {cob: record.content for cob, record in records.items()}
    gone = set(changed)
    sound: set[int] = set()
    defining: set[int] = set()
    for info in infos:
        generation = sound_generation(store, info.id)
        if generation is None:
            continue
        sound.add(info.id)
        if changed or gone:
            contents = read_site(generation.content).contents
            same = {cob for cob, content in changed.items() if contents.get(cob) == content}
            if same or not gone.isdisjoint(contents):
                defining.add(info.id)
            changed = {cob: it for cob, it in changed.items() if cob not in same}
            gone -= contents.keys()
    return sound, defining


def sound_generation(store: Store, generation: int) -> Generation | None:
    """Return a generation; None where it is damaged, or not there."""
    try:
        return store.generation(generation)
    except StoreError:
        return None
