"""Policies: what an urgency of one service weighs beside that of another (Hedeby, 1.1.3.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from cobweb_plugins.pools.decision._pools import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A service as a policy sees it: `entitled` is how many resources its `share` stands for."""

    service: Service
    entitled: int


class Policy(Protocol):
    """The extension point `pool_policy`: a class with a name that weighs urgencies.

    With constant KPIs pools come to rest if a weight depends on nothing but the arguments, grows
    with the urgency, and does not grow with `index`.
    """

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str]

    def weight(self, standing: Standing, urgency: float, index: int) -> float:
        """Return what the `index`-th resource (from 1) that a service needs weighs: 0 or more."""
        ...


class Priority:
    """Urgency x priority (example 1.7)."""

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str] = "priority"

    def weight(self, standing: Standing, urgency: float, index: int) -> float:
        """Return the urgency times the service's priority."""
        del index
        return urgency * standing.service.priority


class Share:
    """Services are sure of their shares (example 1.8); beyond them the urgency counts.

    So a service that needs no more than its share keeps it, and gets what it lacks of it first.
    """

    point: ClassVar[str] = "pool_policy"
    name: ClassVar[str] = "share"

    def weight(self, standing: Standing, urgency: float, index: int) -> float:
        """Return infinity within the share, else the urgency."""
        return math.inf if index <= standing.entitled and urgency > 0 else urgency
