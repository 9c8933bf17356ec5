"""What can never work in a graph, found before anything runs."""

from __future__ import annotations
