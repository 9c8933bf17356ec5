"""Machines from the power button to a running system (Cluster-on-Demand)."""

from __future__ import annotations
