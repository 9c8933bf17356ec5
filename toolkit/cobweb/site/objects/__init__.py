"""Types, change objects, needs and limits of a site, from nodes to values."""

from __future__ import annotations
