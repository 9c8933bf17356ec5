"""What the engine remembers of one object: its state, its requests, its locks (section 5.4).

There are half a million of these, so they are plain classes with slots: what most objects never
have is None until they have it, and what the rules ask for at every look - the target, the states
with locks out - is kept true by the few methods that change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from cobweb.engine._needs import Wanted
from cobweb.engine._tables import Move, TypeTable
from cobweb.model import UNKNOWN, Cob, CobId, CobType, LockNeed, State, Transition, TransitionNeed

if TYPE_CHECKING:
    from cobweb.engine.budgets._units import Standing


class Activity(StrEnum):
    """What is under way on the object's host."""

    IDLE = "idle"
    CHECKING = "checking"
    MOVING = "moving"


IDLE, CHECKING, MOVING = Activity

IMMOVABLE, BROKEN, UNCHECKED, CHURNED, UNPLANNED, GIVEN_UP = 1, 2, 4, 8, 16, 32
"""Why an object starts no transition in this run: it may not, a transition failed, the last check
did, it was too restless, it would go out though the plan did not say so, it waits for what will not
come; bits of `Node.stuck`."""

STAY: State = "(stay)"
"""The goal of an object that moves only when it is asked to, and stays where that left it."""

OTHER_LIFE = UNKNOWN
"""Stands in `plan_asked` for the forgotten plan behind locks of an earlier life; no plan has it."""


@dataclass(slots=True, eq=False)
class Word:
    """What a holder said last to a locked object, and whether it was given: one side of a pair.

    `state` is what is wanted ("" for nothing more), under the stamp (`incarnation`, `seq`);
    incarnation 0 marks a lock taken over from an earlier life, which is known by no stamp. None of
    these ever changes: who has something else to say says a new word. `granted` says that the
    holder has the lock, `recalled` that the locked object has asked for it back. `restored` marks a
    grant that was out when this life began and whose holder is elsewhere: only a holder that has
    heard of this life can end it.

    `holder` and `locked` are the two objects as far as this engine owns them. Where it owns both,
    they have the same word: it was said and heard at once.
    """

    state: State
    incarnation: int
    seq: int
    holder: Node | None
    locked: Node | None
    granted: bool = False
    recalled: bool = False
    restored: bool = False


