"""What the lender of shared budgets does: it hears how units stand, and lends (`_capacity`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from cobweb.engine._machine import Machine
from cobweb.engine._values import Message, Send
from cobweb.engine.analysis._circles import reached
from cobweb.engine.budgets._capacity import SLOTS, Ear, Key, Line, limit_of, place_of
from cobweb.engine.budgets._trials import Trial
from cobweb.engine.budgets._turns import Rank
from cobweb.engine.budgets._units import BudgetBook, UnitBook
from cobweb.model import CobId, Graph

if TYPE_CHECKING:
    from cobweb.engine.budgets._lender import Lender


@dataclass(slots=True, eq=False)
class Ask:
    """A set of slots that a borrower asks for, by the id of its speaker."""

    speaker: CobId
    keys: tuple[Key, ...]
    units: list[UnitBook]


@dataclass(slots=True, eq=False)
class _Round:
    """The round of one budget: when it began, for whom, and who speaks of it.

    `due`: somebody needs a new one; `expired`: a slot has come back since. `question` is "again"
    where the canary is to be checked anew.
    """

    book: BudgetBook
    speakers: list[CobId]
    askers: set[Rank] = field(default_factory=set)
    began_s: float = 0.0
    due: bool = False
    expired: bool = True
    question: str = ""


class Bank:
    """Lends slots to other engines."""

    def __init__(self, machine: Machine, lender: Lender, ear: Ear, graph: Graph) -> None:
        self._machine = machine
        self._lender = lender
        self._ear = ear
        self._lent: Counter[Key] = Counter()
        self._needed: dict[CobId, set[CobId]] = {}
        for need in graph.needs:
            if graph.cobs[need.on].type.serves(need.state):
                self._needed.setdefault(need.cob, set()).add(need.on)
        self._rounds: dict[str, _Round] = {}
        self._units_of: dict[tuple[CobId, CobId], list[UnitBook]] = {}
        for book in lender.books:
            name = book.budget.name
            found = {cob for unit in book.units for cob in unit.far}
            if lender.canaries.by_limit.get(name) is not None:
                found.update(cob for unit in book.units for cob in unit.far_scope)
            self._rounds[name] = _Round(book, sorted(found))
            for unit in book.units:
                for cob in unit.far:
                    self._units_of.setdefault((place_of(name), cob), []).append(unit)
                self._recount(unit)

    # --- what comes from borrowers

    def hear(self, message: Message) -> None:
        """Take in what a borrower says of slots, or of a budget."""
        heard = self._ear.hear(message)
        if heard is None:
            return
        old, new = heard
        place, holder = message.receiver, message.sender
        if place == SLOTS:
            self._change_slots(old, new)
        elif (round_ := self._rounds.get(limit_of(place))) is not None:
            for unit in self._units_of.get((place, holder), ()):
                self._recount(unit)
            if new.known < self._ear.round(place) and place in self._ear.rounds:
                self._ear.ask(place, holder, round_.question)  # who has not told all for it
            self.tell_verdict(limit_of(place), holder)
        self._lender.stir_all()

    def _change_slots(self, old: Line | None, new: Line) -> None:
        before, now = () if old is None else _held(old), _held(new)
        self._lent.subtract(before)
        self._lent.update(now)
        for unit in self._lender.units(sorted({*before, *now})):
            name = unit.key[0]
            if unit.key not in now:
                unit.since = self._ear.round(place_of(name)) + 1
                self._rounds[name].expired = True
            self._recount(unit)

    def _recount(self, unit: UnitBook) -> None:
        """Count a unit by all that was told of its members elsewhere."""
        name = unit.key[0]
        place = place_of(name)
        told = [self._ear.heard.get((place, cob)) for cob in unit.far]
        words = [set(line.word.state.split()) for line in told if line is not None]
        doubt = not all(self._ear.is_told(place, cob, unit.since) for cob in unit.far)
        is_out = any("out" in it or "held" in it for it in words)
        should = any(not it.isdisjoint(("in", "out")) and "leaves" not in it for it in words)
        takes = is_out or self._lent[unit.key] > 0
        unit.book.tell(unit, takes=takes, should=should, doubt=doubt)
        self._lender.stir(unit)

    # --- rounds

    def is_told(self, rank: Rank, units: Iterable[UnitBook]) -> bool:
        """Say whether these find room by what all engines have told lately; if not, ask them."""
        is_told = True
        of_book: dict[str, list[UnitBook]] = {}
        for unit in units:
            of_book.setdefault(unit.key[0], []).append(unit)
        for name in sorted(of_book):
            round_ = self._rounds[name]
            if not round_.speakers:
                continue
            trust_s = self._lender.checks.trust(round_.book.budget)
            is_old = self._machine.now_s - round_.began_s > trust_s
            if round_.expired or (is_old and rank not in round_.askers):
                round_.due, is_told = True, False
                round_.askers.add(rank)
            elif not round_.book.has_room(of_book[name], round_.book.doubted.values()):
                is_told = False
        return is_told

    def lent_to(self, rank: Rank) -> None:
        """Note that what a round was begun for has been lent."""
        for round_ in self._rounds.values():
            round_.askers.discard(rank)

    def begin_due(self) -> None:
        """Begin the rounds that somebody needs."""
        for name in sorted(self._rounds):
            if self._rounds[name].due:
                self.begin(name)

    def begin(self, name: str, *, again: bool = False) -> int:
        """Ask all for how their units stand now, and their canaries anew; return the round."""
        round_, place = self._rounds[name], place_of(name)
        round_.due = round_.expired = False
        round_.question = "again" if again else ""
        round_.began_s = self._machine.now_s
        self._ear.begin(place, round_.speakers, round_.question)
        for unit in round_.book.units:
            self._recount(unit)
        return self._ear.round(place)

    def repeat(self) -> Iterator[Send]:
        """Yield the questions that have no answer yet."""
        for name, round_ in sorted(self._rounds.items()):
            place = place_of(name)
            for cob in round_.speakers if place in self._ear.rounds else ():
                if not self._ear.is_told(place, cob):
                    yield Send(self._ear.question(place, cob, round_.question))

    # --- lending

    def is_early(self, units: Iterable[UnitBook]) -> bool:
        """Say whether units need others at work that have to go out themselves, which go first.

        Who went out would wait for them, and they for its slot: what an engine plans for its own
        objects ends at those of others.
        """
        trials = map(self._lender.canaries.of, units := tuple(units))
        if any(trial is not None and trial.is_open for trial in trials):
            return False  # those others may have to wait for these
        asked = (self._needs_at_work(cob) for it in units for cob in _objects(it))
        needed = reached(chain.from_iterable(asked), self._needs_at_work)
        return any(
            not needed.isdisjoint(_objects(unit))
            and (self._lender.is_due(unit) or any(self.stands(unit, "due")))
            for book in {it.key[0]: it.book for it in units}.values()
            for unit in book.units
            if unit not in units
        )

    def _needs_at_work(self, cob: CobId) -> Iterable[CobId]:
        return self._needed.get(cob, ())

    def asks(self) -> Iterator[tuple[Rank, Ask]]:
        """Yield what borrowers ask for that has no answer yet, in order."""
        found: list[tuple[Rank, Ask]] = []
        for (place, speaker), line in self._ear.heard.items():
            if place != SLOTS or line.word.granted:
                continue
            for keys in line.slots[1:]:
                units = self._lender.units(keys)
                if len(units) == len(keys):
                    rank = min(map(self._lender.rank, units))
                    found.append((rank, Ask(speaker, keys, units)))
        yield from sorted(found, key=lambda it: (it[0], it[1].speaker))

    def grant(self, ask: Ask) -> None:
        """Lend a set of slots to a borrower, unless it was lent another one for the same word."""
        pair = (SLOTS, ask.speaker)
        if self._ear.heard[pair].word.granted:
            return
        self._ear.grant(pair, "slots", ask.keys)
        self._lent.update(ask.keys)
        for unit in ask.units:
            self._recount(unit)

    # --- canaries

    def has_heard_all(self, trial: Trial) -> bool:
        """Say whether all have told whether they have something to change."""
        return all(
            self._ear.is_told(place_of(book.budget.name), cob)
            for book in trial.books
            for cob in self._rounds[book.budget.name].speakers
        )

    def stands(self, unit: UnitBook, word: str, since: int = 0) -> list[bool | None]:
        """Return of each object of a unit elsewhere if it said a word; None: nothing since then."""
        place = place_of(unit.key[0])
        lines = (self._ear.heard.get((place, cob)) for cob in (*unit.far, *unit.far_scope))
        return [
            None if line is None or line.known < since else word in line.word.state.split()
            for line in lines
        ]

    def tell_verdict(self, name: str, holder: CobId) -> None:
        """Let an object go if it waits and its canary lets it."""
        trial = self._lender.canaries.by_limit.get(name)
        pair = (place_of(name), holder)
        line = self._ear.heard.get(pair)
        if trial is None or line is None or "waits" not in line.word.state.split():
            return
        if not trial.is_open:
            self._ear.grant(pair, "all")
        elif name == trial.name:
            units = [it for it in trial.chosen if holder in it.far or holder in it.far_scope]
            if units:
                self._ear.grant(pair, "first", tuple(unit.key for unit in units))

    def tell_verdicts(self, trial: Trial) -> None:
        """Tell all who wait how far a canary has come."""
        for book in trial.books:
            for holder in self._rounds[book.budget.name].speakers:
                self.tell_verdict(book.budget.name, holder)


def _objects(unit: UnitBook) -> tuple[CobId, ...]:
    """Return the objects in the scope of a unit, wherever they are."""
    return (*(node.id for node in unit.scope), *unit.far, *unit.far_scope)


def _held(line: Line) -> tuple[Key, ...]:
    """Return the slots that a borrower may have by its last word."""
    return (*(line.slots[0] if line.slots else ()), *line.given[1])
