"""Cobweb moves whole clusters between states in the right order, across nodes."""

from __future__ import annotations

__version__ = "0.1.0"
