"""Drives the engine: executors, journal, site lock, signals, events."""

from __future__ import annotations
