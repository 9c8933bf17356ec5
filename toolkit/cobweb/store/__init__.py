"""The state database behind the journal: states, locks, slots, runs, generations, the site lock.

Values are imported at once; what needs SQLAlchemy (half a second) is loaded when it is first asked
for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cobweb._lazy import on_demand
from cobweb.store._process import this_process, why_dead
from cobweb.store._values import (
    CanaryWritten,
    CobRecord,
    CobRenamed,
    Entry,
    EventWritten,
    Forgotten,
    Generation,
    GenerationInfo,
    GrantGone,
    GrantWritten,
    HostForgotten,
    HostFound,
    HostGivenUp,
    HostLost,
    HostSwitched,
    LockOwner,
    ResultsWritten,
    RunInfo,
    RunRecord,
    ServedWritten,
    SlotGone,
    SlotWritten,
    StateWritten,
    TransitionBegan,
    TransitionFinished,
    TransitionResult,
    WorkEnded,
)

if TYPE_CHECKING:
    from cobweb.store._site_lock import HeldLock, Patience, SiteLock
    from cobweb.store._store import Store
else:
    _LOCK = {"cobweb.store._site_lock": "HeldLock Patience SiteLock"}
    __getattr__ = on_demand(__name__, {**_LOCK, "cobweb.store._store": "Store"})

__all__ = [
    "CanaryWritten",
    "CobRecord",
    "CobRenamed",
    "Entry",
    "EventWritten",
    "Forgotten",
    "Generation",
    "GenerationInfo",
    "GrantGone",
    "GrantWritten",
    "HeldLock",
    "HostForgotten",
    "HostFound",
    "HostGivenUp",
    "HostLost",
    "HostSwitched",
    "LockOwner",
    "Patience",
    "ResultsWritten",
    "RunInfo",
    "RunRecord",
    "ServedWritten",
    "SiteLock",
    "SlotGone",
    "SlotWritten",
    "StateWritten",
    "Store",
    "TransitionBegan",
    "TransitionFinished",
    "TransitionResult",
    "WorkEnded",
    "open_store",
    "this_process",
    "why_dead",
]


def open_store(url: str, site_dir: Path, *, create: bool = True) -> Store:
    """Open the state database of a site; the caller closes it.

    A relative SQLite path starts at `site_dir`; a missing file is made (mode 0600), its directory
    too (0700). With `create=False` nothing is made and nothing can be written, and a missing
    database reads as an empty one. StoreError where the database cannot be used.
    """
    from cobweb.store._database import open_database
    from cobweb.store._store import Store

    return Store(open_database(url, site_dir, create=create))
