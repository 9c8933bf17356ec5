"""The command line: one module per command, rendering, exit codes."""

from __future__ import annotations
