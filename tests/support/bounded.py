"""Calls in a process of their own, with bounds on memory and processor time."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMORY = 3 * 2**29
"""So many bytes a call may take above what the process has already."""

SECONDS = 25
"""So much processor time a call may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended: its exit code or the signal's name, and what it said."""

    end: int | str
    said: str


def bounded(call: Callable[[], int]) -> Outcome:
    """Run `call` in a fork of this process, whose exit code is what it returns.

    A traceback is in what it said, and the exit code is -1; SIGXCPU is the end of one that takes
    too much time, MemoryError what one meets that takes too much memory.
    """
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if not child:
            _inside(call, said.fileno())
        _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read().decode(errors="replace")
    if os.WIFSIGNALED(status):
        return Outcome(end=signal.Signals(os.WTERMSIG(status)).name, said=text)
    code = os.WEXITSTATUS(status)
    return Outcome(end=-1 if code == _BROKEN else code, said=text)


_BROKEN = 251


def _inside(call: Callable[[], int], said: int) -> None:
    code = _BROKEN
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115  for the life of the process
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115  for the life of the process
        faulthandler.enable(file=2)
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = size * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        spent = int(sum(os.times()[:2])) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent + SECONDS, spent + SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = call()
    except BaseException:  # noqa: BLE001  whatever it is, it is told
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
