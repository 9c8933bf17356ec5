"""The canaries of a lender: who goes first, and when the others may follow (section 5b)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobweb.engine._machine import Machine
from cobweb.engine._node import CHECKING, IMMOVABLE, Node
from cobweb.engine._values import CanaryWritten, Lending, LimitPaused
from cobweb.engine.budgets._departures import Departure
from cobweb.engine.budgets._trials import Contents, Trial, TrialStage, trials_of
from cobweb.engine.budgets._unit_home import is_home
from cobweb.engine.budgets._units import UnitBook
from cobweb.model import Graph

if TYPE_CHECKING:
    from cobweb.engine.budgets._lender import Lender


class Canaries:
    """All canaries; `lending` says what is durable of them."""

    def __init__(self, machine: Machine, lender: Lender, graph: Graph, lending: Lending) -> None:
        self._machine = machine
        self._lender = lender
        self._lending = lending
        self.all = trials_of(machine, lender.books, Contents(lending.contents, graph))
        self.by_limit = {book.budget.name: it for it in self.all for book in it.books}

    def of(self, unit: UnitBook) -> Trial | None:
        """Return the canary that a unit waits for, or is part of."""
        return self.by_limit.get(unit.book.budget.name)

    def begin(self, trial: Trial) -> None:
        """Have those go first who did before, else see whether any unit has something to change.

        A borrower chooses nobody.
        """
        bank, known = self._lender.bank, self._lending.canaries.get(trial.name, ())
        before = next(filter(trial.is_about, known), None)
        if self._lender.borrower is not None:
            trial.stage = TrialStage.OUT
        elif before is not None:
            trial.go_on(before, self._lending.given_up)
        elif bank is not None or any(map(self._may_go_first, trial.lead.units)):
            trial.stage, trial.undecided = TrialStage.OUT, True
            trial.began_s = self._machine.now_s
        if bank is not None:
            for book in trial.books:
                bank.begin(book.budget.name)

    def _choose(self, trial: Trial) -> None:
        changing = [unit for unit in trial.lead.units if self._may_go_first(unit)]
        changing.sort(
            key=lambda unit: (
                not (unit.out or unit.found_out),
                self._lender.awaited(unit) is not None,
                self._lender.rank(unit)[1:],
            )
        )
        trial.choose(changing[: trial.lead.budget.first])
        if trial.chosen:
            self._write(trial)

    def _may_go_first(self, unit: UnitBook) -> bool:
        """Say whether a unit should serve and has a change in its scope."""
        return (unit.should or unit.far_should) and self._changes(unit)

    def may_get_new(self, unit: UnitBook) -> bool:
        """Say whether a unit that is out may be among those that go first."""
        return unit.out and self._lender.bank is None and self._may_go_first(unit)

    def _changes(self, unit: UnitBook) -> bool:
        bank, new = self._lender.bank, filter(self._lender.changes, unit.scope)
        is_here = any(not node.stuck & IMMOVABLE for node in new)
        return is_here or (bank is not None and any(bank.stands(unit, "changes")))

    def _is_home(self, trial: Trial, unit: UnitBook) -> bool:
        """Say whether a unit that went first is where it should be, on all engines."""
        bank = self._lender.bank
        is_far = bank is None or all(bank.stands(unit, "home", trial.round))
        left = (node for node in unit.scope if node.stuck & IMMOVABLE)  # by this run
        is_left = any(node.away or self._lender.changes(node) for node in left)
        return not is_left and is_home(self._machine, unit) and not unit.held and is_far

    def _write(self, trial: Trial) -> None:
        self._machine.effects.append(CanaryWritten(trial.name, trial.value))

    def go_on(self, trial: Trial) -> bool:
        """Ask for the pause that is due, or let the others follow; say whether they may."""
        if trial.lost or trial.stage in (TrialStage.THROUGH, TrialStage.PAUSED):
            return False
        if self._lender.borrower is not None or (trial.undecided and not self._decide(trial)):
            return False
        if sum(self._is_home(trial, unit) for unit in trial.chosen) < len(trial.chosen):
            if trial.stage is TrialStage.CHECKED and not self._is_checking(trial):
                trial.stage = TrialStage.OUT
            return False
        held = (unit for unit in trial.units if trial.refuses_unit(unit))
        if trial.stage is TrialStage.OUT and any(map(self._changes, held)):
            trial.stage = TrialStage.PAUSED
            units = tuple(sorted(unit.name for unit in trial.chosen))
            self._machine.effects.append(LimitPaused(trial.name, units, trial.pause_s))
            return False
        trial.stage = TrialStage.THROUGH
        self._write(trial)
        self._let_on(trial)
        return True

    def _decide(self, trial: Trial) -> bool:
        """Choose who goes first once all members were checked, or enough are out; say if any does.

        Where engines share the budget, all have told by then what changes.
        """
        bank, checks = self._lender.bank, self._lender.checks
        if bank is not None and not bank.has_heard_all(trial):
            return False
        lead, first = trial.lead, trial.lead.budget.first
        lacks = lead.taken < first or sum(map(self.may_get_new, lead.units)) < first
        some = [book.units[0] for book in trial.books]
        if lacks and not checks.is_known(Departure([], [], set()), some, trial.began_s):
            return False
        trial.undecided = False
        self._choose(trial)
        self._let_on(trial)
        return trial.is_open

    def _let_on(self, trial: Trial) -> None:
        """Have all looked at again, here and elsewhere, that wait for a canary."""
        self._lender.stir_all()
        for unit in trial.units:
            self._lender.stir(unit)
            self._lender.wake(unit)
        if self._lender.bank is not None:
            self._lender.bank.tell_verdicts(trial)

    def let_all(self, limit: str) -> None:
        """Let all others follow, as the lender of a limit says."""
        trial = self.by_limit[limit]
        trial.stage = TrialStage.THROUGH
        self._let_on(trial)

    def let_first(self, unit: UnitBook) -> None:
        """Let a unit go first, as the lender says."""
        trial = self.by_limit[unit.key[0]]
        if unit not in trial.chosen and trial.is_open:
            trial.choose([*trial.chosen, unit])
            self._let_on(trial)

    def doubt(self, limit: str) -> None:
        """Have what went first be checked again."""
        for unit in self.by_limit[limit].chosen:
            checks = (self._machine.checked_at.get(node.id, 0) for node in unit.members)
            unit.last = max((unit.last, *checks))

    def _is_checking(self, trial: Trial) -> bool:
        bank = self._lender.bank
        return any(
            any(node.activity is CHECKING for node in unit.scope)
            or (bank is not None and None in bank.stands(unit, "home", trial.round))
            for unit in trial.chosen
        )

    @property
    def paused(self) -> set[str]:
        """The names of the limits of which the end of a pause is waited for."""
        return {trial.name for trial in self.all if trial.stage is TrialStage.PAUSED}

    def end_pause(self, limit: str) -> None:
        """Have the canary of a limit checked again, now that its pause is over."""
        trial = self.by_limit[limit]
        trial.stage = TrialStage.CHECKED
        self.doubt(limit)
        if self._lender.bank is not None:
            trial.round = self._lender.bank.begin(limit, again=True)
        self._lender.stir_all()

    def holds(self, node: Node) -> bool:
        """Say whether an object may not move before the verdict of a canary."""
        if node.standing is None or not self._lender.is_new(node):
            return False
        trials = (self.of(unit) for unit in node.standing.scopes)
        return any(trial is not None and trial.refuses(node) for trial in trials)
