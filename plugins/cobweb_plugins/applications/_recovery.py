"""What an application does about members that are late, away or in trouble: its policies. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

_IN_WORDS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Trouble(StrEnum):
    """What can befall a phase: it ends badly, its health is bad, or nobody watches it any more."""

    EXIT = "exit"
    HEALTH = "health"
    LOST = "lost"


class Do(StrEnum):
    """What is done about trouble: on the node, for the whole application, or nothing."""

    RESTART = "restart"
    RESTART_ALL = "restart-all"
    CONTINUE = "continue"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """A barrier opens after `wait_s` for those that have arrived, where these are enough.

    With fewer, `otherwise` says what is done. Without a time it waits for all.
    """

    wait_s: float | None = None
    otherwise: Do = Do.ABORT


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of an application, which begins on a node after others are done there.

    With a `barrier` it begins on all members at once, when they have arrived.
    """

    name: str
    after: tuple[str, ...]
    barrier: Barrier | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What is done about trouble of the kinds `on`, so many `times`; `otherwise` about all else."""

    on: Collection[Trouble] = frozenset(Trouble)
    do: Do = Do.CONTINUE
    times: int = 3
    otherwise: Do = Do.CONTINUE

    def answer(self, trouble: Trouble, starts: int, attempt: int, *, is_final: bool) -> Do:
        """Return what is done about trouble of a phase.

        It was started `starts` times in this instance, which is the `attempt`-th one. What
        `is_final` cannot be started again by itself.
        """
        done = {Do.RESTART: starts - 1, Do.RESTART_ALL: attempt - 1}.get(self.do)
        is_over = done is not None and done >= self.times
        cannot = is_final and self.do is Do.RESTART
        return self.otherwise if trouble not in self.on or is_over or cannot else self.do


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaps:
    """Who goes away so many `times` within some time is left out."""

    times: int
    within_s: float

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"{times} within {in_words(self.within_s)}"


class Presence:
    """Who of the members is away, since when, and how often; times are of one clock, in seconds."""

    def __init__(self, flaps: Flaps | None, lost_after_s: float | None) -> None:
        self._flaps, self._lost_after_s = flaps, lost_after_s
        self._since: dict[str, float] = {}
        self._begun: dict[str, deque[float]] = {}
        self.away: dict[str, str] = {}

    def gone(self, host: str, why: str, now: float) -> bool:
        """Take down that a host does not answer, and say whether it was there before."""
        is_new = host not in self.away
        self.away[host] = why
        if is_new:
            self._since[host] = now
            if self._flaps:
                self._begun.setdefault(host, deque(maxlen=self._flaps.times)).append(now)
        return is_new

    def back(self, host: str) -> bool:
        """Take down that a host answers, and say whether it was away before."""
        self._since.pop(host, None)
        return self.away.pop(host, None) is not None

    def flapping(self) -> Mapping[str, str]:
        """Return who has gone away too often within the time for that, with the reason."""
        if self._flaps is None:
            return {}
        return {
            host: f"it was away {self._flaps}"
            for host, begun in self._begun.items()
            if len(begun) == self._flaps.times and begun[-1] - begun[0] <= self._flaps.within_s
        }

    def lost(self, now: float) -> Mapping[str, str]:
        """Return who has been away for too long, with the reason."""
        if self._lost_after_s is None:
            return {}
        why = f"no answer for {in_words(self._lost_after_s)}"
        return {
            host: f"{why}: {self.away[host]}"
            for host, since in self._since.items()
            if now - since >= self._lost_after_s
        }

    def next_loss(self, now: float) -> float:
        """Return when the next member will have been away for too long; infinity for never."""
        after_s = math.inf if self._lost_after_s is None else self._lost_after_s
        losses = (since + after_s for since in self._since.values())
        return min((it for it in losses if it > now), default=math.inf)


def in_words(seconds: float) -> str:
    """Return a time as a site says it: `1h30m`, `0.5s`."""
    if seconds < 1 or seconds != int(seconds):
        return f"{seconds:g}s"
    said, left = "", int(seconds)
    for size, unit in _IN_WORDS:
        number, left = divmod(left, size)
        said += f"{number}{unit}" if number else ""
    return said
