"""Lends the slots of budgets: who may go out, when, and when a unit is home (design, section 5b).

Theory of operation. What an object has before it, by its type and needs, says which units go out
for it (`_departures`). Whoever would take a unit out that should serve asks for nothing before all
units that this takes out have a slot; so does everything in the scope of a unit of which the plan
takes a member out, and the switch of its host. Slots are lent when nobody has anything to say any
more, in order: to units that are out already first, then as the budget says. Before that, what the
departure relies on is checked where nobody has looked for `trust` seconds. All slots of a departure
are lent at once or none is, so nobody holds one and waits for another. A slot comes back when the
unit is home: all is where the goal wants it, and its members were checked after the last step.
Slots are the units', not the run's: one that is out at the end is kept as a debt.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter

from cobweb.engine._machine import Machine
from cobweb.engine._node import IDLE, Node
from cobweb.engine._rules import replan
from cobweb.engine._values import Lending, Served, SlotReturned, SlotTaken
from cobweb.engine.budgets._bank import Ask, Bank
from cobweb.engine.budgets._borrower import Borrower
from cobweb.engine.budgets._canaries import Canaries
from cobweb.engine.budgets._capacity import Ear, Voice
from cobweb.engine.budgets._departures import Departure, PlanBook, departure, way_of
from cobweb.engine.budgets._during import During
from cobweb.engine.budgets._rounds import Rounds
from cobweb.engine.budgets._turns import Rank, Turns
from cobweb.engine.budgets._unit_home import is_home, is_in_vain
from cobweb.engine.budgets._units import BudgetBook, UnitBook, book_of, give_standing, mates_of
from cobweb.engine.search._problem import Standing
from cobweb.model import CobId, Graph, Transition

_Candidate = tuple[Rank, Departure, Node | Ask | UnitBook]
"""When it comes, what goes out, and whose step or wish that is where it is no unit's own."""


