"""One run: drives the engine with an executor, journal first, events told."""

from __future__ import annotations
