"""Pools on a virtual clock: a trace goes in, and what came of it under a way to decide comes out.

The decision is the real one. The rest is as plain as can be: members take a fixed time to join and
to leave, a member runs one job at a time, and nothing fails and nothing is drawn by chance. What
each decision does is watched by a referee, which counts broken promises.
"""

from __future__ import annotations

from collections.abc import Mapping

from cobweb_plugins.pools.simulation._baselines import Threshold, fixed
from cobweb_plugins.pools.simulation._result import Result, Series, ServiceResult
from cobweb_plugins.pools.simulation._simulator import Decide, simulate
from cobweb_plugins.pools.simulation._trace import Trace, trace_of

__all__ = [
    "BASELINES",
    "Decide",
    "Result",
    "Series",
    "ServiceResult",
    "Threshold",
    "Trace",
    "fixed",
    "simulate",
    "trace_of",
]

BASELINES: Mapping[str, Decide] = {"fixed": fixed, "threshold": Threshold()}
"""What decisions are compared with, by name."""
