"""The command line, in process, for the tests of the plugin `cluster`."""

from __future__ import annotations

from tests.cli.conftest import check_schema, run

__all__ = ["check_schema", "run"]
