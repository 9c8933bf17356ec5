"""Fixtures of the tests of agents."""

from __future__ import annotations

from tests.cli.conftest import check_schema, run

__all__ = ["check_schema", "run"]
