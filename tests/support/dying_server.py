"""A controller that kills itself at one of the starts of its child processes.

`python -m tests.support.dying_server MOMENT WORDS...` is `cobweb WORDS...`. There are two moments
for each child: 2k is before child k (from 0) is started, 2k + 1 when it runs and nothing was done
about it yet. The death is SIGKILL's. One that comes to fewer moments lives, and ends as it does.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from typing import Any

from cobweb.cli import main

__all__: list[str] = []


def die_at(moment: int) -> None:
    """Have this process die at a moment."""
    moments, start = itertools.count(), subprocess.Popen.__init__

    def pass_moment() -> None:
        if next(moments) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def started(self: Any, *args: Any, **options: Any) -> None:
        pass_moment()
        start(self, *args, **options)
        pass_moment()

    subprocess.Popen.__init__ = started  # type: ignore[method-assign]  # to die


if __name__ == "__main__":
    die_at(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
