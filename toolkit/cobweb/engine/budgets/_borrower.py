"""What a borrower of slots does: it asks the lender and tells how its units stand (`_capacity`)."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from cobweb.engine._machine import Machine
from cobweb.engine._node import CHECKING, Node
from cobweb.engine._values import Message, MessageKind
from cobweb.engine.budgets._capacity import SLOTS, Key, Voice, limit_of, place_of
from cobweb.engine.budgets._rounds import NEVER
from cobweb.engine.budgets._turns import Rank
from cobweb.engine.budgets._unit_home import is_home
from cobweb.engine.budgets._units import BudgetBook, UnitBook
from cobweb.model import CobId

if TYPE_CHECKING:
    from cobweb.engine.budgets._lender import Lender


ASKS_AT_ONCE = 16
"""How many sets of slots are asked for at once: the first ones in order, of which any may do."""


class Borrower:
    """Asks for slots that are lent elsewhere.

    `asked` is the round of each budget that the lender has begun, which was heard at `began_s`, and
    `fresh` the one that its words are fresh for. `again` names budgets whose canary is to be
    checked again. `granted` are slots that no unit has taken yet.
    """

    def __init__(self, machine: Machine, lender: Lender, voice: Voice) -> None:
        self._machine = machine
        self._lender = lender
        self._voice = voice
        members = (n.id for book in lender.books for unit in book.units for n in unit.members)
        self._speaker = min(members, default=CobId(""))
        self._asks: list[tuple[Key, ...]] = []
        self.asked: dict[str, int] = {}
        self.began_s: dict[str, float] = {}
        self.fresh: dict[str, int] = {}
        self.again: set[str] = set()
        self.granted: set[Key] = set()
        self.touched: dict[Key, UnitBook] = {}

    # --- what comes from the lender

    def hear(self, message: Message) -> None:
        """Take in what the lender says of slots, or of a budget."""
        place = message.sender
        if message.kind is MessageKind.RECALL:
            self._recalled(message)
        elif self._voice.hear(message) is None:
            return
        elif place == SLOTS:
            self.granted.update(message.slots[0])
        elif message.state == "all":
            self._lender.canaries.let_all(limit_of(place))
        else:
            for unit in self._lender.units(message.slots[0]):
                self._lender.canaries.let_first(unit)
        self._lender.stir_all()

    def _recalled(self, message: Message) -> None:
        self._voice.note(message)
        name = limit_of(message.sender)
        if message.incarnation <= self.fresh.get(name, 0):
            self._voice.again(message.receiver, message.sender)
        elif message.incarnation > self.asked.get(name, 0):
            self.asked[name] = message.incarnation
            self.began_s[name] = self._machine.now_s
            if message.state:
                self.again.add(name)
                self._lender.canaries.doubt(name)

    # --- asking

    def lend(self) -> bool:
        """Take the slots that were granted where all is known, ask for others; say if any."""
        lender, lent = self._lender, False
        if not lender.checks.closed:
            lent = self._take_granted()
        for book in lender.books:
            self._finish_round(book)
        self._tell()
        held = {unit.key for unit in lender.held()} | self.granted
        if held or self._asks or (self._speaker, SLOTS) in self._voice.said:
            sets = (tuple(sorted(held)), *self._asks)
            self._voice.say(self._speaker, SLOTS, "slots", 0, sets)
        return lent

    def _take_granted(self) -> bool:
        lender, lent = self._lender, False
        kept: set[Key] = set()
        self._asks.clear()
        before, lender.begun = lender.begun, dict[Rank, float]()
        for rank, asks, asker in lender.candidates(full=True):
            need = [unit for unit in asks.units if not unit.held]
            keys = tuple(unit.key for unit in need)
            if not self.granted.issuperset(keys):
                if keys not in self._asks:
                    self._asks.append(keys)
                if len(self._asks) == ASKS_AT_ONCE:
                    break
                continue
            began_s = before.get(rank, self._machine.now_s)
            if not lender.checks.is_known(asks, need, began_s):
                lender.begun[rank] = began_s
                kept.update(keys)
                continue
            for unit in need:
                lender.take(unit, asker)
            lent = True
        self.granted &= kept
        return lent

    # --- telling

    def _finish_round(self, book: BudgetBook) -> None:
        """Check what nobody has looked at lately; when all is known the words are fresh."""
        name = book.budget.name
        asked = self.asked.get(name, 0)
        if asked <= self.fresh.get(name, 0) or not self._is_known(book):
            return
        self.again.discard(name)
        self.fresh[name] = asked
        self.touched.update((unit.key, unit) for unit in book.units)

    def _is_known(self, book: BudgetBook) -> bool:
        machine, is_known = self._machine, True
        name, budget = book.budget.name, book.budget
        since_s = min(self.began_s[name], machine.now_s - self._lender.checks.trust(budget))
        for unit in book.units:
            for node in unit.members:
                if node.activity is CHECKING:
                    is_known = False
                elif self._is_old(node, budget.group, since_s):
                    machine.check(node)
                    is_known = False
            if name in self.again and not is_home(machine, unit):
                is_known = is_known and not any(it.activity is CHECKING for it in unit.scope)
        return is_known

    def _is_old(self, node: Node, group: str, since_s: float) -> bool:
        """Say whether a member at rest that counts as serving has to be checked."""
        machine = self._machine
        if node.frozen or not node.up or node.absent or node.late:
            return False
        is_off = node.id in machine.working.served and not machine.working.serves(node, group)
        return not is_off and machine.checked_s.get(node.id, NEVER) < since_s

    def _tell(self) -> None:
        """Say how the units stand of which something has changed."""
        told: dict[tuple[str, CobId], Node] = {}
        for (name, _), unit in self.touched.items():
            trial = self._lender.canaries.of(unit)
            told.update(((name, n.id), n) for n in (unit.scope if trial else unit.members))
        self.touched.clear()
        for (name, cob), node in sorted(told.items(), key=itemgetter(0)):
            words = " ".join((*self._stands(name, node), *self._changes(name, node)))
            self._voice.say(cob, place_of(name), words or "new", self.fresh.get(name, 0))

    def _stands(self, name: str, node: Node) -> list[str]:
        """Return how the units of a budget stand that an object is a member of."""
        assert node.standing is not None
        units = [unit for unit in node.standing.units if unit.key[0] == name]
        lives = [unit for unit in units if unit.should]
        words = ["out" if any(unit.out for unit in lives) else "in"] if lives else []
        words += ["leaves"] if lives and all(unit.leaving for unit in lives) else []
        words += ["held"] if any(unit.held for unit in units) else []
        return [*words, "due"] if any(map(self._lender.is_due, units)) else words

    def _changes(self, name: str, node: Node) -> list[str]:
        """Return what the canary of a budget has to know of the units an object concerns."""
        assert node.standing is not None
        canaries = self._lender.canaries
        units = [unit for unit in node.standing.scopes if unit.key[0] == name]
        trial = canaries.by_limit.get(name)
        if trial is None:
            return []
        words = []
        if any(self._lender.changes(it) for unit in units for it in unit.scope):
            words.append("changes")
        if trial.is_open and any(unit not in trial.chosen for unit in units):
            words.append("waits")
        first = [unit for unit in units if unit in trial.chosen]
        if first and all(not it.held and is_home(self._machine, it) for it in first):
            words.append("home")
        return words
