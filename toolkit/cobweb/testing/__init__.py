"""Fakes, the seeded simulator and the conformance kit; shipped for plugin authors."""

from __future__ import annotations
