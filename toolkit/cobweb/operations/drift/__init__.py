"""Drift: every check once, and what differs from what was left."""

from __future__ import annotations
