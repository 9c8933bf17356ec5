"""Demos as people run them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.needed import need_fabric

ROOT = Path(__file__).parents[2]

Play = Callable[[str, Path, int], None]


@pytest.fixture
def play() -> Play:
    """Return what plays the demo of a site, with a folder for what it leaves, in so many seconds.

    It must end well; nothing else is left.
    """
    need_fabric()

    def call(site: str, results: Path, seconds: int) -> None:
        # Paths of sockets have no room for the long name of a test's own folder.
        with tempfile.TemporaryDirectory(prefix="lab") as folder:
            done = subprocess.run(
                [sys.executable, f"inventories/{site}/demo.py", str(results)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": folder, "COLUMNS": "80"},
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
            assert list(Path(folder).iterdir()) == []

    return call
