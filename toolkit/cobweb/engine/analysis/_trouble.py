"""What the analysis of a graph says: values and their wording."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cobweb.errors import Place
from cobweb.model import CobId, State


class TroubleKind(StrEnum):
    """Why something can never work."""

    STATE = "state"  # a need names a state that the type does not have
    SELF = "self"  # an object needs itself
    CONTRADICTION = "contradiction"  # one step or lock needs two states of one object at once
    NO_WAY = "no-way"  # no way leads to a state that must be reached
    CIRCLE = "circle"  # objects wait for each other in a circle
    PUSH = "push"  # preferences push each other out for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleLink:
    """One step of a circle: `cob` can't do `step` without `on` in `state`."""

    cob: CobId
    step: str
    on: CobId
    state: State
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.cob}: {self.step} needs {self.on} {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that can never work; `cycle` is printed one line per link, `place` the first's."""

    kind: TroubleKind
    cobs: tuple[CobId, ...]
    message: str
    cycle: tuple[TroubleLink, ...] = ()
    place: Place | None = None

    def __str__(self) -> str:
        return "\n  ".join([self.message, *(str(link) for link in self.cycle)])
