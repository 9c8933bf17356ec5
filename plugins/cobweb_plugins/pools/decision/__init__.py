"""The decision who gets which resource: pure, so it can be replayed on a trace.

`decide` takes the pools of a site, who holds what, what the services have answered and a memory,
and returns what to write. It looks at no clock, file or host (Hedeby, 1.1.3.2).
"""

from __future__ import annotations

from cobweb_plugins.pools.decision._decide import (
    ROUNDS_OF_A_CIRCLE,
    Need,
    decide,
    needs,
    usages,
)
from cobweb_plugins.pools.decision._filters import Filter, Value
from cobweb_plugins.pools.decision._policies import Policy, Priority, Share, Standing
from cobweb_plugins.pools.decision._pools import (
    AdapterFacts,
    Budget,
    Pools,
    Resource,
    SectionReader,
    Service,
    Slo,
    SloKind,
    Window,
    expanded,
    pools_of,
)
from cobweb_plugins.pools.decision._state import (
    Holding,
    Kpi,
    Member,
    MemberState,
    Note,
    NoteKind,
    Observed,
    Order,
    Outcome,
    Phase,
    Seen,
    SeenState,
    ServiceState,
    View,
)

__all__ = [
    "ROUNDS_OF_A_CIRCLE",
    "AdapterFacts",
    "Budget",
    "Filter",
    "Holding",
    "Kpi",
    "Member",
    "MemberState",
    "Need",
    "Note",
    "NoteKind",
    "Observed",
    "Order",
    "Outcome",
    "Phase",
    "Policy",
    "Pools",
    "Priority",
    "Resource",
    "SectionReader",
    "Seen",
    "SeenState",
    "Service",
    "ServiceState",
    "Share",
    "Slo",
    "SloKind",
    "Standing",
    "Value",
    "View",
    "Window",
    "decide",
    "expanded",
    "needs",
    "pools_of",
    "usages",
]
