"""Plans: what would happen, predicted with the real engine, and what is refused."""

from __future__ import annotations
