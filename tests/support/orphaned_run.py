"""A controller that is killed when it has just started a run, or frozen just before that.

`python -m tests.support.orphaned_run HOW FILE WORDS...` is `cobweb WORDS...`. Where HOW is `kill`
its first run (`apply` or `rollback`) is stopped (SIGSTOP) before it can have read anything, its
process id is written to FILE, and the controller is killed by SIGKILL. Where HOW is `freeze` the
controller's own process id is written there, and it is stopped before it starts its first run. One
that starts no run goes on, and ends as it does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cobweb.cli import main

__all__: list[str] = []

RUNS = frozenset({"apply", "rollback"})


def disturb(how: str, file: Path) -> None:
    """Have the first run of this process disturbed."""
    start = subprocess.Popen.__init__

    def is_first_run(args: Any) -> bool:
        return not RUNS.isdisjoint(args) and not file.exists()

    def killed(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        start(self, args, *rest, **options)
        if is_first_run(args):
            os.kill(self.pid, signal.SIGSTOP)
            file.write_text(f"{self.pid}", encoding="ascii")
            os.kill(os.getpid(), signal.SIGKILL)

    def frozen(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        if is_first_run(args):
            file.write_text(f"{os.getpid()}", encoding="ascii")
            os.kill(os.getpid(), signal.SIGSTOP)
        start(self, args, *rest, **options)

    way = {"kill": killed, "freeze": frozen}[how]
    subprocess.Popen.__init__ = way  # type: ignore[method-assign]  # to be disturbed


if __name__ == "__main__":
    disturb(sys.argv[1], Path(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
