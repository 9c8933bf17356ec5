"""The database behind the journal."""

from __future__ import annotations
