"""Built-in plugin: resources move between services by need (Hedeby)."""

from __future__ import annotations

__all__ = ["cobweb_interface"]

cobweb_interface = 1
