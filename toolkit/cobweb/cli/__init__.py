"""The command line: one module per command, rendering, exit codes."""

from __future__ import annotations

from cobweb.cli._main import ExitCode, main

__all__ = ["ExitCode", "main"]
