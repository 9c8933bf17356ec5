"""Hook specifications, protocols, loading and isolation of plugins."""

from __future__ import annotations