@dataclass(slots=True, eq=False)
class Node:
    """One owned object.

    `target` is where it wants to go (rule 1), `goal` where it goes when nobody asks. `known` says
    that its host answers and that its state is known: the rules may move it. `frozen` says that its
    locks must stay as they are because something may be going on at the host. `stuck` are the
    reasons why it starts no transition any more in this run. It is `queued` to be looked at; with
    `news`, as something has changed for it.

    `wishes` are its own words, by locked object; `missing` counts those that ask for a lock and
    have none, `recalled` names those that are asked back. `pending` and `lent` are the words of
    others on it, by state and holder, without and with a lock; `lent_states` is the sorted keys of
    `lent`, `at_rest` counts the lent locks that are not asked back. `strangers` has the last words
    of holders elsewhere, also of those who want nothing more. A word that names a group of states
    stands among those for one of its states, the one that `grouped` has for its holder: the state
    that the object is in, or else the nearest one, found anew whenever it gets into another state.

    The plan is which needs it pursues: those of the states in `plan_lent`, which have locks out,
    of the state `plan_asked`, because others ask for it, and of the step `plan_move`. `base` are
    the needs of what is lent; `twisted` says that the plan wants two states of one object at once.

    `suspect` marks a transition whose host vanished: it may still go on; `late` a check of which
    the same is true. `renewed` gives the object a new incarnation as soon as it has been checked.
    `pusher` is who last asked for a state or made it move; `new_plans` counts changes of the plan
    within one `epoch`, the time from one end of a check or transition to the next. `directive` is
    the state that an order of the look-ahead has the object go to, or stay in, `serves` the one
    that it stays in for steps that wait for nothing else. Nobody moves it from the state in which a
    budget has it `held`, its goal then. `taken` counts the steps taken in this run, by their
    numbers.

    `absent` objects are not there: not yet, as their host has not switched, or not any more
    (`gone`). `removed` ones go to their `remove` state before it does; those that `leaves` marks
    are not in the goal either. `standing` is what the object is to budgets, None for nothing.
    """

    cob: Cob
    goal: State
    table: TypeTable
    incarnation: int
    id: CobId = field(init=False)
    state: State = UNKNOWN
    target: State = UNKNOWN
    activity: Activity = IDLE
    step: Transition | None = None
    step_needs: list[TransitionNeed] | None = None
    lock_needs: list[LockNeed] | None = None
    up: bool = True
    known: bool = False
    frozen: bool = False
    twisted: bool = False
    queued: bool = False
    news: bool = False
    suspect: bool = False
    late: bool = False
    renewed: bool = False
    absent: bool = False
    removed: bool = False
    leaves: bool = False
    gone: bool = False
    held: State = ""
    standing: Standing | None = None
    wishes: dict[CobId, Word] = field(default_factory=dict)
    pending: dict[State, dict[CobId, Word]] = field(default_factory=dict)
    lent: dict[State, dict[CobId, Word]] = field(default_factory=dict)
    grouped: dict[CobId, State] | None = None
    strangers: dict[CobId, Word] | None = None
    recalled: set[CobId] | None = None
    lent_states: tuple[State, ...] = ()
    plan_lent: tuple[State, ...] = ()
    plan_asked: State = ""
    plan_move: Move | None = None
    base: Wanted = ()
    pusher: CobId | None = None
    directive: State = ""
    serves: State = ""
    taken: list[int] | None = None
    stuck: int = 0
    seq: int = 0
    missing: int = 0
    at_rest: int = 0
    epoch: int = 0
    new_plans: int = 0

    def __post_init__(self) -> None:
        self.id = self.cob.id
        self.target = UNKNOWN if self.goal == STAY else self.goal

    @property
    def type(self) -> CobType:
        """The object's type."""
        return self.cob.type

    @property
    def needs(self) -> tuple[TransitionNeed | LockNeed, ...]:
        """All that its own steps and states depend on."""
        return (*(self.step_needs or ()), *(self.lock_needs or ()))

    @property
    def failed(self) -> bool:
        """Whether its transition failed in this run, or its last check."""
        return bool(self.stuck & (BROKEN | UNCHECKED))

    @property
    def is_ready(self) -> bool:
        """Whether it has all that its next step needs, but for room in limits."""
        may_not = self.frozen or not self.known or self.missing or self.twisted or self.lent
        return self.plan_move is not None and not may_not and not self.plan_asked

    @property
    def away(self) -> bool:
        """Whether it is elsewhere than where it goes when nobody asks, or nobody knows where."""
        return self.state == UNKNOWN if self.goal == STAY else self.state != self.goal

    def become(self, cob: Cob, table: TypeTable, goal: State) -> None:
        """Make another content, type and goal of the object; its state is the caller's to say."""
        self.cob, self.table, self.goal = cob, table, goal
        self.taken = None
        for holder, before in tuple((self.grouped or {}).items()):
            word = self._word(holder, before)
            self.drop(holder, word)
            self.put(holder, word)
        self.retarget()

    def aim(self, goal: State) -> None:
        """Have the object go somewhere else when nobody asks."""
        self.goal = goal
        self.retarget()

    def retarget(self) -> None:
        """Rule 1: the requested state of highest priority; with no request, the goal.

        Where the look-ahead has found an order, what that says (see `_detour`).
        """
        pending, lent = self.pending, self.lent
        if (self.directive or self.serves) and not self.held:
            self.target = self.directive or self.serves
            return
        self.target = self.state if self.goal == STAY else self.goal
        if self.held or (not pending and not lent):
            return
        for state in self.table.states:
            if state in lent or (state in pending and (not self.leaves or self._is_heard(state))):
                self.target = state
                return

    def _is_heard(self, state: State) -> bool:
        """Say whether what is to be removed is where it is asked to be, or is asked by its like."""
        holders = (word.holder for word in self.pending[state].values())
        is_like = not self.gone and any(it is None or it.removed for it in holders)
        return is_like or state == self.state

    def move(self) -> Move | None:
        """Return the first move of the way to the target, None where it is there or can't go."""
        move = self.table.moves[self.state].get(self.target)
        return None if move is None or self.stuck else move

    def asking(self, state: State) -> set[CobId]:
        """Return all who request `state` or hold it."""
        return {*self.pending.get(state, ()), *self.lent.get(state, ())}

    def asks(self) -> int:
        """Return of how many others the last words are remembered."""
        silent = sum(not word.state for word in (self.strangers or {}).values())
        buckets = (*self.pending.values(), *self.lent.values())
        return silent + sum(len(bucket) for bucket in buckets)

    def locks(self) -> list[tuple[CobId, State]]:
        """Return who has a lock on the object, and on which state."""
        return [(it, word.state) for words in self.lent.values() for it, word in words.items()]

    def put(self, holder: CobId, word: Word) -> None:
        """Count a word with a state among the requests or among the locks."""
        index = self.lent if word.granted else self.pending
        state = self._sorted_in(holder, word.state) if self.table.groups else word.state
        bucket = index.get(state)
        if bucket is not None:
            bucket[holder] = word
        else:
            index[state] = {holder: word}
            self.retarget()
        if word.granted:
            self.lent_states = tuple(sorted(self.lent))
            if not word.recalled:
                self.at_rest += 1

    def drop(self, holder: CobId, word: Word) -> None:
        """Forget a word with a state that its holder has put another one in place of."""
        index = self.lent if word.granted else self.pending
        state = word.state if self.grouped is None else self.grouped.pop(holder, word.state)
        bucket = index[state]
        del bucket[holder]
        if word.granted and not word.recalled:
            self.at_rest -= 1
        if bucket:
            return
        del index[state]
        if word.granted:
            self.lent_states = tuple(sorted(self.lent)) if self.lent else ()
        self.retarget()

    def means(self, holder: CobId, state: State) -> State:
        """Return the state that a holder's word for `state`, perhaps a group, stands for now."""
        found = None if self.grouped is None else self.grouped.get(holder)
        return found if found and self._word(holder, found).state == state else state

    def regroup(self) -> None:
        """Find anew what words for groups stand for, in a state that the object has got into."""
        for holder, before in tuple((self.grouped or {}).items()):
            word = self._word(holder, before)
            if self.table.groups[word.state][self.state] != before:
                self.drop(holder, word)
                self.put(holder, word)

    def _sorted_in(self, holder: CobId, state: State) -> State:
        """Return among which state's words one for `state` belongs, and note it if a group's."""
        group = self.table.groups.get(state)
        if group is None:
            return state
        if self.grouped is None:
            self.grouped = {}
        self.grouped[holder] = group[self.state]
        return self.grouped[holder]

    def _word(self, holder: CobId, state: State) -> Word:
        """Return the word of a holder that is among those for a state."""
        index = self.pending if holder in self.pending.get(state, ()) else self.lent
        return index[state][holder]

    def lend(self, state: State) -> dict[CobId, Word]:
        """Turn all requests for a state into locks, and return them."""
        words = self.pending.pop(state)
        for word in words.values():
            word.granted = True
        self.at_rest += len(words)
        if state in self.lent:
            self.lent[state].update(words)
        else:
            self.lent[state] = words
            self.lent_states = tuple(sorted(self.lent))
        return words
