"""The referee: counts broken promises by what happens to machines and jobs, not by what is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cobweb_plugins.pools.decision import Holding, Phase, Service


class Referee:
    """Counts violations of R1, R3 and R4; `members` is how many resources each service has.

    It keeps books of its own: who a resource works for from the begin of its join to the end of
    its leave, and which job began where.
    """

    def __init__(self, services: Mapping[str, Service]) -> None:
        self.violations = {"R1": 0, "R3": 0, "R4": 0}
        self.members: Counter[str] = Counter()
        self._services = services
        self._works_for: dict[str, str] = {}
        self._lost: Counter[str] = Counter()
        self._begun: dict[str, set[int]] = {}
        self._at_work: dict[str, tuple[str, int, float]] = {}

    def joins(self, resource: str, service: str) -> None:
        """Note that a resource begins to work for a service: it must not for another one."""
        if self._works_for.get(resource, service) != service:
            self.violations["R1"] += 1
        self._works_for[resource] = service

    def leaves(self, resource: str) -> None:
        """Note that a resource works for nobody any more; a job that is still there is lost."""
        self.loses(resource)
        self._works_for.pop(resource, None)

    def loses(self, resource: str) -> None:
        """Note that the job of a resource, if it has one, will not come to its end."""
        if lost := self._at_work.pop(resource, None):
            self.violations["R4"] += 1
            self._lost[lost[0]] += 1

    def starts(self, resource: str, service: str, job: int, end_s: float) -> None:
        """Note that a job begins, which must be the first time, on a resource that has none."""
        begun = self._begun.setdefault(service, set())
        is_right = self._works_for.get(resource) == service and resource not in self._at_work
        if job in begun or not is_right:
            self.violations["R4"] += 1
        begun.add(job)
        self._at_work[resource] = (service, job, end_s)

    def ends(self, resource: str, service: str, job: int, now_s: float) -> None:
        """Note that a job ends: that which began there, and when it is done."""
        if self._at_work.pop(resource, None) != (service, job, now_s):
            self.violations["R4"] += 1

    def counts_jobs(self, service: str, came: int, waiting: int, finished: int) -> None:
        """Note how many jobs of a service there were: none of them may be missing in the end."""
        running = sum(it[0] == service for it in self._at_work.values())
        if came != waiting + finished + running + self._lost[service]:
            self.violations["R4"] += 1

    def decides(self, before: Mapping[str, Holding], writes: Mapping[str, Holding | None]) -> None:
        """Note a decision: no service may be taken below its `min` by it, or above its `max`."""
        change: Counter[str] = Counter()
        for resource, after in writes.items():
            for holding, step in ((before.get(resource), -1), (after, 1)):
                if holding is not None and holding.phase is Phase.IN:
                    change[holding.service] += step
        for name in sorted(change):
            self.members[name] += change[name]
            service, now = self._services[name], self.members[name]
            most = now if service.max is None else service.max
            if (change[name] < 0 and now < service.min) or (change[name] > 0 and now > most):
                self.violations["R3"] += 1
