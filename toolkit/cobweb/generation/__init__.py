"""What changed between two sites; pure."""

from __future__ import annotations
