"""The canary of a limit: who goes first, and whether the others may follow.

Until the canary is through, no more than `first` objects of all groups together take room. When
somebody else wants room and these are all home again, a pause is asked for; after it each of them
is checked once more, and if all are home still, the limit opens for good. One that fails, or is
found elsewhere, goes on as any object does: the others wait until it is home, and then for another
pause. With nobody waiting there is no pause.

Objects that were out before the canary began are none of it, and may come home.

Another engine of the run may know objects that this one does not. Who of them went first and was
not home when that engine ended keeps the limit closed here; who was home has done its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum

from cobweb.engine._node import CHECKING, IDLE, Node
from cobweb.engine._values import Canary
from cobweb.model import CobId, Limit

__all__ = ["CanaryWatch"]


class _Stage(StrEnum):
    OUT = "out"  # not all have been chosen, or not all are home
    PAUSED = "paused"
    CHECKED = "checked"
    THROUGH = "through"


class CanaryWatch:
    """The canary of one limit.

    `chosen` went first, `away` are those of them that are not home, `waiting` who was refused room
    on its behalf. `members` are the owned objects that the limit speaks of, here or in an earlier
    engine for which they went first.
    """

    __slots__ = ("_stage", "away", "chosen", "limit", "members", "waiting")

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.chosen: set[CobId] = set()
        self.members: set[CobId] = set()
        self.away: set[CobId] = set()
        self.waiting: set[CobId] = set()
        self._stage = _Stage.OUT

    def take_over(self, before: Canary, owned: AbstractSet[CobId]) -> None:
        """Go on where another engine was; who is owned is seen when states are known."""
        self.chosen = set(before.cobs)
        self.away = set(before.away)
        self.members |= {cob for cob in before.cobs if cob in owned}
        if before.through:
            self._stage = _Stage.THROUGH

    @property
    def value(self) -> Canary:
        """What another engine has to know to go on."""
        return Canary(
            cobs=frozenset(self.chosen),
            away=frozenset(self.away),
            through=self._stage is _Stage.THROUGH,
        )

    @property
    def paused(self) -> bool:
        """Whether the pause has been asked for and is not over."""
        return self._stage is _Stage.PAUSED

    def refuses(self, cob: CobId) -> bool:
        """Say whether an object may not take room yet."""
        if self._stage is _Stage.THROUGH or cob in self.chosen:
            return False
        return len(self.chosen) >= self.limit.first

    def choose(self, cob: CobId) -> None:
        """Take note of an object that takes room: it is a canary if it is among the first."""
        if self._stage is not _Stage.THROUGH:
            self.chosen.add(cob)

    def look(self, node: Node) -> None:
        """See where an object is after its state or activity changed."""
        if node.id not in self.chosen:
            return
        calm = node.activity is IDLE and node.up and not (node.suspect or node.failed)
        if calm and node.at_home(node.state):
            self.away.discard(node.id)
        else:
            self.away.add(node.id)

    def begin_pause(self) -> bool:
        """Say whether it is time for a pause, which begins then."""
        if self._stage is not _Stage.OUT or self.away or not self.waiting:
            return False
        self._stage = _Stage.PAUSED
        return True

    def end_pause(self) -> tuple[CobId, ...]:
        """Return who is to be checked now, sorted; nobody where one has left home in the pause."""
        self._stage = _Stage.OUT if self.away else _Stage.CHECKED
        return () if self.away else tuple(sorted(self.chosen & self.members))

    def end_checks(self, nodes: Mapping[CobId, Node]) -> bool:
        """See what the checks have found; say whether the canary is through now."""
        if self._stage is not _Stage.CHECKED:
            return False
        if not self.away:
            self._stage = _Stage.THROUGH
            return True
        if any(nodes[cob].up and nodes[cob].activity is not CHECKING for cob in self.away):
            self._stage = _Stage.OUT
        return False