class Lender:
    """All budgets of an engine.

    With an `ear` it lends to other engines as well, through its `bank`; with a `voice` it borrows.
    """

    def __init__(
        self,
        machine: Machine,
        graph: Graph,
        lending: Lending,
        shared: Ear | Voice | None = None,
    ) -> None:
        self._machine = machine
        self._lending = lending
        self._budgets = graph.budgets
        is_shared = shared is not None
        books = [
            book_of(it, machine.nodes, lending.given_up, is_shared=is_shared)
            for it in graph.budgets
        ]
        self.books = [book for book in books if book.units]
        self._units = {unit.key: unit for book in self.books for unit in book.units}
        self._of_host: dict[str, list[UnitBook]] = {}
        self._fresh: set[CobId] = set()
        self._turns = Turns(self._units)
        self._touched: set[tuple[str, str]] = set()
        self._holding: dict[tuple[str, str], UnitBook] = {}
        self._askers: dict[CobId, Node] = {}
        self._plans = PlanBook(machine)
        self.begun: dict[Rank, float] = {}
        self.checks = Rounds(machine, self.books)
        self._closed: set[str] = set()
        self.in_vain: list[UnitBook] = []
        self._dirty = True
        self.during = During(machine, self.books)
        give_standing(machine.nodes, self.books, graph.needs if is_shared else ())
        for unit in self._units.values():
            for host in sorted({node.cob.host for node in unit.scope}):
                self._of_host.setdefault(host, []).append(unit)
        self.canaries = Canaries(machine, self, graph, lending)
        self.bank: Bank | None = None
        self.borrower: Borrower | None = None
        if isinstance(shared, Ear):
            self.bank = Bank(machine, self, shared, graph)
        elif shared is not None:
            self.borrower = Borrower(machine, self, shared)

    def open(self, fresh: Iterable[CobId]) -> None:
        """Begin with what is known: slots that are out, and who goes first; `fresh` is changed."""
        self._fresh.update(fresh)
        working = self._machine.working
        working.served.update(self._lending.served)
        for unit in self._units.values():
            book = unit.book
            for node in unit.members:
                if node.id not in working.served and working.serves(node, book.budget.group):
                    working.served.add(node.id)
                    self._machine.effects.append(Served(node.id))
            book.update(unit, working)
            if unit.key in self._lending.slots:
                book.hold(unit, held=True)
                unit.began = unit.moved = True
                self._holding[unit.key] = unit
                self._touched.add(unit.key)
            self.stir(unit)
        for unit in self._holding.values():
            if unit not in self.plan(unit).units:  # what would go out has gone
                unit.departures = dict.fromkeys((node.id for node in unit.members), None)
                self._count(unit)
        self._take_back_of_gone()
        self.during.open(self._is_to_lend)
        for trial in self.canaries.all:
            self.canaries.begin(trial)

    def _take_back_of_gone(self) -> None:
        """Take back slots of units of which nothing is left: they are home."""
        left = {
            (budget.name, unit.name)
            for budget in self._budgets
            for unit in budget.units
            if any(cob in self._machine.wanted for cob in unit.members)
        }
        for key in sorted(self._lending.slots - left):
            self._machine.effects.append(SlotReturned(*key))

    # --- who may move

    def lets_move(self, node: Node, step: Transition) -> bool:
        """Say whether an object may pursue a step; if not it is looked at when that has changed."""
        standing = node.standing
        assert standing is not None
        if node.plan_move is not None and node.plan_move.step is step:
            return True
        if node.target == node.goal and not node.directive:
            for unit in standing.scopes:
                if self._holds_back(unit, node):
                    unit.waiting[node.id] = node
                    self.stir(unit)
                    return False
        way = way_of(self._machine, node, step)
        if all(unit.held for unit in departure(self._machine, (way,)).units):
            return True
        self._askers[node.id] = node
        self._dirty = True
        return False

    def has_slots(self, node: Node, step: Transition) -> bool:
        """Say whether all units that a step takes out have one: the last look before it starts."""
        standing, working = node.standing, self._machine.working
        assert standing is not None
        for unit in standing.units:
            group = unit.book.budget.group
            needs_one = unit.should and not unit.held and node.id in unit.counted
            if needs_one and working.goes_out(node, step, group):
                node.plan_move = None
                self._askers[node.id] = node
                self._dirty = True
                return False
        return True

    def lets_switch(self, host: str) -> bool:
        """Say whether no canary and no slot holds back the switch of a host."""
        units = self.units_on(host)
        for unit in units:
            self.stir(unit)
        if any(trial.refuses_host(host) for trial in self.canaries.all):
            return False
        return all(it.held for unit in units for it in self.plan(unit).units)

    def _holds_back(self, unit: UnitBook, node: Node) -> bool:
        """Say whether what an object has to do waits for the slot or the canary of a unit."""
        trial = self.canaries.of(unit)
        if trial is not None and self.is_new(node) and trial.refuses(node):
            return True
        if unit.out or not unit.should:  # a repair; its own step is looked at all the same
            is_open = trial is not None and trial.undecided
            return is_open and self.canaries.may_get_new(unit)  # it may get its new content first
        return not all(it.held for it in self.plan(unit).units)

    def is_new(self, node: Node) -> bool:
        """Say whether what an object has before it is a step to new content, or a removal."""
        hosts = self._machine.hosts
        if hosts is not None and hosts.waits(node.cob.host):
            return node.removed
        return self.changes(node)

    def plan(self, unit: UnitBook) -> Departure:
        """Return what goes out for all that is to be done in the scope of a unit."""
        return self._plans.of(unit, self._together(unit))

    def _together(self, unit: UnitBook) -> list[UnitBook]:
        """Return a unit and those of hosts that switch together with its own."""
        hosts = self._machine.hosts
        if hosts is None:
            return [unit]
        mates = {mate for host in unit.hosts for mate in hosts.mates(host)}
        if mates.issubset(unit.hosts):
            return [unit]
        found = {it.key: it for host in mates for it in self.units_on(host)}
        return [unit, *(found[key] for key in sorted(found) if key != unit.key)]

    def is_too_much(self, unit: UnitBook) -> bool:
        """Say whether hosts that switch together take out more units than a budget ever holds."""
        if len(self._together(unit)) == 1:
            return False
        plan = self.plan(unit).units
        return not all(it.book.can_hold(mates_of(it, plan)) for it in plan)

    def units_on(self, host: str) -> list[UnitBook]:
        """Return the units that have something in scope on a host."""
        return self._of_host.get(host, [])

    # --- what happens

    def update(self, node: Node) -> None:
        """Take note that the state or the activity of an object has changed."""
        self._dirty = True
        standing = node.standing
        assert standing is not None
        self.checks.update(node)
        self._forget(node)
        changed = node if self._machine.hosts is None else None
        for unit in standing.units:
            self._count(unit, changed)
        for unit in standing.scopes:
            self._touched.add(unit.key)
            self.stir(unit)
            self.wake(unit)

    def _forget(self, node: Node) -> None:
        """Forget the plans that an object matters to, and have their units looked at again.

        Who waits in one of these may need no slot any more that it does not have.
        """
        for key in self._plans.forget(node.id):
            self.stir(self._units[key])
            self.wake(self._units[key])

    def _count(self, unit: UnitBook, changed: Node | None = None) -> None:
        """Count a unit anew; whether it should serve is what plans of others look at."""
        should = unit.should
        unit.book.update(unit, self._machine.working, changed)
        if unit.should is not should:
            for node in unit.members:
                self._forget(node)

    def began(self, node: Node, step: Transition) -> None:
        """Take note that a step of an object is about to begin."""
        assert node.standing is not None
        for unit in node.standing.scopes:
            unit.began = unit.began or unit.held
            unit.moved = unit.moved or unit.held
        for unit in node.standing.units:
            if unit.held and self._machine.working.goes_out(node, step, unit.book.budget.group):
                unit.departures[node.id] = None if node.id in unit.departures else step
                self._forget(node)

    def ended(self, node: Node) -> None:
        """Take note that a transition of an object has ended."""
        assert node.standing is not None
        for unit in node.standing.scopes:
            unit.last = self._machine.epoch

    def switched(self, hosts: Iterable[str]) -> None:
        """Take note that hosts have switched."""
        self._dirty = True
        for host in hosts:
            for node in self._machine.on_host(host):
                self._forget(node)
                if node.standing is not None:
                    self.checks.update(node)
            for unit in self.units_on(host):
                self._touched.add(unit.key)
                unit.began = unit.began or unit.held
                unit.last = self._machine.epoch
                self._count(unit)
                self.stir(unit)
                self.wake(unit)
        self.during.hold_again()

    def stir(self, unit: UnitBook) -> None:
        """Have a unit looked at when slots are lent next."""
        if self._turns.add(unit, self.rank(unit)):
            self._dirty = True
        if self.borrower is not None:
            self.borrower.touched[unit.key] = unit

    def stir_all(self) -> None:
        """Have slots be lent again, once nobody has anything to say."""
        self._dirty = True

    def wake(self, unit: UnitBook) -> None:
        """Have those looked at again that wait in a unit, and its hosts."""
        machine = self._machine
        waiting, unit.waiting = unit.waiting, {}
        for node in waiting.values():
            machine.touch(node)
        if machine.hosts is not None:
            for host in {node.cob.host for node in unit.scope}:
                machine.hosts.stir(host)

    # --- lending

    def lend(self) -> bool:
        """Take slots back, lend those that are free, and go on with canaries; say if any moved."""
        if not self._dirty or self._machine.halted:
            return False
        self._dirty = False
        before = len(self._machine.effects)
        touched = sorted(self._touched & self._holding.keys())
        self._touched.clear()
        moved = sum(self._take_back(self._holding[key]) for key in touched) > 0
        moved = (self.borrower is None and self._take_back_room()) or moved
        moved = sum(self.canaries.go_on(trial) for trial in self.canaries.all) > 0 or moved
        moved = self._lend_all() or moved or len(self._machine.effects) > before
        if over := [book for book in self.during.idle if not self._is_to_lend(book)]:
            self.during.let_go(over)
        return moved or bool(self._machine.queue)

    def _is_to_lend(self, book: BudgetBook) -> bool:
        """Say whether a unit of a budget has still to go out."""
        return any(unit in self.plan(unit).units for unit in book.units)

    def held(self) -> list[UnitBook]:
        """Return the units that have a slot, by name."""
        return [self._holding[key] for key in sorted(self._holding)]

    def lend_anyway(self) -> bool:
        """Lend to those as well who seem to have no room in their own budget.

        Say whether any got a slot, or is checked first: then nothing is in vain yet.
        """
        return self._lend_all(full=True) or self._machine.flying > 0

    def _lend_all(self, *, full: bool = False) -> bool:
        """Lend to all who may have a slot, in order; who waits for checks keeps the room."""
        if self.borrower is not None:
            return self.borrower.lend()
        bank = self.bank
        lent, reserved = False, set[tuple[str, str]]()
        before = self.begun
        self.begun = dict(before) if self.checks.busy else {}
        self._closed.clear()
        for rank, asks, asker in self.candidates(full=full):
            need = [unit for unit in asks.units if not unit.held or isinstance(asker, Ask)]
            wanted = reserved | {unit.key for unit in need}
            full_ones = self._full(wanted)
            if not need or full_ones:
                full_ones -= {it.key[0] for it in need if not it.book.can_hold(mates_of(it, need))}
                self._closed.update(
                    it.key[0] for it in need if not it.domains and it.key[0] in full_ones
                )
                continue
            began_s = before.get(rank, self._machine.now_s)
            relied, is_held = self.during.relied(asks, need), self.during.are_held(need)
            if not is_held or not self.checks.is_known(relied, need, began_s):
                self.begun[rank] = began_s
                reserved = wanted
                continue
            if bank is not None and bank.is_early(need):
                continue
            if bank is not None and not bank.is_told(rank, map(self._units.__getitem__, wanted)):
                reserved = wanted
                continue
            self.begun.pop(rank, None)
            self._lend(rank, need, asker)
            lent = True
        if bank is not None:
            bank.begin_due()
        return lent

    def _lend(self, rank: Rank, need: list[UnitBook], asker: Node | Ask | UnitBook) -> None:
        if self.bank is not None:
            self.bank.lent_to(rank)
            if isinstance(asker, Ask):
                self.bank.grant(asker)
                return
        for unit in need:
            self.take(unit, asker)

    def candidates(self, *, full: bool) -> Iterator[_Candidate]:
        """Yield what waits for slots, in order; unless `full` of budgets with room alone.

        Units in a budget of which a member is under way, or being checked, wait for its end.
        """
        busy, held = self.checks.closed, self._holding.keys()
        books = (book for book in self.books if book.budget.name not in busy)
        turns: list[Iterator[tuple[Rank, UnitBook | Ask]]]
        turns = [self._turns.of(book, self._closed, held, full=full) for book in books]
        if self.bank is not None:
            turns.append(self.bank.asks())
        for rank, unit in heapq.merge(*turns, key=itemgetter(0)):
            if isinstance(unit, Ask):
                if busy.isdisjoint(key[0] for key in unit.keys):
                    yield rank, Departure(unit.units, [], set()), unit
                continue
            is_open = unit.book.has_spare and unit.key[0] not in self._closed
            if is_open or full or unit.takes_room:
                plan = self._plan_to_go(unit)
                if plan is not None and not all(it.held for it in plan.units):
                    yield rank, plan, unit
                elif plan is not None:
                    self._turns.drop(unit)
        for cob in sorted(self._askers):
            asks = self._asked_by(self._askers[cob])
            if asks is not None and busy.isdisjoint(it.book.budget.name for it in asks.units):
                yield (2, 0, (0, 0.0, ""), 0, cob), asks, self._askers[cob]

    def is_due(self, unit: UnitBook) -> bool:
        """Say whether a unit waits for a slot, here, and could go."""
        return self._is_able(unit) and not all(it.held for it in self.plan(unit).units)

    def units(self, keys: Iterable[tuple[str, str]]) -> list[UnitBook]:
        """Return those of these units that there are."""
        return [self._units[key] for key in keys if key in self._units]

    def rank(self, unit: UnitBook) -> Rank:
        """Return when the turn of a unit comes."""
        hosts = self._machine.hosts
        place = 0 if hosts is None else max(map(hosts.place, unit.hosts), default=0)
        is_first = unit.out or unit.far_takes
        return int(not is_first), place, *unit.rank, unit.name

    def _asked_by(self, node: Node) -> Departure | None:
        """Return what goes out for the next step of an object; None where it need not wait."""
        move = node.table.moves[node.state].get(node.target)
        if move is None or node.stuck or not node.known or node.frozen:
            del self._askers[node.id]
            return None
        asks = departure(self._machine, (way_of(self._machine, node, move.step),))
        if all(unit.held for unit in asks.units):
            del self._askers[node.id]
            self._machine.touch(node)
            return None
        return None if _has_skipped(asks) else asks

    def _plan_to_go(self, unit: UnitBook) -> Departure | None:
        """Return what goes out for a unit; None where it may be lent no slot, whatever is free."""
        trial = self.canaries.of(unit)
        if unit.skipped or (trial is not None and trial.refuses_unit(unit)):
            return None
        plan = self.plan(unit)
        if all(it.held for it in plan.units):
            return plan
        return plan if self._is_able(unit) and not _has_skipped(plan) else None

    def _is_able(self, unit: UnitBook) -> bool:
        """Say whether nothing in a unit has failed or is lost that a switch would not mend."""
        hosts = self._machine.hosts
        if hosts is None:
            return not any(node.failed or not node.up for node in unit.scope)
        together = (it for host in unit.hosts for it in self.units_on(host))  # switch together
        if any(map(hosts.pending, unit.hosts)) or any(map(self.awaited, together)):
            return False
        failed = (node for node in unit.scope if node.failed or not node.up)
        return all(node.up and hosts.may_mend(node) for node in failed)

    def awaited(self, unit: UnitBook) -> CobId | None:
        """Return whose new content has to be there before a unit goes."""
        hosts = self._machine.hosts
        found = () if hosts is None else map(hosts.awaits, unit.scope)
        return next(filter(None, found), None)

    def _full(self, wanted: set[tuple[str, str]]) -> set[str]:
        """Return the budgets in which not all these units may be out with those that are."""
        of_book: dict[str, list[UnitBook]] = {}
        for key in wanted:
            of_book.setdefault(key[0], []).append(self._units[key])
        return {name for name, units in of_book.items() if not units[0].book.has_room(units)}

    def take(self, unit: UnitBook, asker: Node | Ask | UnitBook | None) -> None:
        """Give a unit a slot."""
        unit.book.hold(unit, held=True)
        self._holding[unit.key] = unit
        self._touched.add(unit.key)
        unit.began = unit.moved = False
        unit.asker = (asker, asker.state) if isinstance(asker, Node) else None
        unit.lent_for = asker if isinstance(asker, UnitBook) else None
        unit.last = self._machine.epoch
        self._machine.effects.append(SlotTaken(*unit.key))
        self._dirty = True
        if self.borrower is not None:
            self.borrower.touched[unit.key] = unit
        for it in self._together(unit):
            self.wake(it)
        for key in self._plans.with_unit(unit):
            self.wake(self._units[key])
        for node in self._askers.values():
            self._machine.touch(node)

    # --- coming home

    def _take_back(self, unit: UnitBook) -> bool:
        """Take a slot back from a unit that is home; say whether it was."""
        if not (is_home(self._machine, unit) if unit.began else self._is_unused(unit)):
            if not unit.began:
                self._touched.add(unit.key)  # whose step it is for may be elsewhere
            elif is_in_vain(unit):
                self.in_vain.append(unit)
            return False
        self._give_back(unit)
        return True

    def _is_unused(self, unit: UnitBook) -> bool:
        """Say whether nothing will come of a slot of which nothing has."""
        if self.plan(unit).units:
            return False
        if unit.asker is not None:
            asker, state = unit.asker
            is_over = asker.state != state or asker.move() is None
            return asker.activity is IDLE and (is_over or not asker.up)
        others = (it for it in self._holding.values() if it is not unit and it.asker is None)
        who = others if unit.lent_for is None else (unit.lent_for,)
        return not any(unit in self.plan(it).units for it in who)

    def _take_back_room(self) -> bool:
        """Take back slots of which nothing has gone out where others were found out; say if any."""
        if not any(book.is_over for book in self.books):
            return False
        idle = [unit for unit in self.held() if not unit.moved]
        taken: list[UnitBook] = []
        for unit in idle:
            if unit.held and not unit.book.has_room((unit,)):
                mates = [it for it in idle if it.held and self._goes_with(it, unit)]
                for it in mates:
                    self._give_back(it)
                taken += mates
        for unit in taken:
            self._restart(unit)
        return bool(taken)

    def _goes_with(self, other: UnitBook, unit: UnitBook) -> bool:
        """Say whether two units have their slots for the same departure."""
        if other is unit or (unit.asker is not None and unit.asker == other.asker):
            return True
        return unit.asker is other.asker is None and unit in self.plan(other).units

    def _restart(self, unit: UnitBook) -> None:
        """Have those plan anew that pursued something with a slot that was taken back."""
        for node in unit.users():
            if node.activity is IDLE and not node.frozen:
                node.plan_move = None
                replan(self._machine, node)

    def _give_back(self, unit: UnitBook) -> None:
        unit.book.hold(unit, held=False)
        self._holding.pop(unit.key, None)
        unit.began = unit.moved = False
        unit.departures.clear()
        self._count(unit)
        self.stir(unit)
        for node in unit.members:
            self._forget(node)
        self._machine.effects.append(SlotReturned(*unit.key))
        self._dirty = True

    def unused(self) -> list[UnitBook]:
        """Return the units that have a slot with which nothing has been done, or will be."""
        return [unit for unit in self.held() if not unit.began or is_in_vain(unit)]

    def skip(self, units: Iterable[UnitBook]) -> None:
        """Take back slots that nothing can be done with; these units get no other one."""
        for unit in units:
            self._give_back(unit)
            unit.skipped = True
            self._restart(unit)

    def changes(self, node: Node) -> bool:
        """Say whether this run has another content for an object, or removes it."""
        hosts = self._machine.hosts
        return node.id in self._fresh or (hosts is not None and hosts.is_change(node))

    def standing(self) -> Standing:
        """Return what the look-ahead has to know besides states."""
        nodes, units = self._machine.nodes, self._units.values()
        silent = {it.key for it in units if not all(nodes[cob].up for cob in it.counted)}
        return Standing(
            counting={
                it.budget.name: {cob for unit in it.units for cob in unit.counted}
                for it in self.books
            },
            serving=dict(self._machine.working.still),
            leaving={node.id for unit in units for node in unit.members if node.removed},
            owed=silent.union(unit.key for unit in self.held()),
        )


def _has_skipped(asks: Departure) -> bool:
    """Say whether a unit of a departure could do nothing with a slot before."""
    return any(unit.skipped and not unit.held for unit in asks.units)
