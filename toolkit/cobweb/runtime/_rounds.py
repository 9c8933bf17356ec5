"""The acts of a run in their order; in rounds where a limit lets only some removals go at a time.

What is to be removed is looked at, then removed; hosts switch, and the site comes about.
Whatever a removal brings down stays down until its host has switched, and counts in the limits as
long. So a limit may be full before all is removed: then the hosts that could switch bring their
objects up, and the next round removes more. A round that removes nothing is the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from cobweb.engine import WaitKind
from cobweb.runtime._acts import Act, Opening, SoFar
from cobweb.runtime._course import Course

__all__ = ["Rounds"]


class Rounds:
    """The openings of one run, one after the other; to be gone through once."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._removed = SoFar()

    def __iter__(self) -> Iterator[Opening]:
        """Yield the openings; whether another one follows is found out as they are played."""
        if (look := self._course.removal_act.look) is not None:
            yield look
        yield self._course.removal_act
        yield self._settle
        while self._is_held_up():
            yield self._remove_more
            yield self._settle

    def _settle(self, so_far: SoFar) -> Act:
        self._removed = so_far
        return self._course.site_act(so_far)

    def _remove_more(self, so_far: SoFar) -> Act | None:
        self._course = self._course.after(self._removed, so_far)
        return self._course.removal_act(so_far)

    def _is_held_up(self) -> bool:
        """Say whether a limit held removals up, though others came through in this round."""
        course, so_far = self._course, self._removed
        if not course.site_act.switching(so_far).arrived:
            return False
        waits = (wait for wait in so_far.waits if wait.cob in course.removal.removed)
        return any(link.kind is WaitKind.LIMIT for wait in waits for link in wait.chain)
