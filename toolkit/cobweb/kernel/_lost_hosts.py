"""Lost hosts, and when to ask them again: what is behind a router answers when that is back.

A host is lost by a job that did not reach it. It is asked again when something that its objects
need has ended a transition since that job was made, so never more often than there are transitions.
"""

from __future__ import annotations

from cobweb.model import CobId, Graph, host_of


class LostHosts:
    """Counts time in job numbers; `graph` says what the objects of a host need on other hosts."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._needs: dict[str, list[tuple[CobId, CobId]]] | None = None
        self._behind: dict[CobId, dict[str, int]] = {}
        self._moved: dict[CobId, int] = {}
        self.due: set[str] = set()
        """Hosts that are to be asked again."""

    def lost(self, host: str, number: int) -> None:
        """Take note that job `number` has not reached a host."""
        self.due.discard(host)
        for _, cob in self._needs_of(host):
            self._behind.setdefault(cob, {})[host] = number
            if self._moved.get(cob, -1) > number:
                self.due.add(host)

    def moved(self, cob: CobId, number: int) -> None:
        """Take note that an object has ended a transition, when `number` was the last job."""
        self._moved[cob] = number
        self.due.update(self._behind.get(cob, ()))

    def found(self, host: str) -> None:
        """Take note that a host answers."""
        self.due.discard(host)
        for _, cob in self._needs_of(host):
            self._behind.get(cob, {}).pop(host, None)

    def objects(self, host: str) -> list[CobId]:
        """Return the objects of a host that need something on another one."""
        return [cob for cob, _ in self._needs_of(host)]

    def _needs_of(self, host: str) -> list[tuple[CobId, CobId]]:
        if self._needs is None:
            self._needs = {}
            for need in self._graph.needs:
                if host_of(need.cob) != host_of(need.on):
                    self._needs.setdefault(host_of(need.cob), []).append((need.cob, need.on))
        return self._needs.get(host, [])
