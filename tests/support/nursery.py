"""Where runs of `cobweb` are begun that die when they are told to, or live, without a new start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NEVER", "Ended", "Nursery"]

CHECKOUT = Path(__file__).parents[2]
NEVER = 10_000


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, and what it said."""

    code: int
    out: str
    err: str


class Nursery:
    """Runs `cobweb` in processes that die at a moment; see `tests/support/dying.py`."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._outputs = (folder / "out", folder / "err")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.dying"],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )

    def run(self, moment: int, arguments: Sequence[str]) -> Ended:
        """Run `cobweb` to its end, or until it dies at a moment."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([moment, arguments, *map(str, self._outputs)]) + "\n")
        stdin.flush()
        code = int(stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in self._outputs)
        return Ended(code, out, err)

    def close(self) -> None:
        """End it; no run is at work."""
        self._process.communicate()
