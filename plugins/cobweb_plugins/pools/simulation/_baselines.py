"""What the decisions are compared with: nothing ever moves, and a usual autoscaler per service."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from cobweb_plugins.pools.decision import (
    Holding,
    MemberState,
    Observed,
    Outcome,
    Phase,
    Policy,
    Resource,
    Service,
    SloKind,
    View,
)


def fixed(
    view: View,
    observations: Mapping[str, Observed],
    memory: Mapping[str, Any],
    now_s: float,
    policy: Policy,
) -> Outcome:
    """Move nothing: each service keeps what it has at the start."""
    del view, observations, now_s, policy
    return Outcome(writes={}, memory=memory, notes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A threshold autoscaler for each service by itself, as those of clouds are.

    More than `grow_above` waiting jobs per member for `grow_for_s`: it takes one spare resource per
    waiting job. More than `shrink_above` of the members idle for `shrink_for_s`: it gives back what
    is idle beyond that, to the first spare pool. Either is at most `step` of its members, and at
    least one; `cooldown_s` must have passed since the last time. It never takes from another
    service, and keeps `min` and `max`. A service without a KPI of waiting work keeps what it has.

    The defaults are in the range of what node autoscalers ship with: seconds to grow, ten minutes
    of idleness to shrink, minutes to cool down; `step` is what steps are usually set to.
    """

    grow_above: float = 0.05
    grow_for_s: float = 30.0
    shrink_above: float = 0.1
    shrink_for_s: float = 600.0
    step: float = 0.2
    cooldown_s: float = 180.0

    def __call__(
        self,
        view: View,
        observations: Mapping[str, Observed],
        memory: Mapping[str, Any],
        now_s: float,
        policy: Policy,
    ) -> Outcome:
        """Return what the autoscalers of all services do in a round, in the services' order."""
        del policy
        writes = {
            id_: Holding(service=it.to, since_s=now_s)  # it has left: the spare pool has it
            for id_, it in sorted(view.holdings.items())
            if it.phase is Phase.LEAVING and it.to and view.members[id_].state is MemberState.DOWN
        }
        kept: dict[str, Any] = {}
        for name, service in view.pools.services.items():
            found = observations.get(name)
            if found and not service.direct:
                # What one has taken is not there for the next.
                view = replace(view, holdings={**view.holdings, **writes})
                before = memory.get(name, {})
                moved, kept[name] = self._scale(view, service, found, before, now_s)
                writes |= moved
        return Outcome(writes=writes, memory=kept, notes=())

    def _scale(
        self,
        view: View,
        service: Service,
        found: Observed,
        memory: Mapping[str, float],
        now_s: float,
    ) -> tuple[dict[str, Holding], dict[str, float]]:
        """Return what is written for a service, and its memory.

        That is since when it is too busy or too idle, and when it was scaled for the last time.
        """
        if not service.work_kpis:
            return {}, {}
        waiting = sum(it.value for it in found.kpis if it.name in service.work_kpis)
        members = sorted(
            id_
            for id_, it in view.holdings.items()
            if it.service == service.name and it.phase is Phase.IN
        )
        up = [id_ for id_ in members if id_ in found.members]
        idle = [id_ for id_ in up if found.members[id_].idle]
        after = {"cool": memory.get("cool", -math.inf)}
        if waiting > self.grow_above * len(up):
            after["busy"] = memory.get("busy", now_s)
        elif len(idle) > self.shrink_above * len(up) and not waiting:
            after["idle"] = memory.get("idle", now_s)
        step = max(1, math.floor(self.step * len(members)))
        moved: dict[str, Holding] = {}
        if now_s - after["cool"] < self.cooldown_s:
            return moved, after
        if now_s - after.get("busy", math.inf) >= self.grow_for_s:
            most = math.inf if service.max is None else service.max
            joining = len(members) - len(up)
            wanted = max(0, math.ceil(min(step, waiting - joining, most - len(members))))
            resources = (view.pools.resources[id_] for id_ in sorted(view.pools.resources))
            ids = (it.id for it in resources if _is_spare(view, it) and _is_fit(service, it))
            moved = dict.fromkeys(islice(ids, wanted), Holding(service=service.name, since_s=now_s))
        elif now_s - after.get("idle", math.inf) >= self.shrink_for_s:
            beyond = len(idle) - math.ceil(self.shrink_above * len(up))
            chosen = [
                it for it in idle[::-1][: min(step, beyond)] if not view.pools.resources[it].static
            ][: max(0, len(members) - service.min)]
            spare = next((it.name for it in view.pools.services.values() if it.direct), None)
            leaving = Holding(service=service.name, phase=Phase.LEAVING, to=spare, since_s=now_s)
            moved = dict.fromkeys(chosen if spare else (), leaving)
        if moved:
            after["cool"] = now_s
        return moved, after


def _is_spare(view: View, resource: Resource) -> bool:
    """Return whether a resource can be taken: a spare pool has it, or nobody."""
    holding = view.holdings.get(resource.id)
    is_free = holding is None or view.pools.services[holding.service].direct
    return is_free and not resource.static


def _is_fit(service: Service, resource: Resource) -> bool:
    """Return whether a service that waits for resources can use one."""
    filters = [slo.filter for slo in service.slos if slo.kind is SloKind.PENDING]
    return resource.type in service.holds and any(
        it is None or it.accepts(resource.properties) for it in filters
    )
